"""Chapter 14, the client's side: URLs, proxies, connections, TLS, exchanges, the pool."""

import _socket
import contextlib
import pathlib
import select
import socket
import ssl
import struct
import sys
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

LONG_S = 20.0  # a limit that a test must not reach


def soon(limit_s=LONG_S, idle_s=LONG_S):
    """Give a patience that ends a hanging test."""
    return a2a.Patience(time.monotonic() + limit_s, idle_s, limit_s)


def get(pool, url, patience=None, **more):
    """GET a URL; give (status, body)."""
    answer = pool.request("GET", a2a.read_url(url), [], patience=patience or soon(), **more)
    return answer.status, answer.read()


class IdTest(unittest.TestCase):
    def test_an_id_is_a_random_uuid_of_version_4(self):
        found = {a2a.new_id() for _ in range(500)}
        self.assertEqual(500, len(found))
        form = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
        for text in found:
            self.assertRegex(text, f"^{form}$")

    def test_the_time_is_a_canonical_timestamp(self):
        text = a2a.now()
        self.assertRegex(text, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        seconds = time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        self.assertLess(abs(seconds - time.time()), 5)
        self.assertLessEqual(text, a2a.now())


class UrlTest(unittest.TestCase):
    def test_a_url_is_taken_apart(self):
        for text, origin, authority, target in (
            ("http://h.example", "http://h.example", "h.example", "/"),
            ("HTTP://H.Example:80/a", "http://h.example", "h.example", "/a"),
            ("https://h.example:443/", "https://h.example", "h.example", "/"),
            ("https://h.example:8443/a/b?c=d&e", "https://h.example:8443", "h.example:8443",
             "/a/b?c=d&e"),
            ("http://[::1]:8080/a2a", "http://[::1]:8080", "[::1]:8080", "/a2a"),
            ("http://127.0.0.1/x#fragment", "http://127.0.0.1", "127.0.0.1", "/x"),
            ("http://h/tasks/a%2Fb", "http://h", "h", "/tasks/a%2Fb"),
            ("http://h/caf\u00e9?q=\u00e9", "http://h", "h", "/caf%C3%A9?q=%C3%A9"),
            ("http://b\u00fccher.example/", "http://xn--bcher-kva.example", "xn--bcher-kva.example",
             "/"),
            ("http://h?x", "http://h", "h", "/?x"),
        ):  # fmt: skip
            with self.subTest(text=text):
                url = a2a.read_url(text)
                self.assertEqual(
                    (origin, authority, target), (url.origin, url.authority, url.target)
                )
                self.assertEqual(url, a2a.read_url(str(url)))

    def test_an_empty_path_stays_empty(self):
        self.assertEqual("http://h", str(a2a.read_url("http://h")))
        self.assertEqual("http://h/", str(a2a.read_url("http://h/")))

    def test_what_is_no_http_url_is_refused(self):
        for text in (
            "", "h.example", "ftp://h", "file:///x", "http://", "http:///x", "http://h:0x50/",
            "http://h:99999/", "http://h:-1/", "http://h x/", "http://h/a b", "http://h/\n",
            "http://h\\evil/", "http://[::1", "http://[zz]/", "http://h\u0000/", "javascript:x",
            "http://%31/", "http://a..b\u00e9\u3002.c/", "http://h<x>/", "http://h[::1]/",
            "http://[::1]h/", "http://h:\u0661/", "http://::1/", "http://h:80:80/",
        ):  # fmt: skip
            with self.subTest(text=text), self.assertRaises(a2a.UsageError):
                a2a.read_url(text)

    def test_a_zone_id_is_refused_and_said(self):
        """NET-03: http://[fe80::1%25eth0]/ names a network card of one machine."""
        for text in ("http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]:80/x"):
            with self.subTest(text=text), self.assertRaises(a2a.UsageError) as caught:
                a2a.read_url(text)
            self.assertNotIn("Traceback", str(caught.exception))

    def test_a_password_in_a_url_is_refused_and_not_shown(self):
        for text in (
            "https://me:hunter2@h.example/",
            "http://me:hunter2@h x/",
            "http://me:hunter2@h:port/",
            "ftp://me:hunter2@h",
        ):
            with self.subTest(text=text), self.assertRaises(a2a.UsageError) as caught:
                a2a.read_url(text)
            self.assertNotIn("hunter2", str(caught.exception))
        self.assertEqual("/a@b", a2a.read_url("http://h/a@b").target)

    def test_loopback_is_told_by_its_spelling(self):
        for host in ("localhost", "a.localhost", "127.0.0.1", "127.255.0.9", "::1",
                     "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"):  # fmt: skip
            self.assertTrue(a2a.is_loopback(host), host)
        for host in ("localhost.example", "128.0.0.1", "127.0.0.1.example", "127.0.0.256", "::2",
                     "127.1", "0x7f000001", "2130706433", "0.0.0.0", "::",
                     "::ffff:10.0.0.1"):  # fmt: skip
            self.assertFalse(a2a.is_loopback(host), host)


class ProxyTest(unittest.TestCase):
    def found(self, url, given=None, **environ):
        proxy = a2a.find_proxy(a2a.read_url(url), given, environ)
        return proxy and str(proxy.url)

    def test_the_environment_names_the_proxy(self):
        both = {"http_proxy": "http://p1:1", "HTTPS_PROXY": "http://p2:2", "all_proxy": "p3:3"}
        for url, environ, wanted in (
            ("http://h/", {}, None),
            ("http://h/", both, "http://p1:1"),
            ("https://h/", both, "http://p2:2"),
            ("https://h/", {"ALL_PROXY": "https://p3:3"}, "https://p3:3"),
            ("http://h/", {"https_proxy": "p:1"}, None),
            ("http://h/", {"HTTP_PROXY": "p:1"}, "http://p:1"),
            ("http://h/", {"http_proxy": "a:1", "HTTP_PROXY": "b:1"}, "http://a:1"),
            ("http://h/", {"HTTP_PROXY": "p:1", "REQUEST_METHOD": "GET"}, None),
            ("http://h/", {"http_proxy": "p:1", "REQUEST_METHOD": "GET"}, "http://p:1"),
        ):
            with self.subTest(url=url, environ=environ):
                self.assertEqual(wanted, self.found(url, **environ))

    def test_loopback_goes_through_a_proxy_only_when_asked(self):
        for url in ("http://127.0.0.1:1/", "http://localhost/", "http://[::1]/"):
            self.assertIsNone(self.found(url, http_proxy="p:1", all_proxy="p:1"))
            self.assertEqual("http://p:1", self.found(url, "http://p:1"))

    def test_the_user_decides_over_the_environment(self):
        self.assertEqual("http://q:2", self.found("http://h/", "q:2", http_proxy="p:1"))
        self.assertIsNone(self.found("http://h/", "", http_proxy="p:1"))
        self.assertEqual("http://q:2", self.found("http://h/", "q:2", no_proxy="*"))

    def test_no_proxy_exempts(self):
        for no_proxy, url, exempt in (
            ("*", "http://h.example/", True),
            ("h.example", "http://h.example/", True),
            ("H.EXAMPLE", "http://h.example/", True),
            ("example", "http://h.example/", True),
            (".example", "http://h.example/", True),
            ("*.example", "http://h.example/", True),
            ("ample", "http://h.example/", False),
            ("a, h.example ,b", "http://h.example/", True),
            ("h.example:81", "http://h.example:81/", True),
            ("h.example:81", "http://h.example/", False),
            ("10.0.0.0/8", "http://10.2.3.4/", True),
            ("10.0.0.0/8", "http://11.2.3.4/", False),
            ("10.0.0.0/8", "http://h.example/", False),
            ("10.0.0.0/x", "http://10.0.0.1/", False),
            ("fd00::/8", "http://[fd12::1]/", True),
            ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080/", True),
            ("2001:db8::1", "http://[2001:db8::1]/", True),
            ("", "http://h.example/", False),
        ):
            with self.subTest(no_proxy=no_proxy, url=url):
                found = self.found(url, http_proxy="p:1", no_proxy=no_proxy)
                self.assertEqual(exempt, found is None)

    def test_credentials_of_a_proxy_are_taken_from_its_url(self):
        proxy = a2a.read_proxy("http://us%40er:p%3Aw@p.example:3128")
        self.assertEqual("Basic dXNAZXI6cDp3", proxy.authorization)
        self.assertEqual("http://p.example:3128", str(proxy.url))

    def test_a_proxy_that_cannot_be_used_is_said_without_its_password(self):
        for text in ("socks5://me:hunter2@p:1", "http://me:hunter2@p:x", "http://me:hunter2@"):
            with self.subTest(text=text), self.assertRaises(a2a.UsageError) as caught:
                a2a.read_proxy(text)
            self.assertNotIn("hunter2", str(caught.exception))

    def test_a_plain_request_goes_to_the_proxy_in_absolute_form(self):
        def script(visit):
            visit.read()
            visit.answer(b"by proxy")

        with support.Peer(script) as proxy:
            pool = a2a.Pool(proxy=f"http://me:pw@127.0.0.1:{proxy.port}")
            self.assertEqual((200, b"by proxy"), get(pool, "http://h.example/a?b=c"))
            method, target, headers, _ = proxy.requests[0]
            pool.close()
        self.assertEqual(("GET", "http://h.example/a?b=c"), (method, target))
        self.assertEqual("h.example", headers["host"])
        self.assertEqual("Basic bWU6cHc=", headers["proxy-authorization"])

    def test_a_proxy_that_refuses_to_connect_is_named(self):
        def refuse(visit):
            visit.read()
            visit.answer(status=407)

        def hang_up(visit):
            visit.read()

        for script, said in ((refuse, "answered 407"), (hang_up, "failed")):
            with support.Peer(script) as proxy:
                pool = a2a.Pool(proxy=proxy.url)
                with self.assertRaises(a2a.Unreachable) as caught:
                    get(pool, "https://h.example/")
                self.assertIn(f"127.0.0.1:{proxy.port} {said}", str(caught.exception))
                self.assertEqual("CONNECT", proxy.requests[0][0])
                self.assertEqual("h.example:443", proxy.requests[0][1])
                pool.close()


def echo(visit):
    """Answer every request of a connection with its body."""
    while True:
        request = visit.read()
        if request is None:
            return
        visit.answer(request[3] or b"none")


class ExchangeTest(unittest.TestCase):
    def setUp(self):
        self.pool = a2a.Pool(debug=lambda text: self.log.append(text))
        self.log = []
        self.addCleanup(self.pool.close)

    def test_a_request_carries_what_http_wants_and_the_answer_comes_back(self):
        with support.Peer(echo) as peer:
            answer = self.pool.request(
                "POST", a2a.read_url(peer.url + "/x?y"), [("content-type", "a/b")], b"body", soon()
            )
            self.assertEqual((200, "application/json"), (answer.status, answer.media_type))
            self.assertEqual(b"body", answer.read())
            method, target, headers, body = peer.requests[0]
        self.assertEqual(("POST", "/x?y", b"body"), (method, target, body))
        named = a2a.Response(200, {"content-type": " Text/HTML ; charset=x"})
        self.assertEqual("text/html", a2a.Answer(named, None, soon(), self.pool).media_type)
        self.assertEqual(f"127.0.0.1:{peer.port}", headers["host"])
        self.assertEqual("4", headers["content-length"])
        self.assertEqual("identity", headers["accept-encoding"])
        self.assertEqual(f"a2a.py/{a2a.VERSION}", headers["user-agent"])

    def test_one_connection_serves_one_request_after_another(self):
        with support.Peer(echo) as peer:
            for _ in range(5):
                self.assertEqual((200, b"none"), get(self.pool, peer.url))
            self.assertEqual(1, peer.visits)

    def test_every_form_of_body_is_read_to_its_end(self):
        forms = {
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc": b"abc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n": b"abc",
            b"HTTP/1.0 200 OK\r\n\r\nabc": b"abc",
            b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": b"",
            b"HTTP/1.1 204 No\r\n\r\n": b"",
        }
        for data, body in forms.items():
            for step in (1, 7, 1000):

                def script(visit, data=data, step=step):
                    visit.read()
                    for piece in support.sliced(data, (step,)):
                        visit.send(piece)

                with self.subTest(data=data, step=step), support.Peer(script) as peer:
                    self.assertEqual(body, get(self.pool, peer.url)[1])

    def test_a_body_that_is_cut_off_is_an_error(self):
        for data in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            b"HTTP/1.1 200 OK\r\nContent-Le",
        ):

            def script(visit, data=data):
                visit.read()
                visit.send(data)

            with self.subTest(data=data), support.Peer(script) as peer:
                with self.assertRaises(a2a.TransportError) as caught:
                    get(self.pool, peer.url)
                self.assertIn("in the middle of the answer", str(caught.exception))
                self.assertEqual(1, peer.visits)

    def test_what_is_not_http_is_the_peers_error(self):
        def script(visit):
            visit.read()
            visit.send(b"SSH-2.0-x\r\n\r\n")

        with support.Peer(script) as peer, self.assertRaises(a2a.PeerError):
            get(self.pool, peer.url)

    def test_an_answer_over_the_limit_is_not_kept(self):
        def script(visit):
            visit.read()
            visit.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000)

        with support.Peer(script) as peer:
            answer = self.pool.request("GET", a2a.read_url(peer.url), [], patience=soon())
            with self.assertRaises(a2a.PeerError) as caught:
                answer.read(4096)
            self.assertIn("larger than 4096 bytes", str(caught.exception))

    def test_a_new_connection_closed_without_an_answer_is_not_tried_again(self):
        with support.Peer(lambda visit: visit.read()) as peer:
            with self.assertRaises(a2a.TransportError) as caught:
                get(self.pool, peer.url)
            self.assertEqual(1, len(peer.requests))
        self.assertIn("before an answer came", str(caught.exception))

    def test_a_kept_connection_that_has_been_closed_is_not_used(self):
        def once(visit):
            visit.read()
            visit.answer(b"once")

        with support.Peer(once) as peer:
            for _ in range(3):
                self.assertEqual((200, b"once"), get(self.pool, peer.url))
                self.wait_for_close(peer.url)
            self.assertEqual((3, 3), (peer.visits, len(peer.requests)))

    def wait_for_close(self, url):
        """Wait until the kept connection has got the peer's end."""
        kept = self.pool._idle[a2a.read_url(url).origin][-1]
        kept.stream.socket.settimeout(LONG_S)
        self.assertEqual(b"", kept.stream.socket.recv(1, socket.MSG_PEEK))

    def test_a_dead_kept_connection_is_told_once_more_with_the_same_bytes(self):
        """TASK-10: the same messageId goes out again, once, when no byte of an answer came."""

        def script(visit):
            visit.read()
            visit.answer(b"first")
            visit.read()  # and no answer: the connection ends

        with support.Peer(script) as peer:
            url = a2a.read_url(peer.url)
            body = b'{"messageId":"m1"}'
            for _ in range(2):
                answer = self.pool.request("POST", url, [], body, soon())
                self.assertEqual(b"first", answer.read())
            self.assertEqual([body] * 3, [request[3] for request in peer.requests])
            self.assertEqual(2, peer.visits)
        self.assertIn("once more", "".join(self.log))

    def test_nothing_is_sent_again_once_a_byte_of_the_answer_came(self):
        """TASK-10: the agent may have begun its work."""

        def script(visit):
            visit.read()
            visit.answer(b"first")
            visit.read()
            visit.send(b"HTTP/1.1 2")

        with support.Peer(script) as peer:
            get(self.pool, peer.url)
            with self.assertRaises(a2a.TransportError):
                get(self.pool, peer.url)
            self.assertEqual(2, len(peer.requests))

    def test_a_kept_connection_that_is_only_slow_is_not_taken_for_dead(self):
        """TASK-10: silence is no end; nothing is sent twice."""

        def script(visit):
            visit.read()
            visit.answer(b"first")
            visit.read()
            visit.wait_for_end()

        with support.Peer(script) as peer:
            get(self.pool, peer.url)
            with self.assertRaises(a2a.TransportError) as caught:
                get(self.pool, peer.url, soon(idle_s=0.1))
            self.assertIn("No answer from", str(caught.exception))
            self.assertEqual((1, 2), (peer.visits, len(peer.requests)))

    def test_it_is_sent_again_once_and_no_more(self):
        def script(visit):
            visit.read()
            if peer.visits == 1:
                visit.answer(b"first")
                visit.read()

        with support.Peer(script) as peer:
            get(self.pool, peer.url)
            with self.assertRaises(a2a.TransportError):
                get(self.pool, peer.url)
            self.assertEqual((2, 3), (peer.visits, len(peer.requests)))

    def test_bytes_that_nobody_asked_for_end_a_kept_connection(self):
        def script(visit):
            visit.read()
            visit.answer(b"one")
            visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            visit.wait_for_end()

        with support.Peer(script) as peer:
            for _ in range(2):
                self.assertEqual(b"one", get(self.pool, peer.url)[1])
                for kept in self.pool._idle[a2a.read_url(peer.url).origin]:
                    kept.stream.socket.settimeout(LONG_S)
                    kept.stream.socket.recv(1, socket.MSG_PEEK)
            self.assertEqual(2, peer.visits)

    def test_no_more_connections_are_kept_than_the_limit(self):
        with support.Peer(echo) as peer:
            url = a2a.read_url(peer.url)
            answers = [
                self.pool.request("GET", url, [], patience=soon())
                for _ in range(a2a.IDLE_CONNECTIONS + 3)
            ]
            for answer in answers:
                answer.read()
            self.assertEqual(a2a.IDLE_CONNECTIONS, len(self.pool._idle[url.origin]))
            self.assertEqual(a2a.IDLE_CONNECTIONS, len(self.pool._sockets))

    def test_an_answer_left_early_ends_its_connection_unless_it_was_over(self):
        start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
        for end, kept in ((b"", 0), (b"0\r\n\r\n", 1)):

            def script(visit, end=end):
                visit.read()
                visit.send(start + end)
                visit.wait_for_end()

            with self.subTest(end=end), support.Peer(script) as peer:
                url = a2a.read_url(peer.url)
                answer = self.pool.request("GET", url, [], patience=soon())
                self.assertEqual(b"a", next(answer.chunks()))
                answer.close()
                self.assertEqual(kept, len(self.pool._idle.get(url.origin, [])))

    def test_a_refusal_sent_before_the_body_was_read_is_the_answer(self):
        def script(visit):
            visit._raw.read_until(b"\r\n\r\n")
            visit.answer(b"too large", status=413)
            visit.socket.shutdown(socket.SHUT_RDWR)

        with support.Peer(script) as peer:
            answer = self.pool.request(
                "POST", a2a.read_url(peer.url), [], b"x" * 30_000_000, soon()
            )
            self.assertEqual((413, b"too large"), (answer.status, answer.read()))
            self.assertEqual(0, len(self.pool._sockets))

    def test_an_ipv6_address_is_called_and_named_in_brackets(self):
        """NET-03: http://[::1]:8080/a2a, with brackets in Host."""
        try:
            peer = support.Peer(echo, host="::1")
        except OSError:
            self.skipTest("no IPv6 here")
        with peer:
            self.assertEqual((200, b"none"), get(self.pool, peer.url + "/a2a"))
            self.assertEqual(f"[::1]:{peer.port}", peer.requests[0][2]["host"])


class LimitTest(unittest.TestCase):
    def setUp(self):
        self.pool = a2a.Pool()
        self.addCleanup(self.pool.close)

    def test_silence_is_bounded_by_idle_not_by_the_whole(self):
        """NET-02: bytes that keep coming may take longer than the idle limit."""

        def script(visit):
            visit.read()
            visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            for _ in range(12):
                time.sleep(0.1)
                visit.send(b"x")

        with support.Peer(script) as peer:
            self.assertEqual(b"x" * 12, get(self.pool, peer.url, soon(idle_s=1.0))[1])

    def test_silence_before_and_in_an_answer_is_said(self):
        """NET-02: the idle limit ends what would hang."""
        for data, said in ((b"", "No answer from"), (b"HTTP/1.1 200 OK\r\n\r\n", "stopped")):

            def script(visit, data=data):
                visit.read()
                visit.send(data)
                visit.wait_for_end()

            with self.subTest(data=data), support.Peer(script) as peer:
                with self.assertRaises(a2a.TransportError) as caught:
                    get(self.pool, peer.url, soon(idle_s=0.1))
                self.assertIn(said, str(caught.exception))
                self.assertNotIsInstance(caught.exception, a2a.TimeoutExpired)
                self.assertEqual(set(), self.pool._sockets)

    def test_the_deadline_ends_a_call_that_is_not_silent(self):
        def script(visit):
            visit.read()
            visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while not visit.peer.errors:
                time.sleep(0.02)
                try:
                    visit.socket.sendall(b"x")
                except OSError:
                    return

        with support.Peer(script) as peer:
            with self.assertRaises(a2a.TimeoutExpired) as caught:
                get(self.pool, peer.url, soon(limit_s=0.3))
            self.assertIn("0.3 s", str(caught.exception))

    def test_silence_on_a_stream_is_told_and_does_not_end_it(self):
        def script(visit):
            visit.read()
            visit.send(b"HTTP/1.1 200 OK\r\n\r\na")
            go_on.wait(LONG_S)
            visit.send(b"b")

        go_on = threading.Event()
        with support.Peer(script) as peer:
            answer = self.pool.request(
                "GET", a2a.read_url(peer.url), [], patience=soon(idle_s=0.05)
            )
            chunks = answer.chunks()
            self.assertEqual([b"a", b"", b""], [next(chunks) for _ in range(3)])
            go_on.set()
            self.assertEqual([b"b"], [chunk for chunk in chunks if chunk])

    def test_a_peer_that_takes_nothing_is_bounded_by_the_deadline(self):
        with support.Peer(lambda visit: stop.wait(LONG_S)) as peer:
            stop = threading.Event()
            with self.assertRaises(a2a.TimeoutExpired):
                self.pool.request(
                    "POST", a2a.read_url(peer.url), [], b"x" * 30_000_000, soon(limit_s=0.3)
                )
            stop.set()

    def test_a_deadline_that_has_passed_sends_nothing(self):
        with support.Peer(echo) as peer:
            with self.assertRaises(a2a.TimeoutExpired):
                get(self.pool, peer.url, a2a.Patience(time.monotonic() - 1, None, 5))
            self.assertEqual([], peer.requests)

    def test_close_ends_calls_that_wait_in_other_threads(self):
        def silent(visit):
            visit.read()
            if visit.peer is streaming:
                visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            visit.wait_for_end()

        ended = []

        def call(url):
            try:
                get(self.pool, url, a2a.Patience())
            except a2a.TransportError as error:
                ended.append(str(error))

        with support.Peer(silent) as waiting, support.Peer(silent) as streaming:
            threads = [threading.Thread(target=call, args=(p.url,)) for p in (waiting, streaming)]
            for thread in threads:
                thread.start()
            until = time.monotonic() + LONG_S
            while len(waiting.requests) + len(streaming.requests) < 2:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
            self.pool.close()
            for thread in threads:
                thread.join(LONG_S)
        self.assertEqual(["The client was closed"] * 2, ended)

    def test_a_connection_that_failed_leaves_nothing_behind(self):
        """A client may poll an agent that is gone for days."""
        url = f"http://127.0.0.1:{support.free_port()}/"
        for _ in range(3):
            with self.assertRaises(a2a.Unreachable):
                get(self.pool, url)
        self.assertEqual(set(), self.pool._sockets)

    @unittest.skipUnless(sys.platform == "linux", "a full backlog refuses elsewhere")
    def test_close_ends_a_call_that_connects(self):
        with contextlib.ExitStack() as links:
            busy = links.enter_context(socket.socket())
            busy.bind(("127.0.0.1", 0))
            busy.listen(0)
            for _ in range(3):
                link = links.enter_context(socket.socket())
                link.setblocking(False)
                link.connect_ex(busy.getsockname())
            ended = []

            def call():
                try:
                    get(self.pool, f"http://127.0.0.1:{busy.getsockname()[1]}/", a2a.Patience())
                except a2a.TransportError as error:
                    ended.append(str(error))

            thread = threading.Thread(target=call)
            thread.start()
            until = time.monotonic() + LONG_S
            while not self.pool._sockets and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(0.1)
            self.pool.close()
            thread.join(LONG_S)
            self.assertEqual(["The client was closed"], ended)

    def test_a_closed_pool_makes_no_connection(self):
        with support.Peer(echo) as peer:
            get(self.pool, peer.url)
            self.pool.close()
            with self.assertRaises(a2a.TransportError):
                get(self.pool, peer.url)
            self.assertEqual((1, set()), (peer.visits, self.pool._sockets))


class ConnectTest(unittest.TestCase):
    def setUp(self):
        self.pool = a2a.Pool(connect_timeout_s=3.0)
        self.addCleanup(self.pool.close)

    def resolve_to(self, *addresses):
        """Let every name stand for these (family, host, port)."""
        rows = [
            (family, socket.SOCK_STREAM, 0, "", (host, port)) for family, host, port in addresses
        ]
        patch = mock.patch.object(_socket, "getaddrinfo", lambda *_, **__: rows)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_next_address_is_tried_when_one_does_not_answer(self):
        """NET-02: a dead address does not cost the whole limit."""
        dead = support.free_port()
        with support.Peer(echo) as peer:
            self.resolve_to(
                (socket.AF_INET, "127.0.0.1", dead), (socket.AF_INET, "127.0.0.1", peer.port)
            )
            self.assertEqual((200, b"none"), get(self.pool, "http://h.example/"))

    def test_an_error_lists_every_address(self):
        first, second = support.free_port(), support.free_port()
        self.resolve_to((socket.AF_INET, "127.0.0.1", first), (socket.AF_INET, "127.0.0.2", second))
        with self.assertRaises(a2a.Unreachable) as caught:
            get(self.pool, "http://h.example/")
        self.assertIn("No connection to h.example (127.0.0.1: ", str(caught.exception))
        self.assertIn("127.0.0.2: ", str(caught.exception))
        self.assertEqual(3, caught.exception.exit_status)

    def test_families_take_turns(self):
        six, four = socket.AF_INET6, socket.AF_INET
        self.resolve_to((six, "::1", 1), (six, "::2", 1), (six, "::3", 1), (four, "1.1.1.1", 1))
        found = [row[4][0] for row in a2a._addresses("h", 1, a2a.ENDLESS)]
        self.assertEqual(["::1", "1.1.1.1", "::2", "::3"], found)

    def test_a_name_that_does_not_resolve_is_said(self):
        for host in ("nowhere.invalid", "a" * 70 + ".example"):
            with self.subTest(host=host), self.assertRaises(a2a.Unreachable) as caught:
                get(self.pool, f"http://{host}/")
            self.assertIn("cannot be resolved", str(caught.exception))

    def test_resolving_a_name_keeps_to_the_limits(self):
        """NET-02: a name server that says nothing holds us no longer than the limits do."""
        over = threading.Event()
        self.addCleanup(over.set)
        patch = mock.patch.object(_socket, "getaddrinfo", lambda *_, **__: over.wait(LONG_S))
        patch.start()
        self.addCleanup(patch.stop)
        pool = a2a.Pool(connect_timeout_s=0.2)
        self.addCleanup(pool.close)
        with self.assertRaisesRegex(a2a.Unreachable, "h.example cannot be resolved: no answer"):
            get(pool, "http://h.example/")
        with self.assertRaisesRegex(a2a.TimeoutExpired, "No answer within 0.1 s"):
            get(pool, "http://h.example/", soon(0.1))

    def test_connecting_has_a_short_limit_of_its_own(self):
        """NET-02: a host that drops packets does not hold us for minutes."""
        full = socket.socket()
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = []
        self.addCleanup(full.close)
        for _ in range(4):  # until the queue is full and further calls get no answer
            one = socket.socket()
            one.setblocking(False)
            with contextlib.suppress(OSError):
                one.connect(("127.0.0.1", port))
            waiting.append(one)
            self.addCleanup(one.close)
        time.sleep(0.1)
        pool = a2a.Pool(connect_timeout_s=0.3)
        try:
            get(pool, f"http://127.0.0.1:{port}/", soon(idle_s=0.3))
        except a2a.TransportError as error:
            self.assertRegex(str(error), "no answer in time|No answer|[Rr]efused")
        else:
            self.fail("nobody answers there")
        with self.assertRaises(a2a.TimeoutExpired):  # where the whole is shorter, it is named
            get(pool, f"http://127.0.0.1:{port}/", soon(0.1))
        pool.close()

    def test_the_deadline_of_the_call_counts_while_connecting(self):
        self.resolve_to((socket.AF_INET, "127.0.0.1", support.free_port()))
        with self.assertRaises(a2a.TimeoutExpired):
            get(self.pool, "http://h.example/", a2a.Patience(time.monotonic() - 1, None, 1))


def server_context(name="server", client_ca=False):
    """Give the TLS settings of a server of ours."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = support.certificates()
    context.load_cert_chain(folder / f"{name}.pem")
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
    return context


@unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = support.certificates()

    def pool(self, **options):
        options.setdefault("ca", str(self.folder / "ca.pem"))
        pool = a2a.Pool(a2a.TlsOptions(**options), connect_timeout_s=5.0)
        self.addCleanup(pool.close)
        return pool

    def refusal(self, pool, url):
        with self.assertRaises(a2a.TransportError) as caught:
            get(pool, url)
        return caught.exception

    def test_a_trusted_server_is_called_and_its_connection_kept(self):
        with support.Peer(echo, tls=server_context()) as peer:
            pool = self.pool()
            for host in ("127.0.0.1", "localhost"):
                url = f"https://{host}:{peer.port}/"
                for _ in range(3):
                    self.assertEqual((200, b"none"), get(pool, url))
            self.assertEqual(2, peer.visits)

    def test_large_bodies_pass_both_ways(self):
        with support.Peer(echo, tls=server_context()) as peer:
            body = bytes(range(256)) * 20_000
            answer = self.pool().request("POST", a2a.read_url(peer.url), [], body, soon())
            self.assertEqual(body, answer.read())

    def test_a_server_that_nobody_vouches_for_is_refused(self):
        with support.Peer(echo, tls=server_context("rogue")) as peer:
            error = self.refusal(self.pool(), peer.url)
            self.assertIsInstance(error, a2a.Unreachable)
            self.assertIn("not trusted", str(error))
            self.assertIn("--ca", error.hint)
            self.assertEqual([], peer.requests)

    def test_a_certificate_for_another_name_is_refused(self):
        with support.Peer(echo, tls=server_context()) as peer:
            here = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", peer.port))]
            with mock.patch.object(_socket, "getaddrinfo", lambda *_, **__: here):
                error = self.refusal(self.pool(), "https://h.example/")
        self.assertIn("not trusted", str(error))

    def test_a_certificate_may_itself_be_what_is_trusted(self):
        with support.Peer(echo, tls=server_context()) as peer:
            pool = self.pool(ca=str(self.folder / "server.crt"))
            self.assertEqual((200, b"none"), get(pool, peer.url))
            error = self.refusal(self.pool(ca=str(self.folder / "client.crt")), peer.url)
            self.assertIn("not trusted", str(error))

    def test_insecure_accepts_any_certificate(self):
        with support.Peer(echo, tls=server_context("rogue")) as peer:
            self.assertEqual((200, b"none"), get(self.pool(insecure=True), peer.url))

    def test_a_port_without_tls_is_said(self):
        with support.Peer(lambda visit: visit.send(b"HTTP/1.1 400 Bad\r\n\r\n")) as peer:
            error = self.refusal(self.pool(), f"https://127.0.0.1:{peer.port}/")
            self.assertIn("does not speak TLS", str(error))
        with support.Peer(lambda visit: None) as peer:
            error = self.refusal(self.pool(), f"https://127.0.0.1:{peer.port}/")
            self.assertIn("TLS failed", str(error))

    def test_a_server_that_falls_silent_in_the_handshake_is_left(self):
        pool = a2a.Pool(a2a.TlsOptions(insecure=True), connect_timeout_s=0.2)
        self.addCleanup(pool.close)
        with support.Peer(lambda visit: visit.wait_for_end()) as peer:
            error = self.refusal(pool, f"https://127.0.0.1:{peer.port}/")
        self.assertIn("No answer within 0.2 s", str(error))
        self.assertIsInstance(error, a2a.Unreachable)

    def test_a_client_certificate_is_shown(self):
        with support.Peer(echo, tls=server_context(client_ca=True)) as peer:
            cert = str(self.folder / "client.crt")
            key = str(self.folder / "client.key")
            self.assertEqual((200, b"none"), get(self.pool(cert=cert, key=key), peer.url))
            both = self.pool(cert=str(self.folder / "client.pem"))
            self.assertEqual((200, b"none"), get(both, peer.url))

    def test_a_missing_client_certificate_is_said(self):
        with support.Peer(echo, tls=server_context(client_ca=True)) as peer:
            error = self.refusal(self.pool(), peer.url)
        self.assertRegex(str(error), "client certificate|cut|closed")

    def test_a_server_that_ends_after_the_handshake_may_want_another_certificate(self):
        """AUTH-24: many servers send no alert, they close or reset the connection."""

        def reset(visit):
            visit.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            visit.socket.close()

        for script in (lambda visit: None, reset):
            with support.Peer(script, tls=server_context()) as peer:
                error = self.refusal(self.pool(), peer.url)
                self.assertIn("the server may want a client certificate, or another", str(error))
                url = a2a.read_url(peer.url)
                context = server_context()
                context.set_alpn_protocols(["h2"])
                peer.tls = context
                with self.assertRaises(a2a.TransportError) as caught:
                    a2a.Http2Pool(self.pool()).request(url, "/", [], b"", soon())
                self.assertIn("may want a client certificate", str(caught.exception))

    def test_what_a_server_says_of_our_certificate(self):
        """AUTH-24: none, of another authority, expired; in both versions of TLS."""
        cases = (
            ("", "wants a client certificate|handshake failure", "--cert FILE"),
            ("rogue", r"does not accept our certificate \(unknown ca\)", ""),
            ("expired", r"does not accept our certificate \(certificate expired\)", ""),
        )
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls = server_context(client_ca=True)
            tls.maximum_version = version
            for name, said, hint in cases:
                cert = str(self.folder / f"{name}.pem") if name else ""
                with self.subTest(name=name, version=version), support.Peer(echo, tls=tls) as peer:
                    error = self.refusal(self.pool(cert=cert), peer.url)
                    self.assertIsInstance(error, a2a.Unreachable)
                    self.assertRegex(str(error), said)
                    if version == ssl.TLSVersion.TLSv1_3:
                        self.assertIn(hint, error.hint)
                    self.assertEqual([], peer.requests)

    def test_reasons_not_to_trust_a_server(self):
        for name, said in (
            ("rogue", "unable to get local issuer certificate"),
            ("expired", "certificate has expired"),
            ("person", "not valid for '127.0.0.1'"),
        ):
            with support.Peer(echo, tls=server_context(name)) as peer:
                error = self.refusal(self.pool(), peer.url)
            self.assertIn("the server's certificate is not trusted", str(error))
            self.assertIn(said, str(error))
            self.assertEqual("--ca FILE names whom to trust.", error.hint)

    def test_an_encrypted_key_is_opened_by_a_file(self):
        cert, key = str(self.folder / "server.crt"), str(self.folder / "locked.key")
        word = self.folder / "word"
        word.write_text("open sesame\n")
        with support.Peer(echo, tls=server_context(client_ca=True)) as peer:
            pool = self.pool(cert=cert, key=key, key_password_file=str(word))
            self.assertEqual((200, b"none"), get(pool, peer.url))
            with self.assertRaisesRegex(a2a.UsageError, "is encrypted"):
                get(self.pool(cert=cert, key=key), peer.url)

    def test_files_that_do_not_fit_are_a_usage_error(self):
        cert, key = str(self.folder / "client.crt"), str(self.folder / "server.key")
        for options, said in (
            ({"ca": "/no/such/file"}, "no such file"),
            ({"ca": key}, "no certificate"),
            ({"cert": cert, "key": key}, "do not belong together"),
            ({"cert": key}, "PEM|certificate"),
            ({"key": key}, "The certificate for the key .* is missing"),
        ):
            with self.subTest(options=options), self.assertRaises(a2a.UsageError) as caught:
                get(self.pool(**options), "https://127.0.0.1:1/")
            if "ca" not in options or options["ca"].startswith("/no"):
                self.assertRegex(str(caught.exception), said)

    def test_close_ends_a_call_that_waits_under_tls(self):
        def silent(visit):
            visit.read()
            visit.wait_for_end()

        with support.Peer(silent, tls=server_context()) as peer:
            pool = self.pool()
            threading.Timer(0.3, pool.close).start()
            error = self.refusal(pool, peer.url)
        self.assertEqual("The client was closed", str(error))

    def test_a_server_that_cuts_the_handshake_was_sent_nothing(self):
        with support.Peer(lambda visit: visit.socket.recv(5)) as peer:
            error = self.refusal(self.pool(), f"https://127.0.0.1:{peer.port}/")
        self.assertIsInstance(error, a2a.Unreachable)

    def test_the_deadline_holds_under_tls(self):
        with support.Peer(
            lambda visit: (visit.read(), stop.wait(LONG_S)), tls=server_context()
        ) as p:
            stop = threading.Event()
            with self.assertRaises(a2a.TimeoutExpired):
                get(self.pool(), p.url, soon(limit_s=0.3))
            stop.set()

    def test_a_cut_below_tls_is_an_error(self):
        def script(visit):
            visit.read()
            visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            socket.socket.shutdown(visit.socket, socket.SHUT_RDWR)

        with support.Peer(script, tls=server_context()) as peer:
            self.assertIn("in the middle", str(self.refusal(self.pool(), peer.url)))

    def test_bytes_that_are_no_tls_are_an_error(self):
        def script(visit):
            visit.read()
            socket.socket.send(visit.socket, b"this is not a record of TLS at all")
            time.sleep(0.2)

        with support.Peer(script, tls=server_context()) as peer:
            self.assertRegex(str(self.refusal(self.pool(), peer.url)), "TLS|cut|closed")

    def test_a_proxy_connects_through_to_tls(self):
        def tunnel(visit):
            visit.read()
            inner = socket.create_connection(("127.0.0.1", peer.port))
            visit.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ends, data = {visit.socket: inner, inner: visit.socket}, b"."
            with inner, contextlib.suppress(OSError):
                while data:  # in one thread, for a socket of ssl does not go well with two
                    held = getattr(visit.socket, "pending", int)()
                    ready = [visit.socket] if held else select.select(list(ends), [], [])[0]
                    for one in ready:
                        data = one.recv(65536)
                        ends[one].sendall(data)

        with support.Peer(echo, tls=server_context()) as peer:
            for tls in (None, server_context()):
                with (
                    self.subTest(tls_to_the_proxy=bool(tls)),
                    support.Peer(tunnel, tls=tls) as proxy,
                ):
                    scheme, _, place = proxy.url.partition("://")
                    options = a2a.TlsOptions(ca=str(self.folder / "ca.pem"))
                    pool = a2a.Pool(options, proxy=f"{scheme}://me:pw@{place}")
                    for _ in range(2):
                        self.assertEqual(
                            (200, b"none"), get(pool, f"https://localhost:{peer.port}/")
                        )
                    self.assertEqual(1, len(proxy.requests))
                    method, target, headers, _ = proxy.requests[0]
                    self.assertEqual(("CONNECT", f"localhost:{peer.port}"), (method, target))
                    self.assertEqual("Basic bWU6cHc=", headers["proxy-authorization"])
                    pool.close()
            for request in peer.requests:
                self.assertNotIn("proxy-authorization", request[2])


class StartTest(unittest.TestCase):
    def test_without_tls_no_ssl_is_imported(self):
        """A call from a cold start pays for sockets alone."""
        with support.Peer(echo) as peer:
            program = (
                "import sys; sys.path.insert(0, sys.argv[1]); import a2a\n"
                "print(a2a.Pool().request('GET', a2a.read_url(sys.argv[2]), []).read())\n"
                "print(sorted({'ssl', 'asyncio', 'subprocess'} & set(sys.modules)))"
            )
            done = support.subprocess.run(
                [sys.executable, "-I", "-S", "-c", program, str(support.ROOT), peer.url],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
        self.assertEqual("b'none'\n[]\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
