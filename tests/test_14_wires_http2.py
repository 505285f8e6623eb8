"""Chapter 14, the client's side of HTTP/2: one connection for the calls of several threads."""

import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

LONG_S = 20.0  # a limit that a test must not reach


def soon(limit_s=LONG_S, idle_s=LONG_S):
    """Give a patience that ends a hanging test."""
    return a2a.Patience(time.monotonic() + limit_s, idle_s, limit_s)


def eventually(check):
    """Wait until check() is true."""
    until = time.monotonic() + LONG_S
    while not check():
        if time.monotonic() > until:
            raise AssertionError("it never came true")
        time.sleep(0.005)


class Http2Visit:
    """The server's end of one connection, in the thread of a support.Peer."""

    def __init__(self, visit):
        self.socket = visit.socket
        self.machine = a2a.Http2Connection(client=False)
        self.open = {}  # stream -> (request, body so far)
        self.whole = []  # requests that nobody has taken yet
        self.resets = []
        self.flush()

    def flush(self):
        self.socket.sendall(self.machine.take_output())

    def read(self):
        """Read once; say whether anything came."""
        data = self.socket.recv(65536)
        events = self.machine.receive(data) if data else []
        for event in events:
            if type(event) is a2a.Request:
                self.open[event.stream] = (event, bytearray())
            elif type(event) is a2a.Data:
                self.open[event.stream][1].extend(event.data)
            elif type(event) is a2a.End:
                request, body = self.open[event.stream]
                self.whole.append((event.stream, request.target, bytes(body)))
            elif type(event) is a2a.Reset:
                self.resets.append(event)
        if data:
            self.flush()
        return bool(data)

    def requests(self, count=1):
        """Read until so many are here whole; give all that are: [(stream, target, body)]."""
        while len(self.whole) < count and self.read():
            pass
        whole, self.whole = self.whole, []
        return whole

    def answer(self, stream, body=b"", status=200):
        self.machine.respond(stream, status, [("content-type", "text/plain")], body)
        self.flush()

    def wait_for_end(self):
        while self.read():
            pass


def serving(script, **options):
    """Give a Peer whose script gets an Http2Visit."""
    return support.Peer(lambda visit: script(Http2Visit(visit)), **options)


def echo(visit):
    """Answer each request with its target and body."""
    while True:
        found = visit.requests()
        for stream, target, body in found:
            visit.answer(stream, target.encode() + b" " + body)
        if not found:
            return


class LinkCase(unittest.TestCase):
    def pools(self, **tls):
        pool = a2a.Pool(a2a.TlsOptions(**tls), connect_timeout_s=5.0, proxy="")
        self.addCleanup(pool.close)
        return pool, a2a.Http2Pool(pool)

    def setUp(self):
        self.pool, self.http2 = self.pools()

    def begin(self, peer, target="/x", body=b"", patience=None, http2=None):
        url = a2a.read_url(peer.url)
        return (http2 or self.http2).request(url, target, [], body, patience or soon())

    def finish(self, call):
        """Give (status, body) of a call."""
        status, body = 0, b""
        while True:
            event = call.event()
            if type(event) is a2a.Response:
                status = event.status
            elif type(event) is a2a.Data:
                body += event.data
            elif type(event) is a2a.End:
                return status, body
            else:
                raise AssertionError(f"{event} came")

    def ask(self, peer, target="/x", body=b"", **more):
        return self.finish(self.begin(peer, target, body, **more))


class CallTest(LinkCase):
    def test_a_connection_is_kept(self):
        with serving(echo) as peer:
            for number in range(3):
                self.assertEqual((200, b"/x %d" % number), self.ask(peer, body=b"%d" % number))
            self.assertEqual(1, peer.visits)

    def test_the_request_says_who_asks_and_whom(self):
        seen = []

        def script(visit):
            for stream, _, _ in visit.requests():
                seen.append(visit.open[stream][0])
                visit.answer(stream)

        with serving(script) as peer:
            self.ask(peer, "/a?b=c")
            host = f"127.0.0.1:{peer.port}"
        self.assertEqual(("POST", "/a?b=c"), seen[0][:2])
        self.assertEqual({"host": host, "user-agent": a2a.USER_AGENT}, seen[0].headers)

    def test_large_bodies_pass_both_ways(self):
        """GRPC-06: more than 4 MiB, through windows that are smaller."""
        body = bytes(range(256)) * 24_000
        with serving(echo) as peer:
            self.assertEqual((200, b"/x " + body), self.ask(peer, body=body))

    def test_threads_share_a_connection(self):
        def script(visit):
            for stream, target, _ in reversed(visit.requests(8)):
                time.sleep(0.01)
                visit.answer(stream, target.encode())
            visit.wait_for_end()

        results = {}
        with serving(script) as peer:
            first = self.begin_in_thread(peer, results, 0)
            eventually(lambda: peer.visits and self.pool.links)
            rest = [self.begin_in_thread(peer, results, number) for number in range(1, 8)]
            for thread in [first, *rest]:
                thread.join(LONG_S)
            self.assertEqual(1, peer.visits)
        self.assertEqual({n: (200, b"/%d" % n) for n in range(8)}, results)

    def begin_in_thread(self, peer, results, number):
        def run():
            results[number] = self.ask(peer, f"/{number}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def test_many_threads_with_many_calls(self):
        results = []

        def run(number):
            for count in range(20):
                body = b"%d-%d" % (number, count) * 50
                results.append(self.ask(peer, body=body) == (200, b"/x " + body))

        with serving(echo) as peer:
            threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG_S)
        self.assertEqual([True] * 160, results)

    def test_a_call_that_nobody_reads_holds_no_other_up(self):
        """What has come for it is bounded by its window, however much the server has."""
        piece = b"x" * 16384

        def script(visit):
            ((big, _, _),) = visit.requests()
            visit.machine.start(big, 200, [])
            visit.machine.data(big, piece * 2000)
            visit.flush()
            echo(visit)

        with serving(script) as peer:
            big = self.begin(peer)
            for number in range(200):
                self.assertEqual((200, b"/x %d" % number), self.ask(peer, body=b"%d" % number))
            self.assertLess(big.waiting_bytes, 2 * a2a.HTTP2_WINDOW_BYTES)
            got = 0
            while got < 2000 * len(piece):
                event = big.event()
                got += len(event.data) if type(event) is a2a.Data else 0
            self.assertEqual(2000 * len(piece), got)
            self.assertEqual(1, peer.visits)
            big.close()

    def test_a_second_connection_where_the_server_takes_no_more_streams(self):
        def script(visit):
            visit.machine.sender.frame(a2a.SETTINGS, 0, 0, bytes.fromhex("000300000001"))
            visit.flush()
            while visit.requests():
                pass

        with serving(script) as peer:
            calls = [self.begin(peer, patience=soon(idle_s=0.2)) for _ in range(2)]
            self.assertEqual(2, peer.visits)
            self.assertIsNot(calls[0].link, calls[1].link)
            for call in calls:
                call.close()

    def test_giving_a_call_up_tells_the_server(self):
        resets = []

        def script(visit):
            visit.requests()
            while not visit.resets:
                visit.read()
            resets.extend(visit.resets)
            echo(visit)

        with serving(script) as peer:
            call = self.begin(peer, patience=soon(idle_s=0.1))
            call.close()
            call.close()
            self.assertEqual((200, b"/y "), self.ask(peer, "/y"))
        self.assertEqual([a2a.CANCEL], [event.error_code for event in resets])

    def test_what_cannot_be_sent_is_refused_before(self):
        with serving(echo) as peer, self.assertRaises(a2a.UsageError):
            self.begin(peer, "/a b")

    def test_closing_closes_every_socket(self):
        with serving(echo) as peer:
            self.ask(peer)
            call = self.begin(peer, patience=soon(idle_s=0.05))
            (link,) = self.pool.links
            self.pool.close()
            call.close()
        self.assertEqual(([], -1), (self.pool.links, link.stream.socket.fileno()))


class EndTest(LinkCase):
    def test_silence_is_no_end(self):
        def script(visit):
            ((stream, _, _),) = visit.requests()
            visit.machine.start(stream, 200, [])
            visit.flush()
            time.sleep(0.3)
            visit.machine.data(stream, b"late", end=True)
            visit.flush()
            visit.wait_for_end()

        with serving(script) as peer:
            call = self.begin(peer, patience=soon(idle_s=0.1))
            events = [call.event() for _ in range(2)]
            self.assertEqual(200, events[0].status)
            self.assertIsNone(events[1])
            while (event := call.event()) is None:
                pass
            self.assertEqual(b"late", event.data)

    def test_a_deadline_ends_the_call_and_not_the_connection(self):
        def script(visit):
            visit.requests()
            echo(visit)

        with serving(script) as peer:
            with self.assertRaises(a2a.TimeoutExpired):
                self.begin(peer, patience=soon(limit_s=0.2))
            self.assertEqual((200, b"/x "), self.ask(peer))
            self.assertEqual(1, peer.visits)

    def test_a_connection_that_is_cut(self):
        def script(visit):
            ((stream, _, _),) = visit.requests()
            visit.machine.start(stream, 200, [])
            visit.machine.data(stream, b"half")
            visit.flush()

        with serving(script) as peer:
            call = self.begin(peer)
            with self.assertRaises(a2a.TransportError):
                self.finish(call)
            self.assertEqual(1, peer.visits)

    def test_a_fresh_connection_that_dies_is_not_tried_again(self):
        with serving(lambda visit: visit.requests()) as peer:
            with self.assertRaises(a2a.TransportError):
                self.ask(peer)
            self.assertEqual(1, peer.visits)

    def test_a_kept_connection_that_has_died_is_replaced(self):
        def script(visit):
            for stream, _, _ in visit.requests():
                visit.answer(stream, b"%d" % peer.visits)

        with serving(script) as peer:
            self.assertEqual((200, b"1"), self.ask(peer))
            time.sleep(0.05)
            self.assertEqual((200, b"2"), self.ask(peer))
        self.assertEqual(1, len(self.pool.links))

    def test_a_kept_connection_that_dies_unheard_costs_one_repetition(self):
        bodies = []

        def script(visit):
            ((stream, _, body),) = visit.requests()
            bodies.append(body)
            visit.answer(stream, b"%d" % peer.visits)
            if peer.visits == 1:
                bodies.append(visit.requests()[0][2])

        with serving(script) as peer:
            self.ask(peer, body=b"a")
            self.assertEqual((200, b"2"), self.ask(peer, body=b"b"))
        self.assertEqual([b"a", b"b", b"b"], bodies)

    def test_a_kept_connection_that_breaks_off_its_answer_is_not_repeated(self):
        def script(visit):
            ((stream, _, _),) = visit.requests()
            visit.answer(stream)
            ((stream, _, _),) = visit.requests()
            visit.machine.sender.frame(a2a.PING, 0, 0, b"12345678")
            visit.flush()

        with serving(script) as peer:
            self.ask(peer)
            with self.assertRaises(a2a.TransportError):
                self.ask(peer)
            self.assertEqual(1, peer.visits)

    def test_a_refused_stream_goes_once_more(self):
        def script(visit):
            for stream, _, _ in visit.requests():
                visit.answer(stream)
            for stream, _, _ in visit.requests():
                visit.machine.reset(stream, a2a.REFUSED_STREAM)
            visit.flush()
            visit.wait_for_end()

        with serving(script) as peer:
            self.ask(peer)
            self.assertEqual((200, b""), self.ask(peer))
            self.assertEqual(2, peer.visits)

    def test_a_server_that_goes_away_finishes_what_it_took(self):
        def script(visit):
            ((stream, _, _),) = visit.requests()
            visit.machine.close()
            visit.answer(stream, b"last")
            visit.wait_for_end()

        with serving(script) as peer:
            self.assertEqual((200, b"last"), self.ask(peer))
            self.assertEqual((200, b"last"), self.ask(peer))
            self.assertEqual(2, peer.visits)

    def test_what_a_server_says_before_it_hangs_up_is_told(self):
        def script(visit):
            visit.requests()
            visit.machine.close(a2a.ENHANCE_YOUR_CALM, "too_many_pings")
            visit.flush()

        with serving(script) as peer, self.assertRaises(a2a.TransportError) as caught:
            self.ask(peer)
        self.assertIn("too_many_pings", str(caught.exception))

    def test_a_server_that_breaks_the_protocol(self):
        def script(visit):
            visit.requests()
            visit.socket.sendall(bytes.fromhex("000004080000000000") + bytes(4))
            visit.wait_for_end()

        with serving(script) as peer, self.assertRaises(a2a.PeerError) as caught:
            self.ask(peer)
        self.assertIn("HTTP/2", str(caught.exception))

    def test_a_server_of_http_1_1(self):
        """GRPC-08: a clear error, not noise."""

        def script(visit):
            visit.socket.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            visit.wait_for_end()

        with support.Peer(script) as peer, self.assertRaises(a2a.PeerError) as caught:
            self.ask(peer)
        self.assertIn("HTTP/1.1", str(caught.exception))

    def test_nothing_listens(self):
        port = support.free_port()
        with self.assertRaises(a2a.Unreachable):
            self.http2.request(a2a.read_url(f"http://127.0.0.1:{port}"), "/", [], b"", soon())

    def test_closing_ends_calls_in_other_threads(self):
        failures = []

        def wait():
            try:
                self.ask(peer)
            except a2a.A2AError as error:
                failures.append(error)

        with serving(lambda visit: visit.wait_for_end()) as peer:
            threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
                time.sleep(0.05)
            self.pool.close()
            for thread in threads:
                thread.join(LONG_S)
        self.assertEqual(["The client was closed"] * 3, [str(error) for error in failures])

    def test_an_idle_connection_is_not_kept_for_ever(self):
        with serving(echo) as peer:
            self.ask(peer)
            self.pool.links[0]._idle_since -= a2a.KEEP_ALIVE_S + 1
            self.ask(peer)
            self.assertEqual(2, peer.visits)


@unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
class TlsTest(LinkCase):
    def setUp(self):
        self.folder = support.certificates()
        self.pool, self.http2 = self.pools(ca=str(self.folder / "ca.pem"))

    def context(self, *protocols):
        context = support.ssl_context(self.folder / "server.pem")
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    def test_http2_inside_tls(self):
        """GRPC-08: TLS with ALPN h2."""
        with serving(echo, tls=self.context("h2", "http/1.1")) as peer:
            body = b"x" * 3_000_000
            self.assertEqual((200, b"/x " + body), self.ask(peer, body=body))
            self.assertEqual((200, b"/x "), self.ask(peer))
            self.assertEqual(1, peer.visits)

    def test_threads_read_and_write_at_once(self):
        results = []

        def run():
            for _ in range(5):
                body = b"x" * 300_000
                results.append(self.ask(peer, body=body) == (200, b"/x " + body))

        with serving(echo, tls=self.context("h2")) as peer:
            threads = [threading.Thread(target=run, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG_S)
        self.assertEqual([True] * 20, results)

    def test_a_server_that_does_not_offer_it(self):
        """GRPC-08: without ALPN h2 nothing is sent; the next interface may be tried."""
        for protocols in ((), ("http/1.1",)):
            with self.subTest(protocols), serving(echo, tls=self.context(*protocols)) as peer:
                with self.assertRaises(a2a.Unreachable) as caught:
                    self.ask(peer)
                self.assertIn("HTTP/2", str(caught.exception))

    def test_a_certificate_that_is_not_trusted(self):
        context = support.ssl_context(self.folder / "rogue.pem")
        context.set_alpn_protocols(["h2"])
        with serving(echo, tls=context) as peer, self.assertRaises(a2a.Unreachable):
            self.ask(peer)

    def test_a_connection_that_is_cut(self):
        def script(visit):
            visit.requests()
            visit.socket.shutdown(socket.SHUT_RDWR)

        with serving(script, tls=self.context("h2")) as peer, self.assertRaises(a2a.TransportError):
            self.ask(peer)


class ProxyTest(LinkCase):
    def test_a_proxy_passes_the_bytes_on(self):
        seen = []

        def proxy(visit):
            data = b""
            while b"\r\n\r\n" not in data:
                data += visit.socket.recv(65536)
            seen.append(data.split(b"\r\n")[0])
            visit.socket.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            echo(Http2Visit(visit))

        with support.Peer(proxy) as via:
            pool = a2a.Pool(proxy=via.url)
            self.addCleanup(pool.close)
            call = a2a.Http2Pool(pool).request(
                a2a.read_url("http://agent.example:50051"), "/x", [], b"hi", soon()
            )
            self.assertEqual((200, b"/x hi"), self.finish(call))
        self.assertEqual([b"CONNECT agent.example:50051 HTTP/1.1"], seen)


if __name__ == "__main__":
    unittest.main()
