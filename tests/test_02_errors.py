"""The error tree: whose fault, which code on which wire, which exit status."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

# A2A sections 3.3.2, 5.4, 9.5 and 11.6: JSON-RPC code, gRPC status, HTTP status, reason.
NAMED = {
    "TaskNotFoundError": (-32001, "NOT_FOUND", 404, "TASK_NOT_FOUND"),
    "TaskNotCancelableError": (-32002, "FAILED_PRECONDITION", 400, "TASK_NOT_CANCELABLE"),
    "PushNotificationNotSupportedError": (
        -32003, "FAILED_PRECONDITION", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"
    ),
    "UnsupportedOperationError": (-32004, "FAILED_PRECONDITION", 400, "UNSUPPORTED_OPERATION"),
    "ContentTypeNotSupportedError": (
        -32005, "INVALID_ARGUMENT", 400, "CONTENT_TYPE_NOT_SUPPORTED"
    ),
    "InvalidAgentResponseError": (-32006, "INTERNAL", 500, "INVALID_AGENT_RESPONSE"),
    "ExtendedAgentCardNotConfiguredError": (
        -32007, "FAILED_PRECONDITION", 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    ),
    "ExtensionSupportRequiredError": (
        -32008, "FAILED_PRECONDITION", 400, "EXTENSION_SUPPORT_REQUIRED"
    ),
    "VersionNotSupportedError": (-32009, "FAILED_PRECONDITION", 400, "VERSION_NOT_SUPPORTED"),
}  # fmt: skip

# JSON-RPC 2.0 section 5.1, and the three of ours: they carry no reason.
PLAIN = {
    "JSONParseError": (-32700, "INVALID_ARGUMENT", 400),
    "InvalidRequestError": (-32600, "INVALID_ARGUMENT", 400),
    "MethodNotFoundError": (-32601, "UNIMPLEMENTED", 404),
    "InvalidParamsError": (-32602, "INVALID_ARGUMENT", 400),
    "InternalError": (-32603, "INTERNAL", 500),
    "UnauthenticatedError": (-32050, "UNAUTHENTICATED", 401),
    "RateLimitedError": (-32051, "RESOURCE_EXHAUSTED", 429),
    "PermissionDeniedError": (-32052, "PERMISSION_DENIED", 403),
}

EXIT_STATUS = {  # a2a-cli section 11.6
    a2a.Fault: 1,
    a2a.PeerError: 1,
    a2a.UsageError: 2,
    a2a.TransportError: 3,
    a2a.CardNotFound: 3,
    a2a.AuthError: 4,
    a2a.CredentialsMissing: 4,
    a2a.AuthFailed: 4,
    a2a.TimeoutExpired: 5,
}


def codes(cls):
    return cls.jsonrpc_code, cls.grpc_status, cls.http_status


class ErrorTest(unittest.TestCase):
    def test_each_error_of_the_specification_has_its_codes(self):
        for name, (*expected, reason) in NAMED.items():
            with self.subTest(name=name):
                cls = getattr(a2a, name)
                self.assertEqual((*expected, reason), (*codes(cls), cls.reason))
                self.assertEqual(name, cls.code, "the command line shows the name")

    def test_each_plain_error_has_its_codes_and_no_reason(self):
        for name, expected in PLAIN.items():
            with self.subTest(name=name):
                cls = getattr(a2a, name)
                self.assertEqual((*expected, ""), (*codes(cls), cls.reason))

    def test_there_are_no_others(self):
        known = {getattr(a2a, name) for name in (*NAMED, *PLAIN)}
        self.assertEqual(known, set(a2a.FAULTS.values()))

    def test_codes_and_reasons_lead_back_to_their_class(self):
        for code, cls in a2a.FAULTS.items():
            self.assertEqual(code, cls.jsonrpc_code)
        for reason, cls in a2a.FAULTS_BY_REASON.items():
            self.assertEqual(reason, cls.reason)
        self.assertEqual(set(NAMED), {cls.__name__ for cls in a2a.FAULTS_BY_REASON.values()})

    def test_exit_statuses(self):
        self.assertEqual(EXIT_STATUS, {cls: cls.exit_status for cls in EXIT_STATUS})

    def test_every_error_of_ours_is_an_a2a_error_and_has_a_code(self):
        waiting, seen = [a2a.A2AError], 0
        while waiting:
            cls = waiting.pop()
            waiting += cls.__subclasses__()
            seen += 1
            self.assertTrue(cls.code, cls)
            self.assertTrue(cls.__doc__, cls)
            self.assertIn(cls.exit_status, range(1, 6), cls)
        self.assertGreater(seen, len(NAMED) + len(PLAIN))

    def test_the_text_is_what_was_said_and_else_the_usual_one(self):
        self.assertEqual("Task not found", str(a2a.TaskNotFoundError()))
        error = a2a.TaskNotFoundError("no task t1", retry_after_s=3)
        self.assertEqual(("no task t1", "no task t1", 3), (str(error), error.message, 3))
        self.assertEqual("try again", a2a.UsageError("no", hint="try again").hint)
        self.assertEqual(431, a2a.HttpError(431, "too long").status)

    def test_details_start_with_the_error_info(self):
        extra = {"@type": a2a.BAD_REQUEST, "fieldViolations": []}
        details = a2a.TaskNotFoundError(details=[extra]).detail_objects()
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org",
        }
        self.assertEqual([info, extra], details)

    def test_an_error_info_that_is_there_is_not_doubled(self):
        info = {"@type": a2a.ERROR_INFO, "reason": "TASK_NOT_FOUND", "metadata": {"taskId": "t"}}
        self.assertEqual([info], a2a.TaskNotFoundError(details=[info]).detail_objects())

    def test_errors_without_a_reason_have_no_error_info(self):
        self.assertEqual([], a2a.InternalError("x").detail_objects())

    def test_field_violations_name_the_field(self):
        error = a2a.invalid_params([("message.parts[1]", "no content"), ("", "and more")])
        self.assertIsInstance(error, a2a.InvalidParamsError)
        self.assertIn("message.parts[1]: no content", str(error))
        violations = error.detail_objects()[0]["fieldViolations"]
        self.assertEqual({"field": "message.parts[1]", "description": "no content"}, violations[0])
        self.assertEqual(2, len(violations))
        self.assertEqual("Invalid parameters: odd", str(a2a.invalid_params([("", "odd")])))


if __name__ == "__main__":
    unittest.main()
