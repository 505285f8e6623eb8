"""The a2a-cli requirements (COMPLIANCE.md 0.2), each held by the test that starts with its id.

The program is called with a command line, an environment and a folder: against its own demo server
in another process, and against a scripted agent where a case needs one that misbehaves, or a look
at what was sent.
"""

import ast
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from scripted import STATE, Scripted, task, update


class Compliance(unittest.TestCase):
    """Tests that share a demo server."""

    @classmethod
    def setUpClass(cls):
        command = [sys.executable, str(support.A2A), "demo-server", "-o", "json", "--port", "0"]
        cls.agent = support.Process(command)
        cls.addClassCleanup(cls.agent.__exit__)
        cls.url = json.loads(cls.agent.wait_for('"ready"'))["url"].rstrip("/")

    def cli(self, *arguments, status=0, **options):
        done = support.run_main(*arguments, **options)
        self.assertEqual(status, done.returncode, f"{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments, **options):
        """Run with -o json; give the one document of standard output."""
        return json.loads(self.cli(*arguments, "-o", "json", **options).stdout)

    def lines(self, *arguments, **options):
        """Run with -o json --stream; give the object of each line."""
        done = self.cli(*arguments, "-o", "json", "--stream", **options)
        self.assertTrue(done.stdout.endswith("\n"))
        return [json.loads(line) for line in done.stdout[:-1].split("\n")]

    def error(self, *arguments, **options):
        """Run with -o json; give the error of the envelope."""
        value = self.json(*arguments, **options)
        self.assertEqual(["error"], list(value))
        return value["error"]

    def scripted(self, answer, **card):
        server = Scripted(answer, **card)
        self.addCleanup(server.__exit__)
        return server

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def state(self, value):
        return value["status"]["state"][len(STATE) :]


class CommandTest(Compliance):
    def test_card_get_001(self):
        """A2ACLI_CARD_GET_001, CARD-02: a card by host, URL, card URL, path and file:// URL."""
        card = self.json("card", "get", self.url)
        path = self.folder() / "card.json"
        path.write_text(json.dumps(card), encoding="utf-8")
        whole = self.url + a2a.CARD_PATH
        for reference in (self.url[7:], self.url + "/", whole, path, path.as_uri()):
            with self.subTest(reference=reference):
                self.assertEqual(card, self.json("card", "get", "-a", reference))
                self.assertEqual(card, self.json("card", "get", reference))
        text = self.cli("card", "get", self.url).stdout
        for label in ("Name", "Description", "Version", "Interface", "Streaming", "Skill"):
            self.assertRegex(text, rf"(?m)^{label}: ")
        self.assertIn("task", self.json("send", path, "echo by its card file"))

    def test_card_get_001_query(self):
        """CARD-02: a full card URL is fetched as it stands, its query with it."""
        server = self.scripted(None)
        self.json("card", "get", server.url + "/cards/x.json?v=2")
        self.assertEqual(["/cards/x.json?v=2"], server.sent("card"))

    def test_card_get_002(self):
        """A2ACLI_CARD_GET_002, CARD-15: --validate names every violation of the schema."""
        self.assertIn("Valid: yes", self.cli("card", "get", self.url, "--validate").stdout)
        self.assertIn("name", self.json("card", "get", self.url, "--validate"))
        path = self.folder() / "card.json"
        for card, named in (({}, ("name", "supportedInterfaces")), ({"skills": None}, ("skills",))):
            path.write_text(json.dumps(card), encoding="utf-8")
            error = self.error("card", "get", path, "--validate", status=1)
            self.assertEqual("A2ACLI_ERR_CARD_INVALID", error["code"])
            for name in named:
                self.assertIn(name, error["message"])
        self.assertEqual("A2ACLI_ERR_CARD_INVALID", self.error("send", path, "x", status=1)["code"])

    def test_send_001(self):
        """A2ACLI_SEND_001: a message starts an interaction, in either form of naming the agent."""
        for arguments in ((self.url, "echo hi"), ("-a", self.url, "echo hi")):
            value = self.json("send", *arguments)
            self.assertEqual("hi", a2a.text_of(value))
            self.assertEqual("COMPLETED", self.state(value["task"]))
        value = self.json("send", "echo hi", env={"A2ACLI_AGENT_CARD": self.url})
        self.assertEqual("hi", a2a.text_of(value))

    def test_send_002(self):
        """A2ACLI_SEND_002: send waits; --async and its other names give the identifiers at once."""
        self.assertEqual("COMPLETED", self.state(self.json("send", self.url, "work 1")["task"]))
        for flag in ("--async", "--return-immediately", "--no-wait"):
            task = self.json("send", self.url, "work 30", flag)["task"]
            self.assertIn(self.state(task), ("SUBMITTED", "WORKING"))
            self.cli("task", "cancel", self.url, task["id"])

    def test_send_003(self):
        """A2ACLI_SEND_003, SSE-16: --stream follows, or falls back, and never hangs."""
        events = self.lines("send", self.url, "chunks 3")
        self.assertIn("task", events[0])
        chunks = [e["artifactUpdate"] for e in events if "artifactUpdate" in e]
        self.assertEqual(3, len(chunks))
        self.assertEqual("COMPLETED", self.state(events[-1]["statusUpdate"]))
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "direct"}]}
        for streaming in (True, False):
            server = self.scripted(
                lambda method, _: [{"message": message}] if "Stream" in method else
                {"message": message},
                capabilities={"streaming": streaming},
            )  # fmt: skip
            self.assertEqual([{"message": message}], self.lines("send", server.url, "x"))
            self.assertIn("Text:\ndirect\n\n", self.cli("send", server.url, "x", "--stream").stdout)
            wanted = "SendStreamingMessage" if streaming else "SendMessage"
            self.assertEqual([wanted, wanted], [m for _, m, _ in server.requests if m != "card"])

    def test_send_004(self):
        """A2ACLI_SEND_004: text readable, data formatted, files by name, type and size."""
        text = self.cli("send", self.url, "parts").stdout
        self.assertIn("Text:\nGrüße 東京 😀\n\n", text)
        self.assertIn('Data:\n{\n  "answer": 42,', text)
        self.assertIn("File: dot.png (image/png, 8 bytes)\n", text)
        self.assertIn("File: report.pdf (application/pdf, at https://example.com/report.pdf)", text)

    def test_send_005(self):
        """A2ACLI_SEND_005: --media-type binds to the part before it; else the type is inferred."""
        folder = self.folder()
        (folder / "report.bin").write_bytes(b"x")
        (folder / "notes.md").write_bytes(b"x")
        (folder / "v.json").write_text("1", encoding="utf-8")
        parts = self.back(
            "--file", folder / "report.bin", "--media-type", "application/pdf",
            "--file", folder / "notes.md", "--data", folder / "v.json",
            "--data", folder / "v.json", "--media-type", "application/vnd.x+json",
        )  # fmt: skip
        kinds = [part.get("mediaType") for part in parts[1:]]
        self.assertEqual(
            ["application/pdf", "text/markdown", "application/json", "application/vnd.x+json"],
            kinds,
        )
        error = self.error("send", self.url, "x", "--media-type", "a/b", status=2)
        self.assertEqual("A2ACLI_ERR_USAGE", error["code"])

    def back(self, *parts, **options):
        """Send parts to an agent that gives them back."""
        return self.json("send", self.url, "--text", "back", *parts, **options)["task"][
            "artifacts"
        ][0]["parts"]

    def test_send_006(self):
        """A2ACLI_SEND_006: parts repeat and keep their order; - reads standard input; URLs stay."""
        path = self.folder() / "a.bin"
        path.write_bytes(b"\0\xff")
        parts = self.back(
            "--data", "-", "--text", "two", "--file", path, "--text", "three",
            "--file", "https://example.com/f.pdf", "--data", '{"k":[null]}', stdin="[1, 2]",
        )  # fmt: skip
        self.assertEqual(
            [
                {"text": "back"},
                {"data": [1, 2], "mediaType": "application/json"},
                {"text": "two"},
                {"raw": "AP8=", "filename": "a.bin", "mediaType": "application/octet-stream"},
                {"text": "three"},
                {"url": "https://example.com/f.pdf", "filename": "f.pdf",
                 "mediaType": "application/pdf"},
                {"data": {"k": [None]}, "mediaType": "application/json"},
            ],
            parts,
        )  # fmt: skip

    def test_task_get_001(self):
        """A2ACLI_TASK_GET_001: state, artifacts and history by identifier, nothing stripped."""
        sent = self.json("send", self.url, "parts")["task"]
        task = self.json("task", "get", self.url, sent["id"], "--history", "5")
        self.assertEqual(sent["artifacts"], task["artifacts"])
        self.assertEqual(["parts"], [a2a.text_of(message) for message in task["history"]])
        self.assertNotIn(
            "history", self.json("task", "get", self.url, sent["id"], "--history", "0")
        )
        text = self.cli("task", "get", "-a", self.url, sent["id"]).stdout
        self.assertIn(f"Task: {sent['id']}\nContext: {sent['contextId']}\nState: ", text)
        self.assertIn("File: dot.png (image/png, 8 bytes)\n", text)

    def test_task_cancel_001(self):
        """A2ACLI_TASK_CANCEL_001: cancels, again without harm, and reports the state."""
        task = self.json("send", self.url, "work 60", "--async")["task"]
        for _ in range(2):
            self.assertEqual(
                "CANCELED", self.state(self.json("task", "cancel", self.url, task["id"]))
            )
        text = self.cli("task", "cancel", self.url, task["id"]).stdout
        self.assertIn("State: TASK_STATE_CANCELED\n", text)
        done = self.json("send", self.url, "echo x")["task"]
        error = self.error("task", "cancel", self.url, done["id"], status=1)
        self.assertEqual("TaskNotCancelableError", error["code"])

    def test_task_list_001(self):
        """A2ACLI_TASK_LIST_001: pages by cursor, filters by state and context."""
        first = self.json("send", self.url, "echo 1")["task"]
        context = first["contextId"]
        for text in ("echo 2", "ask 3"):
            self.json("send", self.url, text, "--context-id", context)
        arguments = ("task", "list", self.url, "--context-id", context)
        page = self.json(*arguments, "--page-size", "2")
        self.assertEqual((2, 3), (len(page["tasks"]), page["totalSize"]))
        rest = self.json(*arguments, "--page-size", "2", "--page-token", page["nextPageToken"])
        self.assertEqual(1, len(rest["tasks"]))
        asked = self.json(*arguments, "--status", "input-required")["tasks"]
        self.assertEqual(["INPUT_REQUIRED"], [self.state(task) for task in asked])
        self.assertEqual(3, len(self.lines(*arguments)))
        text = self.cli(*arguments, "--page-size", "2").stdout
        self.assertRegex(text, r"Total: 3\nNext page: \S+\n")

    def test_task_subscribe_001(self):
        """A2ACLI_TASK_SUBSCRIBE_001: the rest of a task's stream, or its end as one document."""
        task = self.json("send", self.url, "work 2", "--async")["task"]
        events = self.lines("task", "subscribe", self.url, task["id"])
        self.assertEqual(task["id"], events[0]["task"]["id"])
        self.assertEqual("COMPLETED", self.state(events[-1]["statusUpdate"]))
        task = self.json("send", self.url, "work 1", "--async")["task"]
        done = self.json("task", "subscribe", self.url, task["id"])
        self.assertEqual(("COMPLETED", "done"), (self.state(done), a2a.text_of(done)))

    def test_task_subscribe_002(self):
        """A2ACLI_TASK_SUBSCRIBE_002: after a cut the stream goes on, the whole task first."""
        answers = {
            "SendStreamingMessage": [{"task": task("WORKING")}],  # and the stream is cut
            "GetTask": task("WORKING"),
            "SubscribeToTask": [{"task": task("WORKING")}, update("COMPLETED")],
        }
        server = self.scripted(lambda method, _: answers[method])
        events = self.lines("send", server.url, "x")
        methods = [method for _, method, _ in server.requests if method in answers]
        self.assertEqual("SendStreamingMessage", methods[0])
        self.assertIn("SubscribeToTask", methods)
        self.assertEqual("COMPLETED", self.state(events[-1]["statusUpdate"]))

    def test_download_001(self):
        """A2ACLI_DOWNLOAD_001: the artifacts of a task go into files, under safe names."""
        sent = self.json("send", self.url, "parts")["task"]
        folder = self.folder()
        done = self.cli("task", "download", self.url, sent["id"], "--to", folder)
        names = sorted(path.name for path in folder.iterdir())
        self.assertIn("dot.png", names)
        self.assertEqual(8, len((folder / "dot.png").read_bytes()))
        self.assertEqual(3, len(names), "the address is reported, not fetched")
        self.assertIn(f"Saved: {folder / 'dot.png'}", done.stdout)
        self.cli("task", "download", self.url, sent["id"], "--to", folder)
        self.assertEqual(6, len(list(folder.iterdir())), "nothing is written over")


class InteractTest(Compliance):
    def test_interact_001(self):
        """A2ACLI_INTERACT_001: --context-id starts a new task in the context."""
        first = self.json("send", self.url, "echo 1")["task"]
        second = self.json("send", self.url, "echo 2", "--context-id", first["contextId"])["task"]
        self.assertEqual(first["contextId"], second["contextId"])
        self.assertNotEqual(first["id"], second["id"])

    def test_interact_002(self):
        """A2ACLI_INTERACT_002: --task-id continues; a rejected one fails and makes no new task."""
        asked = self.json("send", self.url, "ask your name?")["task"]
        self.assertEqual("INPUT_REQUIRED", self.state(asked))
        other = self.json("send", self.url, "echo x")["task"]
        before = self.json("task", "list", self.url)["totalSize"]
        mismatch = ("--task-id", asked["id"], "--context-id", other["contextId"])
        for arguments, code in (
            (("--task-id", "made-up"), "TaskNotFoundError"),
            (("--task-id", other["id"]), "UnsupportedOperationError"),
            (mismatch, "InvalidParamsError"),
        ):
            error = self.error("send", self.url, "Ada", *arguments, status=1)
            self.assertEqual(code, error["code"])
            self.assertIn("--debug", error["hint"])
        self.assertEqual(before, self.json("task", "list", self.url)["totalSize"])
        done = self.json("send", self.url, "Ada", "--task-id", asked["id"])["task"]
        self.assertEqual((asked["id"], "COMPLETED"), (done["id"], self.state(done)))
        again = self.json("send", self.url, "ask again")["task"]
        both = ("--task-id", again["id"], "--context-id", again["contextId"])
        self.assertEqual("COMPLETED", self.state(self.json("send", self.url, "x", *both)["task"]))

    def test_interact_003(self):
        """A2ACLI_INTERACT_003: no identifier of the server is ever made up."""
        server = self.scripted(lambda *_: {"task": task("COMPLETED")}, capabilities={})
        self.json("send", server.url, "x")
        message = server.sent("SendMessage")[0]["message"]
        self.assertTrue(message["messageId"])
        self.assertNotIn("taskId", message)
        self.assertNotIn("contextId", message)

    def test_interact_004(self):
        """A2ACLI_INTERACT_004: identifiers and state are printed, and the command to go on."""
        asked = self.cli("send", self.url, "ask name?").stdout
        found = re.search(r"^Task: (\S+)\nContext: (\S+)\nState: (\S+)\n", asked)
        self.assertEqual("TASK_STATE_INPUT_REQUIRED", found[3])
        following = re.search(r"^Next: (.*)$", asked, re.M)[1]
        self.assertIn(f"send {self.url} --task-id {found[1]}", following)
        done = self.run_as_printed(following.replace("<reply>", "Ada"))
        self.assertIn("State: TASK_STATE_COMPLETED", done)
        following = re.search(r"^Next: (.*)$", done, re.M)[1]
        self.assertIn(f"--context-id {found[2]}", following)
        started = self.cli("send", self.url, "work 1", "--async").stdout
        done = self.run_as_printed(re.search(r"^Next: (.*)$", started, re.M)[1])
        self.assertIn("State: TASK_STATE_COMPLETED", done)

    def run_as_printed(self, command):
        shell = subprocess.run(
            command, shell=True, capture_output=True, encoding="utf-8",
            env=support.clean_environment(PATH=f"{os.path.dirname(sys.executable)}{os.pathsep}"
                                               + os.environ["PATH"]), timeout=60,
        )  # fmt: skip
        self.assertEqual(0, shell.returncode, shell.stderr)
        return shell.stdout

    def test_interact_005(self):
        """A2ACLI_INTERACT_005: nothing is stored, and there is no --continue."""
        home = self.folder()
        env = {"HOME": str(home), "USERPROFILE": str(home)}
        self.cli("send", self.url, "ask name?", env=env, cwd=home)
        self.assertEqual([], list(home.iterdir()))
        for flag in ("--continue", "--resume", "--last"):
            self.cli("send", self.url, "x", flag, status=2)


class PollTest(Compliance):
    def test_task_poll_001(self):
        """A2ACLI_TASK_POLL_001: task get is one look, with --wait it goes on to the end."""
        states = iter(["WORKING", "WORKING", "COMPLETED"])
        server = self.scripted(lambda *_: task(next(states, "COMPLETED")), capabilities={})
        look = self.json("task", "get", server.url, "t-1")
        self.assertEqual("WORKING", self.state(look))
        done = self.json("task", "get", server.url, "t-1", "--wait", "--poll-interval", "50ms")
        self.assertEqual("COMPLETED", self.state(done))
        self.assertEqual(
            "COMPLETED", self.state(self.json("task", "get", server.url, "t-1", "--watch"))
        )

    def test_task_poll_002(self):
        """A2ACLI_TASK_POLL_002, NET-02: --poll-interval and --timeout hold; no id is lost."""
        times = []

        def answer(method, params):
            times.append(time.monotonic())
            return {"task": task("WORKING")} if method == "SendMessage" else task("WORKING")

        server = self.scripted(answer, capabilities={})
        arguments = ("send", server.url, "x", "--poll-interval", "300ms", "--timeout", "1s")
        error = self.error(*arguments, status=5)
        self.assertEqual("A2ACLI_ERR_TIMEOUT", error["code"])
        self.assertIn(f"task get {server.url} t-1 --wait", error["hint"])
        self.assertTrue(3 <= len(times) <= 6, times)
        text = self.cli(*arguments, status=5)
        self.assertTrue(text.stdout.startswith("Task: t-1\nContext: c-1\n"), text.stdout)
        self.assertIn("task get", text.stderr)

    @unittest.skipIf(os.name == "nt", "no signals")
    def test_task_poll_002_interrupted(self):
        """CLI-04: Ctrl-C ends a wait at once, after saying how to go on; so does SIGTERM."""
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for form in ("text", "json"):
                with self.subTest(number=number, form=form):
                    command = [sys.executable, support.A2A, "send", self.url, "work 60", "-o", form]
                    with support.Process(command) as child:
                        if form == "text":
                            child.wait_for("Task: ")
                        else:
                            time.sleep(1.5)
                        child.popen.send_signal(number)
                        self.assertEqual(status, child.wait())
                        said = re.search(r"task get \S+ (\S+) --wait", child.stderr)
                        self.assertNotIn("Traceback", child.stderr)
                        self.cli("task", "cancel", self.url, said[1])

    def test_task_poll_003(self):
        """A2ACLI_TASK_POLL_003, SSE-22: interrupted states end the wait, UNSPECIFIED does not."""
        for wanted in ("INPUT_REQUIRED", "AUTH_REQUIRED"):
            states = iter(["UNSPECIFIED", "WORKING", wanted])
            server = self.scripted(lambda *_, s=states: task(next(s)), capabilities={})
            done = self.json("task", "get", server.url, "t-1", "--wait", "--poll-interval", "20ms")
            self.assertEqual(wanted, self.state(done))
        server = self.scripted(lambda *_: task("UNSPECIFIED"), capabilities={})
        wait = ("--wait", "--poll-interval", "50ms", "--timeout", "400ms")
        error = self.error("task", "get", server.url, "t-1", *wait, status=5)
        self.assertEqual("A2ACLI_ERR_TIMEOUT", error["code"])
        look = self.json("task", "get", server.url, "t-1")
        self.assertEqual("UNSPECIFIED", self.state(look))
        self.assertEqual("AUTH_REQUIRED", self.state(self.json("send", self.url, "auth 1")["task"]))

    def test_task_poll_004(self):
        """A2ACLI_TASK_POLL_004: a stream that fails is replaced by polling."""
        polls = iter(["WORKING", "COMPLETED"])

        def answer(method, params):
            if method == "SendStreamingMessage":
                return [{"task": task("WORKING")}]
            if method == "SubscribeToTask":
                return 503
            return task(next(polls, "COMPLETED"))

        server = self.scripted(answer)
        done = self.json("send", server.url, "x", "--poll-interval", "50ms")
        self.assertEqual("COMPLETED", self.state(done["task"]))


class OutputTest(Compliance):
    def test_out_001(self):
        """A2ACLI_OUT_001: task, context and state in every mode; diagnostics apart."""
        commands = [("send", self.url, "fail badly")]
        done = self.json(*commands[0])["task"]
        commands.append(("task", "get", self.url, done["id"]))
        for command in commands:
            text = self.cli(*command)
            for label in ("Task", "Context", "State"):
                self.assertEqual(1, len(re.findall(rf"(?m)^{label}: \S", text.stdout)), label)
            self.assertIn("Warning: the task ended as TASK_STATE_FAILED", text.stderr)
            self.assertNotIn("Warning", text.stdout)
            self.assertNotIn("Warning", self.cli(*command, "-o", "json").stdout)
        last = self.cli("send", self.url, "chunks 2", "--stream").stdout.split("Text:")[-1]
        for label in ("Task", "Context", "State"):
            self.assertRegex(last, rf"(?m)^{label}: \S")

    def test_out_002(self):
        """A2ACLI_OUT_002, CLI-02: -o json is one document, the last object and no event log."""
        value = self.json("send", self.url, "chunks 3")
        self.assertEqual(["task"], list(value))
        self.assertEqual("chunk 1\nchunk 2\nchunk 3\n", a2a.text_of(value))
        env = {"A2ACLI_STREAM": "true"}
        self.assertEqual(["task"], list(self.json("send", self.url, "chunks 3", env=env)))
        self.assertEqual(["message"], list(self.json("send", self.url, "message hi")))
        self.assertIn("id", self.json("task", "get", self.url, value["task"]["id"]))

    def test_out_003(self):
        """A2ACLI_OUT_003: --stream is JSONL as it happens, its end or the error last."""
        events = self.lines("send", self.url, "work 1")
        self.assertEqual("COMPLETED", self.state(events[-1]["statusUpdate"]))
        self.assertEqual(["message"], list(self.lines("send", self.url, "message hi")[-1]))
        for command in (("card", "get", self.url), ("task", "list", self.url, "--page-size", "1")):
            self.assertEqual(1, len(self.lines(*command)))
        halves = [{"task": task("WORKING")}, update("WORKING")]
        server = self.scripted(lambda method, _: halves if "Stream" in method else task("WORKING"))
        arguments = ("--timeout", "1s", "--poll-interval", "100ms")
        lines = self.lines("send", server.url, "x", *arguments, status=5)
        self.assertEqual("A2ACLI_ERR_TIMEOUT", lines[-1]["error"]["code"])
        self.assertEqual("t-1", lines[0]["task"]["id"])
        command = [
            sys.executable,
            support.A2A,
            "send",
            self.url,
            "work 60",
            "-o",
            "json",
            "--stream",
        ]
        with support.Process(command) as child:
            self.assertIn("second 2", child.wait_for("second 2"), "events come while it works")

    def test_out_004(self):
        """A2ACLI_OUT_004: one error, one code, whatever the transport; hints."""
        for name in (
            "TaskNotFoundError",
            "ContentTypeNotSupportedError",
            "UnsupportedOperationError",
        ):
            found = [
                self.error("send", self.url, "error " + name, "--transport", transport, status=1)
                for transport in ("JSONRPC", "HTTP+JSON", "GRPC")
            ]
            self.assertEqual(name, found[0]["code"])
            self.assertEqual([found[0]] * 3, found)
            self.assertTrue(found[0]["hint"])
        local = (
            (2, "USAGE", ("send", self.url)),
            (3, "UNREACHABLE", ("send", f"http://127.0.0.1:{support.free_port()}", "x")),
            (3, "CARD_NOT_FOUND", ("send", self.url + "/none.json", "x")),
            (3, "CARD_NOT_FOUND", ("card", "get", "./no-card.json")),
        )
        for status, code, command in local:
            with self.subTest(command=command):
                error = self.error(*command, status=status)
                self.assertEqual("A2ACLI_ERR_" + code, error["code"])

    def test_out_004_names(self):
        """A2ACLI_OUT_004: the CLI's own codes are those of appendix D and no others."""
        source = support.A2A.read_text(encoding="utf-8")
        known = [
            "USAGE",
            "CARD_NOT_FOUND",
            "CARD_INVALID",
            "UNREACHABLE",
            "CREDENTIALS_MISSING",
            "AUTH_FAILED",
            "TIMEOUT",
            "INTERNAL",
        ]
        self.assertEqual(set(known), set(re.findall(r"A2ACLI_ERR_([A-Z_]+)", source)))

    def test_out_005(self):
        """A2ACLI_OUT_005: fields and blocks, the same labels, no control sequences."""
        text = self.cli("send", self.url, "echo \x1b[31mred\x1b[0m\n\nState: forged").stdout
        self.assertNotIn("\x1b", text)
        block = text.split("Text:\n")[1].split("\n\n")[0]
        self.assertIn("State: forged", block)
        rest = text.replace(f"Text:\n{block}\n\n", "")
        for line in rest.rstrip("\n").split("\n"):
            self.assertRegex(line, r"^[A-Z][A-Za-z ]*: .")
        labels = [
            re.findall(r"(?m)^(\w+):", self.cli("send", self.url, "echo " + word).stdout)
            for word in ("a", "b")
        ]
        self.assertEqual(*labels)

    def test_out_006(self):
        """A2ACLI_OUT_006: --async gives the identifiers for later."""
        found = self.json("send", self.url, "work 1", "--async")["task"]
        self.assertTrue(found["id"] and found["contextId"])
        text = self.cli("send", self.url, "work 1", "--async").stdout
        self.assertRegex(text, r"^Task: \S+\nContext: \S+\nState: TASK_STATE_(SUBMITTED|WORKING)\n")
        later = self.json("task", "get", self.url, found["id"], "--wait")
        self.assertEqual("COMPLETED", self.state(later))

    def test_out_007(self):
        """A2ACLI_OUT_007: --debug shows the messages on the wire, on standard error."""
        done = self.cli("send", self.url, "echo seen-on-the-wire", "--debug", "-o", "json")
        self.assertEqual(["task"], list(json.loads(done.stdout)))
        self.assertIn("SendStreamingMessage", done.stderr)
        self.assertIn("seen-on-the-wire", done.stderr)
        self.assertIn("agent-card.json", done.stderr)

    def test_exit_001(self):
        """A2ACLI_EXIT_001, CLI-03: 0, 1 and 2, and 3, 4, 5 with their own meanings."""
        self.cli("send", self.url, "echo x", status=0)
        self.cli("task", "get", self.url, "no-such-task", status=1)
        self.cli("send", self.url, "--nonsense", status=2)
        self.cli("send", f"http://127.0.0.1:{support.free_port()}", "x", status=3)
        guarded = self.scripted(lambda *_: 401)
        self.cli("send", guarded.url, "x", status=4)
        self.cli("send", self.url, "work 30", "--timeout", "1s", status=5)

    def test_exit_002(self):
        """A2ACLI_EXIT_002, TASK-18: the agent's verdict is in the state, not in the status."""
        for text, state in (
            ("fail x", "FAILED"), ("reject x", "REJECTED"), ("ask x", "INPUT_REQUIRED"),
            ("auth 1", "AUTH_REQUIRED"),
        ):  # fmt: skip
            done = self.cli("send", self.url, text, "-o", "json")
            self.assertEqual(state, self.state(json.loads(done.stdout)["task"]))
            self.assertIn("Warning: ", done.stderr)
        self.assertEqual("", self.cli("send", self.url, "echo fine").stderr)


class AuthTest(Compliance):
    BEARER = {
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
    }
    KEY = {
        "securitySchemes": {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        "securityRequirements": [{"schemes": {"k": {"list": []}}}],
    }

    def answer(self, method, params):
        return {"task": task("COMPLETED")} if method == "SendMessage" else task("COMPLETED")

    def guarded(self, card):
        return self.scripted(self.answer, capabilities={}, **card)

    def test_auth_001(self):
        """A2ACLI_AUTH_001: credentials go where the card says; --svc-param is apart."""
        given = (
            (self.BEARER, ("--bearer", "tok-1"), "Authorization", "Bearer tok-1"),
            (self.KEY, ("--api-key", "key-1"), "X-Key", "key-1"),
            (self.KEY, ("--api-key", "key-1", "--svc-param", "X-Trace: 7"), "X-Trace", "7"),
        )
        for card, flags, name, value in given:
            server = self.guarded(card)
            self.json("send", server.url, "x", *flags)
            (headers,) = [headers for headers, method, _ in server.requests if method != "card"]
            self.assertEqual(value, {k.lower(): v for k, v in headers.items()}[name.lower()])
            for headers, method, _ in server.requests:
                if method == "card":
                    self.assertNotIn("Authorization", headers)
        server = self.guarded(self.BEARER)
        error = self.error("send", server.url, "x", status=4)
        self.assertEqual("A2ACLI_ERR_CREDENTIALS_MISSING", error["code"])
        self.assertIn("--bearer", error["hint"])
        self.assertEqual([], server.sent("SendMessage"))
        text = self.cli("send", "--help").stdout
        described = text.split("--svc-param")[1].split("--")[0]
        self.assertNotRegex(described, "(?i)auth|credential|token")

    def test_auth_002(self):
        """A2ACLI_AUTH_002: each credential has a variable; help tells of the exposure of flags."""
        for name, card, variable in (
            ("bearer", self.BEARER, "A2ACLI_BEARER"), ("bearer", self.BEARER, "A2A_TOKEN"),
            ("api-key", self.KEY, "A2ACLI_API_KEY"), ("api-key", self.KEY, "A2A_API_KEY"),
        ):  # fmt: skip
            server = self.guarded(card)
            self.json("send", server.url, "x", env={variable: "from-env"})
            self.json("send", server.url, "x", "--" + name, "from-flag", env={variable: "from-env"})
            sent = [str(headers) for headers, method, _ in server.requests if method != "card"]
            self.assertIn("from-env", sent[0])
            self.assertIn("from-flag", sent[1])
            self.assertNotIn("from-env", sent[1])
        text = " ".join(self.cli("help", "send").stdout.split())
        self.assertIn("process table", text)
        self.assertIn("shell's history", text)

    def test_auth_003(self):
        """A2ACLI_AUTH_003: --insecure is never silent."""
        server = self.guarded(self.BEARER)
        done = self.cli("send", server.url, "x", "--bearer", "tok-1", "--insecure")
        self.assertIn("Warning: certificates are not verified (--insecure)", done.stderr)
        done = self.cli("send", server.url, "x", "--bearer", "tok-1", env={"A2ACLI_INSECURE": "1"})
        self.assertIn("Warning: certificates are not verified", done.stderr)

    def test_auth_004(self):
        """A2ACLI_AUTH_004, AUTH-25: no credential in any output, --debug and --verbose included."""
        query = {"k": {"apiKeySecurityScheme": {"location": "query", "name": "k"}}}
        cookie = {"k": {"apiKeySecurityScheme": {"location": "cookie", "name": "sid"}}}
        for card, flags in (
            (self.BEARER, ("--bearer", "sesame-77")),
            (self.KEY, ("--api-key", "sesame-77")),
            ({**self.KEY, "securitySchemes": query}, ("--api-key", "sesame-77")),
            ({**self.KEY, "securitySchemes": cookie}, ("--api-key", "sesame-77")),
            ({}, ("--svc-param", "X-Pass:sesame-77")),
            ({}, ("--card-header", "X-Pass:sesame-77")),
            (self.BEARER, ("--bearer", "sesame-77\n")),
        ):
            for more in ((), ("-o", "json"), ("--transport", "x://none")):
                server = self.guarded(card)
                done = support.run_main(
                    "send", server.url, "x", *flags, *more, "--debug", "--verbose"
                )
                self.assertNotIn("sesame-77", done.stdout + done.stderr)
                self.assertIn("debug: ", done.stderr)

    def test_card_get_003(self):
        """A2ACLI_CARD_GET_003: the extended card, by a scheme that the public card has."""
        capable = {"capabilities": {"extendedAgentCard": True}}
        extended = {}
        server = self.scripted(lambda method, params: extended, **capable, **self.KEY)
        extended.update(server.card, name="Told to friends")
        card = self.json("card", "get", server.url, "--extended", "--api-key", "key-1")
        self.assertEqual("Told to friends", card["name"])
        (public, fetched) = [str(headers).lower() for headers, _, _ in server.requests]
        self.assertNotIn("key-1", public)
        self.assertIn("'x-key': 'key-1'", fetched)
        for flags in ((), ("--bearer", "tok-1"), ("--basic", "ann:pw")):
            error = self.error("card", "get", server.url, "--extended", *flags, status=4)
            self.assertEqual("A2ACLI_ERR_CREDENTIALS_MISSING", error["code"])
        self.assertEqual(1, len(server.sent("GetExtendedAgentCard")))

    def test_auth_008(self):
        """A2ACLI_AUTH_008: no credential goes to a card endpoint that has no scheme for it."""
        server = self.scripted(
            lambda method, params: a2a.UnauthenticatedError(),
            capabilities={"extendedAgentCard": True},
        )
        flags = ("--api-key", "key-1", "--bearer", "tok-1", "--basic", "ann:pw")
        done = self.cli("card", "get", server.url, "--extended", *flags, status=4)
        self.assertIn("none are sent", done.stderr)
        self.cli("card", "get", server.url, *flags)
        for headers, method, _ in server.requests:
            for secret in ("key-1", "tok-1", "Basic"):
                self.assertNotIn(secret, str(headers), method)


class TransportTest(Compliance):
    def test_tx_001(self):
        """A2ACLI_TX_001, TX_002: the card's order, unless --transport says otherwise."""
        rest, rpc = {"protocolBinding": "HTTP+JSON"}, {"protocolBinding": "JSONRPC"}
        for order, flags, used in (
            ((rpc, rest), (), "/rpc"), ((rest, rpc), (), "/rest"),
            ((rpc, rest), ("--transport", "HTTP+JSON"), "/rest"),
            ((rpc, rest), ("--transport", "x://none", "--transport", "rest"), "/rest"),
            ((rpc, rest), ("--transport", "x://none"), "/rpc"),
        ):  # fmt: skip
            card = self.json("card", "get", self.url)
            urls = {row["protocolBinding"]: row["url"] for row in card["supportedInterfaces"]}
            names = [row["protocolBinding"] for row in order]
            card["supportedInterfaces"] = [
                {"url": urls[name], "protocolBinding": name, "protocolVersion": "1.0"}
                for name in names
            ]
            path = self.folder() / "card.json"
            path.write_text(json.dumps(card), encoding="utf-8")
            done = self.cli("send", path, "echo x", "--debug", *flags)
            self.assertEqual(used == "/rest", "message:s" in done.stderr, (order, flags))

    def test_tx_002(self):
        """A2ACLI_TX_002: --transport is repeatable and ordered; what the card lacks is told."""
        done = self.cli(
            "send", self.url, "echo x", "--transport", "x://none", "--transport", "rest"
        )
        self.assertIn("Warning: ", done.stderr)

    def test_tx_003(self):
        """A2ACLI_TX_003: the chosen interface's tenant is in every request, or none is."""
        for tenant in ("acme/7 ü", ""):
            server = self.scripted(
                lambda method, _: {"task": task("COMPLETED")} if method == "SendMessage"
                else {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
                if method == "ListTasks" else task("COMPLETED"),
                capabilities={},
            )  # fmt: skip
            if tenant:
                server.card["supportedInterfaces"][0]["tenant"] = tenant
            self.json("send", server.url, "x")
            self.json("task", "get", server.url, "t-1")
            self.json("task", "cancel", server.url, "t-1")
            self.json("task", "list", server.url)
            calls = [params for _, method, params in server.requests if method != "card"]
            self.assertEqual(4, len(calls))
            for params in calls:
                self.assertEqual(tenant or None, params.get("tenant"))

    def test_tx_004(self):
        """A2ACLI_TX_004, A2ACLI_TX_005: three transports, gRPC too, with the same outcome."""
        values = [
            self.json("send", self.url, "echo same", "--transport", transport)
            for transport in ("JSONRPC", "HTTP+JSON", "GRPC")
        ]
        self.assertEqual({"same"}, set(map(a2a.text_of, values)))

    def test_ver_001(self):
        """A2ACLI_VER_001, VER-04: A2A-Version goes with every request; no step down."""
        server = self.scripted(lambda *_: {"task": task("COMPLETED")}, capabilities={})
        self.json("send", server.url, "x")
        self.json("send", server.url, "x", "--a2a-version", "1.0")
        for headers, method, _ in server.requests:
            if method != "card":
                self.assertEqual("1.0", headers.get("A2A-Version") or headers.get("a2a-version"))
        error = self.error("send", self.url, "x", "--a2a-version", "1.9", status=1)
        self.assertEqual("VersionNotSupportedError", error["code"])
        self.error("send", self.url, "x", "--a2a-version", "0.3", status=2)

    def test_ver_003(self):
        """A2ACLI_VER_003: a capability is looked up on the card before it is used."""
        server = self.scripted(lambda *_: task("COMPLETED"), capabilities={})
        events = self.lines("task", "subscribe", server.url, "t-1")
        self.assertEqual("COMPLETED", self.state(events[-1]["task"]))
        error = self.error("card", "get", server.url, "--extended", status=1)
        self.assertEqual("UnsupportedOperationError", error["code"])
        self.assertEqual({"card", "GetTask"}, {method for _, method, _ in server.requests})

    def test_ver_002(self):
        """A2ACLI_VER_002, EXT-01: --extension declares what is spoken; without it, the error."""
        uris = ["https://x.example/e", "https://x.example/f"]
        flags = [word for uri in uris for word in ("--extension", uri)]
        server = self.scripted(lambda *_: {"task": task("COMPLETED")}, capabilities={})
        self.cli("send", server.url, "x", *flags)
        for headers, method, _ in server.requests:
            if method != "card":
                said = {name.lower(): value for name, value in headers.items()}["a2a-extensions"]
                self.assertEqual(uris, re.split(" *, *", said))
        card = self.folder() / "card.json"
        needed = [{"uri": uri, "required": True} for uri in uris]
        card.write_text(json.dumps({"capabilities": {"extensions": needed}}), encoding="utf-8")
        with support.Served("--agent", "echo", "--card", str(card)) as agent:
            for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
                call = ("send", agent.url, "x", "--transport", binding)
                error = self.error(*call, *flags[:2], status=1)
                self.assertEqual("ExtensionSupportRequiredError", error["code"])
                self.assertEqual("COMPLETED", self.state(self.json(*call, *flags)["task"]))

    def test_ext_003(self):
        """EXT-03: a required extension that we do not know is warned of and never claimed."""
        needed = {"extensions": [{"uri": "https://x.example/e", "required": True}]}
        server = self.scripted(lambda *_: {"task": task("COMPLETED")}, capabilities=needed)
        done = self.cli("send", server.url, "x")
        self.assertIn("https://x.example/e", done.stderr)
        for headers, _, _ in server.requests:
            self.assertNotIn("a2a-extensions", {name.lower() for name in headers})


class DefaultTest(Compliance):
    """A2ACLI_DEFAULT_001, row by row: shipped, shown by help, and overridden by a flag."""

    def help(self):
        return " ".join(self.cli("send", "--help").stdout.split())

    def test_transport(self):
        """A2ACLI_DEFAULT_001 transport: the card's order, --transport overrides."""
        self.assertIn("before the card's own order", self.help())
        done = self.cli("send", self.url, "echo x", "--debug", "--transport", "HTTP+JSON")
        self.assertIn("message:s", done.stderr)
        self.assertNotIn("message:s", self.cli("send", self.url, "echo x", "--debug").stderr)

    def test_completion(self):
        """A2ACLI_DEFAULT_001 completion: wait, --async overrides, --wait overrides a setting."""
        self.assertIn("send does unless told otherwise", self.help())
        env = {"A2ACLI_ASYNC": "true"}
        found = self.json("send", self.url, "work 1", env=env)["task"]
        self.assertNotEqual("COMPLETED", self.state(found))
        found = self.json("send", self.url, "work 1", "--wait", env=env)["task"]
        self.assertEqual("COMPLETED", self.state(found))
        self.cli("send", self.url, "x", "--wait", "--async", status=2)

    def test_output(self):
        """A2ACLI_DEFAULT_001 output: text, --output overrides."""
        self.assertIn("the form of the answer (default: text)", self.help())
        self.assertTrue(self.cli("send", self.url, "echo x").stdout.startswith("Task: "))
        done = self.cli("send", self.url, "echo x", "-o", "text", env={"A2ACLI_OUTPUT": "json"})
        self.assertTrue(done.stdout.startswith("Task: "))

    def test_detail(self):
        """A2ACLI_DEFAULT_001 detail: concise, --verbose shows what was sent and received."""
        self.assertIn("show all that was sent and received (default: off)", self.help())
        brief = self.cli("send", self.url, "echo x").stdout
        full = self.cli("send", self.url, "echo x", "--verbose").stdout
        self.assertIn("Sent message: ", full)
        self.assertIn("Text:\necho x\n\n", full)
        self.assertNotIn("Sent message", brief)
        self.assertGreater(len(full), len(brief))

    def test_version(self):
        """A2ACLI_DEFAULT_001 version: 1.0, --a2a-version overrides."""
        self.assertIn("the protocol version to signal (default: 1.0)", self.help())

    def test_security(self):
        """A2ACLI_DEFAULT_001 security: certificates are verified unless --insecure."""
        self.assertIn("for development only (default: off)", self.help())


class ToolTest(Compliance):
    def test_config_001(self):
        """A2ACLI_CONFIG_001: the conventional path, shown by config show, never session state."""
        home = self.folder()
        folder = home / ".config" / "a2a-cli"
        folder.mkdir(parents=True)
        path = folder / ".env"
        path.write_text(f"A2ACLI_AGENT_CARD={self.url}\nA2ACLI_BEARER=tok-77\n", encoding="utf-8")
        path.chmod(0o644)
        env = {"HOME": str(home), "USERPROFILE": str(home)}
        done = self.cli("send", "echo x", env=env, cwd=home)
        self.assertIn("State: TASK_STATE_COMPLETED", done.stdout)
        if os.name == "posix":
            self.assertIn("others may read it", done.stderr)
        shown = self.cli("config", "show", env=env, cwd=home).stdout
        self.assertIn(f"agent-card: {self.url} (A2ACLI_AGENT_CARD, {path})", shown)
        self.assertIn("bearer: ***", shown)
        self.assertEqual([path], [p for p in home.rglob("*") if p.is_file()])

    def test_config_002(self):
        """A2ACLI_CONFIG_002: flag, environment, local, global, default; sources shown."""
        home = self.folder()
        folder = home / ".config" / "a2a-cli"
        folder.mkdir(parents=True)
        env = {"HOME": str(home), "USERPROFILE": str(home)}
        sources = []
        for step in ("default", "global", "local", "environment", "flag"):
            flags = ["--timeout", "5s"] if step == "flag" else []
            if step == "global":
                (folder / ".env").write_text("A2ACLI_TIMEOUT=2s\n", encoding="utf-8")
            if step == "local":
                (home / ".env").write_text("A2ACLI_TIMEOUT=3s\n", encoding="utf-8")
            if step in ("environment", "flag"):
                env["A2ACLI_TIMEOUT"] = "4s"
            rows = self.json("config", "show", *flags, env=env, cwd=home)["settings"]
            sources.append((rows["timeout"]["value"], rows["timeout"]["source"]))
        self.assertEqual([None, "2s", "3s", "4s", "5s"], [value for value, _ in sources])
        self.assertEqual("built-in default", sources[0][1])
        self.assertIn(str(folder / ".env"), sources[1][1])
        self.assertIn(str(home / ".env"), sources[2][1])
        self.assertIn("the environment", sources[3][1])
        self.assertEqual("flag --timeout", sources[4][1])

    def test_cli_001(self):
        """A2ACLI_CLI_001: help, COMMAND --help with the effective defaults, --version."""
        self.assertIn("Commands:", self.cli("help").stdout)
        for name in a2a.COMMANDS:
            self.assertIn("Usage: a2a.py", self.cli(*name.split(), "--help").stdout)
        self.assertIn(a2a.VERSION, self.cli("--version").stdout)
        self.assertIn("(default: 2s)", self.cli("send", "--help").stdout)
        env = {"A2ACLI_POLL_INTERVAL": "9s"}
        self.assertIn("now: 9s", self.cli("send", "--help", env=env).stdout)

    def test_cli_002(self):
        """A2ACLI_CLI_002: completion scripts for three shells."""
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("subscribe", self.cli("completion", shell).stdout)

    def test_demo_server_001(self):
        """A2ACLI_DEMO_SERVER_001: demo-server drives states, part kinds and errors."""
        text = a2a.text_of(self.json("send", self.url, "help"))
        for word in ("chunks", "ask", "auth", "fail", "reject", "error", "work", "parts"):
            self.assertIn(f"\n  {word} ", text)
        for fault in a2a.FAULTS.values():
            if fault.reason:
                error = self.error("send", self.url, "error " + fault.__name__, status=1)
                self.assertEqual(fault.__name__, error["code"])


class RegistryTest(unittest.TestCase):
    """The requirements of the registry, by tier, beside what the tests name and the README says."""

    TIERS = (
        """CARD_GET_001 SEND_001 SEND_002 SEND_003 SEND_004 SEND_005 SEND_006 TASK_GET_001
        TASK_CANCEL_001 INTERACT_001 INTERACT_002 INTERACT_003 INTERACT_004 INTERACT_005
        TASK_POLL_001 TASK_POLL_002 TASK_POLL_003 TASK_POLL_004 OUT_001 OUT_002 OUT_003 OUT_004
        OUT_005 OUT_006 EXIT_001 EXIT_002 AUTH_001 AUTH_002 AUTH_003 AUTH_004 TX_001 TX_002 TX_003
        VER_001 DEFAULT_001 CONFIG_001 CLI_001 SKILL_001 SKILL_002""",
        """CARD_GET_002 TASK_LIST_001 TASK_SUBSCRIBE_001 TASK_SUBSCRIBE_002 AUTH_005 AUTH_006
        AUTH_007 TX_004 VER_003 CONFIG_002 DOWNLOAD_001 OUT_007 CONFORM_001 CLI_002 PUSH_001""",
        """CARD_GET_003 AUTH_008 CARD_GET_004 CARD_GET_005 PUSH_002 CHAT_001 TX_005 AUTH_009
        AUTH_010 AUTH_011 DEMO_SERVER_001 VER_002""",
    )
    TO_COME = frozenset(["CONFORM_001", "PUSH_001", "CARD_GET_005", "PUSH_002", "CHAT_001"])

    def test_every_requirement_but_those_to_come_has_a_test(self):
        named = set()
        for path in pathlib.Path(__file__).parent.glob("test_*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    head = (ast.get_docstring(node) or "").partition("\n")[0]
                    named |= set(re.findall(r"A2ACLI_([A-Z_]+_\d{3})", head))
        self.assertEqual([39, 15, 12], [len(tier.split()) for tier in self.TIERS])
        self.assertEqual(set(" ".join(self.TIERS).split()) - self.TO_COME, named)

    def test_the_readme_tells_how_much_of_each_tier_there_is(self):
        readme = (support.ROOT / "README.md").read_text(encoding="utf-8")
        there = [(set(tier.split()) - self.TO_COME, tier.split()) for tier in self.TIERS]
        said = re.search(
            r"tier 1: (\d+) of (\d+), tier 2: (\d+) of (\d+), tier 3: (\d+) of (\d+)", readme
        )
        figures = [str(len(count)) for pair in there for count in pair]
        self.assertEqual(figures, list(said.groups()))


if __name__ == "__main__":
    unittest.main()
