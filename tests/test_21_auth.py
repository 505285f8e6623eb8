"""Chapter 21: auth login, status and logout, and what later commands make of them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from providers import FakeProvider
from scripted import Scripted

DONE = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
PROGRAM = "/a2a.py auth login"


class AuthCase(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = home.name
        self.file = os.path.join(home.name, ".config", "a2a-cli", "tokens.json")
        self.idp = FakeProvider()
        self.addCleanup(self.idp.__exit__)
        self.idp.pages["/device"] = {
            "device_code": "d3vice", "user_code": "AB-CD", "interval": 1, "expires_in": 60,
            "verification_uri": "https://idp.example/device"}  # fmt: skip
        self.tokens = 0
        self.idp.pages["/token"] = self.issue
        self.agent = self.serve()

    def issue(self, form):
        self.tokens += 1
        if form.get("refresh_token", "r3fresh-") == "r3fresh-0":
            return 400, {"error": "invalid_grant", "error_description": "r3fresh-0 is used up"}
        return {"access_token": f"t0ken-{self.tokens}", "refresh_token": f"r3fresh-{self.tokens}",
                "expires_in": 3600}  # fmt: skip

    def serve(self, answer=None, flows=("deviceCode", "authorizationCode", "clientCredentials")):
        ends = {"tokenUrl": "/token", "deviceAuthorizationUrl": "/device",
                "authorizationUrl": "/authorize"}  # fmt: skip
        needs = {"deviceCode": ("tokenUrl", "deviceAuthorizationUrl"),
                 "authorizationCode": ("tokenUrl", "authorizationUrl"),
                 "clientCredentials": ("tokenUrl",)}  # fmt: skip
        made = {
            flow: {"scopes": {}, **{name: self.idp.url + ends[name] for name in needs[flow]}}
            for flow in flows
        }
        agent = Scripted(
            answer or (lambda method, params: {"task": DONE}),
            securitySchemes={"o": {"oauth2SecurityScheme": {"flows": made}}},
            securityRequirements=[{"schemes": {"o": {"list": ["use"]}}}],
        )
        self.addCleanup(agent.__exit__)
        return agent

    def run_main(self, *arguments, status=0, env=None, **options):
        env = {"HOME": self.home, "USERPROFILE": self.home, **(env or {})}
        done = support.run_main(*arguments, env=env, **options)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        for secret in ("t0ken", "r3fresh", "s3cret", "d3vice"):
            self.assertNotIn(secret, done.stdout + done.stderr)
        return done

    def log_in(self, *more, **options):
        return self.run_main(
            "auth", "login", self.agent.url, "--oauth-client-id", "me", *more, **options
        )


class LoginTest(AuthCase):
    def test_a_device_code_signs_in_and_later_calls_use_it(self):
        """A2ACLI_AUTH_005, A2ACLI_AUTH_007: a person, a code, another device."""
        done = self.log_in()
        self.assertIn("open https://idp.example/device\n  and enter the code AB-CD", done.stderr)
        self.assertIn(f"Signed in: {self.agent.url}\n", done.stdout)
        self.assertRegex(done.stdout, r"Grant: device\nScope: use\nExpires: \d{4}-.*Z\nRenewal: by")
        self.run_main("send", self.agent.url, "hello")
        self.assertEqual("Bearer t0ken-1", self.agent.requests[-1][0]["authorization"])
        self.assertEqual(1, self.tokens)

    def test_an_agent_names_its_provider_by_openid_connect(self):
        """A2ACLI_AUTH_010: its metadata say where to go."""
        place = "/realms/r/.well-known/openid-configuration"
        ends = {"device_authorization_endpoint": "/device", "token_endpoint": "/token"}
        whole = {name: self.idp.url + end for name, end in ends.items()}
        self.idp.pages[place] = {"issuer": self.idp.url + "/realms/r", **whole}
        self.agent = Scripted(
            lambda method, params: {"task": DONE},
            securitySchemes={
                "o": {"openIdConnectSecurityScheme": {"openIdConnectUrl": self.idp.url + place}}
            },
            securityRequirements=[{"schemes": {"o": {"list": ["openid"]}}}],
        )
        self.addCleanup(self.agent.__exit__)
        self.run_main("send", self.agent.url, "hello", status=4)
        self.log_in("--grant", "device")
        self.assertEqual("openid", self.idp.forms("/device")[-1]["scope"])
        self.run_main("send", self.agent.url, "hello")
        self.assertEqual("Bearer t0ken-1", self.agent.requests[-1][0]["authorization"])

    def test_client_credentials_sign_in(self):
        """A2ACLI_AUTH_006; A2A_OAUTH_* and A2ACLI_OAUTH_* both name the settings."""
        env = {"A2A_OAUTH_CLIENT_ID": "me", "A2ACLI_OAUTH_CLIENT_SECRET": "s3cret",
               "A2A_OAUTH_ISSUER": self.idp.url, "A2A_OAUTH_SCOPE": "more",
               "A2A_OAUTH_AUDIENCE": "api"}  # fmt: skip
        done = self.run_main("auth", "login", self.agent.url, "-o", "json", env=env)
        self.assertEqual("", done.stderr)
        shown = json.loads(done.stdout)
        (token,) = shown["tokens"]
        self.assertEqual(
            ("client-credentials", "more use", "api", "by itself", self.idp.url),
            tuple(token[n] for n in ("grant", "scope", "audience", "renewal", "issuer")),
        )
        self.assertEqual(self.file, shown["file"])
        self.run_main("send", self.agent.url, "hello", env=env)
        self.assertEqual(1, self.tokens)

    def test_a_browser_signs_in(self):
        """AUTH-15: on the port that the person set; what is opened is what is shown."""
        port, opened = support.free_port(), []

        def browse(url):
            opened.append(url)
            fields = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
            back = urllib.parse.urlencode({"code": "c0de", "state": fields["state"]})
            with urllib.request.urlopen(fields["redirect_uri"] + "?" + back, timeout=10) as page:
                page.read()

        env = {"BROWSER": "true", "A2A_OAUTH_REDIRECT_PORT": str(port)}
        with mock.patch("webbrowser.open", browse):
            done = self.log_in("--grant", "browser", env=env)
        self.assertIn(urllib.parse.quote(f"http://127.0.0.1:{port}/callback", ""), opened[0])
        self.assertIn(opened[0], done.stderr)
        self.assertIn("Grant: browser", done.stdout)
        self.assertNotIn("c0de", done.stderr)

    @unittest.skipIf(os.name == "nt" or sys.platform == "darwin", "there is always a screen")
    def test_no_browser_is_opened_where_there_is_no_screen(self):
        none = dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"), "")
        with mock.patch("webbrowser.open") as browse, mock.patch.dict(os.environ, none):
            a2a.open_browser("https://idp.example/")
        browse.assert_not_called()

    def test_a_command_never_waits_for_a_person_who_is_not_there(self):
        """What to run is said, with the options that were given."""
        env = {"A2A_OAUTH_CLIENT_ID": "me"}
        done = self.run_main("send", self.agent.url, "hello", status=4, env=env)
        self.assertIn("Code: A2ACLI_ERR_CREDENTIALS_MISSING", done.stderr)
        self.assertRegex(done.stderr, rf"Hint: sign in first: \S+ \S+{PROGRAM} {self.agent.url}\n")
        done = self.run_main("send", self.agent.url, "hello", "--oauth-client-id", "me",
                             "--oauth-scope", "b c", "-o", "json", status=4)  # fmt: skip
        self.assertEqual("", done.stderr)
        self.assertIn(
            "--oauth-client-id me --oauth-scope 'b c'", json.loads(done.stdout)["error"]["hint"]
        )
        self.assertEqual([], self.idp.asked)

    def at_terminal(self, *arguments, **env):
        """Run a command with a person at a terminal; give (standard output, what was shown)."""
        ours, theirs = os.openpty()
        env = support.clean_environment(HOME=self.home, A2A_OAUTH_CLIENT_ID="me", **env)
        command = [sys.executable, support.A2A, *arguments]
        done = subprocess.run(
            command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, timeout=30, env=env
        )
        os.close(theirs)
        with open(ours, "rb", buffering=0) as terminal:
            return done.stdout.decode(), terminal.read(4096).decode()

    @unittest.skipIf(os.name == "nt", "Windows has no pseudo-terminals")
    def test_a_person_at_a_terminal_is_asked_at_once(self):
        out, shown = self.at_terminal("send", self.agent.url, "hello")
        self.assertIn("Sign in: To sign in for " + self.agent.url, shown)
        self.assertIn("State: TASK_STATE_COMPLETED", out)

    @unittest.skipIf(os.name == "nt", "Windows has no pseudo-terminals")
    def test_a_browser_is_opened_for_a_sign_in_alone(self):
        """AUTH-01: a card cannot open pages for whoever sends it a message."""
        self.agent = self.serve(flows=["authorizationCode"])
        for command, opens in ((["send", self.agent.url, "hello"], False),
                               (["auth", "login", self.agent.url], True)):  # fmt: skip
            mark = os.path.join(self.home, command[0])
            _, shown = self.at_terminal(*command, "--timeout", "1s", BROWSER=f"touch {mark} %s")
            self.assertIn(self.idp.url + "/authorize", shown)
            self.assertEqual(opens, os.path.exists(mark), command)

    @unittest.skipIf(os.name == "nt", "Windows ends processes at once")
    def test_a_signal_ends_the_wait_for_a_person(self):
        self.idp.pages["/token"] = (400, {"error": "authorization_pending"})
        for grant, number in (("browser", signal.SIGINT), ("device", signal.SIGTERM)):
            command = [sys.executable, support.A2A, "auth", "login", self.agent.url,
                       "--oauth-client-id", "me", "--grant", grant]  # fmt: skip
            with support.Process(command) as child, self.subTest(grant=grant):
                child.wait_for("To sign in", "stderr")
                child.popen.send_signal(number)
                self.assertEqual(128 + number, child.wait())
                self.assertNotIn("Traceback", child.stderr)

    def test_a_secret_needs_an_issuer(self):
        """AUTH-01: the error says what to set."""
        env = {"A2A_OAUTH_CLIENT_SECRET": "s3cret"}
        done = self.log_in(env=env, status=4)
        self.assertIn(self.idp.url + "/token", done.stderr)
        self.assertIn("Hint: If that is yours, give its issuer: --oauth-issuer URL", done.stderr)
        self.assertEqual([], self.idp.asked)

    def test_a_secret_as_an_option_is_warned_of(self):
        """A2ACLI_AUTH_002."""
        text = self.run_main("auth", "login", "--help").stdout
        self.assertIn("--oauth-client-secret SECRET", text)
        self.assertIn("process table", text)

    def test_a_env_file_that_lies_here_names_no_provider(self):
        """AUTH-01: or a folder could have our secret."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, ".env").write_text("A2A_OAUTH_ISSUER=https://evil.example\n")
            env = {"A2A_OAUTH_CLIENT_SECRET": "s3cret"}
            done = self.log_in(env=env, status=4, cwd=folder)
        self.assertIn("A2A_OAUTH_ISSUER", done.stderr)
        self.assertIn("but one that you name", done.stderr)

    def test_what_fails_leaves_nothing(self):
        self.idp.pages["/token"] = (400, {"error": "access_denied"})
        done = self.log_in("-o", "json", status=4)
        error = json.loads(done.stdout)["error"]
        self.assertEqual("A2ACLI_ERR_AUTH_FAILED", error["code"])
        self.assertIn("the sign-in was declined", error["message"])
        self.assertFalse(os.path.exists(self.file))
        done = self.log_in("--timeout", "300ms", status=5)
        done = self.log_in("--grant", "password", status=2)
        self.assertIn("client-credentials or device or browser", done.stderr)
        done = self.log_in("--grant", "client-credentials", status=4)
        self.agent = self.serve(flows=["clientCredentials"])
        done = self.log_in(status=4)
        self.assertIn("the provider offers client-credentials", done.stderr)


class LaterTest(AuthCase):
    def change(self, **changes):
        kept = json.loads(pathlib.Path(self.file).read_text())
        kept["tokens"][0].update(changes)
        a2a.write_whole(self.file, json.dumps(kept))

    def test_an_expired_token_is_renewed_without_options(self):
        """A2ACLI_AUTH_007: AUTH-19."""
        self.log_in()
        self.change(expiresAt=1)
        self.run_main("send", self.agent.url, "hello", "--debug")
        self.assertEqual("Bearer t0ken-2", self.agent.requests[-1][0]["authorization"])
        self.assertEqual("r3fresh-1", self.idp.forms("/token")[-1]["refresh_token"])

    def test_a_sign_in_that_has_ended_is_told(self):
        """AUTH-25: what the provider says is shown without the token in it."""
        self.log_in()
        self.change(expiresAt=1, refreshToken="r3fresh-0")
        done = self.run_main("send", self.agent.url, "hello", status=4)
        self.assertIn("The sign-in has ended. No token was given: invalid_grant", done.stderr)
        self.assertIn("auth login", done.stderr)
        self.run_main("auth", "login", self.agent.url)
        self.assertEqual("me", self.idp.forms("/device")[-1]["client_id"])
        self.run_main("send", self.agent.url, "hello")

    def test_a_token_that_an_agent_repeats_is_not_shown(self):
        """AUTH-25: in an error of the agent."""
        self.agent = self.serve(lambda method, params: a2a.InternalError("bad t0ken-1 here"))
        self.log_in()
        done = self.run_main("send", self.agent.url, "hello", "--debug", status=1)
        self.assertIn("bad [redacted] here", done.stderr)

    def test_status_shows_presence(self):
        """A2ACLI_AUTH_007: not content; for one agent or all."""
        self.assertEqual("Signed in: (none)\n", self.run_main("auth", "status").stdout)
        self.log_in()
        first, self.agent = self.agent, self.serve()
        self.log_in()
        text = self.run_main("auth", "status").stdout
        self.assertEqual(2, text.count("Signed in: http"))
        done = self.run_main("auth", "status", first.url.replace("http://", ""), "-o", "json")
        self.assertEqual([first.url], [t["agent"] for t in json.loads(done.stdout)["tokens"]])
        self.run_main("auth", "status", "a", "b", status=2)
        text = self.run_main("config", "show").stdout
        self.assertIn(f"token: for {first.url}", text)
        rows = json.loads(self.run_main("config", "show", "-o", "json").stdout)
        self.assertEqual(2, len(rows["tokens"]))

    def test_logout_forgets(self):
        self.log_in()
        first, self.agent = self.agent, self.serve()
        self.log_in()
        done = self.run_main("auth", "logout", first.url)
        self.assertIn(f"Signed out: {first.url}\n", done.stdout)
        self.assertEqual(1, self.run_main("auth", "status").stdout.count("Signed in: http"))
        self.run_main("auth", "logout")
        self.assertEqual("Signed in: (none)\n", self.run_main("auth", "status").stdout)
        self.run_main("send", first.url, "hello", status=4)

    @unittest.skipIf(os.name == "nt", "Windows has no such modes")
    def test_a_file_that_others_may_read_is_not_used(self):
        """A2ACLI_AUTH_007: secure storage."""
        self.log_in()
        os.chmod(self.file, 0o644)
        done = self.run_main("send", self.agent.url, "hello", status=4)
        self.assertIn("others may read or change them", done.stderr)
        self.assertIn("others may read", self.run_main("config", "show").stderr)

    def test_an_alias_may_hold_the_settings(self):
        folder = os.path.dirname(self.file)
        os.makedirs(folder)
        entry = {"url": self.agent.url, "oauth-client-id": "me", "oauth-issuer": self.idp.url,
                 "oauth-client-secret": "s3cret"}  # fmt: skip
        a2a.write_whole(os.path.join(folder, "agents.json"), json.dumps({"mine": entry}))
        self.run_main("send", "mine", "hello")
        self.assertIn(self.agent.url, self.run_main("auth", "logout", "mine").stdout)

    def test_a_task_that_needs_authorization_keeps_its_ids(self):
        """AUTH-26: A2ACLI_AUTH_011: message, ids and the command that goes on are shown."""
        status = {
            "state": "TASK_STATE_AUTH_REQUIRED",
            "message": {
                "messageId": "m",
                "role": "ROLE_AGENT",
                "parts": [{"text": "Allow it at https://idp.example/grant"}],
            },
        }
        self.agent = self.serve(lambda method, params: [{"task": {**DONE, "status": status}}])
        self.log_in()
        done = self.run_main("send", self.agent.url, "hello")
        self.assertIn("Allow it at https://idp.example/grant", done.stdout)
        self.assertIn("Task: t\nContext: c\nState: TASK_STATE_AUTH_REQUIRED\n", done.stdout)
        resume = f"send {self.agent.url} --task-id t"
        self.assertRegex(done.stdout, rf'Next: .* {re.escape(resume)} "<reply>"')
        self.assertIn("the agent waits for authorization; go on with:", done.stderr)
        done = self.run_main("send", self.agent.url, "--task-id", "t", "done")
        (sent,) = [p for p in self.agent.sent("SendStreamingMessage") if p["message"].get("taskId")]
        self.assertEqual([{"text": "done"}], sent["message"]["parts"])


if __name__ == "__main__":
    unittest.main()
