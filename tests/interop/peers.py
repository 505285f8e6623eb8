"""Real peers as processes: the official SDKs' servers and clients, and our server.

`python3 tests` installs them into .peers/; a test here skips itself when they are missing.
"""

from __future__ import annotations

import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = support.ROOT / ".peers"
PYTHON = FOLDER / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
NODE_FOLDER = FOLDER / "node"
AGENT = HERE / "agent.py"


def need_python_sdk():
    """Skip the test when the Python SDK is not installed."""
    if not (FOLDER / "venv" / "made-from").exists():
        raise unittest.SkipTest("no Python SDK in .peers: `python3 tests` installs it")


def need_js_sdk():
    """Skip the test when the JavaScript SDK is not installed."""
    if not (NODE_FOLDER / "made-from").exists() or not support.has("node"):
        raise unittest.SkipTest("no JavaScript SDK in .peers: `python3 tests` installs it")


def node_command(name):
    """Give the command for a program of ours in JavaScript; it must lie beside its packages."""
    source, target = HERE / name, NODE_FOLDER / name
    if not target.exists() or target.read_bytes() != source.read_bytes():
        fresh = target.with_suffix(f".{os.getpid()}")  # another test may be doing the same
        shutil.copy(source, fresh)
        os.replace(fresh, target)
    return ["node", target]


def sdk_command(language, program):
    """Give the command that runs sdk_server or sdk_client in "python" or "js", or skip."""
    if language == "python":
        need_python_sdk()
        return [PYTHON, HERE / f"{program}.py"]
    need_js_sdk()
    return node_command(f"{program}.mjs")


class SdkServer(support.Process):
    """An SDK's server, ready to be called; url is its base, url/rpc and url/rest its endpoints."""

    def __init__(self, language):
        self.port, self.grpc_port = support.free_port(), support.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__([*sdk_command(language, "sdk_server"), self.port, self.grpc_port])
        try:
            self.wait_for("ready")
        except BaseException:
            self.kill()
            self.wait()
            raise


class PeerFault(Exception):
    """An SDK client raised; type is the name of its exception."""

    def __init__(self, fault):
        super().__init__(f"{fault['type']}: {fault['message']}")
        self.type = fault["type"]
        self.message = fault["message"]


class Call:
    """A call on its way: iterate over its results."""

    def __init__(self):
        self.lines = queue.Queue()

    def __iter__(self):
        return self

    def __next__(self):
        line = self.lines.get(timeout=support.DEADLINE_S)
        if "error" in line:
            raise PeerFault(line["error"])
        if line.get("end"):
            raise StopIteration
        return line["result"]


class SdkClient:
    """An SDK's client for one server and transport, in a process of its own.

    key    what it signs in with, if the card asks for an API key
    ca, cert    files: whom it trusts under TLS, and its own certificate with the key
    """

    def __init__(self, language, url, transport, key=None, ca=None, cert=None):
        self.popen = subprocess.Popen(
            [str(part) for part in [*sdk_command(language, "sdk_client"), url, transport]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=support.clean_environment(
                PEER_API_KEY=key, PEER_CA=ca, PEER_CERT=cert, NODE_EXTRA_CA_CERTS=ca
            ),
        )
        self._calls = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for text in self.popen.stdout:
            line = json.loads(text)
            self._calls[line["id"]].lines.put(line)
        for call in list(self._calls.values()):
            call.lines.put({"error": {"type": "Ended", "message": "the client process ended"}})

    def start(self, operation, params):
        """Begin a call; give it."""
        number = len(self._calls)
        call = self._calls[number] = Call()
        line = {"id": number, "operation": operation, "params": params}
        self.popen.stdin.write(json.dumps(line).encode() + b"\n")
        self.popen.stdin.flush()
        return call

    def call(self, operation, **params):
        """Do a call with one answer; give it."""
        return list(self.start(operation, params))[-1]

    def stream(self, operation, **params):
        """Do a call with many answers; give them all."""
        return list(self.start(operation, params))

    def fault(self, operation, **params):
        """Do a call that must fail; give the name of the exception."""
        try:
            answers = self.stream(operation, **params)
        except PeerFault as fault:
            return fault.type
        raise AssertionError(f"{operation} did not fail but gave {answers}")

    def close(self):
        self.popen.stdin.close()
        try:
            self.popen.wait(5)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self._reader.join(5)
        self.popen.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
