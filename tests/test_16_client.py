"""Chapter 16: cards, interfaces, calls, streams and waits, against agents that a test scripts."""

import json
import pathlib
import random
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

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

    def test_a_stream_that_is_answered_without_one_is_an_error_or_one_event(self):
        """SSE-13: 200 application/json with a JSON-RPC error, or with a result."""
        agent = self.agent(
            {"SendStreamingMessage": lambda exchange: exchange.error(-32005, "no such type")}
        )
        error = self.fails(a2a.ContentTypeNotSupportedError, self.client(agent).send, "x")
        self.assertEqual("no such type", str(error))
        agent = self.agent({"SendStreamingMessage": answer({"task": task()})})
        self.assertEqual([{"task": task()}], list(self.client(agent).stream("x")))

    def test_a_stream_refused_by_status_is_reported_as_that(self):
        """SSE-14: 503 text/html."""
        page = b"<html><h1>down</h1>" + b"x" * 100_000
        for status_code, body, kind in (
            (503, page, a2a.HttpError),
            (404, b'{"detail":"Not Found"}', a2a.A2AError),
            (401, b"", a2a.CredentialsMissing),
        ):
            agent = self.agent(
                {
                    "SendStreamingMessage": lambda exchange, b=body, s=status_code: (
                        exchange.visit.answer(
                            b, s, "text/html", WWW_Authenticate='Bearer realm="x"'
                        )
                    )
                }
            )
            error = self.fails(kind, list, self.client(agent).stream("x"))
            self.assertIn(str(status_code), str(error))
            self.assertLess(len(str(error)), 500)
        self.assertIn('Bearer realm="x"', error.hint)

    def test_without_streaming_in_the_card_we_send_and_poll(self):
        """SSE-16: card {"capabilities":{}}."""
        on = {
            "SendMessage": answer({"task": task("TASK_STATE_SUBMITTED")}),
            "GetTask": each(answer(task(WORKING)), answer(task(WORKING)), answer(task())),
        }
        agent = self.agent(on, {"capabilities": {}})
        client = self.client(agent)
        states = [event["task"]["status"]["state"] for event in client.stream("x")]
        self.assertEqual(["TASK_STATE_SUBMITTED", WORKING, COMPLETED], states)
        self.assertEqual(["SendMessage", *["GetTask"] * 3], agent.called())
        settings = agent.called("SendMessage")[0]["configuration"]
        self.assertEqual({"returnImmediately": True}, settings)

    def test_a_card_that_promises_streaming_in_vain(self):
        """SSE-16: the agent answers UnsupportedOperation, so we send and poll."""
        agent = self.agent(
            {
                "SendStreamingMessage": lambda exchange: exchange.error(-32004, "no"),
                "SendMessage": answer({"task": task()}),
            }
        )
        self.assertEqual({"task": task()}, self.client(agent).send("x"))

    def test_a_stream_may_begin_with_an_update_and_show_the_task_later(self):
        """SSE-21: statusUpdate, statusUpdate, task(final)."""
        final = task(artifacts=[{"artifactId": "a", "parts": [{"text": "all"}]}])
        agent = self.agent(
            {
                "SendStreamingMessage": events(status(WORKING), status(WORKING), {"task": final}),
                "GetTask": answer(final),
            }
        )
        self.assertEqual({"task": final}, self.client(agent).send("x"))

    def test_a_task_never_shown_whole_is_asked_for(self):
        """SSE-21: what came before the first event is not known, so we ask."""
        whole = task(history=[support.message("x", messageId="m")])
        agent = self.agent(
            {"SendStreamingMessage": events(status(COMPLETED)), "GetTask": answer(whole)}
        )
        self.assertEqual({"task": whole}, self.client(agent).send("x"))
        agent.on["GetTask"] = lambda exchange: exchange.error(-32001, "gone")
        self.assertEqual(COMPLETED, self.client(agent).send("x")["task"]["status"]["state"])

    def test_a_question_ends_the_wait_at_once(self):
        """SSE-22, AMB-4: the stream may stay open or close, the caller gets the question."""
        for state in ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"):
            for closing in (True, False):

                def ask(exchange, state=state, closing=closing):
                    exchange.stream({"task": task(WORKING)}, status(state, text="which colour?"))
                    if not closing:
                        exchange.hang()

                agent = self.agent({"SendStreamingMessage": ask})
                with self.subTest(state=state, closing=closing):
                    result = self.client(agent).send("x")["task"]
                    self.assertEqual(state, result["status"]["state"])
                    self.assertEqual("which colour?", a2a.text_of(result["status"]))
                    self.assertEqual(["SendStreamingMessage"], agent.called())

    def test_an_answer_to_another_request_is_an_error(self):
        """SSE-25: request id "a1", event id "zz"."""

        def other(exchange):
            exchange.value["id"] = "zz"
            exchange.stream({"task": task()})

        agent = self.agent({"SendStreamingMessage": other})
        error = self.fails(a2a.PeerError, self.client(agent).send, "x")
        self.assertIn("another request", str(error))

    def test_a_stream_of_one_message(self):
        """SSE-26: exactly one Message, then the end."""
        message = support.message("hi", role="ROLE_AGENT")
        agent = self.agent({"SendStreamingMessage": events({"message": message})})
        self.assertEqual({"message": message}, self.client(agent).send("x"))
        self.assertEqual([{"message": message}], list(self.client(agent).stream("x")))

    def test_a_message_beside_a_task_does_not_take_its_place(self):
        """SSE-26: never Message plus Task; the task is what is followed."""
        message = support.message("hi", role="ROLE_AGENT")
        agent = self.agent(
            {"SendStreamingMessage": events({"task": task(WORKING)}, {"message": message},
                                            status(COMPLETED))}
        )  # fmt: skip
        self.assertEqual(COMPLETED, self.client(agent).send("x")["task"]["status"]["state"])

    def test_chunks_of_artifacts(self):
        """ART-02, ART-03, ART-05, ART-07: replaced, glued, late, interleaved."""
        for name, chunks, wanted in (
            ("ART-02", [chunk("ab"), chunk("c")], {"a": "c"}),
            ("ART-03", [chunk("Hel"), chunk("lo", append=True)], {"a": "Hello"}),
            ("ART-05", [chunk("x", lastChunk=True), chunk("y")], {"a": "y"}),
            ("ART-05", [chunk("x", lastChunk=True), chunk("y", append=True)], {"a": "xy"}),
            ("ART-07", [chunk("1"), chunk("3", "b"), chunk("2", append=True),
                        chunk("4", "b", append=True)], {"a": "12", "b": "34"}),
        ):  # fmt: skip
            stream = events({"task": task(WORKING)}, *chunks, status(COMPLETED))
            agent = self.agent({"SendStreamingMessage": stream})
            with self.subTest(name=name):
                found = self.client(agent).send("x")["task"]
                self.assertEqual(wanted, text_of_artifacts(found))
        self.assertEqual([], self.warnings)

    def test_a_chunk_of_an_artifact_that_never_began(self):
        """ART-01: kept as a new artifact with a warning, and the task is asked for."""
        whole = task(artifacts=[{"artifactId": "new", "parts": [{"text": "wx"}]}])
        stream = events({"task": task(WORKING)}, chunk("x", "new", append=True), status(COMPLETED))
        agent = self.agent({"SendStreamingMessage": stream, "GetTask": answer(whole)})
        self.assertEqual({"task": whole}, self.client(agent).send("x"))
        self.assertIn("never began", self.warnings[0])
        del agent.on["GetTask"]
        found = self.client(agent).send("x")["task"]
        self.assertEqual({"new": "x"}, text_of_artifacts(found))

    def test_the_same_state_again_is_progress(self):
        """TASK-17: WORKING, WORKING(message), COMPLETED."""
        stream = [{"task": task(WORKING)}, status(WORKING, text="half"), status(COMPLETED)]
        agent = self.agent({"SendStreamingMessage": events(*stream)})
        self.assertEqual(3, len(list(self.client(agent).stream("x"))))

    def test_a_failed_task_is_reported_as_failed(self):
        """TASK-18: "state":"TASK_STATE_REJECTED" with a message and a data artifact."""
        for state in ("TASK_STATE_FAILED", "TASK_STATE_REJECTED"):
            artifact = {"artifactId": "a", "parts": [{"data": {"n": 1}}]}
            reason = support.message("not for me", role="ROLE_AGENT")
            value = task(artifacts=[artifact])
            value["status"] = {"state": state, "message": reason}
            agent = self.agent({"SendStreamingMessage": events({"task": value})})
            found = self.client(agent).send("x")["task"]
            self.assertEqual(state, found["status"]["state"])
            self.assertEqual("not for me", a2a.text_of(found["status"]))
            self.assertEqual([artifact], found["artifacts"])

    def test_an_unknown_state_is_waited_through(self):
        """JSON-07: "TASK_STATE_PAUSED" and UNSPECIFIED are neither an end nor a question."""
        stream = [
            {"task": task("TASK_STATE_PAUSED")},
            status("TASK_STATE_UNSPECIFIED"),
            status(COMPLETED),
        ]
        agent = self.agent({"SendStreamingMessage": events(*stream)})
        states = [event.get("task", event.get("statusUpdate"))["status"]["state"]
                  for event in self.client(agent).stream("x")]  # fmt: skip
        self.assertEqual(["TASK_STATE_PAUSED", "TASK_STATE_UNSPECIFIED", COMPLETED], states)

    def test_an_error_event_ends_a_stream_with_that_error(self):
        def broken(exchange):
            exchange.stream({"task": task(WORKING)})
            error = {"code": -32603, "message": "fell over"}
            exchange.visit.event({"jsonrpc": "2.0", "id": exchange.value["id"], "error": error})

        agent = self.agent({"SendStreamingMessage": broken})
        error = self.fails(a2a.Fault, self.client(agent).send, "x")
        self.assertEqual("fell over", str(error))

    def test_a_reader_that_was_too_slow_goes_on(self):
        """A server drops who falls behind, with an error; the task goes on, so its end is read."""

        def behind(exchange):
            exchange.stream({"task": task(WORKING)})
            error = {"code": -32051, "message": "too slow"}
            exchange.visit.event({"jsonrpc": "2.0", "id": exchange.value["id"], "error": error})

        agent = self.agent({
            "SendStreamingMessage": behind,
            "GetTask": answer(task(WORKING)),
            "SubscribeToTask": events({"task": task(WORKING)}, {"task": task(COMPLETED)}),
        })  # fmt: skip
        result = self.client(agent).send("x")
        self.assertEqual(COMPLETED, result["task"]["status"]["state"])

    def test_a_stream_left_early_lets_go_of_its_connection(self):
        def slow(exchange):
            exchange.stream({"task": task(WORKING)})
            exchange.hang()
            gone.set()

        gone = threading.Event()
        agent = self.agent({"SendStreamingMessage": slow})
        stream = self.client(agent).stream("x")
        self.assertIn("task", next(stream))
        stream.close()
        self.assertTrue(gone.wait(20))


class WaitTest(ClientCase):
    """What becomes of a wait when the stream does not do what it should."""

    def test_a_stream_cut_before_the_end_is_taken_up_again(self):
        working = task(WORKING, artifacts=[{"artifactId": "a", "parts": [{"text": "1"}]}])
        agent = self.agent(
            {
                "SendStreamingMessage": events({"task": task(WORKING)}, chunk("1")),
                "GetTask": answer(working),
                "SubscribeToTask": events(
                    {"task": working}, chunk("2", append=True), status(COMPLETED)
                ),
            }
        )
        client = self.client(agent)
        seen = []
        result = client.send("x", on_event=seen.append)["task"]
        self.assertEqual({"a": "12"}, text_of_artifacts(result))
        self.assertEqual(["SendStreamingMessage", "GetTask", "SubscribeToTask"], agent.called())
        kinds = [next(iter(event)) for event in seen]
        self.assertEqual(["task", "artifactUpdate", "artifactUpdate", "statusUpdate"], kinds)

    def test_a_stream_cut_in_the_middle_of_its_body_is_taken_up_again(self):
        def cut(exchange):
            exchange.streaming = True
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            exchange.visit.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
            event = json.dumps(exchange.wrap({"task": task(WORKING)})).encode()
            body = b"data: " + event + b"\n\n"
            exchange.visit.send(b"%x\r\n%s\r\n99\r\ndata: {" % (len(body), body))

        agent = self.agent({"SendStreamingMessage": cut, "GetTask": answer(task())})
        self.assertEqual({"task": task()}, self.client(agent).send("x"))
        self.assertIn("broke", self.warnings[0])

    def test_a_task_that_did_not_settle_is_never_the_result(self):
        agent = self.agent(
            {
                "SendStreamingMessage": events({"task": task(WORKING)}),
                "GetTask": answer(task(WORKING)),
                "SubscribeToTask": events({"task": task(WORKING)}),
            }
        )
        client = self.client(agent, timeout_s=1.5)
        error = self.fails(a2a.TimeoutExpired, client.send, "x")
        self.assertIn("t1", str(error))
        self.assertIn("TASK_STATE_WORKING", str(error))
        self.assertIn("task get t1 --wait", error.hint)
        self.assertEqual((5, "A2ACLI_ERR_TIMEOUT"), (error.exit_status, error.code))
        self.assertEqual(2, agent.called().count("SubscribeToTask"))  # fruitless, then we poll
        self.assertGreater(agent.called().count("GetTask"), 2)

    def test_polling_where_subscribing_is_refused(self):
        agent = self.agent(
            {
                "SendStreamingMessage": events({"task": task(WORKING)}),
                "GetTask": each(answer(task(WORKING)), answer(task(WORKING)), answer(task())),
                "SubscribeToTask": lambda exchange: exchange.error(-32004, "no"),
            }
        )
        self.assertEqual({"task": task()}, self.client(agent).send("x"))
        self.assertEqual(3, agent.called().count("GetTask"))

    def test_silence_makes_us_ask_and_subscribe_again(self):
        """NET-02: events far apart are no error; the stream is limited by silence, not in whole."""

        def quiet(exchange):
            exchange.stream({"task": task(WORKING)})
            exchange.hang()

        agent = self.agent(
            {
                "SendStreamingMessage": quiet,
                "GetTask": answer(task(WORKING)),
                "SubscribeToTask": each(quiet, quiet, quiet, events(status(COMPLETED))),
            }
        )
        result = self.client(agent, idle_timeout_s=0.1).send("x")["task"]
        self.assertEqual(COMPLETED, result["status"]["state"])
        self.assertEqual(4, agent.called().count("SubscribeToTask"))

    def test_comments_count_as_a_sign_of_life(self):
        """NET-02: any byte resets the clock of silence."""

        def chatty(exchange):
            exchange.stream({"task": task(WORKING)})
            for _ in range(12):
                time.sleep(0.1)
                exchange.visit.send(b":\n\n")
            exchange.event(status(COMPLETED))

        agent = self.agent({"SendStreamingMessage": chatty})
        self.client(agent, idle_timeout_s=1.0).send("x")
        self.assertEqual(["SendStreamingMessage"], agent.called())

    def test_silence_before_the_first_event_is_waited_through(self):
        """NET-02: an agent may think for long before it answers at all."""

        def slow(exchange):
            time.sleep(0.3)
            exchange.begin()
            time.sleep(0.3)
            exchange.event({"message": support.message("at last", role="ROLE_AGENT")})

        agent = self.agent({"SendStreamingMessage": slow})
        found = self.client(agent, idle_timeout_s=0.1).send("x")
        self.assertEqual("at last", a2a.text_of(found))
        self.assertEqual(1, len(agent.calls))

    def test_a_call_without_streaming_may_take_its_time_too(self):
        """NET-02: waiting calls have no hidden bound."""

        def slow(exchange):
            time.sleep(0.4)
            exchange.result({"task": task()})

        agent = self.agent({"SendMessage": slow}, {"capabilities": {}})
        self.assertEqual({"task": task()}, self.client(agent, idle_timeout_s=0.1).send("x"))
        self.fails(a2a.TimeoutExpired, self.client(agent, timeout_s=0.2).send, "x")

    def test_a_stream_that_breaks_its_protocol_gives_way_to_asking(self):
        def garbage(exchange):
            exchange.stream({"task": task(WORKING)})
            exchange.visit.send(b"data: {not json\n\n")

        agent = self.agent({"SendStreamingMessage": garbage, "GetTask": answer(task())})
        self.assertEqual({"task": task()}, self.client(agent).send("x"))
        self.assertIn("broke", self.warnings[0])

    def test_a_stream_that_ends_without_a_word_is_an_error(self):
        agent = self.agent({"SendStreamingMessage": events()})
        error = self.fails(a2a.TransportError, self.client(agent).send, "x")
        self.assertIn("without an answer", str(error))
        agent = self.agent({"SendStreamingMessage": lambda exchange: exchange.hang()})
        agent.on["SendStreamingMessage"] = Exchange.begin
        self.fails(a2a.TransportError, self.client(agent).send, "x")

    def test_an_agent_that_is_gone_for_a_moment_is_asked_again(self):
        def drop(exchange):
            exchange.streaming = True  # and so the connection ends without an answer

        def limited(exchange):
            exchange.visit.answer(b"slow down", 429)

        agent = self.agent(
            {
                "SendStreamingMessage": events({"task": task(WORKING)}),
                "GetTask": each(drop, limited, lambda e: e.visit.answer(b"", 503), answer(task())),
            }
        )
        self.assertEqual({"task": task()}, self.client(agent).send("x"))

    def test_an_agent_that_is_gone_for_good_is_an_error_with_the_task(self):
        def drop(exchange):
            exchange.streaming = True

        agent = self.agent(
            {"SendStreamingMessage": events({"task": task(WORKING)}), "GetTask": drop}
        )
        error = self.fails(a2a.TransportError, self.client(agent, poll_interval_s=0.01).send, "x")
        self.assertIn("no longer answers for the task t1", str(error))
        self.assertEqual(a2a.POLL_FAILURES, agent.called().count("GetTask"))

    def test_an_agent_that_asks_for_a_long_wait_is_asked_again_sooner(self):
        """A Retry-After of a day, and no timeout: it is bounded, and the user is told."""

        def limited(exchange):
            exchange.visit.answer(b"", 429, **{"Retry-After": "86400"})

        agent = self.agent(
            {
                "SendStreamingMessage": events({"task": task(WORKING)}),
                "GetTask": each(limited, answer(task())),
            }
        )
        client = self.client(agent, timeout_s=None)
        with unittest.mock.patch.object(a2a, "RETRY_AFTER_S", 0.1):
            self.assertEqual({"task": task()}, client.send("x"))
        self.assertIn("The agent asks for 86400 s: asking again in 0.1 s", self.warnings)

    def test_an_agent_is_never_asked_in_a_loop(self):
        """A2ACLI 9.3: no busy loop, also where the user wants no interval."""
        answers = [answer(task(WORKING))] * 6
        agent = self.agent(
            {
                "SendMessage": answer({"task": task(WORKING)}),
                "GetTask": each(*answers, answer(task())),
            },
            {"capabilities": {}},
        )
        pauses, pause = [], a2a.Pool.pause

        def watched(pool, seconds, patience):
            pauses.append(seconds)
            pause(pool, seconds, patience)

        with unittest.mock.patch.object(a2a.Pool, "pause", watched):
            self.client(agent, poll_interval_s=0).send("x")
        self.assertEqual(7, len(pauses))
        self.assertGreaterEqual(min(pauses), a2a.POLL_INTERVAL_MIN_S)

    def test_waits_grow_to_a_bound(self):
        waits = [a2a.POLL_INTERVAL_S]
        for _ in range(8):
            waits.append(a2a._longer(waits[-1]))
        self.assertEqual([2, 3, 4.5, 6.75, 10, 10, 10, 10, 10], waits)
        self.assertEqual(60, a2a._longer(60))

    def test_a_task_is_waited_for_by_its_id(self):
        agent = self.agent(
            {
                "GetTask": answer(task(WORKING)),
                "SubscribeToTask": events({"task": task(WORKING)}, status(COMPLETED)),
            }
        )
        seen = []
        found = self.client(agent).wait("t1", seen.append)
        self.assertEqual(COMPLETED, found["status"]["state"])
        self.assertEqual(["task", "statusUpdate"], [next(iter(event)) for event in seen])
        agent.on["GetTask"] = answer(task("TASK_STATE_INPUT_REQUIRED"))
        agent.calls.clear()
        found = self.client(agent).wait("t1")
        self.assertEqual("TASK_STATE_INPUT_REQUIRED", found["status"]["state"])
        self.assertEqual(["GetTask"], agent.called())

    def test_close_wakes_a_sleeping_wait(self):
        agent = self.agent(
            {"SendMessage": answer({"task": task(WORKING)}), "GetTask": answer(task(WORKING))},
            {"capabilities": {}},
        )
        client = self.client(agent, poll_interval_s=60, timeout_s=None)
        threading.Timer(0.5, client.close).start()
        error = self.fails(a2a.TransportError, client.send, "x")
        self.assertEqual("The client was closed", str(error))


class OtherTaskTest(ClientCase):
    """An answer about another task than the one asked for is none."""

    def test_a_call_that_is_answered_for_another_task_fails(self):
        other = task(task_id="t2")
        agent = self.agent(
            {
                "GetTask": answer(other),
                "CancelTask": answer(other),
                "SubscribeToTask": events({"task": other}),
                "SendMessage": answer({"task": other}),
                "SendStreamingMessage": events({"task": other}),
            }
        )
        client = self.client(agent)
        for function, arguments in (
            (client.get, ("t1",)),
            (client.cancel, ("t1",)),
            (client.wait, ("t1",)),
            (lambda name: list(client.subscribe(name)), ("t1",)),
            (lambda name: client.send("x", task_id=name), ("t1",)),
            (lambda name: client.send("x", task_id=name, wait=False), ("t1",)),
            (lambda name: list(client.stream("x", task_id=name)), ("t1",)),
        ):
            error = self.fails(a2a.PeerError, function, *arguments)
            self.assertEqual("The agent answered for the task 't2', not for 't1'", str(error))

    def test_a_message_for_another_task_is_no_answer_either(self):
        message = support.message("hi", role="ROLE_AGENT", taskId="t2")
        client = self.client(self.agent({"SendMessage": answer({"message": message})}))
        self.fails(a2a.PeerError, client.send, "x", task_id="t1", wait=False)
        self.assertEqual({"message": message}, client.send("x", wait=False))

    def test_an_event_of_another_task_ends_the_stream_not_the_wait(self):
        agent = self.agent(
            {
                "SendStreamingMessage": events({"task": task(WORKING)}, status(COMPLETED, "t2")),
                "GetTask": answer(task()),
            }
        )
        self.assertEqual({"task": task()}, self.client(agent).send("x"))
        self.assertIn("broke: The agent answered for the task 't2'", self.warnings[0])

    def test_a_task_that_turns_into_another_while_it_is_polled_fails(self):
        agent = self.agent(
            {"SendMessage": answer({"task": task(WORKING)}), "GetTask": answer(task(task_id="x"))},
            {"capabilities": {}},
        )
        self.fails(a2a.PeerError, self.client(agent).send, "x")


class SubscribeTest(ClientCase):
    def test_a_subscription_gives_the_task_and_what_follows(self):
        agent = self.agent(
            {"SubscribeToTask": events({"task": task(WORKING)}, chunk("x"), status(COMPLETED))}
        )
        found = list(self.client(agent).subscribe("t1"))
        kinds = [next(iter(event)) for event in found]
        self.assertEqual(["task", "artifactUpdate", "statusUpdate"], kinds)
        self.assertEqual([{"id": "t1"}], agent.called("SubscribeToTask"))

    def test_a_finished_task_is_refused_by_the_agent(self):
        """SSE-20: UnsupportedOperationError, by name."""

        def refuse(exchange):
            exchange.error(-32004, "it is over", 400, "UNSUPPORTED_OPERATION")

        agent = self.agent({"SubscribeToTask": refuse, "POST /tasks/t1:subscribe": refuse})
        for binding in ("JSONRPC", "HTTP+JSON"):
            client = self.client(agent, transport=[binding])
            error = self.fails(a2a.UnsupportedOperationError, list, client.subscribe("t1"))
            self.assertEqual("it is over", str(error))

    def test_a_task_that_does_not_exist_is_an_error(self):
        def missing(exchange):
            exchange.error(-32001, "none", 404, "TASK_NOT_FOUND")

        agent = self.agent({"SubscribeToTask": missing, "POST /tasks/t1:subscribe": missing})
        for binding in ("JSONRPC", "HTTP+JSON"):
            client = self.client(agent, transport=[binding])
            self.fails(a2a.TaskNotFoundError, list, client.subscribe("t1"))
        self.assertEqual(2, len(agent.calls))

    def test_rest_subscribes_by_get_where_post_is_not_known(self):
        """AMB-1: POST first; on 404 or 405 GET."""
        stream = events({"task": task()})
        for refusal in (404, 405):
            agent = self.agent(
                {
                    "POST /tasks/t1:subscribe": lambda e, s=refusal: e.visit.answer(
                        {"detail": "Not Found"}, s
                    ),
                    "GET /tasks/t1:subscribe": stream,
                }
            )
            client = self.client(agent, transport=["rest"])
            self.assertEqual([{"task": task()}], list(client.subscribe("t1")))

    def test_a_task_at_rest_is_followed_until_it_goes_on(self):
        """AMB-4: who subscribes to AUTH_REQUIRED wants what comes after it."""
        resting = task("TASK_STATE_AUTH_REQUIRED")
        stream = events({"task": resting}, status(WORKING), status("TASK_STATE_INPUT_REQUIRED"))
        agent = self.agent({"SubscribeToTask": stream})
        self.assertEqual(3, len(list(self.client(agent).subscribe("t1"))))

    def test_a_subscription_that_says_nothing_is_no_success(self):
        agent = self.agent({"SubscribeToTask": events()})
        error = self.fails(a2a.TransportError, list, self.client(agent).subscribe("t1"))
        self.assertIn("without an answer", str(error))

    def test_a_stream_that_ends_on_a_task_at_rest_is_over(self):
        """AMB-4: closing on an interrupted state is normal."""
        resting = task("TASK_STATE_INPUT_REQUIRED")
        agent = self.agent({"SubscribeToTask": events({"task": resting})})
        self.assertEqual([{"task": resting}], list(self.client(agent).subscribe("t1")))
        self.assertEqual(["SubscribeToTask"], agent.called())

    def test_without_streaming_a_subscription_polls(self):
        agent = self.agent(
            {"GetTask": each(answer(task(WORKING)), answer(task()))}, {"capabilities": {}}
        )
        self.assertEqual(2, len(list(self.client(agent).subscribe("t1"))))


class CardTest(ClientCase):
    def test_a_reference_is_a_host_a_url_or_a_file(self):
        for text, wanted in (
            ("h.example", "https://h.example"),
            ("h.example:8080/x", "https://h.example:8080/x"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1", "http://127.0.0.1"),
            ("[::1]:80/a", "http://[::1]/a"),
            (" http://h.example/ ", "http://h.example/"),
            ("h.example/cards/x.json", "https://h.example/cards/x.json"),
            ("card.json", "card.json"),
            ("cards/x.json", "cards/x.json"),
            ("./agent", "./agent"),
            ("/etc/agent", "/etc/agent"),
            ("C:\\cards\\x", "C:\\cards\\x"),
            ("C:/cards/x", "C:/cards/x"),
            ("file:///tmp/a%20b.json", "/tmp/a b.json"),
            ("file:///C:/x.json", "C:/x.json"),
        ):
            with self.subTest(text=text):
                self.assertEqual(wanted, str(a2a.read_reference(text)))
        for text in ("", "  ", "ftp://h", "http://me:pw@h", "a b", "http://[fe80::1%25eth0]/"):
            with self.subTest(text=text):
                self.fails(a2a.UsageError, a2a.read_reference, text)

    def test_where_a_card_may_be(self):
        """CARD-01, AMB-9: the given URL, then the well-known place below it, then the host's."""
        for text, wanted in (
            ("https://h.example", [CARD, OLD_CARD]),
            ("https://h.example/", [CARD, OLD_CARD]),
            ("https://h.example/teams/red", ["/teams/red", "/teams/red" + CARD, CARD,
                                             "/teams/red" + OLD_CARD, OLD_CARD]),
            ("https://h.example/teams/red/", ["/teams/red/", "/teams/red" + CARD, CARD,
                                              "/teams/red" + OLD_CARD, OLD_CARD]),
            ("https://h.example/cards/x.json?v=2", ["/cards/x.json?v=2"]),
            ("https://h.example" + OLD_CARD, [OLD_CARD]),
        ):  # fmt: skip
            found = [url.target for url in a2a.card_places(a2a.read_url(text))]
            self.assertEqual(wanted, found, text)

    def test_a_card_below_a_path_is_found(self):
        """CARD-01: base with and without a slash at its end."""
        agent = self.agent({"GetTask": answer(task())}, card_path="/teams/red" + CARD)
        for end in ("", "/"):
            client = self.client(agent.url + "/teams/red" + end)
            self.assertEqual("test agent", client.card["name"])
            self.assertEqual(agent.url + "/teams/red" + CARD, client.card_source)
        self.assertEqual([], self.warnings)

    def test_the_card_of_the_host_is_used_for_a_path_with_a_warning(self):
        """AMB-9: the origin comes last, and it is said."""
        agent = self.agent()
        client = self.client(agent.url + "/teams/red")
        self.assertEqual("test agent", client.card["name"])
        self.assertIn("that of its host", self.warnings[0])
        self.assertEqual(3, len(client.tried))

    def test_the_url_of_a_card_is_taken_as_it_is(self):
        """CARD-02: query kept, no slash added, nothing else asked for."""
        agent = self.agent(card_path="/cards/x.json")
        agent.script = lambda visit: (visit.read(), visit.answer(agent.card))
        client = self.client(agent.url + "/cards/x.json?v=2")
        self.assertEqual("test agent", client.card["name"])
        self.assertEqual(["/cards/x.json?v=2"], agent.paths())

    def test_a_given_url_may_itself_be_a_card(self):
        agent = self.agent()
        agent.script = lambda visit: (visit.read(), visit.answer(agent.card))
        client = self.client(agent.url + "/agents/7")
        self.assertEqual("test agent", client.card["name"])
        self.assertEqual(["/agents/7"], agent.paths())

    def test_other_json_at_a_guessed_place_is_no_card(self):
        agent = self.agent()
        plain = agent.script

        def script(visit):
            if not agent.requests:
                visit.read()
                visit.answer({"jsonrpc": "2.0", "error": {"code": -32600, "message": "POST!"}})
            plain(visit)

        agent.script = script
        self.assertEqual("test agent", self.client(agent.url + "/rpc").card["name"])

    def test_the_old_place_is_tried_on_404_and_said(self):
        """CARD-03: only agent.json served."""
        agent = self.agent(card_path=OLD_CARD)
        self.assertEqual("test agent", self.client(agent).card["name"])
        self.assertEqual([CARD, OLD_CARD], agent.paths())
        self.assertIn("old place", self.warnings[0])

    def test_the_old_place_is_not_tried_where_the_new_one_fails_otherwise(self):
        """CARD-03: on 404 and 405 alone."""
        with support.Peer(lambda visit: (visit.read(), visit.answer(b"", 500))) as peer:
            error = self.fails(a2a.CardNotFound, lambda: self.client(peer.url).card)
            self.assertEqual([CARD], [request[1] for request in peer.requests])
        self.assertIn("HTTP 500", str(error))

    def test_what_was_tried_is_listed(self):
        def script(visit):
            while True:
                request = visit.read()
                if request is None:
                    return
                if request[1] == "/a":
                    visit.answer(b"<p>hello", media_type="text/html")
                elif request[1] == "/a" + CARD:
                    visit.answer(b"", 302, Location="https://evil.example/card")
                else:
                    visit.answer(b"", 404)

        with support.Peer(script) as peer:
            error = self.fails(a2a.CardNotFound, lambda: self.client(peer.url + "/a").card)
            u = peer.url
        self.assertEqual(
            f"No agent card for {u}/a; tried\n  {u}/a: HTTP 200 text/html, not a card\n"
            f"  {u}/a{CARD}: HTTP 302 to https://evil.example/card, which is not followed\n"
            f"  {u}{CARD}: HTTP 404\n  {u}/a{OLD_CARD}: HTTP 404\n  {u}{OLD_CARD}: HTTP 404",
            str(error),
        )
        self.assertEqual((3, "A2ACLI_ERR_CARD_NOT_FOUND"), (error.exit_status, error.code))

    def test_nobody_listening_is_unreachable(self):
        error = self.fails(
            a2a.Unreachable, lambda: self.client(f"127.0.0.1:{support.free_port()}").card
        )
        self.assertEqual((3, "A2ACLI_ERR_UNREACHABLE"), (error.exit_status, error.code))

    def test_a_card_file_and_a_card_as_a_value(self):
        """CARD-02, CARD-08: file:// and a saved card, without fetching."""
        agent = self.agent({"GetTask": answer(task())})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "card.json"
            path.write_bytes(b"\xef\xbb\xbf" + json.dumps(agent.card).encode())
            for reference in (str(path), path.as_uri(), agent.card):
                client = self.client(reference)
                self.assertEqual(task(), client.get("t1"))
                self.assertEqual(agent.card, client.raw_card)
            self.assertEqual(["/rpc"] * 3, agent.paths())
            path.write_text("[1]")
            self.fails(a2a.CardInvalid, lambda: self.client(str(path)).card)
            path.write_text("{")
            self.fails(a2a.CardInvalid, lambda: self.client(str(path)).card)
            path.write_bytes(b" " * (a2a.CARD_BYTES + 1))
            self.fails(a2a.CardInvalid, lambda: self.client(str(path)).card)
            self.fails(a2a.CardNotFound, lambda: self.client(folder + "/none.json").card)

    def test_a_card_of_0_3_is_told_from_a_broken_one(self):
        """CARD-07: a clear message."""
        card = {"name": "x", "url": "https://h/a2a", "preferredTransport": "JSONRPC",
                "protocolVersion": "0.3.0"}  # fmt: skip
        error = self.fails(a2a.CardInvalid, lambda: self.client(card).card)
        self.assertIn("A2A 0.3.0", str(error))
        self.assertIn("only A2A 1.0 is spoken", str(error))
        self.assertEqual((1, "A2ACLI_ERR_CARD_INVALID"), (error.exit_status, error.code))

    def test_what_cannot_be_used_is_refused_and_what_is_missing_is_not_missed(self):
        """CARD-15: `{}` is refused with a clear text, a missing cosmetic field tolerated."""
        with support.Peer(lambda visit: (visit.read(), visit.answer({}))) as peer:
            error = self.fails(a2a.CardInvalid, lambda: self.client(peer.url).card)
            self.assertIn("supportedInterfaces is missing", str(error))
        agent = self.agent({"GetTask": answer(task())})
        interfaces = agent.card["supportedInterfaces"]
        for card in (
            {"supportedInterfaces": interfaces},
            {"supportedInterfaces": interfaces, "skills": None, "capabilities": None},
            {"supported_interfaces": interfaces, "skills": [{"id": "s", "tags": None}]},
        ):
            with self.subTest(card=card):
                self.assertEqual(task(), self.client(card).get("t1"))
        for card in (
            {"supportedInterfaces": "x"},
            {"supportedInterfaces": [1]},
            {"supportedInterfaces": [{"url": 1, "protocolBinding": "JSONRPC"}]},
            {"supportedInterfaces": [{"protocolBinding": "JSONRPC"}]},
            {"supportedInterfaces": [{"url": "http://h", "protocolBinding": "x"}]},
        ):
            with self.subTest(card=card):
                self.fails(a2a.CardInvalid, self.client(card).get, "t1")

    def test_a_card_that_is_no_json_at_its_place_is_invalid(self):
        for body in (b"{not json", b"not even close"):
            with support.Peer(lambda v, b=body: (v.read(), v.answer(b))) as peer:
                self.fails(a2a.CardInvalid, lambda p=peer: self.client(p.url).card)

    def test_a_card_over_its_limit_is_not_read(self):
        body = b'{"name":"' + b"x" * (a2a.CARD_BYTES + 10) + b'"}'
        with support.Peer(lambda visit: (visit.read(), visit.answer(body))) as peer:
            error = self.fails(a2a.CardInvalid, lambda: self.client(peer.url).card)
        self.assertIn("larger than", str(error))

    def test_a_byte_order_mark_before_a_card_is_no_fault(self):
        """RFC 8259 section 8.1: who parses may ignore one; files have it, and some servers."""
        agent = self.agent()
        body = b"\xef\xbb\xbf" + json.dumps(agent.card).encode()
        with support.Peer(lambda visit: (visit.read(), visit.answer(body))) as peer:
            self.assertEqual("test agent", self.client(peer.url).card["name"])

    def test_a_card_is_not_asked_for_again_while_it_is_fresh(self):
        """CARD-16: one fetch for many calls."""
        agent = self.agent({"GetTask": answer(task())})
        client = self.client(agent)
        for _ in range(3):
            client.get("t1")
        self.assertEqual([CARD, "/rpc", "/rpc", "/rpc"], agent.paths())

    def test_a_card_that_is_no_longer_fresh_is_revalidated(self):
        """CARD-16: If-None-Match, 304; a new card is used, one that is gone is not missed."""
        agent = self.agent({"GetTask": answer(task())})
        agent.card_headers = {"ETag": 'W/"abc"', "Cache-Control": "max-age=3600"}
        plain, replies = agent.script, []

        def script(visit):
            first = not agent.requests
            if first or not replies:
                plain(visit)
                return
            visit.read()
            replies.pop(0)(visit)

        agent.script = script
        client = self.client(agent)
        name = client.card["name"]
        link = client._link
        self.assertGreater(link.card.fresh_until - time.monotonic(), 3000)

        def again(reply):
            replies.append(reply)
            link.pool.close()
            link.pool.closed = False
            link.card = link.card._replace(fresh_until=0.0)
            return client.card["name"]

        self.assertEqual(name, again(lambda visit: visit.answer(b"", 304, media_type="")))
        self.assertEqual('W/"abc"', agent.requests[-1][2]["if-none-match"])
        self.assertGreater(link.card.fresh_until, time.monotonic())
        self.assertEqual("new", again(lambda visit: visit.answer({**agent.card, "name": "new"})))
        self.assertEqual("new", again(lambda visit: visit.answer({**agent.card, "name": "new"})))
        self.assertEqual("new", again(lambda visit: visit.answer(b"", 500)))
        self.assertEqual([], self.warnings)
        self.assertEqual("new", again(lambda visit: None))
        self.assertEqual("new", again(lambda visit: visit.answer(b"{")))
        self.assertEqual(2, len(self.warnings))

    def test_a_redirect_of_the_card_stays_on_its_origin(self):
        """AUTH-02: few hops, same origin or https; credentials for the card stay at home."""
        seen = []

        def script(visit):
            while True:
                request = visit.read()
                if request is None:
                    return
                seen.append(request)
                number = len(seen)
                if number <= hops:
                    visit.answer(b"", 302, Location=location.format(number))
                else:
                    visit.answer(agent.card)

        agent = self.agent()
        with support.Peer(script) as peer:
            for case in (
                (3, "/card/{}", True),
                (4, "/card/{}", False),
                (1, agent.url + CARD, False),
                (1, "ftp://x/", False),
                (1, "http://[", False),
            ):
                hops, location, works = case
                seen.clear()
                client = self.client(peer.url, card_headers={"Authorization": "Bearer s3cr3t"})
                if works:
                    self.assertEqual("test agent", client.card["name"])
                    self.assertEqual(f"{peer.url}/card/3", client.card_source)
                else:
                    self.fails(a2a.CardNotFound, lambda c=client: c.card)
                for request in seen:
                    self.assertEqual("Bearer s3cr3t", request[2]["authorization"])
        self.assertEqual([], agent.requests)
        url = a2a.read_url("http://h.example/x")
        found = []
        for location in ("https://h.example/y", "https://other.example/", "http://h.example:81/"):
            reply = type("Reply", (), {"status": 301, "headers": {"location": location}})
            found.append(a2a._redirect(url, reply))
        self.assertEqual([a2a.read_url("https://h.example/y"), None, None], found)

    def test_a_card_that_needs_credentials(self):
        """CARD-08: 401 on the card, 200 with bearer; a call's credentials are not sent for it."""

        def script(visit):
            while True:
                request = visit.read()
                if request is None:
                    return
                if request[2].get("authorization") == "Bearer right":
                    visit.answer(agent.card)
                else:
                    visit.answer(b"", 401)

        agent = self.agent()
        with support.Peer(script) as peer:
            client = self.client(peer.url, bearer="right")
            error = self.fails(a2a.CredentialsMissing, lambda: client.card)
            self.assertIn("--card-header 'Authorization: ...'", error.hint)
            self.assertNotIn(a2a.HIDDEN, a2a.redact(error.hint))
            self.assertNotIn("authorization", peer.requests[0][2])
            wrong = self.client(peer.url, card_headers={"authorization": "Bearer wrong"})
            self.fails(a2a.AuthFailed, lambda: wrong.card)
            right = self.client(peer.url, card_headers={"authorization": "Bearer right"})
            self.assertEqual("test agent", right.card["name"])

    def test_credentials_for_the_card_do_not_go_over_plain_http(self):
        """AUTH-23: nor for the card."""
        client = self.client("http://h.example/", card_headers={"authorization": "Bearer x"})
        self.fails(a2a.UntrustedOrigin, lambda: client.card)


class InterfaceTest(ClientCase):
    def chosen(self, *entries, **options):
        listed = [
            {"url": url, "protocolBinding": binding, "protocolVersion": version, "tenant": ""}
            for binding, version, url in entries
        ]
        card = {"supportedInterfaces": listed}
        wishes, version = options.get("wishes", ()), options.get("version", "1.0")
        found, notes = a2a.choose_interfaces(card, ["JSONRPC", "HTTP+JSON"], wishes, version)
        self.notes = notes
        return [one.url for one in found]

    def test_the_first_interface_that_is_spoken_is_taken(self):
        """CARD-10: names ignore case; unknown bindings and versions are passed over."""
        self.assertEqual(
            ["b", "c", "g"],
            self.chosen(
                ("https://x.example/ws/v1", "1.0", "a"), ("jsonrpc", "1.0", "b"),
                ("http+json", "1.0.1", "c"), ("JSONRPC", "0.3", "d"), ("JSONRPC", "2.0", "e"),
                ("GRPC", "1.0", "f"), ("JSONRPC", "", "g"), ("JSONRPC", "1.0", ""),
            ),
        )  # fmt: skip
        self.assertEqual([], self.notes)

    def test_a_wish_reorders_and_one_that_is_not_there_is_said(self):
        entries = [("JSONRPC", "1.0", "a"), ("HTTP+JSON", "1.0", "b")]
        self.assertEqual(["b", "a"], self.chosen(*entries, wishes=["rest", "jsonrpc"]))
        self.assertEqual(["b", "a"], self.chosen(*entries, wishes=["grpc", "HTTP+json"]))
        self.assertEqual(["The card offers no GRPC: using HTTP+JSON"], self.notes)
        self.assertEqual(["a", "b"], self.chosen(*entries, wishes=["grpc"]))

    def test_nothing_usable_says_what_is_offered(self):
        error = self.fails(a2a.CardInvalid, self.chosen, ("JSONRPC", "0.3", "a"), ("X", "", "b"))
        self.assertEqual(
            "The card offers JSONRPC 0.3, X; spoken here: JSONRPC, HTTP+JSON of A2A 1.0", str(error)
        )

    def test_a_card_without_an_interface_for_us_is_read_and_not_called(self):
        entry = {"url": "http://h.example", "protocolBinding": "JSONRPC", "protocolVersion": "2.0"}
        agent = self.agent(interfaces=[entry])
        client = self.client(agent)
        self.assertEqual([entry], client.card["supportedInterfaces"])
        for function in (lambda: client.interface, lambda: client.send("x"), client.list):
            error = self.fails(a2a.CardInvalid, function)
            self.assertIn("The card offers JSONRPC 2.0; spoken here", str(error))
        self.assertEqual([], agent.calls)

    def test_an_interface_without_a_url_is_said_to_have_none(self):
        error = self.fails(a2a.CardInvalid, self.chosen, ("JSONRPC", "1.0", ""))
        self.assertTrue(str(error).startswith("The card offers JSONRPC 1.0 without a URL; spoken"))

    def test_a_transport_that_nobody_has_is_told_before_anything_is_asked(self):
        agent = self.agent({})
        for names in (["morse"], ["rest", "JSON"], [""]):
            error = self.fails(a2a.UsageError, self.client, agent, transport=names)
            self.assertEqual("There are JSONRPC, HTTP+JSON, GRPC", error.hint)
        client = self.client(agent, transport=["https://x.example/ws/v1", "json-rpc"])
        self.assertEqual("JSONRPC", client.transport)
        self.assertEqual(1, len(agent.requests))

    def test_the_version_asked_for_is_looked_for_first(self):
        entries = [("JSONRPC", "1.0", "a"), ("JSONRPC", "1.1", "b")]
        self.assertEqual(["b"], self.chosen(*entries, version="1.1"))
        self.assertEqual(["a"], self.chosen(*entries, version="9.9"))

    def test_the_tenant_goes_along_exactly(self):
        """CARD-11: in params over JSON-RPC; in path and body over REST; omitted when absent."""
        agent = self.agent(
            {
                "GetTask": answer(task()),
                "GET /a%20b%2Fc/tasks/t1": answer(task()),
                "POST /a%20b%2Fc/tasks/t1:cancel": answer(task("TASK_STATE_CANCELED")),
                "POST /tasks/t1:cancel": answer(task("TASK_STATE_CANCELED")),
            }
        )
        for one in agent.card["supportedInterfaces"]:
            one["tenant"] = "a b/c"
        self.client(agent).get("t1")
        self.assertEqual([{"id": "t1", "tenant": "a b/c"}], agent.called("GetTask"))
        rest = self.client(agent, transport=["rest"])
        rest.get("t1")
        rest.cancel("t1")
        self.assertEqual("a b/c", agent.calls[-1][1]["tenant"])
        for one in agent.card["supportedInterfaces"]:
            del one["tenant"]
        self.client(agent, transport=["rest"]).cancel("t1")
        self.assertNotIn("tenant", agent.calls[-1][1])

    def test_an_interface_that_cannot_be_reached_gives_way_to_the_next(self):
        """CARD-10: on connection failure, with a warning; and stays so."""
        dead = f"http://127.0.0.1:{support.free_port()}/rpc"
        agent = self.agent({"GET /tasks/t1": answer(task())})
        agent.card["supportedInterfaces"][0]["url"] = dead
        client = self.client(agent)
        self.assertEqual([task()] * 2, [client.get("t1"), client.get("t1")])
        self.assertEqual("HTTP+JSON", client.transport)
        self.assertEqual(1, len(self.warnings))
        self.assertIn("Using HTTP+JSON", self.warnings[0])

    def test_when_none_can_be_reached_each_is_named(self):
        ports = [support.free_port(), support.free_port()]
        agent = self.agent()
        for one, port in zip(agent.card["supportedInterfaces"], ports):
            one["url"] = f"http://127.0.0.1:{port}"
        error = self.fails(a2a.Unreachable, self.client(agent).get, "t1")
        for port in ports:
            self.assertIn(str(port), str(error))

    def test_an_address_that_nobody_can_call(self):
        """CARD-04: http://[::]:8080/rpc; an endpoint option and a hint."""
        agent = self.agent({"GetTask": answer(task())})
        url = agent.card["supportedInterfaces"][0]["url"]
        dead = support.free_port()
        agent.card["supportedInterfaces"] = [
            {"url": f"http://[::]:{dead}/rpc", "protocolBinding": "JSONRPC"}
        ]
        error = self.fails(a2a.Unreachable, self.client(agent).get, "t1")
        self.assertIn("--endpoint", error.hint)
        self.assertIn("no address", self.warnings[0])
        self.assertEqual(task(), self.client(agent, endpoint=url).get("t1"))

    def test_a_url_that_is_no_base_is_refused_by_name(self):
        """CARD-09: "url":"https://h/v1/message:stream"."""
        for url, said in (
            ("https://h/v1/message:stream", "https://h/v1/message:stream"),
            ("https://h/message:send/", "no base URL"),
            ("https://h/.well-known/agent-card.json", "no base URL"),
            ("127.0.0.1:50051", "no http or https URL"),
            ("ws://h/", "no http or https URL"),
        ):
            card = {"supportedInterfaces": [{"url": url, "protocolBinding": "HTTP+JSON"}]}
            with self.subTest(url=url):
                error = self.fails(a2a.CardInvalid, self.client(card).get, "t1")
                self.assertIn(said, str(error))

    def test_the_path_and_query_of_an_interface_are_kept(self):
        agent = self.agent({"GET /team/a2a/tasks/t1?k=v&historyLength=2": answer(task())})
        card = {**agent.card, "supportedInterfaces": [
            {"url": agent.url + "/team/a2a/?k=v", "protocolBinding": "HTTP+JSON"}]}  # fmt: skip
        self.assertEqual(task(), self.client(card).get("t1", history_length=2))

    def test_an_extension_that_the_agent_requires_is_warned_of(self):
        """EXT-03: warned of before sending, and not claimed."""
        wanted = [{"uri": "https://x.example/must", "required": True}, {"uri": "https://x/may"}]
        agent = self.agent({"GetTask": answer(task())}, {"capabilities": {"extensions": wanted}})
        self.client(agent).get("t1")
        self.assertEqual(1, len(self.warnings))
        self.assertIn("https://x.example/must", self.warnings[0])
        self.assertNotIn("a2a-extensions", agent.calls[0][2])
        self.client(agent, extensions=["https://x.example/must"]).get("t1")
        self.assertEqual(1, len(self.warnings))


class SignInTest(ClientCase):
    def asking(self, scheme, **more):
        on = {"GetTask": answer(task())}
        card = {
            "securitySchemes": {"s": scheme},
            "securityRequirements": [{"schemes": {"s": {"list": []}}}],
        }
        return self.agent(on, card, **more)

    BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}

    def test_options_show_without_their_secrets(self):
        """AUTH-25: not by their repr either."""
        client = self.client(
            {"name": "x"}, bearer="t0ken-1", basic="me:pa55word", api_key={"s": "k3y-11"},
            card_headers={"authorization": "Bearer c4rd-1"}, headers={"X-Token": "h3ad-1"},
        )  # fmt: skip
        shown = repr(client.options)
        self.assertIn("poll_interval_s", shown)
        for secret in ("t0ken", "pa55", "k3y", "c4rd", "h3ad"):
            self.assertNotIn(secret, shown)

    def test_credentials_go_as_the_card_asks(self):
        """AUTH-16, AUTH-17: header, query, cookie, Basic, and nothing in the log."""
        key = "apiKeySecurityScheme"
        for scheme, options, name, value in (
            (self.BEARER, {"bearer": "t0ken-1"}, "authorization", "Bearer t0ken-1"),
            ({"httpAuthSecurityScheme": {"scheme": "BASIC"}}, {"basic": "me:pa55word"},
             "authorization", "Basic bWU6cGE1NXdvcmQ="),
            ({key: {"location": "header", "name": "X-Key"}}, {"api_key": "k3y/1"}, "x-key",
             "k3y/1"),
            ({key: {"location": "cookie", "name": "sid"}}, {"api_key": "k3y/1"}, "cookie",
             "sid=k3y/1"),
            ({key: {"location": "query", "name": "key"}}, {"api_key": "k3y/1"}, "", "key=k3y%2F1"),
        ):  # fmt: skip
            self.log.clear()
            agent = self.asking(scheme)
            with self.subTest(scheme=scheme):
                self.client(agent, **options).get("t1")
                _, target, headers, _ = agent.requests[1]
                self.assertEqual(value, headers[name] if name else target.partition("?")[2])
                self.assertNotIn("authorization", agent.requests[0][2])
                log = "\n".join(self.log)
                for secret in ("t0ken", "pa55", "bWU6", "k3y"):
                    self.assertNotIn(secret, log)

    def test_cookies_share_a_header(self):
        """AUTH-16: merged into one."""
        agent = self.asking({"apiKeySecurityScheme": {"location": "cookie", "name": "sid"}})
        self.client(agent, api_key="k", headers={"Cookie": "a=b"}).get("t1")
        self.assertEqual("sid=k; a=b", agent.calls[0][2]["cookie"])

    def test_what_is_missing_is_said_before_anything_is_sent(self):
        agent = self.asking(self.BEARER)
        error = self.fails(a2a.CredentialsMissing, self.client(agent).get, "t1")
        self.assertIn("--bearer", error.hint)
        self.assertEqual([CARD], agent.paths())

    def test_what_the_card_does_not_ask_for_is_not_sent(self):
        agent = self.agent({"GetTask": answer(task())})
        self.client(agent, bearer="t0ken").get("t1")
        self.assertNotIn("authorization", agent.calls[0][2])
        self.assertIn("none are sent", self.warnings[0])

    def test_another_origin_gets_no_credentials(self):
        """AUTH-01: the error names the host; allowed, they go there."""
        agent = self.asking(self.BEARER)
        other = self.agent({"GetTask": answer(task())})
        agent.card["supportedInterfaces"] = [
            {"url": other.url + "/rpc", "protocolBinding": "JSONRPC"}
        ]
        client = self.client(agent, bearer="t0ken")
        error = self.fails(a2a.UntrustedOrigin, client.get, "t1")
        self.assertIn(other.url, str(error))
        self.assertEqual(4, error.exit_status)
        self.fails(
            a2a.UntrustedOrigin, self.client(agent, bearer="t", headers={"X-Token": "x"}).get, "t"
        )
        self.assertEqual([], other.requests)
        for options in (
            {"trusted_origins": [other.url]},
            {"trusted_origins": [f"localhost:{other.port}"]},
            {"endpoint": other.url + "/rpc"},
        ):
            self.client(agent, bearer="t0ken", **options).get("t1")
            self.assertEqual("Bearer t0ken", other.calls[-1][2]["authorization"])
        for text in ("./x", "not an origin", "ftp://h"):  # told before anything is asked
            self.fails(a2a.UsageError, self.client, agent, trusted_origins=[text])

    def test_an_interface_that_may_not_have_them_gives_way_to_one_that_may(self):
        """AUTH-01: the agent's own origin is taken, with a warning."""
        agent = self.asking(self.BEARER)
        own = agent.card["supportedInterfaces"][0]
        other = {"url": "https://evil.example/rpc", "protocolBinding": "JSONRPC"}
        agent.card["supportedInterfaces"] = [other, own]
        self.client(agent, bearer="t0ken").get("t1")
        self.assertIn("evil.example", self.warnings[0])

    def test_a_saved_card_binds_credentials_to_nothing_but_itself(self):
        agent = self.asking(self.BEARER)
        self.client(dict(agent.card), bearer="t0ken").get("t1")
        self.assertEqual("Bearer t0ken", agent.calls[0][2]["authorization"])

    def test_plain_http_to_elsewhere_gets_none(self):
        """AUTH-23: http://svc.cluster.example/."""
        card = {
            "supportedInterfaces": [
                {"url": "http://svc.cluster.example/", "protocolBinding": "JSONRPC"}
            ],
            "securitySchemes": {"s": self.BEARER},
        }
        error = self.fails(a2a.UntrustedOrigin, self.client(card, bearer="t").get, "t1")
        self.assertIn("svc.cluster.example", str(error))

    def test_refused_credentials_and_ones_that_were_not_sent_are_told_apart(self):
        def refuse(exchange):
            exchange.visit.answer(b"", 401, WWW_Authenticate='Bearer realm="r"')

        agent = self.asking(self.BEARER)
        agent.on["GetTask"] = refuse
        error = self.fails(a2a.AuthFailed, self.client(agent, bearer="wr0ng-1").get, "t1")
        self.assertIn('Bearer realm="r"', error.hint)
        self.assertNotIn("wr0ng-1", str(error))
        agent = self.agent({"GetTask": refuse})
        error = self.fails(a2a.CredentialsMissing, self.client(agent).get, "t1")
        self.assertIn("No credentials were sent", str(error))

    @unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
    def test_over_tls_credentials_without_a_checked_certificate_are_warned_of(self):
        folder = support.certificates()
        context = support.ssl_context(folder / "rogue.pem")
        agent = self.asking(self.BEARER, tls=context)
        client = self.client(agent, bearer="t0ken", insecure=True)
        self.assertEqual(task(), client.get("t1"))
        self.assertIn("certificate is not checked", " ".join(self.warnings))
        refused = self.client(agent, bearer="t0ken", ca=str(folder / "ca.pem"))
        self.fails(a2a.Unreachable, refused.get, "t1")
        trusted = self.client(agent, bearer="t0ken", ca=str(folder / "rogue-ca.pem"))
        self.assertEqual(task(), trusted.get("t1"))

    def test_headers_of_the_connection_are_no_service_parameters(self):
        agent = self.agent()
        for options in ({"headers": {"Host": "b"}}, {"card_headers": {"Content-Length": "5"}}):
            with self.subTest(options=options), self.assertRaises(a2a.UsageError):
                self.client(agent, **options)


class NoiseTest(ClientCase):
    """Agents that send anything at all: one of our errors comes of it, or an answer."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(16)

    def bend(self, value):
        """Give a JSON value with something in it changed."""
        if self.random.random() < 0.05:
            odd = (None, 1, -1, 1e9, "", "x" * 50, [], {}, [value], {"a": value}, True, "\ud800")
            return self.random.choice(odd)
        if isinstance(value, dict):
            return {key: self.bend(item) for key, item in value.items()}
        return [self.bend(item) for item in value] if isinstance(value, list) else value

    def cut(self, data):
        """Give bytes with something in them changed."""
        data = bytearray(data)
        for _ in range(self.random.choice((0, 0, 0, 1, 3))):
            at = self.random.randrange(len(data))
            odd = (b"", b"\r\n", b"\n", b"\0", b"data: ", b"[[" * 70, b": ", bytes([at % 256]))
            data[at : at + self.random.randrange(5)] = self.random.choice(odd)
        return bytes(data)

    def script(self, visit):
        request = visit.read()
        if request is None:
            return
        if request[0] == "GET":
            card = self.card if self.random.random() < 0.8 else self.bend(self.card)
            kind, body = "application/json", json.dumps(card).encode()
        else:
            call = json.loads(request[3])
            artifact = {"artifactId": "a", "parts": [{"text": "hi"}, {"raw": "AA=="}]}
            whole = task(artifacts=[artifact])
            stream = [{"task": task(WORKING)}, chunk("x", append=True), status(COMPLETED)]
            results = stream if "S" in call["method"][1:] else [{"task": whole}]
            results = [whole] if call["method"] in ("GetTask", "CancelTask") else results
            replies = [
                self.bend({"jsonrpc": "2.0", "id": call["id"], "result": r}) for r in results
            ]
            kind = "text/event-stream" if results is stream else "application/json"
            lines = [json.dumps(reply).encode() for reply in replies]
            body = b"".join(b"data: %s\n\n" % line for line in lines)
            body = self.cut(body if results is stream else lines[0])
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        head = head.encode() if self.random.random() < 0.9 else self.cut(head.encode())
        visit.send(head + body)

    calls = (
        lambda client: client.send("x"),
        lambda client: list(client.stream("x")),
        lambda client: client.get("t1"),
        lambda client: client.wait("t1"),
        lambda client: list(client.subscribe("t1")),
        lambda client: client.cancel("t1"),
    )

    def test_whatever_comes_is_an_answer_or_an_error_of_ours(self):
        outcomes = set()
        with support.Peer(self.script) as peer:
            rpc = {"url": peer.url + "/rpc", "protocolBinding": "JSONRPC", "tenant": "t"}
            self.card = {
                "supportedInterfaces": [rpc],
                "capabilities": {"streaming": True, "extensions": [{"uri": "u", "required": True}]},
                "skills": [{"id": "s", "tags": []}],
                "securitySchemes": {"s": SignInTest.BEARER},
                "securityRequirements": [{"schemes": {"s": {"list": []}}}, {"schemes": {}}],
            }
            for turn in range(150):
                limits = {"timeout_s": 2.0, "idle_timeout_s": 0.2, "poll_interval_s": 0.01}
                client = self.client(peer.url, bearer="t0ken", **limits)
                try:
                    a2a.write_json(self.calls[turn % len(self.calls)](client))
                    outcomes.add("answer")
                except a2a.A2AError as error:
                    outcomes.add(type(error).__name__)
                client.close()
        self.assertLessEqual({"answer", "PeerError", "CardInvalid"}, outcomes)
        self.assertNotIn("t0ken", "".join(self.log + self.warnings))


class DataUriTest(unittest.TestCase):
    def test_a_data_uri_is_decoded_here(self):
        """JSON-11: base64 and percent forms, never fetched."""
        for url, wanted in (
            ("data:text/plain,hi%20there", ("text/plain", b"hi there")),
            ("data:,A%20b%E9", ("text/plain;charset=US-ASCII", b"A b\xe9")),
            ("data:image/png;base64,AP8=", ("image/png", b"\x00\xff")),
            ("DATA:text/x;charset=utf-8;BASE64,w6k", ("text/x;charset=utf-8", b"\xc3\xa9")),
            ("data:;base64,aGk%3D", ("text/plain;charset=US-ASCII", b"hi")),
            ("data:text/plain;charset=utf-8,%C3%A9,b", ("text/plain;charset=utf-8", b"\xc3\xa9,b")),
        ):
            self.assertEqual(wanted, a2a.read_data_uri(url), url)
        for url in ("http://h/x", "data:text/plain", "data:;base64,***", "data:,\u1234", ""):
            with self.assertRaises(a2a.PeerError):
                a2a.read_data_uri(url)


class DefaultTest(ClientCase):
    def test_warnings_go_to_pythons_own_where_nobody_listens(self):
        agent = self.agent({"GetTask": answer(task())})
        client = a2a.Client(agent.url, bearer="t0ken")
        self.addCleanup(client.close)
        with self.assertWarns(UserWarning):
            client.get("t1")
        self.assertEqual("JSONRPC", client.interface.binding)


if __name__ == "__main__":
    unittest.main()
