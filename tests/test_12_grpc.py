"""Chapter 12, gRPC: calls and results as messages and trailers, without a wire."""

import base64
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

HEADERS = {
    "content-type": "application/grpc",
    "te": "trailers",
    "a2a-version": "1.0",
}
MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def path_of(method, service=a2a.GRPC_SERVICE):
    return f"/{service}/{method}"


def body_of(name, value):
    return a2a.write_grpc_message(a2a.write_protobuf(name, value))


def read(method="SendMessage", params=None, headers=HEADERS, body=None, path=None, verb="POST"):
    """Read a call as the server does."""
    path = path or path_of(method)
    if body is None:
        kind = a2a.OPERATIONS[method].request
        body = body_of(kind, {"message": MESSAGE} if params is None else params)
    request = a2a.Request(verb, path, headers, 1, True)
    return a2a.GRPC.read(request, a2a.GRPC.route(request, path), "", body)


def asked(method, params, extensions=()):
    """Give a call as the client makes it."""
    return a2a.Call(a2a.GRPC, a2a.OPERATIONS[method], params, "1.0", extensions)


def status_of(reply):
    """Give (name of the status, message, details) of a reply."""
    trailers = dict(reply.trailers)
    packed = trailers.get("grpc-status-details-bin", "")
    details = a2a.read_status_details(base64.b64decode(packed + "=" * (-len(packed) % 4)))
    message = a2a.read_grpc_text(trailers.get("grpc-message", ""))
    return a2a.GRPC_STATUSES[int(trailers["grpc-status"])], message, details


class ServerTest(unittest.TestCase):
    def refused(self, cls, **call):
        with self.assertRaises(cls) as caught:
            read(**call)
        return caught.exception

    def test_a_call_is_read(self):
        call = read(headers={**HEADERS, "a2a-extensions": "u:1, u:2"})
        self.assertEqual("SendMessage", call.operation.name)
        self.assertEqual({"message": MESSAGE}, call.params)
        self.assertEqual(("1.0", ("u:1", "u:2")), (call.version, call.extensions))
        self.assertIs(a2a.GRPC, call.binding)

    def test_every_operation_has_its_method(self):
        """GRPC-10: lf.a2a.v1.A2AService."""
        for name, row in a2a.OPERATIONS.items():
            with self.subTest(name):
                params = {"id": "t", "taskId": "t", "url": "http://h/", "message": MESSAGE}
                names = {field.name for field in a2a.MESSAGES[row.request]}
                params = {key: value for key, value in params.items() if key in names}
                call = read(name, params)
                self.assertEqual((name, params), (call.operation.name, call.params))

    def test_what_is_unknown_is_unimplemented(self):
        """GRPC-10: another service, the one of 0.3, another method."""
        for path in (
            path_of("SendMessage", "a2a.v1.A2AService"),
            path_of("SendMessage", "grpc.health.v1.Health"),
            path_of("Nothing"),
            path_of("sendMessage"),
            "/SendMessage",
            "/",
            "/lf.a2a.v1.A2AService/SendMessage/x",
        ):
            with self.subTest(path):
                error = self.refused(a2a.GrpcError, path=path)
                self.assertEqual("UNIMPLEMENTED", error.grpc_status)
        self.refused(a2a.GrpcError, verb="GET")
        for kind in ("application/grpc+json", "application/grpc-web", "application/json"):
            error = self.refused(a2a.GrpcError, headers={**HEADERS, "content-type": kind})
            self.assertEqual("UNIMPLEMENTED", error.grpc_status)

    def test_the_content_types_that_are_protobuf(self):
        """GRPC-04: application/grpc and application/grpc+proto."""
        for kind in ("application/grpc", "application/grpc+proto", "Application/gRPC; a=b"):
            self.assertEqual(
                MESSAGE, read(headers={**HEADERS, "content-type": kind}).params["message"]
            )

    def test_the_version(self):
        """VER-01, VER-03: absent, wrong, right, in metadata."""
        for version in ("", "0.3", "9.9", "abc"):
            error = self.refused(
                a2a.VersionNotSupportedError, headers={**HEADERS, "a2a-version": version}
            )
            status, _, details = status_of(a2a.GRPC.error(None, error))
            self.assertEqual("FAILED_PRECONDITION", status)
            self.assertEqual("VERSION_NOT_SUPPORTED", details[0]["reason"])
        absent = {key: value for key, value in HEADERS.items() if key != "a2a-version"}
        self.refused(a2a.VersionNotSupportedError, headers=absent)
        request = a2a.Request("POST", path_of("SendMessage"), absent, 1, True)
        body = body_of("SendMessageRequest", {"message": MESSAGE})
        route = a2a.GRPC.route(request, request.target)
        self.assertTrue(a2a.GRPC.read(request, route, "", body, lenient=True))

    def test_one_message_is_due(self):
        whole = body_of("SendMessageRequest", {"message": MESSAGE})
        for body in (b"", whole + whole, whole[:-1], whole[:3], b"\1" + whole[1:]):
            with self.subTest(body[:8]):
                self.refused(a2a.GrpcError, body=body)

    def test_a_message_that_is_no_protobuf(self):
        error = self.refused(a2a.GrpcError, body=a2a.write_grpc_message(b"\x0a\xff"))
        self.assertEqual("INVALID_ARGUMENT", error.grpc_status)

    def test_violations_are_named(self):
        """RPC-04, JSON-06: no message; a message without parts; a part without content."""
        for params, field in (
            ({}, "message"),
            ({"message": {**MESSAGE, "parts": []}}, "message.parts"),
            ({"message": {**MESSAGE, "parts": [{}]}}, "message.parts[0]"),
            ({"message": {**MESSAGE, "messageId": ""}}, "message.messageId"),
        ):
            with self.subTest(field):
                error = self.refused(a2a.InvalidParamsError, params=params)
                status, _, details = status_of(a2a.GRPC.error(None, error))
                self.assertEqual("INVALID_ARGUMENT", status)
                self.assertIn(field, [row["field"] for row in details[0]["fieldViolations"]])

    def test_presence_survives(self):
        """HIST-01, GRPC-12: historyLength 0 is not the same as none."""
        self.assertEqual({"id": "t"}, read("GetTask", {"id": "t"}).params)
        params = {"id": "t", "historyLength": 0}
        self.assertEqual(params, read("GetTask", params).params)

    def test_struct_corners(self):
        """GRPC-12, JSON-03, JSON-04: null inside a Struct, empty ones, data of every kind."""
        metadata = {"a": None, "b": {}, "c": [], "d": [None, {"e": 1.5}], "f": ""}
        parts = [{"data": value} for value in (None, [1, "two", False], 0, "", {}, {"x": None})]
        params = {"message": {**MESSAGE, "parts": parts, "metadata": metadata}}
        self.assertEqual(params, read(params=params).params)

    def test_unknown_fields_are_skipped_and_numbers_of_enums_refused(self):
        """GRPC-12, JSON-01: of a newer version; JSON-07: a role that there is not."""
        data = a2a.write_protobuf("SendMessageRequest", {"message": MESSAGE})
        body = a2a.write_grpc_message(data + bytes.fromhex("f8ffff7f01fa0603616263"))
        self.assertEqual({"message": MESSAGE}, read(body=body).params)
        self.refused(a2a.InvalidParamsError, params={"message": {**MESSAGE, "role": 9}})

    def test_the_tenant_is_a_field(self):
        """GRPC-09: not metadata."""
        params = {"message": MESSAGE, "tenant": "acme"}
        self.assertEqual("acme", read(params=params).params["tenant"])
        self.assertNotIn("tenant", read(headers={**HEADERS, "tenant": "acme"}).params)

    def test_a_result(self):
        """RPC-07: SendMessageResponse with its wrapper."""
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        reply = a2a.GRPC.result(read(), {"task": task})
        self.assertEqual((200, [("content-type", "application/grpc")]), reply[:2])
        self.assertEqual([("grpc-status", "0")], list(reply.trailers))
        self.assertEqual(body_of("SendMessageResponse", {"task": task}), reply.body)

    def test_an_empty_result(self):
        call = read("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "p"})
        self.assertEqual(b"\0\0\0\0\0", a2a.GRPC.result(call, {}).body)

    def test_every_fault_has_the_status_of_the_specification(self):
        for cls in a2a.FAULTS.values():
            with self.subTest(cls.__name__):
                reply = a2a.GRPC.error(None, cls("said"))
                status, message, details = status_of(reply)
                self.assertEqual((cls.grpc_status, "said"), (status, message))
                self.assertEqual((200, b""), (reply.status, reply.body))
                reasons = [detail.get("reason") for detail in details]
                self.assertEqual([cls.reason] if cls.reason else [], reasons)

    def test_a_request_over_the_limit(self):
        """GRPC-06: RESOURCE_EXHAUSTED."""
        fault = a2a.InvalidParamsError("too long")
        fault.http_status = 413
        self.assertEqual("RESOURCE_EXHAUSTED", status_of(a2a.GRPC.error(None, fault))[0])

    def test_events(self):
        call = read("SendStreamingMessage")
        event = {
            "statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": a2a.WORKING}}
        }
        payload = a2a.GRPC.payload(event)
        self.assertEqual(body_of("StreamResponse", event), a2a.GRPC.event(call, payload))
        self.assertEqual([("grpc-status", "0")], list(a2a.GRPC.trailers()))
        fault = a2a.TaskNotFoundError()
        self.assertEqual(b"", a2a.GRPC.stream_error(call, fault))
        self.assertEqual("5", dict(a2a.GRPC.trailers(fault))["grpc-status"])


class ClientTest(unittest.TestCase):
    def test_a_request(self):
        """GRPC-01, GRPC-04, VER-04: metadata in lower case, te, the types, the version."""
        call = asked("GetTask", {"id": "t"}, ["u:1", "u:2"])
        method, path, headers, body = a2a.GRPC.request(call)
        self.assertEqual(("POST", "/lf.a2a.v1.A2AService/GetTask"), (method, path))
        self.assertEqual(
            {
                "te": "trailers",
                "content-type": "application/grpc",
                "grpc-accept-encoding": "identity",
                "a2a-version": "1.0",
                "a2a-extensions": "u:1,u:2",
            },
            dict(headers),
        )
        self.assertEqual(body_of("GetTaskRequest", {"id": "t"}), body)
        _, _, headers, _ = a2a.GRPC.request(asked("GetTask", {"id": "t"}))
        self.assertNotIn("a2a-extensions", dict(headers))

    def test_what_a_client_writes_a_server_reads(self):
        for name in a2a.OPERATIONS:
            params = {"tenant": "acme"}
            if name.startswith("Send"):
                params["message"] = MESSAGE
            elif "Push" in name:
                params.update(taskId="t", id="p", url="http://h/")
            elif name not in ("ListTasks", "GetExtendedAgentCard"):
                params["id"] = "t"
            names = {field.name for field in a2a.MESSAGES[a2a.OPERATIONS[name].request]}
            params = {key: value for key, value in params.items() if key in names}
            with self.subTest(name):
                verb, path, headers, body = a2a.GRPC.request(asked(name, params))
                request = a2a.Request(verb, path, dict(headers), 1, True)
                call = a2a.GRPC.read(request, a2a.GRPC.route(request, path), "", body)
                self.assertEqual((name, params), (call.operation.name, call.params))

    def read(self, name, value, warnings=None):
        row = a2a.OPERATIONS[name]
        warn = (warnings if warnings is not None else []).append
        message = a2a.write_protobuf(row.response, value)
        return a2a.GRPC.read_answer(asked(name, {}), message, warn)

    def test_answers(self):
        task = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
        self.assertEqual("t", self.read("SendMessage", {"task": task})["task"]["id"])
        self.assertEqual("t", self.read("GetTask", task)["id"])
        page = self.read("ListTasks", {"tasks": [], "pageSize": 5})
        self.assertEqual(([], 5), (page["tasks"], page["pageSize"]))
        self.assertEqual({}, self.read("DeleteTaskPushNotificationConfig", {}))

    def test_events(self):
        update = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        event = {"statusUpdate": update}
        self.assertEqual(event, self.read("SubscribeToTask", event))

    def test_an_event_of_a_later_version_is_passed_over(self):
        warnings = []
        self.assertEqual({}, self.read("SubscribeToTask", {}, warnings))
        self.assertEqual(1, len(warnings))

    def test_a_state_of_a_later_version_is_kept(self):
        """GRPC-12, JSON-07: an unknown enum number: go on polling."""
        task = self.read("GetTask", {"id": "t", "status": {"state": 42}})
        self.assertNotIn(task["status"]["state"], a2a.SETTLED_STATES)

    def test_an_answer_that_is_no_protobuf(self):
        with self.assertRaises(a2a.PeerError):
            a2a.GRPC.read_answer(asked("GetTask", {}), b"\x0a\xff")


if __name__ == "__main__":
    unittest.main()
