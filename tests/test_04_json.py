"""Chapter 4: JSON texts, canonical messages, timestamps, base64, query parameters."""

import base64
import calendar
import datetime
import json
import math
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "json"
PART = {"text": "x"}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [PART]}


def vectors(name):
    rows = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert rows, f"{name}.json is empty"
    return rows


class ReadJsonTest(unittest.TestCase):
    def test_valid_texts_are_read(self):
        """JSON-16: raw and escaped letters; see vectors/json/valid.json."""
        for row in vectors("valid"):
            with self.subTest(case=row["case"]):
                data = row["text"].encode("latin-1")
                value = a2a.read_json(data)
                self.assertEqual(json.loads(data), value)
                if "value" in row:
                    self.assertEqual(row["value"], value)

    def test_invalid_texts_are_refused(self):
        """JSON-13: NaN, Infinity and 1e400 are not JSON; see vectors/json/invalid.json."""
        for row in vectors("invalid"):
            with self.subTest(case=row["case"]), self.assertRaises(a2a.JsonError):
                a2a.read_json(row["text"].encode("latin-1"))

    def test_an_error_says_where_and_nothing_of_the_parser(self):
        with self.assertRaisesRegex(a2a.JsonError, "^Not valid JSON: line 2, column 7$"):
            a2a.read_json(b'{"a":\n [1, 2}}')
        with self.assertRaisesRegex(a2a.JsonError, "nothing there"):
            a2a.read_json(b"")
        with self.assertRaisesRegex(a2a.JsonError, "something follows"):
            a2a.read_json(b"{} {}")

    def test_depth_counts_containers_around_a_value(self):
        self.assertEqual([[]], a2a.read_json(b"[[]]", depth=2))
        with self.assertRaisesRegex(a2a.JsonError, "nested deeper than 2"):
            a2a.read_json(b"[[[]]]", depth=2)
        with self.assertRaisesRegex(a2a.JsonError, "nested deeper than 2"):
            a2a.read_json(b'[{"a":[1]}]', depth=2)

    def test_very_deep_texts_are_an_error(self):
        for text in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000):
            with self.assertRaises(a2a.JsonError):
                a2a.read_json(text)

    def test_a_depth_that_python_cannot_follow_is_an_error(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(300)
        try:
            value = a2a.read_json(b"[" * 9000 + b"]" * 9000, depth=9000)
            self.assertIsInstance(value, list)  # newer Pythons count the C stack apart
        except a2a.JsonError as error:
            self.assertEqual("Too much JSON: nested too deep", str(error))
        finally:
            sys.setrecursionlimit(limit)

    def test_too_many_values_are_refused_before_they_are_made(self):
        """Numbers, texts and objects in a row cost far more time than their bytes."""
        count = 1000
        for value in (b"{}", b"[]", b"1", b"1.5", b'""', b'"[,{"', b"true", b'"\\",\\\\"'):
            text = b"[" + b",".join([value] * count) + b"]"
            with self.subTest(value):
                with self.assertRaisesRegex(a2a.JsonError, f"more than {count - 1} values"):
                    a2a.read_json(text, values=count - 1)
                self.assertEqual(count, len(a2a.read_json(text, values=2 * count)))
        pairs = b"{" + b",".join(b'"%d":"%d"' % (n, n) for n in range(count)) + b"}"
        self.assertEqual(count, len(a2a.read_json(pairs, values=count)))
        with self.assertRaisesRegex(a2a.JsonError, "values"):
            a2a.read_json(pairs, values=count - 1)

    def test_what_stands_in_a_text_is_no_value(self):
        text = '[]{},"\\' * a2a.JSON_VALUES
        self.assertEqual(text, a2a.read_json(json.dumps(text).encode()))

    def test_whole_numbers_are_integers(self):
        """JSON-12: 1.0 and 1 are one number, and it is written 1."""
        value = a2a.read_json(b'{"n":9007199254740993,"r":1.0,"s":2.50,"t":1e2}')
        self.assertEqual(b'{"n":9007199254740993,"r":1,"s":2.5,"t":100}', a2a.write_json(value))

    def test_whole_numbers_that_no_64_bits_hold_are_doubles(self):
        """As they are over gRPC; thousands of long ones would take long to write."""
        value = a2a.read_json(b"[123456789012345678901234567890, -18446744073709551615]")
        self.assertEqual([1.2345678901234568e29, -(2.0**64)], value)
        self.assertEqual(b"[1.2345678901234568e+29,-1.8446744073709552e+19]", a2a.write_json(value))
        self.assertEqual(b"1e+300", a2a.write_json(a2a.read_json(b"1" + b"0" * 300)))

    def test_nesting_of_random_texts_is_measured_right(self):
        """The count on bytes agrees with a walk over the value, whatever the strings hold."""
        random_ = random.Random(4)
        texts = ["", "[", "]]", '"', "\\", '\\"', "{}", '[\\\\"', "a:b", "\\u005b", "\n", "é["]

        def make(depth):
            kind = random_.randrange(4) if depth else 3
            if kind == 0:
                return [make(depth - 1) for _ in range(random_.randrange(4))]
            if kind == 1:
                return {random_.choice(texts) + str(i): make(depth - 1) for i in range(3)}
            return "".join(random_.choice(texts) for _ in range(random_.randrange(4)))

        def depth_of(value):
            if isinstance(value, dict):
                value = list(value.values())
            if isinstance(value, list):
                return 1 + max(map(depth_of, value), default=0)
            return 0

        for _ in range(3000):
            value = [make(random_.randrange(7))]
            text = json.dumps(value, ensure_ascii=random_.random() < 0.5).encode()
            depth = depth_of(value)
            self.assertEqual(value, a2a.read_json(text, depth=depth))
            with self.assertRaises(a2a.JsonError):
                a2a.read_json(text, depth=depth - 1)

    def test_random_objects_with_a_key_twice_are_refused(self):
        random_ = random.Random(5)
        for _ in range(300):
            keys = [random_.choice("abcdefgh") for _ in range(random_.randrange(1, 6))]
            text = "[{" + ",".join(f'"{key}":{{"x":1}}' for key in keys) + "}]"
            if len(set(keys)) == len(keys):
                self.assertEqual(json.loads(text), a2a.read_json(text.encode()))
            else:
                with self.assertRaisesRegex(a2a.JsonError, "same key twice"):
                    a2a.read_json(text.encode())

    def test_random_bytes_never_raise_anything_else(self):
        random_ = random.Random(6)
        good = b'{"a":[1,-2.5e3,"x\\u00e9\\n",true,null],"b":{"c":"\xc3\xa9"}}'
        for _ in range(3000):
            data = bytearray(good)
            for _ in range(random_.randrange(1, 4)):
                data[random_.randrange(len(data))] = random_.randrange(256)
            try:
                a2a.read_json(bytes(data))
            except a2a.JsonError as error:
                self.assertNotIn("\n", str(error))

    def test_numbers_read_as_python_reads_them(self):
        random_ = random.Random(7)
        for _ in range(2000):
            number = random_.choice((random_.uniform(-1e3, 1e3), random_.gauss(0, 1) * 1e300))
            self.assertEqual(number, a2a.read_json(repr(number).encode()))


class WriteJsonTest(unittest.TestCase):
    def test_compact_and_unescaped(self):
        """JSON-16, JSON-19: letters go out in UTF-8; <, & and = stay as they are."""
        value = {"url": "https://h.example/?a=1&b=<2>", "text": "Grüße 東京 😀 \u2028"}
        text = '{"url":"https://h.example/?a=1&b=<2>","text":"Grüße 東京 😀 \u2028"}'
        self.assertEqual(text.encode(), a2a.write_json(value))

    def test_a_lone_surrogate_is_escaped(self):
        """JSON-15: half a pair can be read, kept and written, and never breaks the encoder."""
        value = a2a.read_json(rb'{"text":"\ud83d end","b":"\\\udc00"}')
        self.assertEqual(rb'{"text":"\ud83d end","b":"\\\udc00"}', a2a.write_json(value))

    def test_what_json_cannot_hold_is_an_error(self):
        cycle = []
        cycle.append(cycle)
        for value in (math.nan, math.inf, {"a": {1, 2}}, b"x", cycle, {(1,): 2}):
            with self.assertRaisesRegex(a2a.UsageError, "^Not a JSON value"):
                a2a.write_json(value)

    def test_control_characters_are_escaped(self):
        self.assertEqual(rb'"a\nb\r\u0000"', a2a.write_json("a\nb\r\0"))

    def test_what_is_written_reads_back(self):
        for row in vectors("valid"):
            value = a2a.read_json(row["text"].encode("latin-1"))
            self.assertEqual(value, a2a.read_json(a2a.write_json(value)))


class ReadMessageTest(unittest.TestCase):
    def test_valid_messages_become_canonical(self):
        """JSON-01, JSON-02, JSON-03, JSON-04, JSON-07, JSON-08, JSON-09, HIST-01, LIST-04, AMB-5,
        AMB-7: see vectors/json/messages_valid.json."""
        for row in vectors("messages_valid"):
            with self.subTest(case=row["case"]):
                given = json.dumps(row["value"])
                message = a2a.read_message(row["message"], row["value"])
                self.assertEqual(row["canonical"], message)
                self.assertEqual(given, json.dumps(row["value"]), "the input was changed")
                self.assertIsNot(row["value"], message)
                self.assertEqual(message, a2a.read_message(row["message"], message))
                self.assertEqual([], a2a.violations(row["message"], row["value"]))

    def test_invalid_messages_are_refused_with_their_paths(self):
        """JSON-06, JSON-07, REST-05: see vectors/json/messages_invalid.json."""
        for row in vectors("messages_invalid"):
            with self.subTest(case=row["case"]):
                with self.assertRaises(a2a.InvalidParamsError) as caught:
                    a2a.read_message(row["message"], row["value"])
                fields = caught.exception.details[0]["fieldViolations"]
                self.assertEqual(row["paths"], [field["field"] for field in fields])
                found = a2a.violations(row["message"], row["value"])
                self.assertEqual(row["paths"], [path for path, _ in found])

    def test_what_every_event_would_repeat_is_bounded_in_a_request(self):
        """An id of megabytes in a stream of hundreds of events would be gigabytes."""
        longest = "c" * a2a.ID_CHARS
        message = {"messageId": longest, "contextId": longest, "taskId": longest,
                   "role": "ROLE_USER", "parts": [{"text": "hi"}]}  # fmt: skip
        request = {"tenant": longest, "message": message}
        self.assertEqual(request, a2a.read_message("SendMessageRequest", request))
        for name in ("messageId", "contextId", "taskId"):
            value = {**message, name: longest + "c"}
            with self.assertRaisesRegex(a2a.InvalidParamsError, f"{name}: must have at most 256"):
                a2a.read_message("Message", value)
            self.assertEqual(value, a2a.read_message("Message", value, lenient=True))
        for wrong in ({"id": longest + "c"}, {"id": 7}, {"id": "t", "tenant": longest + "c"}):
            with self.assertRaises(a2a.InvalidParamsError):
                a2a.read_message("GetTaskRequest", wrong)

    def test_what_is_worked_on_one_by_one_is_bounded_in_a_request(self):
        parts = [{"text": "x"}] * a2a.LIST_ITEMS
        message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
        self.assertEqual(message, a2a.read_message("Message", message))
        longer = {**message, "parts": parts + parts[:1]}
        with self.assertRaisesRegex(a2a.InvalidParamsError, "parts: must have at most 1000 elem"):
            a2a.read_message("Message", longer)
        self.assertEqual(longer, a2a.read_message("Message", longer, lenient=True))
        artifact = {"artifactId": "a", "parts": parts + parts}
        self.assertEqual(artifact, a2a.read_message("Artifact", artifact))

    def test_a_card_whose_scheme_has_a_type_that_is_no_text(self):
        for odd in ([], {}, 7, None, "http2"):
            card = {"securitySchemes": {"s": {"type": odd}}}
            read = a2a.read_message("AgentCard", card, lenient=True)
            self.assertEqual({"s": {}}, read["securitySchemes"])

    def test_a_client_reads_what_it_can(self):
        """JSON-07, AMB-7, CARD-13: see vectors/json/messages_lenient.json."""
        for row in vectors("messages_lenient"):
            with self.subTest(case=row["case"]):
                given = json.dumps(row["value"])
                message = a2a.read_message(row["message"], row["value"], lenient=True)
                self.assertEqual(row["canonical"], message)
                self.assertEqual(given, json.dumps(row["value"]), "the input was changed")

    def test_what_a_client_cannot_use_is_the_peers_error(self):
        for row in vectors("messages_unusable"):
            with self.subTest(case=row["case"]), self.assertRaises(a2a.PeerError) as caught:
                a2a.read_message(row["message"], row["value"], lenient=True)
            self.assertIn("cannot be used", str(caught.exception))

    def test_every_valid_message_is_valid_for_a_client(self):
        for row in vectors("messages_valid"):
            if row["message"] not in ("ListTasksRequest",):
                message = a2a.read_message(row["message"], row["value"], lenient=True)
                self.assertLessEqual(row["canonical"].items(), message.items(), row["case"])

    def test_all_violations_are_reported_up_to_the_limit(self):
        value = {"message": {**MESSAGE, "parts": [{}] * 50}}
        with self.assertRaises(a2a.InvalidParamsError) as caught:
            a2a.read_message("SendMessageRequest", value)
        fields = caught.exception.details[0]["fieldViolations"]
        self.assertEqual(a2a.VIOLATIONS, len(fields))
        self.assertEqual("message.parts[19]", fields[-1]["field"])
        self.assertEqual(50, len(a2a.violations("SendMessageRequest", value)))

    def test_violations_say_what_is_allowed(self):
        found = dict(a2a.violations("ListTasksRequest", {"pageSize": 0, "status": "x"}))
        self.assertEqual("must be a whole number from 1 to 100", found["pageSize"])
        self.assertTrue(found["status"].startswith("must be one of TASK_STATE_SUBMITTED, "))
        [(_, text)] = a2a.violations("Part", {})
        self.assertEqual("must have exactly one of text, raw, url, data", text)

    def test_a_card_that_misses_things_has_each_named(self):
        """CARD-15: null counts as missing."""
        found = dict(a2a.violations("AgentCard", {"name": "n", "skills": None}))
        self.assertEqual(
            {"description", "supportedInterfaces", "version", "capabilities", "defaultInputModes",
             "defaultOutputModes", "skills"},
            set(found),
        )  # fmt: skip

    def test_metadata_is_taken_as_it_is(self):
        metadata = {"snake_key": {"camelKey": [None, {"x": 1}]}}
        message = a2a.read_message("Message", {**MESSAGE, "metadata": metadata})
        self.assertEqual(metadata, message["metadata"])

    def test_every_message_has_a_reader(self):
        for name in a2a.MESSAGES:
            with self.subTest(message=name):
                self.assertIsInstance(a2a.violations(name, {}), list)
                self.assertEqual([("", "must be an object")], a2a.violations(name, 5))

    def test_both_spellings_of_every_field_are_read(self):
        """JSON-08: camelCase and snake_case name the same field."""
        for name, fields in a2a.MESSAGES.items():
            for field in fields:
                camel = a2a.violations(name, {field.name: object()})
                snake = a2a.violations(name, {a2a.snake_case(field.name): object()})
                self.assertEqual(camel, snake, (name, field.name))

    def test_snake_case_is_that_of_the_proto_file(self):
        names = {
            "apiKeySecurityScheme": "api_key_security_scheme",
            "oauth2MetadataUrl": "oauth2_metadata_url",
            "openIdConnectUrl": "open_id_connect_url",
            "url": "url",
        }
        self.assertEqual(names, {name: a2a.snake_case(name) for name in names})

    def test_messages_of_clients_are_known(self):
        self.assertIn("Part", a2a.SENT_BY_CLIENTS)
        self.assertNotIn("Task", a2a.SENT_BY_CLIENTS)
        self.assertNotIn("AgentCard", a2a.SENT_BY_CLIENTS)


class Base64Test(unittest.TestCase):
    def test_what_was_found_canonical_is_not_looked_at_again(self):
        read = a2a.read_message("Part", {"raw": "-_8"})
        self.assertEqual({"raw": "+/8="}, read)
        again = a2a.read_message("Part", read)
        self.assertIs(read["raw"], again["raw"])
        self.assertIs(a2a.Base64, type(a2a.encode_base64(b"x")))
        self.assertEqual(b'{"raw":"+/8="}', a2a.write_json(again))
        with self.assertRaises(a2a.InvalidParamsError):
            a2a.read_message("Part", {"raw": read["raw"] + "x"})  # a text as any other

    def test_round_trip_of_all_lengths(self):
        for length in range(50):
            data = bytes(range(200, 200 + length))
            text = a2a.encode_base64(data)
            self.assertEqual(base64.b64encode(data).decode(), text)
            self.assertEqual(data, a2a.decode_base64(text))
            for other in (base64.urlsafe_b64encode(data).decode(), text.rstrip("=")):
                self.assertEqual(data, a2a.decode_base64(other))
                self.assertEqual(text, a2a.read_message("Part", {"raw": other})["raw"])

    def test_anything_else_is_refused(self):
        for text in ("a", "ab=", "ab===", "a===", "=", "====", "ab==cd==", "a b=", "ab\n=", "ä",
                     "a=bc", "abcd=", "+_-/*"):  # fmt: skip
            with self.subTest(text=text), self.assertRaises(ValueError):
                a2a.decode_base64(text)

    def test_only_the_alphabet_is_taken(self):
        for code in range(256):
            text = "AA" + chr(code) + "A"
            allowed = (chr(code).isalnum() and code < 128) or chr(code) in "+/-_"
            if allowed:
                self.assertEqual(3, len(a2a.decode_base64(text)))
            else:
                with self.assertRaises(ValueError):
                    a2a.decode_base64(text)


class TimestampTest(unittest.TestCase):
    def test_vectors(self):
        """JSON-09: 0 to 9 digits and offsets in, UTC out; examples of RFC 3339 section 5.8."""
        for row in vectors("timestamps"):
            with self.subTest(text=row["text"]):
                if "canonical" in row:
                    self.assertEqual(row["canonical"], a2a.read_timestamp(row["text"]))
                    again = a2a.read_timestamp(row["canonical"])
                    self.assertEqual(row["canonical"], again)
                else:
                    with self.assertRaises(ValueError):
                        a2a.read_timestamp(row["text"])

    def test_every_day_counts_as_in_the_calendar(self):
        first, last = datetime.date(1, 1, 1).toordinal(), datetime.date(9999, 12, 31).toordinal()
        epoch = datetime.date(1970, 1, 1).toordinal()
        for ordinal in [*range(first, last, 97), *range(epoch - 800, epoch + 1600), first, last]:
            day = datetime.date.fromordinal(ordinal)
            text = f"{day.isoformat()}T01:02:03.004Z"
            seconds, nanos = a2a.split_timestamp(text)
            self.assertEqual((ordinal - epoch) * 86400 + 3723, seconds)
            self.assertEqual(text, a2a.join_timestamp(seconds, nanos))

    def test_days_that_a_month_does_not_have(self):
        for year in (1900, 2000, 2023, 2024):
            for month in range(1, 13):
                days = calendar.monthrange(year, month)[1]
                for day in range(32):
                    text = f"{year}-{month:02}-{day:02}T00:00:00.000Z"
                    if 1 <= day <= days:
                        self.assertEqual(text, a2a.read_timestamp(text))
                    else:
                        with self.assertRaises(ValueError):
                            a2a.read_timestamp(text)

    def test_the_range_is_that_of_protobuf(self):
        self.assertEqual((a2a.FIRST_SECOND, 0), a2a.split_timestamp("0001-01-01T00:00:00Z"))
        self.assertEqual((a2a.LAST_SECOND, 0), a2a.split_timestamp("9999-12-31T23:59:59Z"))


class QueryTest(unittest.TestCase):
    def read(self, name, query):
        return a2a.read_message(name, a2a.read_query(name, query))

    def test_parameters_are_read_by_their_kind(self):
        """REST-04, REST-06: zero is a value, booleans are true and false."""
        query = (
            "contextId=c%201&status=TASK_STATE_WORKING&pageSize=5&historyLength=0"
            "&includeArtifacts=true&statusTimestampAfter=2026-03-01T15:30:00%2B05:30&A2A-Version=1.0"
        )
        self.assertEqual(
            {
                "contextId": "c 1",
                "status": "TASK_STATE_WORKING",
                "pageSize": 5,
                "historyLength": 0,
                "includeArtifacts": True,
                "statusTimestampAfter": "2026-03-01T10:00:00.000Z",
            },
            self.read("ListTasksRequest", query),
        )

    def test_lenient_spellings(self):
        self.assertEqual(
            {"id": "t", "historyLength": 2}, self.read("GetTaskRequest", "id=t&history_length=2")
        )
        after = self.read("ListTasksRequest", "statusTimestampAfter=2026-03-01T15:30:00+05:30")
        self.assertEqual({"statusTimestampAfter": "2026-03-01T10:00:00.000Z"}, after)
        self.assertEqual(
            {"status": "TASK_STATE_COMPLETED"}, self.read("ListTasksRequest", "status=3")
        )

    def test_blank_and_unknown_ones_are_unset(self):
        self.assertEqual({}, self.read("ListTasksRequest", "status=&pageSize=&x=1&&contextId"))
        self.assertEqual({}, self.read("ListTasksRequest", ""))
        self.assertEqual({"pageSize": 2}, self.read("ListTasksRequest", "x=1&pageSize=2&y"))

    def test_bad_values_are_refused(self):
        """REST-05, REST-06: a filter that cannot be read is never 'all tasks'."""
        for query in ("status=foo", "status=99", "pageSize=0", "pageSize=101", "pageSize=x",
                      "historyLength=-1", "includeArtifacts=TRUE", "includeArtifacts=1",
                      "status=TASK_STATE_WORKING&status=TASK_STATE_FAILED", "contextId=%ff",
                      "pageSize=1&page_size=1", "statusTimestampAfter=1740823200"):  # fmt: skip
            with self.subTest(query=query), self.assertRaises(a2a.InvalidParamsError):
                self.read("ListTasksRequest", query)

    def test_lists_repeat_or_have_commas(self):
        self.assertEqual({"list": ["a", "b", "c"]}, a2a.read_query("StringList", "list=a,b&list=c"))


if __name__ == "__main__":
    unittest.main()
