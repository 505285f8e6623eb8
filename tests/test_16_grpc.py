"""Chapter 16 over gRPC: addresses, calls, streams, credentials, against scripted agents."""

import base64
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from test_14_wires_http2 import Http2Visit
from test_16_client import CARD, COMPLETED, QUICK, WORKING, Agent, chunk, status, task

OK = [("grpc-status", "0")]


class GrpcAgent(support.Peer):
    """An agent over gRPC alone: on is {operation: function(call)}; card is a dict for Client."""

    def __init__(self, on=None, card=None, **more):
        super().__init__(self.talk, **more)
        self.on = on or {}
        self.calls = []  # (operation, params, metadata)
        self.address = f"127.0.0.1:{self.port}"
        interface = {"url": self.address, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        self.card = {
            "name": "test agent", "description": "d", "version": "1",
            "supportedInterfaces": [interface], "capabilities": {"streaming": True}, "skills": [],
            "defaultInputModes": [], "defaultOutputModes": [], **(card or {}),
        }  # fmt: skip

    def talk(self, visit):
        visit = Http2Visit(visit)
        while True:
            requests = visit.requests()
            if not requests:
                return
            for stream, target, body in requests:
                call = GrpcCall(self, visit, stream, target, body)
                self.calls.append((call.operation, call.params, visit.open[stream][0].headers))
                self.on[call.operation](call)

    def called(self):
        return [operation for operation, _, _ in self.calls]


class GrpcCall:
    """One call of the agent under test."""

    def __init__(self, agent, visit, stream, target, body):
        self.agent, self.visit, self.stream = agent, visit, stream
        self.operation = target.rpartition("/")[2]
        self.row = a2a.OPERATIONS[self.operation]
        self.params = a2a.read_protobuf(self.row.request, body[5:])
        self.started = False

    def send(self, value):
        """Send a message, the head before the first."""
        if not self.started:
            self.started = True
            self.visit.machine.start(self.stream, 200, [("content-type", "application/grpc")])
        data = a2a.write_grpc_message(a2a.write_protobuf(self.row.response, value))
        self.visit.machine.data(self.stream, data)
        self.visit.flush()

    def end(self, trailers=None):
        self.visit.machine.trailers(self.stream, trailers or OK)
        self.visit.flush()

    def answer(self, *values):
        for value in values:
            self.send(value)
        self.end()

    def refuse(self, fault):
        """Trailers only."""
        head = [("content-type", "application/grpc"), *a2a.grpc_trailers(fault)]
        self.visit.machine.start(self.stream, 200, head, end=True)
        self.visit.flush()

    def http(self, status_code, kind="text/html", body=b""):
        """An answer that is no gRPC."""
        self.visit.machine.respond(self.stream, status_code, [("content-type", kind)], body)
        self.visit.flush()


def answering(*values):
    return lambda call: call.answer(*values)


def refusing(fault):
    return lambda call: call.refuse(fault)


def in_turn(*functions):
    """Do the next each time, the last for good."""
    left = list(functions)
    return lambda call: (left.pop(0) if len(left) > 1 else left[0])(call)


class GrpcCase(unittest.TestCase):
    def agent(self, on=None, **more):
        agent = GrpcAgent(on, **more)
        self.addCleanup(agent.close)
        return agent

    def client(self, agent, **options):
        self.warnings = []
        options = {**QUICK, "warn": self.warnings.append, "proxy": "", **options}
        client = a2a.Client(agent if isinstance(agent, (str, dict)) else agent.card, **options)
        self.addCleanup(client.close)
        return client


class AddressTest(GrpcCase):
    def test_spellings(self):
        """GRPC-07: each form that cards and people use."""
        for text, wanted in (
            ("h.example:443", "https://h.example"),
            ("h.example:50051", "https://h.example:50051"),
            ("h.example", "https://h.example"),
            ("https://h.example", "https://h.example"),
            ("https://h.example:8443/", "https://h.example:8443"),
            ("http://h.example:50051", "http://h.example:50051"),
            ("http://127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("localhost:50051", "http://localhost:50051"),
            ("[::1]:50051", "http://[::1]:50051"),
            ("[2001:db8::1]:50051", "https://[2001:db8::1]:50051"),
            ("dns:///h.example:443", "https://h.example"),
            ("dns:h.example:8443", "https://h.example:8443"),
            ("dns://8.8.8.8/h.example:443", "https://h.example"),
            ("dns:///127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("ipv4:127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("ipv6:[::1]:50051", "http://[::1]:50051"),
            ("grpcs://h.example:443", "https://h.example"),
            ("grpc://h.example:50051", "http://h.example:50051"),
            ("GRPCS://H.Example", "https://h.example"),
        ):
            with self.subTest(text):
                url = a2a.read_grpc_target(a2a.Interface("GRPC", text, "", "1.0"))
                self.assertEqual(wanted, str(url))

    def test_what_is_no_address(self):
        """GRPC-07: a path is refused, and so is what names no host."""
        for text in (
            "https://h.example/a2a", "h.example:443/a2a", "https://h.example?x=1", "", ":443",
            "unix:///tmp/socket", "ftp://h.example", "h.example:http", "h.example:99999", "a b:1",
            "https://user@h.example",
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(a2a.CardInvalid) as caught:
                a2a.read_grpc_target(a2a.Interface("GRPC", text, "", "1.0"))
            self.assertIn("gRPC", str(caught.exception))

    def test_every_spelling_of_loopback_is_called(self):
        agent = self.agent({"GetTask": answering(task())})
        for text in (
            agent.address,
            f"localhost:{agent.port}",
            f"http://{agent.address}",
            f"grpc://{agent.address}",
            f"dns:///{agent.address}",
        ):
            with self.subTest(text):
                self.assertEqual("t1", self.client(agent, endpoint=text).get("t1")["id"])


class CallTest(GrpcCase):
    def test_a_call(self):
        """GRPC-01, GRPC-04, VER-04: what goes along is in lower case; te and type are there."""
        agent = self.agent({"GetTask": answering(task())})
        client = self.client(agent, headers={"X-Trace": "7"}, extensions=["u:1"])
        self.assertEqual("GRPC", client.transport)
        self.assertEqual("t1", client.get("t1", history_length=0)["id"])
        operation, params, metadata = agent.calls[0]
        self.assertEqual(("GetTask", {"id": "t1", "historyLength": 0}), (operation, params))
        self.assertGreater(a2a.read_grpc_timeout(metadata.pop("grpc-timeout")), 1)
        self.assertEqual(
            {
                "host": agent.address,
                "user-agent": a2a.USER_AGENT,
                "content-type": "application/grpc",
                "te": "trailers",
                "grpc-accept-encoding": "identity",
                "a2a-version": "1.0",
                "a2a-extensions": "u:1",
                "x-trace": "7",
            },
            metadata,
        )

    def test_without_a_limit_no_deadline_is_sent(self):
        agent = self.agent({"GetTask": answering(task())})
        self.client(agent, timeout_s=None).get("t1")
        self.assertNotIn("grpc-timeout", agent.calls[0][2])

    def test_the_tenant_is_copied_into_each_call(self):
        """GRPC-09, CARD-11: a field of the message, not metadata."""
        agent = self.agent({"GetTask": answering(task()), "ListTasks": answering({"tasks": []})})
        agent.card["supportedInterfaces"][0]["tenant"] = "acme"
        client = self.client(agent)
        client.get("t1")
        client.list()
        self.assertEqual(["acme"] * 2, [params["tenant"] for _, params, _ in agent.calls])
        self.assertNotIn("tenant", agent.calls[0][2])

    def test_calls_share_a_connection(self):
        agent = self.agent({"GetTask": answering(task())})
        client = self.client(agent)
        for _ in range(5):
            client.get("t1")
        self.assertEqual(1, agent.visits)

    def test_streams_of_several_threads_share_a_connection(self):
        gate = threading.Barrier(4)

        def stream(call):
            call.send({"task": task(WORKING, call.params["message"]["parts"][0]["text"])})

        agent = self.agent({"SendStreamingMessage": stream, "GetTask": answering(task())})
        client = self.client(agent)
        client.get("t1")
        seen = []

        def follow(name):
            events = client.stream(name)
            seen.append(next(events)["task"]["id"])
            gate.wait(20)
            events.close()

        threads = [threading.Thread(target=follow, args=(f"s{n}",), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual([f"s{n}" for n in range(4)], sorted(seen))
        self.assertEqual(1, agent.visits)

    def test_a_large_message_is_sent_with_a_warning(self):
        """GRPC-06: SDK peers take 4 MiB unless they are told."""
        agent = self.agent({"SendMessage": lambda call: call.answer({"task": task()})})
        agent.card["capabilities"] = {}
        raw = bytes(6_000_000)
        self.client(agent).send([raw])
        part = agent.calls[0][1]["message"]["parts"][0]
        self.assertEqual(raw, base64.b64decode(part["raw"]))
        self.assertIn("4 MiB", " ".join(self.warnings))

    def test_a_number_that_a_double_cannot_hold_is_sent_with_a_warning(self):
        """JSON-12: over gRPC data and metadata are doubles."""
        agent = self.agent({"SendMessage": lambda call: call.answer({"task": task()})})
        agent.card["capabilities"] = {}
        client = self.client(agent)
        client.send({"data": {"n": [2**53, -(2**53), 0.5, True]}})
        self.assertEqual([], self.warnings)
        for value in (2**53 + 1, [{"n": -(2**60)}]):
            client.send({"data": value})
            self.assertIn("digits", self.warnings.pop())

    def test_an_answer_over_our_cap(self):
        """GRPC-06: an error, not endless memory."""

        def answer(call):
            call.visit.machine.start(call.stream, 200, [("content-type", "application/grpc")])
            call.visit.machine.data(call.stream, b"\0\xff\xff\xff\xff")
            call.visit.flush()

        client = self.client(self.agent({"GetTask": answer}))
        with self.assertRaisesRegex(a2a.PeerError, "of 4294967295 bytes is over the limit"):
            client.get("t1")

    def test_the_wire_can_be_watched_without_secrets(self):
        """AUTH-25."""
        lines = []
        agent = self.agent({"GetTask": answering(task())}, card=BEARER)
        self.client(agent, debug=lines.append, bearer="hunter2hunter2").get("t1")
        text = "\n".join(lines)
        self.assertIn("/lf.a2a.v1.A2AService/GetTask", text)
        self.assertNotIn("hunter2", text)


BEARER = {
    "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"b": {"list": []}}}],
}


class SignInTest(GrpcCase):
    def metadata(self, scheme, **options):
        card = {
            "securitySchemes": {"s": scheme},
            "securityRequirements": [{"schemes": {"s": {"list": []}}}],
        }
        agent = self.agent({"GetTask": answering(task())}, card=card)
        self.client(agent, **options).get("t1")
        return agent.calls[0][2]

    def test_credentials_are_metadata(self):
        """GRPC-01, AUTH-16: bearer, Basic, API keys wherever a card wants them."""
        bearer = {"httpAuthSecurityScheme": {"scheme": "bearer"}}
        self.assertEqual("Bearer t", self.metadata(bearer, bearer="t")["authorization"])
        basic = {"httpAuthSecurityScheme": {"scheme": "Basic"}}
        self.assertEqual("Basic YTpi", self.metadata(basic, basic="a:b")["authorization"])
        for place, name, value in (
            ("header", "x-key", "k"), ("query", "x-key", "k"), ("cookie", "cookie", "X-Key=k"),
        ):  # fmt: skip
            scheme = {"apiKeySecurityScheme": {"location": place, "name": "X-Key"}}
            self.assertEqual(value, self.metadata(scheme, api_key="k")[name])

    def test_a_refusal(self):
        """GRPC-03, AUTH-18: UNAUTHENTICATED at once, in trailers only."""
        agent = self.agent({"GetTask": refusing(a2a.UnauthenticatedError("who?"))})
        with self.assertRaises(a2a.CredentialsMissing):
            self.client(agent).get("t1")
        agent = self.agent({"GetTask": refusing(a2a.UnauthenticatedError("who?"))}, card=BEARER)
        with self.assertRaises(a2a.AuthFailed) as caught:
            self.client(agent, bearer="t").get("t1")
        self.assertIn("who?", str(caught.exception))

    def test_credentials_stay_with_the_origin_of_the_card(self):
        """AUTH-01: a card that names another host for gRPC gets none."""
        elsewhere = {"url": "evil.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        agent = Agent(card=BEARER, interfaces=[elsewhere])
        self.addCleanup(agent.close)
        with self.assertRaises(a2a.UntrustedOrigin) as caught:
            self.client(agent.url, bearer="t").get("t1")
        self.assertIn("evil.example", str(caught.exception))


class ErrorTest(GrpcCase):
    def refusal(self, function, operation="GetTask"):
        client = self.client(self.agent({operation: function}))
        with self.assertRaises(a2a.A2AError) as caught:
            client.get("t1")
        return caught.exception

    def test_every_fault_comes_back(self):
        """LIST-05, TASK-06 and the others: by their reason."""
        for cls in a2a.FAULTS.values():
            if cls.reason and cls is not a2a.VersionNotSupportedError:
                with self.subTest(cls.__name__):
                    error = self.refusal(refusing(cls("said \xe9")))
                    self.assertEqual((cls, "said \xe9"), (type(error), error.message))
        error = self.refusal(refusing(a2a.VersionNotSupportedError("no")))
        self.assertIn("asked for: 1.0", str(error))  # VER-06

    def test_violations_come_back(self):
        error = self.refusal(refusing(a2a.invalid_params([("id", "is odd")])))
        self.assertEqual("id", error.details[0]["fieldViolations"][0]["field"])

    def test_answers_that_are_no_answer(self):
        for name, function, cls in (
            ("no message", lambda call: call.answer(), a2a.A2AError),
            ("two messages", answering(task(), task()), a2a.PeerError),
            ("a page", lambda call: call.http(502, body=b"<h1>down</h1>"), a2a.TransportError),
            ("another type", lambda call: call.http(200, body=b"<h1>hi</h1>"), a2a.A2AError),
            ("401 of a proxy", lambda call: call.http(401), a2a.AuthError),
        ):
            with self.subTest(name):
                self.assertIsInstance(self.refusal(function), cls)

    def test_no_head_but_the_end(self):
        def cut(call):
            call.visit.machine.reset(call.stream, a2a.INTERNAL_ERROR)
            call.visit.flush()

        error = self.refusal(cut)
        self.assertIsInstance(error, a2a.TransportError)
        self.assertIn("INTERNAL_ERROR", str(error))

    def test_a_deadline(self):
        client = self.client(self.agent({"GetTask": lambda call: None}), timeout_s=0.3)
        with self.assertRaises(a2a.TimeoutExpired):
            client.get("t1")

    def test_an_answer_that_stops(self):
        def half(call):
            call.visit.machine.start(call.stream, 200, [("content-type", "application/grpc")])
            call.visit.flush()

        client = self.client(self.agent({"GetTask": half}), idle_timeout_s=0.2)
        with self.assertRaises(a2a.TransportError) as caught:
            client.get("t1")
        self.assertNotIsInstance(caught.exception, a2a.TimeoutExpired)


class StreamTest(GrpcCase):
    def test_events_come_as_they_are_sent(self):
        go_on = threading.Event()

        def stream(call):
            call.send({"task": task(WORKING)})
            go_on.wait(20)
            call.answer(chunk("Hel"), chunk("lo", append=True), status(COMPLETED))

        agent = self.agent({"SendStreamingMessage": stream})
        events = self.client(agent).stream("hi")
        self.assertIn("task", next(events))
        go_on.set()
        kinds = [next(iter(event)) for event in events]
        self.assertEqual(["artifactUpdate", "artifactUpdate", "statusUpdate"], kinds)

    def test_send_waits_over_a_stream(self):
        """ART-03, SSE-21."""
        agent = self.agent({
            "SendStreamingMessage": answering(
                {"task": task(WORKING)}, chunk("Hel"), chunk("lo", append=True), status(COMPLETED)
            )
        })  # fmt: skip
        result = self.client(agent).send("hi")
        self.assertEqual("Hello", a2a.text_of(result))
        self.assertEqual(COMPLETED, result["task"]["status"]["state"])

    def test_a_message_alone(self):
        """SSE-26."""
        message = support.message("hello", role="ROLE_AGENT")
        agent = self.agent({"SendStreamingMessage": answering({"message": message})})
        self.assertEqual("hello", a2a.text_of(self.client(agent).send("hi")))

    def test_a_refusal_before_the_first_event(self):
        """SSE-16, SSE-20: sending falls back to one answer where there is no stream."""
        agent = self.agent({
            "SendStreamingMessage": refusing(a2a.UnsupportedOperationError("no streams")),
            "SendMessage": answering({"task": task()}),
        })  # fmt: skip
        self.assertEqual(COMPLETED, self.client(agent).send("hi")["task"]["status"]["state"])
        self.assertEqual(["SendStreamingMessage", "SendMessage"], agent.called())

    def test_a_stream_that_is_cut_is_taken_up_again(self):
        """NET-02, SSE-18: the task is asked for, then subscribed to."""

        def cut(call):
            call.send({"task": task(WORKING)})
            call.visit.machine.reset(call.stream, a2a.INTERNAL_ERROR)
            call.visit.flush()

        agent = self.agent({
            "SendStreamingMessage": cut,
            "GetTask": answering(task(WORKING)),
            "SubscribeToTask": answering({"task": task(WORKING)}, status(COMPLETED)),
        })  # fmt: skip
        result = self.client(agent).send("hi")
        self.assertEqual(COMPLETED, result["task"]["status"]["state"])
        self.assertEqual(["SendStreamingMessage", "GetTask", "SubscribeToTask"], agent.called())

    def test_an_error_in_the_midst_of_a_stream(self):
        def fail(call):
            call.send({"task": task(WORKING)})
            call.end(a2a.grpc_trailers(a2a.InternalError("broken")))

        agent = self.agent({"SendStreamingMessage": fail})
        with self.assertRaises(a2a.InternalError):
            list(self.client(agent).stream("hi"))

    def test_silence_makes_the_client_ask(self):
        """NET-02: nothing for idle_timeout_s."""
        agent = self.agent({
            "SendStreamingMessage": lambda call: call.send({"task": task(WORKING)}),
            "GetTask": answering(task(COMPLETED)),
        })  # fmt: skip
        result = self.client(agent, idle_timeout_s=0.2).send("hi")
        self.assertEqual(COMPLETED, result["task"]["status"]["state"])

    def test_leaving_a_stream_tells_the_server(self):
        agent = self.agent({"SendStreamingMessage": lambda call: call.send({"task": task(WORKING)}),
                            "GetTask": answering(task())})  # fmt: skip
        client = self.client(agent)
        events = client.stream("hi")
        next(events)
        events.close()
        client.get("t1")
        self.assertEqual(1, agent.visits)

    def test_an_event_of_a_later_version_is_passed_over(self):
        agent = self.agent({
            "SendStreamingMessage": answering({"task": task(WORKING)}, {}, status(COMPLETED))
        })  # fmt: skip
        self.assertEqual(2, len(list(self.client(agent).stream("hi"))))
        self.assertIn("not known", " ".join(self.warnings))

    def test_closing_ends_a_stream_in_another_thread(self):
        agent = self.agent(
            {"SendStreamingMessage": lambda call: call.send({"task": task(WORKING)})}
        )
        client = self.client(agent)
        failures = []

        def follow():
            try:
                list(client.stream("hi"))
            except a2a.A2AError as error:
                failures.append(str(error))

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        while not agent.calls:
            time.sleep(0.01)
        time.sleep(0.1)
        client.close()
        thread.join(20)
        self.assertEqual(1, len(failures), failures)


class InterfaceTest(GrpcCase):
    def interfaces(self, agent, *grpc_urls):
        rows = [(url, "GRPC") for url in grpc_urls] + [(agent.url + "/rpc", "JSONRPC")]
        return [{"url": u, "protocolBinding": b, "protocolVersion": "1.0"} for u, b in rows]

    def http_agent(self, **more):
        agent = Agent({"GetTask": lambda exchange: exchange.result(task())}, **more)
        self.addCleanup(agent.close)
        return agent

    def test_the_order_of_the_card_and_the_wish(self):
        """CARD-10: the first that is spoken; --transport grpc comes before it."""
        grpc = self.agent({"GetTask": answering(task())})
        http = self.http_agent()
        http.card["supportedInterfaces"] = self.interfaces(http, grpc.address)[::-1]
        self.assertEqual("JSONRPC", self.client(http.url).transport)
        client = self.client(http.url, transport=["grpc"])
        self.assertEqual("t1", client.get("t1")["id"])
        self.assertEqual("GRPC", client.transport)

    def test_an_address_that_cannot_be_called_gives_way(self):
        """CARD-10, GRPC-07, GRPC-08: nothing listens; a path; TLS that is none."""
        http = self.http_agent()
        for url in (
            f"127.0.0.1:{support.free_port()}",
            "https://h.example/path",
            f"https://127.0.0.1:{http.port}",
        ):
            with self.subTest(url):
                http.card["supportedInterfaces"] = self.interfaces(http, url)
                client = self.client(http.url, connect_timeout_s=1.0)
                self.assertEqual("t1", client.get("t1")["id"])
                self.assertEqual("JSONRPC", client.transport)
                self.assertIn("Using JSONRPC", " ".join(self.warnings))

    def test_a_server_of_http_1_1_is_no_grpc(self):
        """GRPC-08: said clearly."""
        http = self.http_agent()
        interface = self.interfaces(http, f"http://127.0.0.1:{http.port}")[:1]
        http.card["supportedInterfaces"] = interface
        with self.assertRaises(a2a.A2AError) as caught:
            self.client(http.url).get("t1")
        self.assertNotIsInstance(caught.exception, a2a.TimeoutExpired)

    def test_the_card_comes_over_http(self):
        """GRPC-11: of an agent whose calls are gRPC alone."""
        grpc = self.agent({"GetTask": answering(task())})
        http = self.http_agent()
        http.card["supportedInterfaces"] = self.interfaces(http, grpc.address)[:1]
        self.assertEqual("t1", self.client(http.url).get("t1")["id"])
        self.assertEqual([CARD], http.paths())


@unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
class TlsTest(GrpcCase):
    def test_grpc_over_tls(self):
        """GRPC-08, AUTH-24: ALPN h2, a trusted authority."""
        folder = support.certificates()
        context = support.ssl_context(folder / "server.pem")
        context.set_alpn_protocols(["h2"])
        agent = self.agent({"GetTask": answering(task())}, tls=context)
        for url in (f"https://{agent.address}", f"grpcs://localhost:{agent.port}"):
            client = self.client(agent, endpoint=url, ca=str(folder / "ca.pem"))
            self.assertEqual("t1", client.get("t1")["id"])
        with self.assertRaises(a2a.Unreachable) as caught:
            self.client(agent, endpoint=f"https://{agent.address}").get("t1")
        self.assertIn("certificate", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
