"""Chapter 16: cards, interfaces, calls, streams and waits, against agents that a test scripts."""

import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

CARD = "/.well-known/agent-card.json"
OLD_CARD = "/.well-known/agent.json"
QUICK = {"poll_interval_s": 0.05, "timeout_s": 20.0}
WORKING, COMPLETED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"


def task(state=COMPLETED, task_id="t1", **more):
    return {"id": task_id, "contextId": "c1", "status": {"state": state}, **more}


def status(state, task_id="t1", text=""):
    update = {"taskId": task_id, "contextId": "c1", "status": {"state": state}}
    if text:
        update["status"]["message"] = support.message(text, role="ROLE_AGENT")
    return {"statusUpdate": update}


def chunk(text, artifact_id="a", task_id="t1", **flags):
    artifact = {"artifactId": artifact_id, "parts": [{"text": text}]}
    update = {"taskId": task_id, "contextId": "c1", "artifact": artifact, **flags}
    return {"artifactUpdate": update}


def text_of_artifacts(value):
    return {a["artifactId"]: a2a.text_of(a) for a in value.get("artifacts", [])}


class Agent(support.Peer):
    """An agent of our own: serves its card, and calls on(operation) for everything else.

    on        {operation: function(exchange)}; the exchange has params, result, event and more
    card      changes to the card; calls: what was called, as (operation, params, headers)
    """

    def __init__(self, on=None, card=None, interfaces=None, card_path=CARD, **more):
        super().__init__(self.talk, **more)
        self.on = on or {}
        self.card_path = card_path
        self.card = {
            "name": "test agent", "description": "d", "version": "1",
            "supportedInterfaces": interfaces or [
                {"url": self.url + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": self.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            ],
            "capabilities": {"streaming": True}, "skills": [],
            "defaultInputModes": [], "defaultOutputModes": [], **(card or {}),
        }  # fmt: skip
        self.card_headers = {}
        self.calls = []

    def talk(self, visit):
        while True:
            request = visit.read()
            if request is None:
                return
            if request[0] == "GET" and request[1].split("?")[0].endswith((CARD, OLD_CARD)):
                found = request[1].split("?")[0] == self.card_path
                visit.answer(self.card if found else {}, 200 if found else 404, **self.card_headers)
            elif not self.serve(visit, request):
                return

    def serve(self, visit, request):
        exchange = Exchange(visit, request)
        self.calls.append((exchange.operation, exchange.params, request[2]))
        function = self.on.get(exchange.operation)
        if function is None:
            exchange.error(-32601, "no such thing")
        else:
            function(exchange)
        return not exchange.streaming

    def called(self, operation=None):
        """Give the operations called, or the params of the calls of one."""
        if operation is None:
            return [call[0] for call in self.calls]
        return [params for name, params, _ in self.calls if name == operation]

    def paths(self):
        return [request[1] for request in self.requests]


class Exchange:
    """One call of the agent under test, over JSON-RPC or REST."""

    def __init__(self, visit, request):
        self.visit = visit
        self.method, self.target, self.headers, body = request
        self.streaming = False
        self.value = json.loads(body) if body else {}
        self.rpc = "jsonrpc" in self.value
        if self.rpc:
            self.operation, self.params = self.value["method"], self.value.get("params", {})
        else:
            self.operation, self.params = f"{self.method} {self.target}", self.value

    def wrap(self, result):
        return {"jsonrpc": "2.0", "id": self.value["id"], "result": result} if self.rpc else result

    def result(self, value, **headers):
        self.visit.answer(self.wrap(value), **headers)

    def error(self, code, message, status=200, reason=""):
        if self.rpc:
            error = {"code": code, "message": message}
            self.visit.answer({"jsonrpc": "2.0", "id": self.value["id"], "error": error}, status)
        else:
            detail = {"@type": a2a.ERROR_INFO, "reason": reason, "domain": "a2a-protocol.org"}
            error = {"code": status, "message": message, "details": [detail] if reason else []}
            self.visit.answer({"error": error}, status)

    def begin(self):
        self.streaming = True
        self.visit.begin_stream()

    def event(self, value):
        self.visit.event(self.wrap(value))

    def stream(self, *events):
        """Send a whole stream and end it."""
        self.begin()
        for event in events:
            self.event(event)

    def hang(self):
        """Send nothing more until the client has gone."""
        self.streaming = True
        self.visit.wait_for_end()


def answer(value):
    """Give a function for Agent.on that answers with one value."""
    return lambda exchange: exchange.result(value)


def events(*values):
    """Give a function for Agent.on that streams values and ends."""
    return lambda exchange: exchange.stream(*values)


def each(*functions):
    """Give a function for Agent.on that is another one each time; the last stays."""
    waiting = list(functions)
    return lambda exchange: (waiting.pop(0) if len(waiting) > 1 else waiting[0])(exchange)


class ClientCase(unittest.TestCase):
    def setUp(self):
        self.warnings, self.log = [], []

    def agent(self, *arguments, **more):
        agent = Agent(*arguments, **more)
        self.addCleanup(agent.close)
        return agent

    def client(self, agent, **options):
        options = {**QUICK, "warn": self.warnings.append, "debug": self.log.append, **options}
        client = a2a.Client(agent.url if isinstance(agent, support.Peer) else agent, **options)
        self.addCleanup(client.close)
        return client

    def fails(self, kind, function, *arguments, **more):
        with self.assertRaises(kind) as caught:
            found = function(*arguments, **more)
            self.fail(f"gave {list(found) if hasattr(found, '__next__') else found}")
        return caught.exception


class CallTest(ClientCase):
    def test_an_answer_is_a_task_or_a_message(self):
        """RPC-07: the result of SendMessage is wrapped."""
        for reply, bindings in (
            ({"task": task(artifacts=[{"artifactId": "a", "parts": [{"text": "hi"}]}])}, "JSONRPC"),
            ({"message": support.message("hi", role="ROLE_AGENT")}, "HTTP+JSON"),
        ):
            agent = self.agent(
                {"SendMessage": answer(reply), "POST /message:send": answer(reply)},
                {"capabilities": {}},
            )
            with self.subTest(bindings=bindings):
                client = self.client(agent, transport=[bindings])
                self.assertEqual(reply, client.send("hello"))
                self.assertEqual("hi", a2a.text_of(client.send("hello")))
                self.assertEqual(bindings, client.transport)

    def test_a_bare_task_is_taken_with_a_warning(self):
        """RPC-07: "result":{"id":"t","status":{...}}."""
        agent = self.agent({"SendMessage": answer(task())}, {"capabilities": {}})
        self.assertEqual({"task": task()}, self.client(agent).send("x"))
        self.assertIn("bare task", self.warnings[0])

    def test_the_message_carries_what_was_given(self):
        agent = self.agent({"SendMessage": answer({"task": task()})}, {"capabilities": {}})
        client = self.client(agent)
        client.send(
            ["a", b"\x00\xff", {"data": {"n": 1}}],
            task_id="t1", context_id="c1", metadata={"a": 1}, message_metadata={"b": 2},
            history_length=0, accepted=["text/plain"], wait=False,
        )  # fmt: skip
        params = agent.called("SendMessage")[0]
        message = params.pop("message")
        self.assertEqual(
            {
                "metadata": {"a": 1},
                "configuration": {
                    "acceptedOutputModes": ["text/plain"],
                    "historyLength": 0,
                    "returnImmediately": True,
                },
            },
            params,
        )
        self.assertEqual([{"text": "a"}, {"raw": "AP8="}, {"data": {"n": 1}}], message["parts"])
        self.assertEqual(("t1", "c1"), (message["taskId"], message["contextId"]))
        self.assertEqual(({"b": 2}, "ROLE_USER"), (message["metadata"], message["role"]))
        self.assertEqual(36, len(message["messageId"]))

    def test_a_whole_message_goes_as_it_is(self):
        agent = self.agent({"SendMessage": answer({"task": task()})}, {"capabilities": {}})
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "a"}]}
        self.client(agent).send(message)
        self.assertEqual(message, agent.called("SendMessage")[0]["message"])

    def test_a_mistake_of_ours_is_told_before_it_is_sent(self):
        agent = self.agent()
        client = self.client(agent)
        for call in (
            lambda: client.send([]),
            lambda: client.send(7),
            lambda: client.send({"parts": [{"text": 1}]}),
            lambda: client.list(pageSize=1000),
            lambda: client.get("t", history_length=-1),
            lambda: client.call("SubscribeToTask", {"id": "t"}),
            lambda: client.call("Nonsense", {}),
            lambda: a2a.Client(agent.url, nonsense=1),
        ):
            self.fails(a2a.UsageError, call)
        self.assertEqual([], agent.calls)

    def test_every_call_says_its_version_and_extensions(self):
        """VER-04: also for the card and the calls for push configurations."""
        config = {"taskId": "t", "id": "c", "url": "https://h.example/"}
        agent = self.agent(
            {
                "SendMessage": answer({"task": task()}),
                "GetTask": answer(task()),
                "ListTasks": answer({"tasks": [], "nextPageToken": ""}),
                "CancelTask": answer(task("TASK_STATE_CANCELED")),
                "CreateTaskPushNotificationConfig": answer(config),
                "GetExtendedAgentCard": answer({"name": "x"}),
            },
            {"capabilities": {"pushNotifications": True, "extendedAgentCard": True}},
        )
        client = self.client(agent, extensions=["https://x.example/1", "https://x.example/2"])
        client.send("x")
        client.get("t1", history_length=3)
        client.list(context_id="c1", pageSize=5)
        client.cancel("t1", {"why": "x"})
        client.call("CreateTaskPushNotificationConfig", config)
        client.extended_card()
        self.assertEqual(7, len(agent.requests))
        for _, _, headers, _ in agent.requests:
            self.assertEqual("1.0", headers["a2a-version"])
        for _, _, headers in agent.calls:
            self.assertEqual("https://x.example/1,https://x.example/2", headers["a2a-extensions"])
        self.assertEqual([{"id": "t1", "historyLength": 3}], agent.called("GetTask"))
        self.assertEqual([{"contextId": "c1", "pageSize": 5}], agent.called("ListTasks"))
        self.assertEqual([{"id": "t1", "metadata": {"why": "x"}}], agent.called("CancelTask"))

    def test_errors_of_the_agent_are_ours_by_name(self):
        def refuse(exchange):
            exchange.error(-32001, "not here", 404, "TASK_NOT_FOUND")

        agent = self.agent({"GetTask": refuse, "GET /tasks/t9": refuse})
        for binding in ("JSONRPC", "HTTP+JSON"):
            client = self.client(agent, transport=[binding])
            error = self.fails(a2a.TaskNotFoundError, client.get, "t9")
            self.assertEqual("not here", str(error))

    def test_a_capability_that_the_card_lacks_is_not_asked_for(self):
        agent = self.agent()
        client = self.client(agent)
        for operation, kind in (
            ("ListTaskPushNotificationConfigs", a2a.PushNotificationNotSupportedError),
            ("GetExtendedAgentCard", a2a.UnsupportedOperationError),
        ):
            params = {"taskId": "t"} if "Push" in operation else {}
            self.fails(kind, client.call, operation, params)
        self.assertEqual([], agent.calls)

    def test_a_version_that_is_not_spoken_is_said_with_the_one_asked_for(self):
        """VER-06: no silent step down."""
        agent = self.agent(
            {"GetTask": lambda exchange: exchange.error(-32009, "only 2.0 here")},
        )
        error = self.fails(a2a.VersionNotSupportedError, self.client(agent).get, "t")
        self.assertEqual("only 2.0 here (asked for: 1.0)", str(error))
        self.fails(a2a.VersionNotSupportedError, self.client(agent, version="9.9").get, "t")
        self.assertEqual(["1.0", "9.9"], [headers["a2a-version"] for *_, headers in agent.calls])

    def test_a_second_cancel_is_no_error(self):
        """AMB-3: an agent may answer with the task or with TaskNotCancelable."""
        refuse = {"CancelTask": lambda exchange: exchange.error(-32002, "over")}
        for state in ("TASK_STATE_CANCELED", COMPLETED):
            agent = self.agent({**refuse, "GetTask": answer(task(state))})
            client = self.client(agent)
            if state == COMPLETED:
                self.fails(a2a.TaskNotCancelableError, client.cancel, "t1")
            else:
                self.assertEqual(state, client.cancel("t1")["status"]["state"])

    def test_a_call_is_not_redirected(self):
        """AUTH-02: a POST never follows; the error names the place."""

        def script(visit):
            visit.read()
            visit.answer(agent.card)
            visit.read()
            visit.answer(status=307, Location="https://evil.example/rpc")

        agent = Agent()
        agent.script = script
        self.addCleanup(agent.close)
        error = self.fails(a2a.PeerError, self.client(agent).get, "t")
        self.assertIn("307", str(error))
        self.assertIn("https://evil.example/rpc", str(error))
        self.assertEqual(2, len(agent.requests))

    def test_service_parameters_go_along_and_secrets_stay_out_of_the_log(self):
        """AUTH-25: --debug shows what goes over the wire, without credentials."""
        agent = self.agent({"GetTask": answer(task())})
        client = self.client(agent, headers={"X-Trace": "abc", "X-Api-Token": "hunter22"})
        client.get("t1")
        headers = agent.calls[0][2]
        self.assertEqual(("abc", "hunter22"), (headers["x-trace"], headers["x-api-token"]))
        log = "\n".join(self.log)
        self.assertIn("x-trace: abc", log)
        self.assertIn('"method":"GetTask"', log)
        self.assertIn("TASK_STATE_COMPLETED", log)
        self.assertNotIn("hunter22", log)

    def test_close_ends_a_wait_in_another_thread(self):
        agent = self.agent({"SendMessage": Exchange.hang}, {"capabilities": {}})
        client = self.client(agent, timeout_s=None)
        threading.Timer(0.2, client.close).start()
        with client:
            error = self.fails(a2a.TransportError, client.send, "x")
        self.assertEqual("The client was closed", str(error))


class StreamTest(ClientCase):
    def test_a_stream_gives_its_events_and_a_send_their_sum(self):
        values = [
            {"task": task(WORKING)},
            chunk("Hel"),
            chunk("lo", append=True),
            status(COMPLETED),
        ]
        for binding, operation in (
            ("JSONRPC", "SendStreamingMessage"),
            ("HTTP+JSON", "POST /message:stream"),
        ):
            agent = self.agent({operation: events(*values)})
            client = self.client(agent, transport=[binding])
            with self.subTest(binding=binding):
                found = list(client.stream("x"))
                self.assertEqual([next(iter(v)) for v in values], [next(iter(v)) for v in found])
                seen = []
                result = client.send("x", on_event=seen.append)["task"]
                self.assertEqual(found, seen)
                self.assertEqual(COMPLETED, result["status"]["state"])
                self.assertEqual({"a": "Hello"}, text_of_artifacts(result))
                self.assertEqual({operation}, set(agent.called()))


if __name__ == "__main__":
    unittest.main()
