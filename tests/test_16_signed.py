"""Chapter 16: signed cards, as a client takes them. What a signature is, tests chapter 6."""

import http.server
import json
import pathlib
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

ROWS = json.loads(
    (pathlib.Path(__file__).resolve().parent / "vectors" / "keys" / "private.json").read_text()
)["keys"]
KEYS = {row["name"]: a2a.read_private_key(row["pem"].encode()) for row in ROWS}
KEY, OTHER = KEYS["P-256 PKCS#8"], KEYS["Ed25519"]
RANDOM = bytes(16)
JWKS = a2a.write_jwks([KEY.public])
DONE = {"task": {"id": "t", "contextId": "c", "status": {"state": a2a.COMPLETED}}}


class Site(http.server.ThreadingHTTPServer):
    """An agent whose card and key set a test says; it keeps what was asked, in order.

    pages    path: a value, or (status, headers, body)
    asked    (verb, path, headers)
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked = []
        self.pages = {a2a.JWKS_PATH: JWKS}
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def card(self, **more):
        return {
            "name": "Signed",
            "description": "Adds",
            "version": "1",
            "supportedInterfaces": [
                {"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
            "capabilities": {},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            **more,
        }

    def sign(self, card=None, key=KEY, jku=None, form=None):
        """Put up a signed card; form names the only form that is signed."""
        jku = self.url + a2a.JWKS_PATH if jku is None else jku
        card = a2a.sign_card(card or self.card(), key, jku, RANDOM)
        if form:
            at = list(a2a.card_forms(card)).index(form)
            card = {**card, "signatures": [card["signatures"][at]]}
        self.pages[a2a.CARD_PATH] = card
        return card

    def paths(self, verb="GET"):
        return [path for known, path, _ in self.asked if known == verb]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(("GET", self.path, dict(self.headers)))
        page = self.server.pages.get(self.path, (404, {}, b""))
        self.send(*(page if isinstance(page, tuple) else (200, {}, json.dumps(page).encode())))

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(("POST", call["method"], dict(self.headers)))
        result = DONE
        if call["method"] == "GetExtendedAgentCard":
            result = self.server.pages["extended"]
        answer = {"jsonrpc": "2.0", "id": call["id"], "result": result}
        self.send(200, {}, json.dumps(answer).encode())

    def send(self, status, headers, body):
        self.send_response(status)
        fields = {"Content-Type": "application/json", "Content-Length": len(body), **headers}
        for name, value in fields.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)


class SignedCase(unittest.TestCase):
    def setUp(self):
        self.site = self.enterContext_(Site())
        self.warnings = []

    def enterContext_(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def client(self, agent=None, **options):
        options = {"warn": self.warnings.append, **options}
        return self.enterContext_(a2a.Client(agent or self.site.url, **options))

    def keys_file(self, value):
        folder = self.enterContext_(tempfile.TemporaryDirectory())
        path = pathlib.Path(folder) / "keys.json"
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return str(path)

    def unverifiable(self, said, **options):
        """Look that a card is usable, but not verified, for that reason."""
        client = self.client(**options)
        self.assertEqual("unverifiable", client.signature.outcome)
        self.assertRegex(client.signature.reason, said)
        self.assertRegex(self.warnings.pop(), "signed, but that cannot be verified: .*" + said)
        self.assertEqual(DONE, client.send("hi"))
        with self.assertRaisesRegex(a2a.CardUntrusted, "cannot be verified: .*" + said):
            self.client(require_signed_cards=True, **options).send("hi")


class OutcomeTest(SignedCase):
    def test_verified(self):
        """SIG-04: the keys come from the card's own origin, once, and then the call is made."""
        self.site.sign()
        client = self.client(require_signed_cards=True, bearer="secret-token")
        self.assertEqual(DONE, client.send("hi"))
        self.assertEqual("verified", client.signature.outcome)
        self.assertIn(KEY.public.thumbprint, client.signature.reason)
        self.assertEqual([a2a.CARD_PATH, a2a.JWKS_PATH], self.site.paths())
        self.assertEqual(["SendMessage"], self.site.paths("POST"))
        for _, _, headers in self.site.asked:
            self.assertNotIn("secret-token", str(headers))
        self.assertEqual([], [text for text in self.warnings if "sign" in text])

    def test_failed(self):
        """SIG-04: a flipped byte in the description; nothing is sent to such an agent."""
        self.site.pages[a2a.CARD_PATH] = {**self.site.sign(), "description": "Bdds"}
        for options in ({}, {"require_signed_cards": True}):
            with self.assertRaisesRegex(a2a.CardUntrusted, "wrong signature") as caught:
                self.client(**options).send("hi")
            self.assertEqual("failed", caught.exception.outcome)
            self.assertEqual("Bdds", caught.exception.raw["description"])
        self.assertEqual([], self.site.paths("POST"))

    def test_absent(self):
        """SIG-04: no failure, but for who asks for signatures."""
        self.site.pages[a2a.CARD_PATH] = self.site.card()
        client = self.client()
        self.assertEqual(DONE, client.send("hi"))
        self.assertEqual(a2a.CardCheck("absent"), client.signature)
        self.assertEqual([], self.warnings)
        with self.assertRaisesRegex(a2a.CardUntrusted, "is not signed") as caught:
            self.client(require_signed_cards=True).send("hi")
        self.assertEqual("absent", caught.exception.outcome)
        self.assertEqual(1, len(self.site.paths("POST")))

    def test_unverifiable(self):
        """SIG-04: a key that its own set does not have, or an algorithm that is not taken."""
        self.site.sign(key=OTHER)
        self.unverifiable("is not known")
        card = self.site.sign(form="served")
        protected = a2a.encode_base64url(b'{"alg":"HS256","kid":"x"}')
        card["signatures"][0]["protected"] = protected
        self.unverifiable("HS256")

    def test_what_was_signed_is_what_is_used(self):
        """SIG-03: a field that the signature does not cover is not there."""
        card = self.site.sign(form="specification", card=self.site.card(provider={"url": "u"}))
        self.site.pages[a2a.CARD_PATH] = {**card, "x-extra": 1, "documentationUrl": None}
        client = self.client(require_signed_cards=True)
        self.assertNotIn("x-extra", client.card)
        self.assertNotIn("signatures", client.card)
        self.assertEqual(1, client.raw_card["x-extra"])
        self.assertIn("specification form", client.signature.reason)

    def test_a_requirement_that_no_signature_covers_is_not_followed(self):
        schemes = {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}
        card = self.site.card(
            securitySchemes=schemes, securityRequirements=[{"schemes": {"k": {"list": []}}}]
        )
        self.site.sign(card, form="sdk")
        client = self.client(require_signed_cards=True)
        self.assertNotIn("securityRequirements", client.card)
        self.assertIn("sdk form", client.signature.reason)
        self.site.sign(card)
        self.assertIn("securityRequirements", self.client().card)

    def test_a_card_that_changes(self):
        """Once it is fetched again, it is verified again: before the next call."""
        self.site.sign()
        client = self.client()
        client.send("hi")
        self.site.sign(self.site.card(description="Adds and more"))
        self.expire(client)
        self.assertEqual("Adds and more", client.card["description"])
        self.assertEqual("verified", client.signature.outcome)
        self.expire(client)
        client.send("hi")
        self.assertEqual(2, self.site.paths().count(a2a.JWKS_PATH))
        self.site.pages[a2a.CARD_PATH] = {**self.site.sign(), "name": "Another"}
        self.expire(client)
        for _ in range(2):
            with self.assertRaises(a2a.CardUntrusted):
                client.send("hi")
        self.assertEqual(2, len(self.site.paths("POST")))

    def expire(self, client):
        client._link.card = client._link.card._replace(fresh_until=0.0)

    def test_the_extended_card(self):
        capabilities = {"extendedAgentCard": True}
        self.site.sign(self.site.card(capabilities=capabilities))
        shown = self.site.card(description="Adds for you")
        jku = self.site.url + a2a.JWKS_PATH
        self.site.pages["extended"] = a2a.sign_card(shown, KEY, jku, RANDOM)
        client = self.client(require_signed_cards=True)
        self.assertEqual("Adds for you", client.extended_card()["description"])
        self.assertEqual("verified", client.signature.outcome)
        self.site.pages["extended"]["name"] = "Another"
        with self.assertRaises(a2a.CardUntrusted):
            client.extended_card()
        self.site.pages["extended"] = shown
        with self.assertRaisesRegex(a2a.CardUntrusted, "is not signed"):
            client.extended_card()


class KeysTest(SignedCase):
    def test_where_keys_are_not_fetched(self):
        """SIG-05: from another origin, without https, from a private address, nowhere."""
        for jku in (
            "http://169.254.169.254/keys",
            "https://127.0.0.1:1/keys",
            f"http://127.0.0.1:{self.site.server_port + 1}/keys",
            "https://keys.example/jwks.json",
        ):
            with self.subTest(jku):
                self.site.sign(jku=jku)
                self.unverifiable("another origin")
        self.site.sign(jku="file:///etc/passwd")
        self.unverifiable("file")
        self.site.sign(jku="")
        self.unverifiable("nowhere")
        self.assertNotIn(a2a.JWKS_PATH, self.site.paths())

    def test_the_names_of_this_machine_are_one_origin(self):
        self.site.sign(jku=self.site.url.replace("127.0.0.1", "localhost") + a2a.JWKS_PATH)
        self.assertEqual("verified", self.client().signature.outcome)

    def test_key_sets_that_do_not_do(self):
        """SIG-05: redirects, endless sets, errors, something else."""
        good = json.dumps(JWKS).encode()
        large = json.dumps({**JWKS, "x": "x" * a2a.JKU_BYTES}).encode()
        for page, said in (
            ((302, {"Location": self.site.url + "/elsewhere"}, b""), "302, a redirect"),
            ((404, {}, good), "404"),
            ((200, {}, large), "larger|more than|too large|longer"),
            ((200, {}, json.dumps({"keys": [KEY.public.jwk] * 101}).encode()), "more than 100"),
            ((200, {}, b"<html>"), "without a JSON object"),
            ((200, {}, b"{}"), "no list of keys"),
            ((200, {}, b'{"keys":[]}'), "is not known"),
        ):
            with self.subTest(said):
                self.site.pages[a2a.JWKS_PATH] = page
                self.site.pages["/elsewhere"] = JWKS
                self.site.sign()
                self.unverifiable(said)
        self.assertNotIn("/elsewhere", self.site.paths())

    def test_a_card_cannot_make_us_fetch_and_fetch(self):
        """SIG-05: many signatures that name key sets, slow or broken ones: two are asked, once."""
        card = self.site.sign(form="served")
        signatures = []
        for number in (1, 1, 2, 2, 3, 4):
            jku = f"{self.site.url}/keys{number}"
            signatures += a2a.sign_card(self.site.card(), KEY, jku, RANDOM)["signatures"][:1]
        self.site.pages["/keys1"] = (500, {}, b"")
        self.site.pages[a2a.CARD_PATH] = {**card, "signatures": signatures}
        check = self.client().signature
        self.assertEqual("unverifiable", check.outcome)
        self.assertIn("too many places", check.reason)
        self.assertEqual([a2a.CARD_PATH, "/keys1", "/keys2"], self.site.paths())
        path = self.keys_file(JWKS)
        self.assertEqual("verified", self.client(trusted_card_keys=path).signature.outcome)

    def test_trusted_keys_alone_vouch(self):
        """SIG-05: with keys of the user's, what the card says of its keys does not matter."""
        path = self.keys_file(JWKS)
        self.site.sign(jku="https://keys.example/jwks.json")
        client = self.client(trusted_card_keys=path, require_signed_cards=True)
        self.assertEqual(DONE, client.send("hi"))
        self.assertEqual("verified", client.signature.outcome)
        self.site.sign(key=OTHER)
        self.site.pages[a2a.JWKS_PATH] = a2a.write_jwks([OTHER.public])
        self.unverifiable("is not known", trusted_card_keys=path)
        self.assertNotIn(a2a.JWKS_PATH, self.site.paths())

    def test_trusted_keys_for_a_card_that_the_user_gives(self):
        path = self.keys_file(JWKS)
        card = self.site.sign()
        file = self.keys_file(card)
        for agent in (card, file):
            client = self.client(agent, trusted_card_keys=path, require_signed_cards=True)
            self.assertEqual(DONE, client.send("hi"))
            changed = {**card, "name": "Another"}
            with self.assertRaises(a2a.CardUntrusted):
                self.client(changed, trusted_card_keys=path).send("hi")
            self.assertEqual("unverifiable", self.client(agent).signature.outcome)

    def test_key_files_that_do_not_do(self):
        for path, said in (
            (self.keys_file({})[:-9] + "none.json", "cannot be read"),
            (self.keys_file(b"-----BEGIN PUBLIC KEY-----"), "cannot be used: Not valid JSON"),
            (self.keys_file({"keys": {}}), "cannot be used: .*no list"),
            (self.keys_file({"keys": [{"kty": "oct"}]}), "no key that can be used"),
        ):
            with self.subTest(said), self.assertRaisesRegex(a2a.UsageError, said):
                self.client(trusted_card_keys=path)


if __name__ == "__main__":
    unittest.main()
