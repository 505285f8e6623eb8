"""Our server called by curl."""

import json
import pathlib
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

import a2a

BODY_LIMIT = 2_000_000


def call(text="hi", method="SendMessage"):
    """Give a JSON-RPC call as curl's --data takes it."""
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": message}})


def text_in(reply):
    """Give the text that a JSON-RPC reply to call() holds."""
    return a2a.text_of(json.loads(reply)["result"])


JSON = ["-H", "Content-Type: application/json", "-H", "A2A-Version: 1.0"]


@unittest.skipUnless(support.has("curl"), "no curl")
class CurlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = a2a.Server("echo", port=0, max_request_bytes=BODY_LIMIT)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.url = cls.server.url.rstrip("/")

    def curl(self, *arguments, data=None, fails=False):
        """Run curl; give its output. It must come to an answer unless fails."""
        command = ["curl", "-sS", "--max-time", "20", "--noproxy", "*", *arguments]
        done = subprocess.run(command, input=data, capture_output=True, timeout=30)
        if not fails:
            self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def status(self, *arguments, **options):
        """Give (status, headers in lower case, body) of one answer."""
        raw = self.curl("-i", *arguments, **options)
        while True:
            head, _, raw = raw.partition(b"\r\n\r\n")
            line, *fields = head.decode("latin-1").split("\r\n")
            status = int(line.split()[1])
            if status >= 200:
                pairs = (field.split(": ", 1) for field in fields)
                return status, {name.lower(): value for name, value in pairs}, raw

    def test_the_card(self):
        status, headers, body = self.status(self.url + a2a.CARD_PATH)
        self.assertEqual((200, "application/json"), (status, headers["content-type"][:16]))
        self.assertEqual(str(len(body)), headers["content-length"])
        self.assertRegex(headers["date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
        self.assertIn("supportedInterfaces", json.loads(body))

    def test_head_gives_the_headers_of_get(self):
        """NET-05: HEAD has the length of the body and no body."""
        _, expected, body = self.status(self.url + a2a.CARD_PATH)
        status, headers, nothing = self.status("-I", self.url + a2a.CARD_PATH)
        self.assertEqual((200, b""), (status, nothing))
        self.assertEqual(str(len(body)), headers["content-length"])
        self.assertEqual(expected["content-type"], headers["content-type"])

    def test_a_call(self):
        reply = self.curl("--http1.1", *JSON, "-d", call("hello"), self.url)
        self.assertIn("hello", text_in(reply))

    def test_a_chunked_call(self):
        """NET-05: a chunked request body, as curl sends one it does not know the length of."""
        text = "x" * 300_000
        arguments = ["--http1.1", *JSON, "-H", "Transfer-Encoding: chunked", "--data-binary", "@-"]
        reply = self.curl(*arguments, self.url, data=call(text).encode())
        self.assertIn(text, text_in(reply))

    def test_a_call_that_waits_for_100_continue(self):
        """NET-05: curl sends the body after 100 Continue alone (it would wait 1 s by itself)."""
        wait = ["-H", "Expect: 100-continue", "--expect100-timeout", "15"]
        raw = self.curl("-i", *wait, *JSON, "-d", call("patient"), self.url)
        self.assertTrue(raw.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), raw)

    def test_a_body_too_large_is_refused_before_it_is_sent(self):
        """JSON-18: with Expect the body never leaves curl."""
        wait = ["-H", "Expect: 100-continue", "--expect100-timeout", "15", "-w", "%{size_upload}"]
        data = call("x" * BODY_LIMIT).encode()
        raw = self.curl("-i", *wait, *JSON, "--data-binary", "@-", self.url, data=data)
        self.assertTrue(raw.startswith(b"HTTP/1.1 413 "), raw[:100])
        self.assertTrue(raw.endswith(b"0"), raw[-100:])

    def test_a_body_too_large_without_expect_gets_its_413(self):
        """JSON-18: the answer arrives although the client is still sending."""
        data = call("x" * 10 * BODY_LIMIT).encode()
        for coding in ([], ["-H", "Transfer-Encoding: chunked"]):
            with self.subTest(coding):
                arguments = ["-H", "Expect:", *coding, *JSON, "--data-binary", "@-", self.url]
                status, headers, _ = self.status(*arguments, data=data, fails=True)
                self.assertEqual((413, "close"), (status, headers["connection"]))

    def test_http_1_0(self):
        status, headers, body = self.status("--http1.0", *JSON, "-d", call("old"), self.url)
        self.assertEqual((200, "close"), (status, headers["connection"]))
        self.assertIn("old", text_in(body))

    def test_a_stream(self):
        raw = self.curl("-N", *JSON, "-d", call("flow", "SendStreamingMessage"), self.url)
        events = [json.loads(event) for event in a2a.SseReader().receive(raw)]
        self.assertTrue(events)
        self.assertTrue(all(event["id"] == 7 for event in events))
        self.assertIn("flow", raw.decode())

    def test_a_stream_over_http_1_0_ends_with_the_connection(self):
        arguments = ["--http1.0", *JSON, "-d", call("flow", "SendStreamingMessage"), self.url]
        status, headers, raw = self.status(*arguments)
        self.assertEqual((200, "close"), (status, headers["connection"]))
        self.assertNotIn("transfer-encoding", headers)
        self.assertTrue(a2a.SseReader().receive(raw))

    def test_an_upgrade_is_passed_over(self):
        """curl --http2 offers h2c with an upgrade, which HTTP/2 no longer has."""
        status, headers, _ = self.status("--http2", self.url + a2a.CARD_PATH)
        self.assertEqual(200, status)
        self.assertNotIn("upgrade", headers)

    def test_two_requests_on_one_connection(self):
        count = ["-w", "%{num_connects}\n", "-o", "/dev/null"]
        card = self.url + a2a.CARD_PATH
        self.assertEqual(b"1\n0\n", self.curl(*count, card, "-o", "/dev/null", card))

    def test_what_is_not_there(self):
        """NET-05: 404, and 405 with Allow."""
        self.assertEqual(404, self.status(self.url + "/nothing/here")[0])
        status, headers, _ = self.status("-X", "DELETE", self.url + a2a.CARD_PATH)
        self.assertEqual(405, status)
        self.assertIn("GET", headers["allow"])
        self.assertIn(self.status("-X", "BREW", self.url)[0], (404, 405, 501))

    def test_a_request_without_host_is_refused(self):
        self.assertEqual(400, self.status("-H", "Host:", self.url + a2a.CARD_PATH)[0])

    def test_a_foreign_host_is_refused(self):
        foreign = ["-H", "Host: evil.example", self.url + a2a.CARD_PATH]
        self.assertEqual(421, self.status(*foreign)[0])

    def test_a_refused_call_leaves_the_connection_usable(self):
        """NET-05: a short body nobody read is passed over, the next request is not its rest."""
        card = self.url + a2a.CARD_PATH
        bad = ["-d", "GET / HTTP/1.1", self.url + "/nothing/here"]
        count = ["-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null"]
        said = self.curl(*count, *bad, "--next", "-sS", "--noproxy", "*", *count, card)
        self.assertEqual([b"404 1", b"200 0"], said.splitlines())

    def test_a_slow_upload(self):
        """NET-05: as slow as it may be."""
        arguments = ["--limit-rate", "40k", *JSON, "--data-binary", "@-", self.url]
        reply = self.curl(*arguments, data=call("x" * 60_000).encode())
        self.assertIn("xxxx", text_in(reply))

    def test_ipv6(self):
        """NET-03: served on ::1, called with brackets."""
        if not has_ipv6():
            self.skipTest("no IPv6 on loopback")
        server = a2a.Server("echo", host="::1", port=0)
        server.start()
        self.addCleanup(server.stop)
        self.assertIn(f"http://[::1]:{server.port}", server.url)
        card = json.loads(self.curl("-g", server.url.rstrip("/") + a2a.CARD_PATH))
        self.assertIn("[::1]", card["supportedInterfaces"][0]["url"])
        self.assertIn("six", text_in(self.curl("-g", *JSON, "-d", call("six"), server.url)))

    def test_a_download_in_pieces_over_a_slow_line(self):
        text = "y" * 1_000_000
        reply = self.curl("--limit-rate", "2M", *JSON, "--data-binary", "@-", self.url,
                          data=call(text).encode())  # fmt: skip
        self.assertIn(text, text_in(reply))


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
