"""The benches. Each takes the servers that run, options and the report it adds rows to."""

from __future__ import annotations

import asyncio
import http.client as http_client
import json
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

import common


def in_turn(servers, round_number):
    """Give the servers, backwards every second round: what drifts hits all of them."""
    return servers if round_number % 2 == 0 else servers[::-1]


# --- one call at a time and sixteen side by side -------------------------------------------------


def http(servers, options, report):
    """SendMessage over JSON-RPC and REST, HTTP/1.1 keep-alive, load from wrk."""
    for server in servers:
        for url, body in endpoints(server).values():
            wrk(url, body, 4, 1)  # warm up
    for round_number in range(options.rounds):
        for binding in ("JSON-RPC", "REST"):
            for connections in (1, 16):
                for server in in_turn(servers, round_number):
                    url, body = endpoints(server)[binding]
                    cpu = server.cpu_s()
                    answer = wrk(url, body, connections, options.secs)
                    report.add(
                        f"SendMessage, {binding}, {connections} connections",
                        server.name,
                        per_second=answer["n"] / (answer["us"] / 1e6),
                        cpu_us=(server.cpu_s() - cpu) * 1e6 / max(1, answer["n"]),
                        p50_ms=answer["p50"] / 1e3,
                        p99_ms=answer["p99"] / 1e3,
                        errors=answer["err"] + answer["bad"],
                    )


def endpoints(server):
    params = {"message": common.message(common.TEXT)}
    return {
        "JSON-RPC": (server.rpc, common.rpc_body("SendMessage", params)),
        "REST": (server.rest + "/message:send", json.dumps(params)),
    }


def wrk(url, body, connections, secs):
    """Give what wrk counted: n, us, err, bad, p50, p99 (microseconds)."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(body)
        file.flush()
        seconds = f"-d{max(1, round(secs))}s"
        script = str(common.HERE / "post.lua")
        done = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", seconds, "--timeout", "10s", "-s", script, url],
            capture_output=True,
            text=True,
            env={**os.environ, "A2A_BODY": file.name, "A2A_CHECK": "1"},
        )
    found = re.search(r"^JSON (.*)$", done.stdout, re.M)
    if not found:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(found[1])


# --- streams -------------------------------------------------------------------------------------


def stream(servers, options, report):
    """SendStreamingMessage over JSON-RPC: 100 chunks a stream, and 1,000 to see the growth."""
    for chunks, connections in ((100, 1), (100, 16), (1000, 1)):
        expected = {s.name: asyncio.run(drive(s, chunks, 1, 0.1))[0][1] for s in servers}
        for round_number in range(options.rounds):
            for server in in_turn(servers, round_number):
                cpu, started = server.cpu_s(), time.perf_counter()
                streams = asyncio.run(drive(server, chunks, connections, options.secs))
                took = time.perf_counter() - started
                events = sum(count for _, count in streams)
                report.add(
                    f"stream of {chunks} chunks over SSE, {connections} at once",
                    server.name,
                    events_a_second=events / took,
                    cpu_us_an_event=(server.cpu_s() - cpu) * 1e6 / max(1, events),
                    first_event_ms=common.percentile([first for first, _ in streams], 0.5) * 1e3,
                    errors=sum(count != expected[server.name] for _, count in streams),
                )


async def drive(server, chunks, connections, secs):
    """Give (seconds to the first event, events) for each stream read in so many seconds."""
    params = {"message": common.message(f"chunks:{chunks} x")}
    body = common.rpc_body("SendStreamingMessage", params).encode()
    target = urlsplit(server.rpc)
    head = (
        f"POST {server.path()} HTTP/1.1\r\nHost: {target.netloc}\r\nA2A-Version: 1.0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    streams, until = [], time.perf_counter() + secs
    readers = [
        read_streams(target, head.encode() + body, until, streams) for _ in range(connections)
    ]
    await asyncio.gather(*readers)
    return streams


async def read_streams(target, request, until, streams):
    """Do one stream after another on a connection."""
    reader = writer = None
    while time.perf_counter() < until or not streams:
        if writer is None:
            reader, writer = await asyncio.open_connection(
                target.hostname, target.port, limit=1 << 20
            )
        started = time.perf_counter()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        first, events = await read_events(reader, started)
        streams.append((first, events))
        if b"connection: close" in head or reader.at_eof():
            writer.close()
            writer = None
    if writer:
        writer.close()


async def read_events(reader, started):
    first, events, tail = 0.0, 0, b"\n"
    while True:
        data = await reader.read(262144)
        if not data:
            return first, events
        if not first and b"data:" in data:
            first = time.perf_counter() - started
        text = tail + data
        events += text.count(b"\ndata:")
        tail = text[-6:] if b"\ndata:" not in text[-6:] else b""
        if text.endswith(b"\n0\r\n\r\n"):
            return first, events


# --- many tasks, many readers --------------------------------------------------------------------


def growth(servers, options, report):
    """ListTasks and GetTask with 1,000, then --tasks stored; memory a task."""
    for server in servers:
        connection, before, stored = server.connect(), server.memory_kb(), 1
        first = server.call(connection, "SendMessage", {"message": common.message("first")})["task"]
        for level in (1000, options.tasks):
            if server.name != "ours" and level > 10_000 and not options.patient:
                print(f"  {server.name}: {level} tasks left out (--patient runs them)")
                continue
            fill(server, level - stored)
            connection, stored = server.connect(), level
            report.add(
                f"{level} tasks stored",
                server.name,
                kb_a_task=(server.memory_kb() - before) / level,
                list_50_ms=timed(server, connection, 20, "ListTasks", {"pageSize": 50}),
                list_context_ms=timed(
                    server, connection, 20, "ListTasks", {"contextId": first["contextId"]}
                ),
                get_ms=timed(server, connection, 100, "GetTask", {"id": first["id"]}),
            )


def fill(server, count):
    """Make so many tasks, over sixteen connections."""
    if count <= 0:
        return
    body = common.rpc_body("SendMessage", {"message": common.message(common.TEXT)})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(body)
        file.flush()
        command = ["h2load", "--h1", "-t1", "-n", str(count), "-c", "16", "-d", file.name]
        headers = ["-H", "content-type: application/json", "-H", "a2a-version: 1.0"]
        subprocess.run([*command, *headers, server.rpc], capture_output=True, check=True)


def timed(server, connection, count, method, params):
    """Give the median milliseconds of a call."""
    took = []
    for _ in range(count):
        started = time.perf_counter()
        server.call(connection, method, params)
        took.append((time.perf_counter() - started) * 1e3)
    return common.percentile(took, 0.5)


def idle(servers, options, report):
    """Memory of --streams open streams that wait, and what comes back when they leave."""
    for server in servers:
        connection = server.connect()
        for _ in range(20):
            server.call(connection, "SendMessage", {"message": common.message("warm")})
        before = server.memory_kb()
        sockets = [open_stream(server) for _ in range(options.streams)]
        for one in sockets:
            wait_for_work(one)
        held, cpu = server.memory_kb(), server.cpu_s()
        time.sleep(2)
        busy = (server.cpu_s() - cpu) / 2
        for one in sockets:
            one.close()
        time.sleep(2)
        report.add(
            f"{options.streams} idle streams",
            server.name,
            kb_a_stream=(held - before) / options.streams,
            idle_cpu_percent=busy * 100,
            kb_kept_a_stream=(server.memory_kb() - before) / options.streams,
        )


def open_stream(server):
    one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    params = {"message": common.message(f"hold:{60 + random.random()} x")}
    body = common.rpc_body("SendStreamingMessage", params).encode()
    head = (
        f"POST {server.path()} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nA2A-Version: 1.0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    one.sendall(head.encode() + body)
    return one


def wait_for_work(one):
    data = b""
    while b"TASK_STATE_WORKING" not in data:
        more = one.recv(65536)
        if not more:
            raise SystemExit(f"a stream ended early: {data[:300]!r}")
        data += more


# --- gRPC ----------------------------------------------------------------------------------------


def grpc(servers, options, report):
    """SendMessage and streams of 100 chunks over gRPC, 16 at once on one connection (h2load)."""
    servers = [server for server in servers if server.grpc]
    works = (("SendMessage", common.TEXT, 1), ("SendStreamingMessage", "chunks:100 x", 103))
    for method, text, events in works:
        for server in servers:
            h2load(server, method, text, 1)
        for round_number in range(options.rounds):
            for server in in_turn(servers, round_number):
                cpu = server.cpu_s()
                secs = options.secs * (3 if events > 1 else 1)  # a stream takes its time
                count, bad, size = h2load(server, method, text, secs)
                report.add(
                    f"{method} over gRPC, 16 streams on one connection",
                    server.name,
                    calls_a_second=count / secs,
                    events_a_second=count * events / secs,
                    cpu_us_an_event=(server.cpu_s() - cpu) * 1e6 / max(1, count * events),
                    bytes_a_call=size,
                    errors=bad,
                )


def field(number, data):
    """Give one length-delimited protobuf field of less than 16 KiB."""
    size = len(data)
    head = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + head + data


def grpc_frame(text):
    message = (
        field(1, b"perf-message-0001") + bytes([4 << 3, 1]) + field(5, field(1, text.encode()))
    )
    request = field(2, message)
    return b"\0" + struct.pack(">I", len(request)) + request


def h2load(server, method, text, secs):
    """Give (calls that ended, failures, bytes of data a call)."""
    with tempfile.TemporaryDirectory() as folder:
        body, log = pathlib.Path(folder, "body"), pathlib.Path(folder, "log")
        body.write_bytes(grpc_frame(text))
        headers = ["content-type: application/grpc", "te: trailers", "a2a-version: 1.0"]
        command = ["h2load", "-t1", "-c1", "-m16", "-D", f"{secs:g}", "--warm-up-time=0"]
        command += ["-d", str(body), f"--log-file={log}"]
        command += [word for header in headers for word in ("-H", header)]
        url = f"http://{server.grpc}/lf.a2a.v1.A2AService/{method}"
        done = subprocess.run([*command, url], capture_output=True, text=True)
        lines = [line.split() for line in log.read_text().splitlines()]
    count = sum(line[1] == "200" for line in lines)
    size = re.search(r"traffic: .*\((\d+)\) data", done.stdout)
    if not size:
        raise SystemExit(done.stdout + done.stderr)
    return count, len(lines) - count, int(size[1]) / max(1, count)


# --- cold starts ---------------------------------------------------------------------------------


def cold(servers, options, report):
    """A whole client process: read the card, send one message, print the answer; wall and memory.

    Every client calls the same server, ours where it runs.
    """
    url = servers[0].rpc
    base = url[: url.index("/", 8)] if url.count("/") > 2 else url
    script = [common.PYTHON, common.TOP / "a2a.py"]
    module = [common.PYTHON, "-m", "a2a"]
    clients = {
        "ours": [*script, "send", base, "hello cold"],
        "ours as -m a2a": [*module, "send", base, "hello cold"],
        "python": [common.PYTHON, common.HERE / "peers" / "py_client.py", base],
        "js": ["node", common.node_program("js_client.mjs"), base],
    }
    for round_number in range(-1, 3 * options.rounds):
        for name, command in clients.items():
            wall, memory, cpu = timed_process(command, "m a2a" in name)
            if round_number >= 0:
                report.add("one send from a cold start", name, wall_ms=wall, cpu_ms=cpu, mb=memory)


# A process's peak of memory begins with that of the one it was forked from, so a small one forks.
MEASURE = """
import json, os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
started = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
status, used = os.wait4(child, 0)[1:]
wall = time.perf_counter() - started
cpu = used.ru_utime + used.ru_stime
print(json.dumps([status, wall * 1e3, used.ru_maxrss / 1024, cpu * 1e3]))
"""


def timed_process(command, in_folder):
    """Give (milliseconds, MB at the peak, milliseconds of CPU) of a whole process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if in_folder:  # the SDK's package is called a2a too: ours must be found first
        environment["PYTHONPATH"] = str(common.TOP)
    words = [str(word) for word in command]
    measure = [str(common.PYTHON), "-S", "-E", "-c", MEASURE, *words]
    done = subprocess.run(measure, capture_output=True, env=environment, cwd="/", check=True)
    status, wall, memory, cpu = json.loads(done.stdout)
    if status:
        raise SystemExit(f"{command}: {done.stderr.decode()}")
    return wall, memory, cpu


# --- answering through files ---------------------------------------------------------------------


def files(servers, options, report):
    """A session's reply from its rename until the caller has it; what waiting costs. Ours alone."""
    with tempfile.TemporaryDirectory() as place, FolderServer(place) as server:
        for how in ("reply rings", "a bare file"):
            rings = how == "reply rings"
            waits = [answer(server, rings) for _ in range(100 if rings else 20)]
            report.add(
                f"an answer through files, {how}",
                "ours",
                p50_ms=common.percentile(waits, 0.5),
                worst_ms=max(waits),
            )
        rest(server, report, "an idle server with its folder")
        connections = [send(server, "hold") for _ in range(4)]
        wait_for(lambda: len(server.folder.tasks()) == 4)
        rest(server, report, "a server with 4 turns that wait for an answer")
        watch = [common.PYTHON, common.TOP / "a2a.py", "watch", "--dir", place]
        with Child(watch) as child:
            time.sleep(2)
            rest(child, report, "a watch with 4 turns")
        for connection in connections:
            connection.close()


def rest(child, report, title):
    """Measure a process that has nothing to do."""
    before = child.cpu_s()
    time.sleep(10)
    report.add(
        title, "ours", cpu_percent=(child.cpu_s() - before) * 10, mb=child.memory_kb() / 1024
    )


class Child:
    """A process of ours."""

    cpu_s, memory_kb = common.Server.cpu_s, common.Server.memory_kb

    def __init__(self, command):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


class FolderServer(Child):
    """Our server with the files agent."""

    def __init__(self, place):
        sys.path.insert(0, str(common.TOP))
        import a2a

        self.a2a, self.folder = a2a, a2a.Folder(place)
        command = [common.PYTHON, common.TOP / "a2a.py", "serve", "--dir", place, "-o", "json"]
        super().__init__([*command, "--port", 0, "--tasks-per-minute", 0])
        self.port = json.loads(self.process.stdout.readline())["port"]


def send(server, text):
    """Send a message and leave the answer for later."""
    connection = http_client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    params = {"message": common.message(text)}
    connection.request("POST", "/", common.rpc_body("SendMessage", params), common.HEADERS)
    return connection


def answer(server, ring):
    """Send, answer as a session does, and give the milliseconds until the caller has it."""
    connection = send(server, "hello")
    task = wait_for(server.folder.tasks)[0]
    time.sleep(random.random() * 0.1)
    server.a2a.write_whole(os.path.join(task["folder"], "answer.md"), "Good day")
    started = time.perf_counter()
    if ring:
        server.folder.ring(task["name"])
    result = json.loads(connection.getresponse().read())["result"]["task"]
    wait = (time.perf_counter() - started) * 1e3
    if result["artifacts"][0]["parts"][0]["text"] != "Good day":
        raise SystemExit(result)
    connection.close()
    wait_for(lambda: not server.folder.tasks())
    return wait


def wait_for(condition):
    for _ in range(10_000):
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise SystemExit("it did not happen")


BENCHES = {f.__name__: f for f in (cold, http, stream, growth, idle, grpc, files)}
FRESH = {"growth", "idle"}  # these want servers that hold nothing yet
