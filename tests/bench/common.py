"""What every bench needs: servers as child processes, their CPU and memory, medians and ratios.

Linux only: it reads /proc. A server's agent answers texts as README.md beside this file says.
"""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
PEERS = TOP / ".peers"
PYTHON = PEERS / "venv" / "bin" / "python"  # the same interpreter runs the SDK's server and ours
NODE = PEERS / "node"
TICKS = os.sysconf("SC_CLK_TCK")
STORE = tempfile.TemporaryDirectory()  # where ours-file has its tasks
TEXT = "hello world, this is a typical short message"
HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}


def message(text):
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}


def rpc_body(method, params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def node_program(name):
    """Put a JavaScript program beside its packages; give its path."""
    return shutil.copy(HERE / "peers" / name, NODE / name)


def server_command(name, port, grpc_port):
    """Give the command that starts a server: ours, ours-file (its tasks in a file), or an SDK's."""
    if name.startswith("ours"):
        agent = f"{HERE / 'agent.py'}:agent"
        command = [PYTHON, TOP / "a2a.py", "serve", "--agent", agent, "--port", port]
        command += ["--keep-tasks", 0, "--max-connections", 0]
        return (
            [*command, "--store", f"sqlite:{STORE.name}/{port}.db"] if "file" in name else command
        )
    if name == "python":
        return [PYTHON, HERE / "peers" / "py_server.py", port, grpc_port]
    return ["node", node_program("js_server.mjs"), port, grpc_port]


class Server:
    """A server under test, from its start to its end.

    rpc, rest, grpc    its endpoints, from its card; None where it has none
    """

    def __init__(self, name):
        self.name, self.port = name, free_port()
        command = [str(part) for part in server_command(name, self.port, free_port())]
        environment = {**os.environ, "NODE_ENV": "production"}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        self.card = self._wait_for_card()
        urls = {i["protocolBinding"]: i["url"] for i in self.card["supportedInterfaces"]}
        self.rpc = urls.get("JSONRPC")
        self.rest = urls.get("HTTP+JSON", "").rstrip("/") or None
        self.grpc = re.sub(r"^https?://|/$", "", urls["GRPC"]) if "GRPC" in urls else None

    def _wait_for_card(self):
        until = time.monotonic() + 30
        while time.monotonic() < until and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/.well-known/agent-card.json")
                return json.loads(connection.getresponse().read())
            except (OSError, ValueError):
                time.sleep(0.05)
        raise SystemExit(f"{self.name}: no card; exit status {self.process.poll()}")

    def path(self):
        """Give the path of its JSON-RPC endpoint."""
        return "/" + self.rpc.split("/", 3)[3] if self.rpc.count("/") > 2 else "/"

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def call(self, connection, method, params):
        """Do one call over JSON-RPC; give its result."""
        connection.request("POST", self.path(), rpc_body(method, params), HEADERS)
        answer = json.loads(connection.getresponse().read())
        if "error" in answer:
            raise SystemExit(f"{self.name}: {method}: {answer['error']}")
        return answer["result"]

    def cpu_s(self):
        """Give the CPU seconds it has used."""
        words = _proc(self.process.pid, "stat").rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def memory_kb(self):
        return int(re.search(r"VmRSS:\s+(\d+)", _proc(self.process.pid, "status"))[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _proc(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}").read_text()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Report:
    """Rows of measurements: (what, server) -> {metric: [a value each round]}."""

    def __init__(self):
        self.rows = {}

    def add(self, what, server, **metrics):
        row = self.rows.setdefault(what, {}).setdefault(server, {})
        for name, value in metrics.items():
            row.setdefault(name, []).append(value)

    def show(self, what=None):
        """Print medians, and what ours is as a multiple of each peer."""
        for title, servers in self.rows.items():
            if what in (None, title):
                self._show_one(title, servers)

    def _show_one(self, title, servers):
        print(f"\n{title}   (load {os.getloadavg()[0]:.1f})")
        medians = {
            name: {metric: statistics.median(values) for metric, values in row.items()}
            for name, row in servers.items()
        }
        metrics = list(next(iter(medians.values())))
        for metric in metrics:
            cells = [f"{name} {row[metric]:,.6g}" for name, row in medians.items()]
            ours = medians.get("ours", {}).get(metric)
            for name, row in medians.items():
                if name != "ours" and ours is not None and row[metric]:
                    cells.append(f"ours/{name} {ours / row[metric]:.2f}")
            print(f"  {metric:18} " + "   ".join(cells), flush=True)

    def as_json(self):
        return {
            f"{title} | {name} | {metric}": statistics.median(values)
            for title, servers in self.rows.items()
            for name, row in servers.items()
            for metric, values in row.items()
        }
