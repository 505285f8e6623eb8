"""Chapter 21, the command line: options, settings, output, commands."""

import _thread
import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from scripted import Scripted, task


def parsed(*argv):
    """Give a command line taken apart."""
    line = a2a.Line()
    a2a.parse_line(argv, line)
    return line


def envelope(done):
    """Give the error object that a failed command wrote, which must be all of its output."""
    value = json.loads(done.stdout)
    assert list(value) == ["error"], done.stdout
    assert set(value["error"]) == {"code", "message", "hint", "a2aCode"}, done.stdout
    return value["error"]


def fields(text):
    """Read text output: [(label, value)], blocks as (label, content)."""
    found, lines = [], iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        label, colon, value = line.partition(":")
        assert colon, f"no field: {line!r} in {text!r}"
        if value:
            found.append((label, value[1:]))
        else:
            found.append((label, "\n".join(iter(lambda: next(lines), ""))))
    return found


class Folder(unittest.TestCase):
    """A working folder and a home of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name).resolve() / "home"
        self.work = self.home / "work" / "deeper"
        self.config = self.home / ".config" / "a2a-cli"
        self.work.mkdir(parents=True)
        self.config.mkdir(parents=True)

    def write(self, path, text, mode=0o600):
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def cli(self, *arguments, **options):
        home = {"HOME": str(self.home), "USERPROFILE": str(self.home)}
        options["env"] = {**home, **options.get("env", {})}
        return support.run_main(*arguments, cwd=self.work, **options)

    def shown(self, *arguments, **options):
        """Give what `config show` says of each setting, as {name: (value, source)}."""
        done = self.cli("config", "show", "-o", "json", *arguments, **options)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        rows = json.loads(done.stdout)["settings"]
        return {name: (row["value"], row["source"]) for name, row in rows.items()}


class LineTest(unittest.TestCase):
    def test_options_stand_anywhere(self):
        line = parsed("-o", "json", "send", "--timeout=5", "URL", "--file", "x", "text", "--async")
        self.assertEqual(["send", "URL", "text"], line.words())
        typed = [("output", "json"), ("timeout", "5"), ("file", "x"), ("async", "true")]
        self.assertEqual(typed, line.typed)

    def test_short_options_take_their_value_in_every_form(self):
        for argv in (("-o", "json"), ("-ojson",), ("-o=json",), ("--output=json",)):
            with self.subTest(argv=argv):
                self.assertEqual([("output", "json")], parsed(*argv).typed)

    def test_two_dashes_end_the_options(self):
        self.assertEqual(["send", "--file", "-x"], parsed("send", "--", "--file", "-x").words())

    def test_a_single_dash_is_a_word(self):
        self.assertEqual(["send", "-"], parsed("send", "-").words())

    def test_aliases_of_an_option_mean_the_option(self):
        line = parsed("--no-wait", "--return-immediately", "--watch")
        self.assertEqual(["async", "async", "wait"], [name for name, _ in line.typed])

    def test_parts_keep_their_order(self):
        line = parsed("send", "--data", "d", "--text", "t", "word", "--file", "f")
        items = [("word", "send"), ("data", "d"), ("text", "t"), ("word", "word"), ("file", "f")]
        self.assertEqual(items, [(kind, text) for kind, text, _ in line.items])

    def test_a_media_type_belongs_to_the_part_before_it(self):
        line = parsed("--file", "a", "--media-type", "x/a", "--file", "b", "--media-type=x/b")
        self.assertEqual(["x/a", "x/b"], [item[2] for item in line.items])
        for argv in (("--media-type", "x/a"), ("word", "--media-type", "x/a")):
            with self.assertRaises(a2a.UsageError):
                parsed(*argv)
        with self.assertRaises(a2a.UsageError):
            parsed("--file", "a", "--media-type", "x/a", "--media-type", "x/b")

    def test_an_unknown_option_names_the_one_meant(self):
        with self.assertRaises(a2a.UsageError) as caught:
            parsed("--ouptut", "json")
        self.assertEqual("unknown option --ouptut", str(caught.exception))
        self.assertEqual("did you mean --output?", caught.exception.hint)
        for token in ("--o", "-output", "-x", "---", "-é"):
            with self.subTest(token=token), self.assertRaises(a2a.UsageError):
                parsed(token, "json")

    def test_a_missing_value_is_an_error_and_an_empty_one_is_not(self):
        for argv in (("--text",), ("--text", "--file", "x")):
            with self.subTest(argv=argv), self.assertRaises(a2a.UsageError):
                parsed(*argv)
        self.assertEqual([("text", "")], parsed("--text", "").typed)
        self.assertEqual([("text", "--file")], parsed("--text=--file").typed)
        self.assertEqual([("text", "-5 degrees")], parsed("--text", "-5 degrees").typed)


class ValueTest(unittest.TestCase):
    def test_durations(self):
        given = {"15": 15, "15s": 15, "500ms": 0.5, "2m": 120, "1h": 3600, "1.5s": 1.5, " 3 ": 3}
        for text, seconds in given.items():
            self.assertEqual(seconds, a2a.read_duration(text), text)
        self.assertEqual(3_600_000, a2a.read_duration("1000h"))
        for text in ("", "s", "-1", "1d", "1e3", "five", "1 s", "9" * 10, "1µs", "1001h"):
            with self.subTest(text=text), self.assertRaises(ValueError):
                a2a.read_duration(text)

    def test_sizes(self):
        given = {"16MiB": 16 << 20, "64KiB": 64 << 10, "1GiB": 1 << 30, "7": 7, "7B": 7}
        for text, size in given.items():
            self.assertEqual(size, a2a.read_size(text), text)
        self.assertEqual(16 << 20, a2a.read_size("16", "MiB"))
        for text in ("", "16MB", "-1", "1.5MiB"):
            with self.subTest(text=text), self.assertRaises(ValueError):
                a2a.read_size(text)

    def read(self, name, text):
        return a2a.read_option(a2a.CLI_OPTIONS[name], text, "--" + name)

    def test_what_an_option_takes_is_checked(self):
        wrong = {
            "history": "-1",
            "output": "yaml",
            "async": "maybe",
            "svc-param": "no colon",
            "timeout": "soon",
            "status": "sleeping",
            "a2a-version": "0.3",
            "metadata": "[1]",
            "message-metadata": "{",
            "page-size": "99999999999",
            "after": "yesterday",
            "extension": "not a uri",
            "basic": "nobody",
            "media-type": "no type",
            "accept": "text",
            "task-id": "",
            "context-id": "",
            "transports": " , ",
            "skill": "=what it does",
        }
        for name, text in wrong.items():
            with self.subTest(name=name), self.assertRaises(a2a.UsageError) as caught:
                self.read(name, text)
            self.assertIn("--" + name, str(caught.exception))

    def test_pairs_states_and_bindings_are_read(self):
        self.assertEqual(("X-Trace", "a:b"), self.read("svc-param", "X-Trace: a:b"))
        self.assertEqual("TASK_STATE_INPUT_REQUIRED", self.read("status", "input-required"))
        self.assertEqual("TASK_STATE_WORKING", self.read("status", "TASK_STATE_WORKING"))
        names = ("rest", "http+json", "JsonRpc", "grpc", "https://x.example/ws/v1")
        read = ["HTTP+JSON", "HTTP+JSON", "JSONRPC", "GRPC", "https://x.example/ws/v1"]
        self.assertEqual(read, [self.read("transport", name) for name in names])
        self.assertEqual(["GRPC", "HTTP+JSON"], self.read("transports", "grpc, rest"))

    def test_times_media_types_and_users_are_read(self):
        self.assertEqual(
            "2026-01-31T10:00:00.000Z", self.read("after", "2026-01-31T11:00:00+01:00")
        )
        for text in ("text/plain", "text/plain; charset=utf-8", "application/a2a+json", "*/*", ""):
            self.assertEqual(text, self.read("media-type", text))
        self.assertEqual("u:p:q", self.read("basic", "u:p:q"))
        with self.assertRaises(a2a.UsageError) as caught:
            self.read("basic", "secret-77")
        self.assertEqual("--basic: the value is not USER:PASSWORD", str(caught.exception))

    def test_a_header_value_cannot_start_a_second_header(self):
        for value in ("X:a\r\nY: b", "X:a\0b", "X y:a", ":a"):
            with self.subTest(value=value), self.assertRaises(a2a.UsageError):
                self.read("svc-param", value)

    def test_a_wrong_secret_is_not_repeated_in_the_error(self):
        """AUTH-25: secrets never in output."""
        with self.assertRaises(a2a.UsageError) as caught:
            self.read("svc-param", "my-secret-without-colon")
        self.assertNotIn("my-secret", str(caught.exception))


class EnvFileTest(unittest.TestCase):
    def test_a_file_is_read_as_dotenv(self):
        text = (
            "# a comment\nA2ACLI_TIMEOUT=15s # why\nexport A2ACLI_OUTPUT = json\r\n"
            'A2A_TOKEN=\'a # b\'\nA2ACLI_TEXT="two\\nlines \\"q\\"" # c\nA2ACLI_BASIC=u:p#1\n'
            "PATH=/evil\nnot a line\n A2ACLI_EMPTY=\nA2ACLI_HASH=#x\n"
        )
        self.assertEqual(
            {
                "A2ACLI_TIMEOUT": "15s",
                "A2ACLI_OUTPUT": "json",
                "A2A_TOKEN": "a # b",
                "A2ACLI_TEXT": 'two\nlines "q"',
                "A2ACLI_BASIC": "u:p#1",
                "A2ACLI_EMPTY": "",
                "A2ACLI_HASH": "",
            },
            a2a.read_env_file(text),
        )


class SettingsTest(Folder):
    def test_the_stronger_source_wins(self):
        self.assertEqual(("2s", "built-in default"), self.shown()["poll-interval"])
        top = self.write(self.config / ".env", "A2ACLI_POLL_INTERVAL=3s")
        self.assertEqual(("3s", f"A2ACLI_POLL_INTERVAL, {top}"), self.shown()["poll-interval"])
        local = self.write(self.home / "work" / ".env", "A2ACLI_POLL_INTERVAL=4s")
        self.assertEqual(("4s", f"A2ACLI_POLL_INTERVAL, {local}"), self.shown()["poll-interval"])
        given = self.write(self.home / "mine.env", "A2ACLI_POLL_INTERVAL=5s")
        self.assertEqual("5s", self.shown("--config", given)["poll-interval"][0])
        env = {"A2ACLI_POLL_INTERVAL": "6s"}
        self.assertEqual(
            ("6s", "A2ACLI_POLL_INTERVAL, the environment"),
            self.shown("--config", given, env=env)["poll-interval"],
        )
        self.assertEqual(
            ("7s", "flag --poll-interval"),
            self.shown("--poll-interval", "7s", env=env)["poll-interval"],
        )

    def test_every_option_has_a_variable_but_those_of_the_command_line(self):
        typed = {name for name, option in a2a.CLI_OPTIONS.items() if option.typed}
        actions = {"detach", "ask", "auth", "fail", "reject", "progress", "grant", "turn"}
        self.assertEqual({"stream", "help", "version"}, typed - actions)
        env = {"A2ACLI_STREAM": "1", "A2ACLI_VERBOSE": "1", "A2ACLI_NO_WAIT": "1"}
        rows = self.shown(env=env)
        self.assertEqual(("1", "A2ACLI_VERBOSE, the environment"), rows["verbose"])
        self.assertEqual((None, "built-in default"), rows["async"])
        self.assertNotIn("stream", rows)

    def test_the_other_names_of_variables_work(self):
        env = {
            "A2A_TOKEN": "tttt",
            "A2A_API_KEY": "kkkk",
            "A2A_HTTP_USERNAME": "u",
            "A2A_HTTP_PASSWORD": "pppp",
            "A2A_TLS_CA": "ca.pem",
        }
        rows = self.shown(env=env)
        self.assertEqual(("***", "A2A_TOKEN, the environment"), rows["bearer"])
        self.assertEqual("***", rows["api-key"][0])
        self.assertEqual("A2A_HTTP_USERNAME:A2A_HTTP_PASSWORD, the environment", rows["basic"][1])
        self.assertEqual("ca.pem", rows["ca"][0])
        self.assertEqual((None, "built-in default"), self.shown(env={"A2A_TOKEN": ""})["bearer"])

    def test_a_variable_holds_lines_of_one_value_or_several_values(self):
        values = {"A2A_SERVE_DESCRIPTION": "two\nlines", "A2A_SERVE_ALLOW_HOST": "a\nb"}
        settings = a2a.Settings("A2A_SERVE_", (), [a2a.Layer("the environment", values)])
        self.assertEqual(
            ("two\nlines", ["a", "b"]), (settings["description"], settings["allow-host"])
        )

    def test_secrets_are_not_shown(self):
        """AUTH-25: secrets never in output, config show and wrong values included."""
        self.write(self.config / ".env", "A2ACLI_API_KEY=key-1234\nA2ACLI_TIMEOUT=key-1234x")
        arguments = ("--bearer", "token-1234", "--svc-param", "X-Key:value-1234")
        for form in ("text", "json"):
            done = self.cli("config", "show", "-o", form, *arguments, "--basic", "me:pass-1234")
            for secret in ("key-1234", "token-1234", "value-1234", "pass-1234"):
                self.assertNotIn(secret, done.stdout + done.stderr)

    def test_a_found_file_may_not_weaken_security(self):
        self.write(
            self.home / "work" / ".env",
            "A2ACLI_INSECURE=1\nA2A_TLS_CA=x\nA2ACLI_PROXY=http://evil\nA2ACLI_TRUSTED_ORIGIN=http://e\n"
            "A2ACLI_AGENTS=x\nA2ACLI_ENDPOINT=http://evil\nA2ACLI_TIMEOUT=9s",
        )
        done = self.cli("config", "show", "-o", "json")
        rows = json.loads(done.stdout)["settings"]
        for name in ("insecure", "ca", "proxy", "trusted-origin", "agents", "endpoint"):
            self.assertEqual("built-in default", rows[name]["source"], name)
            self.assertRegex(done.stderr, rf"Warning: \w+{name[-2:].upper()}\w* in .* is ignored")
        self.assertEqual("9s", rows["timeout"]["value"])
        trusted = self.cli("config", "show", "-o", "json", "--config", self.work.parent / ".env")
        self.assertEqual("1", json.loads(trusted.stdout)["settings"]["insecure"]["value"])

    @unittest.skipUnless(os.name == "posix", "modes are of POSIX")
    def test_a_readable_file_with_secrets_is_warned_of(self):
        path = self.write(self.config / ".env", "A2ACLI_BEARER=tok-1234", 0o644)
        done = self.cli("config", "show")
        self.assertIn(f"{path} holds a credential and others may read it", done.stderr)
        path.chmod(0o600)
        self.assertEqual("", self.cli("config", "show").stderr)

    def test_an_unknown_name_in_a_file_is_told(self):
        self.write(self.config / ".env", "A2ACLI_TIMOUT=3\nOTHER=1")
        done = self.cli("config", "show")
        self.assertIn("A2ACLI_TIMOUT", done.stderr)
        self.assertIn("did you mean A2ACLI_TIMEOUT?", done.stderr)
        self.assertNotIn("OTHER", done.stderr)

    @unittest.skipIf(os.name == "nt", "a folder in use cannot be removed")
    def test_a_working_folder_that_was_removed_is_no_obstacle(self):
        gone = self.home / "gone"
        gone.mkdir()
        program = (
            f"import os, sys; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
            "import a2a; sys.exit(a2a.main(['config', 'show']))"
        )
        env = support.clean_environment(PYTHONPATH=str(support.ROOT))
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_a_config_file_that_is_not_there_is_an_error(self):
        done = self.cli("config", "show", "--config", "none.env", "-o", "json")
        self.assertEqual((2, "A2ACLI_ERR_USAGE"), (done.returncode, envelope(done)["code"]))

    def test_the_folders_are_left_as_they_were(self):
        """A configuration is read, never written; nothing is kept from one run to the next."""
        self.write(self.config / ".env", "A2ACLI_TIMEOUT=3s")
        before = sorted(self.home.rglob("*"))
        self.cli("config", "show")
        self.cli("send", "http://127.0.0.1:9", "x")
        self.assertEqual(before, sorted(self.home.rglob("*")))

    def test_what_a_server_would_do_is_shown_too(self):
        """DESIGN 7: serve reads A2A_SERVE_* and --config alone; secrets only as present."""
        path = self.write(self.home / "serve.env", "A2A_SERVE_PORT=4000\nA2A_SERVE_AGENT=echo\n")
        self.write(self.config / ".env", "A2A_SERVE_NAME=none\n")
        env = {
            "A2A_SERVE_CONFIG": str(path),
            "A2A_SERVE_API_KEY": "kkkk-1234",
            "A2A_SERVE_AGENT": "exec:cat",
            "A2ACLI_OUTPUT": "json",
        }
        done = self.cli("config", "show", env=env)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        shown = json.loads(done.stdout)["serve"]
        rows = {name: (row["value"], row["source"]) for name, row in shown["settings"].items()}
        self.assertEqual(("4000", f"A2A_SERVE_PORT, {path}"), rows["port"])
        self.assertEqual(("exec:cat", "A2A_SERVE_AGENT, the environment"), rows["agent"])
        self.assertEqual(("***", "A2A_SERVE_API_KEY, the environment"), rows["api-key"])
        self.assertEqual((None, "built-in default"), rows["name"])
        self.assertEqual([str(path)], shown["files"])
        done = self.cli("config", "show", "--config", path)
        self.assertIn(f"\nserve port: 4000 (A2A_SERVE_PORT, {path})\n", done.stdout)
        self.assertIn(f"\nserve config: {path} (flag --config)\n", done.stdout)
        self.assertIn(f"\nserve file: {path}\n", done.stdout)
        self.assertNotIn("serve api-key:", done.stdout)


class HelpTest(Folder):
    def test_help_names_every_command(self):
        for arguments in ((), ("help",), ("--help",), ("-h",)):
            done = self.cli(*arguments)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            for name in a2a.COMMANDS:
                self.assertIn(f"\n  {name} ", done.stdout)

    def test_help_of_a_command_shows_its_options_and_what_they_are_set_to(self):
        env = {"A2ACLI_TIMEOUT": "90s", "A2ACLI_BEARER": "tok-1234"}
        for arguments in (("help", "send"), ("send", "--help"), ("-h", "send")):
            done = self.cli(*arguments, env=env)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            for option in a2a.options_of(a2a.COMMANDS["send"]):
                for spelling in option.spellings:
                    self.assertIn(
                        f"--{spelling}" if len(spelling) > 1 else f"-{spelling}", done.stdout
                    )
            text = " ".join(done.stdout.split())
            self.assertIn("(default: 2s)", text)
            self.assertIn("(now: 90s, from A2ACLI_TIMEOUT, the environment)", text)
            self.assertIn("(now: ***, from A2ACLI_BEARER, the environment)", text)
            self.assertIn("seen by other users of this machine (process table)", text)
            self.assertNotIn("flag --help", text)
            self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 120)

    def test_help_lists_what_a_command_uses(self):
        for command, absent in (
            ("card get", "--stream --wait --task-id --poll-interval --history"),
            ("task get", "--stream --async --context-id --metadata"),
            ("task list", "--stream --wait --task-id --metadata --poll-interval"),
            ("task cancel", "--stream --wait --context-id --poll-interval --history"),
            ("task download", "--stream --wait --context-id --metadata"),
            ("task subscribe", "--wait --async --context-id --metadata"),
            ("demo-server", "--agent --framed --detach --outbox-max-files --dir"),
            ("stop", "--verbose --timeout"),
        ):
            text = self.cli(*command.split(), "--help").stdout
            for name in absent.split():
                self.assertNotIn(f" {name} ", text, command)

    def test_help_of_a_group_of_commands(self):
        for arguments in (("help", "task"), ("task", "--help")):
            done = self.cli(*arguments)
            self.assertEqual(0, done.returncode)
            self.assertIn("task cancel", done.stdout)
            self.assertNotIn("config show", done.stdout)

    def test_the_settings_are_shown_although_some_are_wrong(self):
        env = {
            "A2ACLI_OUTPUT": "yaml", "A2ACLI_VERBOSE": "maybe", "A2ACLI_TIMEOUT": "soon",
            "A2A_SERVE_PORT": "x", "A2ACLI_BEARER": "tok-1234",
        }  # fmt: skip
        done = self.cli("config", "show", env=env)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for line in (
            "timeout: not set (wrong: A2ACLI_TIMEOUT of the environment: 'soon' is no duration",
            "output: not set (wrong: A2ACLI_OUTPUT of the environment: 'yaml' is not text or json)",
            "serve port: not set (wrong: A2A_SERVE_PORT of the environment: 'x' is no whole number",
            "bearer: *** (A2ACLI_BEARER, the environment)",
        ):
            self.assertIn(f"\n{line}", done.stdout)
        for words in ("help", "send --help", "help send"):
            self.assertEqual(0, self.cli(*words.split(), env=env).returncode, words)
        for flags in (("--timeout", "soon"), ("--transport", "foo")):
            self.assertEqual(2, self.cli("config", "show", *flags).returncode)
        for words in ("send http://127.0.0.1:1 x", "status"):
            env = {"A2ACLI_VERBOSE": "maybe", "A2A_SERVE_OUTPUT": "yaml"}
            self.assertEqual(2, self.cli(*words.split(), env=env).returncode, words)
        env = {"A2ACLI_HISTORY": "x"}  # which a card has not
        self.assertEqual(3, self.cli("card", "get", "http://127.0.0.1:1", env=env).returncode)

    def test_help_works_with_a_broken_setting(self):
        done = self.cli("send", "--help", env={"A2ACLI_TIMEOUT": "soon"})
        self.assertEqual(0, done.returncode)
        self.assertIn("wrong now", done.stdout)

    def test_version(self):
        for flag in ("--version", "-v"):
            self.assertEqual(f"a2a.py {a2a.VERSION}\n", self.cli(flag).stdout)

    def test_no_option_is_nobodys(self):
        for option in a2a.CLI_OPTIONS.values():
            owners = [c.name for c in a2a.COMMANDS.values() if option in a2a.options_of(c)]
            self.assertTrue(owners, f"--{option.name} belongs to no command")


class UsageTest(Folder):
    def test_usage_errors_are_json_where_json_is_wanted(self):
        """CLI-02, CLI-03: the envelope alone on standard output, exit status 2."""
        wrong = (
            ("sned", "x"),
            ("task",),
            ("task", "frobnicate"),
            ("send", "--nonsense"),
            ("send", "--timeout", "soon"),
            ("config", "show", "--agent", "echo"),
            ("completion", "tcsh"),
            ("help", "nothing"),
        )
        for arguments in wrong:
            for form in (("-o", "json"), ("-ojson",), ("--output=json",)):
                with self.subTest(arguments=arguments):
                    done = self.cli(*form, *arguments)
                    error = envelope(done)
                    self.assertEqual((2, ""), (done.returncode, done.stderr))
                    self.assertEqual("A2ACLI_ERR_USAGE", error["code"])
                    self.assertIsNone(error["a2aCode"])
            done = self.cli(*arguments, env={"A2ACLI_OUTPUT": "json"})
            self.assertEqual("A2ACLI_ERR_USAGE", envelope(done)["code"])

    def test_usage_errors_as_text_go_to_standard_error(self):
        done = self.cli("send", "--nonsense")
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertIn("Error: unknown option --nonsense\nCode: A2ACLI_ERR_USAGE\n", done.stderr)

    def test_a_word_that_nothing_can_be_made_of_is_not_passed_over(self):
        for command in (
            "serve",
            "demo-server",
            "demo",
            "config show",
            "status",
            "card get",
            "task list",
        ):
            agent = ["http://127.0.0.1:1"] if command in ("card get", "task list") else []
            with self.subTest(command=command):
                done = self.cli(*command.split(), *agent, "surplus")
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn("Error: nothing can be made of 'surplus'\n", done.stderr)
                self.assertIn(f"Hint: usage: {command}", done.stderr)

    def test_what_every_command_takes_is_taken_and_said_to_change_nothing(self):
        """A2ACLI 7.2: global options; of those a command has no use for it says so."""
        agent = Scripted(lambda *_: task("COMPLETED"))
        self.addCleanup(agent.__exit__)
        flags = "--async --wait --stream --task-id t --context-id c --metadata {} --poll-interval 1"
        done = self.cli("card", "get", agent.url, *flags.split())
        self.assertEqual(0, done.returncode)
        lines = [f"Warning: --{name} changes nothing for card get" for name in a2a.GLOBALS]
        self.assertEqual(sorted(lines), sorted(done.stderr.strip().split("\n")))
        done = self.cli("task", "get", agent.url, "t-1", "--stream", "-o", "json")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(1, done.stdout.count("\n"))  # appendix B: one line
        done = self.cli("task", "get", agent.url, "t-1", env={"A2ACLI_ASYNC": "1"})
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        done = self.cli("status", "--verbose")
        self.assertEqual(
            (0, "Warning: --verbose changes nothing for status\n"), (done.returncode, done.stderr)
        )
        for words in ("status --wait", "card get x --history 1", "reply t x --task-id t"):
            done = self.cli(*words.split())
            self.assertEqual(2, done.returncode, words)
            self.assertIn("Hint: of ", done.stderr)

    def test_a_transport_that_nobody_has_is_a_usage_error_before_any_network(self):
        agent = Scripted(lambda *_: {})
        self.addCleanup(agent.__exit__)
        for arguments, env, where in (
            (("--transport", "foo"), {}, "--transport"),
            ((), {"A2ACLI_TRANSPORT": "rest,foo"}, "A2ACLI_TRANSPORT of the environment"),
        ):
            for command in ("send URL x", "card get URL", "task get URL t"):
                words = command.replace("URL", agent.url).split()
                done = self.cli(*words, *arguments, env=env)
                self.assertEqual((2, ""), (done.returncode, done.stdout), command)
                self.assertIn(f"Error: {where}: No transport 'foo'\n", done.stderr)
                self.assertIn("Hint: There are JSONRPC, HTTP+JSON, GRPC\n", done.stderr)
        self.assertEqual([], agent.requests)

    def test_a_card_that_nothing_here_can_call_is_shown_with_a_warning(self):
        agent = Scripted(lambda *_: {})
        self.addCleanup(agent.__exit__)
        agent.card["supportedInterfaces"][0]["protocolVersion"] = "2.0"
        done = self.cli("card", "get", agent.url)
        self.assertEqual(0, done.returncode)
        self.assertIn("\nInterface: JSONRPC 2.0 at ", done.stdout)
        self.assertIn("Warning: The card offers JSONRPC 2.0; spoken here: JSONRPC, ", done.stderr)
        self.assertEqual(1, self.cli("send", agent.url, "x").returncode)

    def test_an_interface_without_an_address_is_not_valid(self):
        agent = Scripted(
            lambda *_: {}, skills=[{"id": "s", "name": "s", "description": "s", "tags": ["s"]}]
        )
        self.addCleanup(agent.__exit__)
        self.assertEqual(0, self.cli("card", "get", agent.url, "--validate").returncode)
        agent.card["supportedInterfaces"].append(
            {**agent.card["supportedInterfaces"][0], "url": ""}
        )
        done = self.cli("card", "get", agent.url, "--validate")
        self.assertEqual(1, done.returncode)
        self.assertIn("\n    supportedInterfaces[1].url: is empty\n", done.stderr)

    def test_a_folder_that_cannot_be_made_is_a_usage_error(self):
        agent = Scripted(lambda *_: task("COMPLETED", artifacts=[{"parts": [{"text": "x"}]}]))
        self.addCleanup(agent.__exit__)
        agent.card["name"] = "x"
        self.write(self.work / "file", "")
        done = self.cli("task", "download", agent.url, "t-1", "--to", "file/below")
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("Error: cannot make file/below: ", done.stderr)

    def test_bytes_that_are_no_utf_8_break_nothing(self):
        agent = Scripted(lambda *_: a2a.TaskNotFoundError())
        self.addCleanup(agent.__exit__)
        for words in (
            ("task", "get", agent.url, "\udcff"),
            ("send", agent.url, "x", "--task-id", "\udcff", "--bearer", "\udcff\udcfe"),
        ):
            done = self.cli(*words)
            self.assertEqual(1, done.returncode, done.stderr)
            self.assertIn("Code: TaskNotFoundError", done.stderr)
        done = self.cli("card", "get", "http://127.0.0.1:1/\udcff")
        self.assertEqual(3, done.returncode, done.stderr)

    def test_no_limit_on_connecting_is_none(self):
        agent = Scripted(lambda *_: task("COMPLETED"))
        self.addCleanup(agent.__exit__)
        done = self.cli("task", "get", agent.url, "t-1", "--connect-timeout", "0")
        self.assertEqual(0, done.returncode, done.stderr)

    @unittest.skipIf(os.name == "nt", "a working folder cannot be removed there")
    def test_a_working_folder_that_was_removed_is_told(self):
        program = (
            "import os, sys, tempfile; gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone); "
            f"sys.path.insert(0, {str(support.ROOT)!r}); import a2a; sys.exit(a2a.main())"
        )
        for words, status in (("status", 2), ("card get http://127.0.0.1:1", 3)):
            done = subprocess.run(
                [sys.executable, "-c", program, *words.split()],
                capture_output=True,
                env=support.clean_environment(),
                timeout=30,
            )
            self.assertEqual(status, done.returncode, done.stderr)
            self.assertEqual(status == 2, b"The working folder was removed" in done.stderr)

    def test_a_folder_that_is_a_file_is_a_usage_error(self):
        path = self.write(self.work / "file", "")
        for command in ("serve", "status", "stop", "inbox", "wait", "watch", "reply t x"):
            done = self.cli(*command.split(), "--dir", path)
            self.assertEqual(2, done.returncode, command)
            self.assertIn(f"Error: {path} is no folder\n", done.stderr)

    def test_one_task_is_named_and_once(self):
        for words, said in (
            ("get URL", "no task is named"),
            ("get URL a b", "one task id is needed, not 2"),
            ("get URL a --task-id b", "one task id is needed, not 2"),
            ("cancel URL --task-id", "--task-id needs a value: ID"),
        ):
            done = self.cli("task", *words.replace("URL", "http://127.0.0.1:1").split())
            self.assertEqual(2, done.returncode, words)
            self.assertIn(f"Error: {said}\n", done.stderr)
        done = self.cli("task", "get", "http://127.0.0.1:1", "")
        self.assertIn("Error: no task is named\n", done.stderr)
        env = {"A2ACLI_TASK_ID": "b"}  # a setting that the word is stronger than
        self.assertEqual(3, self.cli("task", "get", "http://127.0.0.1:1", "a", env=env).returncode)

    def test_what_cannot_be_called_is_told_by_its_option(self):
        agent = Scripted(lambda *_: {}, capabilities={})
        self.addCleanup(agent.__exit__)
        for flags, status, said in (
            (("--endpoint", "nowhere"), 2, "Error: No endpoint for JSONRPC: "),
            (("--endpoint", "ftp://x"), 2, "Error: No endpoint for JSONRPC: "),
            (("--endpoint", "http://127.0.0.1:1"), 3, "Error: No connection to 127.0.0.1:1 "),
            (("--proxy", "http://127.0.0.1:1"), 3, "Error: The proxy cannot be reached. No conn"),
            (("--svc-param", "A2A-version: 9"), 2, "Error: The header A2A-version has an option"),
        ):
            done = self.cli("send", agent.url, "x", *flags)
            self.assertEqual(status, done.returncode, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("names that address", done.stderr)  # it was not the card

    def test_an_agent_that_has_no_time_is_asked_again_when_it_says(self):
        fault = {"code": -32051, "message": "Too much"}
        with support.Peer(lambda visit: None) as peer:

            def talk(visit):
                while (request := visit.read()) is not None:
                    if request[0] == "GET":
                        visit.answer(agent.card)
                    else:
                        body = {"jsonrpc": "2.0", "id": json.loads(request[3])["id"]}
                        visit.answer({**body, "error": fault}, 429, **{"Retry-After": "7"})

            agent = Scripted(lambda *_: {}, capabilities={})
            self.addCleanup(agent.__exit__)
            agent.card["supportedInterfaces"][0]["url"] = peer.url
            peer.script = talk
            done = self.cli("send", agent.url, "x")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn(
            "Error: Too much\nCode: RateLimitedError\nHint: try again in 7 s\n", done.stderr
        )

    def test_a_page_token_is_no_secret(self):
        agent = Scripted(lambda *_: a2a.InvalidParamsError("pageToken: is none of ours"))
        self.addCleanup(agent.__exit__)
        done = self.cli("task", "list", agent.url, "--page-token", "x")
        self.assertIn("Error: pageToken: is none of ours\n", done.stderr)
        agent.answer = lambda *_: a2a.InvalidParamsError("access_token: abcdefgh77")
        self.assertNotIn("abcdefgh77", self.cli("task", "list", agent.url).stderr)

    def test_hints_name_what_was_meant(self):
        self.assertIn("did you mean send?", self.cli("sned").stderr)
        self.assertIn("did you mean task?", self.cli("tsak").stderr)
        self.assertIn("Error: task what? task get, task list", self.cli("task").stderr)
        done = self.cli("task", "foo")
        self.assertIn("Error: unknown command 'task foo'\n", done.stderr)
        self.assertIn("Hint: there are task get, task list", done.stderr)
        self.assertIn("task get", self.cli("task").stderr)
        self.assertIn("of serve", self.cli("config", "show", "--keep-tasks", "1").stderr)


class AgentTest(Folder):
    """Which agent a command is for, and what may be sent to it."""

    def setUp(self):
        super().setUp()
        self.agent = self.scripted()

    def scripted(self, **card):
        card = {"capabilities": {}, **card}
        server = Scripted(lambda *_: {"task": task("COMPLETED")}, **card)
        self.addCleanup(server.__exit__)
        return server

    def texts(self, server):
        """Give the texts that a server was sent, and forget them."""
        texts = [a2a.text_of(params["message"]) for params in server.sent("SendMessage")]
        server.requests.clear()
        return texts

    def test_the_first_word_names_the_agent(self):
        for arguments in (
            ("send", self.agent.url, "hi"),
            ("send", "hi", "-a", self.agent.url),
            ("--agent-card", self.agent.url, "send", "hi"),
            ("send", self.agent.url, "--text", "hi"),
            ("send", self.agent.url[7:], "hi"),
        ):
            self.assertEqual(0, self.cli(*arguments).returncode)
            self.assertEqual(["hi"], self.texts(self.agent))

    def test_with_a_set_agent_all_words_belong_to_the_command(self):
        env = {"A2ACLI_AGENT_CARD": self.agent.url}
        self.assertEqual(0, self.cli("send", "hi", env=env).returncode)
        self.assertEqual(0, self.cli("send", "http://example.com/", env=env).returncode)
        self.assertEqual(["hi", "http://example.com/"], self.texts(self.agent))
        done = self.cli("send", "localhost", "hi", env=env)
        self.assertEqual(2, done.returncode)
        self.assertIn("put the text in quotes", done.stderr)

    def test_a_url_with_more_after_it_names_the_agent_all_the_same(self):
        env = {"A2ACLI_AGENT_CARD": "http://127.0.0.1:1"}
        for arguments in (
            ("send", self.agent.url, "hi"),
            ("send", self.agent.url, "--text", "hi"),
        ):
            self.assertEqual(0, self.cli(*arguments, env=env).returncode)
            self.assertEqual(["hi"], self.texts(self.agent))
        self.assertEqual(0, self.cli("card", "get", self.agent.url, env=env).returncode)
        done = self.cli("send", self.agent.url, "hi", "-a", "http://127.0.0.1:1", "-o", "json")
        self.assertEqual(2, done.returncode)
        self.assertIn("two agents", envelope(done)["message"])

    def test_no_agent_is_a_usage_error(self):
        done = self.cli("send", "-o", "json")
        self.assertEqual((2, "no agent is named"), (done.returncode, envelope(done)["message"]))

    def test_aliases_stand_for_agents_and_their_settings(self):
        bearer = {"b": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}
        guarded = self.scripted(
            securitySchemes=bearer, securityRequirements=[{"schemes": {"b": {"list": []}}}]
        )
        aliases = {"one": self.agent.url, "two": {"url": guarded.url, "bearer": "alias-token"}}
        path = self.write(self.config / "agents.json", json.dumps({"agents": aliases}))
        self.assertEqual(0, self.cli("send", "one", "hi").returncode)
        self.assertEqual(["hi"], self.texts(self.agent))
        env = {"A2ACLI_BEARER": "env-token"}
        done = self.cli("send", "two", "hi", env=env)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        headers = [h for h, method, _ in guarded.requests if method == "SendMessage"]
        self.assertIn("Bearer alias-token", str(headers))
        other = path.rename(self.home / "other.json")
        self.assertEqual(0, self.cli("send", "-a", "one", "hi", "--agents", other).returncode)
        self.assertNotEqual(0, self.cli("send", "one", "hi").returncode)
        for text in (
            "[]", "{", '{"x": {"url": "h", "nonsense": 1}}', '{"x": 5}', '{"x": {}}',
            '{"x": {"url": 7}}',
        ):  # fmt: skip
            other.write_text(text, encoding="utf-8")
            self.assertEqual(2, self.cli("send", "x", "hi", "--agents", other).returncode)

    def test_a_found_file_cannot_draw_our_credentials_to_its_agent(self):
        """AUTH-25: a .env file in the working folder names an agent of its own."""
        self.write(self.work / ".env", f"A2ACLI_AGENT_CARD={self.agent.url}")
        self.assertEqual(0, self.cli("send", "hi").returncode)
        self.write(self.config / ".env", "A2ACLI_BEARER=global-token")
        for env in ({}, {"A2A_TOKEN": "env-token"}):
            done = self.cli("send", "hi", "-o", "json", env=env)
            self.assertEqual(
                (4, "A2ACLI_ERR_AUTH_FAILED"), (done.returncode, envelope(done)["code"])
            )
            self.assertIn("-a " + self.agent.url, envelope(done)["hint"])
        self.assertEqual(1, len(self.texts(self.agent)))
        self.assertEqual(0, self.cli("send", "hi", "-a", self.agent.url).returncode)
        self.assertEqual(0, self.cli("send", "hi", "--bearer", "own").returncode)
        self.assertEqual(0, self.cli("send", "hi", "--config", self.work / ".env").returncode)

    def test_a_found_file_cannot_lend_its_credential_to_another_agent(self):
        """AUTH-25: what is sent with a stranger's credential can be read by the stranger."""
        other = self.scripted()
        named = f"A2ACLI_AGENT_CARD={self.agent.url}\nA2ACLI_BEARER=theirs-77"
        self.write(self.work / ".env", named)
        self.assertEqual(0, self.cli("send", "hi").returncode)
        self.assertEqual(0, self.cli("send", self.agent.url + "/", "hi").returncode)
        done = self.cli("send", other.url, "hi")
        self.assertEqual(4, done.returncode)
        self.assertNotIn("theirs-77", done.stderr)
        self.assertEqual([], other.requests)

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "needs another user's file")
    def test_a_found_file_of_another_user_is_ignored(self):
        path = self.write(self.work / ".env", "A2ACLI_TIMEOUT=9s")
        os.chown(path, 12345, 12345)
        done = self.cli("config", "show")
        self.assertIn("belongs to another user", done.stderr)
        self.assertIn("timeout: not set", done.stdout)

    def test_the_command_to_go_on_needs_no_credential(self):
        flags = ("--bearer", "secret-77", "--transport", "JSONRPC", "--svc-param", "X-K:secret-77")
        text = self.cli("send", self.agent.url, "hi", *flags).stdout
        following = next(line for line in text.split("\n") if line.startswith("Next: "))
        self.assertIn(f"send {self.agent.url} --context-id c-1 --transport JSONRPC", following)
        self.assertNotIn("secret-77", text)

    def test_identifiers_of_a_remote_are_quoted_for_the_shell(self):
        hostile = "$(touch x)'; rm -rf `pwd`"
        server = Scripted(lambda *_: {"task": task("INPUT_REQUIRED", hostile)}, capabilities={})
        self.addCleanup(server.__exit__)
        text = self.cli("send", server.url, "hi").stdout
        following = next(line[6:] for line in text.split("\n") if line.startswith("Next: "))
        self.assertEqual(hostile, shlex.split(following)[-2])


class InputTest(Folder):
    """What parts are made of."""

    def parts(self, *arguments, **options):
        server = Scripted(lambda *_: {"task": task("COMPLETED")}, capabilities={})
        self.addCleanup(server.__exit__)
        done = self.cli("send", server.url, *arguments, **options)
        self.assertEqual(0, done.returncode, done.stderr)
        return server.sent("SendMessage")[0]["message"]["parts"]

    def test_a_dash_reads_standard_input(self):
        self.assertEqual([{"text": "from stdin"}], self.parts("-", stdin="from stdin"))
        self.assertEqual([{"text": "from stdin"}], self.parts("--text", "-", stdin="from stdin"))
        file = {"raw": "eA==", "mediaType": "application/octet-stream"}
        self.assertEqual([file], self.parts("--file", "-", stdin="x"))
        done = self.cli("send", "http://127.0.0.1:1", "--file", "-", "--data", "-")
        self.assertEqual(2, done.returncode)

    def test_text_keeps_every_script_and_survives_bytes_that_are_none(self):
        """JSON-16: non-ASCII out and in."""
        text = "Grüße 東京 😀 שלום"
        self.assertEqual([{"text": text}], self.parts(text))
        if os.name == "posix":
            self.assertEqual([{"text": "a\ufffdb"}], self.parts(os.fsdecode(b"a\xffb")))

    def test_data_is_a_file_or_json(self):
        self.write(self.work / "v.json", "[1]")
        wanted = {"data": [1], "mediaType": "application/json"}
        self.assertEqual([wanted], self.parts("--data", "v.json"))
        self.assertEqual([wanted], self.parts("--data", "[1]"))
        for text, value in (("null", None), ('"x"', "x"), ("7", 7)):
            self.assertEqual([{**wanted, "data": value}], self.parts("--data", text))
        for bad in ("none.json", "{", '{"a":NaN}'):
            done = self.cli("send", "http://127.0.0.1:1", "--data", bad, "-o", "json")
            self.assertEqual((2, "A2ACLI_ERR_USAGE"), (done.returncode, envelope(done)["code"]))

    def test_files_are_bytes_or_addresses(self):
        path = self.write(self.work / "a b.txt", "x")
        wanted = {"raw": "eA==", "filename": "a b.txt", "mediaType": "text/plain"}
        self.assertEqual([wanted], self.parts("--file", "a b.txt"))
        self.assertEqual([wanted], self.parts("--file", path.as_uri()))
        data = {"url": "data:text/plain,hi", "mediaType": "application/octet-stream"}
        self.assertEqual([data], self.parts("--file", "data:text/plain,hi"))
        self.assertEqual(2, self.cli("send", "http://127.0.0.1:1", "--file", "none").returncode)

    def test_parts_from_the_environment(self):
        self.assertEqual([{"text": "env"}], self.parts(env={"A2ACLI_TEXT": "env"}))
        self.assertEqual([{"text": "typed"}], self.parts("typed", env={"A2ACLI_TEXT": "env"}))

    def test_metadata_of_the_request_and_of_the_message(self):
        server = Scripted(lambda *_: {"task": task("COMPLETED")}, capabilities={})
        self.addCleanup(server.__exit__)
        given = (
            "--metadata",
            '{"k":"v"}',
            "--message-metadata",
            '{"m":1}',
            "--accept",
            "text/plain",
        )
        self.cli("send", server.url, "hi", *given, "--history", "2")
        (params,) = server.sent("SendMessage")
        self.assertEqual(
            ({"k": "v"}, {"m": 1}), (params["metadata"], params["message"]["metadata"])
        )
        self.assertEqual(["text/plain"], params["configuration"]["acceptedOutputModes"])
        self.assertEqual(2, params["configuration"]["historyLength"])


class OutputTest(Folder):
    """The streams of the program, against an agent that says what it is told."""

    def agent(self, text):
        done = task("COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": text}]}])
        server = Scripted(lambda *_: {"task": done}, capabilities={})
        self.addCleanup(server.__exit__)
        return server.url

    def test_output_is_utf_8_whatever_the_console_says(self):
        """CLI-01: cp1252 or ASCII on standard output, piped."""
        text = "✓ 東京 😀"
        for encoding in ("cp1252", "ascii", "utf-16"):
            for form in ("text", "json"):
                env = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
                done = support.run_cli("send", self.agent(text), "x", "-o", form, env=env)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertIn(text, done.stdout)

    def test_a_lone_surrogate_does_not_stop_the_output(self):
        """JSON-15: escaped, in text and in JSON."""
        for form in ("text", "json"):
            done = self.cli("send", self.agent("\ud83d end"), "x", "-o", form)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertIn("\\ud83d end", done.stdout)

    @unittest.skipIf(os.name == "nt", "no pipes of this kind")
    def test_a_reader_that_leaves_is_no_error(self):
        """CLI-04: broken pipe quiet, as under `| head -1`."""
        url = self.agent("x\n" * 500_000)
        for form in ("text", "json"):
            command = [sys.executable, support.A2A, "send", url, "x", "-o", form]
            child = subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=support.clean_environment(),
            )
            child.stdout.readline()
            child.stdout.close()
            self.assertEqual(b"", child.stderr.read())
            child.stderr.close()
            self.assertIn(child.wait(30), (0, 141))  # 0: the pipe took it all before it broke

    @unittest.skipIf(os.name == "nt", "no pipes of this kind")
    def test_an_error_that_no_reader_takes_is_said_on_standard_error(self):
        command = [sys.executable, str(support.A2A), "help", "nothing", "-o", "json"]
        reader, writer = os.pipe()
        os.close(reader)
        env = support.clean_environment()
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=env, timeout=30)
        os.close(writer)
        self.assertEqual(2, done.returncode)
        self.assertIn(b"Error: no command 'nothing'\nCode: A2ACLI_ERR_USAGE\n", done.stderr)

    def test_a_process_ends_with_all_of_its_output(self):
        for words, status in ((["help"], 0), (["help", "nothing"], 2)):
            command = [sys.executable, str(support.A2A), *words]
            env = support.clean_environment()
            done = subprocess.run(command, capture_output=True, env=env, timeout=30)
            self.assertEqual(status, done.returncode)
            whole = done.stdout.split() if status == 0 else done.stderr.split()
            self.assertIn(whole[-1], (b"out.", b"A2ACLI_ERR_USAGE"))

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs a device that is full")
    def test_output_that_cannot_be_written_is_said_plainly(self):
        lost = (1, "Error: the output cannot be written: ")
        for form, words, (status, said) in (
            ("text", ["config", "show"], lost),
            ("json", ["config", "show"], lost),
            ("json", ["help", "nothing"], (2, "Error: no command 'nothing'\n")),
        ):
            command = [sys.executable, str(support.A2A), *words, "-o", form]
            with self.subTest(form=form, words=words), open("/dev/full", "wb") as full:
                done = subprocess.run(
                    command,
                    stdout=full,
                    stderr=subprocess.PIPE,
                    env=support.clean_environment(),
                    timeout=30,
                )
                error = done.stderr.decode()
                self.assertEqual(status, done.returncode, error)
                self.assertTrue(error.startswith(said), error)
                self.assertNotIn("Traceback", error)
                self.assertNotIn("Exception ignored", error)

    @unittest.skipIf(os.name == "nt", "closes descriptors in a POSIX shell")
    def test_closed_standard_streams_are_no_failure(self):
        def run(command, closed, env):
            line = f'"$0" "$1" {command} {closed}'
            words = ["/bin/sh", "-c", line, sys.executable, str(support.A2A)]
            return subprocess.run(words, capture_output=True, env=env, timeout=30)

        env = support.clean_environment()
        for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-", "2</dev/null"):
            with self.subTest(closed=closed):
                done = run("config show", closed, env)
                self.assertEqual((0, b""), (done.returncode, done.stderr))
                done = run("send http://127.0.0.1:1 -", closed, env)
                self.assertEqual((3, b""), (done.returncode, done.stdout))
                done = run("send http://127.0.0.1:1 x -o json", closed, env)
                self.assertEqual(3, done.returncode)
                told = done.stdout + done.stderr
                self.assertEqual(closed.count("&-") < 3, b"No connection" in told, told)

    def test_a_failed_task_is_shown_as_failed_with_all_it_has(self):
        """TASK-18: REJECTED plus a data artifact is no success."""
        status = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "no"}]}}
        parts = [{"data": {"reason": 7}}]
        rejected = task("REJECTED", artifacts=[{"artifactId": "a", "parts": parts}])
        rejected["status"].update(status)
        server = Scripted(lambda *_: {"task": rejected}, capabilities={})
        self.addCleanup(server.__exit__)
        done = self.cli("send", server.url, "x")
        self.assertEqual(0, done.returncode)
        for wanted in ("State: TASK_STATE_REJECTED\n", "Text:\nno\n\n", '"reason": 7'):
            self.assertIn(wanted, done.stdout)
        self.assertIn("Warning: the task ended as TASK_STATE_REJECTED", done.stderr)

    def test_an_unforeseen_failure_shows_no_traceback(self):
        program = (
            "import sys, a2a; a2a.Client = None\n"
            "sys.exit(a2a.main(['send', 'http://127.0.0.1:1', 'x', *sys.argv[1:]]))"
        )
        for more in ((), ("-o", "json"), ("--debug",)):
            done = subprocess.run(
                [sys.executable, "-c", program, *more],
                capture_output=True,
                encoding="utf-8",
                env=support.clean_environment(PYTHONPATH=str(support.ROOT)),
                timeout=30,
            )
            self.assertEqual(1, done.returncode)
            self.assertIn("A2ACLI_ERR_INTERNAL", done.stdout + done.stderr)
            self.assertEqual("--debug" in more, "Traceback" in done.stderr)


class ServeTest(Folder):
    def test_what_a_server_may_be_told_serve_may_be_told(self):
        """And by one default, which help shows."""
        made, names = a2a.ServerOptions(), a2a.server_options()
        self.assertEqual({"folder", "ready"}, set(made._fields) - set(names))
        server = {name for name, option in a2a.CLI_OPTIONS.items() if option.group == "Server"}
        self.assertEqual({"api-key-file"}, server - set(names.values()))
        settings = a2a.Settings("A2A_SERVE_", (), [])
        for name, option in names.items():
            with self.subTest(option=option):
                value, default = settings[option], getattr(made, name)
                default = list(default) if isinstance(default, tuple) else default
                self.assertIn(value, (default, None) if default in (None, "", []) else (default,))

    """serve and demo, as processes."""

    def served(self, *arguments, **options):
        """Serve; the echo unless another agent is named."""
        agent = support.Served("--agent", "echo", *arguments, **options)
        self.addCleanup(agent.__exit__)
        return agent

    def test_serve_says_that_it_is_ready_in_one_line(self):
        agent = self.served("--agent", "echo")
        self.assertEqual({"type", "url", "port", "pid", "startedAt"}, set(agent.ready))
        self.assertEqual("ready", agent.ready["type"])
        self.assertEqual(agent.popen.pid, agent.ready["pid"])
        self.assertIn("State: TASK_STATE_COMPLETED", self.cli("send", agent.url, "hi").stdout)
        command = [sys.executable, support.A2A, "serve", "--agent", "echo", "--port", "0"]
        with support.Process(command) as child:
            self.assertRegex(child.wait_for("Ready"), r"^Ready: http://127\.0\.0\.1:\d+ ")

    @unittest.skipIf(os.name == "nt", "no signals")
    def test_signals_end_it_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            agent = self.served()
            agent.popen.send_signal(number)
            self.assertEqual(0, agent.wait())
            self.assertEqual("", agent.stderr)

    def test_options_reach_the_card(self):
        path = self.write(self.work / "card.json", '{"version": "7.7"}')
        agent = self.served(
            "--name", "Rex", "--description", "A dog", "--skill", "fetch=Brings things", "--skill",
            "sit", "--card", path, "--transports", "rest", "--public-url", "http://dog.example/a",
        )  # fmt: skip
        self.assertEqual("http://dog.example/a", agent.ready["url"])
        reference = f"http://127.0.0.1:{agent.ready['port']}"
        card = json.loads(self.cli("card", "get", reference, "-o", "json").stdout)
        self.assertEqual(
            ("Rex", "A dog", "7.7"), (card["name"], card["description"], card["version"])
        )
        self.assertEqual(["fetch", "sit"], [skill["id"] for skill in card["skills"]])
        self.assertEqual(
            [("HTTP+JSON", "http://dog.example/a")],
            [(row["protocolBinding"], row["url"]) for row in card["supportedInterfaces"]],
        )

    def test_an_agent_of_a_file_imports_this_very_module(self):
        program = (
            "import a2a, sys\ndef answer(turn):\n    return str(a2a is sys.modules['__main__'])\n"
        )
        path = self.write(self.work / "agent.py", program)
        agent = self.served("--agent", f"{path}:answer")
        self.assertIn("Text:\nTrue\n", self.cli("send", agent.url, "hi").stdout)

    def test_client_variables_do_not_change_a_server(self):
        env = {"A2ACLI_OUTPUT": "text", "A2ACLI_NAME": "wrong", "A2A_SERVE_NAME": "right"}
        agent = self.served(env=env)
        card = self.cli("card", "get", agent.url).stdout
        self.assertIn("Name: right\n", card)
        given = self.write(self.work / "serve.env", "A2A_SERVE_NAME=filed\nA2ACLI_NAME=wrong")
        agent = self.served("--config", given)
        self.assertIn("Name: filed\n", self.cli("card", "get", agent.url).stdout)

    def test_behind_a_public_url_the_port_is_said_as_well(self):
        words = [sys.executable, support.A2A, "serve", "--agent", "echo", "--port", "0"]
        with support.Process([*words, "--public-url", "https://agent.example/a"]) as child:
            ready = child.wait_for("Ready")
            self.assertRegex(ready, r"^Ready: https://agent\.example/a, on port \d+ \(process ")

    @unittest.skipIf(os.name == "nt", "SIGTERM is no question there")
    def test_an_agent_that_resists_everything_does_not_keep_the_process(self):
        """Even the interpreter's end must not try to destroy it."""
        source = """
        import asyncio

        async def agent(turn):
            turn.status("at work")
            while True:
                try:
                    await asyncio.sleep(60)
                except BaseException:
                    pass
        """
        path = self.write(self.work / "agent.py", textwrap.dedent(source))
        with support.Served("--agent", f"{path}:agent") as served:
            self.assertEqual(0, self.cli("send", served.url, "x", "--async").returncode)
            served.terminate()
            self.assertEqual(0, served.wait())
        self.assertRegex(served.stderr, "^Agents that did not end although they were told to: 1$")

    def test_what_cannot_be_served_is_said(self):
        agent = self.served()
        for arguments in (
            ("--port", agent.ready["port"]),
            ("--host", "0.0.0.0", "--port", "0"),
            ("--agent", "nonsense", "--port", "0"),
            ("--transports", "morse", "--port", "0"),
            ("--card", "none.json", "--port", "0"),
            ("--public-url", "morse", "--port", "0"),
            ("--skill", "", "--port", "0"),
            ("--skill", "=what it does", "--port", "0"),
            ("--transports", "rest,http+json", "--port", "0"),
            ("--allow-host", "http://inside.example/", "--port", "0"),
        ):
            with self.subTest(arguments=arguments):
                done = self.cli("serve", *arguments, "-o", "json")
                self.assertEqual((2, "A2ACLI_ERR_USAGE"), (done.returncode, envelope(done)["code"]))


class DemoServerTest(Folder):
    """What the commands show of an agent that can do everything."""

    @classmethod
    def setUpClass(cls):
        cls.server = a2a.Server(a2a.demo_agent, port=0, name="Demo").start()
        cls.addClassCleanup(cls.server.stop)

    def text(self, *arguments, **options):
        """Give the fields that a command wrote, blocks among them: [(label, content)]."""
        command, *rest = arguments
        done = self.cli(*command.split(), self.server.url, *rest, **options)
        self.assertEqual(0, done.returncode, done.stderr)
        return fields(done.stdout)

    def json(self, *arguments):
        command, *rest = arguments
        done = self.cli(*command.split(), self.server.url, *rest, "-o", "json")
        return json.loads(done.stdout)

    def labels(self, *arguments):
        return [label for label, _ in self.text(*arguments)]

    def value(self, label, found):
        return next(value for name, value in found if name == label)

    def test_every_command_of_the_demo_agent(self):
        ended = {
            "help": "COMPLETED", "echo hi": "COMPLETED", "hi": "COMPLETED", "parts": "COMPLETED",
            "back": "COMPLETED", "chunks 2": "COMPLETED", "artifacts 2": "COMPLETED",
            "status so": "COMPLETED", "work 1": "COMPLETED", "sleep 1": "COMPLETED",
            "ask who": "INPUT_REQUIRED", "auth 1": "AUTH_REQUIRED", "fail so": "FAILED",
            "reject so": "REJECTED", "error nonsense": "COMPLETED",
        }  # fmt: skip
        for text, state in ended.items():
            with self.subTest(text=text):
                self.assertEqual(
                    "TASK_STATE_" + state, self.value("State", self.text("send", text))
                )
        self.assertEqual(set(a2a.DEMO_ACTIONS), set(re.findall(r"(?m)^  (\w+) ", a2a.DEMO_HELP)))
        named = {text.split()[0] for text in ended} | {"message", "error"}
        self.assertEqual(set(), set(a2a.DEMO_ACTIONS) - named)
        self.assertEqual("so", self.value("Text", self.text("send", "fail so")))
        self.assertEqual("hello", self.value("Text", self.text("send", "message")))
        for fault in a2a.FAULTS_BY_REASON.values():
            for more in ((), ("--stream",)):
                name = fault.__name__.replace("Error", "")
                done = self.cli("send", self.server.url, f"error {name}", *more, "-o", "json")
                self.assertEqual(fault.__name__, envelope(done)["code"])

    def test_a_question_is_answered(self):
        asked = self.text("send", "ask Who?")
        self.assertEqual(
            ["Task", "Context", "State", "Status message", "Text", "Next"], [n for n, _ in asked]
        )
        task_id = self.value("Task", asked)
        found = self.text("send", "Ada", "--task-id", task_id)
        self.assertEqual("You answered: Ada", self.value("Text", found))
        history = self.text("task get", task_id, "--history", "9")
        said = [text for label, text in history if label in ("Text", "Role")]
        self.assertIn("Ada", said)
        self.assertIn("ROLE_AGENT", said)

    def test_an_authorization_comes_by_itself(self):
        found = self.text("send", "auth 1")
        task_id = self.value("Task", found)
        self.assertTrue(self.value("Next", found).startswith(os.path.basename(sys.executable)))
        for _ in range(100):
            task = self.json("task get", task_id)
            if task["status"]["state"] == a2a.COMPLETED:
                break
            time.sleep(0.1)
        self.assertEqual("done", a2a.text_of(task))

    def test_events_are_shown_as_they_come(self):
        found = self.text("send", "chunks 2", "--stream")
        self.assertEqual("chunk 1\nchunk 2", self.value("Text", found))
        self.assertEqual("TASK_STATE_COMPLETED", found[-2][1])
        self.assertEqual(["Task", "Context", "State", "Next"], [label for label, _ in found[-4:]])
        self.assertEqual("hello", self.value("Text", self.text("send", "message", "--stream")))
        started = self.text("send", "work 2", "--async")
        self.assertIn(" task get ", self.value("Next", started))
        task_id = self.value("Task", started)
        followed = self.text("task subscribe", task_id, "--stream")
        self.assertIn(("Text", "second 2"), followed)
        again = self.text("task subscribe", task_id)
        self.assertEqual("TASK_STATE_COMPLETED", self.value("State", again))

    def test_tasks_are_fetched_listed_and_cancelled(self):
        started = self.json("send", "work 30", "--async")["task"]
        self.assertIn(started["id"], str(self.json("task list", "--status", "working")))
        context = ("--context-id", started["contextId"])
        listed = self.text("task list", *context)
        self.assertEqual(("Total", "1"), listed[-1])
        self.assertEqual(started["id"], self.value("Task", listed))
        found = self.text("task cancel", started["id"])
        self.assertEqual("TASK_STATE_CANCELED", self.value("State", found))
        self.text("send", "echo x", *context)
        paged = self.text("task list", *context, "--page-size", "1", "--artifacts")
        self.assertEqual(["Total", "Next page"], [label for label, _ in paged[-2:]])
        lines = self.cli("task", "list", self.server.url, *context, "-o", "json", "--stream")
        self.assertEqual(2, len(lines.stdout.splitlines()))
        done = self.cli("task", "get", self.server.url, "-o", "json")
        self.assertEqual("no task is named", envelope(done)["message"])
        done = self.cli("task", "get", self.server.url, "", "-o", "json")
        self.assertEqual("no task is named", envelope(done)["message"])
        done = self.cli("task", "get", self.server.url, "a", "b", "-o", "json")
        self.assertIn("not 2", envelope(done)["message"])

    def test_verbose_shows_what_was_sent_and_when(self):
        found = self.labels("send", "echo x", "--verbose")
        for label in ("Agent", "Sent message", "Role", "Updated", "History message"):
            self.assertIn(label, found)

    def test_main_may_be_called_in_any_thread(self):
        found = []
        thread = threading.Thread(
            target=lambda: found.append(a2a.main(["send", self.server.url, "hi", "-o", "json"]))
        )
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            thread.start()
            thread.join()
        self.assertEqual([0], found)
        self.assertEqual("hi", a2a.text_of(json.loads(stdout.getvalue())))

    def test_a_wait_that_is_too_long(self):
        done = self.cli("send", self.server.url, "work 20", "--timeout", "500ms")
        self.assertEqual(5, done.returncode)
        self.assertRegex(done.stderr, r"Hint: the task goes on; follow it .* task get .* --wait")
        done = self.cli("task", "get", self.server.url, "none", "-o", "json")
        self.assertIn("--debug", envelope(done)["hint"])
        both = self.cli("send", self.server.url, "x", "--wait", "--async")
        self.assertEqual(2, both.returncode)

    def test_a_card_is_shown_whole(self):
        card = self.json("card get")
        provider = {"organization": "Dogs", "url": "https://dog.example"}
        card.update(provider=provider, documentationUrl="https://dog.example/doc")
        card["capabilities"]["extensions"] = [{"uri": "https://x.example/e", "required": True}]
        card["securitySchemes"] = {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}
        }
        card["securityRequirements"] = [{"schemes": {"key": {"list": []}}}]
        card["skills"][0].update(examples=["sit"], description="Does\n\nmuch")
        card["supportedInterfaces"][0]["tenant"] = "acme"
        path = self.write(self.work / "card.json", json.dumps(card))
        done = self.cli("card", "get", path, "--verbose", "--validate")
        for line in (
            "Provider: Dogs https://dog.example", "Documentation: https://dog.example/doc",
            "Extension: https://x.example/e (required)", "Security scheme: key: an API key (header",
            "Security requirement: key", "Skill example: sit", "Skill description:\nDoes\n \nm",
            f"Card: {path}", "Valid: yes", "Signatures: absent", ", tenant acme",
        ):  # fmt: skip
            self.assertIn(line, done.stdout)

    def test_a_card_that_breaks_the_schema(self):
        """CARD-15: --validate reports each violation; without it the card is still refused."""
        for text, words in (
            ("{}", ("name", "version", "skills", "supportedInterfaces")),
            ("[]", ("must be an object",)),
            ('{"name": "x", "url": "https://h.example", "protocolVersion": "0.3.0"}', ("skills",)),
        ):
            path = self.write(self.work / "card.json", text)
            done = self.cli("card", "get", path, "--validate", "-o", "json")
            self.assertEqual("A2ACLI_ERR_CARD_INVALID", envelope(done)["code"])
            for word in words:
                self.assertIn(word, envelope(done)["message"])
            self.assertEqual(1, self.cli("send", path, "x").returncode)

    def test_artifacts_are_saved(self):
        sent = self.json("send", "parts")["task"]
        folder = self.work / "saved"
        found = self.text("task download", sent["id"], "--to", folder)
        self.assertEqual(4, [label for label, _ in found].count("Saved"))
        self.assertIn(("Saved", "not fetched: https://example.com/report.pdf"), found)
        names = sorted(path.name for path in folder.iterdir())
        self.assertEqual(["answer.json", "answer.txt", "dot.png"], names)
        self.assertEqual("Grüße 東京 😀", (folder / "answer.txt").read_text(encoding="utf-8"))
        self.assertEqual(42, json.loads((folder / "answer.json").read_bytes())["answer"])
        self.json("task download", sent["id"], "--to", folder)
        self.assertTrue((folder / "dot-2.png").exists())
        done = self.cli("task", "download", self.server.url, sent["id"], "--to", sys.executable)
        self.assertNotEqual(0, done.returncode)

    def test_saved_names_are_plain_names(self):
        hostile = {
            "../../etc/passwd": "passwd", "..\\..\\x.exe": "x.exe", "/": "_", "": "_", "..": "_",
            ".bashrc": "bashrc", "a\0b\nc": "a_b_c", "CON": "_CON", "con.txt": "_con.txt",
            "com1 .x": "_com1 .x", "a:b": "a_b", "\u202egpj.exe": "_gpj.exe", "Ü 東.m": "Ü 東.m",
        }  # fmt: skip
        for name, wanted in hostile.items():
            self.assertEqual(wanted, a2a.safe_name(name), repr(name))
        for name in ("x" * 300 + ".txt", "東" * 300, "a." + "b" * 300):
            self.assertLessEqual(len(a2a.safe_name(name).encode()), 220)

    def test_an_interrupted_wait_says_how_to_go_on(self):
        """CLI-04: the id is printed before waiting and again with the command to go on."""
        for stop, status in ((KeyboardInterrupt, 130), (a2a.Terminated, 143)):

            def wait(client, task_id, on_event=None, stop=stop):
                on_event({"task": task("WORKING")})
                raise stop

            with unittest.mock.patch.object(a2a.Client, "wait", wait):
                done = self.cli("task", "get", self.server.url, "t-1", "--wait")
            self.assertEqual(status, done.returncode)
            self.assertEqual("Task: t-1\nContext: c-1\n", done.stdout)
            self.assertRegex(done.stderr, r"^Interrupted: .* task get http://\S+ t-1 --wait\n$")

    def test_serve_in_this_process(self):
        for form in ("text", "json"):
            threading.Timer(1.0, _thread.interrupt_main).start()
            done = self.cli("serve", "--port", "0", "--skill", "sit=Sits", "-o", form)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertIn("http://127.0.0.1:", done.stdout)
        threading.Timer(1.0, _thread.interrupt_main).start()
        self.assertEqual(0, self.cli("demo-server", "--port", "0").returncode)

    def test_demo(self):
        done = self.cli("demo")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for wanted in ("JSONRPC", "HTTP+JSON", "notes.txt (text/plain, 25 bytes)", "chunk 3"):
            self.assertIn(wanted, done.stdout)


class CompletionTest(Folder):
    def test_scripts_name_commands_and_options(self):
        for shell in ("bash", "zsh", "fish"):
            done = self.cli("completion", shell)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            for word in ("send", "subscribe", "context-id"):
                self.assertIn(word, done.stdout)

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes(self):
        script = self.cli("completion", "bash").stdout
        program = (
            script
            + 'COMP_WORDS=(a2a.py task get --his); COMP_CWORD=3; _a2a_py; echo "${COMPREPLY[*]}"\n'
            + 'COMP_WORDS=(a2a.py task g); COMP_CWORD=2; _a2a_py; echo "${COMPREPLY[*]}"\n'
            + 'COMP_WORDS=(a2a.py se); COMP_CWORD=1; _a2a_py; echo "${COMPREPLY[*]}"\n'
        )
        done = subprocess.run(["bash"], input=program, capture_output=True, text=True, timeout=30)
        words = done.stdout.split("\n")
        self.assertEqual(["--history", "get"], words[:2])
        self.assertIn("send", words[2].split())


class TextTest(unittest.TestCase):
    """What text output is made of, without a process."""

    def render(self, *calls, verbose=False):
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            out = a2a.TextOutput(a2a.Console(), verbose)
            for name, *arguments in calls:
                getattr(out, name)(*arguments)
            out.close()
        return stdout.getvalue()

    def test_fields_and_blocks(self):
        task = {
            "id": "t1",
            "contextId": "c1",
            "status": {
                "state": "TASK_STATE_COMPLETED",
                "message": {"messageId": "m1", "parts": []},
            },
            "artifacts": [
                {
                    "artifactId": "a1",
                    "name": "report",
                    "parts": [{"text": "one\n\ntwo"}, {"data": {"k": [1]}}, {"raw": "AAEC"}],
                }
            ],
        }
        text = self.render(("task", task))
        self.assertEqual(
            "Task: t1\nContext: c1\nState: TASK_STATE_COMPLETED\nStatus message: m1\n"
            "Artifact: report (a1)\nText:\none\n \ntwo\n\n"
            'Data:\n{\n  "k": [\n    1\n  ]\n}\n\nFile: unnamed (unknown type, 3 bytes)\n',
            text,
        )

    def test_a_block_ends_at_the_first_empty_line_whatever_is_in_it(self):
        for content in ("", "\n", "\n\n", "a", "a\n", "a\n\n", "\na", "a\n\n\nState: forged\n\n"):
            for at in range(len(content) + 1):
                pieces = (content[:at], content[at:])
                update = [
                    {"artifact": {"artifactId": "a", "parts": [{"text": piece}]}, "append": bool(n)}
                    for n, piece in enumerate(pieces)
                ]
                calls = [("chunk", u) for u in update]
                text = self.render(*calls, ("field", "State", "true"))
                with self.subTest(content=content, at=at):
                    found = fields(text)
                    self.assertEqual(["Artifact", "Text", "State"], [label for label, _ in found])
                    self.assertEqual(content.split(), found[1][1].split())

    def test_chunks_of_a_text_are_one_text(self):
        """ART-03: chunks are glued without blanks."""
        chunks = [
            {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"text": text}]}, **more}}
            for text, more in (("Hel", {}), ("lo", {"append": True}), ("!", {"append": True}))
        ]
        text = self.render(*(("event", chunk) for chunk in chunks))
        self.assertEqual("Artifact: a\nText:\nHello!\n\n", text)

    def test_chunks_of_two_artifacts_each_say_whose_they_are(self):
        chunks = [("a", "1"), ("b", "2"), ("a", "3")]
        text = self.render(
            *(
                ("chunk", {"artifact": {"artifactId": i, "parts": [{"text": t}]}, "append": True})
                for i, t in chunks
            )
        )
        self.assertEqual(
            "Artifact: a\nText:\n1\n\nArtifact: b\nText:\n2\n\nArtifact: a\nText:\n3\n\n", text
        )

    def test_no_control_character_of_a_remote_passes(self):
        hostile = "".join(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2066, 0x2028, 0xD83D]))
        task = {"id": hostile, "status": {"state": hostile}, "artifacts": [
            {"artifactId": hostile, "parts": [{"text": hostile}, {"data": hostile},
             {"url": hostile, "filename": hostile, "mediaType": hostile}]}]}  # fmt: skip
        text = self.render(("task", task))
        rest = set(hostile) & set(text)
        self.assertEqual({"\n", "\t"}, rest)
        self.assertIn("\\x1b", text)
        self.assertIn("\\u202e", text)
        text.encode("utf-8")

    def test_a_field_is_one_line(self):
        text = self.render(("field", "Name", "two\nlines\r\nand\tmore\rend"))
        self.assertEqual("Name: two lines and more end\n", text)

    def test_no_part_is_discarded(self):
        parts = [{"odd": 1}, {"data": None}, {"text": ""}, {"url": "https://h.example/x.bin"}]
        named = self.render(("part", {"text": "x", "filename": "n.txt"}))
        self.assertEqual("File: n.txt (unknown type, 1 bytes)\nText:\nx\n\n", named)
        text = self.render(("message", {"messageId": "m", "parts": parts}, "Message"))
        self.assertEqual(
            ["Message", "Part", "Data", "Text", "File"], [label for label, _ in fields(text)]
        )
        self.assertIn("File: unnamed (unknown type, at https://h.example/x.bin)", text)

    def test_verbose_shows_the_details(self):
        part = {"text": "x", "mediaType": "text/markdown", "metadata": {"k": 1}}
        message = {"messageId": "m", "parts": [part], "metadata": {"a": 1}}
        brief = self.render(("message", message, "Message"))
        full = self.render(("message", message, "Message"), verbose=True)
        self.assertNotIn("markdown", brief)
        self.assertIn('Part details: {"mediaType":"text/markdown","metadata":{"k":1}}', full)
        self.assertIn('Metadata:\n{\n  "a": 1\n}\n', full)

    def test_the_identifiers_are_not_written_twice(self):
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        text = self.render(("early", {"task": task}), ("early", {"task": task}), ("task", task))
        self.assertEqual("Task: t\nContext: c\nState: TASK_STATE_WORKING\n", text)

    def test_data_addresses_are_read_here(self):
        """JSON-11: a data: address is decoded, base64 or percent, and never fetched."""
        for url in ("data:text/plain", "data:;base64,?", "data:,\u1234"):
            self.assertIn("cannot be read", a2a.describe_file({"url": url}), url)
        part = {"url": "data:text/plain,hi%20there", "filename": "f"}
        self.assertEqual("f (text/plain, 8 bytes)", a2a.describe_file(part))

    def test_json_is_safe_and_whole(self):
        """JSON-15, JSON-16: lone surrogates and every script survive."""
        value = {"text": "Grüße 東京 😀 \ud83d \x9b1m \u202e", "n": [1, None]}
        text = a2a.json_text(value)
        self.assertEqual(value, json.loads(text))
        self.assertIn("Grüße 東京 😀", text)
        self.assertNotIn("\x9b", text)
        text.encode("utf-8")


if __name__ == "__main__":
    unittest.main()
