"""Chapter 21: a server that wants a key, from the command line; where keys never show up."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

ANN, BOB = "key-of-ann-0123456789", "key-of-bob-0123456789"


class KeysTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.work = pathlib.Path(place.name).resolve()

    def write(self, name, text, mode=0o600):
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return str(path)

    def serve(self, *arguments, **env):
        arguments = arguments if "--agent" in arguments else ("--agent", "echo", *arguments)
        server = support.Served(*arguments, env=env, cwd=self.work)
        self.addCleanup(server.__exit__)
        return server

    def send(self, server, text="hello", *options, **env):
        return support.run_main("send", server.url, text, *options, env=env)

    def test_a_key_of_the_environment_lets_callers_in(self):
        server = self.serve(A2A_SERVE_API_KEY=ANN)
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            done = self.send(server, "hello", "--transport", binding, A2A_API_KEY=ANN)
            self.assertEqual((0, ""), (done.returncode, done.stderr), binding)
            self.assertIn("hello", done.stdout)
            done = self.send(server, "hello", "--transport", binding, "--api-key", BOB)
            self.assertEqual(4, done.returncode, binding)
            self.assertIn("A2ACLI_ERR_AUTH_FAILED", done.stderr)
            self.assertIn("not known here", done.stderr)
        done = self.send(server)
        self.assertEqual(4, done.returncode)
        self.assertIn("A2ACLI_ERR_CREDENTIALS_MISSING", done.stderr)
        self.assertIn("an API key (header X-API-Key)", done.stderr)

    def test_a_file_of_keys_names_callers(self):
        path = self.write("keys", f"# those we know\nann: {ANN}\nbob: {BOB}\n")
        command = f"exec:{sys.executable} -c \"import os; print(os.environ['A2A_CALLER'])\""
        server = self.serve("--agent", command, "--api-key-file", path)
        self.assertEqual("", server.stderr)
        for key, name in ((ANN, "ann"), (BOB, "bob")):
            self.assertIn(f"Text:\n{name}\n", self.send(server, A2A_API_KEY=key).stdout)

    def test_the_prompt_names_the_caller(self):
        path = self.write("keys", f"ann: {ANN}\n")
        server = self.serve("--agent", "files", "--api-key-file", path)
        done = self.send(server, "for files", "--async", A2A_API_KEY=ANN)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        waiting = ("wait", "--timeout", "20s", "--dir", self.work / ".a2a", "-o", "json")
        inbox = support.run_main(*waiting).stdout
        (task,) = json.loads(inbox)["tasks"]
        self.assertEqual("ann", task["caller"])
        prompt = pathlib.Path(task["folder"], "prompt.md").read_text(encoding="utf-8")
        self.assertIn("\nCaller: ann\n", prompt)
        kept = [path for path in self.work.rglob("*") if path.is_file() and path.name != "keys"]
        for path in kept:
            self.assertNotIn(ANN.encode(), path.read_bytes(), path)

    def test_a_task_is_its_callers_after_a_restart_as_well(self):
        """LIST-05: who may see it is kept with it."""
        path = self.write("keys", f"ann: {ANN}\nbob: {BOB}\n")
        arguments = ("--agent", "files", "--api-key-file", path)
        with support.Served(*arguments, cwd=self.work) as server:
            done = self.send(server, "later", "--async", "-o", "json", A2A_API_KEY=ANN)
            task_id = json.loads(done.stdout)["task"]["id"]
            waiting = ("wait", "--timeout", "20s", "--dir", self.work / ".a2a")
            self.assertEqual(0, support.run_main(*waiting).returncode)
        server = self.serve(*arguments)
        for key, status in ((ANN, 0), (BOB, 1)):
            get = ("task", "get", server.url, task_id)
            self.assertEqual(status, support.run_main(*get, env={"A2A_API_KEY": key}).returncode)

    def test_the_extended_card(self):
        """CARD-18: fetched with the key that the public card asks for."""
        server = self.serve(A2A_SERVE_API_KEY=ANN)
        card = ("card", "get", server.url, "--extended")
        done = support.run_main(*card, env={"A2A_API_KEY": ANN})
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f"Extension: {a2a.LIMITS_URI}", done.stdout)
        self.assertIn("Security scheme: apiKey: an API key (header X-API-Key)", done.stdout)
        self.assertEqual(4, support.run_main(*card).returncode)
        self.assertEqual(4, support.run_main(*card, env={"A2A_API_KEY": BOB}).returncode)
        with a2a.Server("echo", port=0) as unguarded:
            done = support.run_main("card", "get", unguarded.url, "--extended")
        self.assertEqual(1, done.returncode)
        self.assertIn("UnsupportedOperationError", done.stderr)

    def test_keys_of_a_client_never_open_or_close_a_server(self):
        server = self.serve(A2A_API_KEY=ANN, A2ACLI_API_KEY=BOB)
        self.assertEqual(0, self.send(server).returncode)

    def test_a_config_file_may_hold_the_key(self):
        path = self.write("serve.env", f"A2A_SERVE_API_KEY={ANN}\n")
        server = self.serve("--config", path)
        self.assertEqual(4, self.send(server, A2A_API_KEY=BOB).returncode)
        self.assertEqual(0, self.send(server, A2A_API_KEY=ANN).returncode)

    @unittest.skipIf(os.name == "nt", "no modes of files")
    def test_a_file_of_keys_that_others_may_read_is_warned_of(self):
        path = self.write("keys", ANN, 0o644)
        server = self.serve("--api-key-file", path)
        self.assertIn("chmod 600", server.wait_for("Warning", "stderr"))

    def test_keys_that_cannot_be_used_stop_the_start(self):
        """It never falls back to serving everybody."""
        for text, words in (("", "no key"), ("two words\n", "Line 1"), ("# none", "no key")):
            done = support.run_main("serve", "--api-key-file", self.write("keys", text))
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn(words, done.stderr)
        done = support.run_main("serve", "--api-key-file", self.work / "none")
        self.assertIn("cannot be read", done.stderr)
        done = support.run_main("serve", "--agent", "echo", env={"A2A_SERVE_API_KEY": "two words"})
        self.assertEqual(2, done.returncode)
        self.assertNotIn("two words", done.stderr)

    def test_a_variable_that_is_not_set_opens_no_server(self):
        """A script that writes "$FILE" means a guard; nothing would tell that there is none."""
        for option in ("--api-key-file", "--oidc-issuer", "--tls-client-ca", "--tls-cert"):
            done = support.run_cli("serve", "--agent", "echo", option, "")
            self.assertEqual(2, done.returncode)
            self.assertIn(f"{option}: '' names nothing", done.stderr)
        server = self.serve(A2A_SERVE_API_KEY="")
        server.wait_for("A2A_SERVE_API_KEY is empty", "stderr")

    def test_other_machines_need_a_credential(self):
        done = support.run_main("serve", "--agent", "echo", "--host", "0.0.0.0")
        self.assertEqual(2, done.returncode)
        for words in ("0.0.0.0 would let anyone", "--api-key-file", "A2A_SERVE_API_KEY"):
            self.assertIn(words, done.stderr)
        server = self.serve("--host", "0.0.0.0", A2A_SERVE_API_KEY=ANN)
        self.assertIn("no TLS", server.wait_for("Warning", "stderr"))
        status, _, body = support.http(server.port, "GET", "/tasks")
        self.assertEqual(401, status)
        self.assertEqual("UNAUTHENTICATED", json.loads(body)["error"]["status"])

    def test_the_limit_of_failed_sign_ins_is_an_option(self):
        server = self.serve("--auth-failures-per-minute", "2", A2A_SERVE_API_KEY=ANN)
        codes = [
            support.http(server.port, "GET", "/tasks", [("X-API-Key", BOB)])[0] for _ in range(4)
        ]
        self.assertEqual([401, 401, 429, 429], codes)

    def test_a_detached_server_has_the_key_as_well(self):
        env = {"A2A_SERVE_API_KEY": ANN, "A2A_SERVE_PORT": "0", "A2A_SERVE_AGENT": "echo"}
        folder = str(self.work / ".a2a")
        self.addCleanup(support.run_main, "stop", "--dir", folder)
        done = support.run_main("serve", "--detach", "--dir", folder, "-o", "json", env=env)
        ready = json.loads(done.stdout)
        self.assertEqual(401, support.http(ready["port"], "GET", "/tasks")[0])
        key = [("X-API-Key", ANN)]
        self.assertEqual(200, support.http(ready["port"], "GET", "/tasks", key)[0])

    def test_a_session_hands_the_key_to_its_server(self):
        env = {
            "CLAUDE_PROJECT_DIR": str(self.work),
            "CLAUDE_PLUGIN_DATA": str(self.work / "data"),
            "CLAUDE_PLUGIN_OPTION_serveApiKey": "ann: " + ANN,
            "CLAUDE_PLUGIN_OPTION_servePort": "0",
            "CLAUDE_PLUGIN_OPTION_autoServe": "true",
        }
        folder = a2a.Folder(str(self.work / ".a2a"))
        self.addCleanup(support.run_main, "stop", "--dir", folder.path)
        done = support.run_main("session", "start", stdin='{"session_id": "s-1"}', env=env)
        self.assertIn("Ready", done.stdout, done.stderr)
        port = a2a.read_whole(folder.at("server.json"))["port"]
        self.assertEqual(401, support.http(port, "GET", "/tasks")[0])
        self.assertEqual(200, support.http(port, "GET", "/tasks", [("X-API-Key", ANN)])[0])


def processes():
    """Give the command lines of all processes, as `ps` shows them."""
    return subprocess.run(
        ["ps", "-A", "-ww", "-o", "args"], capture_output=True, text=True, check=True
    ).stdout


class SecretsTest(unittest.TestCase):
    """AUTH-25: a key shows up nowhere but in the request that carries it."""

    def test_a_key_is_in_no_output_log_or_answer(self):
        """AUTH-25: with every switch that shows more, on both sides."""
        with tempfile.TemporaryDirectory() as work:
            keys = pathlib.Path(work, "keys")
            keys.write_text(f"bob: {BOB}\n", encoding="utf-8")
            keys.chmod(0o600)
            folder = str(pathlib.Path(work, ".a2a"))
            arguments = ("--agent", "echo", "--dir", folder, "--api-key-file", keys, "--debug")
            with support.Served(*arguments, env={"A2A_SERVE_API_KEY": ANN}) as server:
                said = []
                for key in (ANN, BOB, "key-of-nobody-0123"):
                    env = {"A2A_API_KEY": key}
                    for command in (
                        ("send", server.url, "hello", "--debug", "--verbose"),
                        ("send", server.url, "hello", "--debug", "-o", "json", "--stream"),
                        ("card", "get", server.url, "--extended", "--debug"),
                        ("config", "show"), ("send", "--help"),
                    ):  # fmt: skip
                        done = support.run_main(*command, env=env)
                        said += [done.stdout, done.stderr]
                env = {"A2A_SERVE_API_KEY": ANN, "A2A_SERVE_API_KEY_FILE": str(keys)}
                for command in (
                    ("serve", "--help"),
                    ("status", "--dir", folder),
                    ("config", "show"),
                ):
                    done = support.run_main(*command, env=env)
                    said += [done.stdout, done.stderr]
                said += [support.http(server.port, "GET", a2a.CARD_PATH)[2].decode()]
                kept = [path.read_bytes() for path in pathlib.Path(work).rglob("*.json")]
            text = "".join(said) + server.stdout + server.stderr + repr(kept)
        self.assertIn("Not let in: 127.0.0.1", server.stderr)
        for key in (ANN, BOB, "key-of-nobody-0123"):
            self.assertNotIn(key, text)

    @unittest.skipUnless(support.has("ps"), "no ps")
    def test_no_process_shows_a_key(self):
        """AUTH-25: neither the server, nor a detached one, nor what they start."""
        look = "import os,time; print(sorted(os.environ), flush=True); time.sleep(0.5)"
        with tempfile.TemporaryDirectory() as work:
            folder = str(pathlib.Path(work, ".a2a"))
            env = {"A2A_SERVE_API_KEY": ANN}
            command = ("--agent", f'exec:{sys.executable} -c "{look}"')
            done = support.run_main(
                "serve", "--detach", "--port", "0", "--dir", folder, *command, "-o", "json", env=env
            )
            try:
                url = json.loads(done.stdout)["url"]
                with a2a.Client(url, api_key=ANN) as client:
                    shown = []
                    names = ""
                    for event in client.stream("look"):
                        shown.append(processes())
                        names += a2a.text_of(event)
            finally:
                support.run_main("stop", "--dir", folder)
        self.assertTrue(any("a2a.main()" in text for text in shown))
        self.assertTrue(any("time.sleep" in text for text in shown))
        for text in shown:
            self.assertNotIn(ANN, text)
        self.assertIn("A2A_TASK_ID", names)
        self.assertNotIn("API_KEY", names)

    @unittest.skipUnless(os.path.isdir("/proc/self"), "no /proc")
    def test_an_agent_of_ours_does_not_find_the_key_in_the_environment(self):
        """AUTH-25: the key is taken out of it before an agent's file is loaded."""
        with tempfile.TemporaryDirectory() as work:
            source = (
                "import os\nFOUND = [n for n in os.environ if 'KEY' in n]\n"
                "def agent(turn):\n    return repr(FOUND + [n for n in os.environ if 'KEY' in n])\n"
            )
            path = pathlib.Path(work, "mine.py")
            path.write_text(source, encoding="utf-8")
            env = {"A2A_SERVE_API_KEY": ANN}
            with (
                support.Served("--agent", f"{path}:agent", env=env) as server,
                a2a.Client(server.url, api_key=ANN) as client,
            ):
                self.assertEqual("[]", a2a.text_of(client.send("look")))

    def test_what_is_typed_wrongly_is_not_repeated(self):
        """AUTH-25: no option of serve takes a key, and trying it does not show it."""
        done = support.run_main("serve", "--api-key", ANN)
        self.assertEqual(2, done.returncode)
        self.assertIsNone(re.search(ANN, done.stdout + done.stderr))


if __name__ == "__main__":
    unittest.main()
