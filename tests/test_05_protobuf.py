"""Chapter 5: canonical messages as protobuf bytes, and back."""

import json
import pathlib
import random
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "protobuf"


def vectors(name):
    rows = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert rows, f"{name}.json is empty"
    return rows


def nested_lists(levels):
    value = "x"
    for _ in range(levels):
        value = [value]
    return {"data": value}


class VectorTest(unittest.TestCase):
    """The bytes of valid.json were written by the official Python library (deterministic=True)."""

    maxDiff = None

    def test_values_and_bytes_agree_with_the_official_library(self):
        """GRPC-12, HIST-01: presence, oneofs, maps, null and empty structs, all kinds of Value."""
        for row in vectors("valid"):
            with self.subTest(case=row["case"]):
                given = json.dumps(row["value"])
                data = a2a.write_protobuf(row["message"], row["value"])
                self.assertEqual(row["bytes"], data.hex())
                self.assertEqual(row["value"], a2a.read_protobuf(row["message"], data))
                self.assertEqual(given, json.dumps(row["value"]), "the input was changed")

    def test_unusual_bytes_are_read_as_the_official_library_reads_them(self):
        """GRPC-12: unknown fields skipped, unknown enum numbers kept, the last one wins."""
        for row in vectors("unusual"):
            with self.subTest(case=row["case"]):
                data = bytes.fromhex(row["bytes"])
                self.assertEqual(row["value"], a2a.read_protobuf(row["message"], data))

    def test_malformed_bytes_are_the_peers_error(self):
        for row in vectors("malformed"):
            with self.subTest(case=row["case"]), self.assertRaises(a2a.ProtobufError) as caught:
                a2a.read_protobuf(row["message"], bytes.fromhex(row["bytes"]))
            self.assertIsInstance(caught.exception, a2a.PeerError)

    def test_every_beginning_of_a_message_is_read_or_refused(self):
        for row in vectors("valid"):
            data = bytes.fromhex(row["bytes"])[:300]
            for end in range(len(data)):
                try:
                    a2a.read_protobuf(row["message"], data[:end])
                except a2a.ProtobufError as error:
                    self.assertIn("Not valid protobuf", str(error))

    def test_random_bytes_never_raise_anything_else(self):
        random_ = random.Random(5)
        rows = vectors("valid")
        for _ in range(3000):
            row = random_.choice(rows)
            data = bytearray.fromhex(row["bytes"])[:400] or bytearray(1)
            for _ in range(random_.randrange(1, 4)):
                data[random_.randrange(len(data))] = random_.randrange(256)
            try:
                value = a2a.read_protobuf(row["message"], bytes(data))
            except a2a.ProtobufError:
                continue
            again = a2a.write_protobuf(row["message"], value)
            self.assertEqual(value, a2a.read_protobuf(row["message"], again))


class WriteTest(unittest.TestCase):
    def test_fields_are_written_in_the_order_of_their_numbers(self):
        one = a2a.write_protobuf("GetTaskRequest", {"tenant": "a", "id": "t", "historyLength": 0})
        other = a2a.write_protobuf("GetTaskRequest", {"historyLength": 0, "id": "t", "tenant": "a"})
        self.assertEqual(bytes.fromhex("0a0161 120174 1800"), one)
        self.assertEqual(one, other)

    def test_unset_and_unknown_fields_leave_no_bytes(self):
        value = {"messageId": "", "parts": [], "role": "ROLE_UNSPECIFIED", "taskId": None, "x": 1}
        self.assertEqual(b"", a2a.write_protobuf("Message", value))
        self.assertEqual(b"", a2a.write_protobuf("ListTasksResponse", {"pageSize": 0, "tasks": []}))

    def test_sizes_around_those_that_take_another_byte(self):
        for size in (0, 1, 127, 128, 129, 16383, 16384):
            data = a2a.write_protobuf("Part", {"text": "x" * size})
            head = 2 if size < 128 else 3 if size < 16384 else 4
            self.assertEqual(head + size, len(data))
            self.assertEqual({"text": "x" * size}, a2a.read_protobuf("Part", data))

    def test_enum_names_and_numbers(self):
        for state, data in (
            ("TASK_STATE_COMPLETED", b"\x08\x03"),
            (99, b"\x08\x63"),
            (3, b"\x08\x03"),
        ):
            self.assertEqual(data, a2a.write_protobuf("TaskStatus", {"state": state}))
        new = a2a.write_protobuf("TaskStatus", {"state": "TASK_STATE_PAUSED"})
        self.assertEqual({}, a2a.read_protobuf("TaskStatus", new))

    def test_a_lone_surrogate_becomes_a_replacement(self):
        """JSON-15: protobuf has no form for half a pair; a whole pair is its character."""
        for text, read in (("\ud83d end", "\ufffd end"), ("\ud83d\ude00", "\U0001f600")):
            data = a2a.write_protobuf("Part", {"text": text})
            self.assertEqual({"text": read}, a2a.read_protobuf("Part", data))
        data = a2a.write_protobuf("Task", {"metadata": {"\udc00": "\udc00"}})
        self.assertEqual({"metadata": {"\ufffd": "\ufffd"}}, a2a.read_protobuf("Task", data))

    def test_both_base64_alphabets_are_written(self):
        for text in ("-_-_Zg", "+/+/Zg=="):
            data = a2a.write_protobuf("Part", {"raw": text})
            self.assertEqual(b"\x12\x04\xfb\xff\xbf\x66", data)
            self.assertEqual({"raw": "+/+/Zg=="}, a2a.read_protobuf("Part", data))

    def test_whole_numbers_stay_whole(self):
        """JSON-12: a double carries 1 as 1.0, and 1 comes back; beyond 2^53 digits are lost."""
        value = {"metadata": {"r": 1, "f": 1.5, "n": 9007199254740993}}
        data = a2a.write_protobuf("Task", value)
        read = a2a.read_protobuf("Task", data)["metadata"]
        self.assertEqual({"r": 1, "f": 1.5, "n": 9007199254740992}, read)
        self.assertIsInstance(read["r"], int)
        self.assertEqual(b'{"f":1.5,"n":9007199254740992.0,"r":1}', a2a.write_json(read))

    def test_what_is_no_such_message_is_the_callers_error(self):
        for name, value in (
            ("Part", {"text": 5}),
            ("Part", {"raw": "*"}),
            ("Part", {"data": {1: 2}}),
            ("Part", {"data": {"a": 10**400}}),
            ("Part", {"data": object()}),
            ("Part", {"data": float("nan")}),
            ("Part", {"data": float("-inf")}),
            ("Message", {"parts": 5}),
            ("Message", {"parts": ["x"]}),
            ("TaskStatus", {"timestamp": "now"}),
            ("Task", []),
        ):
            with self.subTest(value=value), self.assertRaises(a2a.UsageError):
                a2a.write_protobuf(name, value)

    def test_a_large_file_is_not_scattered(self):
        raw = a2a.encode_base64(bytes(range(256)) * 4000)
        value = {"message": {"messageId": "m", "parts": [{"raw": raw}, {"text": "x"}]}}
        data = a2a.write_protobuf("SendMessageRequest", value)
        self.assertLess(len(data), 256 * 4000 + 40)
        self.assertEqual(value, a2a.read_protobuf("SendMessageRequest", data))


class LimitTest(unittest.TestCase):
    def test_what_json_may_hold_is_refused_where_protobuf_nests_too_deep(self):
        data = a2a.write_protobuf("Part", nested_lists(45))
        self.assertEqual(nested_lists(45), a2a.read_protobuf("Part", data))
        for levels in (55, 90):
            data = a2a.write_protobuf("Part", nested_lists(levels))
            with self.assertRaisesRegex(a2a.ProtobufError, "nested too deep"):
                a2a.read_protobuf("Part", data)

    def test_a_value_too_deep_to_write_is_the_callers_error(self):
        cycle = []
        cycle.append(cycle)
        with self.assertRaises(a2a.UsageError):
            a2a.write_protobuf("Part", {"data": cycle})

    def test_a_bomb_of_tiny_fields_is_refused(self):
        """Each takes two bytes and many times the work of two bytes, known or not."""
        for tiny, field in (
            (b"\x2a\x00", "parts"), (b"\x3a\x00", "extensions"), (b"\x20\x01", "role"),
            (b"\x78\x00", ""), (b"\x7a\x00", ""),
        ):  # fmt: skip
            with self.subTest(field or tiny):
                with self.assertRaisesRegex(a2a.ProtobufError, "too many fields"):
                    a2a.read_protobuf("Message", tiny * 201, values=200)
                allowed = a2a.read_protobuf("Message", tiny * 200, values=200)
                if isinstance(allowed.get(field), list):
                    self.assertEqual(200, len(allowed[field]))
        group = b"\x7b" + b"\x78\x00" * 200 + b"\x7c"
        with self.assertRaises(a2a.ProtobufError):
            a2a.read_protobuf("Message", group, values=200)
        self.assertEqual({}, a2a.read_protobuf("Message", group, values=201))

    def test_groups_end_within_their_message(self):
        inside = b"\x7b\x0a\x01x"  # opened in the part, closed behind it
        data = b"\x2a" + bytes((len(inside),)) + inside + b"\x7c"
        with self.assertRaises(a2a.ProtobufError):
            a2a.read_protobuf("Message", data)

    def test_a_number_may_not_reach_beyond_its_message(self):
        data = b"\x1a\x02\x08\xff" + b"\x01\x0a\x00"
        with self.assertRaises(a2a.ProtobufError):
            a2a.read_protobuf("Task", data)


class VarintTest(unittest.TestCase):
    def test_round_trip(self):
        for value in (0, 1, 127, 128, 300, 2**31, 2**32, 2**63, 2**64 - 1):
            data = a2a.write_varint(value)
            self.assertEqual((value, len(data)), a2a.read_varint(data, 0))
            self.assertEqual(max(1, (value.bit_length() + 6) // 7), len(data))

    def test_a_negative_number_takes_ten_bytes(self):
        self.assertEqual(b"\xff" * 9 + b"\x01", a2a.write_varint(-1))

    def test_eleven_bytes_are_refused(self):
        self.assertEqual((0, 10), a2a.read_varint(b"\x80" * 9 + b"\x00", 0))
        with self.assertRaises(a2a.ProtobufError):
            a2a.read_varint(b"\x80" * 10 + b"\x00", 0)


class AgreementTest(unittest.TestCase):
    """The two codecs give the same dict."""

    def test_json_and_protobuf_give_the_same_message(self):
        folder = VECTORS.parent / "json"
        for row in json.loads((folder / "messages_valid.json").read_text(encoding="utf-8")):
            with self.subTest(case=row["case"]):
                name, value = row["message"], row["canonical"]
                if "\\ud" in json.dumps(value) and "\\ude" not in json.dumps(value):
                    continue  # the lone surrogate
                read = a2a.read_protobuf(name, a2a.write_protobuf(name, value))
                self.assertEqual(
                    a2a.read_message(name, value, lenient=True),
                    a2a.read_message(name, read, lenient=True),
                )

    def test_no_thread_finds_a_codec_that_is_not_whole(self):
        found, fill = [], a2a._Codec.fill

        def watched(codec, *args):
            found.extend(kind for kind, one in a2a._CODECS.items() if not one.rows)
            fill(codec, *args)

        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"a": [1]}}]}
        with unittest.mock.patch.dict(a2a._CODECS, clear=True):
            with unittest.mock.patch.object(a2a._Codec, "fill", watched):
                data = a2a.write_protobuf("Message", message)
            self.assertEqual(message, a2a.read_protobuf("Message", data))
            self.assertIn("Struct", a2a._CODECS)
        self.assertEqual([], found)

    def test_every_message_can_be_empty(self):
        for name in a2a.MESSAGES:
            self.assertEqual(b"", a2a.write_protobuf(name, {}))
            self.assertEqual({}, a2a.read_protobuf(name, b""))


if __name__ == "__main__":
    unittest.main()
