"""Chapter 14, server side: connections over real sockets on loopback."""

import asyncio
import contextlib
import gc
import logging
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

PATIENCE_S = 20.0  # how long a test waits for what must come
GET = b"GET %b HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST %b HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST %b HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"


class Host:
    """A Listener in a thread of its own; its handler does what the target of a request names."""

    tls = None  # a ServerTls, in the tests of that

    def __init__(self, connections=100, body_limit_bytes=a2a.BODY_BYTES):
        self.reports = []
        self.cancelled = threading.Event()
        self.seen = []
        self.gates = {}
        self.settings = (connections, body_limit_bytes)
        self.opened = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.main()), daemon=True)

    async def main(self):
        self.loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        bound = a2a.listening_socket("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        self.listener = a2a.Listener(self.handle, self.reports.append, *self.settings)
        self.listener.open(bound, self.tls)
        self.opened.set()
        await self.over.wait()
        await self.listener.close(1.0)

    def __enter__(self):
        self.thread.start()
        self.opened.wait(PATIENCE_S)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(PATIENCE_S)

    def call(self, function, *arguments):
        """Run a function in the loop's thread; give its result."""

        async def run():
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S)

    def wires(self):
        return self.call(lambda: list(self.listener._wires))

    async def handle(self, exchange):
        self.seen.append(exchange.request.target)
        name = exchange.request.target[1:].partition("/")[0] or "hello"
        try:
            await getattr(self, "do_" + name)(exchange)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def do_hello(self, exchange):
        exchange.respond(200, [("content-type", "text/plain")], b"hello")

    async def do_nap(self, exchange):
        await asyncio.sleep(0.05)
        exchange.respond(200, [], exchange.request.target.encode())

    async def do_yield(self, exchange):
        await asyncio.sleep(0)
        exchange.respond(200, [], b"yielded")

    async def do_fail(self, exchange):
        future = self.loop.create_future()
        self.loop.call_later(0.02, future.set_exception, KeyError("late"))
        try:
            await future
        except KeyError:
            await asyncio.sleep(0)
            exchange.respond(200, [], b"caught")

    async def do_lost(self, exchange):
        exchange.start(200, [])
        exchange._lane.wire.abort()  # as a reset by the peer does
        for _ in range(10):
            exchange.write(b"piece")

    async def do_forever(self, exchange):
        await asyncio.sleep(1000)

    async def do_echo(self, exchange):
        try:
            exchange.respond(200, [], await exchange.read_body(a2a.NEVER))
        except a2a.HttpError as error:
            exchange.respond(error.status, [])

    async def do_size(self, exchange):
        body = await exchange.read_body(100_000)
        exchange.respond(200, [], b"%d" % len(body))

    async def do_limit(self, exchange):
        try:
            await exchange.read_body(1000)
        except a2a.HttpError as error:
            exchange.respond(error.status, [], error.message.encode())

    async def do_late(self, exchange):
        await asyncio.sleep(0.5)
        exchange.respond(200, [], b"%d" % len(await exchange.read_body(a2a.NEVER)))

    async def do_refuse(self, exchange):
        exchange.respond(401, [])

    async def do_raise(self, exchange):
        raise KeyError("the handler is broken")

    async def do_abort(self, exchange):
        raise asyncio.CancelledError

    async def do_nothing(self, exchange):
        pass

    async def do_where(self, exchange):
        exchange.respond(200, [], f"{exchange.peer} {exchange.local}".encode())

    async def do_count(self, exchange):
        exchange.start(200, [("content-type", a2a.SSE_TYPE)])
        for number in range(3):
            exchange.write(b"data: %d\n\n" % number)
            await exchange.drain()
            await asyncio.sleep(0.01)
        exchange.end()

    async def do_break(self, exchange):
        exchange.start(200, [])
        exchange.write(b"half")
        raise KeyError("in the middle")

    async def do_trailers(self, exchange):
        exchange.start(200, [])
        exchange.write(b"x")
        exchange.end([("grpc-status", "0")])

    async def do_pour(self, exchange):
        exchange.start(200, [])
        for _ in range(60):
            exchange.write(b"x" * 50_000)
            await exchange.drain()
        exchange.end()

    async def do_large(self, exchange):
        exchange.respond(200, [], b"x" * 1_000_000)

    async def do_silent(self, exchange):
        exchange.heartbeat = a2a.SSE_COMMENT
        exchange.start(200, [("content-type", a2a.SSE_TYPE)])
        exchange.write(b"data: first\n\n")
        await asyncio.sleep(1000)

    async def do_flood(self, exchange):
        exchange.start(200, [])
        self.sent = 0
        while self.sent < 400 * 1024 * 1024:
            exchange.write(b"x" * 65536)
            self.sent += 65536
            await exchange.drain()
            await asyncio.sleep(0)
        exchange.end()


def dial(host):
    """Open a connection."""
    return socket.create_connection(("127.0.0.1", host.port), PATIENCE_S)


def connect(host, *pieces, wait_s=0.0):
    """Open a connection and send pieces, a little apart."""
    link = dial(host)
    for piece in pieces:
        link.sendall(piece)
        time.sleep(wait_s)
    return link


def read_until(link, text, count=1):
    """Read until text has come count times; give all that was read."""
    data = b""
    while data.count(text) < count:
        piece = link.recv(65536)
        if not piece:
            raise AssertionError(f"closed before {text!r}: {data!r}")
        data += piece
    return data


def read_all(link):
    """Read until the peer closes; a reset is an error."""
    data = b""
    while True:
        piece = link.recv(65536)
        if not piece:
            return data
        data += piece


def talk(host, *pieces, wait_s=0.0):
    """Send pieces, shut our side down after the answer, give all that came."""
    with connect(host, *pieces, wait_s=wait_s) as link:
        return read_all(link)


def eventually(check):
    """Wait until check() is true."""
    until = time.monotonic() + PATIENCE_S
    while not check():
        if time.monotonic() > until:
            raise AssertionError("it never came true")
        time.sleep(0.01)


def patched(**constants):
    """Change constants of the module for a while."""
    return unittest.mock.patch.multiple(a2a, **constants)


class AnswerTest(unittest.TestCase):
    def test_an_answer_has_its_length_and_the_date(self):
        with Host() as host, connect(host, GET % b"/") as link:
            answer = read_until(link, b"hello")
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        self.assertEqual(b"HTTP/1.1 200 OK", lines[0])
        self.assertIn(b"content-length: 5", lines)
        self.assertRegex(head, rb"\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
        self.assertEqual(b"hello", body)

    def test_a_connection_serves_one_request_after_another(self):
        with Host() as host, connect(host) as link:
            for _ in range(3):
                link.sendall(GET % b"/")
                self.assertIn(b"200 OK", read_until(link, b"hello"))

    def test_a_request_may_come_byte_by_byte(self):
        request = POST % (b"/echo", 5) + b"12345"
        pieces = [request[at : at + 1] for at in range(len(request))]
        with Host() as host, connect(host, *pieces, wait_s=0.001) as link:
            self.assertIn(b"200 OK", read_until(link, b"12345"))

    def test_pipelined_requests_are_answered_in_order(self):
        """NET-05: one answer per request, in the order of the requests."""
        requests = b"".join(GET % b"/nap/%d" % n for n in range(4))
        with Host() as host, connect(host, requests) as link:
            answers = read_until(link, b"/nap/3")
        numbers = [part[:1] for part in answers.split(b"/nap/")[1:]]
        self.assertEqual([b"0", b"1", b"2", b"3"], numbers)
        self.assertEqual([f"/nap/{n}" for n in range(4)], host.seen)

    def test_many_pipelined_requests_do_not_starve_the_others(self):
        with Host() as host, connect(host, (GET % b"/") * 1000) as link:
            read_until(link, b"hello", 1000)
        self.assertEqual(1000, len(host.seen))

    def test_requests_that_pile_up_behind_a_slow_one_are_not_read(self):
        with Host() as host, connect(host, GET % b"/nap/1") as link:
            eventually(lambda: host.seen)
            sender = threading.Thread(target=link.sendall, args=((GET % b"/") * 5_000,))
            sender.start()
            answers = read_until(link, b"hello", 5_000)
            sender.join()
        self.assertTrue(answers.index(b"/nap/1") < answers.index(b"hello"))

    def test_requests_of_a_client_that_reads_no_answers_are_not_read(self):
        """NET-05: neither the answers nor the requests pile up."""
        with Host() as host, socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect(("127.0.0.1", host.port))
            link.settimeout(0.5)
            requests, sent = (POST % (b"/echo", 1000) + b"x" * 1000) * 100, 0
            with contextlib.suppress(TimeoutError, socket.timeout):
                while sent < 100_000_000:
                    sent += link.send(requests)
            (wire,) = host.wires()
            lane, written = wire.lane, wire.transport.get_write_buffer_size()
            self.assertLess(sent, 100_000_000)
            self.assertLess(len(lane._held) + lane.machine.buffered_bytes, 1_000_000)
            self.assertLess(written, 1_000_000)
            self.assertIn(b"200 OK", link.recv(65536))

    def test_close_is_honoured(self):
        request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        with Host() as host:
            self.assertTrue(talk(host, request).endswith(b"connection: close\r\n\r\nhello"))

    def test_a_handler_may_wait_in_every_way(self):
        for path, answer in ((b"/yield", b"yielded"), (b"/fail", b"caught"), (b"/nap", b"/nap")):
            with self.subTest(path), Host() as host, connect(host, GET % path) as link:
                self.assertIn(b"200 OK", read_until(link, answer))

    def test_the_handler_knows_both_addresses(self):
        with Host() as host, connect(host, GET % b"/where") as link:
            read_until(link, b"127.0.0.1 127.0.0.1")

    def test_the_first_bytes_may_be_the_beginning_of_either_protocol(self):
        with Host() as host, connect(host, b"P", b"OST /echo HTT", wait_s=0.05) as link:
            link.sendall(b"P/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nok")
            self.assertIn(b"200 OK", read_until(link, b"ok"))


class ErrorTest(unittest.TestCase):
    def test_a_broken_handler_is_answered_500_and_reported(self):
        with Host() as host, connect(host, GET % b"/raise") as link:
            self.assertIn(b"HTTP/1.1 500 ", read_until(link, b"\r\n\r\n"))
            link.sendall(GET % b"/")
            self.assertIn(b"200 OK", read_until(link, b"hello"))
        self.assertEqual(["'the handler is broken'"], [str(error) for error in host.reports])

    def test_a_handler_that_does_not_answer_is_answered_for(self):
        for path in (b"/nothing", b"/abort"):
            with self.subTest(path), Host() as host, connect(host, GET % path) as link:
                self.assertIn(b"HTTP/1.1 500 ", read_until(link, b"\r\n\r\n"))

    def test_a_stream_that_breaks_is_cut_not_ended(self):
        with Host() as host, connect(host, GET % b"/break") as link:
            with contextlib.suppress(ConnectionError):
                data = read_all(link)
                self.assertNotIn(b"\r\n0\r\n", data)
            eventually(lambda: not host.wires())
        self.assertEqual("'in the middle'", str(host.reports[0]))

    def test_what_is_not_http_is_refused_and_the_refusal_arrives(self):
        """NET-05: bytes still on their way do not reset the connection over the answer."""
        with Host() as host:
            answer = talk(host, b"GET / HTTP/1.1\r\nHost : x\r\n\r\n" + b"x" * 500_000)
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"))
        self.assertIn(b"connection: close", answer)
        self.assertEqual([], host.seen)

    def test_a_refused_peer_cannot_send_for_ever(self):
        with Host() as host, connect(host, b"\x16\x03\x01\r\n\r\n") as link:
            with self.assertRaises(OSError):
                for _ in range(1000):
                    link.sendall(b"x" * 65536)
            eventually(lambda: not host.wires())

    def test_a_refused_peer_that_stays_is_cut(self):
        limits = {"LINGER_S": 0.1, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, connect(host, b"nonsense\r\n\r\n") as link:
            eventually(lambda: not host.wires())
            self.assertIn(b"400", read_all(link))

    def test_a_body_that_breaks_ends_its_handler(self):
        with Host() as host:
            answer = talk(host, CHUNKED % b"/echo" + b"5\r\nhel", b"lo!!\r\n", wait_s=0.1)
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "))
            self.assertTrue(host.cancelled.wait(PATIENCE_S))


class BodyTest(unittest.TestCase):
    def test_a_chunked_body_is_read(self):
        """NET-05: chunked request bodies."""
        with Host() as host:
            pieces = (CHUNKED % b"/echo", b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n")
            with connect(host, *pieces, wait_s=0.05) as link:
                read_until(link, b"abcde")

    def test_a_large_body_comes_whole(self):
        body = os.urandom(3_000_000)
        with Host() as host, connect(host) as link:
            link.sendall(POST % (b"/echo", len(body)))
            sender = threading.Thread(target=link.sendall, args=(body,))
            sender.start()
            answer = read_until(link, b"\r\n\r\n")
            while len(answer.partition(b"\r\n\r\n")[2]) < len(body):
                answer += link.recv(1 << 20)
            sender.join()
        self.assertEqual(body, answer.partition(b"\r\n\r\n")[2])

    def test_continue_is_said_when_the_body_is_wanted(self):
        """NET-05: Expect: 100-continue."""
        head = (
            b"POST %b HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        with Host() as host, connect(host, head % b"/echo") as link:
            self.assertEqual(a2a.CONTINUE, read_until(link, b"\r\n\r\n"))
            link.sendall(b"ok")
            self.assertIn(b"200 OK", read_until(link, b"ok"))
        with Host() as host:
            answer = talk(host, head % b"/refuse")
        self.assertTrue(answer.startswith(b"HTTP/1.1 401 "))
        self.assertIn(b"connection: close", answer)

    def test_a_body_over_the_limit_is_refused_before_it_is_read(self):
        """JSON-18: Content-Length says so, or the chunks do."""
        with Host() as host:
            declared = talk(host, POST % (b"/limit", 1001))
            chunked = talk(host, CHUNKED % b"/limit" + b"3e9\r\n" + b"x" * 1001)
            dripped = talk(host, CHUNKED % b"/limit", b"3e9\r\n", b"x" * 1001, wait_s=0.05)
        for answer in (declared, chunked, dripped):
            self.assertTrue(answer.startswith(b"HTTP/1.1 413 Content Too Large\r\n"), answer)
            self.assertIn(b"connection: close", answer)
            self.assertIn(b"longer than 1000 bytes", answer)

    def test_the_server_has_a_limit_of_its_own(self):
        """JSON-18: nobody asked for the body yet, and it is refused all the same."""
        with Host(body_limit_bytes=5000) as host:
            answer = talk(host, POST % (b"/size", 60_000_000))
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "))
        self.assertEqual([], host.seen)

    def test_large_bodies_together_have_a_limit_as_well(self):
        """JSON-18: a crowd of them cannot fill the memory; small requests go on."""
        with patched(BODIES_BYTES=300_000), Host() as host:
            first = connect(host, POST % (b"/echo", 400_000) + b"x" * 250_000)
            eventually(lambda: host.listener.bodies_bytes == 250_000)
            answer = talk(host, POST % (b"/echo", 400_000) + b"x" * 100_000)
            self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
            with connect(host, POST % (b"/echo", 5) + b"small") as link:
                read_until(link, b"small")
            self.assertEqual(250_000, host.listener.bodies_bytes)
            first.close()
            eventually(lambda: host.listener.bodies_bytes == 0)
            with connect(host, POST % (b"/echo", 100_000) + b"x" * 100_000) as link:
                self.assertIn(b"200 OK", read_until(link, b"x" * 100_000))
            self.assertEqual(0, host.listener.bodies_bytes)

    def test_a_body_that_nobody_reads_is_read_over(self):
        """NET-05: unread bodies drained; the connection serves the next request."""
        with Host() as host, connect(host, POST % (b"/refuse", 10_000)) as link:
            read_until(link, b"\r\n\r\n")
            link.sendall(b"x" * 10_000 + GET % b"/")
            self.assertIn(b"200 OK", read_until(link, b"hello"))

    def test_a_large_body_that_nobody_reads_ends_the_connection(self):
        """NET-05: or the connection closed."""
        with Host() as host:
            answer = talk(host, POST % (b"/refuse", 10_000_000) + b"x" * 100_000)
        self.assertTrue(answer.startswith(b"HTTP/1.1 401 "))
        self.assertIn(b"connection: close", answer)

    def test_a_body_waits_outside_until_the_handler_asks(self):
        body = b"x" * 8_000_000
        with Host() as host, connect(host) as link:
            sender = threading.Thread(target=link.sendall, args=(POST % (b"/late", len(body)),))
            sender.start()
            sender.join()
            sender = threading.Thread(target=link.sendall, args=(body,))
            sender.start()
            eventually(lambda: [w.transport.is_reading() for w in host.wires()] == [False])
            self.assertIn(b"200 OK", read_until(link, b"8000000"))
            sender.join()


class StreamTest(unittest.TestCase):
    def test_a_stream_goes_out_piece_by_piece_and_ends(self):
        with Host() as host, connect(host, GET % b"/count") as link:
            data = read_until(link, b"\r\n0\r\n\r\n")
            link.sendall(GET % b"/")
            read_until(link, b"hello")
        self.assertIn(b"transfer-encoding: chunked\r\n", data)
        self.assertEqual(3, data.count(b"data: "))

    def test_a_silent_stream_is_kept_alive_by_comments(self):
        """SSE-17: a proxy with a 30 s cut never sees 30 s of silence."""
        self.assertLess(a2a.SSE_COMMENT_S, 30)
        limits = {"SSE_COMMENT_S": 0.1, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, connect(host, GET % b"/silent") as link:
            data = read_until(link, b"\r\n:\n\n\r\n", 3)
        self.assertIn(b"data: first\n\n", data)

    def test_a_client_that_leaves_a_stream_ends_its_handler_at_once(self):
        """SSE-18: no spinning consumer is left behind."""
        with Host() as host:
            with connect(host, GET % b"/silent") as link:
                read_until(link, b"data: first")
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            eventually(lambda: not host.wires())

    def test_a_slow_reader_holds_the_writer_back(self):
        with Host() as host, connect(host, GET % b"/flood") as link:
            eventually(lambda: any(wire.waiters for wire in host.wires()))
            before = host.sent
            time.sleep(0.1)
            self.assertEqual(before, host.sent)
            for _ in range(200):
                link.recv(1 << 20)
            eventually(lambda: host.sent > before)

    def test_a_reader_that_takes_nothing_is_dropped(self):
        limits = {"WRITE_STALL_S": 0.2, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, connect(host, GET % b"/flood"):
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            eventually(lambda: not host.wires())

    def test_a_slow_reader_that_takes_something_is_kept(self):
        limits = {"WRITE_STALL_S": 0.3, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, connect(host, GET % b"/flood") as link:
            for _ in range(10):
                time.sleep(0.1)
                link.recv(1 << 20)
            self.assertEqual(1, len(host.wires()))
            self.assertFalse(host.cancelled.is_set())


class DeadlineTest(unittest.TestCase):
    """The clock of a connection is looked at every SWEEP_S."""

    def test_a_head_that_drips_is_cut(self):
        """NET-05: 1 byte/s header."""
        with patched(HEADER_DEADLINE_S=0.3, SWEEP_S=0.05), Host() as host, connect(host) as link:
            answer = b""
            with contextlib.suppress(ConnectionError):
                for byte in GET % b"/" * 10:
                    link.sendall(bytes([byte]))
                    time.sleep(0.02)
            with contextlib.suppress(ConnectionError):
                answer = read_all(link)
        self.assertTrue(answer.startswith(b"HTTP/1.1 408 ") or not answer, answer)
        self.assertEqual([], host.seen)

    def test_a_head_that_stops_is_answered_408(self):
        for start in (b"GET / HTTP/1.1\r\nHost:", b"P"):  # P may be HTTP/2 as well
            with patched(HEADER_DEADLINE_S=0.2, SWEEP_S=0.05), Host() as host:
                answer = talk(host, start)
            self.assertTrue(answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), start)

    def test_a_second_head_that_stops_is_answered_408(self):
        with patched(HEADER_DEADLINE_S=0.2, SWEEP_S=0.05), Host() as host:
            answer = talk(host, GET % b"/", b"GET", wait_s=0.05)
        self.assertIn(b"hello", answer)
        self.assertIn(b"HTTP/1.1 408 Request Timeout\r\n", answer)

    def test_a_body_that_stops_is_answered_408(self):
        with patched(BODY_STALL_S=0.2, SWEEP_S=0.05), Host() as host:
            answer = talk(host, POST % (b"/echo", 10) + b"12345")
            self.assertTrue(answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n"))
            self.assertTrue(host.cancelled.wait(PATIENCE_S))

    def test_a_body_slower_than_anyone_needs_is_cut(self):
        limits = {"BODY_STALL_S": 0.3, "BODY_BYTES_A_SECOND": 1000, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, connect(host, POST % (b"/echo", 1000)) as link:
            with contextlib.suppress(OSError):
                for _ in range(40):
                    link.sendall(b"x")
                    time.sleep(0.02)
            self.assertTrue(host.cancelled.wait(PATIENCE_S))

    def test_a_connection_that_says_nothing_is_closed(self):
        with patched(HEADER_DEADLINE_S=0.2, SWEEP_S=0.05), Host() as host, connect(host) as link:
            eventually(lambda: host.wires())
            eventually(lambda: not host.wires())
            with contextlib.suppress(ConnectionError):
                self.assertEqual(b"", link.recv(10))

    def test_an_idle_connection_is_closed_without_a_word(self):
        with patched(KEEP_ALIVE_S=0.2, SWEEP_S=0.05), Host() as host:
            answer = talk(host, GET % b"/")
        self.assertTrue(answer.endswith(b"hello"))
        self.assertEqual(1, answer.count(b"HTTP/1.1"))

    def test_a_long_answer_has_no_deadline(self):
        limits = dict.fromkeys(("KEEP_ALIVE_S", "HEADER_DEADLINE_S", "BODY_STALL_S"), 0.1)
        limits["SWEEP_S"] = 0.02
        with patched(**limits), Host() as host, connect(host, GET % b"/forever") as link:
            link.settimeout(0.5)
            with self.assertRaises(socket.timeout):
                link.recv(1)
            self.assertEqual(1, len(host.wires()))


class LeavingTest(unittest.TestCase):
    def test_who_has_closed_its_side_still_gets_an_answer(self):
        with Host() as host, connect(host, GET % b"/nap/1") as link:
            link.shutdown(socket.SHUT_WR)
            self.assertTrue(read_all(link).endswith(b"/nap/1"))

    def test_who_has_closed_its_side_does_not_get_one_for_ever(self):
        limits = {"HALF_CLOSED_S": 0.2, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, connect(host, GET % b"/forever") as link:
            link.shutdown(socket.SHUT_WR)
            self.assertTrue(host.cancelled.wait(PATIENCE_S))

    def test_who_leaves_in_the_middle_of_a_body_ends_the_handler(self):
        with Host() as host:
            connect(host, POST % (b"/echo", 10) + b"1234").close()
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            eventually(lambda: not host.wires())

    def test_who_leaves_before_asking_is_forgotten(self):
        with Host() as host:
            connect(host).close()
            connect(host, b"PO").close()
            eventually(lambda: not host.wires())
        self.assertEqual([], host.seen)

    def test_what_is_written_to_a_lost_connection_fills_no_log(self):
        with Host() as host, self.assertLogs("asyncio") as logs:
            read_all(connect(host, GET % b"/lost"))
            eventually(lambda: not host.wires())
            logging.getLogger("asyncio").warning("the end")
        self.assertEqual(["WARNING:asyncio:the end"], logs.output)

    def test_nothing_is_left_of_connections_that_went(self):
        def left():
            host.call(gc.collect)
            all_left = [thing for thing in gc.get_objects() if isinstance(thing, a2a.Exchange)]
            return [one for one in all_left if one._lane.wire.listener is host.listener]

        with Host() as host:
            for _ in range(20):
                connect(host, GET % b"/silent").close()
            eventually(lambda: len(host.seen) == 20)
            eventually(lambda: not host.wires())
            eventually(lambda: not left())


def served_again(host):
    """Say whether a new connection is served."""
    try:
        with connect(host, GET % b"/") as link:
            return b"hello" in read_until(link, b"\r\n\r\n")
    except (AssertionError, ConnectionError):
        return False


class CrowdTest(unittest.TestCase):
    def test_one_connection_too_many_is_told_so(self):
        with Host(connections=3) as host:
            links = [connect(host, GET % b"/") for _ in range(3)]
            for link in links:
                read_until(link, b"hello")
            answer = talk(host, GET % b"/")
            self.assertTrue(answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n"))
            self.assertIn(b"connection: close", answer)
            links.pop().close()
            eventually(lambda: len(host.wires()) == 2)
            with connect(host, GET % b"/") as link:
                read_until(link, b"hello")
            for link in links:
                link.close()

    def test_a_flood_of_connections_is_cut(self):
        with patched(SURPLUS_CONNECTIONS=5, LINGER_S=60), Host(connections=2) as host:
            links = [connect(host) for _ in range(30)]
            eventually(lambda: len(host.wires()) == 7)
            for link in links:
                link.close()
            eventually(lambda: not host.wires())
            with connect(host, GET % b"/") as link:
                read_until(link, b"hello")

    @unittest.skipIf(os.name == "nt", "Windows has no such limit")
    def test_a_process_with_few_descriptors_stays_alive(self):
        """NET-05: more connections than descriptors; the surplus is refused, the rest served."""
        program = """
import resource, sys, socket, threading, pathlib
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import test_14_wires_server as tests
with tests.Host(connections=1000) as host:
    print(host.port, host.listener.room[0], flush=True)
    sys.stdin.read()
"""
        here = pathlib.Path(__file__).resolve()
        command = [sys.executable, "-c", program, str(here.parents[1]), str(here.parent)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            port, limit = map(int, child.stdout.readline().split())
            host = unittest.mock.Mock(port=port)
            links = [connect(host) for _ in range(100)]
            outcomes = []
            for link in links:
                with contextlib.suppress(ConnectionError):
                    link.sendall(GET % b"/")
            for link in links:
                link.settimeout(PATIENCE_S)
                try:
                    outcomes.append(link.recv(20)[9:12])
                except ConnectionError:
                    outcomes.append(b"cut")
            self.assertLess(limit, 60)
            self.assertEqual(limit, outcomes.count(b"200"))
            self.assertLessEqual(set(outcomes), {b"200", b"503", b"cut", b""})
            for link in links:
                link.close()
            eventually(lambda: served_again(host))
            child.stdin.close()
            self.assertEqual(0, child.wait(PATIENCE_S))

    def test_without_a_limit_the_descriptors_are_one(self):
        self.assertEqual(10, a2a.room_for(10)[0])
        if os.name != "nt":
            self.assertGreater(a2a.room_for(0)[0], 10)


class Http2Peer:
    """A client of HTTP/2 on a real socket, by the machine of chapter 10; asks and listens."""

    def __init__(self, host):
        self.link = dial(host)
        self.machine = a2a.Http2Connection(client=True)
        self.events = []
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def flush(self):
        self.link.sendall(self.machine.take_output())

    def shut_windows(self):
        """Never again allow the server more than it may send now."""
        self.machine.sender.number = unittest.mock.Mock()

    def ask(self, target, body=b"", method="POST", end=True, **headers):
        fields = [("host", "test"), *headers.items()]
        stream = self.machine.request(method, target, fields, body, end)
        self.flush()
        return stream

    def listen(self, done):
        """Receive until done(events) is true or the server closes; give all events."""
        while not done(self.events):
            data = self.link.recv(65536)
            if not data:
                break
            self.events += self.machine.receive(data)
            self.flush()
        return self.events

    def answer(self, stream):
        """Give the status and body of a stream's answer, once it has come whole."""
        self.listen(
            lambda events: any(isinstance(e, a2a.End) and e.stream == stream for e in events)
        )
        mine = [event for event in self.events if getattr(event, "stream", 0) == stream]
        heads = [event for event in mine if isinstance(event, a2a.Response)]
        data = b"".join(event.data for event in mine if isinstance(event, a2a.Data))
        return heads[0].status, data

    def first(self, kind):
        """Give the first event of a kind, once it has come."""
        self.listen(lambda events: any(isinstance(event, kind) for event in events))
        return next(event for event in self.events if isinstance(event, kind))


class Http2Test(unittest.TestCase):
    """The same listener, the same handlers, the other protocol."""

    def test_the_preface_may_come_byte_by_byte(self):
        with Host() as host, Http2Peer(host) as peer:
            peer.machine.request("GET", "/", [("host", "test")])
            for byte in peer.machine.take_output():
                peer.link.sendall(bytes([byte]))
            self.assertEqual((200, b"hello"), peer.answer(1))
        self.assertEqual(["/"], host.seen)

    def test_streams_are_answered_side_by_side(self):
        with Host() as host, Http2Peer(host) as peer:
            slow, quick = peer.ask("/nap/1"), peer.ask("/echo", b"body")
            self.assertEqual((200, b"body"), peer.answer(quick))
            self.assertEqual((200, b"/nap/1"), peer.answer(slow))
            order = [event.stream for event in peer.events if isinstance(event, a2a.End)]
            self.assertEqual([quick, slow], order)
            dates = [e.headers["date"] for e in peer.events if isinstance(e, a2a.Response)]
            self.assertIn("GMT", dates[0])

    def test_more_requests_at_once_than_are_run_in_a_row(self):
        with Host() as host, Http2Peer(host) as peer:
            streams = [peer.machine.request("GET", "/", [("host", "test")]) for _ in range(50)]
            peer.flush()
            self.assertEqual({(200, b"hello")}, {peer.answer(stream) for stream in streams})

    def test_a_large_body_comes_whole(self):
        body = os.urandom(1_000_000)
        with Host() as host, Http2Peer(host) as peer:
            stream = peer.ask("/echo", body)
            self.assertEqual((200, body), peer.answer(stream))

    def test_a_body_over_the_limit_is_refused(self):
        """JSON-18: with and without a Content-Length."""
        with Host() as host, Http2Peer(host) as peer:
            declared = peer.ask("/limit", b"x" * 1001, **{"content-length": "1001"})
            self.assertEqual(413, peer.answer(declared)[0])
            dripped = peer.ask("/limit", b"x" * 500, end=False)
            peer.machine.data(dripped, b"x" * 501)
            peer.flush()
            self.assertEqual(413, peer.answer(dripped)[0])

    def test_a_body_waits_outside_until_the_handler_asks(self):
        body = b"x" * 8_000_000
        with Host() as host, Http2Peer(host) as peer:
            stream = peer.ask("/late", body)
            peer.link.settimeout(0.15)
            with self.assertRaises(socket.timeout):  # no more WINDOW_UPDATE of this stream
                peer.listen(lambda events: False)
            wires = host.wires()
            held = host.call(lambda: [len(e._body) for wire in wires for e in exchanges(wire)])
            self.assertLess(held[0], 2 * a2a.HTTP2_WINDOW_BYTES)
            peer.link.settimeout(PATIENCE_S)
            self.assertEqual((200, b"8000000"), peer.answer(stream))

    def test_continue_is_said_when_the_body_is_wanted(self):
        with Host() as host, Http2Peer(host) as peer:
            stream = peer.ask("/echo", end=False, expect="100-continue")
            eventually(lambda: host.seen)
            peer.machine.data(stream, b"ok", True)
            peer.flush()
            self.assertEqual((200, b"ok"), peer.answer(stream))

    def test_a_stream_of_events_ends(self):
        with Host() as host, Http2Peer(host) as peer:
            self.assertEqual(
                (200, b"data: 0\n\ndata: 1\n\ndata: 2\n\n"), peer.answer(peer.ask("/count"))
            )

    def test_an_answer_may_have_trailers(self):
        with Host() as host, Http2Peer(host) as peer:
            stream = peer.ask("/trailers")
            self.assertEqual((200, b"x"), peer.answer(stream))
            end = peer.first(a2a.End)
        self.assertEqual({"grpc-status": "0"}, dict(end.trailers))

    def test_a_silent_stream_is_kept_alive_by_comments(self):
        """SSE-17: over HTTP/2 as well."""
        limits = {"SSE_COMMENT_S": 0.1, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, Http2Peer(host) as peer:
            peer.ask("/silent")
            peer.listen(lambda events: sum(getattr(e, "data", b"") == b":\n\n" for e in events) > 2)
            self.assertIn(b"data: first\n\n", [getattr(e, "data", b"") for e in peer.events])

    def test_a_broken_handler_ends_its_stream_alone(self):
        with Host() as host, Http2Peer(host) as peer:
            self.assertEqual(500, peer.answer(peer.ask("/raise"))[0])
            broken = peer.ask("/break")
            self.assertEqual((broken, a2a.INTERNAL_ERROR), peer.first(a2a.Reset)[:2])
            self.assertEqual((200, b"hello"), peer.answer(peer.ask("/")))

    def test_a_stream_that_the_client_gives_up_ends_its_handler_alone(self):
        with Host() as host, Http2Peer(host) as peer:
            given_up, other = peer.ask("/silent"), peer.ask("/nap/1")
            peer.first(a2a.Data)
            peer.machine.reset(given_up)
            peer.flush()
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            self.assertEqual((200, b"/nap/1"), peer.answer(other))

    def test_a_request_given_up_before_it_was_run_is_not_run(self):
        with Host() as host, Http2Peer(host) as peer:
            streams = [peer.machine.request("GET", "/", [("host", "test")]) for _ in range(20)]
            peer.machine.reset(streams[-1])
            peer.flush()
            for stream in streams[:-1]:
                peer.answer(stream)
            peer.answer(peer.ask("/"))
        self.assertEqual(20, len(host.seen))

    def test_a_client_that_leaves_ends_all_its_handlers(self):
        with Host() as host:
            with Http2Peer(host) as peer:
                peer.ask("/silent")
                peer.ask("/forever")
                peer.first(a2a.Data)
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            eventually(lambda: not host.wires())

    def test_a_shut_window_holds_one_stream_back_and_no_other(self):
        with Host() as host, Http2Peer(host) as peer:
            peer.shut_windows()
            peer.ask("/flood")
            peer.link.settimeout(0.3)
            with self.assertRaises(socket.timeout):
                peer.listen(lambda events: False)
            before = host.sent
            self.assertLess(before, 8_000_000)
            time.sleep(0.1)
            self.assertEqual(before, host.sent)

    def test_a_window_that_opens_again_lets_the_stream_go_on(self):
        with Host() as host, Http2Peer(host) as peer:
            allow = peer.machine.sender.number
            peer.shut_windows()
            stream = peer.ask("/pour")
            peer.link.settimeout(0.3)
            with self.assertRaises(socket.timeout):
                peer.listen(lambda events: False)
            peer.link.settimeout(PATIENCE_S)
            peer.machine.sender.number = allow
            for number in (0, stream):
                allow(8, number, 10_000_000)  # WINDOW_UPDATE
            peer.flush()
            self.assertEqual(
                (200, 3_000_000), (peer.answer(stream)[0], len(peer.answer(stream)[1]))
            )

    def test_a_stream_whose_window_stays_shut_is_reset(self):
        limits = {"WRITE_STALL_S": 0.2, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, Http2Peer(host) as peer:
            peer.shut_windows()
            stalled = peer.ask("/flood")
            self.assertEqual(stalled, peer.first(a2a.Reset).stream)
            self.assertTrue(host.cancelled.wait(PATIENCE_S))

    def test_a_body_that_stops_is_reset(self):
        limits = {"BODY_STALL_S": 0.2, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, Http2Peer(host) as peer:
            stream = peer.ask("/echo", b"half", end=False)
            self.assertEqual(stream, peer.first(a2a.Reset).stream)
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            self.assertEqual((200, b"hello"), peer.answer(peer.ask("/")))

    def test_the_rest_of_a_request_that_was_answered_early_has_its_time(self):
        """It is read over while it comes; when it does not, its connection idles and is closed."""
        limits = {"WRITE_STALL_S": 0.2, "KEEP_ALIVE_S": 0.2, "SWEEP_S": 0.05}
        with patched(**limits), Host() as host, Http2Peer(host) as peer:
            early = peer.ask("/", b"half", end=False, **{"content-length": "8"})
            self.assertEqual((200, b"hello"), peer.answer(early))
            peer.machine.data(early, b"more", True)
            peer.flush()
            self.assertEqual((200, b"hello"), peer.answer(peer.ask("/")))
            self.assertFalse([e for e in peer.events if isinstance(e, a2a.Reset)])
            silent = peer.ask("/", b"half", end=False, **{"content-length": "8"})
            self.assertEqual((200, b"hello"), peer.answer(silent))
            self.assertEqual(a2a.NO_ERROR, peer.first(a2a.GoAway).error_code)
            self.assertEqual(b"", peer.link.recv(10))

    def test_a_broken_protocol_is_told_and_ends_everything(self):
        with Host() as host, Http2Peer(host) as peer:
            peer.ask("/silent")
            peer.first(a2a.Data)
            peer.link.sendall(b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00")
            self.assertEqual(a2a.PROTOCOL_ERROR, peer.first(a2a.GoAway).error_code)
            self.assertTrue(host.cancelled.wait(PATIENCE_S))
            self.assertEqual(b"", peer.link.recv(10))

    def test_stopping_says_so_and_lets_answers_end(self):
        with Host() as host, Http2Peer(host) as peer:
            stream = peer.ask("/nap/1")
            eventually(lambda: host.seen)
            host.call(host.listener.stop)
            self.assertEqual(a2a.NO_ERROR, peer.first(a2a.GoAway).error_code)
            self.assertEqual((200, b"/nap/1"), peer.answer(stream))
            self.assertEqual(b"", peer.link.recv(10))

    def test_an_idle_connection_is_closed_with_a_word(self):
        with patched(KEEP_ALIVE_S=0.2, SWEEP_S=0.05), Host() as host, Http2Peer(host) as peer:
            peer.answer(peer.ask("/"))
            self.assertEqual(a2a.NO_ERROR, peer.first(a2a.GoAway).error_code)
            self.assertEqual(b"", peer.link.recv(10))

    def test_answers_that_are_not_read_hold_further_requests_back(self):
        with Host() as host, Http2Peer(host) as peer:
            for _ in range(30):
                peer.ask("/large")
            peer.link.settimeout(0.3)
            peer.shut_windows()
            with self.assertRaises(socket.timeout):
                peer.listen(lambda events: False)
            self.assertLess(len(host.seen), 10)


def exchanges(wire):
    """Give the exchanges that are open on a wire."""
    lane = wire.lane
    return list(lane._exchanges.values()) if isinstance(lane, a2a.Http2Lane) else [lane.exchange]


class StopTest(unittest.TestCase):
    def test_stopping_closes_what_is_idle_and_lets_answers_end(self):
        with Host() as host:
            idle, fresh = connect(host, GET % b"/"), connect(host)
            read_until(idle, b"hello")
            busy, streaming = connect(host, GET % b"/nap/1"), connect(host, GET % b"/count")
            eventually(lambda: len(host.seen) == 3)
            host.call(host.listener.stop)
            self.assertEqual(b"", read_all(idle))
            self.assertEqual(b"", read_all(fresh))
            answer = read_all(busy)
            self.assertIn(b"connection: close", answer)
            self.assertTrue(answer.endswith(b"/nap/1"))
            self.assertTrue(read_all(streaming).endswith(b"0\r\n\r\n"))
            with self.assertRaises(OSError):
                connect(host)
            for link in (idle, fresh, busy, streaming):
                link.close()

    def test_who_comes_in_the_turn_of_the_loop_that_stops_is_sent_away_in_silence(self):
        """AUTH-15: a browser that asks for an icon as the sign-in ends."""
        said = []

        async def stop_as_somebody_comes():
            asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))
            bound = a2a.listening_socket("127.0.0.1", 0)
            listener = a2a.Listener(lambda exchange: None, said.append, 0, 0)
            listener.open(bound)
            await asyncio.sleep(0)
            with socket.create_connection(bound.getsockname()):
                await asyncio.sleep(0)  # the next turn has this first and the connection second
                listener.stop()
                await listener.close(0)
                await asyncio.sleep(0.01)
            self.assertEqual(-1, bound.fileno())

        asyncio.run(stop_as_somebody_comes())
        self.assertEqual([], said)

    def test_a_listener_whose_loop_is_being_ended_is_stopped_as_well(self):
        """Before Python 3.11 a key that interrupts cancels all there is at once."""

        async def end():
            bound = a2a.listening_socket("127.0.0.1", 0)
            listener = a2a.Listener(lambda exchange: None, print, 0, 0)
            listener.open(bound)
            await asyncio.sleep(0)
            for other in asyncio.all_tasks() - {asyncio.current_task()}:
                other.cancel()
            await asyncio.sleep(0.01)
            self.assertEqual(-1, bound.fileno())
            await listener.close(0)

        asyncio.run(end())

    def test_closing_cuts_what_does_not_end(self):
        with Host() as host:
            link = connect(host, GET % b"/forever")
            eventually(lambda: host.seen)
        self.assertFalse(host.thread.is_alive())
        with link, contextlib.suppress(ConnectionError):
            self.assertEqual(b"", link.recv(10))
        self.assertTrue(host.cancelled.is_set())


class SocketTest(unittest.TestCase):
    def test_a_taken_port_is_an_error_with_a_hint(self):
        with a2a.listening_socket("127.0.0.1", 0) as first:
            port = first.getsockname()[1]
            with self.assertRaises(a2a.UsageError) as caught:
                a2a.listening_socket("127.0.0.1", port)
        self.assertEqual(f"127.0.0.1:{port} is taken", str(caught.exception))
        self.assertIn("another port", caught.exception.hint)

    def test_an_address_of_another_machine_is_an_error(self):
        for host in ("192.0.2.7", "no-such-host.invalid", "fe80::1%nowhere"):
            with self.subTest(host), self.assertRaises(a2a.UsageError):
                a2a.listening_socket(host, 0)

    @unittest.skipIf(
        os.name == "nt" or (hasattr(os, "geteuid") and not os.geteuid()),
        "whoever runs this may listen on port 80",
    )
    def test_a_port_that_needs_privileges_is_an_error_with_a_hint(self):
        with self.assertRaises(a2a.UsageError) as caught:
            a2a.listening_socket("127.0.0.1", 1)
        self.assertIn("1024", caught.exception.hint)

    def test_a_refused_port_names_the_reason(self):
        error = a2a._cannot_listen("::1", 80, PermissionError(13, "Permission denied"))
        self.assertEqual("[::1]:80 is not allowed", str(error))
        self.assertIn("1024", error.hint)

    @unittest.skipUnless(socket.has_ipv6, "no IPv6")
    def test_ipv6_addresses_are_listened_on(self):
        """NET-03: `::1` alone, and `::` for both families."""
        for host, callers in (("::1", ["::1"]), ("::", ["::1", "127.0.0.1"])):
            try:
                bound = a2a.listening_socket(host, 0)
            except a2a.UsageError:
                self.skipTest("no IPv6 on this machine")
            with bound:
                port = bound.getsockname()[1]
                for caller in callers:
                    with socket.create_connection((caller, port), PATIENCE_S) as link:
                        self.assertEqual(port, link.getpeername()[1])

    @unittest.skipUnless(sys.platform == "linux", "elsewhere it may not be inherited")
    def test_a_peer_without_power_is_found_out(self):
        with Host() as host, connect(host, GET % b"/") as link:
            read_until(link, b"hello")
            accepted = host.wires()[0].transport.get_extra_info("socket")
            self.assertEqual(1, accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            self.assertEqual(60, accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))

    def test_localhost_is_its_ipv4_address(self):
        with a2a.listening_socket("localhost", 0) as bound:
            self.assertEqual("127.0.0.1", bound.getsockname()[0])

    def test_the_outgoing_address_is_an_address_of_this_machine(self):
        for family in (socket.AF_INET, socket.AF_INET6):
            address = a2a.outgoing_address(family)
            self.assertNotIn(address, ("0.0.0.0", "::"))
            socket.inet_pton(family, address)

    def test_dates_are_written_as_http_has_them(self):
        """RFC 9110 section 5.6.7 has this example."""
        self.assertEqual("Sun, 06 Nov 1994 08:49:37 GMT", a2a.http_date(784111777))


class StartedTest(unittest.TestCase):
    """A coroutine whose first step was made by hand."""

    def run_started(self, coroutine, cancel=False):
        async def main():
            awaited = coroutine.send(None)
            task = asyncio.get_running_loop().create_task(a2a.Started(coroutine, awaited))
            if cancel:
                task.cancel()
            return await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 5)

        return asyncio.run(main())

    def test_it_ends_with_the_result_of_the_coroutine(self):
        async def job():
            await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            return "done"

        self.assertEqual(["done"], self.run_started(job()))

    def test_it_is_cancelled_where_it_waits(self):
        seen = []

        async def job():
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        self.run_started(job(), cancel=True)
        self.assertEqual(["cancelled"], seen)

    def test_a_first_step_made_before_the_task_is_told_by_the_task(self):
        async def job(steps):
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps == 2:
                raise KeyError("ended")
            return steps

        async def main(steps, cancel):
            started = a2a.Started(job(steps))
            started.begin()
            task = asyncio.get_running_loop().create_task(started)
            if cancel:
                task.cancel()
            return (await asyncio.gather(task, return_exceptions=True))[0]

        self.assertEqual([0, 1], [asyncio.run(main(steps, False)) for steps in (0, 1)])
        self.assertIsInstance(asyncio.run(main(2, False)), KeyError)
        self.assertEqual(0, asyncio.run(main(0, True)))
        self.assertIsInstance(asyncio.run(main(1, True)), asyncio.CancelledError)

    def test_it_can_be_closed(self):
        async def job():
            await asyncio.sleep(100)

        async def main():
            coroutine = job()
            started = a2a.Started(coroutine, coroutine.send(None))
            started.close()
            with self.assertRaises(RuntimeError):
                coroutine.send(None)
            with self.assertRaises(NotImplementedError):
                started.__await__()

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
