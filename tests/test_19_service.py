"""Chapter 19, its first half: what a server does with a call, whichever way it came."""

import asyncio
import json
import pathlib
import sys
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


if __name__ == "__main__":
    unittest.main()
