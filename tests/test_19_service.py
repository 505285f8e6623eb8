"""Chapter 19, its first half: what a server does with a call, whichever way it came."""

import asyncio
import contextlib
import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

ANNA = a2a.Caller("key", "", "anna", "", "Anna")
BERT = a2a.Caller("key", "", "bert", "", "Bert")
CARD = {"capabilities": {"streaming": True}}


def make_call(operation, params, caller=a2a.ANONYMOUS, extensions=()):
    """Make what a binding makes of a request."""
    operation = a2a.OPERATIONS[operation]
    params = a2a.read_message(operation.request, params)
    call = a2a.Call(None, operation, params, "1.0", extensions)
    call.caller = caller
    return call


def message(text="hi", **more):
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}


class ServiceTest(unittest.IsolatedAsyncioTestCase):
    def serve(self, agent, store=None, card=CARD, **limits):
        """Make the service under test; what it logs is in self.logged."""
        self.logged = []
        self.store = store or a2a.MemoryStore()
        agent = a2a.load_agent(agent)
        self.service = a2a.Service(agent, self.store, card, log=self.logged.append, **limits)
        self.addAsyncCleanup(self.service.close)
        return self.service

    async def call(self, operation, params=None, caller=a2a.ANONYMOUS, **more):
        return await self.service.call(make_call(operation, params or {}, caller, **more))

    async def send(self, text="hi", caller=a2a.ANONYMOUS, configuration=None, **more):
        params = {"message": message(text, **more)}
        if configuration:
            params["configuration"] = configuration
        return await self.call("SendMessage", params, caller)

    async def send_now(self, text="hi", caller=a2a.ANONYMOUS, **more):
        """Send and do not wait for the end; give the task."""
        result = await self.send(text, caller, {"returnImmediately": True}, **more)
        return result["task"]

    async def stream(self, text="hi", caller=a2a.ANONYMOUS, configuration=None, **more):
        params = {"message": message(text, **more)}
        if configuration:
            params["configuration"] = configuration
        return await self.service.stream(make_call("SendStreamingMessage", params, caller))

    async def subscribe(self, task_id, caller=a2a.ANONYMOUS):
        return await self.service.stream(make_call("SubscribeToTask", {"id": task_id}, caller))

    async def get(self, task_id, caller=a2a.ANONYMOUS, **more):
        return await self.call("GetTask", {"id": task_id, **more}, caller)

    async def until(self, task_id, *states):
        """Poll until a task is in one of the states; give it."""
        for _ in range(500):
            task = await self.get(task_id)
            if task["status"]["state"] in states:
                return task
            await asyncio.sleep(0.01)
        raise AssertionError(f"still {task['status']['state']}")

    async def refused(self, kind, awaitable, text=""):
        """Check that a call raises a Fault; give it."""
        with self.assertRaises(kind) as caught:
            await awaitable
        self.assertIn(text, str(caught.exception))
        return caught.exception


async def read(subscription):
    """Give all events of a stream to its end."""
    return [json.loads(payload) async for batch in subscription for payload in batch]


def words(events):
    """Give events in short: the state of tasks and statuses, the text of artifacts."""
    said = []
    for event in events:
        ((kind, value),) = event.items()
        if kind in ("task", "statusUpdate"):
            said.append(value["status"]["state"].replace("TASK_STATE_", ""))
        elif kind == "artifactUpdate":
            said.append(("+" if value.get("append") else "") + a2a.text_of(value["artifact"]))
        else:
            said.append("message " + a2a.text_of(value))
    return said


class Sending(ServiceTest):
    async def test_an_answer_that_comes_at_once(self):
        self.serve("echo")
        task = (await self.send("hello"))["task"]
        self.assertEqual(task["status"]["state"], a2a.COMPLETED)
        self.assertEqual(task["artifacts"][0]["parts"], [{"text": "hello"}])
        self.assertEqual(task["history"][0]["taskId"], task["id"])
        self.assertEqual(task["history"][0]["contextId"], task["contextId"])
        self.assertEqual(await self.get(task["id"]), task)

    async def test_every_kind_of_function(self):
        async def coroutine(turn):
            await asyncio.sleep(0.01)
            return turn.text + "!"

        async def generator(turn):
            for word in (turn.text, "!"):
                yield word
                await asyncio.sleep(0.01)

        def plain(turn):
            return turn.text + "!"

        def plain_generator(turn):
            yield turn.text
            yield "!"

        for function in (coroutine, generator, plain, plain_generator):
            self.serve(function)
            task = (await self.send("hello"))["task"]
            self.assertEqual(task["status"]["state"], a2a.COMPLETED, function)
            self.assertEqual(task["artifacts"][0]["parts"], [{"text": "hello!"}], function)

    async def test_a_reply_makes_no_task(self):
        async def agent(turn):
            turn.reply("hello " + turn.text)

        self.serve(agent)
        result = await self.send("you", contextId="c1")
        self.assertEqual(a2a.text_of(result["message"]), "hello you")
        self.assertEqual(result["message"]["contextId"], "c1")
        self.assertEqual(result["message"]["role"], "ROLE_AGENT")
        self.assertNotIn("taskId", result["message"])
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 0)

    async def test_a_reply_once_the_task_shows_completes_it(self):
        async def agent(turn):
            turn.status("looking")
            turn.reply("found")

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.COMPLETED)
        self.assertEqual(a2a.text_of(task["status"]), "found")

    async def test_a_stream(self):
        async def agent(turn):
            for word in ("Hel", "lo"):
                yield word
                await asyncio.sleep(0.001)

        self.serve(agent)
        events = await read(await self.stream())
        self.assertEqual(words(events), ["SUBMITTED", "WORKING", "Hel", "+lo", "COMPLETED"])
        task = await self.get(events[0]["task"]["id"])
        self.assertEqual(a2a.text_of(task), "Hello")

    async def test_a_stream_of_an_answer_that_comes_at_once(self):
        self.serve("echo")
        events = await read(await self.stream("hello"))
        self.assertEqual(words(events), ["SUBMITTED", "hello", "COMPLETED"])
        self.assertTrue(events[1]["artifactUpdate"]["lastChunk"])

    async def test_a_stream_that_is_one_message(self):
        """SSE-26: exactly one message, no task."""

        async def agent(turn):
            turn.reply("hello")
            turn.status("too late")

        self.serve(agent)
        self.assertEqual(words(await read(await self.stream())), ["message hello"])
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 0)

    async def test_the_first_event_is_the_task(self):
        """SSE-21: whatever the agent says first, the task comes before it."""

        async def agent(turn):
            turn.status("one")
            turn.artifact("two", name="x")
            turn.status("three")

        self.serve(agent)
        events = await read(await self.stream())
        self.assertEqual(words(events), ["SUBMITTED", "WORKING", "two", "WORKING", "COMPLETED"])
        ids = {(value["taskId"], value["contextId"]) for e in events[1:] for value in e.values()}
        self.assertEqual(ids, {(events[0]["task"]["id"], events[0]["task"]["contextId"])})

    async def test_a_message_to_a_context_that_the_caller_names(self):
        self.serve("echo")
        for _ in range(2):
            task = (await self.send(contextId="mine"))["task"]
            self.assertEqual(task["contextId"], "mine")
        page = await self.call("ListTasks", {"contextId": "mine"})
        self.assertEqual(page["totalSize"], 2)
        page = await self.call("ListTasks", {"contextId": "mine"}, ANNA)
        self.assertEqual(page["totalSize"], 0)

    async def test_a_repeated_message_id_is_a_message_like_any_other(self):
        """TASK-10: nothing is deduplicated."""
        self.serve("echo")
        first, second = (await self.send())["task"], (await self.send())["task"]
        self.assertNotEqual(first["id"], second["id"])

    async def test_history_lengths(self):
        """HIST-03: in what SendMessage and streams give."""
        self.serve("echo")
        for length, there in ((None, True), (1, True), (0, False)):
            configuration = {} if length is None else {"historyLength": length}
            task = (await self.send(configuration=configuration))["task"]
            self.assertEqual("history" in task, there)
            events = await read(await self.stream(configuration=configuration))
            self.assertEqual("history" in events[0]["task"], there)

    async def test_numbers_that_make_no_sense(self):
        """REST-05: refused, with the field's name, whatever the binding."""
        self.serve("echo")
        task = (await self.send())["task"]
        for awaitable, field in (
            (self.send(configuration={"historyLength": -1}), "configuration.historyLength"),
            (self.stream(configuration={"historyLength": -1}), "configuration.historyLength"),
            (self.get(task["id"], historyLength=-1), "historyLength"),
            (self.call("ListTasks", {"historyLength": -1}), "historyLength"),
            (self.call("ListTasks", {"pageSize": 0}), "pageSize"),
            (self.call("ListTasks", {"pageSize": 101}), "pageSize"),
            (self.call("ListTasks", {"pageToken": "x"}), "pageToken"),
        ):
            fault = await self.refused(a2a.InvalidParamsError, awaitable)
            self.assertEqual(fault.details[0]["fieldViolations"][0]["field"], field)

    async def test_what_a_function_does_to_its_message_stays_with_it(self):
        async def agent(turn):
            turn.message["parts"].pop()
            turn.message["parts"].append(5)
            turn.message.pop("messageId")
            return "done"

        self.serve(agent)
        task = (await self.send("hello"))["task"]
        said = task["history"][0]
        self.assertEqual(([{"text": "hello"}], True), (said["parts"], "messageId" in said))

    async def test_an_endless_recursion_is_logged_in_a_few_lines(self):
        async def agent(turn):
            def one(at):
                return two(at + 1)

            def two(at):
                return one(at + 1)

            return one(0)

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(a2a.FAILED, task["status"]["state"])
        self.assertLess(self.logged[0].count("\n"), 120)


class Hidden(ServiceTest):
    async def test_a_late_reply_completes_the_task_that_has_appeared(self):
        async def agent(turn):
            await asyncio.sleep(0.35)
            turn.reply("at last")

        self.serve(agent)
        sending = asyncio.ensure_future(self.send())
        await asyncio.sleep(0.1)
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 0)
        await asyncio.sleep(0.15)
        (task,) = (await self.call("ListTasks"))["tasks"]
        self.assertEqual(task["status"]["state"], a2a.WORKING)
        result = (await sending)["task"]
        self.assertEqual((result["id"], result["status"]["state"]), (task["id"], a2a.COMPLETED))
        self.assertEqual(a2a.text_of(result["status"]), "at last")

    async def test_a_reply_within_the_time_makes_no_task(self):
        async def agent(turn):
            await asyncio.sleep(0.05)
            turn.reply("soon")

        self.serve(agent)
        self.assertEqual(a2a.text_of(await self.send()), "soon")
        await asyncio.sleep(0.25)
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 0)

    async def test_many_turns_share_one_timer(self):
        async def agent(turn):
            await asyncio.sleep(float(turn.text))
            turn.reply("done")

        self.serve(agent)
        waits = ["0.01", "0.3", "0.02", "0.32", "0.05", "0.3"]
        results = await asyncio.gather(*[self.send(wait) for wait in waits])
        kinds = ["task" if "task" in result else "message" for result in results]
        self.assertEqual(kinds, ["message", "task"] * 3)

    async def test_a_stream_begins_when_the_task_appears(self):
        async def agent(turn):
            await asyncio.sleep(0.3)
            return "done"

        self.serve(agent)
        events = await read(await self.stream())
        self.assertEqual(words(events), ["SUBMITTED", "WORKING", "done", "COMPLETED"])


class Waiting(ServiceTest):
    async def test_return_immediately(self):
        """TASK-11: the default waits; true gives a live task at once."""

        async def agent(turn):
            await asyncio.sleep(0.4)
            return "done"

        self.serve(agent)
        task = await self.send_now()
        self.assertEqual(task["status"]["state"], a2a.WORKING)
        task = await self.until(task["id"], a2a.COMPLETED)
        self.assertEqual(a2a.text_of(task), "done")
        self.assertEqual((await self.send())["task"]["status"]["state"], a2a.COMPLETED)

    async def test_return_immediately_has_no_effect_on_a_message(self):
        async def agent(turn):
            await asyncio.sleep(0.05)
            turn.reply("hello")

        self.serve(agent)
        result = await self.send(configuration={"returnImmediately": True})
        self.assertEqual(a2a.text_of(result["message"]), "hello")

    async def test_a_waiting_call_returns_when_something_is_needed(self):
        """TASK-12: on INPUT_REQUIRED and AUTH_REQUIRED, with the question."""

        async def asks(turn):
            turn.ask("which?")

        async def needs(turn):
            turn.need_auth("sign in")
            await asyncio.sleep(60)

        for agent, state in ((asks, a2a.INPUT_REQUIRED), (needs, a2a.AUTH_REQUIRED)):
            self.serve(agent)
            task = (await self.send())["task"]
            self.assertEqual(task["status"]["state"], state)
            self.assertIn(a2a.text_of(task["status"]), ("which?", "sign in"))

    async def test_who_stops_waiting_stops_nothing(self):
        """SSE-18: the life of a task is its own."""
        release = asyncio.Event()

        async def agent(turn):
            turn.status()
            await release.wait()
            return "done"

        self.serve(agent)
        sending = asyncio.ensure_future(self.send())
        stream = await self.stream()
        first = await stream.__anext__()
        task_id = json.loads(first[0])["task"]["id"]
        stream.close()
        sending.cancel()
        await asyncio.sleep(0.01)
        release.set()
        self.assertEqual(a2a.text_of(await self.until(task_id, a2a.COMPLETED)), "done")
        tasks = (await self.call("ListTasks"))["tasks"]
        self.assertEqual({t["status"]["state"] for t in tasks}, {a2a.COMPLETED})
        self.assertEqual(self.service.runner.lives, {})


class Conversations(ServiceTest):
    async def asking(self, turn):
        if turn.number == 1:
            turn.ask("which?")
            return None
        said = [a2a.text_of(m) for m in turn.history]
        return " ".join([*said, str(turn.number)])

    async def test_the_answer_goes_on_with_the_same_task(self):
        """TASK-09, TASK-08: the same task id; its context is inferred, and in every event."""
        self.serve(self.asking)
        task = (await self.send("buy"))["task"]
        events = await read(await self.stream("that", taskId=task["id"]))
        self.assertEqual(words(events), ["WORKING", "buy which? that 2", "COMPLETED"])
        self.assertEqual(events[0]["task"]["id"], task["id"])
        for event in events[1:]:
            (value,) = event.values()
            self.assertEqual(value["taskId"], task["id"])
            self.assertEqual(value["contextId"], task["contextId"])
        done = await self.get(task["id"])
        self.assertEqual([a2a.text_of(m) for m in done["history"]], ["buy", "which?", "that"])
        self.assertEqual({m["contextId"] for m in done["history"]}, {task["contextId"]})
        self.assertEqual({m["taskId"] for m in done["history"]}, {task["id"]})

    async def test_another_context_than_the_tasks_is_refused(self):
        """TASK-08: a task and a context that do not belong together."""
        self.serve(self.asking)
        task = (await self.send())["task"]
        awaitable = self.send(taskId=task["id"], contextId="other")
        fault = await self.refused(a2a.InvalidParamsError, awaitable)
        field = fault.details[0]["fieldViolations"][0]["field"]
        self.assertEqual(field, "message.contextId")
        result = await self.send(taskId=task["id"], contextId=task["contextId"])
        self.assertEqual(result["task"]["status"]["state"], a2a.COMPLETED)

    async def test_an_ended_task_takes_no_message(self):
        """TASK-05: UnsupportedOperation, and nothing is added."""
        self.serve("echo")
        task = (await self.send())["task"]
        for awaitable in (self.send(taskId=task["id"]), self.stream(taskId=task["id"])):
            await self.refused(a2a.UnsupportedOperationError, awaitable, "ended")
        self.assertEqual(await self.get(task["id"]), task)

    async def test_a_task_that_does_not_exist(self):
        """TASK-06: TaskNotFound, and none is made."""
        self.serve("echo")
        for awaitable in (self.send(taskId="made-up"), self.stream(taskId="made-up")):
            await self.refused(a2a.TaskNotFoundError, awaitable)
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 0)

    async def test_a_task_at_work_takes_no_message(self):
        async def agent(turn):
            turn.status()
            await asyncio.sleep(60)

        self.serve(agent)
        task = await self.send_now()
        awaitable = self.send(taskId=task["id"])
        await self.refused(a2a.UnsupportedOperationError, awaitable, "still at work")
        self.assertEqual(len((await self.get(task["id"]))["history"]), 1)

    async def test_two_answers_to_one_question(self):
        """TASK-16: one is taken, the other refused."""
        answers = []

        async def agent(turn):
            if turn.number == 1:
                turn.ask("which?")
                return
            answers.append(turn.text)
            await asyncio.sleep(0.05)

        self.serve(agent)
        task = (await self.send())["task"]
        results = await asyncio.gather(
            *[self.send(text, taskId=task["id"]) for text in "ab"], return_exceptions=True
        )
        self.assertEqual(results[0]["task"]["status"]["state"], a2a.COMPLETED)
        self.assertIsInstance(results[1], a2a.UnsupportedOperationError)
        self.assertEqual(answers, ["a"])

    async def test_work_that_waits_for_authorization_goes_on_without_a_message(self):
        """AMB-4, SSE-22: the event comes at once, and the stream stays open in AUTH_REQUIRED."""
        granted = asyncio.Event()

        async def agent(turn):
            turn.need_auth("sign in")
            await granted.wait()
            return "done"

        self.serve(agent)
        stream = await self.stream()
        seen = words(json.loads(p) for p in await stream.__anext__())
        while seen[-1] != "AUTH_REQUIRED":
            seen += words(json.loads(p) for p in await stream.__anext__())
        granted.set()
        self.assertEqual(words(await read(stream)), ["done", "COMPLETED"])

    async def test_a_message_while_authorization_is_awaited(self):
        granted = asyncio.Event()
        seen = []

        async def agent(turn):
            seen.append(turn.text)
            if turn.number == 1:
                turn.need_auth("sign in")
                await granted.wait()
                return None
            return "negotiated"

        self.serve(agent)
        task = (await self.send("one"))["task"]
        second = asyncio.ensure_future(self.send("two", taskId=task["id"]))
        await asyncio.sleep(0.05)
        self.assertFalse(second.done())
        self.assertEqual(seen, ["one"])
        granted.set()
        self.assertEqual(a2a.text_of((await second)["task"]), "negotiated")
        self.assertEqual(seen, ["one", "two"])

    async def test_a_turn_that_leaves_authorization_open(self):
        async def agent(turn):
            if turn.number == 1:
                turn.need_auth("sign in")
                return None
            return "thanks"

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.AUTH_REQUIRED)
        await asyncio.sleep(0.01)
        self.assertEqual((await self.get(task["id"]))["status"]["state"], a2a.AUTH_REQUIRED)
        self.assertEqual(a2a.text_of(await self.send(taskId=task["id"])), "thanks")

    async def test_a_question_ends_the_stream(self):
        """AMB-4, SSE-22: INPUT_REQUIRED reaches the reader at once and closes the stream."""
        self.serve(self.asking)
        events = await read(await self.stream())
        self.assertEqual(words(events), ["SUBMITTED", "INPUT_REQUIRED"])
        self.assertEqual(a2a.text_of(events[-1]["statusUpdate"]["status"]), "which?")

    async def test_a_question_ends_the_turn_though_the_function_goes_on(self):
        async def agent(turn):
            if turn.number == 1:
                turn.ask("which?")
                await asyncio.sleep(0.1)
                turn.status("too late")
                return "too late"
            return "second"

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.INPUT_REQUIRED)
        task = (await self.send(taskId=task["id"]))["task"]
        self.assertEqual(a2a.text_of(task), "second")
        self.assertNotIn("late", json.dumps(task))

    async def test_a_later_turn_adds_to_an_artifact_of_an_earlier_one(self):
        async def agent(turn):
            if turn.number == 1:
                turn.artifact("one", name="notes")
                turn.ask("more?")
            else:
                turn.artifact(", two", name="notes", append=True)
                turn.artifact("other")

        self.serve(agent)
        task = (await self.send())["task"]
        task = (await self.send(taskId=task["id"]))["task"]
        self.assertEqual([a2a.text_of(a) for a in task["artifacts"]], ["one, two", "other"])
        self.assertEqual(len({a["artifactId"] for a in task["artifacts"]}), 2)


class Subscribing(ServiceTest):
    async def holding(self, turn):
        """An agent that says what self.say is told to."""
        turn.status("ready")
        while True:
            word = await self.said.get()
            if word is None:
                return
            turn.chunk(word)

    async def begin(self):
        self.said = asyncio.Queue()
        self.serve(self.holding)
        return (await self.send_now())["id"]

    async def test_the_task_first_then_what_comes(self):
        """SSE-19: the task as it is now, the rest, then the end."""
        task_id = await self.begin()
        self.said.put_nowait("early")
        await asyncio.sleep(0.01)
        stream = await self.subscribe(task_id)
        self.said.put_nowait("late")
        self.said.put_nowait(None)
        events = await read(stream)
        self.assertEqual(words(events), ["WORKING", "+late", "COMPLETED"])
        self.assertEqual(a2a.text_of(events[0]["task"]), "early")

    async def test_a_parked_task_can_be_watched(self):
        """SSE-19: also when nothing is running."""

        async def agent(turn):
            if turn.number == 1:
                turn.ask("which?")
                return None
            return "done"

        self.serve(agent)
        task = (await self.send())["task"]
        stream = await self.subscribe(task["id"])
        await self.send(taskId=task["id"])
        self.assertEqual(
            words(await read(stream)), ["INPUT_REQUIRED", "WORKING", "done", "COMPLETED"]
        )

    async def test_an_ended_task_cannot(self):
        """SSE-20: UnsupportedOperation, before any stream."""
        self.serve("echo")
        task = (await self.send())["task"]
        await self.refused(a2a.UnsupportedOperationError, self.subscribe(task["id"]), "ended")

    async def test_two_readers_see_the_same(self):
        """SSE-23: in the same order, and one may leave."""
        task_id = await self.begin()
        first, second, third = [await self.subscribe(task_id) for _ in range(3)]
        reading = [asyncio.ensure_future(read(stream)) for stream in (first, third)]
        for word in "abc":
            self.said.put_nowait(word)
        await asyncio.sleep(0.01)
        second.close()
        for word in "def":
            self.said.put_nowait(word)
        self.said.put_nowait(None)
        one, three = await asyncio.gather(*reading)
        self.assertEqual(one, three)
        self.assertEqual(words(one)[-7:], ["a", "+b", "+c", "+d", "+e", "+f", "COMPLETED"])
        left = words(await read(second))
        self.assertEqual(left, words(one)[: len(left)])

    async def test_bytes_of_an_event_are_shared(self):
        task_id = await self.begin()
        streams = [await self.subscribe(task_id) for _ in range(2)]
        for stream in streams:
            await stream.__anext__()
        self.said.put_nowait("x")
        first, second = [await stream.__anext__() for stream in streams]
        self.assertIs(first[0], second[0])

    async def test_each_stream_has_its_writer(self):
        task_id = await self.begin()
        call = make_call("SubscribeToTask", {"id": task_id})
        other = await self.service.stream(call, lambda event: repr(sorted(event)).encode())
        plain = await self.subscribe(task_id)
        self.said.put_nowait("x")
        self.said.put_nowait(None)
        raw = [payload async for batch in other for payload in batch]
        self.assertEqual(raw, [b"['task']", b"['artifactUpdate']", b"['statusUpdate']"])
        self.assertEqual(words(await read(plain)), ["WORKING", "x", "COMPLETED"])

    async def test_a_slow_reader_is_dropped_and_told(self):
        task_id = await self.begin()
        slow, quick = await self.subscribe(task_id), await self.subscribe(task_id)
        reading = asyncio.ensure_future(read(quick))
        for number in range(a2a.SUBSCRIBER_EVENTS + 50):
            self.said.put_nowait(str(number))
            await asyncio.sleep(0)
        self.said.put_nowait(None)
        self.assertEqual(len(await reading), a2a.SUBSCRIBER_EVENTS + 52)
        got = []
        with self.assertRaises(a2a.RateLimitedError) as caught:
            async for batch in slow:
                got += batch
        self.assertIn("too slow", str(caught.exception))
        self.assertEqual(len(got), a2a.SUBSCRIBER_EVENTS)

    async def test_a_generator_that_never_waits_drops_nobody(self):
        def plain(turn):
            for number in range(3000):
                yield f"{number} "

        async def generator(turn):
            for number in range(3000):
                yield f"{number} "

        for agent in (generator, plain):
            self.serve(agent)
            events = await read(await self.stream())
            text = "".join(a2a.text_of(e) for e in events if "artifactUpdate" in e)
            self.assertEqual(text, "".join(f"{number} " for number in range(3000)))

    async def test_a_watched_task_is_let_go_with_its_last_reader(self):
        async def agent(turn):
            turn.ask("which?")

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(self.service.runner.lives, {})
        stream = await self.subscribe(task["id"])
        self.assertEqual(len(self.service.runner.lives), 1)
        stream.close()
        stream.close()
        self.assertEqual(self.service.runner.lives, {})


class Cancelling(ServiceTest):
    async def test_a_coroutine_is_ended_before_the_task_is(self):
        """TASK-03: the work has stopped when CANCELED is stored."""
        steps = []

        async def agent(turn):
            turn.status()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)
                steps.append("stopped")

        self.serve(agent)
        task = await self.send_now()
        stream = await self.subscribe(task["id"])
        done = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual((done["status"]["state"], steps), (a2a.CANCELED, ["stopped"]))
        self.assertEqual(self.logged, [], "what was wanted is no failure")
        self.assertEqual(words(await read(stream))[-1], "CANCELED")
        self.assertEqual(self.service.runner.lives, {})
        self.assertEqual(self.service.runner.places.running, 0)

    async def test_a_thread_is_told(self):
        told = []

        def agent(turn):
            turn.status()
            told.append(turn.cancelled.wait(10))
            time.sleep(0.1)
            turn.status("too late")
            return "too late"

        self.serve(agent)
        task = await self.send_now()
        await asyncio.sleep(0.05)
        await self.call("CancelTask", {"id": task["id"]})
        for _ in range(100):
            if told:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.15)
        self.assertEqual(told, [True])
        task = await self.get(task["id"])
        self.assertEqual(task["status"]["state"], a2a.CANCELED)
        self.assertNotIn("late", json.dumps(task))

    async def test_a_thread_that_does_not_look_is_ended_where_it_speaks(self):
        ended = threading.Event()

        def agent(turn):
            try:
                while True:
                    turn.status("at work")
                    time.sleep(0.001)
            except a2a.TaskFailed:
                ended.set()
                raise

        self.serve(agent)
        task = await self.send_now()
        done = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual(done["status"]["state"], a2a.CANCELED)
        for _ in range(500):
            if ended.is_set():
                break
            await asyncio.sleep(0.01)
        self.assertTrue(ended.is_set())
        self.assertEqual(self.logged, [])

    async def test_who_waits_for_a_thread_is_told_and_served_in_time(self):
        go = threading.Event()

        def agent(turn):
            return str(go.wait(10))

        self.serve(agent)
        self.service.runner.agent._threads = a2a.Threads(1)
        tasks = [await self.send_now() for _ in range(3)]
        texts = [a2a.text_of(task["status"].get("message", {})) for task in tasks]
        said = "Waiting: 256 turns are at work, which is all there may be"
        self.assertEqual(["", said, said], texts)
        await self.call("CancelTask", {"id": tasks[1]["id"]})
        go.set()
        for task, state in zip(tasks, (a2a.COMPLETED, a2a.CANCELED, a2a.COMPLETED)):
            for _ in range(500):
                found = (await self.get(task["id"]))["status"]["state"]
                if found != a2a.WORKING:
                    break
                await asyncio.sleep(0.01)
            self.assertEqual(state, found)

    async def test_what_a_cancelled_agent_still_gives_back(self):
        async def agent(turn):
            turn.status()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                turn.artifact("half of it")
                return "all the same"

        self.serve(agent)
        task = await self.send_now()
        done = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual(done["status"]["state"], a2a.CANCELED)
        self.assertEqual(a2a.text_of(done).split("\n")[0], "half of it")

    async def test_an_agent_that_does_not_let_go(self):
        a2a.CANCEL_S, kept = 0.1, a2a.CANCEL_S
        self.addCleanup(setattr, a2a, "CANCEL_S", kept)
        let_go = asyncio.Event()

        async def agent(turn):
            turn.status()
            while not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()
            turn.status("too late")

        self.serve(agent)
        task = await self.send_now()
        done = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual(done["status"]["state"], a2a.CANCELED)
        self.assertEqual(self.service.runner.places.running, 0, "it counts as ended")
        let_go.set()
        await asyncio.sleep(0.01)
        self.assertEqual(self.service.runner.places.running, 0)
        self.assertEqual((await self.get(task["id"])), done)

    async def test_a_second_cancel(self):
        """TASK-02, AMB-3: a canceled task again is the task; any other end cannot be canceled."""

        async def agent(turn):
            if turn.text == "done":
                return "done"
            turn.ask("which?")
            return None

        self.serve(agent)
        task = (await self.send())["task"]
        first = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual(await self.call("CancelTask", {"id": task["id"]}), first)
        task = (await self.send("done"))["task"]
        await self.refused(
            a2a.TaskNotCancelableError, self.call("CancelTask", {"id": task["id"]}), "COMPLETED"
        )

    async def test_two_cancels_at_once(self):
        async def agent(turn):
            turn.status()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.02)

        self.serve(agent)
        task = await self.send_now()
        cancels = [self.call("CancelTask", {"id": task["id"]}) for _ in range(3)]
        done = await asyncio.gather(*cancels)
        self.assertEqual({t["status"]["state"] for t in done}, {a2a.CANCELED})

    async def test_a_parked_task(self):
        """TASK-04: INPUT_REQUIRED becomes CANCELED."""

        async def agent(turn):
            turn.ask("which?")

        self.serve(agent)
        task = (await self.send())["task"]
        stream = await self.subscribe(task["id"])
        done = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual(done["status"]["state"], a2a.CANCELED)
        self.assertEqual(words(await read(stream)), ["INPUT_REQUIRED", "CANCELED"])
        await self.refused(a2a.UnsupportedOperationError, self.send(taskId=task["id"]))

    async def test_a_task_that_waits_for_its_turn(self):
        started = []

        async def agent(turn):
            started.append(turn.text)
            turn.status()
            await asyncio.sleep(60)

        self.serve(agent, max_concurrent_tasks=1)
        first = await self.send_now("one")
        waiting = [await self.send_now(text, contextId="c") for text in ("two", "three")]
        self.assertEqual({t["status"]["state"] for t in waiting}, {a2a.SUBMITTED})
        for task in (waiting[1], waiting[0], first):
            done = await self.call("CancelTask", {"id": task["id"]})
            self.assertEqual(done["status"]["state"], a2a.CANCELED)
        await asyncio.sleep(0.01)
        self.assertEqual(started, ["one"])
        places = self.service.runner.places
        self.assertEqual((places._lines, places._ready, places._waiting), ({}, {}, {}))

    async def test_the_first_end_wins(self):
        async def agent(turn):
            turn.reject("no")
            try:
                await asyncio.sleep(60)
            finally:
                turn.status("too late")

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.REJECTED)
        awaitable = self.call("CancelTask", {"id": task["id"]})
        await self.refused(a2a.TaskNotCancelableError, awaitable)
        self.assertEqual(await self.get(task["id"]), task)


class Failing(ServiceTest):
    SECRET = "/home/anna/key-s3cret"

    def assert_hidden(self, task):
        """The caller learns where to look in the log, the log knows what happened."""
        self.assertEqual(task["status"]["state"], a2a.FAILED)
        text = a2a.text_of(task["status"])
        self.assertNotIn("s3cret", json.dumps(task))
        (logged,) = self.logged
        self.assertIn("s3cret", logged)
        self.assertIn(text.split()[-1], logged)
        self.assertIn("Traceback", logged)

    async def test_an_agent_that_raises(self):
        """TASK-13, RPC-08: FAILED with a message that leaks nothing, the details in the log."""

        async def coroutine(turn):
            raise ValueError(self.SECRET)

        def plain(turn):
            raise ValueError(self.SECRET)

        async def generator(turn):
            yield "one"
            raise ValueError(self.SECRET)

        def plain_generator(turn):
            yield "one"
            raise StopIteration(self.SECRET)

        def leaves(turn):
            sys.exit(self.SECRET)

        async def leaves_too(turn):
            sys.exit(self.SECRET)

        class Inline(a2a.Agent):
            inline = True

            def run(self, turn):
                raise ValueError(Failing.SECRET)

        agents = coroutine, plain, generator, plain_generator, leaves, leaves_too, Inline()
        for agent in agents:
            with self.subTest(agent=agent):
                self.serve(agent)
                self.assert_hidden((await self.send())["task"])
                self.serve(agent)
                events = await read(await self.stream())
                self.assertEqual(words(events)[-1], "FAILED")
                self.assertEqual(list(events[0]), ["task"])

    async def test_an_agent_that_raises_what_is_no_exception(self):
        """It ends its task and nothing else; the next message of the context has its turn."""

        class Odd(BaseException):
            pass

        def plain(turn):
            raise kind(self.SECRET)

        async def coroutine(turn):
            raise kind(self.SECRET)

        for kind in (Odd, KeyboardInterrupt, GeneratorExit, SystemExit):
            for agent in (plain, coroutine):
                with self.subTest(kind=kind, agent=agent):
                    self.serve(agent)
                    self.assert_hidden((await self.send(contextId="c"))["task"])
                    events = await read(await self.stream(contextId="c"))
                    self.assertEqual(words(events)[-1], "FAILED")
                    self.assertEqual(self.service.runner.places.running, 0)

    async def test_what_was_said_before_stays(self):
        async def agent(turn):
            yield "one"
            yield "two"
            raise ValueError(self.SECRET)

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(a2a.text_of(task), "onetwo")

    async def test_an_agents_own_words(self):
        async def agent(turn):
            raise a2a.TaskFailed("No such flight")

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(a2a.text_of(task["status"]), "No such flight")
        self.assertEqual(self.logged, [])

    async def test_an_agent_refuses_a_message_with_an_error_of_the_protocol(self):
        async def agent(turn):
            if "later" in turn.text:
                await asyncio.sleep(0.01)
            if "said" in turn.text:
                turn.status("on it")
            raise a2a.ContentTypeNotSupportedError("no cats")

        self.serve(agent)
        for text in ("now", "later"):
            with self.assertRaisesRegex(a2a.ContentTypeNotSupportedError, "no cats"):
                await self.send(text)
            with self.assertRaisesRegex(a2a.ContentTypeNotSupportedError, "no cats"):
                await read(await self.stream(text))
        self.assertEqual([], self.logged)
        task = (await self.send("said"))["task"]
        self.assertEqual(a2a.FAILED, task["status"]["state"])
        self.assertNotIn("no cats", str(task))
        listed = await self.call("ListTasks", {})
        self.assertEqual([task["id"]], [one["id"] for one in listed["tasks"]])

    async def test_an_answer_that_is_none(self):
        """JSON-06: what goes out has parts of the right shape, or the task fails."""
        for answer in (
            42,
            {"text": 1},
            {"data": float("nan")},
            [None],
            {"parts": []},
            {"parts": 1},
        ):

            async def agent(turn, answer=answer):
                return answer

            self.serve(agent)
            task = (await self.send())["task"]
            self.assertEqual(task["status"]["state"], a2a.FAILED, answer)
            self.assertEqual(len(self.logged), 1)

    async def test_an_agent_that_cancels_itself(self):
        async def agent(turn):
            raise asyncio.CancelledError

        self.serve(agent)
        self.assertEqual((await self.send())["task"]["status"]["state"], a2a.FAILED)

    async def test_a_task_that_grows_too_big(self):
        """CLI-14: the agent is stopped, the task failed with the reason."""
        stopped = []

        async def agent(turn):
            try:
                while True:
                    yield "x" * 1_000_000
                    await asyncio.sleep(0)
            finally:
                stopped.append(True)

        a2a.TASK_BYTES, kept = 5_000_000, a2a.TASK_BYTES
        self.addCleanup(setattr, a2a, "TASK_BYTES", kept)
        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.FAILED)
        self.assertIn("too big", a2a.text_of(task["status"]))
        await asyncio.sleep(0.01)
        self.assertEqual(stopped, [True])

    async def test_a_store_that_breaks(self):
        """RPC-08: a failure of ours is an InternalError without its details."""

        class Broken(a2a.MemoryStore):
            async def get(self, owner, task_id):
                raise OSError(Failing.SECRET)

            async def apply(self, owner, task_id, event):
                if "artifactUpdate" in event:
                    raise OSError(Failing.SECRET)
                return await super().apply(owner, task_id, event)

        self.serve("echo", Broken())
        fault = await self.refused(a2a.InternalError, self.get("x"))
        self.assertNotIn("s3cret", str(fault))
        await self.refused(a2a.InternalError, self.subscribe("x"))
        self.assertEqual(len(self.logged), 2)
        self.assertEqual(words(await read(await self.stream()))[-1], "FAILED")

    async def test_an_agent_that_changes_what_it_is_given(self):
        """The ids of its events are those of its task all the same."""

        async def clears(turn):
            turn.message.clear()
            turn.status("busy")
            return "done"

        async def renames(turn):
            turn.message.update(taskId=None, contextId=7)
            turn.reply("done")

        for agent in (clears, renames):
            self.serve(agent)
            sent = await self.send(contextId="c")
            shown = sent.get("task") or sent["message"]
            self.assertEqual("c", shown["contextId"])
            events = await read(await self.stream(contextId="c"))
            for event in events:
                ((_, value),) = event.items()
                self.assertEqual("c", value["contextId"])

    async def test_an_artifact_whose_name_is_no_text(self):
        """Nothing gets into a task that could not be written into an answer."""

        async def agent(turn):
            turn.artifact("x", **{turn.text: object()})

        self.serve(agent)
        for wrong in ("name", "description", "artifact_id", "metadata"):
            with self.subTest(wrong):
                task = (await self.send(wrong))["task"]
                self.assertEqual(task["status"]["state"], a2a.FAILED)
                self.assertEqual(words(await read(await self.stream(wrong)))[-1], "FAILED")

    async def test_a_full_store_refuses(self):
        """CLI-14: stored tasks are bounded in bytes."""

        async def agent(turn):
            turn.need_auth("a signature")

        self.serve(agent, a2a.MemoryStore(limit_bytes=20_000))
        results = [await self.send() for _ in range(30)]
        states = [result["task"]["status"]["state"] for result in results]
        self.assertEqual(states[0], a2a.AUTH_REQUIRED)
        self.assertEqual(states[-1], a2a.FAILED)
        self.assertIn("no room", a2a.text_of(results[-1]["task"]["status"]))

    async def test_a_stream_for_which_there_is_no_room(self):
        """CLI-14: it ends with that error, it does not stay silent."""

        async def agent(turn):
            if turn.text == "hi":
                turn.need_auth("a signature")
            else:
                turn.status("busy")
                await asyncio.sleep(0.01)

        self.serve(agent, a2a.MemoryStore(limit_bytes=20_000))
        for _ in range(30):
            await self.send()
        with self.assertRaisesRegex(a2a.RateLimitedError, "no room"):
            await asyncio.wait_for(read(await self.stream("more")), 10)
        runner = self.service.runner
        self.assertEqual((runner.lives, runner.places.running), ({}, 0))

    async def test_conversations_that_nobody_goes_on_with_make_room(self):
        """CLI-14: an agent that asks cannot be locked by questions that stay open."""

        async def agent(turn):
            turn.ask("more") if turn.text != "enough" else turn.status("fine")

        self.serve(agent, a2a.MemoryStore(limit_bytes=20_000))
        results = [await self.send() for _ in range(30)]
        states = {result["task"]["status"]["state"] for result in results}
        self.assertEqual(states, {a2a.INPUT_REQUIRED})
        first, last = results[0]["task"]["id"], results[-1]["task"]["id"]
        watched = await self.subscribe(last)
        await self.refused(a2a.TaskNotFoundError, self.send("enough", taskId=first))
        done = await self.send("enough", taskId=last)
        self.assertEqual(done["task"]["status"]["state"], a2a.COMPLETED)
        self.assertEqual(words(await read(watched))[-1], "COMPLETED")

    async def test_a_conversation_that_had_to_make_room_while_it_was_watched(self):
        """Its streams stay silent, but who answers is told."""

        async def agent(turn):
            turn.ask("more")

        self.serve(agent, a2a.MemoryStore(limit_bytes=20_000))
        first = (await self.send())["task"]["id"]
        watched = await self.subscribe(first)
        for _ in range(30):
            await self.send()
        await self.refused(a2a.TaskNotFoundError, self.send("an answer", taskId=first))
        self.assertEqual((await self.send())["task"]["status"]["state"], a2a.INPUT_REQUIRED)
        watched.close()
        await self.refused(a2a.TaskNotFoundError, self.get(first))


class Owners(ServiceTest):
    async def test_a_foreign_task_is_a_missing_one(self):
        """LIST-05: for every operation, word by word the same."""

        async def agent(turn):
            turn.ask("which?")

        self.serve(agent, card={"capabilities": {"streaming": True}})
        task = (await self.send("hi", ANNA))["task"]
        texts = set()
        for task_id in (task["id"], "00000000-0000-4000-8000-000000000000"):
            for awaitable in (
                self.get(task_id, BERT),
                self.call("CancelTask", {"id": task_id}, BERT),
                self.send("hi", BERT, taskId=task_id),
                self.stream("hi", BERT, taskId=task_id),
                self.subscribe(task_id, BERT),
                self.get(task_id),
                self.get(task_id, ANNA, tenant="acme"),
            ):
                texts.add(str(await self.refused(a2a.TaskNotFoundError, awaitable)))
        self.assertEqual(len(texts), 1)
        self.assertEqual((await self.call("ListTasks", {}, BERT))["totalSize"], 0)
        self.assertEqual((await self.get(task["id"], ANNA))["id"], task["id"])

    async def test_the_display_name_is_no_key(self):
        self.serve("echo")
        task = (await self.send("hi", ANNA))["task"]
        self.assertEqual(
            (await self.get(task["id"], ANNA._replace(display="Anne")))["id"], task["id"]
        )

    async def test_one_context_name_of_two_owners_is_two_contexts(self):
        running = []

        async def agent(turn):
            running.append(turn.caller.display)
            turn.status()
            await asyncio.sleep(60)

        self.serve(agent)
        for caller in (ANNA, BERT):
            await self.send_now("hi", caller, contextId="c")
        self.assertEqual(running, ["Anna", "Bert"])


class Limits(ServiceTest):
    async def test_turns_of_one_context_run_one_after_another(self):
        """TASK-16: no interleaving, in the order of arrival."""
        steps = []

        async def agent(turn):
            steps.append("+" + turn.text)
            await asyncio.sleep(0.01)
            steps.append("-" + turn.text)
            return turn.text

        self.serve(agent)
        sends = [self.send(str(n), contextId="c") for n in range(5)]
        results = await asyncio.gather(*sends)
        self.assertEqual([a2a.text_of(r) for r in results], list("01234"))
        self.assertEqual(steps, [sign + str(n) for n in range(5) for sign in "+-"])

    async def test_different_contexts_run_side_by_side(self):
        """TASK-16: twenty at once, as many as may."""
        most = running = 0

        async def agent(turn):
            nonlocal most, running
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return turn.text

        for limit, expected in ((0, 20), (3, 3)):
            most = 0
            self.serve(agent, max_concurrent_tasks=limit)
            results = await asyncio.gather(*[self.send(str(n)) for n in range(20)])
            self.assertEqual([a2a.text_of(r) for r in results], [str(n) for n in range(20)])
            self.assertEqual(most, expected)
            self.assertEqual(self.service.runner.places.running, 0)

    async def test_waiting_tasks_show_as_submitted_then_working(self):
        release = asyncio.Event()

        async def agent(turn):
            await release.wait()
            return turn.text

        self.serve(agent, max_concurrent_tasks=1)
        await self.send_now("one")
        stream = await self.stream("two")
        first = json.loads((await stream.__anext__())[0])
        self.assertEqual(first["task"]["status"]["state"], a2a.SUBMITTED)
        release.set()
        self.assertEqual(words(await read(stream)), ["WORKING", "two", "COMPLETED"])

    async def test_a_full_queue(self):
        """CLI-14: 429 with a time to try again, and nothing is stored of it."""

        async def agent(turn):
            await asyncio.sleep(60)

        self.serve(agent, max_concurrent_tasks=1, queue=2)
        tasks = [await self.send_now(str(n)) for n in range(3)]
        for awaitable in (self.send(), self.stream(), self.send(contextId="c")):
            fault = await self.refused(a2a.RateLimitedError, awaitable)
            self.assertGreater(fault.retry_after_s, 0)
        self.assertEqual((await self.call("ListTasks"))["totalSize"], 3)
        self.assertEqual((await self.send_now("other", ANNA))["status"]["state"], a2a.SUBMITTED)
        await self.call("CancelTask", {"id": tasks[0]["id"]})
        await self.send_now("now there is room")

    async def test_the_queue_is_the_callers_whatever_tenants_it_names(self):
        """A tenant is a word of the request: a new one for each message makes no new caller."""

        async def agent(turn):
            await asyncio.sleep(0 if turn.text == "quick" else 60)

        def ask(tenant, caller, text="hi"):
            settings = {"returnImmediately": True}
            params = {"tenant": tenant, "message": message(text), "configuration": settings}
            return self.call("SendMessage", params, caller)

        self.serve(agent, max_concurrent_tasks=1, queue=2)
        tasks = [(await ask(f"t{n}", ANNA))["task"] for n in range(3)]
        await self.refused(a2a.RateLimitedError, ask("t9", ANNA))
        asked = await self.send_now("quick", BERT)
        await self.call("CancelTask", {"id": tasks[1]["id"], "tenant": "t1"}, ANNA)
        await self.call("CancelTask", {"id": tasks[0]["id"], "tenant": "t0"}, ANNA)
        await self.call("CancelTask", {"id": tasks[2]["id"], "tenant": "t2"}, ANNA)
        done = await self.call("SendMessage", {"message": message("quick")}, BERT)
        self.assertEqual(done["task"]["status"]["state"], a2a.COMPLETED)
        self.assertEqual((await self.get(asked["id"], BERT))["status"]["state"], a2a.COMPLETED)
        places = self.service.runner.places
        self.assertEqual((places.running, places._lines, places._ready, places._waiting),
                         (0, {}, {}, {}))  # fmt: skip

    async def test_five_hundred_at_once(self):
        """CLI-14: what is too much is refused, the rest served."""

        async def agent(turn):
            await asyncio.sleep(0.001)
            return turn.text

        self.serve(agent, max_concurrent_tasks=4)
        sends = [self.send(str(n)) for n in range(500)]
        results = await asyncio.gather(*sends, return_exceptions=True)
        served = [r for r in results if isinstance(r, dict)]
        refused = [r for r in results if isinstance(r, a2a.RateLimitedError)]
        self.assertEqual((len(served), len(refused)), (104, 396))
        self.assertEqual(a2a.text_of(await self.send("still there")), "still there")

    async def test_a_free_place_goes_to_the_owners_in_turn(self):
        order = []

        async def agent(turn):
            order.append(turn.text)
            await asyncio.sleep(0.001)

        self.serve(agent, max_concurrent_tasks=1)
        sends = [self.send(f"a{n}", ANNA) for n in range(3)]
        sends += [self.send(f"b{n}", BERT) for n in range(3)]
        await asyncio.gather(*sends)
        self.assertEqual(order, ["a0", "a1", "b0", "a2", "b1", "b2"])

    async def test_so_many_a_minute(self):
        self.serve("echo", tasks_a_minute=3)
        for _ in range(3):
            await self.send("hi", ANNA)
        for awaitable in (self.send("hi", ANNA), self.stream("hi", ANNA)):
            fault = await self.refused(a2a.RateLimitedError, awaitable, "minute")
            self.assertTrue(50 < fault.retry_after_s <= 61)
        await self.send("hi", BERT)
        call = make_call("SendMessage", {"tenant": "t", "message": message()}, ANNA)
        await self.refused(a2a.RateLimitedError, self.service.call(call))

    def test_a_minute_passes(self):
        clock = 0.0
        pace = a2a.Pace(2, lambda: clock)
        steps = (0, True), (30, True), (59, False), (60.5, True), (61, False), (91, True)
        for clock, fits in steps:
            if fits:
                pace.step(ANNA)
                continue
            with self.assertRaises(a2a.RateLimitedError) as caught:
                pace.step(ANNA)
            self.assertEqual(caught.exception.retry_after_s, {59: 2, 61: 30}[clock])
        clock = 500.0
        pace.step(BERT)
        self.assertEqual(list(pace._times), [BERT.owner])


class Declared(ServiceTest):
    async def test_what_the_card_does_not_declare(self):
        """SSE-16, PUSH-09: streams are an UnsupportedOperation; push has an error of its own."""
        for card in ({"capabilities": {}}, {}):
            self.serve("echo", card=card)
            task = (await self.send())["task"]
            for awaitable in (self.stream(), self.subscribe(task["id"])):
                await self.refused(a2a.UnsupportedOperationError, awaitable, "streaming")
            await self.refused(a2a.UnsupportedOperationError, self.call("GetExtendedAgentCard"))
            url = {"taskId": task["id"], "url": "https://h.example/"}
            names = {"taskId": task["id"], "id": "p"}
            for operation, params in (
                ("CreateTaskPushNotificationConfig", url),
                ("GetTaskPushNotificationConfig", names),
                ("ListTaskPushNotificationConfigs", {"taskId": task["id"]}),
                ("DeleteTaskPushNotificationConfig", names),
            ):
                awaitable = self.call(operation, params)
                await self.refused(a2a.PushNotificationNotSupportedError, awaitable)
            configuration = {"taskPushNotificationConfig": {"url": "https://h.example/"}}
            await self.refused(
                a2a.PushNotificationNotSupportedError, self.send(configuration=configuration)
            )

    async def test_an_extended_card_that_is_not_there(self):
        self.serve("echo", card={"capabilities": {"extendedAgentCard": True}})
        awaitable = self.call("GetExtendedAgentCard")
        await self.refused(a2a.ExtendedAgentCardNotConfiguredError, awaitable)

    async def test_a_required_extension(self):
        """EXT-01: who does not name it is refused."""
        extensions = [{"uri": "https://e.example/x", "required": True}, {"uri": "other"}]
        self.serve("echo", card={"capabilities": {"extensions": extensions}})
        awaitable = self.send()
        await self.refused(a2a.ExtensionSupportRequiredError, awaitable, "https://e.example/x")
        named = ("other", "https://e.example/x")
        await self.call("SendMessage", {"message": message()}, extensions=named)

    async def test_media_types_that_a_strict_agent_does_not_take(self):
        class Strict(a2a.EchoAgent):
            defaults = a2a.Defaults(input_modes=("text/*", "application/json"), strict=True)

        self.serve(Strict())
        for part, fits in (
            ({"text": "x"}, True),
            ({"text": "x", "mediaType": "Text/Markdown; charset=utf-8"}, True),
            ({"data": 1}, True),
            ({"data": 1, "mediaType": "application/xml"}, False),
            ({"raw": "AAAA"}, False),
            ({"raw": "AAAA", "mediaType": "text/csv"}, True),
            ({"url": "https://h.example/x.png", "mediaType": "image/png"}, False),
        ):
            params = {"message": {**message(), "parts": [{"text": "x"}, part]}}
            if fits:
                await self.call("SendMessage", params)
            else:
                awaitable = self.call("SendMessage", params)
                await self.refused(a2a.ContentTypeNotSupportedError, awaitable, "message.parts[1]")


class Stopping(ServiceTest):
    async def test_open_tasks_fail_with_the_reason(self):
        stopped = []

        async def agent(turn):
            if turn.text != "hidden":
                turn.status()
            try:
                await asyncio.sleep(60)
            finally:
                stopped.append(turn.text)

        self.serve(agent, max_concurrent_tasks=2)
        stream = await self.stream("one")
        hidden = asyncio.ensure_future(self.send("hidden"))
        waiting = asyncio.ensure_future(self.send("waiting"))
        await asyncio.sleep(0.02)
        await self.service.close()
        events = await read(stream)
        self.assertEqual(words(events), ["SUBMITTED", "WORKING", "FAILED"])
        self.assertIn("stopped", a2a.text_of(events[-1]["statusUpdate"]["status"]))
        for sending in (hidden, waiting):
            self.assertEqual((await sending)["task"]["status"]["state"], a2a.FAILED)
        self.assertEqual(sorted(stopped), ["hidden", "one"])
        fault = await self.refused(a2a.RateLimitedError, self.send(), "stopping")
        self.assertGreater(fault.retry_after_s, 0)

    async def test_streams_of_parked_tasks_end_and_the_tasks_stay(self):
        async def agent(turn):
            turn.ask("which?")

        self.serve(agent)
        task = (await self.send())["task"]
        stream = await self.subscribe(task["id"])
        await self.service.close()
        self.assertEqual(words(await read(stream)), ["INPUT_REQUIRED"])
        kept = await self.store.get(a2a.ANONYMOUS.owner, task["id"])
        self.assertEqual(kept["status"]["state"], a2a.INPUT_REQUIRED)


class Commands(ServiceTest):
    def command(self, script):
        return f'exec:"{sys.executable}" -c "{script}"'

    async def test_a_task_shows_at_once_and_works_when_it_has_a_place(self):
        self.serve(self.command("import time; time.sleep(0.3); print(1)"), max_concurrent_tasks=1)
        started = time.monotonic()
        first, second = await self.send_now(), await self.send_now()
        self.assertLess(time.monotonic() - started, 0.25)
        self.assertEqual(second["status"]["state"], a2a.SUBMITTED)
        events = await read(await self.stream())
        self.assertEqual(words(events), ["SUBMITTED", "WORKING", "1", "COMPLETED"])
        self.assertEqual(a2a.text_of(await self.get(first["id"])), "1")

    async def test_a_question_and_its_answer(self):
        question = "'[INPUT_REQUIRED] which?' if t == 'buy' else t"
        script = f"import sys; t = sys.stdin.read(); print({question})"
        self.serve(self.command(script))
        task = (await self.send("buy"))["task"]
        self.assertEqual(task["status"]["state"], a2a.INPUT_REQUIRED)
        self.assertEqual(a2a.text_of(task["status"]), "which?")
        task = (await self.send("that", taskId=task["id"]))["task"]
        self.assertEqual(a2a.text_of(task), "that")

    async def test_a_failure(self):
        self.serve(self.command("import sys; sys.exit('no such flight')"))
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.FAILED)
        self.assertIn("exit status 1: no such flight", a2a.text_of(task["status"]))
        self.assertEqual(self.logged, [])

    async def test_cancelling(self):
        """TASK-03: CANCELED comes once the command has ended."""
        self.serve(self.command("import time; print(1, flush=True); time.sleep(60)"))
        task = await self.send_now()
        while "artifacts" not in await self.get(task["id"]):
            await asyncio.sleep(0.01)
        done = await self.call("CancelTask", {"id": task["id"]})
        self.assertEqual(done["status"]["state"], a2a.CANCELED)
        self.assertEqual(self.service.runner.places.running, 0)

    async def test_what_is_no_text_lies_in_the_inbox(self):
        script = "import os; p = os.environ['A2A_INBOX']; print(*sorted(os.listdir(p)))"
        self.serve(self.command(script))
        parts = [{"data": 1}, {"raw": "AAAA"}, {"url": "https://h.example/"}, {"text": "x"}]
        result = await self.call("SendMessage", {"message": {**message(), "parts": parts}})
        self.assertEqual(a2a.text_of(result["task"]), "part-1.json part-2.bin part-3.url")

    async def test_stopping_ends_it_soon(self):
        self.serve(self.command("import time; print(1, flush=True); time.sleep(60)"))
        sending = asyncio.ensure_future(self.send())
        await asyncio.sleep(0.3)
        started = time.monotonic()
        await self.service.close()
        self.assertEqual((await sending)["task"]["status"]["state"], a2a.FAILED)
        self.assertLess(time.monotonic() - started, 5)

    async def test_no_more_than_so_many_a_minute(self):
        self.serve(self.command("print(1)"), tasks_a_minute=1)
        await self.send()
        await self.refused(a2a.RateLimitedError, self.send(), "minute")


class Turns(ServiceTest):
    async def test_calls_from_many_threads_keep_the_order_of_each(self):
        def agent(turn):
            def speak(name):
                for number in range(100):
                    turn.status(f"{name} {number}")

            threads = [threading.Thread(target=speak, args=(name,)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            turn.status("all")

        self.serve(agent)
        task = (await self.send())["task"]
        said = [a2a.text_of(m).split() for m in task["history"][1:]]
        self.assertEqual(said[-1], ["all"])
        for name in "ab":
            self.assertEqual([int(s[1]) for s in said if s[0] == name], list(range(100)))

    async def test_what_a_turn_knows(self):
        seen = []

        async def agent(turn):
            seen.append(turn)
            return

        self.serve(agent)
        params = {
            "message": {**message("a"), "parts": [{"text": "a"}, {"data": 1}, {"text": "b"}]},
            "configuration": {"acceptedOutputModes": ["text/plain"]},
            "metadata": {"k": "v"},
        }
        task = (await self.call("SendMessage", params, ANNA))["task"]
        (turn,) = seen
        self.assertEqual((turn.text, turn.number, turn.caller), ("a\nb", 1, ANNA))
        self.assertEqual(turn.message["taskId"], task["id"])
        self.assertEqual(turn.task["id"], task["id"])
        self.assertEqual(turn.history, [turn.message])
        self.assertEqual((turn.accepted, turn.params["metadata"]), (["text/plain"], {"k": "v"}))
        self.assertEqual((turn.inbox, turn.outbox), ("", ""))
        self.assertEqual(task["status"]["state"], a2a.COMPLETED)
        self.assertNotIn("artifacts", task)

    async def test_artifacts(self):
        async def agent(turn):
            one = turn.artifact("one", name="x", description="d", metadata={"m": 1})
            two = turn.artifact(["two", {"data": 2}])
            turn.artifact("+", append=True)
            turn.artifact("1", artifact_id=one, append=True)
            turn.artifact("three", name="y")
            turn.artifact("four", name="y", last=True)
            turn.artifact("five", artifact_id="mine")
            with self.assertRaises(a2a.UsageError):
                turn.artifact("?", name="z", append=True)
            turn.status(f"{one == two}")

        self.serve(agent)
        task = (await self.send())["task"]
        said = [(a.get("name"), a["parts"]) for a in task["artifacts"]]
        self.assertEqual(
            said,
            [
                ("x", [{"text": "one1"}]),
                (None, [{"text": "two"}, {"data": 2}, {"text": "+"}]),
                ("y", [{"text": "four"}]),
                (None, [{"text": "five"}]),
            ],
        )
        self.assertEqual(task["artifacts"][0]["metadata"], {"m": 1})
        self.assertEqual(a2a.text_of(task["history"][-1]), "False")

    async def test_rejecting(self):
        async def agent(turn):
            turn.reject("not mine")

        self.serve(agent)
        task = (await self.send())["task"]
        self.assertEqual(task["status"]["state"], a2a.REJECTED)
        self.assertEqual(a2a.text_of(task["status"]), "not mine")

    async def test_a_whole_message_as_the_reply(self):
        async def agent(turn):
            return {"parts": [{"text": "hello"}], "metadata": {"k": 1}, "role": "ROLE_USER"}

        self.serve(agent)
        reply = (await self.send())["message"]
        self.assertEqual((reply["role"], reply["metadata"]), ("ROLE_AGENT", {"k": 1}))
        self.assertTrue(reply["messageId"])


if __name__ == "__main__":
    unittest.main()
