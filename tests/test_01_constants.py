"""The values of chapter 1 that a specification or a promise of ours fixes."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

MIB = 1024 * 1024


class ConstantsTest(unittest.TestCase):
    def test_what_the_specifications_say(self):
        self.assertEqual("1.0", a2a.PROTOCOL_VERSION)
        self.assertEqual("/.well-known/agent-card.json", a2a.CARD_PATH)
        self.assertEqual("application/a2a+json", a2a.A2A_TYPE)
        self.assertEqual((50, 100), (a2a.PAGE_SIZE, a2a.PAGE_SIZE_MAX))
        self.assertEqual(2.0, a2a.POLL_INTERVAL_S)

    def test_the_limits_that_are_promised(self):
        promised = {
            "REQUEST_LINE_BYTES": 8192,
            "HEADER_BYTES": 32768,
            "HEADER_COUNT": 100,
            "BODY_BYTES": 16 * MIB,
            "BODY_BEFORE_SIGN_IN_BYTES": MIB,
            "CLIENT_BODY_BYTES": 128 * MIB,
            "CLIENT_EVENT_BYTES": 44 * MIB,
            "JSON_DEPTH": 64,
            "HEADER_DEADLINE_S": 10,
            "KEEP_ALIVE_S": 60,
            "WRITE_STALL_S": 30,
            "CONNECTIONS": 1000,
            "KEEP_TASKS": 1000,
            "STORE_BYTES": 256 * MIB,
            "SUBSCRIBER_EVENTS": 256,
            "TURN_QUEUE": 100,
            "IDLE_TIMEOUT_S": 120,
        }
        self.assertEqual(promised, {name: getattr(a2a, name) for name in promised})

    def test_limits_fit_into_one_another(self):
        self.assertLess(a2a.BODY_BEFORE_SIGN_IN_BYTES, a2a.BODY_BYTES)
        self.assertLess(a2a.BODY_BYTES, a2a.STORE_BYTES)
        self.assertLess(a2a.CLIENT_EVENT_BYTES, a2a.CLIENT_BODY_BYTES)
        self.assertLess(a2a.REQUEST_LINE_BYTES, a2a.HEADER_BYTES)
        self.assertLess(a2a.SSE_COMMENT_S, a2a.IDLE_TIMEOUT_S, "a comment must come before")

    def test_the_depth_of_json_is_far_from_the_recursion_limit(self):
        self.assertLess(a2a.JSON_DEPTH * 8, sys.getrecursionlimit())


class Point(a2a.NamedTuple):
    """What every record of the file may be: fields, a default, a method of its own."""

    x: int
    y: int = 2

    def total(self):
        return self.x + self.y


class NamedTupleTest(unittest.TestCase):
    """The stand-in for typing.NamedTuple does what the file asks of it."""

    def test_values_come_by_place_by_name_or_by_default(self):
        self.assertEqual([(1, 2), (1, 3), (4, 5)], [Point(1), Point(1, y=3), Point(y=5, x=4)])
        for values, named in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1})):
            with self.assertRaises(TypeError):
                Point(*values, **named)

    def test_a_record_is_a_tuple_that_stays_as_it_is(self):
        point = Point(1)
        x, y = point
        self.assertEqual((1, 2, 3, ("x", "y")), (x, y, point.total(), Point._fields))
        self.assertEqual({point: 1}, {(1, 2): 1})
        with self.assertRaises(AttributeError):
            point.x = 5

    def test_a_record_is_changed_by_making_another(self):
        other = Point(1)._replace(y=7)
        self.assertEqual((Point, (1, 7), 8), (type(other), other, other.total()))
        with self.assertRaises((TypeError, ValueError)):
            Point(1)._replace(z=1)


if __name__ == "__main__":
    unittest.main()
