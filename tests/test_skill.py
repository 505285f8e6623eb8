"""The plugin and its skill: one version, known settings, examples that run as written."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

PLUGIN = support.ROOT / ".claude-plugin"
SKILL = support.ROOT / "skills" / "a2a"


def load(name):
    return json.loads((PLUGIN / name).read_text(encoding="utf-8"))


# Options that no person sets for a session: a session is the agent, its calls come one by one, or
# there is a setting for both halves.
NO_SETTINGS = {
    "agent", "skill", "card", "allow-host", "max-queue", "max-connections", "keep-tasks",
    "store", "idle-limit", "max-output-mib", "framed", "lenient-version", "agent-card", "endpoint",
    "a2a-version", "extension", "svc-param", "card-header", "basic", "trusted-origin",
    "allow-http-credentials", "connect-timeout", "insecure", "oauth-redirect-host",
}  # fmt: skip
# What a bridge of another make calls it, and what it is here.
OTHERS = {
    "port": "servePort", "grpcPort": "serveGrpcPort", "transports": "serveTransports",
    "host": "serveHost", "name": "serveName", "taskMode": "serveTaskMode",
    "apiKey": "serveApiKey", "oidcIssuer": "serveOidcIssuer",
    "oidcAudience": "serveOidcAudience", "requiredScopes": "serveRequiredScopes",
    "tlsCert": "serveTlsCert", "tlsKey": "serveTlsKey", "tlsClientCa": "serveTlsClientCa",
    "cardSigningKey": "serveCardSigningKey", "maxConcurrentTasks": "serveMaxConcurrentTasks",
    "tasksPerMinute": "serveTasksPerMinute",
    "authFailuresPerMinute": "serveAuthFailuresPerMinute", "autoServe": "autoServe",
    "clientApiKey": "clientApiKey", "oauthClientId": "clientOauthClientId",
    "oauthClientSecret": "clientOauthClientSecret", "oauthScope": "clientOauthScope",
    "oauthAudience": "clientOauthAudience", "oauthRedirectPort": "clientOauthRedirectPort",
    "clientUsername": "clientUsername", "clientPassword": "clientPassword",
    "clientTlsCa": "clientCa", "clientTlsCert": "clientCert", "clientTlsKey": "clientKey",
    "trustedCardKeys": "clientTrustedCardKeys",
    "requireSignedCards": "clientRequireSignedCards",
}  # fmt: skip


def option_of(key):
    """Give the option that a setting of the plugin is, or None."""
    names = {name.replace("-", ""): option for name, option in a2a.CLI_OPTIONS.items()}
    start = "serve" if key.startswith("serve") else "client"
    return names.get(key[len(start) :].lower()) if key.startswith(start) else None


def front_matter(path):
    """Give the simple `key: value` lines between the two lines of dashes."""
    head = path.read_text(encoding="utf-8").split("---\n")[1]
    return dict(re.findall(r"(?m)^([\w-]+): *(.*)$", head))


class PluginTest(unittest.TestCase):
    def test_one_version_everywhere(self):
        """The plugin, the skill, the card and --version are one thing."""
        skill = (SKILL / "SKILL.md").read_text(encoding="utf-8")
        self.assertEqual(a2a.VERSION, load("plugin.json")["version"])
        self.assertEqual([a2a.VERSION], re.findall(r'(?m)^  version: "(.*)"$', skill))
        self.assertEqual(f"a2a.py {a2a.VERSION}\n", support.run_main("--version").stdout)
        with a2a.Server("echo", port=0) as server, a2a.Client(server.url) as client:
            self.assertEqual(a2a.VERSION, client.card["version"])

    def test_every_setting_is_an_option_and_secrets_are_sensitive(self):
        for key, setting in load("plugin.json")["userConfig"].items():
            value = {"number": "1", "boolean": "true"}.get(setting["type"], "x")
            environ = {"CLAUDE_PLUGIN_OPTION_" + key: value}
            plain_ones, secret_ones = a2a.plugin_settings(environ)
            self.assertEqual([value], [*plain_ones.values(), *secret_ones.values()], key)
            if key != "clientUsername":  # no secret, but it lies with its password
                self.assertEqual(setting.get("sensitive", False), bool(secret_ones), key)
            self.assertEqual(
                (plain_ones, secret_ones),
                a2a.plugin_settings({next(iter(environ)).upper(): value}),
            )

    def test_settings_have_the_type_and_default_of_their_options(self):
        types = {"N": "number", "MIB": "number", "": "boolean", "FILE": "file"}
        for key, setting in load("plugin.json")["userConfig"].items():
            option = option_of(key)
            if option is not None:
                self.assertEqual(types.get(option.metavar, "string"), setting["type"], key)
                if "default" in setting:
                    self.assertEqual(option.default, str(setting["default"]), key)

    def test_every_option_that_a_person_sets_is_a_setting(self):
        settings = load("plugin.json")["userConfig"]
        for option in a2a.CLI_OPTIONS.values():
            start = "serve" if option.group in ("Answering", "Server") else "client"
            mine = [key for key in settings if key.startswith(start)]
            groups = ("Answering", "Server", "Agent", "Credentials", "Connection")
            if option.group in groups and not option.typed and option.name not in NO_SETTINGS:
                keys = [key for key in mine if option_of(key) is option]
                self.assertEqual(1, len(keys), f"--{option.name}")

    def test_the_settings_of_other_bridges_are_there(self):
        """Whoever comes from one finds what it could be told."""
        settings = load("plugin.json")["userConfig"]
        self.assertEqual(set(), {key for key in OTHERS.values() if key not in settings})

    def test_there_is_one_skill_of_the_open_format(self):
        """A2ACLI_SKILL_001: exactly one, small, deferring to help."""
        found = sorted(
            path.relative_to(support.ROOT) for path in support.ROOT.glob("skills/*/SKILL.md")
        )
        self.assertEqual([pathlib.Path("skills/a2a/SKILL.md")], found)
        fields = front_matter(SKILL / "SKILL.md")
        self.assertEqual(
            {"name", "description", "license", "compatibility", "metadata"}, set(fields)
        )
        self.assertEqual("a2a", fields["name"])
        self.assertIn("Use when", fields["description"])
        self.assertLessEqual(len(fields["description"]), 1024)
        self.assertLessEqual(len(fields["compatibility"]), 500)
        text = (SKILL / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)[2]
        self.assertLess(len(text.split()), 520)
        self.assertIn("--help", text)
        named = [name for name in a2a.COMMANDS if name in text]
        self.assertLess(len(named), len(a2a.COMMANDS), "it does not list the commands")
        for link in re.findall(r"\]\(([^)]*)\)", text):
            self.assertTrue((SKILL / link).is_file(), link)

    def test_the_skill_restates_no_requirement(self):
        """A2ACLI_SKILL_002: how to use the tool, not what obliges it."""
        for path in SKILL.rglob("*.md"):
            text = path.read_text(encoding="utf-8")
            self.assertNotRegex(text, r"\b(MUST|SHALL|SHOULD|RFC 2119|A2ACLI_[A-Z]+_\d)")

    def test_the_commands_name_what_exists(self):
        for path in (PLUGIN / "commands").glob("*.md"):
            command = re.search(r"a2a\.py\" (\w+)", path.read_text(encoding="utf-8"))[1]
            self.assertIn(command, a2a.COMMANDS)
            self.assertTrue(front_matter(path)["description"])


class Console:
    """The examples of a page: ```console blocks of `$ command` lines and what they print."""

    def __init__(self, path):
        ports = re.compile(r"4139\d")  # of the pages; here a free one, always the same for the same
        free = {}
        text = ports.sub(
            lambda found: free.setdefault(found[0], str(support.free_port())),
            path.read_text("utf-8"),
        )
        self.blocks = re.findall(r"(?ms)^```console( server)?\n(.*?)^```$", text)

    def __iter__(self):
        for server, text in self.blocks:
            for command, output in re.findall(r"(?ms)^\$ (.*?)\n(.*?)(?=^\$ |\Z)", text):
                yield bool(server), command, output


def matches(expected, actual):
    """Say whether output is as a page has it: ... is anything, alone on a line any lines."""
    pattern = ""
    for line in expected.splitlines():
        if line == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, actual) is not None


@unittest.skipUnless(shutil.which("sh"), "the examples are for a POSIX shell")
class ExamplesTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        shutil.copy(support.A2A, self.place)
        binaries = pathlib.Path(self.place, "bin")
        binaries.mkdir()
        (binaries / "python3").symlink_to(sys.executable)
        path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
        self.env = support.clean_environment(PATH=path, TASK="")

    def run_page(self, name):
        for is_server, command, expected in Console(SKILL / "references" / name):
            with self.subTest(command=command):
                if is_server:
                    server = support.Process(["sh", "-c", command], env=self.env, cwd=self.place)
                    self.addCleanup(server.__exit__)
                    actual = server.wait_for("Ready") + "\n"
                elif command.startswith("TASK="):
                    self.env["TASK"], actual = self.run_shell(command + '; printf %s "$TASK"'), ""
                    self.assertRegex(self.env["TASK"], r"^\S+$")
                else:
                    actual = self.run_shell(command)
                self.assertTrue(matches(expected, actual), f"{expected}\n--- came:\n{actual}")

    def run_shell(self, command):
        done = subprocess.run(
            ["sh", "-c", command], env=self.env, cwd=self.place, timeout=60,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip
        return done.stdout

    def test_calling(self):
        self.run_page("calling.md")

    def test_answering(self):
        self.addCleanup(support.run_main, "stop", "--dir", os.path.join(self.place, ".a2a"))
        self.run_page("answering.md")


if __name__ == "__main__":
    unittest.main()
