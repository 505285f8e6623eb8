"""Chapter 14, server side under TLS: what plain connections do, and what TLS adds to it."""

import asyncio
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support
import test_14_wires_server as wires

import a2a

with_openssl = unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
GET = wires.GET


def options(name="server", **changes):
    """Give the options of a server with that certificate; ca makes it ask for the clients'."""
    folder = support.certificates()
    given = {"cert": folder / f"{name}.crt", "key": folder / f"{name}.key", **changes}
    return a2a.TlsOptions(**{key: str(value) for key, value in given.items()})


def serving(name="server", connections=100, **changes):
    """Give a Host under TLS."""
    host = wires.Host(connections)
    host.tls = a2a.ServerTls(options(name, **changes))
    return host


def client(name="", protocols=(), version=None):
    """Give the TLS settings of a client, with a certificate of that name."""
    folder = support.certificates()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "ca.pem")
    if name:
        context.load_cert_chain(folder / f"{name}.pem")
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def dial(host, context=None, name="127.0.0.1"):
    """Open a connection under TLS."""
    link = socket.create_connection(("127.0.0.1", host.port), wires.PATIENCE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return (context or client()).wrap_socket(link, server_hostname=name)


class UnderTls:
    """Runs the tests of a class for plain connections under TLS.

    Not those that send in one thread and receive in another, which ssl's sockets do not allow.
    """

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.multiple
        for patched in (
            patch(wires, dial=dial),
            patch(wires.Host, tls=a2a.ServerTls(options())),
        ):
            patched.start()
            self.addCleanup(patched.stop)


@with_openssl
class AnswerTest(UnderTls, wires.AnswerTest):
    # Half a megabyte more is under way before a blocking client of ssl notices anything.
    test_requests_of_a_client_that_reads_no_answers_are_not_read = None
    test_requests_that_pile_up_behind_a_slow_one_are_not_read = None


@with_openssl
class ErrorTest(UnderTls, wires.ErrorTest):
    pass


@with_openssl
class BodyTest(UnderTls, wires.BodyTest):
    test_a_large_body_comes_whole = None
    test_a_body_waits_outside_until_the_handler_asks = None


@with_openssl
class StreamTest(UnderTls, wires.StreamTest):
    test_a_slow_reader_that_takes_something_is_kept = None  # a record at a time is too slow


@with_openssl
class DeadlineTest(UnderTls, wires.DeadlineTest):
    test_a_head_that_drips_is_cut = None  # that of ssl does not tell a reset from an end


@with_openssl
class LeavingTest(UnderTls, wires.LeavingTest):
    test_who_has_closed_its_side_still_gets_an_answer = None  # ssl takes TLS off for it


@with_openssl
class Http2Test(UnderTls, wires.Http2Test):
    pass


@with_openssl
class StopTest(UnderTls, wires.StopTest):
    pass


class Pump:
    """A client of TLS whose records a test can cut, hold back and forge."""

    def __init__(self, host, context=None):
        self.link = socket.create_connection(("127.0.0.1", host.port), wires.PATIENCE_S)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or client()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    def step(self, function, *arguments):
        """Do one thing of TLS, receiving what it wants; give its result."""
        while True:
            try:
                return function(*arguments)
            except ssl.SSLWantReadError:
                if self.outgoing.pending:
                    self.link.sendall(self.outgoing.read())
                data = self.link.recv(65536)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()

    def shake_hands(self):
        self.step(self.tls.do_handshake)
        self.link.sendall(self.outgoing.read())
        return self

    def records(self, data):
        """Encrypt data; give the bytes to be sent."""
        self.tls.write(data)
        return self.outgoing.read()

    def goodbye(self):
        """Give the bytes of close_notify."""
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        return self.outgoing.read()

    def read_rest(self):
        """Read the connection to its end; give what it held, decrypted."""
        data = b""
        with contextlib.suppress(ssl.SSLZeroReturnError):  # both sides have said goodbye
            while True:
                piece = self.step(self.tls.read, 65536)
                if not piece:
                    break
                data += piece
        return data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()


@contextlib.contextmanager
def logged():
    """Give a list of the lines that go to the log meanwhile."""
    lines = []
    with unittest.mock.patch.object(a2a, "log", lines.append):
        yield lines


@with_openssl
class HandshakeTest(unittest.TestCase):
    def test_alpn_decides_the_machine(self):
        """GRPC-08: TLS needs ALPN h2."""
        cases = {
            ("h2", "http/1.1"): "h2",
            ("http/1.1",): "http/1.1",
            ("http/1.1", "h2"): "h2",
            ("acme-tls/1",): None,
            (): None,
        }
        with serving() as host:
            for offered, chosen in cases.items():
                with self.subTest(offered), dial(host, client(protocols=offered)) as link:
                    self.assertEqual(chosen, link.selected_alpn_protocol())
                    kind = {"h2": a2a.Http2Lane, None: a2a.Sniffing}.get(chosen, a2a.Http1Lane)
                    wires.eventually(lambda k=kind: [type(w.lane) for w in host.wires()] == [k])
                wires.eventually(lambda: not host.wires())

    def test_what_was_agreed_on_must_be_spoken(self):
        with serving() as host, dial(host, client(protocols=["h2"])) as link:
            link.sendall(GET % b"/")
            self.assertNotIn(b"hello", wires.read_all(link))
        with serving() as host, dial(host, client(protocols=["http/1.1"])) as link:
            link.sendall(a2a.PREFACE)
            self.assertTrue(wires.read_all(link).startswith(b"HTTP/1.1 "))
        self.assertEqual([], host.seen)

    def test_both_versions_of_tls_and_nothing_older(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with serving() as host, dial(host, client(version=version)) as link:
                link.sendall(GET % b"/")
                wires.read_until(link, b"hello")
                self.assertIn("GCM", link.cipher()[0])
        old = client(version=ssl.TLSVersion.TLSv1_1)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with logged() as lines, serving() as host, self.assertRaises(ssl.SSLError) as caught:
            dial(host, old)
        self.assertIn("PROTOCOL_VERSION", str(caught.exception))
        self.assertEqual(["127.0.0.1: TLS failed: the client speaks no TLS from 1.2 on"], lines)

    def test_weak_ciphers_are_not_spoken(self):
        """RFC 9113 section 9.2.2: HTTP/2 over TLS 1.2 needs forward secrecy and AEAD."""
        weak = client(version=ssl.TLSVersion.TLSv1_2)
        weak.set_ciphers("ECDHE+AES:!AESGCM:!AESCCM")
        with logged(), serving() as host, self.assertRaises(ssl.SSLError):
            dial(host, weak)

    def test_a_handshake_may_come_byte_by_byte(self):
        with serving() as host, Pump(host) as peer:
            with contextlib.suppress(ssl.SSLWantReadError):
                peer.tls.do_handshake()
            hello = peer.outgoing.read()
            for piece in support.sliced(hello):
                peer.link.sendall(piece)
            peer.shake_hands()
            for piece in support.sliced(peer.records(GET % b"/")):
                peer.link.sendall(piece)
            peer.link.sendall(peer.goodbye())
            self.assertTrue(peer.read_rest().endswith(b"hello"))

    def test_a_client_that_does_not_trust_us_is_logged(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with logged() as lines, serving() as host:
            with self.assertRaises(ssl.SSLError):
                dial(host, context)
            wires.eventually(lambda: lines)
        self.assertEqual(
            ["127.0.0.1: TLS failed: the client does not accept our certificate (unknown ca)"],
            lines,
        )

    def test_plain_http_is_answered_400(self):
        for request in (GET % b"/", a2a.PREFACE, wires.POST % (b"/", 300_000) + b"x" * 300_000):
            with self.subTest(request[:4]), logged() as lines, serving() as host:
                link = socket.create_connection(("127.0.0.1", host.port), wires.PATIENCE_S)
                with link:
                    link.sendall(request)
                    answer = wires.read_all(link)
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
            self.assertTrue(answer.endswith(b"This port speaks TLS: use https\n"))
            self.assertEqual([], host.seen + lines)

    def test_garbage_gets_an_alert(self):
        hello = b"\x16\x03\x01\x00\x05hello"
        for data in (
            b"\0" * 100,
            b"\x16\x03\x01\xff\xff" + b"x" * 100,
            hello,
            b"\x80\x2e\1\0\2" * 20,
        ):
            with self.subTest(data[:5]), logged() as lines, serving() as host:
                link = socket.create_connection(("127.0.0.1", host.port), wires.PATIENCE_S)
                with link:
                    link.sendall(data)
                    self.assertIn(wires.read_all(link)[:2], (b"\x15\x03", b""))
                self.assertEqual(1, len(lines))
                self.assertRegex(lines[0], "^127.0.0.1: TLS failed: [A-Za-z ]+$")

    def test_half_a_hello_and_an_end_is_nothing(self):
        with logged() as lines, serving() as host:
            with Pump(host) as peer:
                with contextlib.suppress(ssl.SSLWantReadError):
                    peer.tls.do_handshake()
                peer.link.sendall(peer.outgoing.read()[:100])
                peer.link.shutdown(socket.SHUT_WR)
                self.assertEqual(b"", peer.link.recv(100))
            wires.eventually(lambda: not host.wires())
        self.assertEqual([], lines)

    def test_a_handshake_that_drips_is_cut(self):
        """NET-05: within HEADER_DEADLINE_S in all."""
        limits = {"HEADER_DEADLINE_S": 0.3, "SWEEP_S": 0.05}
        with logged() as lines, wires.patched(**limits), serving() as host:
            with Pump(host) as peer, contextlib.suppress(ConnectionError):
                with contextlib.suppress(ssl.SSLWantReadError):
                    peer.tls.do_handshake()
                for piece in support.sliced(peer.outgoing.read()):
                    peer.link.sendall(piece)
                    time.sleep(0.02)
                self.fail("it took all of it")
            wires.eventually(lambda: not host.wires())
        self.assertEqual(["127.0.0.1: TLS failed: no whole handshake came in time"], lines)

    def test_two_hundred_handshakes_at_once(self):
        with serving(connections=150) as host:
            pumps = [Pump(host) for _ in range(200)]
            for peer in pumps:
                with contextlib.suppress(ssl.SSLWantReadError):
                    peer.tls.do_handshake()
                with contextlib.suppress(ConnectionError):
                    peer.link.sendall(peer.outgoing.read())
            done = 0
            for peer in pumps:
                with contextlib.suppress(ssl.SSLError, ConnectionError):
                    peer.shake_hands()
                    done += 1
                    peer.link.sendall(peer.records(GET % b"/"))
                    self.assertIn(b"hello", peer.step(peer.tls.read, 1000))
                peer.link.close()
        self.assertEqual(150, done)

    def test_log_lines_are_few(self):
        with logged() as lines, serving() as host:
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", host.port)) as link:
                    link.sendall(b"\0" * 100)
                    wires.read_all(link)
            time.sleep(0)
            self.assertLess(len(lines), 20)
            with unittest.mock.patch.object(host.tls, "_told_at", -a2a.NEVER):
                host.tls.tell("again")
        self.assertRegex(lines[-1], r"again \(\d+ times since the last\)")

    @unittest.skipUnless(support.has("openssl"), "no openssl")
    def test_renegotiation_is_refused(self):
        with logged(), serving() as host:
            command = ["openssl", "s_client", "-connect", f"127.0.0.1:{host.port}", "-tls1_2"]
            done = subprocess.run(command, input=b"R\n", capture_output=True, timeout=60)
            self.assertIn(b"no renegotiation", done.stderr.lower())
            with dial(host) as link:
                link.sendall(GET % b"/")
                wires.read_until(link, b"hello")


@with_openssl
class EndTest(unittest.TestCase):
    """RFC 8446 section 6.1: nobody can cut a connection unseen."""

    def test_a_whole_answer_ends_with_close_notify(self):
        request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        context = client()
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0x80)
        with serving() as host, Pump(host, context).shake_hands() as peer:
            peer.link.sendall(peer.records(request))
            self.assertTrue(peer.read_rest().endswith(b"hello"))

    def test_a_broken_answer_does_not(self):
        context = client()
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0x80)
        with serving() as host, Pump(host, context).shake_hands() as peer:
            peer.link.sendall(peer.records(GET % b"/break"))
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                peer.read_rest()

    def test_who_has_said_goodbye_still_gets_an_answer(self):
        for cut in (False, True):
            with self.subTest(cut=cut), serving() as host, Pump(host).shake_hands() as peer:
                peer.link.sendall(peer.records(GET % b"/nap/1") + peer.goodbye())
                if cut:
                    peer.link.shutdown(socket.SHUT_WR)
                received = b""
                while b"/nap/1" not in received:
                    received += peer.step(peer.tls.read, 65536)
                wires.eventually(lambda h=host: not h.wires())
                self.assertFalse(host.cancelled.is_set())

    def test_an_end_after_the_goodbye_cuts_no_answer(self):
        async def handle(exchange):
            await asyncio.sleep(0.02)
            exchange.start(200, [])
            exchange.write(b"first")
            await asyncio.sleep(0.2)
            exchange.end()

        with serving() as host, Pump(host).shake_hands() as peer:
            host.listener.handler = handle
            peer.link.sendall(peer.records(GET % b"/") + peer.goodbye())
            received = peer.step(peer.tls.read, 65536)
            peer.link.shutdown(socket.SHUT_WR)
            self.assertTrue((received + peer.read_rest()).endswith(b"first\r\n0\r\n\r\n"))

    def test_a_connection_without_goodbye_ends_too(self):
        with serving() as host, Pump(host).shake_hands() as peer:
            peer.link.sendall(peer.records(GET % b"/nap/1"))
            peer.link.shutdown(socket.SHUT_WR)
            self.assertTrue(peer.read_rest().endswith(b"/nap/1"))

    def test_a_request_cut_inside_a_record_is_none(self):
        with serving() as host, Pump(host).shake_hands() as peer:
            peer.link.sendall(peer.records(GET % b"/nap/1")[:-3])
            peer.link.shutdown(socket.SHUT_WR)
            self.assertEqual(b"", peer.read_rest())
        self.assertEqual([], host.seen)

    def test_what_comes_after_a_goodbye_is_thrown_away(self):
        with logged() as lines, serving() as host, Pump(host).shake_hands() as peer:
            peer.link.sendall(peer.goodbye() + b"\x17\x03\x03\x00\x20" + b"x" * 32)
            self.assertEqual(b"", peer.read_rest())
            wires.eventually(lambda: not host.wires())
        self.assertEqual([], lines)

    def test_a_forged_record_ends_the_connection_and_its_handler(self):
        with logged() as lines, serving() as host, Pump(host).shake_hands() as peer:
            peer.link.sendall(peer.records(GET % b"/silent"))
            self.assertIn(b"200", peer.step(peer.tls.read, 1000))
            peer.link.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
            with self.assertRaises(ssl.SSLError) as caught:
                while peer.step(peer.tls.read, 1000):
                    pass
            self.assertIn("BAD_RECORD_MAC", str(caught.exception))
            self.assertTrue(host.cancelled.wait(wires.PATIENCE_S))
        self.assertEqual(1, len(lines))

    def test_large_bodies_pass_both_ways(self):
        body = os.urandom(1 << 20) * 8
        with serving() as host, Pump(host).shake_hands() as peer:
            peer.link.sendall(peer.records(wires.POST % (b"/echo", len(body)) + body))
            answer = b""
            while len(answer.partition(b"\r\n\r\n")[2]) < len(body):
                answer += peer.step(peer.tls.read, 65536)
        self.assertEqual(body, answer.partition(b"\r\n\r\n")[2])

    def test_a_body_waits_outside_until_the_handler_asks(self):
        body = b"x" * 8_000_000
        with serving() as host, Pump(host).shake_hands() as peer:
            records = peer.records(wires.POST % (b"/late", len(body)) + body)
            sender = threading.Thread(target=peer.link.sendall, args=(records,))
            sender.start()
            wires.eventually(lambda: [w.transport.is_reading() for w in host.wires()] == [False])
            self.assertIn(b"200 OK", peer.step(peer.tls.read, 65536))
            sender.join()


@with_openssl
class ClientCertificateTest(unittest.TestCase):
    """AUTH-24: with a ca each connection needs a certificate of it."""

    def asking(self):
        return serving(ca=support.certificates() / "ca.pem")

    def seen(self, name, version=None):
        """Give what an exchange knows of a client with that certificate."""
        known = []

        async def handle(exchange):
            known.extend([exchange.secure, exchange.certificate, exchange.certificate_name])
            exchange.respond(200, [])

        with self.asking() as host:
            host.listener.handler = handle
            with dial(host, client(name, version=version)) as link:
                link.sendall(GET % b"/")
                wires.read_until(link, b"200")
        return known

    def test_a_client_is_known_by_its_certificate(self):
        folder = support.certificates()
        names = {"client": "spiffe://test/caller", "person": "someone@example.org"}
        for name, said in {**names, "plain": "plain"}.items():
            der = ssl.PEM_cert_to_DER_cert((folder / f"{name}.crt").read_text())
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                self.assertEqual([True, der, said], self.seen(name, version))

    def test_the_hash_of_a_name_stands_for_one_that_is_no_word(self):
        """A lesser name, which it may share with others, would make of two clients one."""

        def name_of(uri, certificate=b"der"):
            subject = ((("countryName", "XX"),), (("commonName", "agent"),))
            facts = {"subject": subject, "subjectAltName": (("DNS", "a.example"), ("URI", uri))}
            return a2a.name_of_certificate(facts, certificate)

        self.assertEqual("x:1", name_of("x:1"))
        self.assertEqual("a.example", name_of(""))
        for uri in ("x:?id=1", "x:\ny", "two words", "x" * 257, "caf\xe9", "a\x1b[2J"):
            name = name_of(uri)
            self.assertRegex(name, "^sha256:[0-9a-f]{32}$")
            self.assertEqual(name, name_of(uri, b"renewed"))
            self.assertNotEqual(name, name_of(uri + "2"))
        nobody = [a2a.name_of_certificate({}, der) for der in (b"one", b"two")]
        self.assertEqual(2, len(set(nobody)))

    def test_a_name_that_is_no_text_harms_nobody(self):
        try:
            support.certificate("odd", "ca", "URI:x:caf\xe9")
        except subprocess.CalledProcessError:
            self.skipTest("openssl does not make such a certificate")
        self.assertRegex(self.seen("odd")[2], "^sha256:[0-9a-f]{32}$")

    def test_without_tls_nothing_is_secure(self):
        async def handle(exchange):
            known = [exchange.secure, exchange.certificate, exchange.certificate_name]
            exchange.respond(200, [], repr(known).encode())

        with wires.Host() as host:
            host.listener.handler = handle
            with wires.connect(host, GET % b"/") as link:
                self.assertIn(b"[False, b'', '']", wires.read_until(link, b"]"))

    def test_who_is_not_certified_is_told_why(self):
        cases = {
            "": ("CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE", "the client gave no certificate"),
            "rogue": ("UNKNOWN_CA", "the client's certificate is not trusted \\(.+\\)"),
            "expired": ("CERTIFICATE_EXPIRED", "not trusted \\(certificate has expired\\)"),
        }
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for name, (alert, reason) in cases.items():
                with self.subTest(name=name, version=version), logged() as lines:
                    with self.asking() as host, self.assertRaises(ssl.SSLError) as caught:
                        dial(host, client(name, version=version)).recv(1)
                    self.assertRegex(str(caught.exception), alert)
                    self.assertEqual(1, len(lines))
                    self.assertRegex(lines[0], reason)
                    self.assertEqual([], host.seen)

    def test_an_authority_need_not_be_the_last_one(self):
        folder = support.certificates()
        may_sign = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign"
        support.certificate("middle", "ca", "DNS:middle\n" + may_sign)
        support.certificate("below", "middle", "DNS:below")
        with serving(ca=folder / "middle.crt") as host:
            with dial(host, client("below")) as link:
                link.sendall(GET % b"/")
                wires.read_until(link, b"hello")
            with self.assertRaises(ssl.SSLError), logged():
                dial(host, client("client")).recv(1)
        with serving(ca=folder / "below.crt") as host:  # and one that may not sign is only itself
            with dial(host, client("below")) as link:
                link.sendall(GET % b"/")
                wires.read_until(link, b"hello")
            support.certificate("forged", "below", "DNS:forged")
            with self.assertRaises(ssl.SSLError), logged():
                dial(host, client("forged")).recv(1)

    def test_no_session_is_taken_up_again(self):
        with self.asking() as host, dial(host, client("client")) as link:
            link.sendall(GET % b"/")
            wires.read_until(link, b"hello")
            self.assertFalse(link.session and link.session.has_ticket)


@with_openssl
class FilesTest(unittest.TestCase):
    def refused(self, name="server", **changes):
        with self.assertRaises(a2a.UsageError) as caught:
            a2a.ServerTls(options(name, **changes))
        return str(caught.exception)

    def test_files_that_do_not_fit_are_a_usage_error(self):
        folder = support.certificates()
        self.assertRegex(self.refused(cert="/no/such"), "^/no/such cannot be used: no such file")
        self.assertRegex(self.refused(key="/no/such"), "^/no/such cannot be used: no such file")
        self.assertRegex(self.refused(ca="/no/such"), "^/no/such cannot be used: no such file")
        self.assertRegex(self.refused(key=folder / "client.key"), "do not belong together")
        self.assertRegex(self.refused(key=folder / "ca.pem"), "not PEM or lacks")
        self.assertRegex(self.refused(ca=folder / "ca.key"), "no certificate in it")
        support.openssl(
            "req", "-x509", "-newkey", "rsa:512", "-nodes", "-subj", "/CN=weak", "-keyout",
            "weak.key", "-out", "weak.crt",
        )  # fmt: skip
        self.assertRegex(self.refused("weak"), "key too small|PEM")

    def test_an_encrypted_key_is_opened_by_a_file_never_by_a_question(self):
        folder = support.certificates()
        key = folder / "locked.key"
        with tempfile.TemporaryDirectory() as place:
            word = pathlib.Path(place, "word")
            for ending in ("", "\n", "\r\n"):
                word.write_bytes(b"open sesame" + ending.encode())
                a2a.ServerTls(options(key=key, key_password_file=word))
            word.write_text("shut sesame")
            wrong = self.refused(key=key, key_password_file=word)
            self.assertEqual(f"{word} cannot be used: it does not open the private key", wrong)
            missing = self.refused(key=key, key_password_file="/no/such")
            self.assertRegex(missing, "^/no/such cannot be read: no such file")
        self.assertIn("is encrypted", self.refused(key=key))

    def test_what_clients_will_have_against_a_certificate(self):
        folder = support.certificates()
        for name, host, said in (
            ("server", "127.0.0.1", ""),
            ("server", "localhost", ""),
            ("server", "agent.example", "not valid for 'agent.example'"),
            ("server", "127.0.0.2", "not valid for '127.0.0.2'"),
            ("server", "", ""),
            ("plain", "127.0.0.1", "not valid for '127.0.0.1'"),
            ("expired", "", "certificate has expired"),
        ):
            for asks in ({}, {"ca": folder / "ca.pem"}):
                with self.subTest(name=name, host=host, asks=asks):
                    flaw = a2a.ServerTls(options(name, **asks)).find_flaw(host)
                    self.assertEqual(said, flaw and flaw[-len(said) :])
        chain = folder / "chain.pem"
        chain.write_text((folder / "server.crt").read_text() + (folder / "ca.pem").read_text())
        self.assertEqual("", a2a.ServerTls(options(cert=chain)).find_flaw("127.0.0.1"))

    def test_a_renewed_certificate_is_taken_up(self):
        folder = support.certificates()
        with tempfile.TemporaryDirectory() as place, logged() as lines:
            cert, key = pathlib.Path(place, "cert"), pathlib.Path(place, "key")
            for path, name in ((cert, "server.crt"), (key, "server.key")):
                shutil.copy(folder / name, path)
                os.utime(path, (1, 1))
            with serving(cert=cert, key=key) as host:

                def common_name():
                    with dial(host) as link:
                        return link.getpeercert()["subject"][0][0][1]

                self.assertEqual("server", common_name())
                shutil.copy(folder / "client.crt", cert)
                self.assertEqual("server", common_name())  # it was looked at just now
                with wires.patched(TLS_LOOK_S=0):
                    self.assertEqual("server", common_name())  # the key is still the old one
                    self.assertIn("do not belong together", lines[0])
                    shutil.copy(folder / "client.key", key)
                    self.assertEqual("client", common_name())


if __name__ == "__main__":
    unittest.main()
