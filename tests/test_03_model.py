"""SCHEMA, OPERATIONS and text_of. interop/test_schema.py compares SCHEMA with the SDK's."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

SCALARS = {"string", "bytes", "bool", "int32", "Struct", "Value", "Timestamp"}


class SchemaTest(unittest.TestCase):
    def test_marks_become_flags(self):
        fields = {field.name: field for field in a2a.MESSAGES["Part"]}
        self.assertEqual((1, "string", True), (fields["text"].number, fields["text"].kind, True))
        self.assertTrue(fields["data"].oneof)
        self.assertFalse(fields["mediaType"].oneof)
        fields = {field.name: field for field in a2a.MESSAGES["AgentCard"]}
        self.assertEqual(
            a2a.Field(8, "securitySchemes", "SecurityScheme", False, False, False, True, False),
            fields["securitySchemes"],
        )
        self.assertTrue(fields["skills"].repeated and fields["skills"].required)
        self.assertTrue(fields["iconUrl"].presence)

    def test_every_kind_is_known(self):
        known = SCALARS | set(a2a.ENUMS) | set(a2a.MESSAGES)
        for message, fields in a2a.MESSAGES.items():
            for field in fields:
                self.assertIn(field.kind, known, f"{message}.{field.name}")

    def test_numbers_and_names_are_unique_in_a_message(self):
        for message, fields in a2a.MESSAGES.items():
            for what in ("number", "name"):
                values = [getattr(field, what) for field in fields]
                self.assertEqual(len(values), len(set(values)), f"{message}: {what}")

    def test_every_message_is_reached_from_an_operation_or_the_card(self):
        waiting = {"AgentCard"} | {op.request for op in a2a.OPERATIONS.values()}
        waiting |= {op.response for op in a2a.OPERATIONS.values()}
        reached = set()
        while waiting:
            name = waiting.pop()
            reached.add(name)
            kinds = {field.kind for field in a2a.MESSAGES[name]} & set(a2a.MESSAGES)
            waiting |= kinds - reached
        self.assertEqual(set(a2a.MESSAGES), reached)


class StateTest(unittest.TestCase):
    def test_the_index_is_the_number_on_the_wire(self):
        self.assertEqual(("TASK_STATE_UNSPECIFIED", a2a.COMPLETED), a2a.TASK_STATES[::3][:2])
        self.assertEqual(8, a2a.TASK_STATES.index("TASK_STATE_AUTH_REQUIRED"))
        self.assertEqual(("ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"), a2a.ROLES)

    def test_each_state_is_running_interrupted_or_terminal(self):
        running = {a2a.UNSPECIFIED, a2a.SUBMITTED, a2a.WORKING}
        self.assertEqual(set(a2a.TASK_STATES) - running, a2a.SETTLED_STATES)
        self.assertFalse(a2a.TERMINAL_STATES & a2a.INTERRUPTED_STATES)
        self.assertEqual(
            {a2a.COMPLETED, a2a.FAILED, a2a.CANCELED, a2a.REJECTED}, a2a.TERMINAL_STATES
        )


class OperationTest(unittest.TestCase):
    def test_there_are_eleven(self):
        self.assertEqual(11, len(a2a.OPERATIONS))
        for name, operation in a2a.OPERATIONS.items():
            self.assertEqual(name, operation.name)
            self.assertIn(operation.request, a2a.MESSAGES)
            self.assertIn(operation.response, a2a.MESSAGES)

    def test_the_fields_of_a_path_are_fields_of_its_request(self):
        for operation in a2a.OPERATIONS.values():
            names = {field.name for field in a2a.MESSAGES[operation.request]}
            for piece in operation.path.split("{")[1:]:
                self.assertIn(piece.split("}")[0], names, operation.path)

    def test_routes_of_a_verb_differ(self):
        routes = [(operation.verb, operation.path) for operation in a2a.OPERATIONS.values()]
        self.assertEqual(len(routes), len(set(routes)))

    def test_streams_answer_with_stream_responses(self):
        streaming = {name for name, operation in a2a.OPERATIONS.items() if operation.streams}
        self.assertEqual({"SendStreamingMessage", "SubscribeToTask"}, streaming)
        self.assertEqual({"StreamResponse"}, {a2a.OPERATIONS[name].response for name in streaming})

    def test_capabilities_are_fields_of_the_card(self):
        known = {field.name for field in a2a.MESSAGES["AgentCapabilities"]} | {""}
        self.assertLessEqual({op.capability for op in a2a.OPERATIONS.values()}, known)


class TextTest(unittest.TestCase):
    def message(self, *texts):
        return {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": t} for t in texts]}

    def task(self, **fields):
        return {"id": "t", "status": {"state": a2a.COMPLETED}, **fields}

    def test_the_text_of_a_message(self):
        self.assertEqual("a\nb", a2a.text_of(self.message("a", "b")))
        self.assertEqual("a", a2a.text_of({"message": self.message("a")}))

    def test_parts_that_are_no_text_are_left_out(self):
        message = self.message("a")
        message["parts"] += [{"data": {"x": 1}}, {"raw": "AA=="}]
        self.assertEqual("a", a2a.text_of(message))

    def test_the_text_of_a_task_is_that_of_its_artifacts(self):
        artifacts = [{"artifactId": "1", "parts": [{"text": "one"}]}]
        artifacts.append({"artifactId": "2", "parts": [{"text": "two"}]})
        task = self.task(artifacts=artifacts)
        self.assertEqual("one\ntwo", a2a.text_of(task))
        self.assertEqual("one\ntwo", a2a.text_of({"task": task}))
        self.assertEqual("one", a2a.text_of({"artifactUpdate": {"artifact": artifacts[0]}}))

    def test_a_task_without_artifacts_speaks_by_its_status(self):
        status = {"state": a2a.INPUT_REQUIRED, "message": self.message("which?")}
        self.assertEqual("which?", a2a.text_of(self.task(status=status)))
        self.assertEqual("which?", a2a.text_of({"statusUpdate": {"status": status}}))
        self.assertEqual("which?", a2a.text_of(status))

    def test_nothing_to_say_is_empty(self):
        self.assertEqual("", a2a.text_of(self.task()))
        self.assertEqual("", a2a.text_of({}))


if __name__ == "__main__":
    unittest.main()
