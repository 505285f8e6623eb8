"""Chapter 17: tasks in memory and in a file; every test of the one is a test of the other."""

import asyncio
import os
import pathlib
import sys
import tempfile
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

ANNA, BERT = ("key", "", "anna", ""), ("key", "", "bert", "")


def stamp(second):
    return f"2026-01-01T00:{second // 60 % 60:02}:{second % 60:02}.000Z"


def message(text="hi"):
    return {"messageId": "m", "role": a2a.ROLE_USER, "parts": [{"text": text}]}


def task_id(number):
    return str(uuid.UUID(int=number))


def made(number, state=a2a.SUBMITTED, context="c", text="hi", **more):
    task = a2a.new_task(task_id(number), context, message(text), stamp(number))
    task["status"]["state"] = state
    return {**task, **more}


def status(number, state, second, **more):
    return a2a.status_update(
        task_id(number), "c", {"state": state, "timestamp": stamp(second), **more}
    )


def chunk(number, text, append=False):
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return a2a.artifact_update(task_id(number), "c", artifact, append=append)


def numbers(page):
    return [uuid.UUID(task["id"]).int for task in page["tasks"]]


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.open()

    def open(self, **limits):
        """Begin anew with an empty store."""
        self.store = a2a.MemoryStore(**limits)

    def fill(self, count, owner=ANNA, **more):
        for number in range(count):
            self.do(self.store.create(owner, made(number, **more)))

    def do(self, coroutine):
        """Run a coroutine of the store; the memory store never waits."""
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("it waited")

    def list(self, owner=ANNA, **params):
        return self.do(self.store.list(owner, params))


class FileTest(StoreTest):
    """The same with SqliteStore."""

    def setUp(self):
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.loop.close)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store = None
        self.addCleanup(lambda: self.store and self.store.close())
        self.open()

    def open(self, **limits):
        if self.store:
            self.store.close()
        handle, self.path = tempfile.mkstemp(dir=self.folder.name)
        os.close(handle)
        self.store = a2a.SqliteStore(self.path, **limits)

    def do(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def fill(self, count, owner=ANNA, **more):
        async def all_at_once():
            made_all = [made(number, **more) for number in range(count)]
            await asyncio.gather(*[self.store.create(owner, task) for task in made_all])

        self.do(all_at_once())


class Keeping(StoreTest):
    def test_an_open_task_is_the_dict_that_events_change(self):
        task = made(1)
        self.do(self.store.create(ANNA, task))
        self.assertTrue(self.do(self.store.apply(ANNA, task_id(1), chunk(1, "x"))))
        self.assertIs(self.do(self.store.get(ANNA, task_id(1))), task)
        self.assertEqual(task["artifacts"][0]["parts"], [{"text": "x"}])

    def test_an_ended_task_is_what_it_was(self):
        task = made(1, text="grüße \ud83d 東京")
        self.do(self.store.create(ANNA, task))
        self.do(self.store.apply(ANNA, task_id(1), chunk(1, "x")))
        self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.COMPLETED, 2)))
        read = self.do(self.store.get(ANNA, task_id(1)))
        self.assertEqual(read, task)
        self.assertIsNot(read, task)
        self.assertFalse(self.do(self.store.apply(ANNA, task_id(1), chunk(1, "y"))))
        self.assertFalse(self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.FAILED, 3))))
        self.assertEqual(self.do(self.store.get(ANNA, task_id(1))), task)

    def test_a_task_may_be_created_at_its_end(self):
        self.do(self.store.create(ANNA, made(1, a2a.COMPLETED)))
        self.assertEqual(self.do(self.store.get(ANNA, task_id(1))), made(1, a2a.COMPLETED))
        self.assertEqual(self.list(status=a2a.COMPLETED)["totalSize"], 1)

    def test_what_does_not_exist(self):
        self.assertIsNone(self.do(self.store.get(ANNA, task_id(1))))
        self.assertFalse(self.do(self.store.apply(ANNA, task_id(1), chunk(1, "x"))))

    def test_an_owner_sees_nothing_of_another(self):
        """LIST-05: a foreign task is a missing one, for reading, listing and changing."""
        self.fill(3)
        self.do(self.store.create(BERT, made(9)))
        self.assertIsNone(self.do(self.store.get(BERT, task_id(1))))
        self.assertFalse(self.do(self.store.apply(BERT, task_id(1), status(1, a2a.FAILED, 9))))
        self.assertEqual(numbers(self.list(BERT)), [9])
        self.assertEqual(self.list(BERT)["totalSize"], 1)
        self.assertEqual(numbers(self.list(BERT, contextId="c")), [9])
        token = self.list(ANNA, pageSize=1)["nextPageToken"]
        self.assertNotIn(1, numbers(self.list(BERT, pageToken=token)))


class Bounds(StoreTest):
    def test_the_oldest_ended_tasks_of_an_owner_are_dropped(self):
        self.open(keep_tasks=3)
        self.do(self.store.create(ANNA, made(100)))
        self.fill(5, BERT, state=a2a.COMPLETED)
        self.fill(5, state=a2a.COMPLETED, context="d")
        self.assertEqual(numbers(self.list()), [4, 3, 2, 100])
        self.assertEqual(numbers(self.list(contextId="d")), [4, 3, 2])
        self.assertEqual(self.list(status=a2a.COMPLETED)["totalSize"], 3)
        self.assertIsNone(self.do(self.store.get(ANNA, task_id(1))))
        self.assertEqual(numbers(self.list(BERT)), [4, 3, 2])

    def test_an_open_task_is_not_dropped_for_their_number(self):
        self.open(keep_tasks=1)
        self.fill(50)
        self.assertEqual(self.list()["totalSize"], 50)

    def test_tasks_that_wait_for_an_answer_make_room_once_no_ended_one_is_left(self):
        """Or a few large messages to an agent that asks would lock everybody out for ever."""
        self.open(limit_bytes=20_000)
        self.do(self.store.create(BERT, made(900)))
        self.do(self.store.create(BERT, made(901, a2a.COMPLETED)))
        for number in range(100):
            self.do(self.store.create(ANNA, made(number, a2a.INPUT_REQUIRED)))
            self.assertLessEqual(self.store.bytes, 20_000)
        self.assertEqual(numbers(self.list(BERT)), [900], "work goes on, what has ended went first")
        kept = numbers(self.list())
        self.assertEqual(kept, list(range(99, 99 - len(kept), -1)))
        self.assertGreater(len(kept), 3)
        self.assertEqual(self.list(status=a2a.INPUT_REQUIRED)["totalSize"], len(kept))

    def test_the_task_that_grows_does_not_make_room_for_itself(self):
        self.open(limit_bytes=20_000)
        self.fill(3, state=a2a.INPUT_REQUIRED)
        answer = {"message": message("x" * 15_000)}
        self.assertTrue(self.do(self.store.apply(ANNA, task_id(0), answer)))
        self.assertEqual(numbers(self.list()), [0])
        with self.assertRaises(a2a.RateLimitedError):
            self.do(self.store.apply(ANNA, task_id(0), answer))
        self.assertEqual(numbers(self.list()), [0])

    def test_keys_count_as_well(self):
        """A message's metadata may have keys of megabytes."""
        self.open(limit_bytes=50_000)
        wide = made(1, metadata={"k" * 60_000: 1})
        with self.assertRaises(a2a.RateLimitedError):
            self.do(self.store.create(ANNA, wide))

    def test_a_page_is_bounded_in_bytes(self):
        large = "x" * (a2a.PAGE_BYTES // 3)
        for number in range(7):
            self.do(self.store.create(ANNA, made(number, a2a.COMPLETED, text=large)))
        seen, token = [], ""
        while True:
            page = self.list(pageToken=token)
            self.assertEqual((page["totalSize"], page["pageSize"]), (7, 50))
            self.assertLessEqual(len(page["tasks"]), 2)
            seen += numbers(page)
            token = page["nextPageToken"]
            if not token:
                break
        self.assertEqual(seen, [6, 5, 4, 3, 2, 1, 0])
        huge = made(8, a2a.COMPLETED, text=large * 4)
        self.do(self.store.create(ANNA, huge))
        self.assertEqual(numbers(self.list(pageSize=2)), [8], "one always goes")

    def test_ended_tasks_make_room_across_owners(self):
        self.open(keep_tasks=0, limit_bytes=20_000)
        for number in range(200):
            self.do(self.store.create((ANNA, BERT)[number % 2], made(number, a2a.COMPLETED)))
            self.assertLessEqual(self.store.bytes, 20_000)
        kept = numbers(self.list(ANNA)) + numbers(self.list(BERT))
        self.assertEqual(sorted(kept), list(range(200 - len(kept), 200)))
        self.assertGreater(len(kept), 10)

    def test_without_room_a_new_task_is_refused_and_the_old_ones_stay(self):
        """CLI-14: what is stored is bounded."""
        self.open(limit_bytes=20_000)
        with self.assertRaises(a2a.RateLimitedError) as caught:
            self.fill(1000)
        self.assertGreater(caught.exception.retry_after_s, 0)
        count = self.list()["totalSize"]
        self.assertTrue(5 < count < 100, count)
        self.assertLessEqual(self.store.bytes, 20_000)
        for number in range(count):  # an open one can always end, and then it makes room
            self.do(self.store.apply(ANNA, task_id(number), status(number, a2a.FAILED, 9)))
        self.do(self.store.create(ANNA, made(1001)))

    def test_a_task_that_never_stops_growing(self):
        """CLI-14: the output of one task is bounded."""
        self.fill(1)
        piece = "x" * 4_000_000
        with self.assertRaises(a2a.InvalidAgentResponseError):
            for number in range(a2a.TASK_BYTES // len(piece) + 1):
                self.do(self.store.apply(ANNA, task_id(0), chunk(0, piece, append=number > 0)))
        self.assertGreater(number, 10)
        told = {"message": message(piece)}
        self.assertTrue(
            self.do(self.store.apply(ANNA, task_id(0), status(0, a2a.FAILED, 9, **told)))
        )
        self.assertEqual(self.do(self.store.get(ANNA, task_id(0)))["status"]["state"], a2a.FAILED)

    def test_bytes_are_given_back(self):
        self.open(keep_tasks=1)
        self.fill(10, text="x" * 10_000)
        self.assertGreater(self.store.bytes, 100_000)
        for number in range(10):
            self.do(self.store.apply(ANNA, task_id(number), chunk(number, "y")))
            self.do(self.store.apply(ANNA, task_id(number), status(number, a2a.COMPLETED, 9)))
        self.assertTrue(10_000 < self.store.bytes < 13_000, self.store.bytes)


class Memory(StoreTest):
    def test_nothing_is_left_of_an_owner_whose_tasks_are_gone(self):
        self.open(keep_tasks=1, limit_bytes=3000)
        for number in range(100):
            owner = ("key", "", str(number), "")
            self.do(self.store.create(owner, made(number, a2a.COMPLETED, context=str(number))))
        self.assertLess(len(self.store._spaces), 4)

    def test_many_statuses_of_one_task_leave_little_behind(self):
        self.fill(1)
        for second in range(1000):
            self.do(self.store.apply(ANNA, task_id(0), status(0, a2a.WORKING, second)))
        space = self.store._spaces[ANNA]
        for timeline in (space.everything, space.contexts["c"], *space.states.values()):
            self.assertLess(len(timeline.entries), 20)


class Lists(StoreTest):
    def test_the_four_fields_are_always_there(self):
        """LIST-01: an empty store has them too."""
        empty = {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
        self.assertEqual(self.list(), empty)
        self.assertEqual(self.list(contextId="x", status=a2a.WORKING, pageSize=7)["pageSize"], 7)

    def test_newest_status_first(self):
        """LIST-03: the order is that of the last status."""
        self.fill(4)
        self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.WORKING, 10)))
        self.do(self.store.apply(ANNA, task_id(0), chunk(0, "no status")))
        self.assertEqual(numbers(self.list()), [1, 3, 2, 0])

    def test_artifacts_only_when_asked_for(self):
        """LIST-03: without includeArtifacts there is no key at all."""
        self.fill(2)
        self.do(self.store.apply(ANNA, task_id(1), chunk(1, "x")))
        self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.COMPLETED, 10)))
        for params in ({}, {"includeArtifacts": False}):
            self.assertFalse([t for t in self.list(**params)["tasks"] if "artifacts" in t])
        first, second = self.list(includeArtifacts=True)["tasks"]
        self.assertEqual(first["artifacts"][0]["parts"], [{"text": "x"}])
        self.assertEqual(second["artifacts"], [])

    def test_a_state_filter(self):
        """LIST-04: UNSPECIFIED is no filter."""
        self.fill(4)
        self.do(self.store.apply(ANNA, task_id(1), status(1, a2a.WORKING, 10)))
        self.do(self.store.apply(ANNA, task_id(2), status(2, a2a.COMPLETED, 11)))
        self.assertEqual(numbers(self.list(status=a2a.UNSPECIFIED)), [2, 1, 3, 0])
        self.assertEqual(numbers(self.list(status=a2a.SUBMITTED)), [3, 0])
        self.assertEqual(numbers(self.list(status=a2a.COMPLETED)), [2])
        self.assertEqual(self.list(status=a2a.SUBMITTED)["totalSize"], 2)
        self.assertEqual(numbers(self.list(status=a2a.REJECTED)), [])

    def test_a_context_filter_alone_and_with_a_state(self):
        for number in range(6):
            self.do(self.store.create(ANNA, made(number, context="ab"[number % 2])))
        self.do(self.store.apply(ANNA, task_id(2), status(2, a2a.WORKING, 10)))
        self.assertEqual(numbers(self.list(contextId="a")), [2, 4, 0])
        page = self.list(contextId="a", status=a2a.SUBMITTED)
        self.assertEqual((numbers(page), page["totalSize"]), ([4, 0], 2))

    def test_a_time_filter(self):
        self.fill(5)
        page = self.list(statusTimestampAfter=stamp(3))
        self.assertEqual((numbers(page), page["totalSize"]), ([4, 3], 2))
        self.assertEqual(
            numbers(self.list(statusTimestampAfter="2026-01-01T00:00:03.000001Z")), [4]
        )
        first = self.list(statusTimestampAfter=stamp(1), pageSize=3)
        rest = self.list(statusTimestampAfter=stamp(1), pageToken=first["nextPageToken"])
        self.assertEqual((numbers(first), numbers(rest)), ([4, 3, 2], [1]))
        self.assertEqual((first["totalSize"], rest["totalSize"]), (4, 4))

    def test_pages_hold_every_task_once_while_others_change(self):
        self.fill(25)
        seen, token, sizes = [], "", []
        while True:
            page = self.list(pageSize=10, pageToken=token)
            seen += numbers(page)
            sizes.append(len(page["tasks"]))
            self.do(self.store.apply(ANNA, task_id(24), status(24, a2a.WORKING, 30)))
            self.do(self.store.create(ANNA, made(100 + len(sizes))))
            token = page["nextPageToken"]
            if not token:
                break
        self.assertEqual((seen, sizes), (list(range(24, -1, -1)), [10, 10, 5]))

    def test_the_last_page_may_be_full(self):
        self.fill(4)
        first = self.list(pageSize=2)
        second = self.list(pageSize=2, pageToken=first["nextPageToken"])
        self.assertEqual((numbers(second), second["nextPageToken"]), ([1, 0], ""))

    def test_a_token_that_is_none_of_ours(self):
        """REST-05: an unknown page token is refused, it is not the first page."""
        for token in ("x", "1", "-1." + task_id(1), "1." + "z" * 36, "9" * 40 + "." + task_id(1)):
            with self.assertRaises(a2a.InvalidParamsError) as caught:
                self.list(pageToken=token)
            field = caught.exception.details[0]["fieldViolations"][0]["field"]
            self.assertEqual(field, "pageToken")

    def test_history_length_in_a_list(self):
        """HIST-03: 0 leaves it out, n is the last n."""
        self.fill(1)
        self.do(self.store.apply(ANNA, task_id(0), {"message": message("more")}))
        for length, expected in ((None, 2), (1, 1), (0, 0)):
            params = {} if length is None else {"historyLength": length}
            task = self.list(**params)["tasks"][0]
            self.assertEqual(len(task.get("history", ())), expected)
            self.assertEqual("history" in task, expected > 0)

    def test_a_hundred_thousand_tasks(self):
        self.open(keep_tasks=0, limit_bytes=0)
        self.fill(20_000, state=a2a.COMPLETED)
        page = self.list()
        self.assertEqual((len(page["tasks"]), page["totalSize"]), (50, 20_000))
        token = f"{101}.{task_id(0)}"
        page = self.list(pageSize=100, pageToken=token, contextId="c")
        self.assertEqual((numbers(page), page["nextPageToken"]), (list(range(99, -1, -1)), ""))


class KeepingInFile(FileTest, Keeping):
    pass


class BoundsInFile(FileTest, Bounds):
    pass


class ListsInFile(FileTest, Lists):
    pass


if __name__ == "__main__":
    unittest.main()
