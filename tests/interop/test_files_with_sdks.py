"""A session answers the official SDKs' clients through files, over every transport.

The server, `watch` and each `reply` are processes, as in the life of a session.
"""

import base64
import json
import os
import pathlib
import queue
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

import a2a

DONE = "TASK_STATE_COMPLETED"
PLACE = []
SERVER = []
WATCH = []


def setUpModule():
    PLACE.append(tempfile.TemporaryDirectory())
    SERVER.append(support.Served("--dir", PLACE[0].name, "--tasks-per-minute", "0"))
    WATCH.append(support.Process([sys.executable, support.A2A, "watch", "--dir", PLACE[0].name]))


def tearDownModule():
    for process in (WATCH.pop(), SERVER.pop()):
        process.__exit__()
    PLACE.pop().cleanup()


class Session:
    """Who answers: woken by `watch`, reads the prompt, writes files, runs `reply`."""

    def __init__(self):
        self.folder = a2a.Folder(PLACE[0].name)
        self.seen = set()

    def woken(self, text):
        """Wait until watch tells of a turn whose prompt has a text; give its task.json."""
        for _ in range(1000):
            for line in WATCH[0].stdout.splitlines():
                path = line.rpartition(": ")[2]
                if line not in self.seen and os.path.exists(path):
                    prompt = pathlib.Path(path).read_text(encoding="utf-8")
                    if text in prompt:
                        self.seen.add(line)
                        (task,) = [t for t in self.folder.tasks() if t["prompt"] == path]
                        return task, prompt
            threading.Event().wait(0.02)
        raise AssertionError(f"watch did not tell of {text!r}\n{WATCH[0].stdout}")

    def reply(self, task, *arguments):
        done = support.run_cli("reply", task["taskId"], *arguments, "--dir", self.folder.path)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)


class Answered:
    """What every client sees of a session that answers."""

    language = transport = ""

    @classmethod
    def setUpClass(cls):
        cls.client = peers.SdkClient(cls.language, SERVER[0].url, cls.transport)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.session = Session()
        self.mark = f"{self.language} {self.transport} {self.id()}"  # in the prompt of its tasks

    def start(self, operation, *parts, **fields):
        message = support.message(self.mark, **fields)
        message["parts"] += parts
        return self.client.start(operation, {"message": message})

    def test_files_go_in_and_artifacts_come_out(self):
        call = self.start(
            "SendStreamingMessage",
            {"raw": base64.b64encode(bytes(range(256))).decode(), "filename": "../../pixel.png"},
            {"data": {"wanted": ["report", "table"]}},
        )
        events = queue.Queue()
        reader = threading.Thread(target=lambda: [events.put(event) for event in call])
        reader.start()
        task, prompt = self.session.woken(self.mark)
        self.assertIn('"wanted"', prompt)
        inbox = pathlib.Path(task["inbox"], "part-2-pixel.png")
        self.assertIn(f"in {inbox} ---", prompt)
        self.assertEqual(bytes(range(256)), inbox.read_bytes())
        self.session.reply(task, "--progress", "half way")
        outbox = pathlib.Path(task["outbox"])
        (outbox / "table.csv").write_text("a,b\n1,2\n")
        (outbox / "facts.json").write_text('{"n": 1}')
        (outbox / "dot.bin").write_bytes(b"\0\xff")
        self.session.reply(task, "Here they are.")
        reader.join(support.DEADLINE_S)
        seen = list(events.queue)
        self.assertIn("task", seen[0])
        told = [
            e["statusUpdate"]["status"]["message"]["parts"][0]["text"]
            for e in seen
            if "message" in e.get("statusUpdate", {}).get("status", {})
        ]
        self.assertIn("half way", told)
        parts = {
            e["artifactUpdate"]["artifact"]["name"]: e["artifactUpdate"]["artifact"]["parts"][0]
            for e in seen
            if "artifactUpdate" in e
        }
        self.assertEqual(["dot", "facts", "table", "answer"], list(parts))
        self.assertEqual(b"\0\xff", base64.b64decode(parts["dot"]["raw"]))
        self.assertEqual({"n": 1}, parts["facts"]["data"])
        self.assertEqual(
            ("a,b\n1,2\n", "table.csv"), (parts["table"]["text"], parts["table"]["filename"])
        )
        self.assertEqual("Here they are.", parts["answer"]["text"])
        self.assertEqual(DONE, seen[-1]["statusUpdate"]["status"]["state"])

    def test_a_question_and_its_answer_are_two_turns(self):
        call = self.start("SendMessage")
        task, _ = self.session.woken(self.mark)
        self.session.reply(task, "--ask", "Which colour?")
        asked = list(call)[-1]["task"]
        self.assertEqual("TASK_STATE_INPUT_REQUIRED", asked["status"]["state"])
        self.mark += " blue"
        call = self.start("SendMessage", taskId=asked["id"])
        second, prompt = self.session.woken(self.mark)
        self.assertEqual((task["folder"], 2), (second["folder"], second["turn"]))
        self.assertIn("Which colour?", prompt)
        self.session.reply(second, "Blue it is")
        answered = list(call)[-1]["task"]
        self.assertEqual((asked["id"], DONE), (answered["id"], answered["status"]["state"]))
        self.assertEqual("Blue it is", answered["artifacts"][0]["parts"][0]["text"])

    def test_a_cancel_reaches_the_session(self):
        call = self.start("SendStreamingMessage")
        task, _ = self.session.woken(self.mark)
        self.client.call("CancelTask", id=task["taskId"])
        last = list(call)[-1]["statusUpdate"]["status"]
        self.assertEqual("TASK_STATE_CANCELED", last["state"])
        for _ in range(500):
            if os.path.exists(os.path.join(task["folder"], "cancelled.md")):
                break
            threading.Event().wait(0.01)
        done = support.run_cli("reply", task["taskId"], "late", "--dir", self.session.folder.path)
        self.assertEqual(2, done.returncode)
        self.assertIn("cancelled", done.stdout + done.stderr)

    def test_failure_and_rejection(self):
        for option, state in (("--fail", "FAILED"), ("--reject", "REJECTED")):
            with self.subTest(option=option):
                self.mark += option
                call = self.start("SendMessage")
                task, _ = self.session.woken(self.mark)
                self.session.reply(task, option, "Because")
                ended = list(call)[-1]["task"]["status"]
                self.assertEqual(f"TASK_STATE_{state}", ended["state"])
                self.assertEqual("Because", ended["message"]["parts"][0]["text"])

    def test_the_card_says_what_can_come(self):
        body = support.http(SERVER[0].port, "GET", "/.well-known/agent-card.json")[2]
        modes = json.loads(body)["defaultOutputModes"]
        self.assertLessEqual({"text/plain", "application/json", "image/png"}, set(modes))


for language in ("python", "js"):
    for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
        name = f"{language}_{transport}".replace("+", "_")
        members = {"language": language, "transport": transport}
        globals()[name] = type(name, (Answered, unittest.TestCase), members)
del name


if __name__ == "__main__":
    unittest.main()
