"""Chapter 21: a server that takes tokens of an identity provider, from the command line."""

import json
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import providers
import support

ROWS = json.loads((support.VECTORS / "keys" / "private.json").read_text(encoding="utf-8"))["keys"]
KEY = a2a.read_private_key(ROWS[0]["pem"].encode())


class TokenTest(unittest.TestCase):
    def setUp(self):
        self.idp = providers.FakeProvider()
        self.addCleanup(self.idp.__exit__)
        metadata = self.idp.metadata(jwks_uri=self.idp.url + "/keys")
        self.idp.pages["/.well-known/openid-configuration"] = metadata
        self.idp.pages["/keys"] = a2a.write_jwks([KEY.public])
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def token(self, **changes):
        now = int(time.time())
        claims = {"iss": self.idp.url, "aud": "two", "sub": "alice", "exp": now + 60, **changes}
        parts = ({"alg": "ES256", "kid": KEY.public.thumbprint}, claims)
        text = ".".join(a2a.encode_base64url(json.dumps(part).encode()) for part in parts)
        return f"{text}.{a2a.encode_base64url(KEY.sign(text.encode(), bytes(16))[1])}"

    def serve(self, *arguments, **env):
        server = support.Served("--agent", "echo", *arguments, env=env, cwd=self.folder)
        self.addCleanup(server.__exit__)
        return server

    def send(self, server, **claims):
        return support.run_main("send", server.url, "hi", env={"A2A_TOKEN": self.token(**claims)})

    def test_options(self):
        server = self.serve(
            "--oidc-issuer", self.idp.url, "--oidc-audience", "one, two", "--required-scopes", "a b"
        )
        self.assertEqual(0, self.send(server, scope="b a").returncode)
        done = self.send(server, scope="a")
        self.assertEqual(4, done.returncode)
        self.assertIn("lacks the scope b", done.stderr)
        self.assertIn("is for 'three', not for one or two", self.send(server, aud="three").stderr)
        done = support.run_main("send", server.url, "hi")
        self.assertEqual(4, done.returncode)
        self.assertIn("an OpenID Connect access token", done.stderr)

    def test_variables(self):
        server = self.serve(
            A2A_SERVE_OIDC_ISSUER=self.idp.url,
            A2A_SERVE_OIDC_AUDIENCE="client",
            A2A_SERVE_OIDC_CLIENT_IS_AUDIENCE="true",
            A2A_SERVE_OIDC_ROLES_ARE_SCOPES="1",
            A2A_SERVE_OIDC_EXTRA_ISSUERS="https://sts.example/1/ https://sts.example/2/",
            A2A_SERVE_REQUIRED_SCOPES="call",
        )
        claims = {"iss": "https://sts.example/2/", "aud": None, "azp": "client", "roles": ["call"]}
        self.assertEqual(0, self.send(server, **claims).returncode)
        self.assertEqual(4, self.send(server, **{**claims, "azp": "another"}).returncode)

    def test_what_stops_the_start(self):
        options = ("serve", "--agent", "echo", "--port", "0", "--dir", self.folder)
        closed = f"http://127.0.0.1:{support.free_port()}"
        for arguments, status, said in (
            (("--oidc-issuer", self.idp.url), 2, "--oidc-audience"),
            (("--oidc-issuer", self.idp.url, "--oidc-audience", " , "), 2, "--oidc-audience"),
            (("--oidc-audience", "one"), 2, "--oidc-issuer URL"),
            (("--oidc-issuer", closed, "--oidc-audience", "one"), 3, "No metadata of " + closed),
            (("--oidc-issuer", self.idp.url + "/", "--oidc-audience", "one"), 4, "which is not"),
            (("--oidc-issuer", "http://idp.example", "--oidc-audience", "one"), 4, "https"),
        ):
            with self.subTest(said):
                done = support.run_main(*options, *arguments)
                self.assertEqual((status, ""), (done.returncode, done.stdout))
                self.assertIn(said, done.stderr)

    def test_a_token_never_shows_up(self):
        server = self.serve("--oidc-issuer", self.idp.url, "--oidc-audience", "one", "--debug")
        token = self.token()
        done = support.run_main("send", server.url, "hi", "--debug", env={"A2A_TOKEN": token})
        self.assertEqual(4, done.returncode)
        for text in (done.stdout, done.stderr, server.stderr):
            self.assertNotIn(token, text)
            self.assertNotIn(token.rpartition(".")[2], text)


if __name__ == "__main__":
    unittest.main()
