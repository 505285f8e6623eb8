"""The tools of nghttp2 on the other side: nghttp and h2load call our server, we call nghttpd."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

import a2a

PATIENCE_S = 20.0


def agent(turn):
    """Echo, or as many chunks as the text says."""
    if turn.text.startswith("chunks:"):
        for number in range(int(turn.text[7:])):
            turn.artifact(f"{number} ", name="count", append=number > 0)
    else:
        turn.artifact(turn.text)


def run(*command):
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        timeout=60,
        env=support.clean_environment(),
    )


class OurServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = a2a.Server(agent, port=0).start()
        cls.addClassCleanup(cls.server.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.rpc = cls.write(
            "rpc.json", support.rpc_body("SendMessage", {"message": support.message()})
        )

    @classmethod
    def write(cls, name, data):
        path = cls.folder / name
        path.write_bytes(data)
        return path

    @classmethod
    def grpc_body(cls, text):
        request = a2a.write_protobuf("SendMessageRequest", {"message": support.message(text)})
        name = re.sub(r"\W", "", text)
        return cls.write(f"{name}.bin", a2a.write_grpc_message(request))


@unittest.skipUnless(support.has("nghttp"), "no nghttp")
class NghttpTest(OurServer):
    headers = ("-H", "content-type: application/json", "-H", "a2a-version: 1.0")

    def nghttp(self, *arguments, path="/"):
        """Give what nghttp prints of the body."""
        done = run("nghttp", *arguments, f"{self.server.url}{path}")
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        return done.stdout

    def test_the_card(self):
        card = json.loads(self.nghttp(path=a2a.CARD_PATH))
        self.assertIn("GRPC", [i["protocolBinding"] for i in card["supportedInterfaces"]])

    def test_json_rpc_in_every_framing(self):
        """Padding, CONTINUATION, small windows, a small or no header table, no content-length."""
        for options in (
            [],
            ["--padding=200"],
            ["--continuation"],
            ["--window-bits=1", "--connection-window-bits=16"],
            ["--header-table-size=0"],
            ["--encoder-header-table-size=0"],
            ["--no-content-length"],
            ["--expect-continue"],
            ["--no-dep"],
            ["--trailer=x: y"],
        ):
            with self.subTest(options):
                answer = json.loads(self.nghttp(*options, *self.headers, "-d", self.rpc))
                self.assertEqual("hello", a2a.text_of(answer["result"]))

    def test_many_streams(self):
        out = self.nghttp("-m", 50, "-s", "-n", *self.headers, "-d", self.rpc)
        self.assertEqual(50, len(re.findall(rb" 200 +\S+ /", out)), out)

    def test_a_large_answer_through_small_windows(self):
        body = self.write("large.json", support.rpc_body(
            "SendMessage", {"message": support.message("x" * 500_000)}))  # fmt: skip
        answer = json.loads(self.nghttp("-w", 10, "-W", 16, *self.headers, "-d", body))
        self.assertEqual("x" * 500_000, a2a.text_of(answer["result"]))

    def test_server_sent_events(self):
        body = support.rpc_body("SendStreamingMessage", {"message": support.message("chunks:9")})
        out = self.nghttp(*self.headers, "-d", self.write("stream.json", body))
        self.assertEqual(9, out.count(b'{"artifactUpdate"'))

    def test_grpc_with_its_trailers(self):
        out = self.nghttp(
            "-v", "-H", "content-type: application/grpc", "-H", "te: trailers",
            "-H", "a2a-version: 1.0", "-d", self.grpc_body("hello"),
            path="/lf.a2a.v1.A2AService/SendMessage",
        )  # fmt: skip
        self.assertIn(b"grpc-status: 0", out)
        self.assertNotIn(b"PROTOCOL_ERROR", out)
        self.assertLess(out.index(b":status: 200"), out.index(b"grpc-status: 0"))


@unittest.skipUnless(support.has("h2load"), "no h2load")
class H2loadTest(OurServer):
    def load(self, requests, *arguments, path="/"):
        """Every request of a load is answered."""
        done = run("h2load", "-n", requests, *arguments, f"{self.server.url}{path}")
        counts = re.search(
            rb"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", done.stdout
        )
        self.assertEqual(
            [requests, 0, 0, 0], [int(count) for count in counts.groups()], done.stdout
        )
        self.assertIn(b"%d 2xx" % requests, done.stdout)
        return done.stdout

    def test_json_rpc(self):
        headers = ("-H", "content-type: application/json", "-H", "a2a-version: 1.0")
        self.load(2000, "-c", 4, "-m", 20, *headers, "-d", self.rpc)
        self.load(500, "-c", 4, "--h1", *headers, "-d", self.rpc)

    def test_grpc(self):
        headers = ("-H", "content-type: application/grpc", "-H", "te: trailers",
                   "-H", "a2a-version: 1.0")  # fmt: skip
        body, target = self.grpc_body("hello"), "/lf.a2a.v1.A2AService/"
        self.load(3000, "-c", 1, "-m", 16, *headers, "-d", body, path=target + "SendMessage")
        self.load(1000, "-c", 50, "-m", 1, *headers, "-d", body, path=target + "SendMessage")
        body = self.grpc_body("chunks:50")
        self.load(
            100, "-c", 1, "-m", 16, *headers, "-d", body, path=target + "SendStreamingMessage"
        )

    def test_more_streams_than_are_allowed_at_once(self):
        self.load(1000, "-c", 1, "-m", 200, path=a2a.CARD_PATH)


@unittest.skipUnless(support.has("nghttpd"), "no nghttpd")
class NghttpdTest(unittest.TestCase):
    """Our side of the client calls nghttpd, which echoes what is uploaded."""

    def serve(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        port = support.free_port()
        command = ["nghttpd", "--no-tls", "--echo-upload", "-a", "127.0.0.1", "-d", folder.name]
        process = support.Process([*command, *options, port])
        self.addCleanup(process.__exit__)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                support.Raw(port).close()
                break
            except OSError:
                time.sleep(0.02)
        pool = a2a.Pool(proxy="")
        self.addCleanup(pool.close)
        self.pool = pool
        self.http2, self.url = a2a.Http2Pool(pool), a2a.read_url(f"http://127.0.0.1:{port}")
        self.process = process

    def echo(self, body):
        patience = a2a.Patience(time.monotonic() + PATIENCE_S, PATIENCE_S, PATIENCE_S)
        call = self.http2.request(self.url, "/x", [("content-type", "text/plain")], body, patience)
        status, found = 0, b""
        while True:
            event = call.event()
            if type(event) is a2a.Response:
                status = event.status
            elif type(event) is a2a.Data:
                found += event.data
            elif type(event) is a2a.End:
                return status, found
            else:
                raise AssertionError(event)

    def test_bodies_in_every_framing(self):
        for options in (
            [],
            ["-w", "10", "-W", "16"],
            ["-b", "200"],
            ["-c", "0"],
            ["--encoder-header-table-size=0"],
            ["-m", "1"],
            ["--trailer", "x: y"],
        ):
            with self.subTest(options):
                self.serve(*options)
                for size in (1, 100, 70_000, 500_000):
                    body = b"x" * size
                    self.assertEqual((200, body), self.echo(body))

    def test_threads_on_one_connection(self):
        self.serve()
        self.echo(b"first")
        results = []

        def call(number):
            body = b"%d " % number * 20_000
            results.append(self.echo(body) == (200, body))

        threads = [threading.Thread(target=call, args=(n,), daemon=True) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        self.assertEqual([True] * 10, results)
        self.assertEqual(1, len(self.pool.links))

    def test_a_server_that_was_started_again(self):
        self.serve()
        self.echo(b"x")
        self.process.kill()
        self.process.wait()
        with self.assertRaises(a2a.TransportError):
            self.echo(b"x")


del OurServer  # a base, no test of its own

if __name__ == "__main__":
    unittest.main()
