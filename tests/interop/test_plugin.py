"""The plugin and its skill, judged by those who read them: Claude Code and the skill validator.

Claude Code is a program of 400 MB and so not fetched by itself: a `claude` on PATH is used, or

    npm install --prefix .peers/claude @anthropic-ai/claude-code@2.1.332
    node .peers/claude/node_modules/@anthropic-ai/claude-code/install.cjs
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peers
import support

import a2a

NAMES = (".claude-plugin", "skills", "a2a.py", "README.md", "LICENSE")


def find_claude():
    """Give the path of a Claude Code that is here, or None."""
    installed = peers.FOLDER / "claude" / "node_modules" / ".bin"
    return shutil.which("claude", path=str(installed)) or shutil.which("claude")


class SkillTest(unittest.TestCase):
    def test_the_skill_is_valid(self):
        validator = peers.PYTHON.with_name("agentskills" + (".exe" if os.name == "nt" else ""))
        if not validator.exists():
            raise unittest.SkipTest("no agentskills in .peers: `python3 tests` installs it")
        command = [str(validator), "validate", str(support.ROOT / "skills" / "a2a")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)


@unittest.skipUnless(find_claude(), "no claude here (see the head of the file)")
class ClaudeTest(unittest.TestCase):
    """Claude Code without a login and without the network."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = pathlib.Path(place.name) / "home"
        self.plugin = pathlib.Path(place.name) / "plugin"
        self.home.mkdir()
        self.plugin.mkdir()
        for name in NAMES:
            source = support.ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.plugin / name)

    def claude(self, *arguments):
        config = str(self.home / ".claude")
        env = support.clean_environment(
            HOME=str(self.home), CLAUDE_CONFIG_DIR=config, DISABLE_AUTOUPDATER="1"
        )
        command = [find_claude(), "plugin", *map(str, arguments)]
        done = subprocess.run(
            command, env=env, cwd=self.home, capture_output=True, encoding="utf-8", timeout=120
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def installed(self):
        rows = json.loads(self.claude("list", "--json"))
        return [row for row in rows if row["id"] == "a2a@a2a"]

    def test_the_manifests_are_valid(self):
        parts = """hooks: SessionStart, hooks: SessionEnd, monitors: tasks, skills: a2a:a2a,
            commands: a2a:serve, commands: a2a:stop"""
        for path in (self.plugin, self.plugin / ".claude-plugin" / "plugin.json"):
            said = self.claude("validate", "--strict", path)
            for part in parts.split(","):
                self.assertIn(part.strip(), said)
        self.claude("validate", "--profile", "directory", self.plugin)

    def test_it_is_installed_listed_and_removed(self):
        self.claude("marketplace", "add", self.plugin)
        self.claude("install", "a2a@a2a")
        (row,) = self.installed()
        self.assertEqual((a2a.VERSION, True), (row["version"], row["enabled"]))
        program = pathlib.Path(row["installPath"]) / "a2a.py"
        done = subprocess.run(
            [sys.executable, program, "--version"], capture_output=True, timeout=60
        )
        self.assertEqual(f"a2a.py {a2a.VERSION}", done.stdout.decode().strip())
        self.claude("uninstall", "a2a@a2a")
        self.assertEqual([], self.installed())


if __name__ == "__main__":
    unittest.main()
