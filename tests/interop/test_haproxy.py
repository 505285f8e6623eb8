"""Chapter 7 behind haproxy: both must see the same requests, or one could hide in another.

Every vector, good and bad, goes through the proxy, which keeps its connections to us open and uses
them for everybody. Were the two ever to differ about where a request ends, the honest request that
follows would get the answer of another.
"""

import contextlib
import json
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

import a2a

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors" / "http1"
ROUNDS = 300  # random changes to the vectors, beside the vectors themselves
CONFIG = """
global
  maxconn 200
defaults
  mode http
  http-reuse always
  timeout connect 5s
  timeout client 2s
  timeout server 2s
frontend front
  bind 127.0.0.1:{front}
  default_backend back
backend back
  server agent 127.0.0.1:{back}
"""


class Echo:
    """A server of the bare machine: each answer says what was asked, by method, target, body."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        machine, asked = a2a.Http1Server(), None
        with link, contextlib.suppress(OSError):
            while machine.keep_alive:
                try:
                    data = link.recv(65536)
                    events = machine.receive(data) if data else machine.receive_eof()
                    while events:
                        asked = self.take(asked, events, machine, link)
                        events = machine.receive(b"")
                except a2a.HttpError as error:
                    link.sendall(machine.respond(error.status, [], error.message.encode()))
                if not data:
                    return

    def take(self, asked, events, machine, link):
        for event in events:
            if isinstance(event, a2a.Request):
                asked = [event.method, event.target, ""]
            elif isinstance(event, a2a.Data):
                asked[2] += event.data.decode("latin-1")
            else:
                self.seen.append(asked)
                body = json.dumps(asked).encode()
                link.sendall(machine.respond(200, [("content-type", "application/json")], body))
        return asked


def vectors(*names):
    for name in names:
        for row in json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8")):
            yield row["bytes"].encode("latin-1")


def change(data, rng):
    """Give data with a byte or two changed, where it hurts: in the head and the chunk sizes."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(2)] = rng.choice([b"\r", b"\n", b" ", b"\t", b"0", b",", b";"])
    return bytes(data)


@unittest.skipUnless(support.has("haproxy"), "no haproxy")
class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.listener.close)
        self.port = support.free_port()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = pathlib.Path(folder.name) / "haproxy.cfg"
        config.write_text(CONFIG.format(front=self.port, back=self.echo.port))
        proxy = support.Process(["haproxy", "-db", "-f", config])
        self.addCleanup(proxy.__exit__, None, None, None)
        until = time.monotonic() + support.DEADLINE_S
        while True:
            try:
                self.send(b"GET /up HTTP/1.1\r\nHost: a\r\n\r\n")
                break
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), until, proxy.stderr)
                time.sleep(0.05)

    def send(self, raw):
        """Send bytes to the proxy and hang up; give all it answers."""
        answer = b""
        link = socket.create_connection(("127.0.0.1", self.port), 10)
        with link, contextlib.suppress(ConnectionError):
            link.sendall(raw)
            link.shutdown(socket.SHUT_WR)
            for piece in iter(lambda: link.recv(65536), b""):
                answer += piece
        return answer

    def test_no_request_hides_in_another(self):
        rng = random.Random(5)
        inputs = list(vectors("accept", "reject"))
        inputs += [change(rng.choice(inputs), rng) for _ in range(ROUNDS)]
        passed = 0
        for number, raw in enumerate(inputs):
            before = len(self.echo.seen)
            answers = self.send(raw)
            seen = self.echo.seen[before:]
            good = answers.count(b"HTTP/1.1 200 OK\r\n")
            passed += good
            with self.subTest(raw):
                self.assertEqual(good, len(seen), "requests that the proxy knows not of")
                answer = self.send(b"GET /probe/%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
                self.assertIn(b'["GET", "/probe/%d", ""]' % number, answer)
        self.assertGreater(passed, 50)


if __name__ == "__main__":
    unittest.main()
