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


if __name__ == "__main__":
    unittest.main()
