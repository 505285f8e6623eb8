"""Real peers sign in to a server of ours: the SDKs by its card, curl and grpcio by hand."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

sys.path.insert(0, str(support.ROOT))
import a2a

ANN, BOB = "key-of-ann-0123456789", "key-of-bob-0123456789"
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class SigningInTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def agent(turn):
            return (
                turn.ask("Which?") if turn.text == "ask" else f"{turn.caller.display}: {turn.text}"
            )

        keys = ["ann: " + ANN, "bob: " + BOB]
        cls.server = a2a.Server(agent, port=0, api_keys=keys, auth_failures_a_minute=0).start()
        cls.port, cls.url = cls.server.port, cls.server.url

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def sdk(self, language, binding, key):
        client = peers.SdkClient(language, self.url, binding, key)
        self.addCleanup(client.close)
        return client

    def meet(self, language):
        for binding in BINDINGS:
            with self.subTest(binding):
                client = self.sdk(language, binding, BOB)
                said = {"message": support.message("hello")}
                self.assertEqual("bob: hello", a2a.text_of(client.call("SendMessage", **said)))
                events = client.stream("SendStreamingMessage", **said)
                texts = [a2a.text_of(event) for event in events]
                self.assertIn("bob: hello", texts)
                card = client.call("GetExtendedAgentCard")
                uris = [extension["uri"] for extension in card["capabilities"]["extensions"]]
                self.assertEqual([a2a.LIMITS_URI], uris)

    def test_the_python_sdk_signs_in_by_the_card(self):
        self.meet("python")

    def test_the_javascript_sdk_signs_in_by_the_card(self):
        self.meet("js")

    def refuse(self, language):
        said = {"message": support.message("hello")}
        for binding in BINDINGS:
            for key in (None, "key-of-nobody-0123456"):
                with self.subTest((binding, key)):
                    with self.assertRaises(peers.PeerFault) as caught:
                        self.sdk(language, binding, key).call("SendMessage", **said)
                    self.assertRegex(
                        str(caught.exception),
                        r"401|Authentication|authentication|UNAUTHENTICATED|not known",
                    )

    def test_the_python_sdk_is_refused_without_a_good_key(self):
        self.refuse("python")

    def test_the_javascript_sdk_is_refused_without_a_good_key(self):
        self.refuse("js")

    def test_tasks_of_others_are_not_found_by_the_sdks(self):
        """LIST-05: what the SDKs make of it is their TaskNotFoundError."""
        with a2a.Client(self.url, api_key=ANN) as ann:
            task_id = ann.send("ask")["task"]["id"]
        for language in ("python", "js"):
            for binding in BINDINGS:
                with self.subTest((language, binding)):
                    client = self.sdk(language, binding, BOB)
                    self.assertEqual("TaskNotFoundError", client.fault("GetTask", id=task_id))
                    self.assertEqual("TaskNotFoundError", client.fault("CancelTask", id=task_id))

    @unittest.skipUnless(support.has("curl"), "no curl")
    def test_curl(self):
        def curl(*arguments):
            command = ["curl", "-sS", "-H", "A2A-Version: 1.0", "-w", "\n%{http_code}", *arguments]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
            return done.stdout.rsplit("\n", 1)

        tasks = self.url + "/tasks"
        body, status = curl("-H", "X-API-Key: " + BOB, tasks)
        self.assertEqual("200", status)
        self.assertIn("tasks", json.loads(body))
        body, status = curl("-D", "-", tasks)
        self.assertEqual("401", status)
        self.assertRegex(body, r'(?i)www-authenticate: ApiKey realm="a2a", header="X-API-Key"')
        large = ("--data-binary", "@" + str(support.A2A), "-H", "Content-Type: application/json")
        for arguments in (large, ("--http2-prior-knowledge", *large[2:], "-d", "{}")):
            body, status = curl(*arguments, self.url + "/message:send")
            self.assertEqual("401", status)
            self.assertEqual("UNAUTHENTICATED", json.loads(body)["error"]["status"])

    def test_grpcio(self):
        """The status, its words and the challenge, as grpcio sees them."""
        peers.need_python_sdk()
        program = (
            "import sys, grpc\n"
            "from a2a.types import a2a_pb2, a2a_pb2_grpc\n"
            "with grpc.insecure_channel(sys.argv[1]) as channel:\n"
            "    stub = a2a_pb2_grpc.A2AServiceStub(channel)\n"
            "    for key in sys.argv[2:]:\n"
            "        metadata = [('a2a-version', '1.0')] + ([('x-api-key', key)] if key else [])\n"
            "        try:\n"
            "            stub.ListTasks(a2a_pb2.ListTasksRequest(), metadata=metadata)\n"
            "            print('OK')\n"
            "        except grpc.RpcError as error:\n"
            "            print(error.code().name, error.details(), error.trailing_metadata())\n"
        )
        command = [peers.PYTHON, "-c", program, f"127.0.0.1:{self.port}", ANN, "", "wrong"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=peers.FOLDER)
        lines = done.stdout.splitlines()
        self.assertEqual("OK", lines[0], done.stderr)
        self.assertIn("UNAUTHENTICATED Authentication required: send an API key", lines[1])
        self.assertIn("UNAUTHENTICATED The API key is not known here", lines[2])
        for line in lines[1:]:
            self.assertIn("www-authenticate", line)


if __name__ == "__main__":
    unittest.main()
