"""Chapter 18: what answers a task."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a


class Parts(unittest.TestCase):
    def test_what_an_agent_may_say(self):
        for what, parts in (
            ("text", [{"text": "text"}]),
            (b"bytes", [{"raw": "Ynl0ZXM="}]),
            ({"raw": b"bytes", "filename": "f"}, [{"raw": "Ynl0ZXM=", "filename": "f"}]),
            ({"data": {"a": [1, None]}}, [{"data": {"a": [1, None]}}]),
            (["a", {"text": "b"}, ["c"]], [{"text": "a"}, {"text": "b"}, {"text": "c"}]),
            ([], []),
        ):
            self.assertEqual(a2a.parts_of(what), parts)

    def test_what_it_may_not_say(self):
        for what in (1, None, object(), {"text": 1}, {}, {"data": float("nan")}, {"data": {1, 2}}):
            with self.assertRaises(a2a.A2AError, msg=repr(what)):
                a2a.parts_of(what)

    def test_data_is_no_longer_the_agents_to_change(self):
        data = {"list": [1]}
        parts = a2a.parts_of({"data": data})
        data["list"].append(2)
        self.assertEqual(parts, [{"data": {"list": [1]}}])


if __name__ == "__main__":
    unittest.main()
