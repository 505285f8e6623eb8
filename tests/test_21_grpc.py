"""Chapter 21 over gRPC: serve, send and the rest of the command line, as processes."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support


class CommandLineTest(unittest.TestCase):
    def run_json(self, *arguments):
        done = support.run_cli(*arguments, "-o", "json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_every_command_over_grpc(self):
        """GRPC-10, CARD-10: --transport grpc, whatever stands first in the card."""
        over = ("--transport", "grpc")
        with support.Served("--agent", "echo") as agent:
            sent = self.run_json("send", agent.url, "hello", *over)
            self.assertEqual("hello", a2a.text_of(sent))
            task_id = sent["task"]["id"]
            found = self.run_json("task", "get", agent.url, task_id, *over)
            self.assertEqual(task_id, found["id"])
            page = self.run_json("task", "list", agent.url, *over)
            self.assertEqual([task_id], [task["id"] for task in page["tasks"]])
            done = support.run_cli("task", "cancel", agent.url, task_id, *over, "-o", "json")
            self.assertEqual(1, done.returncode)
            self.assertEqual("TaskNotCancelableError", json.loads(done.stdout)["error"]["code"])

    def test_a_stream_as_lines(self):
        with support.Served("--agent", "echo") as agent:
            done = support.run_cli(
                "send", agent.url, "hello", "--transport", "grpc", "--stream", "-o", "json"
            )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual("task", next(iter(events[0])))
        last = events[-1].get("statusUpdate") or events[-1]["task"]
        self.assertEqual(a2a.COMPLETED, last["status"]["state"])

    def test_a_port_of_its_own(self):
        """GRPC-11: the card and the other bindings stay where they are."""
        with support.Served("--agent", "echo", "--grpc-port", "0") as agent:
            self.assertNotEqual(agent.port, agent.ready["grpcPort"])
            card = self.run_json("card", "get", agent.url)
            urls = {one["protocolBinding"]: one["url"] for one in card["supportedInterfaces"]}
            self.assertEqual(f"127.0.0.1:{agent.ready['grpcPort']}", urls["GRPC"])
            sent = self.run_json("send", agent.url, "hello", "--transport", "grpc")
            self.assertEqual("hello", a2a.text_of(sent))

    def test_grpc_alone(self):
        """GRPC-11."""
        with support.Served("--agent", "echo", "--transports", "GRPC") as agent:
            self.assertEqual("hello", a2a.text_of(self.run_json("send", agent.url, "hello")))

    def test_an_address_that_does_not_answer(self):
        """CLI-03: unreachable is status 3, and the address is named."""
        with support.Served("--agent", "echo") as agent:
            where = f"127.0.0.1:{support.free_port()}"
            done = support.run_cli(
                "send", agent.url, "hello", "--transport", "grpc", "--endpoint", where
            )
        self.assertEqual(3, done.returncode)
        self.assertIn(where, done.stderr)

    def test_a_port_that_is_none(self):
        done = support.run_cli("serve", "--port", "0", "--grpc-port", "99999")
        self.assertEqual(2, done.returncode)


if __name__ == "__main__":
    unittest.main()
