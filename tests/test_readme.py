"""The README's commands and programs run as they are written.

Blocks that start with ```sh run in one folder from top to bottom, each in a shell of its own as in
another terminal; `server` ones go on until the end. ```python NAME is saved there as NAME, and
call.py is run. `skip` marks what needs another machine.
Only the ports are changed, so that tests can run side by side.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

README = (support.ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.M | re.S)


def blocks():
    """Give (line, language, mark, text) of every fenced block."""
    for match in BLOCK.finditer(README):
        yield README.count("\n", 0, match.start()) + 1, match[1], match[2], match[3]


class TextTest(unittest.TestCase):
    def test_the_files_it_links_to_exist(self):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
            self.assertTrue((support.ROOT / target).exists(), target)

    def test_the_options_it_names_exist(self):
        """Every --option in the text stands in the source."""
        source = support.A2A.read_text(encoding="utf-8")
        runner = (support.ROOT / "tests" / "__main__.py").read_text(encoding="utf-8")
        text = re.sub(r"`(?:/|claude )plugin .*?`", "", README)
        for option in set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", text)):
            self.assertTrue(option in source + runner, f"--{option}")


@unittest.skipUnless(support.has("bash") and os.name != "nt", "no bash to run the blocks")
class BlockTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ports = {port: support.free_port() for port in re.findall(r"\b41\d{3}\b", README)}
        cls.ports.setdefault("41241", support.free_port())
        folder = tempfile.TemporaryDirectory(prefix="a2a-readme-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        shutil.copy(support.A2A, cls.folder)
        shutil.copytree(support.ROOT / "tests", cls.folder / "tests", ignore=lambda *_: ["bench"])
        (cls.folder / "python3").symlink_to(sys.executable)
        path = f"{cls.folder}{os.pathsep}{os.environ['PATH']}"
        cls.environment = support.clean_environment(PATH=path)
        cls.addClassCleanup(cls.stop_the_detached)

    @classmethod
    def stop_the_detached(cls):
        command = [sys.executable, "a2a.py", "stop"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, cwd=cls.folder, env=cls.environment, timeout=30, **quiet)

    def adapt(self, text):
        """Give each server a port of this run."""
        for old, new in self.ports.items():
            text = text.replace(old, str(new))
        default = f"--port {self.ports['41241']}"
        return re.sub(r"(a2a\.py serve(?!.*--port)[^&\n]*)", rf"\1 {default}", text)

    def run_block(self, line, text):
        """Run one block with bash, as it is written."""
        done = subprocess.run(
            ["bash", "-c", "set -e -o pipefail\n" + self.adapt(text)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        self.assertEqual(0, done.returncode, f"README.md:{line}\n{text}\n{done.stderr}")
        return done.stdout

    def start_server(self, text):
        """Run a block that goes on, until the end of the test; give it once it is ready."""
        shell = ["bash", "-c", "exec " + self.adapt(text).strip()]
        server = support.Process(shell, env=self.environment, cwd=self.folder)
        self.addCleanup(server.__exit__)
        server.wait_for("Ready: ")

    def test_every_block_runs(self):
        with self.subTest("the agents are there first"):
            for _, language, mark, text in blocks():
                if language == "python" and mark:
                    (self.folder / mark).write_text(self.adapt(text), encoding="utf-8")
        outputs = {}
        for line, language, mark, text in blocks():
            if language == "sh" and mark != "skip":
                text = text.replace("python3 tests\n", "")
                with self.subTest(line=line):
                    if mark == "server":
                        self.start_server(text)
                    else:
                        outputs[line] = self.run_block(line, text)
        outputs[0] = self.run_block(0, "python3 call.py")
        everything = "\n".join(outputs.values())
        self.assertIn("SHOUT THIS", everything)
        self.assertIn("You said: hello", everything)
        self.assertIn("You chose blue", everything)
        self.assertIn("It is 42.", everything)
        self.assertIn("TASK_STATE_COMPLETED", outputs[0])

    def test_no_block_needs_a_shell_that_takes_comments(self):
        """An interactive zsh, the shell of macOS, passes what stands behind # as arguments."""
        for line, language, _, text in blocks():
            if language == "sh":
                self.assertNotRegex(text, r"(?m)(^|\s)#", f"README.md:{line}")

    def test_the_program_serves_when_run(self):
        """agent.py is run as the text says: python3 agent.py."""
        text = next(text for _, _, mark, text in blocks() if mark == "agent.py")
        port = support.free_port()
        text = text.replace("a2a.serve(agent)", f"a2a.serve(agent, port={port})")
        path = self.folder / "agent_alone.py"
        path.write_text(text, encoding="utf-8")
        with support.Process([sys.executable, path], env=self.environment) as child:
            child.wait_for(f"Ready: http://127.0.0.1:{port}", "stderr")
            params = {"message": support.message("hi")}
            answer = support.rpc(port, "SendMessage", params)
        self.assertIn("You said: hi", str(answer["result"]))


if __name__ == "__main__":
    unittest.main()
