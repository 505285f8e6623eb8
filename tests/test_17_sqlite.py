"""Chapter 17: what outlives a server in its file, and files that are no good."""

import asyncio
import contextlib
import json
import os
import pathlib
import sqlite3
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
import test_17_stores as stores
from test_17_stores import ANNA, BERT, chunk, made, numbers, status, task_id

import a2a

ODD = "a\"b'c;--\0\ud83d\N{SNOWMAN}"  # quotes, NUL, half a surrogate pair


class Again(stores.FileTest):
    """A store that is opened again and again."""

    def again(self, **limits):
        self.store.close()
        self.store = a2a.SqliteStore(self.path, **limits)

    def row(self, text, *values):
        """Give a row of the file, which must be closed."""
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            return db.execute(text, values).fetchone()


class Restarting(Again):
    def test_everything_is_as_it_was(self):
        """TASK-14: owners, contexts, history, artifacts, order, counts, page tokens."""
        self.fill(5)
        for number in range(10, 15):
            self.do(self.store.create(BERT, made(number, a2a.COMPLETED, context="d")))
        self.do(self.store.apply(ANNA, task_id(1), chunk(1, "one")))
        self.do(self.store.apply(ANNA, task_id(1), chunk(1, " two", append=True)))
        self.do(self.store.apply(ANNA, task_id(2), status(2, a2a.INPUT_REQUIRED, 20)))
        self.do(self.store.apply(ANNA, task_id(2), {"message": stores.message("more")}))
        self.do(self.store.apply(ANNA, task_id(2), status(2, a2a.WORKING, 21)))
        asked = {"message": stores.message("which?")}
        self.do(self.store.apply(ANNA, task_id(3), status(3, a2a.INPUT_REQUIRED, 22, **asked)))
        self.do(self.store.apply(ANNA, task_id(0), status(0, a2a.FAILED, 23)))

        def seen():
            found = [self.list(o, includeArtifacts=True) for o in (ANNA, BERT)]
            found += [self.list(BERT, contextId="d"), self.list(status=a2a.FAILED)]
            return [*found, self.list(pageSize=2), self.list(pageSize=2, pageToken=token)]

        token = self.list(pageSize=2)["nextPageToken"]
        before = json.loads(json.dumps(seen()))
        self.assertEqual(numbers(before[0]), [0, 3, 2, 4, 1])
        self.assertEqual(before[0]["tasks"][4]["artifacts"][0]["parts"], [{"text": "one two"}])
        for _ in range(2):
            self.again()
            self.assertEqual(json.loads(json.dumps(seen())), before)
        self.assertEqual({name[1] for name in self.store.left()}, set(map(task_id, (1, 2, 3, 4))))
        self.do(self.store.create(ANNA, made(6)))
        self.do(self.store.apply(ANNA, task_id(4), status(4, a2a.COMPLETED, 24)))
        self.assertEqual(numbers(self.list()), [4, 6, 0, 3, 2, 1])

    def test_bounds_hold_on(self):
        self.fill(5, state=a2a.COMPLETED)
        self.do(self.store.create(BERT, made(9, a2a.INPUT_REQUIRED)))
        bytes_before = self.store.bytes
        self.again(keep_tasks=3)
        self.assertEqual(self.store.bytes, bytes_before)
        self.do(self.store.create(ANNA, made(5, a2a.COMPLETED)))
        self.assertEqual(numbers(self.list()), [5, 4, 3])
        self.again(limit_bytes=8000)
        self.do(self.store.create(ANNA, made(6, a2a.INPUT_REQUIRED, text="x" * 4500)))
        self.assertEqual((numbers(self.list()), numbers(self.list(BERT))), ([6], []))

    def test_names_of_any_kind(self):
        """What callers choose goes into no statement: quotes, NUL, half a surrogate pair."""
        owner = ("key", ODD, ODD, ODD)
        task = {**made(1, context=ODD, text=ODD), "id": ODD}
        self.do(self.store.create(owner, task))
        answer = {"artifactId": ODD, "parts": [{"text": ODD}, {"data": {ODD: None}}]}
        self.do(self.store.apply(owner, ODD, a2a.artifact_update(ODD, ODD, answer)))
        self.again()
        self.assertEqual(self.do(self.store.get(owner, ODD)), {**task, "artifacts": [answer]})
        ended = a2a.status_update(ODD, ODD, {"state": a2a.COMPLETED, "timestamp": stores.stamp(9)})
        self.assertTrue(self.do(self.store.apply(owner, ODD, ended)))
        self.again()
        self.assertEqual(self.do(self.store.get(owner, ODD))["artifacts"], [answer])
        self.assertEqual(self.list(owner, contextId=ODD)["totalSize"], 1)
        for other in (ANNA, (*owner[:3], "")):
            self.assertIsNone(self.do(self.store.get(other, ODD)))
            self.assertEqual(self.list(other)["totalSize"], 0)

    def test_a_clock_that_goes_backwards_changes_no_order(self):
        self.do(self.store.create(ANNA, made(50)))
        self.again()
        self.do(self.store.create(ANNA, made(2)))
        self.assertEqual(numbers(self.list()), [2, 50])

    def test_a_chunk_is_one_row_more(self):
        """And an ended task is one row again."""
        self.do(self.store.create(ANNA, made(1)))
        for number in range(30):
            self.do(self.store.apply(ANNA, task_id(1), chunk(1, "x" * 1000, append=number > 0)))
        self.store.close()
        count, largest = self.row("SELECT count(*), max(length(json)) FROM event")
        self.assertEqual((count, largest < 1500), (31, True))
        self.store = a2a.SqliteStore(self.path)
        self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.COMPLETED, 2)))
        self.store.close()
        count, largest = self.row("SELECT count(*), max(length(json)) FROM event")
        self.assertEqual((count, largest > 30_000), (1, True))

    def test_nothing_is_left_of_what_was_dropped(self):
        self.again(keep_tasks=1)
        self.fill(20)
        for number in range(20):
            self.do(self.store.apply(ANNA, task_id(number), chunk(number, "y")))
            self.do(self.store.apply(ANNA, task_id(number), status(number, a2a.COMPLETED, 9)))
        self.store.close()
        self.assertEqual(
            self.row("SELECT (SELECT count(*) FROM event), count(*) FROM task"), (1, 1)
        )

    def test_who_is_no_longer_waited_for_gets_it_all_the_same(self):
        """A caller that goes away while its task is on the way into the file."""

        async def impatient():
            creating = asyncio.ensure_future(self.store.create(ANNA, made(1)))
            await asyncio.sleep(0)
            creating.cancel()
            await asyncio.wait([creating])
            while not self.store.left():
                await asyncio.sleep(0.01)
            ending = asyncio.ensure_future(
                self.store.apply(ANNA, task_id(1), status(1, a2a.COMPLETED, 2))
            )
            await asyncio.sleep(0)
            ending.cancel()
            await asyncio.wait([ending])
            return await self.store.apply(ANNA, task_id(1), status(1, a2a.FAILED, 3))

        self.assertFalse(self.do(impatient()), "it has ended")
        for _ in range(2):
            task = self.do(self.store.get(ANNA, task_id(1)))
            self.assertEqual(task["status"]["state"], a2a.COMPLETED)
            self.again()


class Large(Again):
    def test_open_tasks_have_a_bound_of_their_own(self):
        """They are in memory: the oldest questions make room, what has ended need not."""
        self.addCleanup(setattr, a2a, "STORE_BYTES", a2a.STORE_BYTES)
        a2a.STORE_BYTES = 20_000
        self.do(self.store.create(BERT, made(900, a2a.COMPLETED)))
        for number in range(100):
            self.do(self.store.create(ANNA, made(number, a2a.INPUT_REQUIRED)))
        kept = numbers(self.list())
        self.assertEqual(kept, list(range(99, 99 - len(kept), -1)))
        self.assertTrue(5 < len(kept) < 20, kept)
        self.assertEqual(numbers(self.list(BERT)), [900])
        with self.assertRaises(a2a.RateLimitedError):
            self.fill(50, BERT)
        self.assertEqual(numbers(self.list()), [])
        self.again()
        self.assertEqual(len(self.store.left()), self.list(BERT)["totalSize"] - 1)

    def test_huge_texts(self):
        big = "x\0\ud83d" * 1_000_000
        self.do(self.store.create(ANNA, made(1, text=big)))
        self.do(self.store.apply(ANNA, task_id(1), chunk(1, big)))
        self.again()
        task = self.do(self.store.get(ANNA, task_id(1)))
        self.assertEqual(a2a.text_of(task["history"][0]), big)
        self.assertEqual(a2a.text_of(task["artifacts"][0]), big)
        self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.COMPLETED, 2)))
        self.again()
        task = self.do(self.store.get(ANNA, task_id(1)))
        self.assertEqual(a2a.text_of(task["artifacts"][0]), big)
        self.assertLess(os.path.getsize(self.path), 15 * len(big))

    def test_ten_thousand_tasks(self):
        self.again(keep_tasks=0)
        owners = [("key", str(number), "", "") for number in range(10)]

        async def fill():
            tasks = [made(number, context=f"c{number % 7}") for number in range(10_000)]
            for number, task in enumerate(tasks):
                asks = number % 100 == 0
                task["status"]["state"] = a2a.INPUT_REQUIRED if asks else a2a.COMPLETED
            creating = [self.store.create(owners[n % 10], task) for n, task in enumerate(tasks)]
            await asyncio.gather(*creating)

        self.do(fill())
        self.again()
        self.assertEqual(len(self.store.left()), 100)
        for number, owner in enumerate(owners):
            seen, token = [], ""
            while True:
                page = self.list(owner, pageSize=100, pageToken=token)
                self.assertEqual(page["totalSize"], 1000)
                seen += numbers(page)
                token = page["nextPageToken"]
                if not token:
                    break
            self.assertEqual(seen, list(range(9990 + number, -1, -10)))
        waiting = self.list(owners[0], status=a2a.INPUT_REQUIRED)
        self.assertEqual((waiting["totalSize"], numbers(waiting)[0]), (100, 9900))
        found = self.list(owners[0], contextId="c0", status=a2a.COMPLETED)["totalSize"]
        self.assertEqual(found, sum(n % 7 == 0 and n % 100 > 0 for n in range(0, 10_000, 10)))


class BadFiles(unittest.TestCase):
    """Every one is refused in words; none is changed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a2a.db")

    def refused(self, text):
        with self.assertRaisesRegex(a2a.UsageError, text) as caught:
            a2a.SqliteStore(self.path)
        self.assertIn(self.path, str(caught.exception))
        self.assertIn("--store", caught.exception.hint)

    def make(self, *statements):
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)

    def test_only_its_user_can_read_it(self):
        pathlib.Path(self.path).touch(0o644)
        store = a2a.SqliteStore(self.path)
        files = [self.path, self.path + "-wal"]
        if os.name == "posix":
            self.assertEqual({os.stat(file).st_mode & 0o777 for file in files}, {0o600})
        store.close()
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["a2a.db"])

    def test_no_database(self):
        for data in (b"no database" * 1000, b"SQLite format 3\0" + bytes(5000)):
            pathlib.Path(self.path).write_bytes(data)
            os.chmod(self.path, 0o644)
            self.refused("cannot be used")
            self.assertEqual(pathlib.Path(self.path).read_bytes(), data)
            if os.name == "posix":
                self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o644)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "no pipes in folders here")
    def test_what_is_no_plain_file_stays_as_it_was(self):
        """Of a device everybody would feel that its mode has changed."""
        pipe = self.path + "-pipe"
        os.mkfifo(pipe)
        os.chmod(pipe, 0o644)
        os.symlink(pipe, self.path)
        self.refused("cannot be used: it is no plain file")
        self.assertEqual(os.stat(pipe).st_mode & 0o777, 0o644)

    @unittest.skipIf(os.name == "nt", "a link takes a right there")
    def test_a_link_in_place_of_our_note_empties_nothing(self):
        """In a folder that others can write to it may lead to any file of ours."""
        victim = pathlib.Path(self.path + "-victim")
        victim.write_text("mine")
        os.symlink(victim, self.path + "-server")
        store = a2a.SqliteStore(self.path)
        note = pathlib.Path(self.path + "-server").read_text()
        store.close()
        self.assertEqual(("mine", f"process {os.getpid()}"), (victim.read_text(), note))

    def test_the_database_of_another_program(self):
        """Those who can read it still can."""
        self.make("CREATE TABLE task (a)", "INSERT INTO task VALUES (1)")
        os.chmod(self.path, 0o644)
        self.refused("another program")
        if os.name == "posix":
            self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o644)
        self.make("DROP TABLE task")

    def test_one_of_a_newer_version(self):
        a2a.SqliteStore(self.path).close()
        self.make("PRAGMA user_version = 1000")
        self.refused("newer version")

    def test_one_of_an_older_version_is_brought_up_to_date(self):
        store = a2a.SqliteStore(self.path)
        asyncio.run(store.create(ANNA, made(1)))
        store.close()
        steps = a2a.DATABASE_STEPS
        self.addCleanup(setattr, a2a, "DATABASE_STEPS", steps)
        a2a.DATABASE_STEPS = (*steps, "CREATE TABLE more (a); INSERT INTO more VALUES (7)")
        for _ in range(2):
            store = a2a.SqliteStore(self.path)
            self.assertEqual([name[1] for name in store.left()], [task_id(1)])
            store.close()
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            self.assertEqual(db.execute("SELECT a FROM more").fetchall(), [(7,)])
            self.assertEqual(db.execute("PRAGMA user_version").fetchone(), (2,))

    def test_a_damaged_one(self):
        store = a2a.SqliteStore(self.path)
        asyncio.run(store.create(ANNA, made(1)))
        store.close()
        whole = pathlib.Path(self.path).read_bytes()
        for at in range(100, len(whole), 4096):
            damaged = whole[:at] + b"\xff" * 2000 + whole[at + 2000 :]
            pathlib.Path(self.path).write_bytes(damaged)
            try:
                a2a.SqliteStore(self.path).close()  # a page that is not needed now
            except a2a.UsageError as error:
                self.assertIn(self.path, str(error))
        for change in (
            "DELETE FROM event",
            "UPDATE event SET json = '['",
            "UPDATE event SET json = 1",
            "UPDATE event SET json = '5'",
            "UPDATE event SET json = '{}'",
            "UPDATE event SET json = replace(json, 'TASK_STATE_', 'TASK_STATES_')",
        ):
            pathlib.Path(self.path).write_bytes(whole)
            self.make(change)
            self.refused("damaged")

    def test_where_nothing_can_be_made(self):
        self.path = os.path.join(self.path, "a2a.db")
        self.refused("cannot be used: No such file")
        os.mkdir(os.path.dirname(self.path))
        os.mkdir(self.path)
        self.refused("cannot be used")

    @unittest.skipIf(os.name == "nt" or os.geteuid() == 0, "nothing is read-only for this user")
    def test_a_folder_that_is_read_only(self):
        os.chmod(os.path.dirname(self.path), 0o500)
        self.refused("cannot be used: Permission denied")

    def test_one_that_another_program_has(self):
        a2a.SqliteStore(self.path).close()
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            self.refused("another program has it")
        a2a.SqliteStore(self.path).close()

    def test_one_that_another_server_has(self):
        store = a2a.SqliteStore(self.path)
        self.refused(f"another server has it: process {os.getpid()}")
        command = [sys.executable, support.A2A, "serve", "--agent", "echo", "--port", "0"]
        command += ["--store", "sqlite:" + self.path]
        with support.Process(command) as other:
            self.assertEqual(other.wait(), 2)
            self.assertIn(f"another server has it: process {os.getpid()}", other.stderr)
        asyncio.run(store.create(ANNA, made(1)))
        store.close()


class Systems(unittest.TestCase):
    """File systems that lack something. None such is at hand: SQLite's answers are put in place."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a%20b#?.db")
        self.logged = []
        for name in ("log", "_use_database", "_pragma"):
            self.addCleanup(setattr, a2a, name, getattr(a2a, name))
        a2a.log = self.logged.append

    def keeps_a_task(self):
        for count in (0, 1):
            store = a2a.SqliteStore(self.path)
            self.assertEqual(len(store.left()), count)
            if not count:
                asyncio.run(store.create(ANNA, made(1)))
            store.close()
        self.assertEqual(os.listdir(os.path.dirname(self.path)), [os.path.basename(self.path)])

    @unittest.skipIf(os.name == "nt", "the address of a file is another there")
    def test_no_locks(self):
        use = a2a._use_database

        def without_locks(path, uri=""):
            if "nolock" not in uri:
                raise sqlite3.OperationalError("disk I/O error")
            return use(path, uri)

        a2a._use_database = without_locks
        self.keeps_a_task()
        self.assertIn("no locks", self.logged[0])

    def test_no_write_ahead_log(self):
        pragma = a2a._pragma
        a2a._pragma = lambda db, text: pragma(db, text.replace("WAL", "DELETE"))
        self.keeps_a_task()
        self.assertIn("no write-ahead log", self.logged[0])


class Trouble(Again):
    """The file cannot be written for a while, as when the disk is full."""

    def setUp(self):
        super().setUp()
        self.logged = []
        self.addCleanup(setattr, a2a, "log", a2a.log)
        a2a.log = self.logged.append

    def fill_disk(self, full=True):
        """Let the file grow no more."""
        pages = 0 if full else 1_000_000
        self.store._file.db.execute(f"PRAGMA max_page_count = {pages or 1}")

    def test_a_full_disk(self):
        self.do(self.store.create(ANNA, made(1)))
        self.fill_disk()
        big = "x" * 100_000
        with self.assertRaisesRegex(a2a.InternalError, "full"):
            self.do(self.store.create(ANNA, made(2, text=big)))
        before = self.store.bytes
        with self.assertRaisesRegex(a2a.InternalError, "full"):
            self.do(self.store.create(ANNA, made(3, a2a.COMPLETED, text=big)))
        self.assertEqual((self.store.bytes, len(self.logged)), (before, 2))
        self.assertTrue(self.do(self.store.apply(ANNA, task_id(1), chunk(1, big))))
        self.assertEqual(numbers(self.list()), [1], "reading goes on")
        end = status(1, a2a.COMPLETED, 5)
        with self.assertRaisesRegex(a2a.InternalError, "full"):
            self.do(self.store.apply(ANNA, task_id(1), end))
        task = self.do(self.store.get(ANNA, task_id(1)))
        self.assertEqual(
            task["status"]["state"], a2a.SUBMITTED, "nothing is shown that is not kept"
        )
        self.fill_disk(False)
        self.assertTrue(self.do(self.store.apply(ANNA, task_id(1), chunk(1, "!", append=True))))
        self.assertEqual(self.list(status=a2a.SUBMITTED)["totalSize"], 1)
        ask = status(1, a2a.INPUT_REQUIRED, 6)
        self.assertTrue(self.do(self.store.apply(ANNA, task_id(1), ask)))
        counts = [self.list(status=one)["totalSize"] for one in (a2a.SUBMITTED, a2a.INPUT_REQUIRED)]
        self.assertEqual(counts, [0, 1], "it is counted anew, as nobody knows what was written")
        self.again()
        task = self.do(self.store.get(ANNA, task_id(1)))
        self.assertEqual(task["artifacts"][0]["parts"], [{"text": big + "!"}])
        self.assertEqual((numbers(self.list()), self.list()["totalSize"]), ([1], 1))

    def test_one_bad_thing_takes_nothing_with_it(self):
        """What is written together does not fail together."""

        async def at_once():
            tasks = [made(1), made(2), made(4, state=None), made(3)]
            creating = [self.store.create(ANNA, task) for task in tasks]
            return await asyncio.gather(*creating, return_exceptions=True)

        kinds = [type(result) for result in self.do(at_once())]
        self.assertEqual(sorted(kinds, key=str), [type(None)] * 3 + [a2a.InternalError])
        self.again()
        self.assertEqual(numbers(self.list()), [3, 2, 1])


AGENT = """
import asyncio

async def agent(turn):
    if turn.text == "ask":
        turn.ask("which?")
        return
    if turn.text == "count":
        for number in range(1_000_000):
            turn.artifact(f"{number} ", name="out", append=number > 0)
            await asyncio.sleep(0.002)
    turn.status("busy")
    return f"{len(turn.history)} messages, {turn.text}"
"""


class Servers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "tasks.db")
        pathlib.Path(folder.name, "agent.py").write_text(AGENT)

    def serve(self, *more):
        agent = os.path.join(self.folder, "agent.py") + ":agent"
        where = ("--store", "sqlite:" + self.path)
        return support.Served("--agent", agent, *where, *more, cwd=self.folder)

    def test_a_kill_in_the_midst_of_a_stream(self):
        """TASK-14: nothing shown longer ago than BEHIND_S is lost; no task works for ever."""
        with self.serve() as served, a2a.Client(served.url) as client:
            done = client.send("hello")["task"]
            asked = client.send("ask")["task"]
            seen, task_id = [], ""
            events = client.stream("count")
            for event in events:
                task_id = task_id or event["task"]["id"]
                if "artifactUpdate" in event:
                    text = a2a.text_of(event["artifactUpdate"]["artifact"])
                    seen.append((time.monotonic(), text))
                if len(seen) == 200:
                    break
            killed_at = time.monotonic()
            served.kill()
            events.close()
            served.wait()
        shown = "".join(text for at, text in seen if killed_at - at > 2 * a2a.BEHIND_S)
        self.assertGreater(len(shown), 100)
        with self.serve() as served, a2a.Client(served.url) as client:
            self.assertEqual(client.get(done["id"]), done)
            self.assertEqual(client.get(asked["id"]), asked)
            cut = client.get(task_id)
            self.assertEqual(cut["status"]["state"], a2a.FAILED)
            self.assertIn("server ended", a2a.text_of(cut["status"]))
            text = a2a.text_of(cut["artifacts"][0])
            self.assertTrue(text.startswith(shown), (text[-50:], shown[-50:]))
            answered = client.send("blue", task_id=asked["id"])["task"]
            self.assertEqual(a2a.text_of(answered["artifacts"][0]), "3 messages, blue")
            listed = [task["id"] for task in client.list()["tasks"]]
            self.assertEqual(listed, [asked["id"], task_id, done["id"]])

    def test_what_was_answered_is_there_after_a_kill(self):
        """TASK-14: many callers at once, each answer is kept."""
        with self.serve() as served:
            answered = []

            def call(number):
                client = a2a.Client(served.url, timeout_s=5, warn=lambda text: None)
                with contextlib.suppress(a2a.A2AError), client:
                    while True:
                        answered.append(client.send(f"{number}")["task"])

            callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
            for caller in callers:
                caller.start()
            while len(answered) < 100:
                time.sleep(0.005)
            served.kill()
            served.wait()
            for caller in callers:
                caller.join()
        with self.serve() as served, a2a.Client(served.url) as client:
            for task in answered:
                self.assertEqual(client.get(task["id"]), task)

    def test_a_server_that_stops(self):
        with self.serve() as served, a2a.Client(served.url) as client:
            task_id = client.send("count", wait=False)["task"]["id"]
        self.assertEqual([name for name in os.listdir(self.folder) if "db" in name], ["tasks.db"])
        with self.serve() as served, a2a.Client(served.url) as client:
            self.assertIn("stopped", a2a.text_of(client.get(task_id)["status"]))

    def test_where_tasks_live(self):
        found = {
            (): ("memory", ""),
            ("--dir", "d"): ("d", "a2a.db"),
            ("--store", "sqlite"): (".a2a", "a2a.db"),
            ("--store", "memory", "--dir", "e"): ("memory", ""),
            ("A2A_SERVE_STORE", "sqlite:f.db"): ("", "f.db"),
        }
        for options, (folder, name) in found.items():
            with self.subTest(options):
                env = dict([options]) if options and options[0][:3] == "A2A" else {}
                arguments = ("--agent", "echo", *([] if env else options))
                served = support.Served(*arguments, cwd=self.folder, env=env)
                with served, a2a.Client(served.url) as client:
                    client.send("hi")
                here = pathlib.Path(self.folder)
                files = [str(path.relative_to(here)) for path in here.rglob("*.db")]
                self.assertEqual(files, [os.path.join(folder, name)] if name else [])
                for file in files:
                    os.unlink(os.path.join(self.folder, file))
        for wrong in ("redis", "sqlite:", "memory:x", "sqlitee"):
            with self.assertRaisesRegex(a2a.UsageError, "No store"):
                a2a.Server("echo", port=0, store=wrong).start()
        module, sys.modules["sqlite3"] = sys.modules["sqlite3"], None
        a2a.sqlite3 = a2a.Late("sqlite3")
        try:
            with self.assertRaisesRegex(a2a.UsageError, "no SQLite"):
                a2a.Server("echo", port=0, store="sqlite:" + self.path).start()
        finally:
            sys.modules["sqlite3"] = a2a.sqlite3 = module
        mine = a2a.MemoryStore()
        with a2a.Server("echo", port=0, store=mine) as server, a2a.Client(server.url) as client:
            client.send("hi")
        self.assertEqual(len(mine._spaces), 1)


if __name__ == "__main__":
    unittest.main()
