"""Chapter 12: JSON-RPC and HTTP+JSON, the server's and the client's side."""

import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "bindings"
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Grüße"}]}
TASK = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
HEADERS = {"a2a-version": "1.0", "content-type": "application/json"}
INFO = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "TASK_NOT_FOUND",
    "domain": "a2a-protocol.org",
}
BOTH = (a2a.JSONRPC, a2a.REST)


def vectors(name):
    rows = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert rows, f"{name}.json is empty"
    return rows


def read(binding, request, path, query, body, **more):
    """Read a call as the server does: first what stands before the body."""
    return binding.read(request, binding.route(request, path), query, body, **more)


def asked(operation="SendMessage", params=None, request_id="r1", extensions=()):
    """Give a call as the client makes it."""
    return a2a.Call(None, a2a.OPERATIONS[operation], params or {}, "1.0", extensions, request_id)


def rpc_call(method="SendMessage", params=None, request_id="r1", headers=HEADERS, query="", **more):
    params = {"message": MESSAGE} if params is None else params
    envelope = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    request = a2a.Request("POST", "/", headers)
    return read(a2a.JSONRPC, request, "/", query, json.dumps(envelope).encode(), **more)


def rest_call(method="POST", path="/message:send", query="", body=None, headers=HEADERS, **more):
    body = {"message": MESSAGE} if body is None and path.endswith(":send") else body
    data = b"" if body is None else json.dumps(body).encode()
    return read(a2a.REST, a2a.Request(method, path, headers), path, query, data, **more)


def rpc_answer(result, request_id="r1"):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


class ServiceParametersTest(unittest.TestCase):
    def test_header_names_version_and_extensions(self):
        headers = {"a2a-version": " 1.0 ", "a2a-extensions": "urn:a, urn:b,,urn:a ,"}
        self.assertEqual(("1.0", ("urn:a", "urn:b")), a2a.read_service_parameters(headers))
        self.assertEqual(("", ()), a2a.read_service_parameters({}))

    def test_version_in_the_query(self):
        """VER-05: a query parameter does where the header is absent; the header wins."""
        self.assertEqual("1.0", a2a.read_service_parameters({}, "x=1&A2A-Version=1.0")[0])
        self.assertEqual("1.0", a2a.read_service_parameters({}, "a2a-version=1.0")[0])
        both = a2a.read_service_parameters({"a2a-version": "1.0"}, "A2A-Version=0.3")
        self.assertEqual("1.0", both[0])
        self.assertEqual("1.0", rpc_call(headers={}, query="A2A-Version=1.0").version)
        self.assertEqual(
            "GetTask", rest_call("GET", "/tasks/t", "A2A-Version=1.0", headers={}).operation.name
        )

    def test_an_absent_version_is_refused_with_the_way_out(self):
        """AMB-2, VER-01: absent or empty means 0.3, which is not spoken."""
        for headers in ({}, {"a2a-version": ""}, {"a2a-version": " "}):
            for call in (rpc_call, rest_call):
                with self.assertRaises(a2a.VersionNotSupportedError) as caught:
                    call(headers=headers)
                self.assertIn("send the header A2A-Version: 1.0", str(caught.exception))

    def test_a_lenient_server_takes_an_absent_version_for_1_0(self):
        for call in (rpc_call, rest_call):
            self.assertEqual("", call(headers={}, lenient=True).version)
            with self.assertRaises(a2a.VersionNotSupportedError):
                call(headers={"a2a-version": "0.3"}, lenient=True)

    def test_other_versions_are_refused(self):
        """VER-03: anything but 1.0 is refused, and the error names what is spoken."""
        for version in (
            "9.9",
            "abc",
            "0.30",
            "0.3",
            "1",
            "1.1",
            "11.0",
            "1.0a",
            "1.0.",
            "1.0,1.0",
            "<b>",
        ):
            with self.subTest(version=version):
                with self.assertRaises(a2a.VersionNotSupportedError) as caught:
                    rpc_call(headers={"a2a-version": version})
                [info] = caught.exception.detail_objects()
                self.assertEqual("VERSION_NOT_SUPPORTED", info["reason"])
                self.assertEqual({"supportedVersions": "1.0"}, info["metadata"])
                self.assertNotIn("<b>", str(caught.exception))

    def test_a_patch_number_does_not_count(self):
        self.assertEqual("1.0.7", rpc_call(headers={"a2a-version": "1.0.7"}).version)

    def test_the_version_is_looked_at_before_the_method(self):
        with self.assertRaises(a2a.VersionNotSupportedError) as caught:
            rpc_call("tasks/get", headers={}, request_id=9)
        self.assertEqual(9, caught.exception.request_id)

    def test_extensions_reach_the_call(self):
        """EXT-01: what the request names is there for the service to compare."""
        headers = {**HEADERS, "a2a-extensions": "urn:a,urn:b"}
        for call in (rpc_call, rest_call):
            self.assertEqual(("urn:a", "urn:b"), call(headers=headers).extensions)


class JsonRpcServerTest(unittest.TestCase):
    def test_a_call_is_read(self):
        call = rpc_call()
        self.assertEqual("send_message", call.operation.function)
        self.assertEqual({"message": MESSAGE}, call.params)
        self.assertEqual(("r1", "1.0", ()), (call.id, call.version, call.extensions))
        self.assertIs(a2a.JSONRPC, call.binding)
        self.assertIsNone(call.caller)

    def test_every_operation_has_its_method(self):
        params = {
            "SendMessageRequest": {"message": MESSAGE},
            "TaskPushNotificationConfig": {"taskId": "t", "url": "https://h.example/"},
            "ListTasksRequest": {},
            "GetExtendedAgentCardRequest": {},
        }
        for name, operation in a2a.OPERATIONS.items():
            given = params.get(operation.request, {"id": "t", "taskId": "t"})
            self.assertIs(operation, rpc_call(name, given).operation)

    def test_the_extended_card_needs_no_params(self):
        for more in (b"", b',"params":null'):
            text = b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"%b}' % more
            call = read(a2a.JSONRPC, a2a.Request("POST", "/", HEADERS), "/", "", text)
            self.assertEqual({}, call.params)

    def test_what_is_wrong_is_answered_with_its_code_and_id(self):
        """RPC-01, RPC-03, RPC-04: see vectors/bindings/jsonrpc_errors.json."""
        for row in vectors("jsonrpc_errors"):
            with self.subTest(case=row["case"]):
                body = row["text"].encode("latin-1")
                with self.assertRaises(a2a.Fault) as caught:
                    read(a2a.JSONRPC, a2a.Request("POST", "/", HEADERS), "/", "", body)
                reply = a2a.JSONRPC.error(None, caught.exception)
                self.assertEqual(200, reply.status)
                self.assertEqual([("content-type", "application/json")], reply.headers)
                answer = json.loads(reply.body)
                self.assertEqual("2.0", answer["jsonrpc"])
                self.assertEqual((row["code"], row["id"]), (answer["error"]["code"], answer["id"]))
                for word in ("Traceback", "json.decoder", "KeyError", "char "):
                    self.assertNotIn(word, answer["error"]["message"])

    def test_an_id_that_every_event_repeats_is_not_long(self):
        longest = "i" * a2a.ID_CHARS
        call = rpc_call("GetTask", {"id": "t"}, request_id=longest)
        self.assertEqual(longest, call.id)
        with self.assertRaisesRegex(a2a.InvalidRequestError, "at most 256 char") as caught:
            rpc_call("GetTask", {"id": "t"}, request_id=longest + "i")
        self.assertLess(len(a2a.JSONRPC.error(None, caught.exception).body), 200)

    def test_a_notification_is_told_that_there_are_none(self):
        """JSON-RPC 2.0 section 4.1: a request without an id; null is an id, if a strange one."""
        body = {"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "t"}}
        request = a2a.Request("POST", "/", {"a2a-version": "1.0"})
        with self.assertRaisesRegex(a2a.InvalidRequestError, "id is missing") as caught:
            read(a2a.JSONRPC, request, "", "", json.dumps(body).encode())
        answer = json.loads(a2a.JSONRPC.error(None, caught.exception).body)
        self.assertEqual((None, -32600), (answer["id"], answer["error"]["code"]))
        self.assertIsNone(rpc_call("GetTask", {"id": "t"}, request_id=None).id)
        with self.assertRaisesRegex(a2a.InvalidRequestError, "must be null, a number or"):
            rpc_call("GetTask", {"id": "t"}, request_id=True)

    def test_methods_of_older_versions_get_a_hint(self):
        """RPC-03: who asks with a name of version 0.3 is told what the names look like now."""
        with self.assertRaisesRegex(a2a.MethodNotFoundError, "SendMessage"):
            rpc_call("message/send")
        with self.assertRaisesRegex(a2a.MethodNotFoundError, "^Method not found$"):
            rpc_call("Nothing")

    def test_violations_are_in_the_data(self):
        """RPC-04: a BadRequest names each field."""
        with self.assertRaises(a2a.InvalidParamsError) as caught:
            rpc_call(params={"message": {"parts": []}})
        error = json.loads(a2a.JSONRPC.error(None, caught.exception).body)["error"]
        [detail] = error["data"]
        self.assertEqual("type.googleapis.com/google.rpc.BadRequest", detail["@type"])
        fields = [violation["field"] for violation in detail["fieldViolations"]]
        self.assertEqual(["message.messageId", "message.role", "message.parts"], fields)

    def test_only_post(self):
        with self.assertRaises(a2a.RouteError) as caught:
            read(a2a.JSONRPC, a2a.Request("GET", "/", HEADERS), "/", "", b"")
        reply = a2a.JSONRPC.error(None, caught.exception)
        self.assertEqual(405, reply.status)
        self.assertIn(("allow", "POST"), reply.headers)

    def test_a_result_is_wrapped(self):
        """RPC-07: the result of SendMessage names what it is, that of GetTask does not."""
        for request_id in ("r1", 7, None, 1.5, 'a"b\\é'):
            reply = a2a.JSONRPC.result(rpc_call(request_id=request_id), {"task": TASK})
            self.assertEqual(200, reply.status)
            self.assertEqual([("content-type", "application/json")], reply.headers)
            self.assertEqual(
                {"jsonrpc": "2.0", "id": request_id, "result": {"task": TASK}},
                json.loads(reply.body),
            )
        bare = a2a.JSONRPC.result(rpc_call("GetTask", {"id": "t"}), TASK)
        self.assertEqual(TASK, json.loads(bare.body)["result"])

    def test_an_error_carries_error_info(self):
        """RPC-05: data is a list of objects with @type."""
        reply = a2a.JSONRPC.error(rpc_call(), a2a.TaskNotFoundError())
        self.assertEqual(
            {
                "jsonrpc": "2.0",
                "id": "r1",
                "error": {"code": -32001, "message": "Task not found", "data": [INFO]},
            },
            json.loads(reply.body),
        )
        error = json.loads(a2a.JSONRPC.error(rpc_call(), a2a.InternalError()).body)["error"]
        self.assertEqual({"code": -32603, "message": "Internal error"}, error)

    def test_sign_in_and_limits_keep_their_status(self):
        for fault, status in (
            (a2a.UnauthenticatedError(), 401),
            (a2a.PermissionDeniedError(), 403),
            (a2a.RateLimitedError(retry_after_s=3), 429),
        ):
            reply = a2a.JSONRPC.error(None, fault)
            self.assertEqual(status, reply.status)
            self.assertEqual(fault.jsonrpc_code, json.loads(reply.body)["error"]["code"])
        self.assertIn(("retry-after", "3"), reply.headers)

    def test_events_are_whole_lines(self):
        call = rpc_call(request_id=5)
        payload = a2a.write_json({"task": TASK})
        data = a2a.JSONRPC.event(call, payload)
        [item] = a2a.SseReader().receive(data)
        self.assertEqual({"jsonrpc": "2.0", "id": 5, "result": {"task": TASK}}, json.loads(item))
        self.assertTrue(data.startswith(b"data: {") and data.endswith(b"}\n\n"))

    def test_an_error_ends_a_stream_as_an_event(self):
        data = a2a.JSONRPC.stream_error(rpc_call(request_id=5), a2a.TaskNotFoundError())
        [item] = a2a.SseReader().receive(data)
        answer = json.loads(item)
        self.assertEqual((5, -32001), (answer["id"], answer["error"]["code"]))

    def test_streams_are_not_buffered_by_proxies(self):
        """SSE-17: the headers of a stream forbid caches and buffers."""
        for binding in BOTH:
            headers = dict(binding.stream_headers)
            self.assertEqual("text/event-stream", headers["content-type"])
            self.assertEqual(
                ("no-cache", "no"), (headers["cache-control"], headers["x-accel-buffering"])
            )


class RestServerTest(unittest.TestCase):
    def test_routes(self):
        """AMB-1, REST-01, REST-02: see vectors/bindings/rest_routes.json."""
        for row in vectors("rest_routes"):
            with self.subTest(method=row["method"], path=row["path"]):
                call = rest_call(row["method"], row["path"], body=row.get("body"))
                self.assertEqual(row["operation"], call.operation.name)
                params = dict(call.params)
                if "message" not in row["params"]:
                    params.pop("message", None)
                self.assertEqual(row["params"], params)

    def test_no_route(self):
        """REST-12: 404, or 405 with the methods that there are."""
        for row in vectors("rest_no_route"):
            with self.subTest(method=row["method"], path=row["path"]):
                with self.assertRaises(a2a.RouteError) as caught:
                    rest_call(row["method"], row["path"])
                reply = a2a.REST.error(None, caught.exception)
                self.assertEqual(row["status"], reply.status)
                self.assertEqual(row["allow"], dict(reply.headers).get("allow", ""))
                error = json.loads(reply.body)["error"]
                self.assertEqual(row["status"], error["code"])
                self.assertNotIn("details", error)

    def test_a_path_that_is_no_utf8(self):
        with self.assertRaises(a2a.InvalidParamsError):
            rest_call("GET", "/tasks/%ff")

    def test_the_query_is_read(self):
        """REST-04, HIST-01: zero is a value, and unset stays unset."""
        call = rest_call("GET", "/tasks/t1", "historyLength=0")
        self.assertEqual({"id": "t1", "historyLength": 0}, call.params)
        self.assertEqual({"id": "t1"}, rest_call("GET", "/tasks/t1").params)
        listed = rest_call("GET", "/acme/tasks", "pageSize=5&status=TASK_STATE_WORKING")
        self.assertEqual(
            {"tenant": "acme", "pageSize": 5, "status": "TASK_STATE_WORKING"}, listed.params
        )

    def test_bad_filters_are_refused(self):
        """REST-05, REST-06: 400 with the field."""
        twice = "status=TASK_STATE_WORKING&status=TASK_STATE_FAILED"
        for query in ("status=invalid", "pageSize=0", "pageSize=101", "pageSize=x",
                      "historyLength=-1", "includeArtifacts=1", twice):  # fmt: skip
            with self.subTest(query=query):
                with self.assertRaises(a2a.InvalidParamsError) as caught:
                    rest_call("GET", "/tasks", query)
                reply = a2a.REST.error(None, caught.exception)
                self.assertEqual(400, reply.status)
                error = json.loads(reply.body)["error"]
                self.assertEqual("INVALID_ARGUMENT", error["status"])
                field = error["details"][0]["fieldViolations"][0]["field"]
                self.assertEqual(query.partition("=")[0], field)

    def test_all_bad_parameters_are_named_at_once(self):
        query = "pageSize=150&historyLength=-5&status=TASK_STATE_RUNNING"
        with self.assertRaises(a2a.InvalidParamsError) as caught:
            rest_call("GET", "/tasks", query)
        self.assertEqual(3, len(caught.exception.details[0]["fieldViolations"]))

    def test_a_body_that_contradicts_the_path_is_refused(self):
        with self.assertRaises(a2a.InvalidParamsError):
            rest_call("POST", "/tasks/t1:cancel", body={"id": "t2"})
        with self.assertRaises(a2a.InvalidParamsError):
            rest_call("POST", "/acme/message:send", body={"tenant": "b", "message": MESSAGE})
        call = rest_call("POST", "/tasks/t1:cancel", body={"id": "t1", "tenant": ""})
        self.assertEqual({"id": "t1"}, call.params)
        with self.assertRaises(a2a.InvalidParamsError):
            rest_call("GET", "/tasks/t1", "id=t2")

    def test_a_body_that_is_no_object(self):
        for body in ([], "x", 5):
            with self.assertRaises(a2a.InvalidParamsError):
                rest_call("POST", "/tasks/t1:cancel", body=body)
        with self.assertRaises(a2a.JSONParseError):
            read(a2a.REST, a2a.Request("POST", "/", HEADERS), "/message:send", "", b"{")
        with self.assertRaises(a2a.InvalidParamsError):
            read(a2a.REST, a2a.Request("POST", "/", HEADERS), "/message:send", "", b"")

    def test_a_result_is_the_message_itself(self):
        reply = a2a.REST.result(rest_call(), {"task": TASK})
        self.assertEqual(200, reply.status)
        self.assertEqual(
            [("content-type", "application/a2a+json"), ("cache-control", "no-store")], reply.headers
        )
        self.assertEqual({"task": TASK}, json.loads(reply.body))

    def test_an_error_is_a_status_object(self):
        """AMB-6, REST-07: the body of A2A section 11.6."""
        reply = a2a.REST.error(None, a2a.TaskNotFoundError("gone"))
        self.assertEqual(404, reply.status)
        self.assertEqual([("content-type", "application/a2a+json")], reply.headers)
        self.assertEqual(
            {"error": {"code": 404, "status": "NOT_FOUND", "message": "gone", "details": [INFO]}},
            json.loads(reply.body),
        )
        limited = a2a.REST.error(None, a2a.RateLimitedError(retry_after_s=5))
        self.assertEqual(429, limited.status)
        self.assertIn(("retry-after", "5"), limited.headers)

    def test_every_fault_has_the_status_of_the_specification(self):
        """REST-12: section 5.4; all preconditions are 400."""
        for cls in a2a.FAULTS.values():
            reply = a2a.REST.error(None, cls())
            self.assertEqual(cls.http_status, reply.status)
            error = json.loads(reply.body)["error"]
            self.assertEqual((cls.http_status, cls.grpc_status), (error["code"], error["status"]))

    def test_events_and_the_error_that_ends_a_stream(self):
        """AMB-8: the last event of a broken stream is an error object."""
        call = rest_call()
        reader = a2a.SseReader()
        data = a2a.REST.event(call, a2a.write_json({"task": TASK}))
        data += a2a.REST.stream_error(call, a2a.TaskNotFoundError("gone"))
        events = [json.loads(item) for byte in data for item in reader.receive(bytes([byte]))]
        self.assertEqual({"task": TASK}, events[0])
        self.assertEqual("gone", events[1]["error"]["message"])
        self.assertIn(b"event: error\ndata: {", data)


class ClientRequestTest(unittest.TestCase):
    def test_json_rpc_posts_to_the_declared_url(self):
        """REST-11, VER-04: the URL as it stands, and the version always."""
        call = asked("SendMessage", {"message": MESSAGE}, extensions=("urn:a", "urn:b"))
        verb, target, headers, body = a2a.JSONRPC.request(call, "/team/a2a/?x=1")
        self.assertEqual(("POST", "/team/a2a/?x=1"), (verb, target))
        self.assertEqual(
            [
                ("content-type", "application/json"),
                ("accept", "application/json"),
                ("a2a-version", "1.0"),
                ("a2a-extensions", "urn:a,urn:b"),
            ],
            headers,
        )
        self.assertEqual(
            {"jsonrpc": "2.0", "id": "r1", "method": "SendMessage", "params": {"message": MESSAGE}},
            json.loads(body),
        )
        self.assertEqual("/", a2a.JSONRPC.request(asked(), "")[1])

    def test_a_stream_is_asked_for(self):
        for binding in BOTH:
            _, _, headers, _ = binding.request(asked("SubscribeToTask", {"id": "t"}), "/")
            self.assertTrue(dict(headers)["accept"].startswith("text/event-stream"))

    def test_rest_targets(self):
        """REST-11: a slash at the end of the URL is joined once."""
        send = asked("SendMessage", {"message": MESSAGE})
        for base in ("/team/a2a", "/team/a2a/"):
            verb, target, headers, body = a2a.REST.request(send, base)
            self.assertEqual(("POST", "/team/a2a/message:send"), (verb, target))
            self.assertEqual("application/a2a+json", dict(headers)["content-type"])
            self.assertEqual({"message": MESSAGE}, json.loads(body))
        self.assertEqual("/message:send", a2a.REST.request(send, "")[1])
        self.assertEqual("/a/message:send?k=1", a2a.REST.request(send, "/a?k=1")[1])

    def test_tenant_is_in_the_path_and_the_body(self):
        """CARD-11: copied exactly, percent-encoded in the path."""
        params = {"message": MESSAGE, "tenant": "a/b c"}
        _, target, _, body = a2a.REST.request(asked("SendMessage", params), "/x")
        self.assertEqual("/x/a%2Fb%20c/message:send", target)
        self.assertEqual("a/b c", json.loads(body)["tenant"])
        _, target, _, body = a2a.REST.request(
            asked("GetTask", {"id": "t/1:cancel", "tenant": "é"}), "/x"
        )
        self.assertEqual(("/x/%C3%A9/tasks/t%2F1%3Acancel", b""), (target, body))

    def test_queries(self):
        """REST-04, REST-06: camelCase, true and false, lists repeated, zero sent."""
        params = {
            "historyLength": 0,
            "includeArtifacts": True,
            "pageToken": "a b&c=d",
            "x": ["1", "2"],
        }
        verb, target, headers, body = a2a.REST.request(asked("ListTasks", params), "/")
        self.assertEqual("GET", verb)
        self.assertEqual(
            "/tasks?historyLength=0&includeArtifacts=true&pageToken=a%20b%26c%3Dd&x=1&x=2", target
        )
        self.assertEqual(b"", body)
        self.assertNotIn("content-type", dict(headers))

    def test_subscribing_with_get(self):
        """AMB-1: the client may ask with the other method."""
        call = asked("SubscribeToTask", {"id": "t"})
        self.assertEqual("POST", a2a.REST.request(call, "/")[0])
        verb, target, _, body = a2a.REST.request(call, "/", verb="GET")
        self.assertEqual(("GET", "/tasks/t:subscribe", b""), (verb, target, body))

    def test_what_a_client_writes_a_server_reads(self):
        params = {
            "SendMessageRequest": {"message": MESSAGE, "tenant": "acme"},
            "TaskPushNotificationConfig": {"taskId": "t:1", "url": "https://h.example/", "id": "c"},
            "ListTasksRequest": {"contextId": "é/?&", "pageSize": 5, "includeArtifacts": False},
            "GetTaskRequest": {"id": "%2F", "historyLength": 0, "tenant": "t"},
        }
        for binding in BOTH:
            for operation in a2a.OPERATIONS.values():
                fields = {field.name for field in a2a.MESSAGES[operation.request]}
                given = params.get(operation.request) or {
                    key: value
                    for key, value in {"id": "a b", "taskId": "x"}.items()
                    if key in fields
                }
                verb, target, headers, body = binding.request(asked(operation.name, given), "/")
                path, _, query = target.partition("?")
                request = a2a.Request(verb, target, dict(headers))
                call = read(binding, request, path, query, body)
                self.assertIs(operation, call.operation)
                self.assertEqual(given, call.params)


class ClientReplyTest(unittest.TestCase):
    def setUp(self):
        self.warnings = []

    def reply(self, binding, status, body, operation="SendMessage", headers=None):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return binding.reply(asked(operation), status, headers or {}, body, self.warnings.append)

    def test_results(self):
        self.assertEqual({"task": TASK}, self.reply(a2a.JSONRPC, 200, rpc_answer({"task": TASK})))
        self.assertEqual({"task": TASK}, self.reply(a2a.REST, 200, {"task": TASK}))
        self.assertEqual(TASK, self.reply(a2a.REST, 200, TASK, "GetTask"))
        self.assertEqual([], self.warnings)

    def test_error_null_beside_a_result_is_success(self):
        """JSON-02: null counts as absent."""
        body = {"jsonrpc": "2.0", "id": "r1", "error": None, "result": {"task": TASK}}
        self.assertEqual({"task": TASK}, self.reply(a2a.JSONRPC, 200, body))

    def test_what_no_utf_8_holds_can_still_be_asked_for(self):
        """A shell gives such bytes as lone surrogates: no task has that id, and nothing breaks."""
        for binding, operation, params in (
            (a2a.REST, "GetTask", {"id": "\udcff", "tenant": "\udcfe"}),
            (a2a.REST, "ListTasks", {"contextId": "\udcff"}),
            (a2a.JSONRPC, "GetTask", {"id": "\udcff"}),
        ):
            _, target, _, _ = binding.request(asked(operation, params), "/")
            self.assertTrue(target.isascii())

    def test_an_object_of_another_kind_is_no_answer(self):
        listing = "ListTasks"
        for value in ({}, {"tasks": []}, {"page_size": 0}, {"nextPageToken": "", "x": 1}):
            for binding, body in ((a2a.REST, value), (a2a.JSONRPC, rpc_answer(value))):
                self.assertEqual([], self.reply(binding, 200, body, listing)["tasks"])
        for value in ({"id": "t1", "status": {}}, {"detail": "Not here"}, {"jsonrpc": "2.0"}):
            for binding, body in ((a2a.REST, value), (a2a.JSONRPC, rpc_answer(value))):
                with self.assertRaisesRegex(a2a.PeerError, "nothing of a ListTasksResponse"):
                    self.reply(binding, 200, body, listing)

    def test_an_answer_of_no_bytes_and_an_event_that_is_no_json_are_told(self):
        for status in (200, 204):
            with self.assertRaisesRegex(a2a.PeerError, f"answered {status} with nothing where"):
                self.reply(a2a.JSONRPC, status, b"")
        call = asked("SubscribeToTask")
        with self.assertRaisesRegex(a2a.JsonError, "An event of the stream cannot be read. Not "):
            a2a.JSONRPC.stream_item(call, "{nope")

    def test_delete_may_answer_null_or_nothing(self):
        """JSON-02: Delete may answer result null, an empty object or 204."""
        delete = "DeleteTaskPushNotificationConfig"
        for result in (None, {}, {"x": 1}):
            self.assertEqual({}, self.reply(a2a.JSONRPC, 200, rpc_answer(result), delete))
        for status, body in ((204, b""), (200, b""), (200, b"{}"), (200, b"null")):
            self.assertEqual({}, self.reply(a2a.REST, status, body, delete))

    def test_a_bare_task_or_message_is_taken_with_a_warning(self):
        """RPC-07: what lacks its wrapper is understood, and said."""
        for bare, wrapped in ((TASK, {"task": TASK}), (MESSAGE, {"message": MESSAGE})):
            for binding in BOTH:
                body = rpc_answer(bare) if binding is a2a.JSONRPC else bare
                self.assertEqual(wrapped, self.reply(binding, 200, body))
        self.assertEqual(4, len(self.warnings))
        self.assertIn("bare task", self.warnings[0])

    def test_a_stream_answered_as_a_whole(self):
        """SSE-13: a result is one event, an error the typed error; never an empty success."""
        for binding in BOTH:
            body = rpc_answer({"task": TASK}) if binding is a2a.JSONRPC else {"task": TASK}
            self.assertEqual({"task": TASK}, self.reply(binding, 200, body, "SendStreamingMessage"))
            with self.assertRaises(a2a.PeerError):
                body = rpc_answer({}) if binding is a2a.JSONRPC else {}
                self.reply(binding, 200, body, "SendStreamingMessage")
        error = {"jsonrpc": "2.0", "id": "r1", "error": {"code": -32004, "message": "no"}}
        with self.assertRaises(a2a.UnsupportedOperationError):
            self.reply(a2a.JSONRPC, 200, error, "SendStreamingMessage")

    def test_json_rpc_errors(self):
        """RPC-05, SSE-25: see vectors/bindings/jsonrpc_replies.json."""
        for row in vectors("jsonrpc_replies"):
            with self.subTest(case=row["case"]):
                with self.assertRaises(a2a.A2AError) as caught:
                    self.reply(a2a.JSONRPC, row["status"], row["body"].encode(), headers={})
                self.assertEqual(row["error"], type(caught.exception).__name__)
                self.assertTrue(str(caught.exception).strip())

    def test_rest_errors(self):
        """AMB-6, REST-07: the 400s told apart; see vectors/bindings/rest_replies.json."""
        for row in vectors("rest_replies"):
            with self.subTest(case=row["case"]):
                with self.assertRaises(a2a.A2AError) as caught:
                    headers = {"content-type": row["type"]}
                    self.reply(a2a.REST, row["status"], row["body"].encode(), "GetTask", headers)
                self.assertEqual(row["error"], type(caught.exception).__name__)
                self.assertTrue(str(caught.exception).strip())

    def test_status_challenge_and_body_are_reported(self):
        """SSE-14: not 'bad stream' but what was answered, bounded."""
        with self.assertRaises(a2a.HttpError) as caught:
            self.reply(a2a.REST, 503, b"<h1>down</h1>" + b"x" * 10_000, "SendStreamingMessage")
        self.assertEqual(503, caught.exception.status)
        self.assertIn("503 Service Unavailable: down", str(caught.exception))
        self.assertLess(len(str(caught.exception)), 300)
        for binding in BOTH:
            with self.assertRaises(a2a.AuthFailed) as caught:
                headers = {"www-authenticate": 'Bearer realm="a"'}
                self.reply(binding, 401, b"no\x1b[31m", "SendStreamingMessage", headers)
            self.assertEqual('Bearer realm="a"', caught.exception.challenge)
            self.assertIn("Bearer realm", caught.exception.hint)
            self.assertNotIn("\x1b", str(caught.exception))
            self.assertIn("(401)", str(caught.exception))
            with self.assertRaisesRegex(a2a.AuthFailed, r"does not allow this \(403\): no$"):
                self.reply(binding, 403, b"no")

    def test_a_redirect_names_where_to(self):
        with self.assertRaises(a2a.HttpError) as caught:
            self.reply(a2a.JSONRPC, 302, b"", headers={"location": "https://other.example/"})
        self.assertIn("https://other.example/", str(caught.exception))

    def test_the_codes_are_those_of_the_class(self):
        body = {"error": {"code": 404, "status": "NOT_FOUND", "message": "no", "details": [INFO]}}
        with self.assertRaises(a2a.TaskNotFoundError) as caught:
            self.reply(a2a.REST, 404, body)
        self.assertEqual(-32001, caught.exception.jsonrpc_code)

    def test_only_2xx_is_success(self):
        for status in (300, 304, 399):
            with self.assertRaises(a2a.HttpError) as caught:
                self.reply(a2a.REST, status, TASK, "GetTask")
            self.assertEqual(status, caught.exception.status)

    def test_when_to_come_back(self):
        for value, seconds in (("7", 7), ("Wed, 21 Oct 2026 07:28:00 GMT", 0), ("9" * 50, 0)):
            with self.assertRaises(a2a.RateLimitedError) as caught:
                self.reply(a2a.JSONRPC, 429, b"", headers={"retry-after": value})
            self.assertEqual(seconds, caught.exception.retry_after_s)

    def test_details_survive(self):
        """RPC-05: objects are kept, text is put into words."""
        error = {"code": -32602, "message": "no", "data": [INFO, {"@type": "x", "a": 1}, "text"]}
        with self.assertRaises(a2a.Fault) as caught:
            self.reply(a2a.JSONRPC, 200, {"jsonrpc": "2.0", "id": "r1", "error": error})
        self.assertEqual([INFO, {"@type": "x", "a": 1}], caught.exception.details)
        error = {"code": -32602, "message": "no", "data": "plain text"}
        with self.assertRaises(a2a.Fault) as caught:
            self.reply(a2a.JSONRPC, 200, {"jsonrpc": "2.0", "id": "r1", "error": error})
        self.assertEqual("no (plain text)", str(caught.exception))
        with self.assertRaises(a2a.Fault) as caught:
            self.reply(a2a.JSONRPC, 200, {"jsonrpc": "2.0", "id": "r1", "error": {"code": -32123}})
        self.assertEqual(-32123, caught.exception.jsonrpc_code)

    def test_problem_json_names_its_fields(self):
        body = {"status": 400, "detail": "no", "errors": [{"field": "pageSize", "message": "m"}, 5]}
        with self.assertRaises(a2a.InvalidParamsError) as caught:
            self.reply(a2a.REST, 400, body, "ListTasks")
        self.assertEqual(
            [{"field": "pageSize", "description": "m"}],
            caught.exception.details[0]["fieldViolations"],
        )

    def test_ids_that_differ_in_kind_alone_are_one(self):
        """SSE-25: another id is an error; 1 and "1" are not."""
        call = asked("GetTask", request_id="1")
        for body in (rpc_answer(TASK, 1), rpc_answer(TASK, "1")):
            self.assertEqual(TASK, a2a.JSONRPC.reply(call, 200, {}, body))
        with self.assertRaisesRegex(a2a.PeerError, "another request"):
            a2a.JSONRPC.reply(call, 200, {}, rpc_answer(TASK, "2"))

    def test_every_fault_comes_back_as_what_it_was(self):
        """RPC-05, REST-07: a server's error is the client's error."""
        for cls in a2a.FAULTS.values():
            for binding, call in ((a2a.JSONRPC, rpc_call()), (a2a.REST, rest_call())):
                reply = binding.error(call, cls("why"))
                with self.assertRaises(a2a.A2AError) as caught:
                    self.reply(binding, reply.status, reply.body)
                error = caught.exception
                if cls in (a2a.UnauthenticatedError, a2a.PermissionDeniedError):
                    self.assertIsInstance(error, a2a.AuthFailed)
                elif binding is a2a.JSONRPC or cls.reason or cls.http_status in (429, 500):
                    self.assertIs(cls, type(error))
                self.assertIn("why", str(error))

    def test_random_answers_never_raise_anything_else(self):
        random_ = random.Random(12)
        failure = {"jsonrpc": "2.0", "id": "r1", "error": {"code": -32001, "data": [INFO]}}
        status = {"error": {"code": 404, "details": [INFO]}}
        good = [rpc_answer({"task": TASK}), *(json.dumps(x).encode() for x in (failure, status))]
        scalars = ["null", "5", "[]", "{}", '"x"', "true", "-1e9"]
        for _ in range(3000):
            text = random_.choice(good).decode()
            pieces = text.split(":")
            for _ in range(random_.randrange(3)):
                pieces[random_.randrange(len(pieces))] = random_.choice(scalars)
            body = ":".join(pieces).encode()
            binding, status = (
                random_.choice(BOTH),
                random_.choice((200, 200, 204, 302, 400, 401, 404, 429, 500)),
            )
            try:
                self.reply(binding, status, body)
            except a2a.A2AError as error:
                self.assertNotIn("\n", str(error))


class StreamItemTest(unittest.TestCase):
    ARTIFACT = {"artifactId": "a", "parts": [{"text": "x"}]}
    EVENTS = (
        {"task": TASK},
        {"message": MESSAGE},
        {"statusUpdate": {"taskId": "t", "contextId": "c", "status": TASK["status"]}},
        {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": ARTIFACT}},
    )

    def test_what_a_server_writes_a_client_reads(self):
        for binding, call in ((a2a.JSONRPC, rpc_call()), (a2a.REST, rest_call())):
            reader = a2a.SseReader()
            for event in self.EVENTS:
                [item] = reader.receive(binding.event(call, a2a.write_json(event)))
                self.assertEqual(event, binding.stream_item(asked(), item))
            [item] = reader.receive(binding.stream_error(call, a2a.TaskNotFoundError("gone")))
            with self.assertRaisesRegex(a2a.TaskNotFoundError, "gone"):
                binding.stream_item(asked(), item)

    def test_an_event_without_data_is_skipped(self):
        """SSE-09: nothing there is no error of JSON."""
        for binding in BOTH:
            self.assertEqual({}, binding.stream_item(asked(), ""))
            self.assertEqual({}, binding.stream_item(asked(), " \n"))

    def test_an_event_of_another_request_is_an_error(self):
        """SSE-25: never silent."""
        with self.assertRaisesRegex(a2a.PeerError, "another request"):
            a2a.JSONRPC.stream_item(asked(), rpc_answer({"task": TASK}, "zz").decode())

    def test_an_event_of_a_new_kind_is_skipped_with_a_warning(self):
        for binding in BOTH:
            warnings = []
            event = {"heartbeat": {}}
            item = rpc_answer(event).decode() if binding is a2a.JSONRPC else json.dumps(event)
            self.assertEqual({}, binding.stream_item(asked(), item, warnings.append))
            self.assertEqual(1, len(warnings))

    def test_bare_events_are_taken_with_a_warning(self):
        for event in self.EVENTS:
            warnings = []
            [bare] = event.values()
            self.assertEqual(
                event, a2a.REST.stream_item(asked(), json.dumps(bare), warnings.append)
            )
            self.assertEqual(1, len(warnings))

    def test_snake_case_events_are_read(self):
        event = {"status_update": {"task_id": "t", "context_id": "c", "status": TASK["status"]}}
        self.assertEqual(self.EVENTS[2], a2a.REST.stream_item(asked(), json.dumps(event)))

    def test_what_is_no_event(self):
        for text in ("[]", "5", "x", '{"task":5}', '{"task":{}}', '{"task":null}'):
            with self.subTest(text=text), self.assertRaises(a2a.PeerError):
                a2a.REST.stream_item(asked(), text)
        for text in (
            "[]",
            '{"jsonrpc":"2.0","id":"r1"}',
            '{"jsonrpc":"2.0","id":"r1","result":null}',
        ):
            with self.subTest(text=text), self.assertRaises(a2a.PeerError):
                a2a.JSONRPC.stream_item(asked(), text)


class ExcerptTest(unittest.TestCase):
    def test_one_line_without_control_characters(self):
        self.assertEqual("a b c", a2a.excerpt(b"<html><p>a\n b\r\n<b>c</b></html>"))
        self.assertEqual("a?[31mb", a2a.excerpt(b"a\x1b[31mb"))
        self.assertEqual("é\ufffd", a2a.excerpt("é".encode() + b"\xff"))
        self.assertEqual("x" * 200 + "...", a2a.excerpt(b"x" * 10**6))
        self.assertEqual("?b", a2a.excerpt("\u202eb"))


class BindingsTest(unittest.TestCase):
    def test_both_have_the_same_methods(self):
        self.assertEqual(
            {"JSONRPC": a2a.JSONRPC, "HTTP+JSON": a2a.REST}.items() - a2a.BINDINGS.items(), set()
        )
        methods = {
            "read",
            "result",
            "error",
            "event",
            "stream_error",
            "request",
            "reply",
            "stream_item",
        }
        for name, binding in a2a.BINDINGS.items():
            self.assertEqual(name, binding.name)
            if binding is a2a.GRPC:  # whose answers are no HTTP bodies
                methods = methods - {"reply", "stream_item"} | {"read_answer"}
            self.assertLessEqual(methods, set(dir(binding)))


if __name__ == "__main__":
    unittest.main()
