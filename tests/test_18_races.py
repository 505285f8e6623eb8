"""Replies that come in the very moment when their turn ends: taken, or refused, but never lost.

Each case is run many times with other delays; whatever happens first, all sides tell the same.
"""

import contextlib
import os
import pathlib
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from test_18_files import DONE, FAILED, Answering, artifacts, said, until

RUNS = 24  # of each case, some at once


class RaceCase(Answering):
    def setUp(self):
        super().setUp()
        self.random = random.Random(1789)

    def serve(self, **server_options):
        limits = {"max_concurrent_tasks": 0, "tasks_a_minute": 0, "queue": 0}
        super().serve(**limits, **server_options)

    def many(self, case):
        """Run a case RUNS times, each with a text and a delay of its own; give what came of it."""
        found, failures = [], []

        def work(number):
            try:
                found.append(case(f"text {number}", delays[number]))
            except BaseException as error:
                failures.append(error)

        delays = [self.random.uniform(0, 0.08) for _ in range(RUNS)]
        for first in range(0, RUNS, 6):
            threads = [threading.Thread(target=work, args=(first + at,)) for at in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(support.DEADLINE_S * 2)
        if failures:
            raise failures[0]
        self.assertEqual(RUNS, len(found))
        return found

    def put(self, task, kind, text):
        """Reply as the command does; give whether that was accepted."""
        try:
            a2a.put_reply(self.folder, task, kind, text, {})
        except a2a.UsageError as error:
            self.assertRegex(str(error), "settled|caller|replied to|at turn")
            return False
        self.folder.ring(task["name"])
        return True

    def later(self, delay, *reply):
        """Reply after a delay; give the thread, and a list for whether it was accepted."""
        accepted = []
        thread = threading.Timer(delay, lambda: accepted.append(self.put(*reply)))
        thread.start()
        return thread, accepted

    def start(self, text):
        """Send a task; give it as the caller and as its folder sees it."""
        sent = self.client.send(text, wait=False)["task"]
        return sent, self.turn(taskId=sent["id"])

    def outcome(self, sent, *states):
        """Give the task once it is in one of some states, or has settled."""
        states = (*states, *a2a.TERMINAL_STATES)

        def look():
            task = self.client.get(sent["id"])
            return task["status"]["state"] in states and task

        return until(look, "an outcome")


class Races(RaceCase):
    def test_an_answer_while_a_question_is_collected(self):
        def case(text, delay):
            sent, task = self.start(text)
            self.assertTrue(self.put(task, "question", "Which?"))
            late, accepted = self.later(delay, task, "answer", text)
            seen = self.outcome(sent, a2a.INPUT_REQUIRED)
            asked = seen["status"]["state"] == a2a.INPUT_REQUIRED
            if asked:
                self.client.send("This.", task_id=sent["id"], wait=False)
                second = self.turn(2, taskId=sent["id"])
                late.join()
                self.assertTrue(self.put(second, "answer", "second"))
            late.join()
            seen = self.outcome(sent)
            self.assertEqual(DONE, seen["status"]["state"])
            self.assertEqual({"answer": {"text": "second" if asked else text}}, artifacts(seen))
            self.assertEqual([not asked], accepted, "accepted, and not seen")
            return asked

        self.assertEqual({True, False}, set(self.many(case)), "both happened")

    def test_an_answer_while_the_caller_says_more(self):
        """A task that waits for authorization may be answered, or get its next turn."""

        def case(text, delay):
            sent, task = self.start(text)
            self.assertTrue(self.put(task, "auth", "Which key?"))
            self.outcome(sent, a2a.AUTH_REQUIRED)
            late, accepted = self.later(delay / 8, task, "answer", text)
            try:
                self.client.send("The blue one.", task_id=sent["id"], wait=False)
            except a2a.UnsupportedOperationError:
                self.assertEqual(DONE, self.outcome(sent)["status"]["state"])
            late.join()
            if not accepted[0]:
                self.assertTrue(self.put(self.turn(2, taskId=sent["id"]), "answer", "second"))
            seen = self.outcome(sent)
            want = text if accepted[0] else "second"
            self.assertEqual({"answer": {"text": want}}, artifacts(seen))
            return accepted[0]

        self.assertEqual({True, False}, set(self.many(case)), "both happened")

    def test_an_answer_while_the_caller_cancels(self):
        def case(text, delay):
            sent, task = self.start(text)
            late, accepted = self.later(delay, task, "answer", text)
            time.sleep(0.07)
            with contextlib.suppress(a2a.TaskNotCancelableError):
                self.client.cancel(sent["id"])
            late.join()
            seen = self.outcome(sent)
            if not accepted[0]:
                self.assertEqual(a2a.CANCELED, seen["status"]["state"])
            elif seen["status"]["state"] == a2a.CANCELED:
                put_away = os.path.join(task["folder"], "turns", "1", "answer.md")
                until(lambda: os.path.exists(put_away), "a note")
            else:
                self.assertEqual({"answer": {"text": text}}, artifacts(seen))
            return seen["status"]["state"]

        self.assertEqual({a2a.CANCELED, DONE}, set(self.many(case)), "both happened")


class Ends(RaceCase):
    options = {"unattended_s": 0.5}

    def test_an_answer_while_the_turn_runs_out(self):
        def case(text, delay):
            sent, task = self.start(text)
            time.sleep(0.48 + delay * 8)
            accepted = self.put(task, "answer", text)
            seen = self.outcome(sent)
            if accepted:
                self.assertEqual({"answer": {"text": text}}, artifacts(seen))
            else:
                self.assertEqual(FAILED, seen["status"]["state"])
                self.assertIn("No session is listening", said(seen))
            return accepted

        self.assertEqual({True, False}, set(self.many(case)), "both happened")


class Stops(RaceCase):
    def test_an_answer_while_the_server_stops(self):
        """The next one has it, or this one gave it."""
        for _ in range(8):
            sent, task = self.start("work")
            delay = self.random.uniform(0, 0.06)
            late, accepted = self.later(delay, task, "answer", "done")
            time.sleep(0.03)
            self.server.stop()
            late.join()
            self.assertEqual([True], accepted)
            if os.path.exists(task["folder"]):
                self.serve()
                self.assertEqual({"answer": {"text": "done"}}, artifacts(self.outcome(sent)))
            else:
                known = a2a.read_whole(self.folder.at("done", task["name"], "task.json"))
                self.assertEqual(DONE, known["state"])
                self.serve()


del Answering, RaceCase

if __name__ == "__main__":
    unittest.main()
