"""A scripted session: what Claude does with the plugin, from the wake-up to the artifacts.

Real processes on both sides: serve --detach, watch, inbox and reply here, a client of the library
there. Only who thinks is missing.
"""

import os
import pathlib
import re
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support


class SessionTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.work = pathlib.Path(place.name).resolve()
        self.folder = a2a.Folder(str(self.work / ".a2a"))
        self.addCleanup(support.run_main, "stop", "--dir", self.folder.path)

    def cli(self, *arguments, status=0):
        done = support.run_main(*arguments, cwd=self.work)
        self.assertEqual(status, done.returncode, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def serve(self, *options, port=0):
        """Start the server of the session; give a client of it."""
        said = self.cli("serve", "--detach", "--port", port, *options)
        url = re.match(r"Ready: (\S+)", said)[1]
        client = a2a.Client(url, warn=self.fail)
        self.addCleanup(client.close)
        return client

    def watch(self):
        command = [sys.executable, support.A2A, "watch", "--dir", self.folder.path]
        watch = support.Process(command)
        self.addCleanup(watch.__exit__)
        return watch

    def woken(self, watch, turn=1, but=()):
        """Wait for the line of a task that was not told of before; give its name and its prompt."""
        line = ""
        for _ in range(200):
            found = re.findall(rf"(?m)^a2a task (\S+) turn {turn}: (.*)$", watch.stdout)
            new = [row for row in found if row[0] not in but]
            if new:
                return new[0][0], pathlib.Path(new[0][1])
            time.sleep(0.1)
        raise AssertionError(f"no new line: {line or watch.stdout}")

    def until(self, condition):
        """Wait for what the server does a moment after its caller knows."""
        for _ in range(200):
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError("it did not come")

    def test_tasks_come_in_and_artifacts_go_out_over_every_transport(self):
        client, watch, known = self.serve(), self.watch(), []
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            with self.subTest(binding=binding):
                caller = a2a.Client(client.card, transport=(binding,))
                self.addCleanup(caller.close)
                file = {"raw": "AAEC", "filename": "../../evil\u202e.bin"}
                started = caller.send([f"Do it by {binding}", file], wait=False)["task"]
                name, prompt = self.woken(watch, but=known)
                known.append(name)
                text = prompt.read_text(encoding="utf-8")
                self.assertIn(f"\nDo it by {binding}\n", text)
                (received,) = (prompt.parent / "inbox" / "1").iterdir()
                self.assertIn(str(received), text)
                self.assertEqual(b"\0\1\2", received.read_bytes())
                (prompt.parent / "outbox" / "notes.md").write_text("# Notes", encoding="utf-8")
                self.cli("reply", name, "--progress", "at it")
                self.cli("reply", name, "Done ✓", "--data", '{"k": [1]}')
                task = caller.wait(started["id"])
                self.assertEqual(a2a.COMPLETED, task["status"]["state"])
                parts = [artifact["parts"][0] for artifact in task["artifacts"]]
                self.assertEqual({"k": [1]}, parts[0]["data"])
                self.assertEqual("Done ✓", parts[-1]["text"])
                self.assertEqual(
                    ["data", "notes", "answer"], [a["name"] for a in task["artifacts"]]
                )
        self.assertEqual(3, len(watch.stdout.splitlines()), "one line a turn")
        self.until(lambda: not self.folder.tasks())
        self.assertEqual("Total: 0\n", self.cli("inbox"))

    def test_a_question_is_the_next_turn_of_the_same_folder(self):
        client, watch = self.serve(), self.watch()
        started = client.send("Paint it", wait=False)["task"]
        name, _ = self.woken(watch)
        self.cli("reply", name, "--ask", "Which colour?")
        asked = client.wait(started["id"])
        self.assertEqual(a2a.INPUT_REQUIRED, asked["status"]["state"])
        self.assertEqual("Which colour?", a2a.text_of(asked["status"]))
        self.until(lambda: self.folder.tasks()[0]["stage"] == "asked")
        self.cli("reply", name, "Blue then", status=2)
        client.send("Green", task_id=started["id"], wait=False)
        again, prompt = self.woken(watch, turn=2)
        self.assertEqual(name, again)
        self.assertIn("Green", prompt.read_text(encoding="utf-8"))
        self.cli("reply", started["id"], "It is green")
        task = client.wait(started["id"])
        self.assertEqual("It is green", a2a.text_of(task))

    def test_a_cancelled_task_is_told_and_takes_no_reply(self):
        client, watch = self.serve(), self.watch()
        started = client.send("Never mind", wait=False)["task"]
        name, prompt = self.woken(watch)
        client.cancel(started["id"])
        self.until((prompt.parent / "cancelled.md").exists)
        self.cli("reply", name, "Too late", status=2)
        self.assertEqual(a2a.CANCELED, client.get(started["id"])["status"]["state"])

    def test_a_task_that_nobody_takes_up_fails(self):
        client = self.serve("--unattended-after", "500ms")
        task = client.send("Anybody?")["task"]
        self.assertEqual(a2a.FAILED, task["status"]["state"])
        self.assertIn("No session is listening", a2a.text_of(task["status"]))

    def test_an_open_task_outlives_its_server(self):
        client, watch = self.serve(), self.watch()
        started = client.send("Take your time", wait=False)["task"]
        name, _ = self.woken(watch)
        self.cli("stop")
        self.assertIn("Open tasks: 1\n", self.cli("status"))
        self.cli("reply", name, "While you were away")
        again = self.serve(port=a2a.read_url(client.interface.url).port)
        task = again.wait(started["id"])
        self.assertEqual("While you were away", a2a.text_of(task))

    def test_twenty_tasks_at_once_go_through_the_queue(self):
        client = self.serve()
        done = []

        def call(number):
            with a2a.Client(client.card) as caller:
                done.append(a2a.text_of(caller.send(f"task {number}")))

        callers = [threading.Thread(target=call, args=(number,)) for number in range(20)]
        for caller in callers:
            caller.start()
        until = time.monotonic() + 3 * support.DEADLINE_S
        most, answered = 0, set()
        while any(caller.is_alive() for caller in callers) and time.monotonic() < until:
            tasks = [t for t in self.folder.tasks() if t["stage"] in ("waiting", "picked")]
            most = max(most, len(tasks))
            for task in (task for task in tasks if task["name"] not in answered):
                answered.add(task["name"])
                text = pathlib.Path(task["folder"], "prompt.md").read_text(encoding="utf-8")
                number = re.search(r"(?m)^task (\d+)$", text)[1]
                support.run_main("reply", task["name"], f"answer {number}", cwd=self.work)
            time.sleep(0.05)
        self.assertEqual(sorted(f"answer {number}" for number in range(20)), sorted(done))
        self.assertLessEqual(most, a2a.COMMAND_TASKS)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "no such files here")
    def test_what_is_no_plain_file_does_not_go_out(self):
        client, watch, known = self.serve(), self.watch(), []
        secret = self.work / "secret.txt"
        secret.write_text("secret-77", encoding="utf-8")
        for make in (
            lambda path: path.symlink_to(secret),
            lambda path: os.link(secret, path),
            lambda path: os.mkfifo(path),
            lambda path: path.mkdir(),
        ):
            started = client.send("Give", wait=False)["task"]
            name, prompt = self.woken(watch, but=known)
            known.append(name)
            make(prompt.parent / "outbox" / "x.txt")
            self.cli("reply", name, "here")
            task = client.wait(started["id"])
            self.assertEqual(a2a.FAILED, task["status"]["state"])
            self.assertIn("x.txt", a2a.text_of(task["status"]))
            self.assertNotIn("secret-77", str(task))


if __name__ == "__main__":
    unittest.main()
