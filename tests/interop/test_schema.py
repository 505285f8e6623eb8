"""SCHEMA and OPERATIONS are the official SDK's descriptors, field by field."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

import a2a


class SchemaTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        peers.need_python_sdk()
        command = [str(peers.PYTHON), str(peers.HERE / "sdk_schema.py")]
        environment = support.clean_environment()
        output = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
        cls.official = json.loads(output)

    def test_messages_and_their_fields(self):
        ours = {
            message: sorted((field._asdict() for field in fields), key=lambda f: f["number"])
            for message, fields in a2a.MESSAGES.items()
            if message != "Empty"  # google.protobuf's own
        }
        theirs = {
            message: sorted(fields, key=lambda f: f["number"])
            for message, fields in self.official["messages"].items()
        }
        self.assertEqual(sorted(theirs), sorted(ours))
        for message, fields in theirs.items():
            with self.subTest(message=message):
                self.assertEqual(fields, ours[message])

    def test_enums_and_their_numbers(self):
        self.assertEqual(self.official["enums"], {k: list(v) for k, v in a2a.ENUMS.items()})

    def test_operations_and_their_routes(self):
        self.assertEqual(set(self.official["operations"]), set(a2a.OPERATIONS))
        for name, official in self.official["operations"].items():
            with self.subTest(operation=name):
                ours = a2a.OPERATIONS[name]
                path = re.sub(r"=[^}]*}", "}", official["path"])
                path = re.sub(r"{(\w+)}", lambda m: "{" + camel(m[1]) + "}", path)
                self.assertEqual(path, ours.path)
                self.assertEqual(official["request"], ours.request)
                self.assertEqual(official["response"], ours.response)
                self.assertEqual(official["streams"], ours.streams)
                # AMB-1: the prose says POST where the annotation says GET
                verb = "POST" if name == "SubscribeToTask" else official["verb"]
                self.assertEqual(verb, ours.verb)


def camel(name):
    return re.sub(r"_(\w)", lambda m: m[1].upper(), name)


if __name__ == "__main__":
    unittest.main()
