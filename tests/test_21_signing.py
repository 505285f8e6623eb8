"""Chapter 21: signed cards from the command line."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

import a2a

ROWS = json.loads((support.VECTORS / "keys" / "private.json").read_text(encoding="utf-8"))
PEM = ROWS["keys"][0]["pem"]
PUBLIC = a2a.read_private_key(PEM.encode()).public
OTHER = a2a.read_private_key(ROWS["keys"][5]["pem"].encode()).public


class SigningCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.key = cls.write("key.pem", PEM)
        cls.trusted = cls.write("trusted.json", json.dumps(a2a.write_jwks([PUBLIC])))
        cls.others = cls.write("others.json", json.dumps(a2a.write_jwks([OTHER])))
        options = ("--agent", "echo", "--card-signing-key", cls.key)
        cls.server = support.Served(*options, cwd=cls.folder)
        cls.addClassCleanup(cls.server.__exit__)

    @classmethod
    def write(cls, name, text):
        path = cls.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def get(self, *options, **more):
        return support.run_main("card", "get", self.server.url, *options, **more)


class CardGetTest(SigningCase):
    def test_a_verified_card(self):
        """SIG-04: A2ACLI_CARD_GET_004, in text on standard output."""
        done = self.get("--require-signed-cards")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn(
            f"Signatures: verified: ES256 with the key '{PUBLIC.thumbprint}'", done.stdout
        )

    def test_json_is_the_card_alone(self):
        """SIG-04: the outcome goes to standard error, for the document is the protocol's own."""
        done = self.get("-o", "json")
        card = json.loads(done.stdout)
        self.assertEqual([], a2a.violations("AgentCard", card))
        self.assertRegex(done.stderr, "^Signatures: verified: ES256 with the key .*\n$")

    def test_an_unverifiable_card(self):
        for arguments in (("--trusted-card-keys", self.others), ()):
            env = {} if arguments else {"A2A_CARD_JWKS": self.others}
            done = self.get(*arguments, env=env)
            self.assertEqual(0, done.returncode)
            self.assertIn("Signatures: unverifiable: The card is signed with the key", done.stdout)
            self.assertIn("Warning: The card is signed, but that cannot be verified", done.stderr)
            done = self.get("--require-signed-cards", *arguments, env=env)
            self.assertEqual(1, done.returncode)
            self.assertIn("A2ACLI_ERR_CARD_INVALID", done.stderr)

    def test_trusted_keys(self):
        for name in ("A2A_CARD_JWKS", "A2ACLI_TRUSTED_CARD_KEYS"):
            env = {name: self.trusted, "A2ACLI_REQUIRE_SIGNED_CARDS": "true"}
            done = self.get(env=env)
            self.assertIn("Signatures: verified", done.stdout)
        done = support.run_main(
            "send",
            self.server.url,
            "hi",
            "--require-signed-cards",
            env={"A2A_CARD_JWKS": self.trusted},
        )
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_an_absent_signature_is_no_failure(self):
        """SIG-04: A2A section 8.4 leaves signing to the agent."""
        card = json.loads(self.get("-o", "json").stdout)
        card.pop("signatures", None)
        path = self.write("bare.json", json.dumps(card))
        done = support.run_main("card", "get", path)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("Signatures: absent\n", done.stdout)
        done = support.run_main("card", "get", path, "--require-signed-cards")
        self.assertEqual(1, done.returncode)
        self.assertIn("Signatures: absent\n", done.stdout)
        self.assertIn("is not signed", done.stderr)

    def test_a_changed_card_is_shown_and_refused(self):
        """SIG-04: failed; in JSON there is an error in place of the card."""
        card = self.site_card()
        path = self.write("changed.json", json.dumps({**card, "name": "Mallory"}))
        done = support.run_main("card", "get", path, "--trusted-card-keys", self.trusted)
        self.assertEqual(1, done.returncode)
        self.assertIn("Name: Mallory\n", done.stdout)
        self.assertIn("Signatures: failed\n", done.stdout)
        self.assertIn("has a wrong signature", done.stderr)
        options = ("--trusted-card-keys", self.trusted, "-o", "json")
        done = support.run_main("card", "get", path, *options)
        error = json.loads(done.stdout or done.stderr)["error"]
        self.assertEqual("A2ACLI_ERR_CARD_INVALID", error["code"])
        self.assertNotIn("Mallory", done.stdout)
        done = support.run_main("send", path, "hi", "--trusted-card-keys", self.trusted)
        self.assertEqual(1, done.returncode)

    def site_card(self):
        with a2a.Client(self.server.url) as client:
            return client.raw_card

    def test_a_file_that_lies_around_names_no_keys(self):
        """A .env of the working folder must not decide whom to trust."""
        folder = self.folder / "work"
        folder.mkdir(exist_ok=True)
        for name in ("A2A_CARD_JWKS", "A2ACLI_TRUSTED_CARD_KEYS"):
            (folder / ".env").write_text(f"{name}={self.others}\n", encoding="utf-8")
            done = self.get(cwd=folder)
            self.assertIn("Signatures: verified", done.stdout)
            self.assertIn(f"{name} in ", done.stderr)
            self.assertIn("is ignored", done.stderr)
            done = self.get("--config", folder / ".env")
            self.assertIn("Signatures: unverifiable", done.stdout)


class ServeTest(SigningCase):
    def test_a_key_that_does_not_do(self):
        encrypted = self.write("encrypted.pem", ROWS["refused"][0]["pem"])
        for path, said in (
            (encrypted, "cannot sign the card: The key is encrypted"),
            (self.folder / "none.pem", "cannot be read: no such file"),
            (self.trusted, "no private key in PEM"),
        ):
            done = support.run_main("serve", "--agent", "echo", "--card-signing-key", path)
            self.assertEqual(2, done.returncode)
            self.assertIn(said, done.stderr)

    def test_the_variable_works_too(self):
        env = {"A2A_SERVE_CARD_SIGNING_KEY": self.key}
        with support.Served("--agent", "echo", env=env, cwd=self.folder) as server:
            done = support.run_main("card", "get", server.url, "--require-signed-cards")
        self.assertIn("Signatures: verified", done.stdout)


if __name__ == "__main__":
    unittest.main()
