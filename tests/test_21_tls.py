"""Chapter 21: a server under TLS from the command line, and what its clients are told."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


@unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
class TlsCommandsTest(unittest.TestCase):
    def setUp(self):
        self.folder = support.certificates()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.work = pathlib.Path(place.name).resolve()

    def files(self, name="server"):
        """Give the options of a server with the certificate of that name."""
        return ("--tls-cert", self.folder / f"{name}.crt", "--tls-key", self.folder / f"{name}.key")

    def serve(self, *arguments, **env):
        agent = () if "--agent" in arguments else ("--agent", "echo")
        server = support.Served(*agent, *map(str, arguments), env=env, cwd=self.work)
        self.addCleanup(server.__exit__)
        return server

    def send(self, server, *options, url=None, **env):
        env.setdefault("A2A_TLS_CA", str(self.folder / "ca.pem"))
        return support.run_main("send", url or server.url, "hello", *options, env=env)

    def mine(self, name):
        """Give the variables of a client with the certificate of that name."""
        return {
            "A2A_TLS_CERT": str(self.folder / f"{name}.crt"),
            "A2A_TLS_KEY": str(self.folder / f"{name}.key"),
        }

    def test_all_transports_over_tls(self):
        """GRPC-08: the card names https, and a port of gRPC on loopback has TLS all the same."""
        for port in ((), ("--grpc-port", "0")):
            server = self.serve(*self.files(), *port)
            self.assertTrue(server.url.startswith("https://127.0.0.1:"))
            for binding in BINDINGS:
                for options in ((), ("--stream",)):
                    done = self.send(server, "--transport", binding, *options)
                    self.assertEqual((0, ""), (done.returncode, done.stderr), (port, binding))
                    self.assertIn("hello", done.stdout)
            done = self.send(server, url=f"https://localhost:{server.port}")
            self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_a_card_from_a_file_still_means_tls(self):
        server = self.serve(*self.files())
        ca = {"A2A_TLS_CA": str(self.folder / "ca.pem")}
        card = support.run_main("card", "get", server.url, "-o", "json", env=ca).stdout
        urls = [one["url"] for one in json.loads(card)["supportedInterfaces"]]
        self.assertEqual([server.url, server.url, server.url[len("https://") :]], urls)
        path = self.work / "card.json"
        path.write_text(card)
        done = self.send(server, "--transport", "GRPC", url=path)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_http_where_there_is_tls(self):
        server = self.serve(*self.files())
        done = self.send(server, url=f"http://127.0.0.1:{server.port}")
        self.assertEqual(3, done.returncode)
        self.assertIn("HTTP 400: This port speaks TLS: use https", done.stderr)

    def test_who_is_called_by_another_name_is_not_trusted(self):
        server = self.serve(*self.files("person"))
        self.assertIn(
            "clients will refuse", server.wait_for("Warning", "stderr"), "no name of ours is in it"
        )
        done = self.send(server)
        self.assertEqual(3, done.returncode)
        self.assertIn("certificate is not valid for '127.0.0.1'", done.stderr)

    def test_an_expired_certificate_is_warned_of(self):
        server = self.serve(*self.files("expired"), "--public-url", "https://agent.example")
        self.assertIn("certificate has expired", server.wait_for("Warning", "stderr"))
        done = self.send(server, url=f"https://127.0.0.1:{server.port}")
        self.assertEqual(3, done.returncode)
        self.assertIn("not trusted (certificate has expired)", done.stderr)

    def test_a_server_that_nobody_vouches_for(self):
        """A2ACLI_AUTH_003: who does not check is warned."""
        server = self.serve(*self.files("rogue"))
        done = self.send(server)
        self.assertEqual(3, done.returncode)
        self.assertIn("not trusted", done.stderr)
        self.assertIn("--ca FILE", done.stderr)
        for binding in BINDINGS:
            done = self.send(server, "--insecure", "--transport", binding)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("certificates are not verified", done.stderr)

    def test_callers_need_a_certificate_and_are_known_by_it(self):
        """AUTH-24, A2ACLI_AUTH_009: the right authority, the wrong one, expired, none."""
        command = f"exec:{sys.executable} -c \"import os; print(os.environ['A2A_CALLER'])\""
        asks = ("--tls-client-ca", self.folder / "ca.pem")
        server = self.serve(*self.files(), *asks, "--grpc-port", "0", "--agent", command)
        names = {"client": "spiffe://test/caller", "person": "someone@example.org"}
        for name, said in {**names, "plain": "plain"}.items():
            for binding in BINDINGS:
                done = self.send(server, "--transport", binding, **self.mine(name))
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertIn(f"Text:\n{said}\n", done.stdout)
        for name, said in (
            ("", "the server wants a client certificate"),
            ("rogue", "the server does not accept our certificate (unknown ca)"),
            ("expired", "the server does not accept our certificate (certificate expired)"),
        ):
            done = self.send(server, **(self.mine(name) if name else {}))
            self.assertEqual(3, done.returncode)
            self.assertIn(said, done.stderr)
            if not name:
                self.assertIn("--cert FILE", done.stderr)

    def test_a_caller_sees_its_own_tasks_alone(self):
        server = self.serve(*self.files(), "--tls-client-ca", self.folder / "ca.pem")
        done = self.send(server, "-o", "json", **self.mine("client"))
        task = json.loads(done.stdout)["task"]["id"]
        ca = {"A2A_TLS_CA": str(self.folder / "ca.pem")}
        get = ("task", "get", server.url, task)
        self.assertEqual(0, support.run_main(*get, env={**ca, **self.mine("client")}).returncode)
        done = support.run_main(*get, env={**ca, **self.mine("person")})
        self.assertIn("TaskNotFoundError", done.stderr)

    def test_a_certificate_is_needed_beside_a_key(self):
        keys = self.work / "keys"
        keys.write_text("ann: key-of-ann-0123456789\n")
        keys.chmod(0o600)
        asks = ("--tls-client-ca", self.folder / "ca.pem", "--api-key-file", keys)
        server = self.serve(*self.files(), *asks)
        key = {"A2A_API_KEY": "key-of-ann-0123456789"}
        self.assertEqual(0, self.send(server, **key, **self.mine("client")).returncode)
        self.assertEqual(3, self.send(server, **key).returncode)
        self.assertEqual(4, self.send(server, **self.mine("client")).returncode)

    def test_keys_that_are_encrypted(self):
        word = self.work / "word"
        word.write_text("open sesame\n")
        word.chmod(0o600)
        locked = self.work / "locked.key"
        shutil.copy(self.folder / "locked.key", locked)
        locked.chmod(0o600)
        files = ("--tls-cert", self.folder / "server.crt", "--tls-key", locked)
        server = self.serve(*files, "--tls-key-password-file", word)
        self.assertEqual("", server.stderr)
        mine = {"A2A_TLS_CERT": str(self.folder / "server.crt"), "A2A_TLS_KEY": str(locked)}
        done = self.send(server, A2A_TLS_KEY_PASSWORD_FILE=str(word), **mine)
        self.assertEqual(0, done.returncode, done.stderr)
        done = self.send(server, **mine)
        self.assertEqual(2, done.returncode)
        self.assertIn("is encrypted", done.stderr)

    @unittest.skipIf(os.name == "nt", "no modes of files")
    def test_a_key_that_others_may_read_is_warned_of(self):
        key = self.work / "server.pem"
        shutil.copy(self.folder / "server.pem", key)
        key.chmod(0o644)
        server = self.serve("--tls-cert", key)
        self.assertIn("chmod 600", server.wait_for("Warning", "stderr"))

    def test_files_that_cannot_be_used_stop_the_start(self):
        cert, key = self.files()[1::2]
        locked = self.folder / "locked.key"
        for arguments, said in (
            (("--tls-cert", "/no/such"), "/no/such cannot be used: no such file"),
            (("--tls-cert", cert, "--tls-key", self.folder / "client.key"), "belong together"),
            (("--tls-cert", cert, "--tls-key", locked), "is encrypted"),
            (("--tls-key", key), "Without a certificate"),
            (("--tls-client-ca", cert), "Without a certificate"),
            (("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key), "no certificate in"),
        ):
            done = support.run_main("serve", "--agent", "echo", *arguments)
            self.assertEqual((2, ""), (done.returncode, done.stdout), arguments)
            self.assertIn(said, done.stderr)

    def test_other_machines_are_served_with_a_certificate_asked_for(self):
        asks = ("--tls-client-ca", self.folder / "ca.pem")
        server = self.serve(*self.files(), *asks, "--host", "0.0.0.0")
        self.assertNotIn("no TLS", server.stderr)
        self.assertTrue(server.url.startswith("https://"))
        done = support.run_main("serve", "--agent", "echo", *self.files(), "--host", "0.0.0.0")
        self.assertEqual(2, done.returncode)
        self.assertIn("--tls-client-ca", done.stderr)

    def test_a_server_of_its_own_under_tls(self):
        folder = ("--dir", self.work / "answers")
        started = ("serve", "--detach", *self.files(), "--port", "0", *folder)
        done = support.run_main(*started, cwd=self.work)
        self.assertEqual(0, done.returncode, done.stderr)
        try:
            self.assertRegex(done.stdout, r"^Ready: https://127\.0\.0\.1:\d+ \(process \d+\)\n$")
            status = support.run_main("status", *folder, "-o", "json")
            facts = json.loads(status.stdout)
            self.assertTrue(facts["running"])
            self.assertIn(facts["url"], done.stdout)
        finally:
            done = support.run_main("stop", *folder)
        self.assertEqual("Server: stopped\n", done.stdout)

    def test_the_plugin_says_it_too(self):
        environ = {
            "CLAUDE_PLUGIN_OPTION_serveTlsCert": "c",
            "CLAUDE_PLUGIN_OPTION_SERVETLSCLIENTCA": "a",
        }
        plain, secret = a2a.plugin_settings(environ)
        self.assertEqual({"A2A_SERVE_TLS_CERT": "c", "A2A_SERVE_TLS_CLIENT_CA": "a"}, plain)
        self.assertEqual({}, secret)

    def test_a_function_is_served_under_tls(self):
        options = dict(zip(("tls_cert", "tls_key"), map(str, self.files()[1::2])))
        ca = str(self.folder / "ca.pem")
        agent = a2a.Server(lambda turn: turn.text.upper(), port=0, **options)
        with agent as server, a2a.Client(server.url, ca=ca) as client:
            self.assertEqual("HELLO", a2a.text_of(client.send("hello")))


if __name__ == "__main__":
    unittest.main()
