"""Our server under TLS, called by everybody: curl, nghttp2, openssl, grpcio, the official SDKs."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peers
import support

import a2a

VERSION = "a2a-version: 1.0"
CALL = support.rpc_body("SendMessage", {"message": support.message("hello")})


@unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
class UnderTls(unittest.TestCase):
    """A server of each kind: one that asks nothing, one that asks for a client's certificate."""

    @classmethod
    def setUpClass(cls):
        cls.folder = support.certificates()
        cls.ca = str(cls.folder / "ca.pem")
        cls.mine = str(cls.folder / "client.pem")
        files = {"tls_cert": str(cls.folder / "server.pem")}
        cls.server = a2a.Server(f"{peers.AGENT}:words", port=0, **files).start()
        cls.addClassCleanup(cls.server.stop)
        cls.asking = a2a.Server(
            f"{peers.AGENT}:words", port=0, grpc_port=0, tls_client_ca=cls.ca, **files
        ).start()
        cls.addClassCleanup(cls.asking.stop)

    def run_tool(self, *command, data=None, status=0):
        words = [str(word) for word in command]
        done = subprocess.run(
            words, input=data, capture_output=True, timeout=60, env=support.clean_environment()
        )
        if status is not None:
            self.assertEqual(status, done.returncode, done.stderr)
        return done


@unittest.skipUnless(support.has("curl"), "no curl")
class CurlTest(UnderTls):
    def curl(self, server, *arguments, status=0):
        common = ("--max-time", "20", "--noproxy", "*", "--cacert", self.ca)
        say = ("-H", "content-type: application/json", "-H", VERSION, "--data-binary", "@-")
        command = ("curl", "-sS", *common, *say, *arguments, server.url)
        return self.run_tool(*command, data=CALL, status=status)

    def test_both_versions_of_http_over_both_of_tls(self):
        """GRPC-08: ALPN decides."""
        for http in ("--http1.1", "--http2"):
            for tls in (["--tlsv1.3"], ["--tls-max", "1.2"]):
                done = self.curl(self.server, http, *tls, "-w", " %{http_version}")
                body, _, version = done.stdout.rpartition(b" ")
                self.assertEqual({"--http1.1": b"1.1", "--http2": b"2"}[http], version)
                self.assertEqual("hello", a2a.text_of(json.loads(body)["result"]))

    def test_a_large_body_both_ways(self):
        text = "0123456789" * 1_000_000
        call = support.rpc_body("SendMessage", {"message": support.message(text)})
        for http in ("--http1.1", "--http2"):
            common = ("curl", "-sS", "--noproxy", "*", "--cacert", self.ca, http)
            say = ("-H", "content-type: application/json", "-H", VERSION, "--data-binary", "@-")
            done = self.run_tool(*common, *say, self.server.url, data=call)
            self.assertEqual(text, a2a.text_of(json.loads(done.stdout)["result"]))

    def test_a_client_certificate(self):
        """AUTH-24: with one, without, of another authority, expired."""
        done = self.curl(self.asking, "--cert", self.mine)
        self.assertEqual("hello", a2a.text_of(json.loads(done.stdout)["result"]))
        for name, said in (
            ("", b"certificate required"),
            ("rogue", b"unknown ca"),
            ("expired", b"certificate expired"),
        ):
            ours = ("--cert", self.folder / f"{name}.pem") if name else ()
            done = self.curl(self.asking, *ours, status=56)  # failure in receiving
            self.assertIn(said, done.stderr)
            done = self.curl(self.asking, "--tls-max", "1.2", *ours, status=None)
            self.assertNotEqual(0, done.returncode)

    def test_plain_http_on_the_port_of_tls(self):
        done = self.run_tool("curl", "-sS", "-i", f"http://127.0.0.1:{self.server.port}/")
        self.assertTrue(done.stdout.startswith(b"HTTP/1.1 400 "))
        self.assertIn(b"use https", done.stdout)


@unittest.skipUnless(support.has("nghttp") and support.has("h2load"), "no nghttp and h2load")
class Nghttp2Test(UnderTls):
    def setUp(self):
        self.call = self.folder / "call.json"
        self.call.write_bytes(CALL)

    def test_nghttp(self):
        say = ("-H", "content-type: application/json", "-H", VERSION, "-d", self.call)
        done = self.run_tool("nghttp", "-v", *say, self.server.url)
        self.assertIn(b"The negotiated protocol: h2", done.stdout)
        self.assertIn(b'"hello"', done.stdout)

    def test_every_request_of_a_load_is_answered(self):
        say = ("-H", "content-type: application/json", "-H", VERSION, "-d", self.call)
        for options in (["-m", 20], ["--h1"]):
            done = self.run_tool("h2load", "-n", 1000, "-c", 4, *options, *say, self.server.url)
            self.assertIn(b"1000 succeeded, 0 failed, 0 errored, 0 timeout", done.stdout)
            self.assertIn(b"1000 2xx", done.stdout)


class OpensslTest(UnderTls):
    def client(self, *arguments, data=b"", status=0):
        place = ("-connect", f"127.0.0.1:{self.server.port}", "-CAfile", self.ca)
        return self.run_tool("openssl", *arguments, *place, data=data, status=status)

    def test_what_is_agreed_on(self):
        request = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        request += b"Connection: close\r\n\r\n"
        done = self.client(
            "s_client", "-alpn", "h3,http/1.1", "-verify_return_error", "-ign_eof", data=request
        )
        for said in (b"ALPN protocol: http/1.1", b"Verify return code: 0", b"TLSv1.3", b"200 OK"):
            self.assertIn(said, done.stdout)
        self.assertIn(b"Compression: NONE", done.stdout)
        old = self.client("s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", status=None)
        self.assertIn(b"alert protocol version", old.stderr)

    def test_handshakes_one_after_another(self):
        for kind in ("-new", "-reuse"):
            done = self.client("s_time", kind, "-time", 1)
            self.assertRegex(
                done.stdout, rb"\d+ connections in 2 real seconds|connections/user sec"
            )


class GrpcioTest(UnderTls):
    def call(self, target, **files):
        import grpc

        def read(name):
            return (self.folder / name).read_bytes() if name else None

        credentials = grpc.ssl_channel_credentials(
            read("ca.pem"), read(files.get("key")), read(files.get("crt"))
        )
        body = a2a.write_protobuf("SendMessageRequest", {"message": support.message("hello")})
        with grpc.secure_channel(target, credentials) as channel:
            send = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
            answer = send(body, timeout=20, metadata=[("a2a-version", "1.0")])
        return a2a.text_of(a2a.read_protobuf("SendMessageResponse", answer))

    @classmethod
    def setUpClass(cls):
        try:
            import grpc  # noqa: F401
        except ImportError as error:
            raise unittest.SkipTest("no grpcio: `python3 tests` installs it") from error
        super().setUpClass()

    def test_with_and_without_a_client_certificate(self):
        """AUTH-24, GRPC-08: on an address, on a name, on a port of its own."""
        import grpc

        for host in ("127.0.0.1", "localhost"):
            self.assertEqual("hello", self.call(f"{host}:{self.server.port}"))
        ours = {"key": "client.key", "crt": "client.crt"}
        for port in (self.asking.port, self.asking.grpc_port):
            self.assertEqual("hello", self.call(f"127.0.0.1:{port}", **ours))
            for wrong in ({}, {"key": "rogue.key", "crt": "rogue.crt"}):
                with self.assertRaises(grpc.RpcError) as caught:
                    self.call(f"127.0.0.1:{port}", **wrong)
                self.assertEqual(grpc.StatusCode.UNAVAILABLE, caught.exception.code())


class SdkTest(UnderTls):
    """The official clients over https, and with a certificate where they can show one."""

    def talk(self, language, transport, server, cert=None):
        client = peers.SdkClient(language, server.url, transport, ca=self.ca, cert=cert)
        try:
            message = {"message": support.message("hello")}
            task = client.call("SendMessage", **message)["task"]
            self.assertEqual("hello", a2a.text_of(task))
            events = client.stream("SendStreamingMessage", message=support.message("chunks 5"))
            self.assertEqual("TASK_STATE_COMPLETED", events[-1]["statusUpdate"]["status"]["state"])
        finally:
            client.close()

    def test_the_python_sdk(self):
        peers.need_python_sdk()
        for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
            with self.subTest(transport):
                self.talk("python", transport, self.server)
                self.talk("python", transport, self.asking, self.mine)

    def test_the_javascript_sdk(self):
        peers.need_js_sdk()
        for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
            with self.subTest(transport):
                self.talk("js", transport, self.server)


if __name__ == "__main__":
    unittest.main()
