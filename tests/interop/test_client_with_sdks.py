"""Our client calls servers made with the official SDKs: each language over each transport."""

import base64
import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

import a2a


class Conversation:
    """What our client can do with every server."""

    language = transport = ""

    @classmethod
    def setUpClass(cls):
        if cls.transport not in a2a.BINDINGS:
            raise unittest.SkipTest(f"our client does not speak {cls.transport} yet")
        cls.server = peers.SdkServer(cls.language)
        cls.addClassCleanup(cls.server.__exit__)
        cls.client = a2a.Client(cls.server.url, transport=(cls.transport,))
        cls.addClassCleanup(cls.client.close)

    def send(self, text, **options):
        return self.client.send(text, **options)

    def test_the_transport_asked_for_is_used(self):
        self.send("hello")
        self.assertEqual(self.transport, self.client.transport)

    def test_a_call_gives_the_finished_task(self):
        task = self.send("Grüße 東京 😀")["task"]
        self.assertEqual(a2a.COMPLETED, task["status"]["state"])
        self.assertEqual("Grüße 東京 😀", a2a.text_of(task))

    def test_a_direct_message(self):
        reply = self.send("msg good day")["message"]
        self.assertEqual("good day", a2a.text_of(reply))

    def test_a_stream_of_chunks_in_order(self):
        events = list(self.client.stream("chunks 20"))
        self.assertIn("task", events[0])
        self.assertEqual(a2a.COMPLETED, events[-1]["statusUpdate"]["status"]["state"])
        parts = [
            part["text"]
            for event in events
            if "artifactUpdate" in event
            for part in event["artifactUpdate"]["artifact"]["parts"]
        ]
        self.assertEqual([f"{i} " for i in range(20)], parts)

    def test_waiting_folds_the_chunks_into_one_artifact(self):
        task = self.send("chunks 20")["task"]
        self.assertEqual(1, len(task["artifacts"]))
        text = "".join(part["text"] for part in task["artifacts"][0]["parts"])
        self.assertEqual("".join(f"{i} " for i in range(20)), text)

    def test_a_question_and_its_answer_are_one_task(self):
        asked = self.send("ask")["task"]
        self.assertEqual(a2a.INPUT_REQUIRED, asked["status"]["state"])
        self.assertEqual("which colour?", a2a.text_of(asked["status"]))
        answered = self.send("blue", task_id=asked["id"])["task"]
        self.assertEqual(
            (asked["id"], a2a.COMPLETED), (answered["id"], answered["status"]["state"])
        )
        self.assertEqual("you chose blue", a2a.text_of(answered))

    def test_failure_and_rejection_are_states_not_errors(self):
        failed = self.send("fail badly")["task"]
        self.assertEqual(a2a.FAILED, failed["status"]["state"])
        self.assertEqual("it broke: badly", a2a.text_of(failed["status"]))
        self.assertEqual(a2a.REJECTED, self.send("reject")["task"]["status"]["state"])

    def test_files_and_links(self):
        task = self.send("files")["task"]
        artifacts = {artifact["name"]: artifact["parts"][0] for artifact in task["artifacts"]}
        self.assertEqual("# Report", artifacts["a"]["text"])
        self.assertEqual(bytes(range(256)), base64.b64decode(artifacts["b"]["raw"]))
        self.assertEqual("dot.png", artifacts["b"]["filename"])
        self.assertEqual("https://h.example/?a=1&b=<2>", artifacts["c"]["url"])

    def test_files_and_data_go_there_and_back(self):
        value = {"n": 1, "list": [True, None, "x"], "deep": {"f": -0.5}}
        raw = base64.b64encode(bytes(range(256))).decode()
        parts = [{"text": "keep"}, {"raw": raw, "filename": "a b.bin"}, {"data": value}]
        back = self.send(parts)["task"]["artifacts"][0]["parts"]
        self.assertEqual("keep", back[0]["text"])
        self.assertEqual((raw, "a b.bin"), (back[1]["raw"], back[1]["filename"]))
        self.assertEqual(value, back[2]["data"])

    def test_a_long_text(self):
        size = 2_000_000 if self.language == "python" else 90_000  # express takes 100 KB
        text = "0123456789" * (size // 10)
        self.assertEqual(text, a2a.text_of(self.send(text)))

    def test_not_waiting_then_waiting(self):
        task = self.send("hold 0.5", wait=False)["task"]
        self.assertNotIn(task["status"]["state"], a2a.SETTLED_STATES)
        self.assertEqual(a2a.COMPLETED, self.client.wait(task["id"])["status"]["state"])

    def test_subscribing_to_a_running_task(self):
        task = self.send("hold 0.6", wait=False)["task"]
        events = list(self.client.subscribe(task["id"]))
        self.assertEqual(task["id"], events[0]["task"]["id"])
        self.assertEqual(a2a.COMPLETED, events[-1]["statusUpdate"]["status"]["state"])

    def test_cancel_ends_the_task_and_its_stream(self):
        seen = []

        def follow():
            with a2a.Client(self.server.url, transport=(self.transport,)) as other:
                for event in other.stream("hold 20"):
                    seen.append(event)
                    started.set()

        started = threading.Event()
        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        self.assertTrue(started.wait(support.DEADLINE_S))
        canceled = self.client.cancel(seen[0]["task"]["id"])
        # the JavaScript SDK answers while its agent is still winding down
        self.assertIn(canceled["status"]["state"], (a2a.CANCELED, a2a.WORKING))
        reader.join(support.DEADLINE_S)
        self.assertEqual(a2a.CANCELED, seen[-1]["statusUpdate"]["status"]["state"])

    def test_a_finished_task_refuses_by_name(self):
        task = self.send("hello")["task"]
        with self.assertRaises(a2a.TaskNotCancelableError):
            self.client.cancel(task["id"])
        with self.assertRaises(a2a.Fault):
            self.send("more", task_id=task["id"])

    def test_subscribing_to_a_finished_task_is_refused_by_name(self):
        task = self.send("hello")["task"]
        with self.assertRaises(a2a.UnsupportedOperationError):
            list(self.client.subscribe(task["id"]))

    def test_an_unknown_task_is_not_found(self):
        for call in (self.client.get, self.client.cancel):
            with self.subTest(call=call.__name__), self.assertRaises(a2a.TaskNotFoundError):
                call("made-up")
        with self.assertRaises(a2a.TaskNotFoundError):
            self.send("x", task_id="made-up")

    def test_what_is_not_offered_raises_its_own_error(self):
        task = self.send("hello")["task"]
        with self.assertRaises(
            (a2a.PushNotificationNotSupportedError, a2a.UnsupportedOperationError)
        ):
            self.client.call(
                "CreateTaskPushNotificationConfig",
                {"taskId": task["id"], "url": "https://h.example/hook"},
            )

    def test_tasks_are_listed_in_pages(self):
        context = self.send("first")["task"]["contextId"]
        for text in ("second", "third"):
            self.send(text, context_id=context)
        page = self.client.list(context_id=context, page_size=2)
        self.assertEqual((2, 3), (len(page["tasks"]), page["totalSize"]))
        rest = self.client.list(context_id=context, page_size=2, page_token=page["nextPageToken"])
        ids = {task["id"] for task in page["tasks"] + rest["tasks"]}
        self.assertEqual(3, len(ids))

    def test_history_length_unset_zero_and_one(self):
        asked = self.send("ask")["task"]
        self.send("blue", task_id=asked["id"])
        whole = self.client.get(asked["id"]).get("history", [])
        self.assertGreaterEqual(len(whole), 2)
        self.assertFalse(self.client.get(asked["id"], history_length=0).get("history"))
        last = self.client.get(asked["id"], history_length=1)["history"]
        self.assertEqual([whole[-1]["messageId"]], [m["messageId"] for m in last])

    def test_calls_from_several_threads_share_a_client(self):
        answers = {}

        def call(index):
            answers[index] = a2a.text_of(self.send(f"call {index}"))

        threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(support.DEADLINE_S)
        self.assertEqual({i: f"call {i}" for i in range(8)}, answers)

    def cli(self, *arguments, status=0):
        done = support.run_cli(*arguments, "--transport", self.transport)
        self.assertEqual(status, done.returncode, done.stderr)
        return done.stdout

    def test_the_command_line_sends_and_prints(self):
        self.assertIn("hello there", self.cli("send", self.server.url, "hello there"))

    def test_the_command_line_gives_json(self):
        document = json.loads(self.cli("send", self.server.url, "chunks 3", "-o", "json"))
        task = document.get("task", document)
        self.assertEqual(a2a.COMPLETED, task["status"]["state"])
        shown = json.loads(self.cli("task", "get", self.server.url, task["id"], "-o", "json"))
        self.assertEqual(task["id"], shown["id"])

    def test_the_command_line_streams_json_lines(self):
        lines = self.cli("send", self.server.url, "chunks 5", "--stream", "-o", "json")
        events = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual(5, sum("artifactUpdate" in event for event in events))

    def test_the_command_line_says_what_failed(self):
        document = json.loads(
            self.cli("task", "get", self.server.url, "made-up", "-o", "json", status=1)
        )
        self.assertEqual("TaskNotFoundError", document["error"]["code"])


class PythonCardTest(unittest.TestCase):
    """The official card of both SDKs, as our command line shows it."""

    def test_the_card_is_read_and_valid(self):
        for language in ("python", "js"):
            with self.subTest(language=language), peers.SdkServer(language) as server:
                done = support.run_cli("card", "get", server.url, "--validate")
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertIn("words", done.stdout)


for language in ("python", "js"):
    for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
        name = f"{language}_{transport}".replace("+", "_")
        members = {"language": language, "transport": transport}
        globals()[name] = type(name, (Conversation, unittest.TestCase), members)
del name


if __name__ == "__main__":
    unittest.main()
