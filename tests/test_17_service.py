"""Chapter 17: over a file, which lets it wait, the service does what it does in memory."""

import asyncio
import contextlib
import os
import pathlib
import shutil
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import test_19_service as service
from test_19_service import read

import a2a


class InFile:
    """A ServiceTest whose stores in memory are stores in a file of the same bounds."""

    def serve(self, agent, store=None, *more, **limits):
        if store is None or type(store) is a2a.MemoryStore:
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            bound = {"limit_bytes": store.limit_bytes} if store else {}
            self.path = os.path.join(folder.name, "a2a.db")
            store = a2a.SqliteStore(self.path, **bound)
            self.addCleanup(store.close)
        return super().serve(agent, store, *more, **limits)


NAMES = (
    "Sending", "Hidden", "Waiting", "Conversations", "Subscribing", "Cancelling", "Failing",
    "Owners", "Limits", "Stopping",
)  # fmt: skip
for name in NAMES:
    globals()[name + "InFile"] = type(name + "InFile", (InFile, getattr(service, name)), {})


class Leaving(InFile, service.ServiceTest):
    """Callers that go away while the store lets them wait."""

    async def leave(self, calling, turns):
        """Go away from a call after so many turns of the loop."""
        calling = asyncio.ensure_future(calling)
        for _ in range(turns):
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait([calling])

    async def until_all(self, *states):
        """Wait until the tasks, newest first, have these states; give them."""
        for _ in range(500):
            tasks = (await self.call("ListTasks"))["tasks"]
            if [task["status"]["state"] for task in tasks] == list(states):
                return tasks
            await asyncio.sleep(0.01)
        raise AssertionError(tasks)

    async def test_a_caller_that_leaves_ends_nothing_but_its_own_waiting(self):
        async def agent(turn):
            return turn.text

        class AtOnce(a2a.FunctionAgent):
            defaults = a2a.Defaults(at_once=True)

        for served in ("echo", agent, AtOnce(agent)):
            self.serve(served, max_concurrent_tasks=1)
            for turns in (1, 2, 3, 4):
                await self.leave(self.send(f"{turns}"), turns)
                await self.leave(self.stream(f"{turns}"), turns)
            await self.until_all(*[a2a.COMPLETED] * 8)
            self.assertEqual(a2a.text_of((await self.send("on"))["task"]["artifacts"][0]), "on")
            runner = self.service.runner
            self.assertEqual((runner.lives, runner.places.running), ({}, 0))

    async def test_who_leaves_after_an_answer_has_given_it(self):
        async def agent(turn):
            return turn.ask("which?") if turn.number == 1 else turn.text

        self.serve(agent)
        task_id = (await self.send())["task"]["id"]
        await self.leave(self.send("blue", taskId=task_id), 1)
        (task,) = await self.until_all(a2a.COMPLETED)
        self.assertEqual([m["parts"][0]["text"] for m in task["history"]], ["hi", "which?", "blue"])

    async def test_who_leaves_after_cancelling_has_cancelled(self):
        async def agent(turn):
            await asyncio.sleep(60)

        self.serve(agent)
        task = await self.send_now()
        await self.leave(self.call("CancelTask", {"id": task["id"]}), 1)
        await self.until_all(a2a.CANCELED)
        self.assertEqual(self.service.runner.lives, {})

    async def test_a_question_is_answered_once(self):
        """The second answer comes while the first one is on its way into the file."""

        async def agent(turn):
            return turn.ask("which?") if turn.number == 1 else turn.text

        self.serve(agent)
        task_id = (await self.send())["task"]["id"]
        answers = [self.send(text, taskId=task_id) for text in ("red", "blue")]
        first, second = await asyncio.gather(*answers, return_exceptions=True)
        self.assertEqual(a2a.text_of(first["task"]["artifacts"][0]), "red")
        self.assertIsInstance(second, a2a.UnsupportedOperationError)
        self.assertEqual(len(first["task"]["history"]), 3)

    async def test_nothing_is_shown_before_it_is_kept(self):
        """TASK-14: whoever looks meanwhile sees what the next server would."""

        async def agent(turn):
            turn.status("busy")
            await asyncio.sleep(0.3)
            return "done"

        self.serve(agent)
        task = await self.send_now()
        seen = set()
        while "TASK_STATE_COMPLETED" not in seen:
            shown = (await self.get(task["id"]))["status"]["state"]
            if shown not in seen and shown == a2a.COMPLETED:
                with contextlib.closing(sqlite3.connect(f"file:{self.copy()}", uri=True)) as db:
                    self.assertEqual(db.execute("SELECT state FROM task").fetchall(), [(shown,)])
            seen.add(shown)
            await asyncio.sleep(0)

    def copy(self):
        """Give the path of a copy of the file as a kill would leave it."""
        for ending in ("", "-wal"):
            shutil.copy(self.path + ending, self.path + "-copy" + ending)
        return self.path + "-copy"

    async def test_a_file_that_takes_nothing(self):
        """The caller is told, and so is who streams; once it takes something again, all is well."""

        async def agent(turn):
            turn.status("busy")
            return turn.text

        self.serve(agent)
        db = self.store._file.db
        await self.send()
        db.execute("PRAGMA max_page_count = 1")
        big = "x" * 100_000
        await self.refused(a2a.InternalError, self.send(big), "full")
        with self.assertRaises(a2a.InternalError):
            await read(await self.stream(big))
        runner = self.service.runner
        self.assertEqual((runner.lives, runner.places.running), ({}, 0))
        db.execute("PRAGMA max_page_count = 1000000")
        self.assertEqual((await self.send("small"))["task"]["status"]["state"], a2a.COMPLETED)
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 2)


if __name__ == "__main__":
    unittest.main()
