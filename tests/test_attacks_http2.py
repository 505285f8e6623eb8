"""Attacks on the HTTP/2 side of a server, over real sockets against a process of its own.

Each ends in GOAWAY or RST_STREAM with the right code, in bounded memory, while others are served.
"""

import contextlib
import json
import pathlib
import re
import socket
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from test_10_http2 import GET, OPENING, POST, block, frame, frames, headers, number, setting

PATIENCE_S = 20.0
MEMORY_KIB = 24 * 1024  # by which an attack may make the process grow

# A server with a handler of its own: /N answers N bytes, /open the number of connections, /forever
# never answers.
SERVER = f"""
import asyncio, sys
sys.path.insert(0, {str(support.ROOT)!r})
import a2a

for setting in sys.argv[1:]:
    name, _, value = setting.partition("=")
    setattr(a2a, name, float(value))

async def handle(exchange):
    name = exchange.request.target[1:]
    if name == "forever":
        await asyncio.sleep(1000)
    if name == "open":
        exchange.respond(200, [], b"%d" % len(listener._wires))
        return
    try:
        body = await exchange.read_body(a2a.BODY_BYTES)
        exchange.respond(200, [], body or b"x" * int(name or 2))
    except a2a.HttpError as error:
        exchange.respond(error.status, [])

async def main():
    global listener
    bound = a2a.listening_socket("127.0.0.1", 0)
    listener = a2a.Listener(handle, lambda error: print("failed", repr(error), flush=True))
    listener.open(bound)
    print("ready", bound.getsockname()[1], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


class Server(support.Process):
    """The server above; settings are constants of a2a to change in it."""

    def __init__(self, **settings):
        words = [f"{name}={value}" for name, value in settings.items()]
        super().__init__([sys.executable, "-c", SERVER, *words])
        self.port = int(self.wait_for("ready").split()[1])

    def memory_kib(self):
        """Give the resident memory, 0 where the system does not say."""
        try:
            text = pathlib.Path(f"/proc/{self.popen.pid}/status").read_text()
        except OSError:
            return 0
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1])


class Attacker:
    """A raw connection that has sent the preface and empty SETTINGS."""

    def __init__(self, server, opening=OPENING):
        self.link = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        self.link.settimeout(PATIENCE_S)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link.sendall(opening)
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def send(self, data, times=1):
        """Send data so many times; a server that has had enough is no error."""
        piece = data * max(1, 65536 // len(data))
        left = len(data) * times
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ConnectionAbortedError):
            while left > 0:
                self.link.sendall(piece[:left])
                left -= len(piece)

    def read(self, done=lambda found: False):
        """Read frames until done(frames) or the end; give them."""
        while True:
            whole = self.whole()
            if done(whole):
                return whole
            try:
                more = self.link.recv(65536)
            except (ConnectionResetError, ConnectionAbortedError):
                more = b""
            if not more:
                return whole
            self.data += more

    def whole(self):
        end = 0
        while len(self.data) - end >= 9:
            size = 9 + int.from_bytes(self.data[end : end + 3], "big")
            if end + size > len(self.data):
                break
            end += size
        return frames(self.data[:end])


def error_codes(found, kind):
    at = 4 if kind == "GOAWAY" else 0
    return [int.from_bytes(f[3][at : at + 4], "big") for f in found if f[0] == kind]


class Attack(unittest.TestCase):
    server = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass
        failed = [line for line in cls.server.stdout.splitlines() if "failed" in line]
        if failed or cls.server.stderr.strip():
            raise AssertionError(f"{failed} {cls.server.stderr}")

    def setUp(self):
        self.assert_served()
        self.before = self.server.memory_kib()

    def tearDown(self):
        self.assert_served()
        self.assertLess(self.server.memory_kib() - self.before, MEMORY_KIB)

    def assert_served(self):
        """Others are answered, over both protocols."""
        status, _, body = support.http(self.server.port, "GET", "/5")
        self.assertEqual((200, b"xxxxx"), (status, body))
        with Attacker(self.server) as other:
            other.send(headers(1, [*GET[:2], (":path", "/5"), GET[3]]))
            found = other.read(lambda found: any(f[0] == "DATA" for f in found))
            self.assertEqual(b"xxxxx", found[-1][3])

    def assert_goaway(self, error_code, data, times=1, opening=OPENING):
        with Attacker(self.server, opening) as attacker:
            attacker.send(data, times)
            found = attacker.read()
            self.assertEqual([error_code], error_codes(found, "GOAWAY"), found[-3:])
            return found


class FloodTest(Attack):
    def calm(self, data, times=1):
        return self.assert_goaway(a2a.ENHANCE_YOUR_CALM, data, times)

    def test_rapid_reset(self):
        """CVE-2023-44487."""
        data = b""
        for stream in range(1, 4001, 2):
            data += headers(stream, [*GET[:2], (":path", "/forever"), GET[3]])
            data += number("RST_STREAM", stream, a2a.CANCEL)
        self.calm(data)

    def test_resets_that_we_are_made_to_send(self):
        """CVE-2025-8671: each request is followed by a frame that breaks a rule."""
        data = b""
        for stream in range(1, 4001, 2):
            data += headers(stream, [*GET[:2], (":path", "/forever"), GET[3]])
            data += number("WINDOW_UPDATE", stream, 0)
        found = self.calm(data)
        self.assertLessEqual(len(error_codes(found, "RST_STREAM")), a2a.HTTP2_RESETS + 1)

    def test_more_streams_than_allowed(self):
        path = (":path", "/forever")
        data = b"".join(headers(stream, [*GET[:2], path, GET[3]]) for stream in range(1, 4001, 2))
        found = self.calm(data)
        self.assertEqual({a2a.REFUSED_STREAM}, set(error_codes(found, "RST_STREAM")))

    def test_continuation(self):
        """CVE-2024-27316."""
        self.calm(frame("HEADERS", 1, 1) + frame("CONTINUATION", 0, 1, b"\x82" * 100) * 10_000)

    def test_empty_continuation(self):
        self.calm(frame("HEADERS", 1, 1, block(GET)) + frame("CONTINUATION", 0, 1) * 50_000)

    def test_hpack_bomb(self):
        """Each block of 14 KB stands for 56 MB of headers."""
        big = b"\x40\x01a" + a2a.write_integer(4000, 7, 0) + b"x" * 4000
        data = frame("HEADERS", 5, 1, block(GET) + big)
        for stream in range(3, 41, 2):
            data += frame("HEADERS", 5, stream, block(GET) + b"\xbe" * 14_000)
        self.calm(data)

    def test_huffman_bomb(self):
        packed = a2a.write_huffman("0" * 60_000)
        value = b"\0\x01a" + a2a.write_integer(len(packed), 7, 128) + packed
        data = block(GET) + value
        first, rest = frame("HEADERS", 1, 1, data[:16384]), data[16384:]
        last = [rest[at : at + 16384] for at in range(0, len(rest), 16384)]
        more = [frame("CONTINUATION", 4 * (p is last[-1]), 1, p) for p in last]
        self.calm(first + b"".join(more))

    def test_ping(self):
        """CVE-2019-9512."""
        self.calm(frame("PING", 0, 0, b"12345678"), 50_000)

    def test_ping_by_a_client_that_does_not_read(self):
        with Attacker(self.server) as attacker:
            attacker.send(frame("PING", 0, 0, b"12345678"), 200_000)
            time.sleep(0.5)
            self.assertLess(self.server.memory_kib() - self.before, MEMORY_KIB)

    def test_settings(self):
        """CVE-2019-9515."""
        self.calm(setting((3, 100)), 20_000)

    def test_large_settings(self):
        self.calm(setting(*[(4, 65535), (1, 0), (1, 4096)] * 900), 20)

    def test_empty_data(self):
        """CVE-2019-9518."""
        self.calm(headers(1, POST, 4) + frame("DATA", 0, 1) * 20_000)

    def test_padding(self):
        self.calm(headers(1, POST, 4) + frame("DATA", 8, 1, b"\x09" + bytes(9)) * 20_000)

    def test_window_update(self):
        self.calm(number("WINDOW_UPDATE", 0, 1), 50_000)

    def test_priority(self):
        """CVE-2019-9513."""
        self.calm(frame("PRIORITY", 0, 1, b"\0\0\0\0\x10"), 50_000)

    def test_frames_of_unknown_kinds(self):
        self.calm(frame(99, 0, 0, b"x" * 100), 20_000)

    def test_trailers_again_and_again(self):
        data = headers(1, GET) + headers(1, [("a", "b")]) * 20_000
        found = self.calm(data)
        self.assertIn(a2a.STREAM_CLOSED, error_codes(found, "RST_STREAM"))


class MalformedTest(Attack):
    def test_every_malformed_vector(self):
        vectors = support.VECTORS / "http2" / "malformed.json"
        for case in json.loads(vectors.read_text(encoding="utf-8")):
            data = b""
            for kind, flags, stream, payload in case["frames"]:
                octets = block(payload) if isinstance(payload, list) else bytes.fromhex(payload)
                data += frame(kind, flags, stream, octets)
            wanted = getattr(a2a, case["error"])
            with self.subTest(case["name"]):
                if case["scope"] == "connection":
                    self.assert_goaway(wanted, data)
                    continue
                with Attacker(self.server) as attacker:
                    attacker.send(data + frame("PING", 0, 0, b"goes on!"))
                    found = attacker.read(
                        lambda found: any(f[3] == b"goes on!" or f[0] == "GOAWAY" for f in found)
                    )
                    self.assertEqual([wanted], error_codes(found, "RST_STREAM"))
                    self.assertEqual([], error_codes(found, "GOAWAY"))

    def test_a_frame_that_is_too_large(self):
        data = (2**24 - 1).to_bytes(3, "big") + b"\0\0\0\0\0\1" + b"x" * 100_000
        self.assert_goaway(a2a.FRAME_SIZE_ERROR, headers(1, POST, 4) + data)

    def test_headers_over_the_limit(self):
        fields = [*GET, *[(f"x{i}", "y" * 400) for i in range(90)]]
        data = block(fields)
        parts = [data[at : at + 16000] for at in range(0, len(data), 16000)]
        rest = b"".join(frame("CONTINUATION", 4 * (p is parts[-1]), 1, p) for p in parts[1:])
        self.assert_goaway(a2a.ENHANCE_YOUR_CALM, frame("HEADERS", 1, 1, parts[0]) + rest)

    def test_more_data_than_the_window(self):
        """A stream that nobody reads is held back; who sends on regardless is cut off."""
        with Attacker(self.server) as attacker:
            attacker.send(headers(1, [*POST[:2], (":path", "/forever"), POST[3]], 4))
            attacker.send(frame("DATA", 0, 1, b"x" * 16384), 200)
            found = attacker.read(lambda found: any(f[0] == "RST_STREAM" for f in found))
            self.assertIn(a2a.FLOW_CONTROL_ERROR, error_codes(found, "RST_STREAM"))

    def test_a_body_over_the_limit(self):
        with Attacker(self.server) as attacker:
            length = ("content-length", str(a2a.BODY_BYTES + 1))
            attacker.send(headers(1, [*POST[:2], (":path", "/5"), POST[3], length], 4))
            found = attacker.read(lambda found: any(f[0] == "RST_STREAM" for f in found))
            self.assertEqual(1, len(error_codes(found, "RST_STREAM")))


class StallTest(Attack):
    """Peers that are slow on purpose; the limits are shortened for the test."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(
            WRITE_STALL_S=0.5, HEADER_DEADLINE_S=0.5, BODY_STALL_S=0.5, KEEP_ALIVE_S=0.7,
            SWEEP_S=0.1,
        )  # fmt: skip

    def assert_cut(self, attacker):
        """The server closes, without an answer."""
        found = attacker.read()
        self.assertEqual([], [f for f in found if f[0] in ("HEADERS", "DATA")])

    def path(self, text):
        return [*GET[:2], (":path", text), GET[3]]

    def test_windows_that_stay_shut(self):
        """CVE-2019-9517: many large answers are asked for and none is taken."""
        with Attacker(self.server) as attacker:
            attacker.send(setting((4, 0)))
            for stream in range(1, 101, 2):
                attacker.send(headers(stream, self.path("/3000000")))
            time.sleep(0.3)
            self.assertLess(self.server.memory_kib() - self.before, MEMORY_KIB)
            found = attacker.read(lambda found: len(error_codes(found, "RST_STREAM")) >= 1)
            self.assertEqual({a2a.CANCEL}, set(error_codes(found, "RST_STREAM")))

    def test_windows_that_open_by_one_octet(self):
        """CVE-2019-9511."""
        with Attacker(self.server) as attacker:
            attacker.send(setting((4, 1)) + headers(1, self.path("/3000")))
            for count in range(1, 200):
                time.sleep(0.05)
                attacker.send(number("WINDOW_UPDATE", 1, 1))
                found = attacker.read(lambda found, n=count: len(found) > n)
                if error_codes(found, "RST_STREAM"):
                    break
            self.assertEqual([a2a.CANCEL], error_codes(attacker.whole(), "RST_STREAM"))

    def test_a_client_that_reads_nothing(self):
        """Large windows and no reading: the connection is cut."""
        opening = OPENING + setting((4, 2**30)) + number("WINDOW_UPDATE", 0, 2**30)
        with Attacker(self.server, opening) as attacker:
            attacker.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for stream in range(1, 101, 2):
                attacker.send(headers(stream, self.path("/9000000")))
            time.sleep(1.5)
            self.assertLess(self.server.memory_kib() - self.before, MEMORY_KIB + 20_000)
            self.assertEqual(b"1", support.http(self.server.port, "GET", "/open")[2])

    def test_a_preface_that_never_ends(self):
        with Attacker(self.server, a2a.PREFACE[:20]) as attacker:
            self.assertEqual([], attacker.read())

    def test_a_client_that_says_nothing_after_the_preface(self):
        with Attacker(self.server, a2a.PREFACE) as attacker:
            self.assert_cut(attacker)

    def test_a_header_block_that_never_ends(self):
        with Attacker(self.server) as attacker:
            attacker.send(frame("HEADERS", 1, 1, block(GET)))
            self.assert_cut(attacker)

    def test_a_body_that_never_ends(self):
        with Attacker(self.server) as attacker:
            attacker.send(headers(1, POST, 4) + frame("DATA", 0, 1, b"x"))
            found = attacker.read(lambda found: any(f[0] == "RST_STREAM" for f in found))
            self.assertEqual([a2a.CANCEL], error_codes(found, "RST_STREAM"))

    def test_an_idle_connection(self):
        with Attacker(self.server) as attacker:
            found = attacker.read()
            self.assertEqual([a2a.NO_ERROR], error_codes(found, "GOAWAY"))


class AnswersTest(Attack):
    """Peers that are not slow enough to be cut for that alone."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(ANSWERS_BYTES=5_000_000, SWEEP_S=0.1)

    def test_answers_that_wait_for_windows_are_bounded_together(self):
        path = [*GET[:2], (":path", "/3000000"), GET[3]]
        with Attacker(self.server) as first, Attacker(self.server) as second:
            first.send(headers(1, path))
            time.sleep(0.5)
            second.send(headers(1, path))
            first.read()  # to its end: it was behind for longer
            opened = number("WINDOW_UPDATE", 0, 2**20) + number("WINDOW_UPDATE", 1, 2**20)
            second.send(opened, 4)
            found = second.read(lambda found: any(f[0] == "DATA" and f[1] & 1 for f in found))
            self.assertEqual(3_000_000, sum(len(f[3]) for f in found if f[0] == "DATA"))


del Attack  # a base, no test of its own

if __name__ == "__main__":
    unittest.main()
