"""Chapters 4 and 5 beside the official library: generated messages, merged and broken bytes.

The SDK's generated module is loaded from its file: the package around it is called a2a like ours.
"""

import importlib.util
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import a2a

try:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ImportError as error:
    raise unittest.SkipTest("no protobuf, no hypothesis: `python3 tests` installs them") from error

LARGEST = 2**53 - 1  # a whole number that a double holds
UNLIMITED = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def load_official():
    for folder in map(pathlib.Path, sys.path):
        file = folder / "a2a" / "types" / "a2a_pb2.py"
        if file.is_file():
            spec = importlib.util.spec_from_file_location("official_a2a_pb2", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise unittest.SkipTest("no a2a-sdk: `python3 tests` installs it")


OFFICIAL = load_official()
MESSAGES = sorted(set(a2a.MESSAGES) - {"Empty"})


def whole(number):
    return int(number) if number.is_integer() and abs(number) <= LARGEST else number


NUMBERS = st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False, allow_infinity=False).map(
    whole
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
TIMES = st.builds(
    a2a.join_timestamp,
    st.integers(a2a.FIRST_SECOND, a2a.LAST_SECOND),
    st.sampled_from((0, 1, 1000, 10**6, 999_999_999)) | st.integers(0, 10**9 - 1),
)
KINDS = {
    "Struct": st.dictionaries(st.text(max_size=5), VALUES, max_size=4),
    "Value": VALUES,
    "Timestamp": TIMES,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "bytes": st.binary(max_size=20).map(a2a.encode_base64),
    "string": st.text(max_size=200),
    **{name: st.sampled_from(values[1:]) for name, values in a2a.ENUMS.items()},
}


NOT_EMPTY = {
    "bool": st.just(True),
    "int32": st.integers(1, 2**31 - 1) | st.integers(-(2**31), -1),
    "string": st.text(min_size=1, max_size=200),
}


def items(kind):
    return KINDS[kind] if kind in KINDS else st.deferred(lambda: messages(kind))


def values_of(field):
    if field.repeated:
        return st.lists(items(field.kind), min_size=1, max_size=3)
    if field.mapped:
        return st.dictionaries(st.text(max_size=5), items(field.kind), min_size=1, max_size=3)
    set_when_empty = field.presence or field.oneof or field.kind in (*a2a.MESSAGES, "Struct")
    if set_when_empty or field.kind in (*a2a.ENUMS, "Timestamp"):
        return items(field.kind)
    return NOT_EMPTY[field.kind]


def messages(name):
    """Make canonical messages: what is empty without presence is left out."""
    fields = a2a.MESSAGES[name]
    plain = st.fixed_dictionaries(
        {}, optional={field.name: values_of(field) for field in fields if not field.oneof}
    )
    oneof = [field for field in fields if field.oneof]
    if not oneof:
        return plain
    chosen = st.one_of(st.just({}), *(st.fixed_dictionaries({f.name: values_of(f)}) for f in oneof))
    return st.builds(lambda a, b: {**a, **b}, plain, chosen)


ANY = st.sampled_from(MESSAGES).flatmap(lambda name: st.tuples(st.just(name), messages(name)))


def official(name, data=b""):
    message = getattr(OFFICIAL, name)()
    message.ParseFromString(data)
    return message


def official_bytes(message):
    message.DiscardUnknownFields()
    return message.SerializeToString(deterministic=True)


class ProtobufTest(unittest.TestCase):
    @UNLIMITED
    @given(ANY)
    def test_bytes_agree_and_come_back(self, given_):
        """GRPC-12: the same bytes as the official library, for all messages of the schema."""
        name, value = given_
        message = json_format.ParseDict(value, getattr(OFFICIAL, name)())
        data = official_bytes(message)
        self.assertEqual(data, a2a.write_protobuf(name, value))
        self.assertEqual(value, a2a.read_protobuf(name, data))

    @UNLIMITED
    @given(ANY.flatmap(lambda pair: st.tuples(st.just(pair), messages(pair[0]))))
    def test_two_messages_in_a_row_are_merged_alike(self, given_):
        (name, first), second = given_
        data = a2a.write_protobuf(name, first) + a2a.write_protobuf(name, second)
        merged = official_bytes(official(name, data))
        self.assertEqual(merged, a2a.write_protobuf(name, a2a.read_protobuf(name, data)))

    @UNLIMITED
    @given(ANY, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3))
    def test_broken_bytes_are_judged_alike(self, given_, changes):
        name, value = given_
        data = bytearray(a2a.write_protobuf(name, value) or b"\x00")
        for at, byte in changes:
            data[at % len(data)] = byte
        self.judge(name, bytes(data))

    @UNLIMITED
    @given(st.sampled_from(MESSAGES), st.binary(max_size=40))
    def test_random_bytes_are_judged_alike(self, name, data):
        self.judge(name, data)

    def judge(self, name, data):
        try:
            message = official(name, data)
        except DecodeError:
            with self.assertRaises(a2a.ProtobufError):
                a2a.read_protobuf(name, data)
            return
        try:
            value = a2a.read_protobuf(name, data)
        except a2a.ProtobufError as error:
            self.assertIn("Not valid protobuf here", str(error))  # NaN, or a time without a date
            return
        size, ours = message.ByteSize(), official(name, a2a.write_protobuf(name, value))
        theirs = official_bytes(without_minus_zero(message))
        if len(theirs) == size:  # nothing unknown: with it they drop the whole entry of a map
            self.assertEqual(theirs, official_bytes(ours))


def without_minus_zero(message):
    """A double of -0.0 is the number 0 to us."""
    for field, value in message.ListFields():
        if field.name == "number_value" and value == 0:
            message.number_value = 0.0
        elif field.message_type and field.message_type.GetOptions().map_entry:
            for key in value:
                if field.message_type.fields_by_name["value"].message_type:
                    without_minus_zero(value[key])
        elif field.message_type:
            for item in value if field.is_repeated else [value]:
                without_minus_zero(item)
    return message


class JsonTest(unittest.TestCase):
    @UNLIMITED
    @given(ANY)
    def test_our_json_is_read_alike(self, given_):
        name, value = given_
        text = a2a.write_json(value)
        message = json_format.Parse(text, getattr(OFFICIAL, name)())
        self.assertEqual(official_bytes(message), a2a.write_protobuf(name, a2a.read_json(text)))

    @UNLIMITED
    @given(ANY, st.booleans())
    def test_official_json_is_read_alike(self, given_, snake):
        """JSON-08: in both spellings of the keys, with numbers for enums or names."""
        name, value = given_
        message = json_format.ParseDict(value, getattr(OFFICIAL, name)())
        theirs = json_format.MessageToDict(
            message, preserving_proto_field_name=snake, use_integers_for_enums=snake
        )
        try:
            expected = a2a.read_message(name, value, lenient=True)
        except a2a.PeerError:  # a task without its id, an answer without content
            return
        self.assertEqual(expected, a2a.read_message(name, theirs, lenient=True))


if __name__ == "__main__":
    unittest.main()
