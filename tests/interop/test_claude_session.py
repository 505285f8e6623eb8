"""A real session of Claude Code with the plugin: it serves, is woken by a task, and answers it.

The program is had as in test_plugin.py. Its model is played by a server on loopback, which knows
one plan: do what the command's page says, read the prompt that the monitor's line names, write
answer.md beside it.
"""

import http.server
import itertools
import json
import os
import pathlib
import re
import shutil
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

if os.name == "posix":
    import fcntl
    import pty
    import struct
    import termios

KEY = "a-key-for-loopback"
README = (support.ROOT / "README.md").read_text(encoding="utf-8")
# The rule for the tasks' folder, as the README gives it.
RULE = re.search(r'(?m)^\{"permissions".*$', README)[0]


def said_in(content):
    """Give all text of a message's content, with that of tool results."""
    if isinstance(content, str):
        return content
    texts = (block.get("text") or block.get("content") or "" for block in content)
    return "\n".join(text if isinstance(text, str) else said_in(text) for text in texts)


def next_step(said, names):
    """Give what the model does next: a text, or the name of a tool and its input."""
    woken = re.search(r"a2a task \S+ turn 1: (\S+prompt\.md)", said)
    page = re.search(r"```sh\n(.*?)\n```", said)
    prompt = re.search(r"writing one of these files into (\S+)", said)
    if "Bash" not in names:
        return "a title"
    if woken:
        return "Read", {"file_path": woken[1]}
    if page:
        return "Bash", {"command": page[1], "description": "as the page says"}
    if prompt:
        return "Write", {"file_path": f"{prompt[1]}/answer.md", "content": "It is 42.\n"}
    return "done"


class Model(http.server.BaseHTTPRequestHandler):
    """The side of the Messages API that a session talks to, streams and all."""

    protocol_version = "HTTP/1.1"
    numbers = itertools.count(1)

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer("text/plain", b"")

    def do_GET(self):
        self.answer("application/json", b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        if not re.match(r"/v1/messages(\?|$)", self.path):
            self.answer("application/json", b'{"input_tokens": 1}')
            return
        turns = [turn for turn in body["messages"] if turn["role"] != "system"]
        names = {tool["name"] for tool in body.get("tools", ())}
        step = next_step(said_in(turns[-1]["content"]), names)
        self.server.steps.append(step)
        block = {"type": "text", "text": step}
        if not isinstance(step, str):
            number = f"toolu_{next(self.numbers)}"
            block = {"type": "tool_use", "id": number, "name": step[0], "input": step[1]}
        reason = "end_turn" if isinstance(step, str) else "tool_use"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": f"msg_{next(self.numbers)}", "type": "message", "role": "assistant",
                   "model": body["model"], "usage": usage, "stop_sequence": None}  # fmt: skip
        if body.get("stream"):
            self.answer("text/event-stream", b"".join(events(message, block, reason)))
        else:
            message.update(content=[block], stop_reason=reason)
            self.answer("application/json", json.dumps(message).encode())

    def answer(self, media_type, body):
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def events(message, block, reason):
    """Give a message of one block as the events of its stream."""
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    for kind, fields in (
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ):
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command, **options):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))
        pipes = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(command, start_new_session=True, **pipes, **options)
        os.close(theirs)
        self.shown = b""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while True:
                data = os.read(self.ours, 65536)
                if not data:
                    return
                self.shown += data
        except OSError:
            pass  # it has ended

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


@unittest.skipUnless(os.name == "posix", "needs a pseudo terminal")
@unittest.skipUnless(find_claude(), "no claude here (see the head of test_plugin.py)")
class SessionTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name).resolve()
        self.home, self.project = self.place / "home", self.place / "project"
        self.config, binaries = self.home / ".claude", self.place / "bin"
        for folder in (self.config, self.project / ".claude", self.place / "plugin", binaries):
            folder.mkdir(parents=True)
        for name in NAMES:
            source = support.ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.place / "plugin" / name)
        (binaries / "python3").symlink_to(sys.executable)
        self.model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        self.model.daemon_threads, self.model.steps = True, []
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        self.addCleanup(self.model.server_close)
        self.addCleanup(self.model.shutdown)
        self.env = support.clean_environment(
            HOME=str(self.home), CLAUDE_CONFIG_DIR=str(self.config), DISABLE_AUTOUPDATER="1",
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{self.model.server_port}", ANTHROPIC_API_KEY=KEY,
            PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}", TERM="xterm-256color",
        )  # fmt: skip
        self.folder = a2a.Folder(str(self.project / ".a2a"))
        self.addCleanup(support.run_main, "stop", "--dir", self.folder.path)

    def install(self, *settings):
        """Install the plugin, and answer what a first start asks."""
        self.write(self.project / ".claude" / "settings.json", json.loads(RULE))
        where = ("--marketplace", str(self.place / "plugin"))
        pairs = itertools.chain(*(("--config", pair) for pair in settings))
        command = [find_claude(), "plugin", "install", "a2a", *where, *pairs]
        done = subprocess.run(
            command, env=self.env, cwd=self.home, capture_output=True, timeout=120
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        path = self.config / ".claude.json"
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known["hasCompletedOnboarding"] = True
        known["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
        known["projects"] = {str(self.project): {"hasTrustDialogAccepted": True}}
        self.write(path, known)

    def write(self, path, value):
        path.write_text(json.dumps(value), encoding="utf-8")

    def wait_until(self, true, what, terminal):
        for _ in range(600):
            if true():
                return
            time.sleep(0.1)
        shown = terminal.shown[-3000:].decode("utf-8", "replace")
        self.fail(f"{what}\nsteps: {self.model.steps}\nshown: {shown}")

    def test_a_session_is_woken_by_a_task_answers_it_and_takes_its_server_along(self):
        """From the plugin's installation to the first answered task, as the README has it."""
        self.install("servePort=0", "serveName=Rex's $(dog)")
        command = [find_claude(), "--permission-mode", "default", "--allowedTools", "Bash"]
        terminal = Terminal([*command, "--", "/a2a:serve"], env=self.env, cwd=self.project)
        self.addCleanup(terminal.close)
        self.wait_until(self.folder.serving, "no server", terminal)
        facts = self.folder.at("server.json")
        self.wait_until(lambda: a2a.read_whole(facts).get("url"), "no address", terminal)
        self.wait_until(lambda: self.folder.serving("watch.lock"), "nobody watches", terminal)
        self.wait_until(lambda: "done" in self.model.steps, "not told", terminal)
        url = a2a.read_whole(facts)["url"]
        with a2a.Client(url, timeout_s=60) as client:
            self.assertEqual("Rex's $(dog)", client.card["name"])
            task = client.send("What is 6 x 7?")
        self.assertEqual("It is 42.", a2a.text_of(task).strip())
        tools = [step[0] for step in self.model.steps if not isinstance(step, str)]
        self.assertEqual(["Bash", "Read", "Write"], tools)
        self.assertTrue(self.folder.serving())
        terminal.type("/exit")
        time.sleep(1)  # else it takes the end of the line for pasted text
        terminal.type("\r")
        self.wait_until(lambda: terminal.process.poll() is not None, "no end", terminal)
        self.assertFalse(self.folder.serving())


if __name__ == "__main__":
    unittest.main()
