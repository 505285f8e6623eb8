"""Chapter 11: what gRPC puts into a stream of HTTP/2."""

import base64
import pathlib
import random
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

HEAD = a2a.Response(200, {"content-type": "application/grpc"}, 1)
OK = a2a.End(1, {"grpc-status": "0"})


class Messages(unittest.TestCase):
    def test_a_message_has_its_length_in_front(self):
        self.assertEqual(b"\0\0\0\0\3abc", a2a.write_grpc_message(b"abc"))
        self.assertEqual(b"\0\0\0\0\0", a2a.write_grpc_message(b""))

    def test_messages_come_out_however_they_are_cut(self):
        generator = random.Random(11)
        messages = [b"", b"a", b"x" * 70000, b"", b"yz" * 500, b""]
        data = b"".join(map(a2a.write_grpc_message, messages))
        for size in (1, 4, 5, 6, 1000, len(data)):
            with self.subTest(size=size):
                reader, found = a2a.GrpcReader(100000), []
                for at in range(0, len(data), size):
                    found += reader.receive(data[at : at + size])
                self.assertEqual(messages, found)
                reader.receive_end()
        reader, found, at = a2a.GrpcReader(100000), [], 0
        while at < len(data):
            step = generator.randrange(1, 20000)
            found += reader.receive(data[at : at + step])
            at += step
        self.assertEqual(messages, found)

    def test_a_message_over_the_limit_is_refused_at_its_length(self):
        """GRPC-06: over our own limit RESOURCE_EXHAUSTED, and not a byte of it is kept."""
        self.assertEqual([b"x" * 10], a2a.GrpcReader(10).receive(b"\0\0\0\0\x0a" + b"x" * 10))
        with self.assertRaises(a2a.GrpcError) as caught:
            a2a.GrpcReader(10).receive(b"\0\0\0\0\x0b")
        self.assertEqual("RESOURCE_EXHAUSTED", caught.exception.grpc_status)
        self.assertIn("11", str(caught.exception))
        with self.assertRaises(a2a.GrpcError):
            a2a.GrpcReader(10).receive(b"\0\1\0\0\0")

    def test_a_six_megabyte_message_passes(self):
        """GRPC-06: more than the 4 MiB that other implementations take unless told."""
        data = a2a.write_grpc_message(b"x" * 6_000_000)
        reader, found = a2a.GrpcReader(a2a.BODY_BYTES), []
        for at in range(0, len(data), 16384):
            found += reader.receive(data[at : at + 16384])
        self.assertEqual([6_000_000], [len(message) for message in found])

    def test_a_compressed_message_is_refused(self):
        with self.assertRaises(a2a.GrpcError) as caught:
            a2a.GrpcReader(10).receive(b"\1\0\0\0\1x")
        self.assertEqual("UNIMPLEMENTED", caught.exception.grpc_status)

    def test_a_body_that_ends_inside_a_message(self):
        for data in (b"\0", b"\0\0\0\0\2x"):
            reader = a2a.GrpcReader(10)
            self.assertEqual([], reader.receive(data))
            with self.assertRaises(a2a.GrpcError):
                reader.receive_end()

    def test_a_whole_body_is_one_message(self):
        self.assertEqual(b"abc", a2a.read_grpc_body(b"\0\0\0\0\3abc"))
        self.assertEqual(b"", a2a.read_grpc_body(bytes(5)))
        for body, status in (
            (b"", "UNIMPLEMENTED"),
            (bytes(10), "UNIMPLEMENTED"),
            (b"\1\0\0\0\1x", "UNIMPLEMENTED"),
            (b"\0\0\0\0\2x", "INTERNAL"),
            (b"\0\0", "INTERNAL"),
            (b"\xff\xff\xff\xff\xfc", "UNIMPLEMENTED"),
        ):
            with self.subTest(body), self.assertRaises(a2a.GrpcError) as caught:
                a2a.read_grpc_body(body)
            self.assertEqual(status, caught.exception.grpc_status)

    def test_the_types_of_protobuf(self):
        """GRPC-04: application/grpc[+proto]."""
        for kind in ("application/grpc", "application/grpc+proto", "Application/GRPC ; x=y"):
            self.assertTrue(a2a.is_grpc(kind))
        for kind in ("", "application/grpc+json", "application/grpc-web", "application/json"):
            self.assertFalse(a2a.is_grpc(kind))


class Timeouts(unittest.TestCase):
    def test_units(self):
        for text, seconds in {
            "2H": 7200, "3M": 180, "4S": 4, "500m": 0.5, "250u": 0.00025, "7n": 7e-9, "0S": 0,
            "99999999S": 99999999,
        }.items():  # fmt: skip
            self.assertAlmostEqual(seconds, a2a.read_grpc_timeout(text))

    def test_malformed(self):
        for text in ("", "S", "5", "5s", "-5S", "1.5S", "999999999S", "5 S", "\u0665S", "5S\n"):
            with self.subTest(text), self.assertRaises(a2a.GrpcError):
                a2a.read_grpc_timeout(text)

    def test_what_is_written_is_close_and_short_enough(self):
        for seconds in (1e-9, 0.001, 0.25, 1, 30, 120.5, 3600, 1e6, 1e9):
            text = a2a.write_grpc_timeout(seconds)
            self.assertLessEqual(len(text), 9)
            self.assertAlmostEqual(1, a2a.read_grpc_timeout(text) / seconds, places=5)
        self.assertEqual("1n", a2a.write_grpc_timeout(0))
        self.assertEqual("99999999H", a2a.write_grpc_timeout(1e15))


class Texts(unittest.TestCase):
    def test_a_message_is_percent_encoded_utf_8(self):
        """GRPC-04: grpc-message carries any text, and what a peer sent wrong does no harm."""
        self.assertEqual("caf%C3%A9 100%25%0A", a2a.write_grpc_text("caf\xe9 100%\n"))
        self.assertEqual("caf\xe9", a2a.read_grpc_text("caf%C3%A9"))
        self.assertEqual("50% of 100%zz", a2a.read_grpc_text("50% of 100%zz"))
        self.assertEqual("\ufffd", a2a.read_grpc_text("%ff"))

    def test_every_text_survives_as_a_header(self):
        for text in ("plain", "\u6771\u4eac \U0001f600", "a%20b", "tab\tand\r\n", "~ !\x7f\0"):
            written = a2a.write_grpc_text(text)
            self.assertTrue(re.fullmatch(a2a.FIELD_VALUE, written), written)
            self.assertEqual(text, a2a.read_grpc_text(written))

    def test_odd_ends_and_characters_are_no_header_errors(self):
        for text in (" padded ", "\ud800", "x" * 10000):
            written = a2a.write_grpc_text(text)
            self.assertTrue(re.fullmatch(a2a.FIELD_VALUE, written))
            self.assertLess(len(written), 2000)


class Details(unittest.TestCase):
    def test_details_survive(self):
        details = [
            {"@type": a2a.ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org",
             "metadata": {"taskId": "t1", "\xfc": ""}},
            {"@type": a2a.BAD_REQUEST, "fieldViolations": [
                {"field": "message.parts[1]", "description": "empty"},
                {"description": "\u6771" * 100}]},
        ]  # fmt: skip
        data = a2a.write_status_details(5, "text", details)
        self.assertEqual(details, a2a.read_status_details(data))

    def test_the_bytes_are_those_of_protobuf(self):
        details = [{"@type": a2a.ERROR_INFO, "reason": "R", "domain": "d"}]
        data = a2a.write_status_details(3, "m", details)
        packed = b"\x0a\x01R\x12\x01d"
        detail = b"\x0a\x28" + a2a.ERROR_INFO.encode() + b"\x12" + bytes((len(packed),)) + packed
        self.assertEqual(b"\x08\x03\x12\x01m\x1a" + bytes((len(detail),)) + detail, data)

    def test_other_details_are_left_out(self):
        detail = {"@type": "type.googleapis.com/google.rpc.Help", "links": []}
        data = a2a.write_status_details(3, "m", [detail])
        self.assertEqual(b"\x08\x03\x12\x01m", data)
        data += bytes.fromhex("1a070a03612f6212 00".replace(" ", ""))
        self.assertEqual([], a2a.read_status_details(data))

    def test_malformed_details_are_refused_and_nothing_else_happens(self):
        details = [{"@type": a2a.ERROR_INFO, "reason": "R", "domain": "d", "metadata": {"a": "b"}}]
        whole = a2a.write_status_details(3, "m", details)
        generator = random.Random(3)
        for _ in range(3000):
            data = bytearray(whole[: generator.randrange(len(whole) + 1)] or b"\0")
            data[generator.randrange(len(data))] = generator.randrange(256)
            try:
                found = a2a.read_status_details(bytes(data))
            except a2a.PeerError:
                continue
            self.assertLessEqual(len(found), 1)
        for data in (b"\x0a", b"\x0a\x05ab", b"\xff" * 11, b"\x0b\0", b"\x80", b"\x1a\x02\x0a\xff"):
            with self.assertRaises(a2a.PeerError):
                a2a.read_status_details(data)


class Trailers(unittest.TestCase):
    def test_a_fault_carries_status_message_and_details(self):
        trailers = dict(a2a.grpc_trailers(a2a.TaskNotFoundError("no \u6771")))
        self.assertEqual(("5", "no %E6%9D%B1"), (trailers["grpc-status"], trailers["grpc-message"]))
        packed = trailers["grpc-status-details-bin"]
        data = base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
        info = {"@type": a2a.ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}
        self.assertEqual([info], a2a.read_status_details(data))

    def test_errors_of_grpc_have_no_details(self):
        trailers = a2a.grpc_trailers(a2a.GrpcError("DEADLINE_EXCEEDED", "late"))
        self.assertEqual([("grpc-status", "4"), ("grpc-message", "late")], trailers)

    def test_details_that_no_client_would_take_are_left_out(self):
        fault = a2a.invalid_params([(f"field{i}", "wrong " * 50) for i in range(20)])
        trailers = dict(a2a.grpc_trailers(fault))
        self.assertEqual({"grpc-status", "grpc-message"}, set(trailers))
        self.assertEqual("3", trailers["grpc-status"])


class Answers(unittest.TestCase):
    def read(self, *events):
        answer, messages = a2a.GrpcAnswer(), []
        for event in events:
            messages += answer.receive(event)
        return answer, messages

    def fails(self, cls, *events):
        with self.assertRaises(cls) as caught:
            self.read(*events)
        self.assertIs(cls, type(caught.exception))
        return caught.exception

    def test_messages_and_ok(self):
        data = a2a.write_grpc_message(b"one") + a2a.write_grpc_message(b"two")
        answer, messages = self.read(HEAD, a2a.Data(data[:6], 1), a2a.Data(data[6:], 1))
        self.assertEqual([b"one", b"two"], messages)
        self.assertFalse(answer.done)
        answer.receive(OK)
        self.assertTrue(answer.done)
        self.assertEqual([], answer.receive(a2a.Reset(1, a2a.NO_ERROR)))

    def test_trailers_only(self):
        """GRPC-03: the status stands in the first and only head."""
        fields = {"content-type": "application/grpc", "grpc-status": "16", "grpc-message": "who%3F"}
        error = self.fails(a2a.AuthFailed, a2a.Response(200, fields, 1), a2a.End(1))
        self.assertEqual("who?", error.message)
        fields["grpc-status"] = "0"
        self.assertTrue(self.read(a2a.Response(200, fields, 1), a2a.End(1))[0].done)

    def test_our_own_trailers_come_back_as_the_same_fault(self):
        for cls in a2a.FAULTS.values():
            if not cls.reason:
                continue
            fault = cls("as sent")
            trailers = dict(a2a.grpc_trailers(fault))
            error = self.fails(cls, HEAD, a2a.End(1, trailers))
            self.assertEqual(("as sent", fault.detail_objects()), (error.message, error.details))

    def test_violations_come_back(self):
        fault = a2a.invalid_params([("message.parts", "empty")])
        error = self.fails(a2a.InvalidParamsError, HEAD, a2a.End(1, dict(a2a.grpc_trailers(fault))))
        self.assertEqual(fault.details, error.details)

    def test_a_status_without_a_reason(self):
        for number, cls in {
            1: a2a.GrpcError, 2: a2a.GrpcError, 3: a2a.InvalidParamsError, 4: a2a.TimeoutExpired,
            5: a2a.TaskNotFoundError, 7: a2a.NotAllowed, 8: a2a.RateLimitedError, 9: a2a.GrpcError,
            12: a2a.MethodNotFoundError, 13: a2a.InternalError, 14: a2a.TransportError,
            16: a2a.AuthFailed, 17: a2a.GrpcError, 99: a2a.GrpcError,
        }.items():  # fmt: skip
            with self.subTest(number):
                error = self.fails(cls, HEAD, a2a.End(1, {"grpc-status": str(number)}))
                known = number < len(a2a.GRPC_STATUSES)
            self.assertIn(a2a.GRPC_STATUSES[number] if known else str(number), error.message)

    def test_an_answer_without_a_status(self):
        error = self.fails(a2a.GrpcError, HEAD, a2a.End(1))
        self.assertEqual("No gRPC status came", error.message)
        self.assertEqual("A2ACLI_ERR_INTERNAL", error.code)  # the command line has no other name
        self.fails(a2a.GrpcError, HEAD, a2a.End(1, {"grpc-status": "\xb2"}))

    def test_an_answer_that_ends_inside_a_message(self):
        self.fails(a2a.PeerError, HEAD, a2a.Data(b"\0\0", 1), OK)
        error = self.fails(a2a.PeerError, HEAD, a2a.Data(b"\1\0\0\0\1x", 1))
        self.assertEqual("InvalidAgentResponseError", error.code)
        self.assertIn("breaks gRPC: Compressed", error.message)

    def test_details_that_cannot_be_read_are_passed_over(self):
        for details in ("!", "AAAA", base64.b64encode(b"\x1a\xff").decode()):
            fields = {"grpc-status": "5", "grpc-status-details-bin": details}
            self.fails(a2a.TaskNotFoundError, HEAD, a2a.End(1, fields))

    def test_answers_that_are_not_grpc(self):
        for status, cls in {
            200: a2a.PeerError, 400: a2a.InternalError, 401: a2a.AuthFailed, 403: a2a.NotAllowed,
            404: a2a.MethodNotFoundError, 418: a2a.GrpcError, 429: a2a.TransportError,
            502: a2a.TransportError, 503: a2a.TransportError, 504: a2a.TransportError,
        }.items():  # fmt: skip
            with self.subTest(status):
                error = self.fails(cls, a2a.Response(status, {"content-type": "text/html"}, 1))
                self.assertIn(str(status), error.message)
        self.fails(a2a.PeerError, a2a.Response(200, {}, 1))

    def test_content_types(self):
        for kind in (
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;charset=utf-8",
        ):
            answer, _ = self.read(a2a.Response(200, {"content-type": kind}, 1), OK)
            self.assertTrue(answer.done)

    def test_resets(self):
        error = self.fails(a2a.TransportError, HEAD, a2a.Reset(1, a2a.CANCEL))
        self.assertIn("CANCEL", error.message)
        self.fails(a2a.TransportError, a2a.Reset(1, 4711))
        self.fails(a2a.PeerError, a2a.Reset(1, a2a.PROTOCOL_ERROR, "DATA before HEADERS"))

    def test_other_events_are_passed_over(self):
        self.assertEqual([], self.read(HEAD, a2a.WindowOpen(1))[1])


if __name__ == "__main__":
    unittest.main()
