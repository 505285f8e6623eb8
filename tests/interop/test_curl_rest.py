"""curl calls our server over REST, and asks for what a server refuses."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

import a2a

AGENT = pathlib.Path(__file__).resolve().parent / "agent.py"


@unittest.skipUnless(support.has("curl"), "no curl")
class RestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = a2a.Server(f"{AGENT}:words", port=0).start()
        cls.addClassCleanup(cls.server.stop)

    def curl(self, path, *options, data=None):
        """Give (status, head text, body text) of one curl command."""
        mark = "\n%{http_code}"
        command = ["curl", "-sS", "-i", "-m", "30", "-w", mark, "-H", "A2A-Version: 1.0"]
        if data is not None:
            command += ["--data-binary", data if isinstance(data, str) else json.dumps(data)]
        done = subprocess.run(
            [*command, *options, self.server.url + path],
            capture_output=True,
            env=support.clean_environment(),
            timeout=60,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        answer, _, status = done.stdout.decode().rpartition("\n")
        while answer.startswith("HTTP/1.1 100"):
            answer = answer.partition("\r\n\r\n")[2]
        head, _, body = answer.partition("\r\n\r\n")
        return int(status), head, body

    def post(self, path, data, *options, kind="application/json"):
        return self.curl(path, "-H", f"Content-Type: {kind}", *options, data=data)

    def test_the_card_has_not_changed(self):
        """CARD-16: curl compares the ETag by itself."""
        with tempfile.TemporaryDirectory() as folder:
            tag = str(pathlib.Path(folder, "tag"))
            first = self.curl("/.well-known/agent-card.json", "--etag-save", tag)
            second = self.curl("/.well-known/agent-card.json", "--etag-compare", tag)
        self.assertEqual((200, 304), (first[0], second[0]))
        self.assertEqual("", second[2])

    def test_a_call_over_rest(self):
        status, head, body = self.post("/message:send", {"message": support.message("Grüße")})
        self.assertEqual(200, status)
        self.assertIn("application/a2a+json", head.lower())
        self.assertEqual("Grüße", json.loads(body)["task"]["artifacts"][0]["parts"][0]["text"])

    def test_a_stream(self):
        data = {"message": support.message("chunks 3")}
        status, head, body = self.post("/message:stream", data, "-N")
        self.assertEqual(200, status)
        self.assertIn("text/event-stream", head.lower())
        events = [json.loads(line[5:]) for line in body.split("\n") if line.startswith("data:")]
        self.assertIn("task", events[0])
        self.assertEqual(3, sum("artifactUpdate" in event for event in events))

    def test_cancel_without_a_body(self):
        """REST-02: a POST of nothing, without a media type."""
        data = {"message": support.message("hold 20"), "configuration": {"returnImmediately": True}}
        task = json.loads(self.post("/message:send", data)[2])["task"]
        status, _, body = self.curl(f"/tasks/{task['id']}:cancel", "-X", "POST")
        self.assertEqual(200, status, body)
        self.assertEqual("TASK_STATE_CANCELED", json.loads(body)["status"]["state"])

    def test_errors_carry_status_and_reason(self):
        """REST-07: an unknown task over REST."""
        status, _, body = self.curl("/tasks/made-up")
        error = json.loads(body)["error"]
        self.assertEqual((404, 404, "NOT_FOUND"), (status, error["code"], error["status"]))
        self.assertEqual("TASK_NOT_FOUND", error["details"][0]["reason"])

    def test_the_wrong_media_type(self):
        """REST-03: what curl sends when nobody tells it better."""
        status, _, _ = self.curl("/message:send", data={"message": support.message("x")})
        self.assertEqual(415, status)

    def test_a_verb_that_a_path_does_not_know(self):
        status, head, _ = self.curl("/message:send", "-X", "PUT")
        self.assertEqual(405, status)
        self.assertRegex(head.lower(), r"\nallow: .*post")

    def test_a_foreign_host_and_a_foreign_origin(self):
        card = "/.well-known/agent-card.json"
        self.assertEqual(421, self.curl(card, "-H", "Host: evil.example")[0])
        self.assertEqual(403, self.curl(card, "-H", "Origin: http://evil.example")[0])


if __name__ == "__main__":
    unittest.main()
