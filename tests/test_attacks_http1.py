"""A server under attack over HTTP/1.1: each attack ends in a clear error, and the rest is served.

The limits are made small, so that patience and memory run out in seconds.
"""

import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

import a2a

PATIENCE_S = 20.0  # how long a test waits for what should take a second
SMALL = {"HEADER_DEADLINE_S": 0.5, "BODY_STALL_S": 0.5, "WRITE_STALL_S": 1.0, "SWEEP_S": 0.1,
         "KEEP_ALIVE_S": 20.0, "LINGER_S": 1.0, "BODY_BYTES_A_SECOND": 10_000}  # fmt: skip
BODY_LIMIT = 4_000_000
CONNECTIONS = 30


KEPT = {}


def setUpModule():
    for name, value in SMALL.items():
        KEPT[name] = getattr(a2a, name)
        setattr(a2a, name, value)


def tearDownModule():
    for name, value in KEPT.items():
        setattr(a2a, name, value)


def head(*lines, path="/", method="POST"):
    """Give a request's head; Content-Type and Host are there."""
    fixed = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*fixed, "A2A-Version: 1.0", *lines, "", ""]).encode()


def rpc(text="hi", method="SendMessage"):
    """Give a whole JSON-RPC request that echoes text."""
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    body = json.dumps(call).encode()
    return head(f"Content-Length: {len(body)}") + body


def read_answers(link, count=1):
    """Read answers of known length; give [(status, body)], fewer when the server closes."""
    answers, machine = [], a2a.Http1Client(body_limit_bytes=0)
    while len(answers) < count:
        machine.request("GET", "/", [("host", "a")])
        status, body, events = 0, b"", machine.receive(b"")
        while True:
            for event in events:
                if isinstance(event, a2a.Response):
                    status = event.status
                elif isinstance(event, a2a.Data):
                    body += event.data
            if events and isinstance(events[-1], a2a.End):
                break
            data = receive(link)
            if not data:
                return answers
            events = machine.receive(data)
        answers.append((status, body))
    return answers


def receive(link, size=65536):
    """Read; b"" for a connection closed or reset."""
    try:
        return link.recv(size)
    except ConnectionError:
        return b""


def read_to_end(link):
    """Read until the server closes; give everything."""
    pieces = []
    while True:
        data = receive(link)
        if not data:
            return b"".join(pieces)
        pieces.append(data)


class AttackCase(unittest.TestCase):
    """Each test has a server of its own; at its end the server must still serve."""

    options = {}

    def setUp(self):
        settings = {"max_connections": CONNECTIONS, "max_request_bytes": BODY_LIMIT}
        self.server = a2a.Server("echo", port=0, **{**settings, **self.options})
        self.server.start()
        self.addCleanup(self.server.stop)
        self.links = contextlib.ExitStack()
        self.addCleanup(self.links.close)

    def connect(self, **buffers):
        link = socket.socket()
        for name, size in buffers.items():
            link.setsockopt(socket.SOL_SOCKET, getattr(socket, name), size)
        link.settimeout(PATIENCE_S)
        link.connect(("127.0.0.1", self.server.port))
        return self.links.enter_context(link)

    def assert_serves(self):
        link = self.connect()
        link.sendall(rpc("still there"))
        ((status, body),) = read_answers(link)
        self.assertEqual(200, status, body)
        self.assertIn(b"still there", body)

    def assert_refused(self, raw, status):
        """Send bytes; the answer has the status, and the connection is closed after it."""
        link = self.connect()
        with contextlib.suppress(ConnectionError):
            link.sendall(raw)
        answer = read_to_end(link)
        self.assertEqual(f"HTTP/1.1 {status} ".encode(), answer[:13], answer[:200])
        self.assertIn(b"\r\nconnection: close\r\n", answer)
        return answer


class SlowTest(AttackCase):
    def test_a_head_that_drips(self):
        """NET-05: a byte now and then does not hold a connection."""
        link = self.connect()
        raw = head("X: " + "x" * 10_000)
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for at in range(len(raw)):
                link.sendall(raw[at : at + 1])
                time.sleep(0.05)
                if time.monotonic() - started > PATIENCE_S:
                    self.fail("the head may drip on and on")
        self.assert_serves()

    def test_a_head_that_never_ends(self):
        for raw in (b"P", b"POST / HTTP/1.1\r\n", head()[:-2]):
            with self.subTest(raw):
                self.assert_refused(raw, 408)
        self.assert_serves()

    def test_many_heads_that_never_end_leave_room_for_others(self):
        for _ in range(CONNECTIONS - 1):
            self.connect().sendall(b"POST / HTTP/1.1\r\nX: ")
        self.assert_serves()

    def test_a_body_that_never_comes(self):
        self.assert_refused(head("Content-Length: 100"), 408)
        self.assert_refused(head("Content-Length: 100") + b'{"json', 408)
        self.assert_refused(head("Transfer-Encoding: chunked") + b"5\r\nab", 408)
        self.assert_serves()

    def test_a_body_that_drips(self):
        link = self.connect()
        link.sendall(head("Content-Length: 100000"))
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for _ in range(100_000):
                link.sendall(b" ")
                time.sleep(0.05)
                if time.monotonic() - started > PATIENCE_S:
                    self.fail("the body may drip on and on")
        self.assert_serves()

    def test_a_reader_that_takes_nothing(self):
        """What a stalled reader leaves unread is not kept for ever."""
        link = self.connect(SO_RCVBUF=4096)
        link.sendall(rpc("x" * 3_000_000))
        time.sleep(3 * SMALL["WRITE_STALL_S"])
        answer = read_to_end(link)
        self.assertLess(len(answer), 3_000_000, "the server waited for the reader")
        self.assert_serves()

    def test_a_slow_reader_that_goes_on_reading_gets_everything(self):
        link = self.connect(SO_RCVBUF=4096)
        link.sendall(rpc("x" * 1_000_000))
        answer = b""
        until = time.monotonic() + 2.5 * SMALL["WRITE_STALL_S"]
        while time.monotonic() < until:
            answer += receive(link, 16_000)
            time.sleep(0.1)
        self.assertIn(b"200 OK", answer)
        while answer.count(b"x") < 1_000_000:
            data = receive(link)
            self.assertTrue(data, "cut off though it was reading")
            answer += data
        self.assert_serves()

    def test_answers_that_nobody_takes_are_bounded_together(self):
        """Who is longest behind is cut, so that a reader is not cut for those who do not read."""
        with Changed(WRITE_STALL_S=60.0, ANSWERS_BYTES=10_000_000):
            text = "x" * 3_900_000  # answered twice, in the message and in the artifact
            links = []
            for _ in range(5):
                link = self.connect(SO_RCVBUF=4096)
                link.sendall(rpc(text))
                links.append(link)
                time.sleep(3 * SMALL["SWEEP_S"])
            first, last = read_to_end(links[0]), read_answers(links[-1])
        self.assertLess(len(first), 2 * len(text))
        self.assertEqual([200], [status for status, _ in last])
        self.assert_serves()

    def test_an_idle_connection_is_kept_and_then_closed(self):
        with Changed(KEEP_ALIVE_S=0.5):
            link = self.connect()
            link.sendall(rpc())
            self.assertEqual(200, read_answers(link)[0][0])
            self.assertEqual(b"", read_to_end(link))


class Changed:
    """A limit of chapter 1 changed for a while."""

    def __init__(self, **limits):
        self.limits = limits

    def __enter__(self):
        self.kept = {name: getattr(a2a, name) for name in self.limits}
        for name, value in self.limits.items():
            setattr(a2a, name, value)

    def __exit__(self, *_):
        for name, value in self.kept.items():
            setattr(a2a, name, value)


class OversizedTest(AttackCase):
    def test_everything_too_large_has_its_status(self):
        """JSON-18: each kind of too much is told apart, and the connection ends."""
        large = BODY_LIMIT + 1
        for status, raw in (
            (414, b"GET /" + b"x" * a2a.REQUEST_LINE_BYTES + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
            (414, b"x" * 100_000),
            (431, head("X: " + "x" * a2a.HEADER_BYTES)),
            (431, head(*["X: y"] * a2a.HEADER_COUNT)),
            (413, head(f"Content-Length: {large}")),
            (413, head("Content-Length: 999999999999999999999999")),
            (413, head("Transfer-Encoding: chunked") + b"%x\r\n" % large),
            (400, head("Content-Length: -1")),
            (400, head("Transfer-Encoding: chunked") + b"0" * 1000),
            (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            (505, b"GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
        ):
            with self.subTest(status=status, raw=raw[:40]):
                self.assert_refused(raw, status)
        self.assert_serves()

    def test_a_body_too_large_is_not_read_to_its_end(self):
        """JSON-18: the client that sends on after its 413 is cut off."""
        link = self.connect()
        link.sendall(head("Content-Length: 999999999999"))
        sent = 0
        with contextlib.suppress(ConnectionError, TimeoutError, socket.timeout):
            while sent < 200_000_000:
                sent += link.send(b"x" * 65536)
        self.assertLess(sent, 200_000_000)
        self.assert_serves()

    def test_chunks_that_add_up_to_too_much(self):
        """JSON-18: a chunked body is refused as soon as it passes the limit."""
        link = self.connect()
        link.sendall(head("Transfer-Encoding: chunked"))
        chunk, sent = b"10000\r\n" + b" " * 65536 + b"\r\n", 0
        with contextlib.suppress(ConnectionError):
            while sent < 100 * BODY_LIMIT:
                link.sendall(chunk)
                sent += len(chunk)
        self.assertLess(sent, 100 * BODY_LIMIT)
        self.assert_serves()

    def test_a_flood_of_tiny_chunks(self):
        link = self.connect()
        link.sendall(head("Transfer-Encoding: chunked"))
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                link.sendall(b"1\r\n \r\n" * 10_000)
        answer = read_to_end(link)[:13]  # nothing when the reset overtook it; 408 on a slow machine
        self.assertIn(answer, (b"HTTP/1.1 413 ", b"HTTP/1.1 408 ", b""))
        self.assert_serves()

    def test_deep_and_huge_json(self):
        """A body within its limit that is a bomb for a parser."""
        bombs = [
            b"[" * 1_000_000, b'{"a":' * 500_000, b"[" * 1_000_000 + b"]" * 1_000_000,
            b"9" * 1_000_000, b"-" * 100, b"1e999999999", b'"' + b"\\u0000" * 300_000,
            b"{" + b",".join(b'"%d":0' % n for n in range(200_000)) + b"}",
            b'{"jsonrpc":"2.0","id":' + b"9" * 100_000 + b',"method":"GetTask"}',
            b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 1_000_000 + b'"}',
            b"[" + b"1," * 500_000 + b"1]", b"\xff" * 1000, b"\0" * 1000, b"",
        ]  # fmt: skip
        for bomb in bombs:
            with self.subTest(bomb[:20]):
                link = self.connect()
                link.sendall(head(f"Content-Length: {len(bomb)}") + bomb)
                ((status, body),) = read_answers(link)
                self.assertIn(status, (200, 400))
                error = json.loads(body)["error"]
                self.assertIn(error["code"], (-32700, -32600, -32601, -32602))
                self.assertLess(len(body), 5000, "the answer does not give the bomb back")
        self.assert_serves()

    def test_a_message_with_very_many_parts(self):
        part = b'{"text":""},' * 250_000
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m",'
            b'"role":"ROLE_USER","parts":[' + part[:-1] + b"]}}}"
        )
        link = self.connect()
        link.sendall(head(f"Content-Length: {len(body)}") + body)
        ((status, _),) = read_answers(link)
        self.assertIn(status, (200, 400, 413))
        self.assert_serves()


class FloodTest(AttackCase):
    def test_more_connections_than_allowed(self):
        """One too many is told so; when others leave there is room again."""
        for _ in range(CONNECTIONS):
            link = self.connect()
            link.sendall(rpc())
            self.assertEqual(200, read_answers(link)[0][0])
        answer = read_to_end(self.connect())
        self.assertEqual(b"HTTP/1.1 503 ", answer[:13])
        for _ in range(5 * CONNECTIONS):
            with contextlib.suppress(ConnectionError):
                self.connect().sendall(b"x")
        self.links.close()
        self.wait_for_room()

    def wait_for_room(self):
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.assert_serves()
            except (AssertionError, ValueError, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def test_connections_that_come_and_go(self):
        for number in range(300):
            link = self.connect()
            with contextlib.suppress(ConnectionError):
                link.sendall(rpc()[: number % 200])
            if number % 3 == 0:  # reset instead of close
                linger = b"\1\0\0\0\0\0\0\0" if os.name != "nt" else b"\1\0\0\0"
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            link.close()
        self.wait_for_room()

    def test_a_flood_of_pipelined_requests(self):
        """NET-05: requests sent without reading answers are answered in order or cut off."""
        link = self.connect(SO_RCVBUF=4096)
        raw = rpc("x" * 1000) * 100
        link.settimeout(1.0)
        sent = 0
        with contextlib.suppress(ConnectionError, TimeoutError, socket.timeout):
            while sent < 100_000_000:
                sent += link.send(raw)
        self.assertLess(sent, 100_000_000, "all of it was taken in")
        self.assert_serves()

    def test_pipelined_requests_are_answered_in_order(self):
        """NET-05: one answer per request, in order."""
        link = self.connect()
        texts = [f"number {n};" for n in range(50)]
        link.sendall(b"".join(map(rpc, texts)))
        answers = read_answers(link, len(texts))
        self.assertEqual(len(texts), len(answers))
        for text, (status, body) in zip(texts, answers):
            self.assertEqual(200, status)
            self.assertIn(text.encode(), body)

    def test_random_bytes(self):
        rng = random.Random(3)
        seeds = [rpc(), head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n", head()]
        for _ in range(60):
            raw = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(1, 20)):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
            link = self.connect()
            with contextlib.suppress(ConnectionError):
                link.sendall(raw)
                link.shutdown(socket.SHUT_WR)
            answer = read_to_end(link)
            self.assertIn(answer[:9], (b"HTTP/1.1 ", b""), raw)
            link.close()
        self.assert_serves()


FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
sys.path.insert(0, {folder!r})
import a2a
server = a2a.Server("echo", port=0)
server.start()
print(server.port, flush=True)
sys.stdin.read()
server.stop()
"""


@unittest.skipIf(os.name == "nt", "no limit of open files on Windows")
class FewFilesTest(AttackCase):
    """A process that may open 64 files meets 200 connections."""

    def setUp(self):
        program = FEW_FILES.format(folder=str(support.ROOT))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.child = subprocess.Popen([sys.executable, "-c", program], text=True, **pipes)
        self.addCleanup(self.end)
        self.server = self  # what AttackCase asks for its port
        self.port = int(self.child.stdout.readline())
        self.links = contextlib.ExitStack()
        self.addCleanup(self.links.close)

    def end(self):
        if self.child.poll() is None:
            self.child.communicate("", timeout=PATIENCE_S)

    def test_more_connections_than_descriptors(self):
        self.assert_serves()
        for _ in range(200):
            self.connect().sendall(b"POST / HTTP/1.1\r\n")
        time.sleep(1)
        self.assertIsNone(self.child.poll())
        self.links.close()
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.assert_serves()
                break
            except (AssertionError, ValueError, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        _, said = self.child.communicate("", timeout=PATIENCE_S)
        self.assertEqual(0, self.child.returncode)
        self.assertLess(len(said), 2000, "the log is flooded")
        self.assertNotIn("Traceback", said)


class ManyAtOnceTest(AttackCase):
    options = {"max_connections": 200}

    def test_others_are_served_while_it_goes_on(self):
        """Attackers of every kind at once, and one honest client that never waits long."""
        stop = threading.Event()

        def attack(raw, pause_s):
            while not stop.is_set():
                with contextlib.suppress(OSError), socket.socket() as link:
                    link.settimeout(1)
                    link.connect(("127.0.0.1", self.server.port))
                    link.sendall(raw)
                    stop.wait(pause_s)

        kinds = [
            b"GET / HTTP/1.1\r\n", head("Content-Length: 1000"), b"\x16\x03\x01" * 100,
            rpc("x" * 100_000), head(f"Content-Length: {BODY_LIMIT * 2}"), rpc()[:-1],
        ]  # fmt: skip
        threads = [
            threading.Thread(target=attack, args=(raw, 0.05), daemon=True) for raw in kinds * 2
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                self.assert_serves()
        finally:
            stop.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        self.assert_serves()


if __name__ == "__main__":
    unittest.main()
