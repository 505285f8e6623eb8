"""A running session of Claude Code is woken by a task and answers it: all but the model is real.

In place of the model stands a server on loopback that does what the skill says: when a line of the
monitor comes, it calls `inbox`, then `reply`. It needs neither a login nor the network.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support
from test_plugin import NAMES, find_claude

import a2a

KEY = "sk-no-real-key-but-as-long-as-one-of-those-0000000"
TESTED = "2.1.332"  # another one may ask other questions before it begins


def is_known():
    """Say whether the Claude Code that is known to work without a login is here."""
    if os.name != "posix" or not find_claude():
        return False
    said = subprocess.run([find_claude(), "--version"], capture_output=True, timeout=60).stdout
    return said.startswith(TESTED.encode())


class Model(http.server.BaseHTTPRequestHandler):
    """Answers as the Messages API does: with a command for each step, or with a word."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        messages = "/v1/messages" in self.path and "count_tokens" not in self.path
        events = list(self.answer(body)) if messages else []
        text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events) or "{}"
        kind = "text/event-stream" if events and body.get("stream") else "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST

    def answer(self, body):
        command = self.command_for(self.said_since(body["messages"])) if body.get("tools") else ""
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "Done."}
        if command:
            block = {
                "type": "tool_use",
                "id": f"toolu_{time.time_ns()}",
                "name": "Bash",
                "input": {},
            }
            call = json.dumps({"command": command, "description": "a2a"})
            delta = {"type": "input_json_delta", "partial_json": call}
        usage = {"input_tokens": 1, "output_tokens": 1}
        start = {"id": f"msg_{time.time_ns()}", "type": "message", "role": "assistant",
                 "model": body.get("model", ""), "content": [], "stop_reason": None,
                 "stop_sequence": None, "usage": usage}  # fmt: skip
        end = {"stop_reason": "tool_use" if command else "end_turn", "stop_sequence": None}
        yield {"type": "message_start", "message": start}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": end, "usage": usage}
        yield {"type": "message_stop"}

    def said_since(self, messages):
        """Give what was said since the model spoke last."""
        since = []
        for message in reversed(messages):
            if message["role"] == "assistant":
                break
            since.append(json.dumps(message["content"]))
        return "\n".join(since)

    def command_for(self, said):
        """Do as the skill says; give "" when there is nothing to do."""
        program = f"python3 {self.server.program}"
        if "tool_result" not in said and re.search(r"a2a task task-\w+ turn 1", said):
            return f"{program} inbox -o json"
        name = re.search(r"task-[0-9a-f]{12}", said)
        if "tool_result" in said and "createdAt" in said and name:
            return f"{program} reply {name[0]} 'It is 42.'"
        return ""

    def log_message(self, *args):
        """Say nothing."""


@unittest.skipUnless(is_known(), f"no Claude Code {TESTED} here (see test_plugin.py)")
class LiveTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name).resolve()
        for name in ("home", "project", "plugin"):
            (self.place / name).mkdir()
        for name in NAMES:
            source = support.ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(
                source, self.place / "plugin" / name
            )
        self.folder = a2a.Folder(str(self.place / "project" / ".a2a"))
        self.model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        self.model.program = self.place / "plugin" / "a2a.py"
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        self.addCleanup(self.model.server_close)
        self.addCleanup(self.model.shutdown)
        self.addCleanup(support.run_main, "stop", "--dir", self.folder.path)
        self.start_session()

    def start_session(self):
        """Start Claude Code at a terminal of its own; what it paints is thrown away."""
        import pty

        settings = {
            "hasCompletedOnboarding": True, "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.place / "project"): {"hasTrustDialogAccepted": True}},
        }  # fmt: skip
        home = self.place / "home"
        (home / ".claude.json").write_text(json.dumps(settings), encoding="utf-8")
        nowhere = "http://127.0.0.1:9"
        env = support.clean_environment(
            HOME=str(home), CLAUDE_CONFIG_DIR=str(home), DISABLE_AUTOUPDATER="1",
            TERM="xterm-256color", ANTHROPIC_API_KEY=KEY, HTTPS_PROXY=nowhere,
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{self.model.server_port}",
            NO_PROXY="127.0.0.1", CLAUDE_PLUGIN_OPTION_AUTOSERVE="true",
            CLAUDE_PLUGIN_OPTION_SERVEPORT="0",
        )  # fmt: skip
        command = [find_claude(), "--plugin-dir", str(self.place / "plugin")]
        command += ["--permission-mode", "default", "--allowedTools", "Bash(python3:*)"]
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(self.place / "project")
            os.execve(command[0], command, env)
        threading.Thread(target=self.drain, daemon=True).start()
        self.addCleanup(self.end_session)
        self.until(lambda: a2a.read_whole(self.folder.at("server.json")), "a server")
        self.until(self.is_watched, "a monitor")

    def drain(self):
        with contextlib.suppress(OSError):
            while True:
                select.select([self.terminal], [], [])
                os.read(self.terminal, 65536)

    def end_session(self):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self.terminal)

    def until(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what} did not come")
            time.sleep(0.1)

    def is_watched(self):
        return self.folder.serving("watch.lock")

    def test_a_task_wakes_a_session_which_answers_it_and_takes_its_server_along(self):
        url = a2a.read_whole(self.folder.at("server.json"))["url"]
        with a2a.Client(url, timeout_s=60) as client:
            task = client.send("What is 6 x 7?")["task"]
        self.assertEqual(a2a.COMPLETED, task["status"]["state"])
        self.assertEqual("It is 42.", a2a.text_of(task))
        for keys in (b"/exit", b"\r"):
            os.write(self.terminal, keys)
            time.sleep(1)
        self.until(lambda: not self.folder.serving(), "the end of the server")
        self.until(lambda: not self.is_watched(), "the end of the monitor")

    def test_a_session_that_is_killed_leaves_no_monitor_behind(self):
        """Else that would take up tasks for which nobody is there."""
        self.end_session()
        self.until(lambda: not self.is_watched(), "the end of the monitor")
        self.assertTrue(self.folder.serving(), "tasks wait for the next session")


if __name__ == "__main__":
    unittest.main()
