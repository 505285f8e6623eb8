"""Chapter 19: a server that signs its card, and whom that convinces."""

import http.client
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

ROWS = json.loads(
    (pathlib.Path(__file__).resolve().parent / "vectors" / "keys" / "private.json").read_text()
)


class SigningCase(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def file(self, text):
        path = self.folder / "key.pem"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def serve(self, row=ROWS["keys"][0], **options):
        path = self.file(row["pem"])
        server = a2a.Server("echo", port=0, card_signing_key=path, **options)
        server.start()
        self.addCleanup(server.stop)
        return server

    def get(self, server, path, verb="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self.addCleanup(connection.close)
        connection.request(verb, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()


class ServerTest(SigningCase):
    def test_each_kind_of_key_signs(self):
        for row in ROWS["keys"]:
            with self.subTest(row["name"]):
                server = self.serve(row)
                with a2a.Client(server.url, require_signed_cards=True) as client:
                    self.assertEqual("verified", client.signature.outcome)
                    self.assertIn(row["alg"], client.signature.reason)
                    self.assertEqual("hi", a2a.text_of(client.send("hi")))
                server.stop()

    def test_the_keys_are_where_the_signature_says(self):
        server = self.serve()
        _, body = self.get(server, a2a.CARD_PATH)
        card = json.loads(body)
        (signature,) = card["signatures"]
        header = a2a.read_header(signature["protected"])
        self.assertEqual(server.url + a2a.JWKS_PATH, header["jku"])
        self.assertEqual("JOSE", header["typ"])
        answer, body = self.get(server, a2a.JWKS_PATH)
        (key,) = a2a.read_jwks(json.loads(body))
        self.assertEqual(key.kid, header["kid"])
        self.assertEqual(key.thumbprint, header["kid"])
        self.assertEqual((200, "application/json"), (answer.status, answer.headers["content-type"]))
        self.assertNotIn(b'"d"', body)
        answer, body = self.get(server, a2a.JWKS_PATH, **{"If-None-Match": answer.headers["etag"]})
        self.assertEqual((304, b""), (answer.status, body))
        self.assertEqual(405, self.get(server, a2a.JWKS_PATH, "POST")[0].status)

    def test_one_text_is_signed_where_all_forms_are_the_same(self):
        """The card is a fixed point of the rules: nothing empty, unknown or default is in it."""
        card = json.loads(self.get(self.serve(), a2a.CARD_PATH)[1])
        self.assertEqual(["served"], list(a2a.card_forms(card)))

    def test_what_only_some_readers_see_is_signed_for_each(self):
        """A requirement without scopes is empty for the SDKs: their form is another text."""
        server = self.serve(api_keys="k" * 20)
        card = json.loads(self.get(server, a2a.CARD_PATH)[1])
        self.assertEqual(["served", "sdk"], list(a2a.card_forms(card)))
        self.assertEqual(2, len(card["signatures"]))
        for signature, text in zip(card["signatures"], a2a.card_forms(card).values()):
            jws = f"{signature['protected']}.{a2a.encode_base64url(text)}.{signature['signature']}"
            key = a2a.read_private_key(ROWS["keys"][0]["pem"].encode()).public
            self.assertTrue(key.verify("ES256", *a2a.read_jws(jws)[2:]))

    def test_the_extended_card_is_signed_too(self):
        server = self.serve(api_keys="k" * 20)
        options = {"api_key": "k" * 20, "require_signed_cards": True}
        for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
            with a2a.Client(server.url, transport=[transport], **options) as client:
                shown = client.extended_card()
                self.assertNotEqual(client.card, shown)
                self.assertEqual("verified", client.signature.outcome)

    def test_the_same_card_whatever_the_host_header_says(self):
        server = self.serve()
        bodies = {
            self.get(server, a2a.CARD_PATH, Host=f"{host}:{server.port}")[1]
            for host in ("127.0.0.1", "localhost")
        }
        self.assertEqual(1, len(bodies))

    def test_behind_a_public_url_the_keys_are_there_too(self):
        server = self.serve(public_url="https://agents.example/one/")
        card = json.loads(self.get(server, "/one" + a2a.CARD_PATH, Host="agents.example")[1])
        header = a2a.read_header(card["signatures"][0]["protected"])
        self.assertEqual("https://agents.example/one" + a2a.JWKS_PATH, header["jku"])
        answer, _ = self.get(server, "/one" + a2a.JWKS_PATH, Host="agents.example")
        self.assertEqual(200, answer.status)

    def test_signatures_that_a_given_card_has_stay(self):
        other = {"protected": "e30", "signature": "AAAA"}
        server = self.serve(card={"signatures": [other]})
        card = json.loads(self.get(server, a2a.CARD_PATH)[1])
        self.assertEqual(other, card["signatures"][0])
        with a2a.Client(server.url, require_signed_cards=True) as client:
            self.assertEqual("verified", client.signature.outcome)

    def test_without_a_key_there_is_no_key_set(self):
        with a2a.Server("echo", port=0) as server:
            self.assertEqual(404, self.get(server, a2a.JWKS_PATH)[0].status)
            self.assertNotIn(b"signatures", self.get(server, a2a.CARD_PATH)[1])

    def test_keys_that_do_not_do_stop_the_start(self):
        for row in ROWS["refused"]:
            with self.subTest(row["name"]), self.assertRaises(a2a.UsageError) as caught:
                a2a.Server("echo", port=0, card_signing_key=self.file(row["pem"]))
            self.assertIn("key.pem cannot sign the card: ", str(caught.exception))
            self.assertIn(row["says"], str(caught.exception))
            self.assertEqual(row["says"] == "encrypted", "openssl" in caught.exception.hint)
        with self.assertRaisesRegex(a2a.UsageError, "cannot be read: no such file"):
            a2a.Server("echo", port=0, card_signing_key=str(self.folder / "none"))

    def open_encrypted(self, password):
        """Read an encrypted key, whose pass phrase is "secret", with what a file says."""
        path = self.folder / "password"
        path.write_bytes(password)
        (row,) = [row for row in ROWS["refused"] if row["name"] == "encrypted PKCS#8"]
        return a2a.read_signing_key(self.file(row["pem"]), str(path))

    def test_an_encrypted_key(self):
        try:
            import cryptography
        except ImportError:
            self.skipTest("no cryptography to open it")
        self.assertTrue(cryptography)
        plain = a2a.read_private_key(ROWS["keys"][0]["pem"].encode())
        for password in (b"secret", b"secret\n", b"secret\r\nmore"):
            self.assertEqual(plain, self.open_encrypted(password))
        for password in (b"", b"wrong"):
            with self.assertRaisesRegex(a2a.UsageError, "That password does not open it"):
                self.open_encrypted(password)
        with self.assertRaisesRegex(a2a.UsageError, "none cannot be read: no such file"):
            a2a.read_signing_key(self.file("x"), str(self.folder / "none"))

    def test_an_encrypted_key_without_the_package_for_it(self):
        missing = dict.fromkeys(("cryptography", "cryptography.hazmat.primitives.serialization"))
        gone = unittest.mock.patch.dict(sys.modules, missing)
        with gone, self.assertRaisesRegex(a2a.UsageError, "the package cryptography") as caught:
            self.open_encrypted(b"secret")
        self.assertIn("openssl", caught.exception.hint)


if __name__ == "__main__":
    unittest.main()
