"""The files agent: real servers, real folders, replies as a session writes them."""

import json
import os
import pathlib
import sys
import tempfile
import textwrap
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

DONE, FAILED, ASKED = a2a.COMPLETED, a2a.FAILED, a2a.INPUT_REQUIRED


def until(condition, what="it"):
    """Wait until a condition gives something true; give that."""
    end = time.monotonic() + support.DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen")


class Answering(unittest.TestCase):
    """A server with the files agent, a client, and whoever answers."""

    options = {}

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = a2a.Folder(os.path.join(place.name, ".a2a"))
        self.serve()

    def serve(self, **server_options):
        """Serve the folder until the test ends, or stop()."""
        options = a2a.FolderOptions(self.folder.path, **self.options)
        self.server = a2a.Server("files", port=0, folder=options, **server_options).start()
        self.addCleanup(self.server.stop)
        self.client = a2a.Client(self.server.url)
        self.addCleanup(self.client.close)

    def send(self, what="hello", **fields):
        """Send from a thread; give a function that waits for the task."""
        found = []

        def work():
            try:
                found.append(self.client.send(what, **fields)["task"])
            except a2a.A2AError as error:
                found.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()

        def result():
            thread.join(support.DEADLINE_S)
            self.assertTrue(found, "no answer")
            return found[0]

        return result

    def turn(self, number=1, **facts):
        """Wait for a turn that is laid out; give what task.json says, and its name and folder."""

        def find():
            return [
                task
                for task in self.folder.tasks()
                if task["turn"] == number
                and task["state"] == a2a.WORKING
                and facts.items() <= task.items()
            ]

        return until(find, f"turn {number}")[0]

    def reply(self, task, kind, text, ring=True):
        a2a.write_whole(os.path.join(task["folder"], kind + ".md"), text)
        if ring:
            self.folder.ring(task["name"])

    def put(self, task, name, data):
        path = os.path.join(task["outbox"], name)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def settled(self, task):
        """Wait until a task's folder is put away; give the task.json that stays."""
        path = pathlib.Path(self.folder.at("done", task["name"]))
        until(lambda: (path / "task.json").exists() and not os.path.exists(task["folder"]))
        self.assertEqual(["task.json"], os.listdir(path))
        return json.loads((path / "task.json").read_text())


def said(task):
    """Give the text of a task's status."""
    return a2a.text_of(task["status"].get("message", {"parts": []}))


def artifacts(task):
    """Give the one part of each artifact, by the artifact's name, in their order."""
    return {artifact["name"]: artifact["parts"][0] for artifact in task.get("artifacts", ())}


class Replies(Answering):
    def test_an_answer_completes_the_task(self):
        result = self.send()
        task = self.turn()
        self.assertEqual("waiting", task["stage"])
        self.reply(task, "answer", "Good day\n")
        answered = result()
        self.assertEqual(DONE, answered["status"]["state"])
        self.assertEqual({"answer": {"text": "Good day"}}, artifacts(answered))
        kept = self.settled(task)
        self.assertEqual((answered["id"], DONE), (kept["taskId"], kept["state"]))

    def test_a_file_counts_once_it_is_still(self):
        result = self.send()
        task = self.turn()
        with open(os.path.join(task["folder"], "answer.md"), "w") as file:
            for word in ("It ", "takes ", "its ", "time."):
                file.write(word)
                file.flush()
                time.sleep(a2a.SCAN_S / 2)
        self.assertEqual({"answer": {"text": "It takes its time."}}, artifacts(result()))

    def test_files_of_the_outbox_become_artifacts_in_the_order_of_their_names(self):
        result = self.send()
        task = self.turn()
        self.put(task, "b.json", '{"x": 1}')
        self.put(task, "a.csv", "1,2\n")
        self.put(task, "c.json", "[1]")
        self.put(task, "d.png", b"\x89PNG")
        self.put(task, "d.txt", b"\xff is no text")
        self.put(task, "no ending", "z")
        self.put(task, ".hidden", "left behind by an editor")
        self.reply(task, "answer", "See the files.")
        answered = result()
        json_part = {"filename": "c.json", "mediaType": "application/json"}
        self.assertEqual(
            [
                ("a", {"text": "1,2\n", "filename": "a.csv", "mediaType": "text/csv"}),
                ("b", {**json_part, "data": {"x": 1}, "filename": "b.json"}),
                ("c", {**json_part, "raw": "WzFd"}),
                ("d", {"raw": "iVBORw==", "filename": "d.png", "mediaType": "image/png"}),
                ("d", {"raw": "/yBpcyBubyB0ZXh0", "filename": "d.txt", "mediaType": "text/plain"}),
                ("no ending", {"raw": "eg==", "filename": "no ending",
                               "mediaType": "application/octet-stream"}),
                ("answer", {"text": "See the files."}),
            ],
            [(artifact["name"], artifact["parts"][0]) for artifact in answered["artifacts"]],
        )  # fmt: skip
        ids = [artifact["artifactId"] for artifact in answered["artifacts"]]
        self.assertEqual(len(ids), len(set(ids)))
        offered = self.client.card["defaultOutputModes"]
        for artifact in answered["artifacts"]:
            self.assertIn(artifact["parts"][0].get("mediaType", "text/plain"), offered)

    def test_failure_and_rejection(self):
        for kind, state in (("failed", FAILED), ("rejected", a2a.REJECTED)):
            with self.subTest(kind=kind):
                result = self.send()
                task = self.turn()
                self.reply(task, kind, "Because of the weather")
                ended = result()
                self.assertEqual(state, ended["status"]["state"])
                self.assertEqual("Because of the weather", said(ended))
                self.assertEqual(state, self.settled(task)["state"])

    def test_a_question_and_its_answer_are_two_turns_in_one_folder(self):
        result = self.send("Paint it")
        task = self.turn()
        self.reply(task, "question", "Which colour?")
        asked = result()
        self.assertEqual((ASKED, "Which colour?"), (asked["status"]["state"], said(asked)))
        until(lambda: [found["stage"] for found in self.folder.tasks()] == ["asked"])
        result = self.send("Blue", task_id=asked["id"])
        second = self.turn(2)
        self.assertEqual(task["folder"], second["folder"])
        self.assertIn("Blue", pathlib.Path(second["prompt"]).read_text())
        earlier = pathlib.Path(second["folder"], "turns", "1")
        self.assertEqual({"prompt.md", "question.md"}, set(os.listdir(earlier)))
        self.reply(second, "answer", "Blue it is")
        self.assertEqual({"answer": {"text": "Blue it is"}}, artifacts(result()))

    def test_progress_is_seen_at_once_by_who_streams(self):
        events = self.client.stream("work")
        self.assertIn("task", next(events))
        task = self.turn()
        said = []
        for text in ("a third", "two thirds"):
            self.reply(task, "progress", text)
            for event in events:
                message = event["statusUpdate"]["status"].get("message")
                if message:
                    said.append(message["parts"][0]["text"])
                    break
        self.assertEqual(["a third", "two thirds"], said)
        (picked,) = self.folder.tasks()
        self.assertEqual("picked", picked["stage"])
        self.reply(task, "answer", "all")
        states = [e["statusUpdate"]["status"]["state"] for e in events if "statusUpdate" in e]
        self.assertEqual([DONE], states)


class Cancelling(Answering):
    def test_a_cancelled_task_says_so_in_its_folder_and_its_reply_is_ignored(self):
        result = self.send()
        task = self.turn()
        self.folder.pick(task)
        self.assertEqual(a2a.CANCELED, self.client.cancel(task["taskId"])["status"]["state"])
        note = pathlib.Path(task["folder"], "cancelled.md")
        until(note.exists, "cancelled.md")
        self.assertEqual(["settled"], [found["stage"] for found in self.folder.tasks()])
        self.assertEqual(a2a.CANCELED, result()["status"]["state"])
        self.reply(task, "answer", "too late", ring=False)
        until(lambda: "answer.md came after that and was ignored" in note.read_text(), "the note")
        self.assertEqual(a2a.CANCELED, self.client.get(task["taskId"])["status"]["state"])

    def test_a_question_can_be_cancelled_too(self):
        result = self.send()
        task = self.turn()
        self.reply(task, "question", "Why?")
        result()
        self.client.cancel(task["taskId"])
        until(pathlib.Path(task["folder"], "cancelled.md").exists, "cancelled.md")


class Restarting(Answering):
    def test_an_open_task_is_taken_up_again(self):
        self.client.send("Count to ten", wait=False)
        task = self.turn()
        self.server.stop()
        self.assertEqual(["waiting"], [found["stage"] for found in self.folder.tasks()])
        self.serve()
        again = self.client.get(task["taskId"])
        self.assertEqual(a2a.WORKING, again["status"]["state"])
        self.assertEqual("Count to ten", again["history"][0]["parts"][0]["text"])
        self.reply(task, "answer", "ten")
        self.assertEqual({"answer": {"text": "ten"}}, artifacts(self.client.wait(task["taskId"])))

    def test_a_question_outlives_the_server(self):
        result = self.send("Paint it")
        task = self.turn()
        self.reply(task, "question", "Which colour?")
        result()
        self.server.stop()
        self.serve()
        asked = self.client.get(task["taskId"])
        self.assertEqual((ASKED, "Which colour?"), (asked["status"]["state"], said(asked)))
        result = self.send("Blue", task_id=task["taskId"])
        self.reply(self.turn(2), "answer", "Done")
        answered = result()
        self.assertEqual({"answer": {"text": "Done"}}, artifacts(answered))
        texts = [message["parts"][0]["text"] for message in answered["history"]]
        self.assertEqual(["Paint it", "Which colour?", "Blue"], texts)


class Commands(unittest.TestCase):
    """exec: agents, with an inbox and an outbox."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def client(self, script, folder=True, **options):
        """Serve a command that is a Python script; give a client."""
        path = self.place / "command.py"
        path.write_text("import os, sys, time\nE = os.environ\n" + textwrap.dedent(script))
        files = a2a.FolderOptions(str(self.place / ".a2a")) if folder else None
        command = f'exec:"{sys.executable}" "{path}"'
        agent = a2a.load_agent(command, folder=files, **options)
        server = a2a.Server(agent, port=0).start()
        self.addCleanup(server.stop)
        client = a2a.Client(server.url)
        self.addCleanup(client.close)
        return client

    def test_inbox_and_outbox(self):
        for folder in (True, False):
            client = self.client(
                """
                files = sorted(os.listdir(E["A2A_INBOX"]))
                for name in files:
                    with open(os.path.join(E["A2A_INBOX"], name), "rb") as file:
                        data = file.read()
                    with open(os.path.join(E["A2A_OUTBOX"], name + ".txt"), "wb") as file:
                        file.write(data)
                print(sys.stdin.read(), files, E["A2A_TASK_ID"] in ("", None))
                """,
                folder,
            )
            with self.subTest(folder=folder):
                parts = ["a" * 100_000, {"raw": "Ynl0ZXM=", "filename": "../b?"}, "text"]
                task = client.send(parts)["task"]
                found = artifacts(task)
                said = "a" * 100_000 + "\ntext ['part-2-b_'] False"
                self.assertEqual({"answer": {"text": said}}, {"answer": found.pop("answer")})
                self.assertEqual(
                    {
                        "part-2-b_": {
                            "text": "bytes",
                            "filename": "part-2-b_.txt",
                            "mediaType": "text/plain",
                        }
                    },
                    found,
                )
        self.assertEqual([], os.listdir(self.place / ".a2a" / "tasks"))

    def test_a_framed_command_reads_the_prompt(self):
        client = self.client("print(sys.stdin.read())", framed=True)
        text = a2a.text_of(client.send(["do this", {"raw": "eA=="}])["task"])
        self.assertRegex(text, r"(?s)^# A2A task: turn 1\n.*begins ---\n.*do this\n.*Print the")
        self.assertRegex(text, r"1 bytes, in .*/inbox/1/part-2\.bin ---")

    def test_a_link_in_the_outbox_fails_the_task(self):
        client = self.client("os.symlink(__file__, os.path.join(E['A2A_OUTBOX'], 'x'))")
        task = client.send("go")["task"]
        self.assertEqual(FAILED, task["status"]["state"])
        self.assertIn("x in the outbox is a link", said(task))
        self.assertEqual([], [a["name"] for a in task.get("artifacts", ())])

    def test_a_question_leaves_the_outbox(self):
        client = self.client(
            """
            if sys.stdin.read() == "begin":
                open(os.path.join(E["A2A_OUTBOX"], "early.txt"), "w").close()
                print("[INPUT_REQUIRED] and then?")
            else:
                print(os.listdir(E["A2A_OUTBOX"]), os.path.basename(E["A2A_INBOX"]))
            """
        )
        task = client.send("begin")["task"]
        self.assertEqual((ASKED, "and then?"), (task["status"]["state"], said(task)))
        task = client.send("go on", task_id=task["id"])["task"]
        self.assertEqual({"answer": {"text": "[] 2"}}, artifacts(task))

    def test_a_cancelled_command_leaves_no_files(self):
        client = self.client("time.sleep(60)")
        task = client.send("x", wait=False)["task"]
        place = self.place / ".a2a" / "tasks"
        until(lambda: place.exists() and os.listdir(place), "the turn's folder")
        client.cancel(task["id"])
        until(lambda: not os.listdir(place), "the end of the folder")


if __name__ == "__main__":
    unittest.main()
