"""Signed cards with the official SDKs, both ways, and our signatures beside other libraries."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

ROWS = json.loads((support.VECTORS / "keys" / "private.json").read_text(encoding="utf-8"))["keys"]
PEMS = {row["alg"]: row["pem"] for row in ROWS}
KEYS = {alg: a2a.read_private_key(pem.encode()) for alg, pem in PEMS.items()}
JWKS = a2a.write_jwks([key.public for key in KEYS.values()])
RANDOM = bytes(16)

PLAIN = {
    "name": "Agent \U0001f600 \u2028",
    "description": "Adds",
    "supportedInterfaces": [
        {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "version": "1",
    "capabilities": {"streaming": False},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
}
SCHEMES = {
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
    "http": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
    "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://idp.example/x"}},
    "mtls": {"mtlsSecurityScheme": {"description": "A certificate"}},
}
PARAMS = {"n": 1e21, "f": 0.1, "z": -0.0, "i": 5, "e": "", "l": [], "o": {"x": None}, "t": True}
CARDS = {
    "plain": PLAIN,
    "schemes": {
        **PLAIN,
        "securitySchemes": SCHEMES,
        "securityRequirements": [{"schemes": {"oidc": {"list": ["read"]}}}],
    },
    "a requirement without scopes": {
        **PLAIN,
        "securitySchemes": SCHEMES,
        "securityRequirements": [{"schemes": {"key": {"list": []}}}, {"schemes": {"mtls": {}}}],
    },
    "empty values": {**PLAIN, "description": "", "skills": [], "documentationUrl": ""},
    "an extension": {
        **PLAIN,
        "capabilities": {"extensions": [{"uri": "u", "required": False, "params": PARAMS}]},
    },
    "unknown fields": {**PLAIN, "x-extra": {"a": 1}, "capabilities": {"x": 1, "streaming": True}},
}


class SdkTest(unittest.TestCase):
    def peer(self, language):
        # out of our folder, where `import a2a` would find our file
        command = [str(part) for part in peers.sdk_command(language, "sdk_sign")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        pipes["stderr"] = subprocess.DEVNULL  # where the SDKs tell of each signature that is none
        process = subprocess.Popen(command, env=support.clean_environment(), **pipes)

        def end():
            process.stdin.close()
            process.wait(support.DEADLINE_S)
            process.stdout.close()

        self.addCleanup(end)

        def ask(**request):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return ask

    def check_theirs(self, language, algorithms):
        ask = self.peer(language)
        for alg in algorithms:
            header = {"alg": alg, "typ": "JOSE", "kid": KEYS[alg].public.thumbprint}
            for name, card in CARDS.items():
                with self.subTest(name, alg=alg):
                    signed = ask(sign=card, pem=PEMS[alg], header=header)
                    known = a2a.read_jwks(JWKS)
                    check = a2a.verify_card(signed, lambda header, known=known: known)
                    self.assertEqual("verified", check.outcome, check.reason)
                    changed = {**signed, "name": "Mallory"}
                    check = a2a.verify_card(changed, lambda header, known=known: known)
                    self.assertEqual("failed", check.outcome)

    def check_ours(self, language, algorithms):
        ask = self.peer(language)
        for alg in algorithms:
            for name, card in CARDS.items():
                with self.subTest(name, alg=alg):
                    signed = a2a.sign_card(card, KEYS[alg], "https://a.example/keys", RANDOM)
                    request = {"jwks": JWKS, "algorithms": [alg]}
                    self.assertEqual("ok", ask(verify=signed, **request))
                    changed = {**signed, "version": "2"}
                    self.assertNotEqual("ok", ask(verify=changed, **request))

    def test_the_python_sdk_verifies_what_we_sign(self):
        self.check_ours("python", KEYS)

    def test_we_verify_what_the_python_sdk_signs(self):
        self.check_theirs("python", KEYS)

    def test_the_javascript_sdk_verifies_what_we_sign(self):
        self.check_ours("js", KEYS)

    def test_we_verify_what_the_javascript_sdk_signs(self):
        self.check_theirs("js", KEYS)

    def test_a_served_card_convinces_the_sdks(self):
        """SIG-01: the very bytes that go over the wire."""
        path = support.VECTORS.parent.parent / ".peers" / f"key-{os.getpid()}.pem"
        path.write_text(PEMS["ES256"], encoding="utf-8")
        self.addCleanup(path.unlink)
        server = a2a.Server("echo", port=0, card_signing_key=str(path), api_keys="k" * 20).start()
        self.addCleanup(server.stop)
        with a2a.Client(server.url) as client:
            card = client.raw_card
        for language in ("python", "js"):
            answer = self.peer(language)(verify=card, jwks=JWKS, algorithms=["ES256"])
            self.assertEqual("ok", answer, language)


class OracleTest(unittest.TestCase):
    """Beside cryptography and PyJWT, joserfc: the same signatures are good and the same are not."""

    def setUp(self):
        try:
            import cryptography
            import joserfc
            import jwt
        except ImportError as error:
            raise unittest.SkipTest(f"{error.name} is not installed") from None
        self.assertTrue(cryptography and joserfc and jwt)

    def mutants(self, signature, source):
        yield signature
        for _ in range(6):
            flipped = bytearray(signature)
            flipped[source.randrange(len(flipped))] ^= 1 << source.randrange(8)
            yield bytes(flipped)
        yield from (signature[1:], signature + b"\0", bytes(len(signature)), b"")

    def test_signatures_of_jwts(self):
        """AUTH-21: what PyJWT signs with every algorithm, whole and damaged."""
        import jwt

        source = random.Random(7515)
        names = {"RSA": "RS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
        count = 0
        for alg, row in a2a.ALGORITHMS.items():
            pem = PEMS[names.get(row.kind, "EdDSA")]
            public = KEYS[names.get(row.kind, "EdDSA")].public
            oracle = jwt.PyJWK({**public.jwk, "alg": alg if alg != "Ed25519" else "EdDSA"})
            for round_ in range(4):
                signed = jwt.encode({"n": round_}, pem, "EdDSA" if alg == "Ed25519" else alg)
                text, _, signature = signed.rpartition(".")
                for mutant in self.mutants(a2a.decode_base64url(signature), source):
                    token = f"{text}.{a2a.encode_base64url(mutant)}"
                    try:
                        jwt.decode(token, oracle, [oracle.algorithm_name])
                        expected = True
                    except jwt.InvalidSignatureError:
                        expected = False
                    self.assertIs(expected, public.verify(alg, text.encode(), mutant), token)
                    count += 1
        self.assertGreater(count, 450)

    def test_what_we_sign_joserfc_verifies(self):
        from joserfc import jwk, jws

        for alg, key in KEYS.items():
            protected, signature = a2a.sign_jws(b"payload", key, os.urandom(16), typ="JOSE")
            text = f"{protected}.{a2a.encode_base64url(b'payload')}.{signature}"
            for public in a2a.write_jwks([key.public])["keys"]:
                known = {**public, "kid": key.public.thumbprint}
                found = jws.deserialize_compact(text, jwk.import_key(known), [alg])
                self.assertEqual(b"payload", found.payload)
                self.assertEqual(key.public.thumbprint, jwk.import_key(key.public.jwk).thumbprint())

    def test_an_encrypted_key(self):
        """As OpenSSL writes it today, and as it did before PKCS#8."""
        from cryptography.hazmat.primitives import serialization

        private = serialization.load_pem_private_key(PEMS["RS256"].encode(), None)
        for form in ("PKCS8", "TraditionalOpenSSL"):
            pem = private.private_bytes(
                serialization.Encoding.PEM,
                getattr(serialization.PrivateFormat, form),
                serialization.BestAvailableEncryption(b"open sesame"),
            )
            with tempfile.TemporaryDirectory() as folder:
                key, password = pathlib.Path(folder, "key.pem"), pathlib.Path(folder, "password")
                key.write_bytes(pem)
                password.write_text("open sesame\n", encoding="utf-8")
                self.assertEqual(KEYS["RS256"], a2a.read_signing_key(str(key), str(password)))

    def test_random_keys(self):
        """Fresh keys of every kind, RSA of odd lengths among them, in both directions."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        curves = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()]
        fresh = [ec.generate_private_key(curve) for curve in curves]
        fresh += [ed25519.Ed25519PrivateKey.generate()]
        fresh += [rsa.generate_private_key(65537, bits) for bits in (2048, 2049, 2056, 3072)]
        for private in fresh:
            pem = private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            ours = a2a.read_private_key(pem)
            import jwt

            alg, signature = ours.sign(b"data", os.urandom(16))
            oracle = jwt.PyJWK({**ours.public.jwk, "alg": alg})
            self.assertTrue(oracle.Algorithm.verify(b"data", oracle.key, signature))
            self.assertTrue(ours.public.verify(alg, b"data", signature))
            for name in ours.public.algorithms:
                theirs = jwt.api_jws.encode(b"data", pem, name.replace("Ed25519", "EdDSA"))
                read = a2a.read_jws(theirs)
                self.assertTrue(ours.public.verify(name, read.signing_input, read.signature))


if __name__ == "__main__":
    unittest.main()
