"""Chapter 19 over gRPC, and over HTTP/2 at all: a whole server, frames on real sockets."""

import asyncio
import base64
import contextlib
import io
import json
import pathlib
import random
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

PATIENCE_S = 20.0


async def agent(turn):
    """Do what the text says: a number of steps, a nap, a question, a failure, an echo."""
    word, _, rest = turn.text.partition(":")
    if word == "chunks":
        for number in range(int(rest)):
            turn.artifact(f"{number} ", name="count", append=number > 0)
    elif word == "nap":
        turn.status("working")
        await asyncio.sleep(float(rest))
        return "slept"
    elif word == "ask":
        turn.ask("Which one?")
    elif word == "fail":
        raise KeyError("a secret /path")
    elif word == "message":
        turn.reply({"parts": [{"text": rest}]})
    else:
        turn.artifact(turn.text)
    return None


class Answer:
    """What came on one stream."""

    def __init__(self):
        self.status = 0
        self.headers = {}
        self.body = b""
        self.trailers = {}
        self.frames = []  # kinds of events, in order
        self.over = False
        self.reset = None

    @property
    def grpc_status(self):
        fields = self.trailers or self.headers
        return a2a.GRPC_STATUSES[int(fields["grpc-status"])]

    @property
    def details(self):
        fields = self.trailers or self.headers
        packed = fields.get("grpc-status-details-bin", "")
        return a2a.read_status_details(base64.b64decode(packed + "=" * (-len(packed) % 4)))

    def messages(self, name):
        reader = a2a.GrpcReader(a2a.CLIENT_EVENT_BYTES)
        return [a2a.read_protobuf(name, message) for message in reader.receive(self.body)]


class Channel:
    """A connection of HTTP/2 to a server, with many streams; the test's own client."""

    def __init__(self, port):
        self.link = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.machine = a2a.Http2Connection(client=True)
        self.port = port
        self.answers = {}
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def flush(self):
        self.link.sendall(self.machine.take_output())

    def begin(self, method, target, headers, body=b"", end=True):
        fields = [("host", f"127.0.0.1:{self.port}"), *headers.items()]
        stream = self.machine.request(method, target, fields, body, end)
        self.answers[stream] = Answer()
        self.flush()
        return stream

    def call(self, operation, params, **metadata):
        """Begin a call of gRPC; give the number of its stream."""
        row = a2a.OPERATIONS[operation]
        headers = {"content-type": "application/grpc", "te": "trailers", "a2a-version": "1.0"}
        headers.update((key.replace("_", "-"), value) for key, value in metadata.items())
        body = a2a.write_grpc_message(a2a.write_protobuf(row.request, params))
        return self.begin("POST", f"/lf.a2a.v1.A2AService/{operation}", headers, body)

    def read(self):
        data = self.link.recv(65536)
        if not data:
            raise AssertionError("the server closed the connection")
        for event in self.machine.receive(data):
            answer = self.answers.get(getattr(event, "stream", None))
            if answer is None:
                continue
            answer.frames.append(type(event).__name__)
            if type(event) is a2a.Response:
                answer.status, answer.headers = event.status, event.headers
            elif type(event) is a2a.Data:
                answer.body += event.data
            elif type(event) is a2a.End:
                answer.trailers, answer.over = dict(event.trailers), True
            elif type(event) is a2a.Reset:
                answer.reset, answer.over = event.error_code, True
        self.flush()

    def until(self, stream, check):
        while not check(self.answers[stream]):
            self.read()
        return self.answers[stream]

    def answer(self, stream):
        """Give the whole answer of a stream."""
        return self.until(stream, lambda answer: answer.over)

    def ask(self, operation, params, **metadata):
        """Make a call; give (name of the status, the messages of the answer)."""
        answer = self.answer(self.call(operation, params, **metadata))
        return answer.grpc_status, answer.messages(a2a.OPERATIONS[operation].response)

    def send(self, text, **fields):
        """Send a message; give the response."""
        params = {"message": support.message(text), **fields}
        status, messages = self.ask("SendMessage", params)
        assert status == "OK", status
        return messages[0]


class GrpcCase(unittest.TestCase):
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.server = a2a.Server(agent, port=0, **cls.options).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.channel = Channel(self.server.port)
        self.addCleanup(self.channel.link.close)

    def refused(self, operation, params, **metadata):
        """Check that a call is refused by trailers alone; give (status, details, message)."""
        answer = self.channel.answer(self.channel.call(operation, params, **metadata))
        self.assertEqual(200, answer.status)
        self.assertEqual(["Response", "End"], answer.frames)
        self.assertEqual({}, answer.trailers)
        message = a2a.read_grpc_text(answer.headers["grpc-message"])
        return answer.grpc_status, answer.details, message


class UnaryTest(GrpcCase):
    def test_a_message_is_answered(self):
        """RPC-07: with its wrapper; the status is in the trailers."""
        stream = self.channel.call("SendMessage", {"message": support.message("hello")})
        answer = self.channel.answer(stream)
        self.assertEqual((200, "application/grpc"), (answer.status, answer.headers["content-type"]))
        self.assertEqual({"grpc-status": "0"}, answer.trailers)
        (response,) = answer.messages("SendMessageResponse")
        self.assertEqual("hello", a2a.text_of(response))
        self.assertEqual(a2a.COMPLETED, response["task"]["status"]["state"])

    def test_a_direct_message(self):
        self.assertEqual("yes", a2a.text_of(self.channel.send("message:yes")))

    def test_many_calls_on_one_connection(self):
        streams = [
            self.channel.call("SendMessage", {"message": support.message(f"m{n}")})
            for n in range(50)
        ]
        texts = [
            a2a.text_of(self.channel.answer(stream).messages("SendMessageResponse")[0])
            for stream in streams
        ]
        self.assertEqual([f"m{n}" for n in range(50)], texts)

    def test_every_unary_operation(self):
        """LIST-01, AMB-3, TASK-02: get, list, cancel, cancel again."""
        task = self.channel.send("nap:60", configuration={"returnImmediately": True})["task"]
        status, (found,) = self.channel.ask("GetTask", {"id": task["id"]})
        self.assertEqual(("OK", task["id"]), (status, found["id"]))
        _, (page,) = self.channel.ask("ListTasks", {"contextId": task["contextId"]})
        self.assertEqual([task["id"]], [one["id"] for one in page["tasks"]])
        for _ in range(2):
            status, (found,) = self.channel.ask("CancelTask", {"id": task["id"]})
            self.assertEqual(("OK", a2a.CANCELED), (status, found["status"]["state"]))

    def test_the_context_goes_on(self):
        """TASK-08, TASK-09, TASK-12: a question, its answer by the task's id alone."""
        asked = self.channel.send("ask:")["task"]
        self.assertEqual(a2a.INPUT_REQUIRED, asked["status"]["state"])
        answered = self.channel.send("x")["task"]
        self.assertNotEqual(asked["id"], answered["id"])
        params = {"message": support.message("red", taskId=asked["id"])}
        _, (response,) = self.channel.ask("SendMessage", params)
        ended = response["task"]
        self.assertEqual((asked["id"], asked["contextId"]), (ended["id"], ended["contextId"]))
        self.assertEqual(a2a.COMPLETED, ended["status"]["state"])

    def test_history_lengths(self):
        """HIST-01, HIST-03, GRPC-12: unset, 0 and n; presence survives."""
        task = self.channel.send("hello")["task"]
        lengths = []
        for more in ({}, {"historyLength": 0}, {"historyLength": 1}):
            _, (found,) = self.channel.ask("GetTask", {"id": task["id"], **more})
            lengths.append(len(found.get("history", [])))
        self.assertEqual([1, 0, 1], lengths)
        response = self.channel.send("hello", configuration={"historyLength": 0})
        self.assertNotIn("history", response["task"])

    def test_metadata_survives(self):
        """GRPC-12, JSON-03, JSON-12, JSON-16: Struct corners, data of every kind, any text."""
        value = {"a": None, "b": {}, "c": [1, 2.5, "\u6771\u4eac \U0001f600", False], "n": 1}
        parts = [{"data": None}, {"data": value}, {"raw": "AAEC", "filename": "x.bin"}]
        message = {**support.message(), "parts": [*parts, {"text": "m"}], "metadata": value}
        _, (response,) = self.channel.ask("SendMessage", {"message": message})
        task = response["task"]
        _, (found,) = self.channel.ask("GetTask", {"id": task["id"]})
        sent = found["history"][0]
        self.assertEqual((message["parts"], value), (sent["parts"], sent["metadata"]))

    def test_a_tenant_is_part_of_the_message(self):
        """GRPC-09, CARD-11: it is a field, here one that changes nothing."""
        response = self.channel.send("hello", tenant="acme")
        self.assertEqual("hello", a2a.text_of(response))

    def test_six_megabytes(self):
        """GRPC-06: both ways."""
        raw = base64.b64encode(bytes(range(256)) * 24_000).decode()
        message = {**support.message(), "parts": [{"raw": raw}, {"text": "x"}]}
        _, (response,) = self.channel.ask("SendMessage", {"message": message})
        self.assertEqual(raw, response["task"]["history"][0]["parts"][0]["raw"])

    def test_a_failure_leaks_nothing(self):
        """TASK-13, RPC-08."""
        task = self.channel.send("fail:")["task"]
        self.assertEqual(a2a.FAILED, task["status"]["state"])
        self.assertNotIn("secret", json.dumps(task))


class ErrorTest(GrpcCase):
    def test_errors_are_trailers_alone(self):
        """GRPC-03, LIST-05, TASK-06: one HEADERS frame that ends the stream."""
        status, details, message = self.refused("GetTask", {"id": "none"})
        self.assertEqual(("NOT_FOUND", "TASK_NOT_FOUND"), (status, details[0]["reason"]))
        self.assertEqual("Task not found", message)
        self.assertEqual("a2a-protocol.org", details[0]["domain"])

    def test_each_error_has_its_status(self):
        """TASK-05, SSE-20, PUSH-09, CARD-18, VER-01, VER-03, JSON-06, REST-05."""
        done = self.channel.send("hello")["task"]["id"]
        again = {"message": support.message("again", taskId=done)}
        config = {"taskId": done, "id": "p", "url": "http://h.example/"}
        for operation, params, status, reason in (
            ("SendMessage", again, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
            ("CancelTask", {"id": done}, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
            ("SubscribeToTask", {"id": done}, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
            ("CreateTaskPushNotificationConfig", config, "FAILED_PRECONDITION",
             "PUSH_NOTIFICATION_NOT_SUPPORTED"),
            ("GetExtendedAgentCard", {}, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
        ):  # fmt: skip
            with self.subTest(operation):
                found, details, _ = self.refused(operation, params)
                self.assertEqual((status, reason), (found, details[0]["reason"]))
        for version in ("0.3", "9.9"):
            found, details, _ = self.refused("GetTask", {"id": done}, a2a_version=version)
            self.assertEqual("VERSION_NOT_SUPPORTED", details[0]["reason"])
        found, details, _ = self.refused("SendMessage", {})
        self.assertEqual(("INVALID_ARGUMENT", a2a.BAD_REQUEST), (found, details[0]["@type"]))
        for wrong in ({"pageSize": 101}, {"historyLength": -1}, {"pageToken": "x"}):
            self.assertEqual("INVALID_ARGUMENT", self.refused("ListTasks", wrong)[0])

    def test_what_is_not_there_is_unimplemented(self):
        """GRPC-10: another service, reflection and health among them; another method."""
        headers = {"content-type": "application/grpc", "te": "trailers", "a2a-version": "1.0"}
        for target in (
            "/a2a.v1.A2AService/SendMessage",
            "/grpc.health.v1.Health/Check",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/lf.a2a.v1.A2AService/Nothing",
        ):
            answer = self.channel.answer(self.channel.begin("POST", target, headers, bytes(5)))
            self.assertEqual("UNIMPLEMENTED", answer.grpc_status)

    def test_bodies_that_are_no_call(self):
        headers = {"content-type": "application/grpc", "te": "trailers", "a2a-version": "1.0"}
        target = "/lf.a2a.v1.A2AService/GetTask"
        for body, status in (
            (b"", "UNIMPLEMENTED"),
            (bytes(10), "UNIMPLEMENTED"),
            (b"\1\0\0\0\0", "UNIMPLEMENTED"),
            (b"\0\0\0\0\5ab", "INTERNAL"),
            (b"\0\0\0\0\2\x0a\xff", "INVALID_ARGUMENT"),
        ):
            answer = self.channel.answer(self.channel.begin("POST", target, headers, body))
            self.assertEqual(status, answer.grpc_status, body)

    def test_pages_of_other_origins_stay_out(self):
        stream = self.channel.call("ListTasks", {}, origin="https://evil.example")
        self.assertEqual("PERMISSION_DENIED", self.channel.answer(stream).grpc_status)

    def test_a_malformed_deadline(self):
        self.assertEqual("INTERNAL", self.refused("ListTasks", {}, grpc_timeout="soon")[0])

    def test_over_http_1_1_it_is_no_media_type(self):
        path = "/lf.a2a.v1.A2AService/GetTask"
        headers = [("Content-Type", "application/grpc")]
        status, _, _ = support.http(self.server.port, "POST", path, headers, bytes(5))
        self.assertIn(status, (404, 415))


class LimitTest(GrpcCase):
    options = {"max_request_bytes": 10_000}

    def test_a_request_over_the_limit(self):
        """GRPC-06, JSON-18: RESOURCE_EXHAUSTED, and the connection serves on."""
        status, _, _ = self.refused("SendMessage", {"message": support.message("x" * 20_000)})
        self.assertEqual("RESOURCE_EXHAUSTED", status)
        self.assertEqual("x" * 9000, a2a.text_of(self.channel.send("x" * 9000)))


class StreamTest(GrpcCase):
    def events(self, answer):
        return answer.messages("StreamResponse")

    def test_a_stream_of_events(self):
        """SSE-21, ART-03: the task first, then each event, then OK."""
        stream = self.channel.call("SendStreamingMessage", {"message": support.message("chunks:5")})
        answer = self.channel.answer(stream)
        self.assertEqual("OK", answer.grpc_status)
        events = self.events(answer)
        self.assertEqual("task", next(iter(events[0])))
        task = {}
        for event in events:
            a2a.apply(task, event)
        self.assertEqual("0 1 2 3 4 ", "".join(p["text"] for p in task["artifacts"][0]["parts"]))
        self.assertEqual(a2a.COMPLETED, task["status"]["state"])

    def test_a_message_alone(self):
        """SSE-26."""
        params = {"message": support.message("message:hi")}
        answer = self.channel.answer(self.channel.call("SendStreamingMessage", params))
        self.assertEqual(["message"], [next(iter(event)) for event in self.events(answer)])

    def test_a_refusal_before_the_first_event(self):
        """SSE-20, GRPC-03."""
        self.assertEqual("NOT_FOUND", self.refused("SubscribeToTask", {"id": "none"})[0])

    def test_subscribing(self):
        """SSE-19, SSE-23: the task, then the rest; over gRPC as over server-sent events."""
        task = self.channel.send("nap:0.3", configuration={"returnImmediately": True})["task"]
        mine = self.channel.call("SubscribeToTask", {"id": task["id"]})
        other = {}

        def listen():
            other["events"] = [
                item["result"]
                for item in support.stream(self.server.port, "SubscribeToTask", {"id": task["id"]})
            ]

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        events = self.events(self.channel.answer(mine))
        listener.join(PATIENCE_S)
        self.assertEqual("task", next(iter(events[0])))
        self.assertEqual(a2a.COMPLETED, events[-1]["statusUpdate"]["status"]["state"])
        self.assertEqual(events[-1], other["events"][-1])

    def test_a_question_ends_the_stream(self):
        """SSE-22, AMB-4."""
        params = {"message": support.message("ask:")}
        answer = self.channel.answer(self.channel.call("SendStreamingMessage", params))
        state = self.events(answer)[-1]["statusUpdate"]["status"]["state"]
        self.assertEqual((a2a.INPUT_REQUIRED, "OK"), (state, answer.grpc_status))

    def test_giving_a_stream_up_ends_no_task(self):
        """SSE-18: RST_STREAM ends the call, never the task."""
        params = {"message": support.message("nap:0.3")}
        stream = self.channel.call("SendStreamingMessage", params)
        answer = self.channel.until(stream, lambda answer: self.events(answer))
        task_id = self.events(answer)[0]["task"]["id"]
        self.channel.machine.reset(stream)
        self.channel.flush()
        self.wait_for(task_id, a2a.COMPLETED)

    def wait_for(self, task_id, state):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            _, (task,) = self.channel.ask("GetTask", {"id": task_id})
            if task["status"]["state"] == state:
                return
            time.sleep(0.02)
        self.fail(f"the task is still {task['status']['state']}")

    def test_a_deadline_ends_the_call_and_not_the_task(self):
        """SSE-18, NET-02: before the answer, and in the midst of a stream."""
        unary = self.channel.call("SendMessage", {"message": support.message("nap:0.5")},
                                  grpc_timeout="100m")  # fmt: skip
        stream = self.channel.call("SendStreamingMessage", {"message": support.message("nap:0.5")},
                                   grpc_timeout="300m")  # fmt: skip
        answer = self.channel.answer(unary)
        self.assertEqual("DEADLINE_EXCEEDED", answer.grpc_status)
        answer = self.channel.answer(stream)
        self.assertEqual("DEADLINE_EXCEEDED", answer.grpc_status)
        task_id = self.events(answer)[0]["task"]["id"]
        self.wait_for(task_id, a2a.COMPLETED)
        _, (page,) = self.channel.ask("ListTasks", {"status": a2a.COMPLETED})
        self.assertGreaterEqual(page["totalSize"], 1)

    def test_a_deadline_that_holds(self):
        status, (response,) = self.channel.ask(
            "SendMessage", {"message": support.message("hello")}, grpc_timeout="10S"
        )
        self.assertEqual(("OK", "hello"), (status, a2a.text_of(response)))

    def test_a_reader_that_is_slow_holds_nobody_up(self):
        """Its window shut, a stream waits; other streams of the connection go on."""
        with Channel(self.server.port) as slow:
            slow.machine.sender.frame(a2a.SETTINGS, 0, 0, bytes.fromhex("000400000000"))
            stream = slow.call("SendStreamingMessage", {"message": support.message("chunks:200")})
            slow.until(stream, lambda answer: answer.status)
            self.assertEqual("hello", a2a.text_of(self.channel.send("hello")))
            self.assertEqual(b"", slow.answers[stream].body)
            slow.machine.sender.number(a2a.WINDOW_UPDATE, stream, 10**6)
            slow.flush()
            answer = slow.answer(stream)
            self.assertIn(answer.grpc_status, ("OK", "RESOURCE_EXHAUSTED"))
            self.assertGreater(len(self.events(answer)), 1)


class OneportTest(GrpcCase):
    """All bindings on one port, over either HTTP."""

    def test_the_card_lists_grpc_as_host_and_port(self):
        status, _, body = support.http(self.server.port, "GET", a2a.CARD_PATH)
        interfaces = json.loads(body)["supportedInterfaces"]
        self.assertEqual(200, status)
        self.assertIn(
            {"url": f"127.0.0.1:{self.server.port}", "protocolBinding": "GRPC",
             "protocolVersion": "1.0"},
            interfaces,
        )  # fmt: skip

    def test_json_rpc_and_rest_over_http_2(self):
        headers = {"content-type": "application/json", "a2a-version": "1.0"}
        body = support.rpc_body("SendMessage", {"message": support.message("hello")})
        streams = [
            self.channel.begin("POST", "/", headers, body),
            self.channel.begin(
                "POST", "/message:send", headers,
                json.dumps({"message": support.message("hello")}).encode(),
            ),
            self.channel.begin("GET", a2a.CARD_PATH, {}),
            self.channel.begin("HEAD", a2a.CARD_PATH, {}),
            self.channel.begin("GET", "/nothing/here", {}),
        ]  # fmt: skip
        answers = [self.channel.answer(stream) for stream in streams]
        self.assertEqual([200, 200, 200, 200, 404], [answer.status for answer in answers])
        self.assertEqual("hello", a2a.text_of(json.loads(answers[0].body)["result"]))
        self.assertEqual("hello", a2a.text_of(json.loads(answers[1].body)))
        self.assertEqual(b"", answers[3].body)
        self.assertEqual(str(len(answers[2].body)), answers[3].headers["content-length"])

    def test_server_sent_events_over_http_2(self):
        headers = {"content-type": "application/json", "a2a-version": "1.0"}
        body = support.rpc_body("SendStreamingMessage", {"message": support.message("chunks:3")})
        answer = self.channel.answer(self.channel.begin("POST", "/", headers, body))
        self.assertEqual("text/event-stream", answer.headers["content-type"])
        events = [json.loads(line) for line in a2a.SseReader().receive(answer.body)]
        self.assertEqual(a2a.COMPLETED, events[-1]["result"]["statusUpdate"]["status"]["state"])

    def test_other_hosts_are_misdirected(self):
        stream = self.channel.machine.request("GET", a2a.CARD_PATH, [("host", "evil.example")])
        self.channel.answers[stream] = Answer()
        self.channel.flush()
        self.assertEqual(421, self.channel.answer(stream).status)


class OwnPortTest(GrpcCase):
    options = {"grpc_port": 0}

    def test_a_port_of_its_own(self):
        """GRPC-11: the card stays on HTTP."""
        self.assertNotEqual(self.server.port, self.server.grpc_port)
        _, _, body = support.http(self.server.port, "GET", a2a.CARD_PATH)
        urls = {i["protocolBinding"]: i["url"] for i in json.loads(body)["supportedInterfaces"]}
        self.assertEqual(f"127.0.0.1:{self.server.grpc_port}", urls["GRPC"])
        self.assertEqual(f"http://127.0.0.1:{self.server.port}", urls["JSONRPC"])
        with Channel(self.server.grpc_port) as channel:
            self.assertEqual("hello", a2a.text_of(channel.send("hello")))


class GrpcAloneTest(GrpcCase):
    options = {"transports": ["GRPC"]}

    def test_the_card_is_still_served(self):
        """GRPC-11: over HTTP/1.1, of an agent that speaks gRPC alone."""
        status, _, body = support.http(self.server.port, "GET", a2a.CARD_PATH)
        self.assertEqual(200, status)
        (interface,) = json.loads(body)["supportedInterfaces"]
        self.assertEqual("GRPC", interface["protocolBinding"])
        self.assertEqual("hello", a2a.text_of(self.channel.send("hello")))
        answer = support.rpc(self.server.port, "ListTasks", {})
        self.assertIn("error", answer)


class NoGrpcTest(GrpcCase):
    options = {"transports": ["JSONRPC"]}

    def test_it_says_so(self):
        self.assertEqual("UNIMPLEMENTED", self.refused("ListTasks", {})[0])


class NoiseTest(GrpcCase):
    """Good calls with a few wrong bytes: refused or answered, never an error of ours."""

    def traffic(self):
        client = a2a.Http2Connection(client=True)
        host = ("host", f"127.0.0.1:{self.server.port}")
        fields = [host, ("content-type", "application/grpc"), ("a2a-version", "1.0")]
        for operation, params in (
            ("SendMessage", {"message": support.message("message:x")}),
            ("SendStreamingMessage", {"message": support.message("chunks:2")}),
            ("ListTasks", {}),
        ):
            kind = a2a.OPERATIONS[operation].request
            body = a2a.write_grpc_message(a2a.write_protobuf(kind, params))
            client.request("POST", f"/lf.a2a.v1.A2AService/{operation}", fields, body)
        return client.take_output()

    def test_wrong_bytes(self):
        rng = random.Random(19)
        base, out = self.traffic(), io.StringIO()
        with contextlib.redirect_stderr(out):
            for _ in range(300):
                data = bytearray(base)
                for _ in range(rng.randrange(1, 5)):
                    data[rng.randrange(24, len(data))] = rng.randrange(256)
                with socket.create_connection(("127.0.0.1", self.server.port), PATIENCE_S) as link:
                    link.sendall(data)
                    link.shutdown(socket.SHUT_WR)
                    with contextlib.suppress(ConnectionError):
                        while link.recv(65536):
                            pass
        self.assertEqual("", out.getvalue())
        self.assertEqual("hello", a2a.text_of(self.channel.send("hello")))


class CardTest(unittest.TestCase):
    def urls(self, url, grpc_port=None):
        card = a2a.build_card(a2a.ServerOptions(), url, a2a.load_agent("echo"), grpc_port)
        return {i["protocolBinding"]: i["url"] for i in card["supportedInterfaces"]}

    def test_addresses(self):
        for url, wanted in (
            ("http://127.0.0.1:41241", "127.0.0.1:41241"),
            ("https://agent.example", "agent.example:443"),
            ("http://[::1]:80", "[::1]:80"),
        ):
            self.assertEqual(wanted, self.urls(url)["GRPC"])

    def test_grpc_has_no_paths(self):
        self.assertNotIn("GRPC", self.urls("https://agent.example/team/a"))
        self.assertEqual("agent.example:50051", self.urls("https://agent.example/a", 50051)["GRPC"])

    def test_a_port_that_is_none(self):
        with self.assertRaises(a2a.UsageError):
            a2a.Server("echo", grpc_port=70000)

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            server = a2a.Server("echo", port=0, grpc_port=taken.getsockname()[1])
            with self.assertRaises(a2a.UsageError):
                server.start()


if __name__ == "__main__":
    unittest.main()
