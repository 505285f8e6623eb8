"""The official SDKs' clients call our server: each language over each transport of our card."""

import base64
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

import a2a

DONE = "TASK_STATE_COMPLETED"
# Over REST and gRPC the SDKs tell errors by the reason, and wrong parameters have none.
MALFORMED = ("InvalidParamsError", "RequestMalformedError", "A2AError", "A2AClientError")
SERVER = []


def setUpModule():
    SERVER.append(a2a.Server(f"{peers.AGENT}:words", port=0).start())


def tearDownModule():
    SERVER.pop().stop()


def message(text, **fields):
    """Give the parameters that send one text."""
    configuration = fields.pop("configuration", None)
    params = {"message": support.message(text, **fields)}
    return {**params, **({"configuration": configuration} if configuration else {})}


def texts(task):
    """Give the text of each artifact, its parts joined."""
    return ["".join(p.get("text", "") for p in a["parts"]) for a in task.get("artifacts", [])]


class Conversation:
    """What every client can do with our server."""

    language = transport = ""

    @classmethod
    def setUpClass(cls):
        offered = {i["protocolBinding"] for i in card()["supportedInterfaces"]}
        if cls.transport not in offered:
            raise unittest.SkipTest(f"our server does not speak {cls.transport} yet")
        cls.client = peers.SdkClient(cls.language, SERVER[0].url, cls.transport)
        cls.addClassCleanup(cls.client.close)

    def send(self, text, **fields):
        return self.client.call("SendMessage", **message(text, **fields))

    def stream(self, text, **fields):
        return self.client.stream("SendStreamingMessage", **message(text, **fields))

    def fault(self, operation, *names, **params):
        """Assert that an operation raises one of the named exceptions in the client."""
        self.assertIn(self.client.fault(operation, **params), names)

    def test_a_call_gives_the_finished_task(self):
        task = self.send("Grüße 東京 😀")["task"]
        self.assertEqual(DONE, task["status"]["state"])
        self.assertEqual(["Grüße 東京 😀"], texts(task))
        self.assertTrue(task["contextId"])
        self.assertRegex(task["status"]["timestamp"], r"^\d{4}-\d\d-\d\dT.*Z$")

    def test_a_direct_message_makes_no_task(self):
        reply = self.send("msg good day")["message"]
        self.assertEqual("ROLE_AGENT", reply["role"])
        self.assertEqual("good day", reply["parts"][0]["text"])

    def test_a_stream_of_chunks_arrives_in_order(self):
        events = self.stream("chunks 20")
        self.assertIn("task", events[0])
        self.assertEqual(DONE, events[-1]["statusUpdate"]["status"]["state"])
        updates = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
        parts = [update["artifact"]["parts"][0]["text"] for update in updates]
        self.assertEqual("".join(f"{i} " for i in range(20)), "".join(parts))
        self.assertEqual(1, len({update["artifact"]["artifactId"] for update in updates}))
        self.assertFalse(updates[0].get("append", False))
        self.assertTrue(all(update["append"] for update in updates[1:]))
        self.assertTrue(updates[-1]["lastChunk"])
        task = self.client.call("GetTask", id=events[0]["task"]["id"])
        self.assertEqual(["".join(f"{i} " for i in range(20))], texts(task))

    def test_a_stream_of_one_message(self):
        events = self.stream("msg good day")
        self.assertEqual(1, len(events))
        self.assertEqual("good day", events[0]["message"]["parts"][0]["text"])

    def test_a_question_and_its_answer_are_one_task(self):
        asked = self.send("ask")["task"]
        self.assertEqual("TASK_STATE_INPUT_REQUIRED", asked["status"]["state"])
        self.assertEqual("which colour?", asked["status"]["message"]["parts"][0]["text"])
        answered = self.send("blue", taskId=asked["id"])["task"]
        self.assertEqual((asked["id"], DONE), (answered["id"], answered["status"]["state"]))
        self.assertEqual(asked["contextId"], answered["contextId"])
        self.assertEqual(["you chose blue"], texts(answered))

    def test_a_question_reaches_a_stream(self):
        last = self.stream("ask")[-1]["statusUpdate"]["status"]
        self.assertEqual("TASK_STATE_INPUT_REQUIRED", last["state"])
        self.assertEqual("which colour?", last["message"]["parts"][0]["text"])

    def test_failure_and_rejection_are_states_not_errors(self):
        failed = self.send("fail badly")["task"]
        self.assertEqual("TASK_STATE_FAILED", failed["status"]["state"])
        rejected = self.send("reject")["task"]
        self.assertEqual("TASK_STATE_REJECTED", rejected["status"]["state"])
        self.assertEqual("not for me", rejected["status"]["message"]["parts"][0]["text"])

    def test_files_and_links_come_as_they_were_made(self):
        artifacts = {a["name"]: a["parts"][0] for a in self.send("files")["task"]["artifacts"]}
        self.assertEqual(("# Report", "text/markdown"), pick(artifacts["a"], "text", "mediaType"))
        raw, kind, name = pick(artifacts["b"], "raw", "mediaType", "filename")
        self.assertEqual(bytes(range(256)), base64.b64decode(raw))
        self.assertEqual(("image/png", "dot.png"), (kind, name))
        self.assertEqual("https://h.example/?a=1&b=<2>", artifacts["c"]["url"])

    def test_files_and_data_go_there_and_back(self):
        value = {"n": 1, "list": [True, None, "x"], "deep": {"f": -0.5}}
        parts = [
            {"text": "keep this"},
            {"raw": base64.b64encode(bytes(range(256))).decode(), "filename": "a b.bin"},
            {"data": value, "mediaType": "application/json"},
            {"url": "https://h.example/x"},
        ]
        task = self.send("", parts=parts)["task"]
        back = task["artifacts"][0]["parts"]
        self.assertEqual("keep this", back[0]["text"])
        self.assertEqual(bytes(range(256)), base64.b64decode(back[1]["raw"]))
        self.assertEqual("a b.bin", back[1]["filename"])
        self.assertEqual(value, back[2]["data"])
        self.assertEqual("https://h.example/x", back[3]["url"])

    def test_data_of_every_kind(self):
        part = self.send("data")["task"]["artifacts"][0]["parts"][0]
        expected = {"n": 1, "f": 0.5, "list": [1, "two", None], "deep": {"ü": "東京 😀"}}
        self.assertEqual(expected, part["data"])

    def test_two_megabytes_of_text(self):
        text = "0123456789abcdef" * (2 * 1024 * 1024 // 16)
        # Without the history: gRPC clients take no more than 4 MiB.
        task = self.send(text, configuration={"historyLength": 0})["task"]
        self.assertEqual([text], texts(task))

    def test_return_immediately_gives_a_live_task(self):
        task = self.send("hold 0.6", configuration={"returnImmediately": True})["task"]
        self.assertIn(task["status"]["state"], ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"))
        events = self.client.stream("SubscribeToTask", id=task["id"])
        self.assertEqual(task["id"], events[0]["task"]["id"])
        self.assertEqual(DONE, events[-1]["statusUpdate"]["status"]["state"])

    def test_a_second_reader_sees_the_rest_and_the_end(self):
        first = self.client.start("SendStreamingMessage", message("hold 0.6"))
        task = next(first)["task"]
        second = self.client.stream("SubscribeToTask", id=task["id"])
        self.assertEqual(task["id"], second[0]["task"]["id"])
        self.assertEqual(second[-1], list(first)[-1])

    def test_a_finished_task_cannot_be_subscribed_to(self):
        task = self.send("hello")["task"]
        self.fault("SubscribeToTask", "UnsupportedOperationError", id=task["id"])

    def test_cancel_ends_the_task_and_its_stream(self):
        events = self.client.start("SendStreamingMessage", message("hold 20"))
        task = next(events)["task"]
        canceled = self.client.call("CancelTask", id=task["id"])
        self.assertEqual("TASK_STATE_CANCELED", canceled["status"]["state"])
        last = list(events)[-1]
        self.assertEqual("TASK_STATE_CANCELED", last["statusUpdate"]["status"]["state"])
        again = self.client.call("CancelTask", id=task["id"])
        self.assertEqual("TASK_STATE_CANCELED", again["status"]["state"])

    def test_a_finished_task_cannot_be_canceled(self):
        task = self.send("hello")["task"]
        self.fault("CancelTask", "TaskNotCancelableError", id=task["id"])

    def test_a_finished_task_takes_no_message(self):
        task = self.send("hello")["task"]
        self.fault("SendMessage", "UnsupportedOperationError", **message("x", taskId=task["id"]))

    def test_tasks_are_listed_in_pages(self):
        context = self.send("first")["task"]["contextId"]
        for text in ("second", "third"):
            self.send(text, contextId=context)
        page = self.client.call("ListTasks", contextId=context, pageSize=2)
        self.assertEqual(2, len(page["tasks"]))
        self.assertEqual((2, 3), (page["pageSize"], page["totalSize"]))
        rest = self.client.call(
            "ListTasks", contextId=context, pageSize=2, pageToken=page["nextPageToken"]
        )
        self.assertEqual(1, len(rest["tasks"]))
        self.assertFalse(rest.get("nextPageToken"))
        listed = [task["id"] for task in page["tasks"] + rest["tasks"]]
        self.assertEqual(3, len(set(listed)))
        self.assertFalse(any(task.get("artifacts") for task in page["tasks"]))
        full = self.client.call("ListTasks", contextId=context, includeArtifacts=True)
        self.assertEqual(
            [["third"], ["second"], ["first"]], [texts(task) for task in full["tasks"]]
        )
        none = self.client.call("ListTasks", contextId=context, status="TASK_STATE_WORKING")
        self.assertEqual(0, none.get("totalSize", 0))

    def test_bad_list_parameters_are_refused(self):
        for params in ({"pageSize": 101}, {"pageToken": "made-up"}):
            with self.subTest(params=params):
                self.fault("ListTasks", *MALFORMED, **params)

    def test_history_length_unset_zero_and_one(self):
        asked = self.send("ask")["task"]
        self.send("blue", taskId=asked["id"])
        lengths = {}
        for length in (None, 0, 1):
            params = {} if length is None else {"historyLength": length}
            task = self.client.call("GetTask", id=asked["id"], **params)
            lengths[length] = [m["parts"][0]["text"] for m in task.get("history", [])]
        self.assertEqual(["ask", "which colour?", "blue"], lengths[None])
        self.assertEqual([], lengths[0])
        self.assertEqual(["blue"], lengths[1])
        short = self.send("hello", configuration={"historyLength": 0})["task"]
        self.assertFalse(short.get("history"))

    def test_an_unknown_task_is_not_found_by_any_operation(self):
        for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
            with self.subTest(operation=operation):
                self.fault(operation, "TaskNotFoundError", id="made-up")
        self.fault("SendMessage", "TaskNotFoundError", **message("x", taskId="made-up"))

    def test_what_is_not_offered_raises_its_own_error(self):
        task = self.send("hello")["task"]
        config = {"taskId": task["id"], "url": "https://h.example/hook"}
        self.fault(
            "CreateTaskPushNotificationConfig", "PushNotificationNotSupportedError", **config
        )

    def test_a_message_without_parts_is_refused(self):
        bare = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}
        self.fault("SendMessage", *MALFORMED, **bare)

    def test_twenty_calls_side_by_side(self):
        calls = [self.client.start("SendMessage", message(f"call {i}")) for i in range(20)]
        answers = [texts(list(call)[-1]["task"]) for call in calls]
        self.assertEqual([[f"call {i}"] for i in range(20)], answers)


def pick(part, *names):
    return tuple(part.get(name) for name in names)


def card():
    return json.loads(support.http(SERVER[0].port, "GET", "/.well-known/agent-card.json")[2])


for language in ("python", "js"):
    for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
        name = f"{language}_{transport}".replace("+", "_")
        members = {"language": language, "transport": transport}
        globals()[name] = type(name, (Conversation, unittest.TestCase), members)
del name


if __name__ == "__main__":
    unittest.main()
