"""Chapter 6: canonical JSON, keys, signatures, tokens and signed cards.

The vectors in vectors/keys are those of the RFCs, of cyberphone/json-canonicalization and of
C2SP/wycheproof; each file says where it comes from.
"""

import json
import pathlib
import random
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "keys"
RANDOM = bytes(range(16))
NOW = 1_800_000_000


def vectors(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def private_key(name):
    (row,) = [row for row in vectors("private.json")["keys"] if row["name"] == name]
    return a2a.read_private_key(row["pem"].encode())


KEY = private_key("P-256 PKCS#8")
ED_KEY = private_key("Ed25519")


def segment(value):
    """Give bytes, or the JSON of a value, in base64url."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return a2a.encode_base64url(data)


def token(claims, key=KEY, **header):
    """Sign a JWT; claims may be bytes that are no claims."""
    header = {"alg": key.public.algorithms[0], "typ": "at+jwt", **header}
    text = f"{segment(header)}.{segment(claims)}"
    return f"{text}.{segment(key.sign(text.encode(), RANDOM)[1])}"


class Base64Url(unittest.TestCase):
    def test_what_is_written_is_read(self):
        for size in range(70):
            data = random.Random(size).randbytes(size) if size else b""
            text = a2a.encode_base64url(data)
            self.assertEqual(data, a2a.decode_base64url(text))
            self.assertNotRegex(text, "[^A-Za-z0-9_-]")

    def test_only_the_canonical_form_is_read(self):
        for text in ("Zg==", "Zh", "Z", "Zm9v+", "a/b_", "Zm 9v", "Zm9v\n", "Zm9v.", "é"):
            with self.subTest(text), self.assertRaises(ValueError):
                a2a.decode_base64url(text)


class CanonicalJson(unittest.TestCase):
    def test_the_texts_of_cyberphone(self):
        for row in vectors("jcs.json")["texts"]:
            with self.subTest(row["name"]):
                value = a2a.read_json(row["input"].encode())
                self.assertEqual(row["output"].encode(), a2a.write_jcs(value))

    def test_the_numbers_of_appendix_b(self):
        for bits, text in vectors("jcs.json")["numbers"].items():
            with self.subTest(bits):
                (number,) = struct.unpack(">d", bytes.fromhex(bits))
                self.assertEqual(text.encode(), a2a.write_jcs(number))

    def test_numbers_lose_nothing(self):
        source = random.Random(8785)
        for _ in range(2000):
            (number,) = struct.unpack("<d", source.randbytes(8))
            if number - number == 0:
                text = a2a.write_jcs(number).decode()
                self.assertEqual(number, float(text))
                self.assertNotRegex(text, r"E|e-?0|\.e|\.0?$|^\.|e[0-9]")

    def test_whole_numbers_are_doubles(self):
        for number, text in (
            (12345678901234567890, "12345678901234567000"),
            (10**21, "1e+21"),
            (-0.0, "0"),
            (1.5e300, "1.5e+300"),
            (-1.5e-7, "-1.5e-7"),
            (True, "true"),
            (None, "null"),
        ):
            self.assertEqual(text.encode(), a2a.write_jcs(number))

    def test_keys_sort_by_utf16(self):
        """An emoji's surrogates come before U+FF20, though its code point is larger."""
        written = a2a.write_jcs({"\uff20": 1, "\U0001f600": 2, "a": 3, "": 4})
        self.assertEqual('{"":4,"a":3,"\U0001f600":2,"\uff20":1}'.encode(), written)

    def test_what_has_no_canonical_form(self):
        deep = 0
        for _ in range(a2a.JSON_DEPTH // 2):
            deep = {"a": [deep]}
        self.assertEqual(deep, json.loads(a2a.write_jcs(deep)))
        deep = [deep]
        for value in (
            float("nan"),
            float("inf"),
            10**400,
            "\ud800",
            {"\udc00": 1},
            {1: 2},
            b"",
            deep,
        ):
            with self.subTest(repr(value)[:20]), self.assertRaises(a2a.JoseError):
                a2a.write_jcs(value)


class Signatures(unittest.TestCase):
    def test_wycheproof(self):
        count = 0
        for group in vectors("wycheproof_signatures.json")["groups"]:
            key = a2a.read_jwk(group["jwk"])
            for number, valid, message, signature, comment in group["tests"]:
                with self.subTest(group["file"], test=number, comment=comment):
                    data, signature = map(a2a.decode_base64url, (message, signature))
                    self.assertIs(valid, key.verify(group["alg"], data, signature))
                    count += 1
        self.assertGreater(count, 900)

    def test_each_kind_of_key_signs_what_it_verifies(self):
        """Deterministic signatures are the very bytes that RFC 6979, RFC 8032 and OpenSSL give."""
        for row in vectors("private.json")["keys"]:
            with self.subTest(row["name"]):
                key = a2a.read_private_key(row["pem"].encode())
                for entropy in (RANDOM, bytes(16), b"\xff" * 32):
                    alg, signature = key.sign(b"sample", entropy)
                    self.assertEqual((row["alg"], row["signature"].lower()), (alg, signature.hex()))
                self.assertTrue(key.public.verify(alg, b"sample", signature))
                self.assertFalse(key.public.verify(alg, b"Sample", signature))

    def test_the_examples_of_rfc_8032(self):
        """Section 7.1, tests 1 to 3: of the hash of a seed some bits are cleared, some set."""
        for seed, public, message, signature in (
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
                "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e"
                "458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
            (
                "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                "af82",
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290"
                "ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
            ),
        ):
            der = bytes.fromhex("302e020100300506032b657004220420" + seed)
            pem = f"-----BEGIN PRIVATE KEY-----{a2a.encode_base64(der)}-----END PRIVATE KEY-----"
            key = a2a.read_private_key(pem.encode())
            self.assertEqual(public, a2a.decode_base64url(key.public.jwk["x"]).hex())
            self.assertEqual(signature, key.sign(bytes.fromhex(message), RANDOM)[1].hex())

    def test_no_other_bit_pattern_verifies(self):
        source = random.Random(1)
        for row in vectors("private.json")["keys"]:
            key = a2a.read_private_key(row["pem"].encode()).public
            signature = bytes.fromhex(row["signature"])
            flipped = bytearray(signature)
            flipped[source.randrange(len(flipped))] ^= 1 << source.randrange(8)
            for wrong in (
                bytes(flipped),
                signature[:-1],
                signature + b"\0",
                b"\0" + signature,
                bytes(len(signature)),
                b"\xff" * len(signature),
                b"",
            ):
                with self.subTest(row["name"], wrong=wrong[:4]):
                    self.assertFalse(key.verify(row["alg"], b"sample", wrong))

    def test_an_algorithm_of_another_kind_of_key_is_none(self):
        """AUTH-21: RS256 for an EC key, ES256 for an RSA key, HS256 or none for any."""
        rsa = private_key("RSA PKCS#8").public
        for key in (KEY.public, ED_KEY.public, rsa):
            for alg in (*a2a.ALGORITHMS, "HS256", "none", ""):
                if alg not in key.algorithms:
                    self.assertFalse(key.verify(alg, b"sample", b"\1" * 64), (key.kind, alg))
        self.assertEqual(["ES256"], KEY.public.algorithms)
        self.assertEqual(6, len(rsa.algorithms))

    def test_sums_that_meet_themselves(self):
        """P + P, P - P and nothing at all come out of the general sum too."""
        curve = a2a.CURVES["P-256"]
        base, other = curve.base, (curve.base[0], curve.base[1])
        (double,) = curve.affine([curve.double(curve.lift(*base), 1)])
        self.assertEqual([double], curve.affine([a2a.multiply(curve, (1, base), (1, other))]))
        self.assertEqual(0, a2a.multiply(curve, (1, base), (curve.n - 1, other))[2])
        self.assertEqual(curve.zero, a2a.multiply(curve, (0, base)))
        self.assertEqual(0, a2a.multiply(curve, (curve.n, base))[2])

    def test_the_secret_number_may_take_a_second_try(self):
        """With a group so small that the first tries fall outside, RFC 6979 goes on."""
        curve = a2a.Weierstrass(a2a.CURVES["P-256"].p, "1", "80" + "00" * 31, "1", "1")
        numbers = {a2a._nonce(curve, "sha256", secret, 5) for secret in range(1, 40)}
        self.assertEqual(39, len(numbers))
        self.assertLess(max(numbers), curve.n)


BAD_KEYS = {
    "no type": {"crv": "P-256"},
    "oct": {"kty": "oct", "k": "AAAA"},
    "a type that is no text": {"kty": ["RSA"]},
    "a curve that is not known": {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
    "X25519": {"kty": "OKP", "crv": "X25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    "off the curve": {**KEY.public.jwk, "x": KEY.public.jwk["y"]},
    "a short coordinate": {**KEY.public.jwk, "x": KEY.public.jwk["x"][:-4]},
    "a coordinate that is not reduced": {**KEY.public.jwk, "y": segment(b"\xff" * 32)},
    "padded": {**KEY.public.jwk, "x": KEY.public.jwk["x"] + "="},
    "a number for text": {**KEY.public.jwk, "x": 5},
    "the neutral point": {"kty": "OKP", "crv": "Ed25519", "x": segment(b"\1" + bytes(31))},
    "a point of order 8": {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": segment(
            bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
        ),
    },
    "y not reduced": {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": segment(b"\xee" + b"\xff" * 30 + b"\x7f"),
    },
    "no such y": {"kty": "OKP", "crv": "Ed25519", "x": segment(b"\2" + bytes(31))},
    "33 bytes": {"kty": "OKP", "crv": "Ed25519", "x": segment(bytes(33))},
    "RSA 512": {"kty": "RSA", "n": segment(b"\xff" * 64), "e": "AQAB"},
    "RSA 32768": {"kty": "RSA", "n": segment(b"\xff" * 4096), "e": "AQAB"},
    "even": {"kty": "RSA", "n": segment(b"\xff" * 255 + b"\xfe"), "e": "AQAB"},
    "e is 1": {"kty": "RSA", "n": segment(b"\xff" * 256), "e": "AQ"},
    "e is even": {"kty": "RSA", "n": segment(b"\xff" * 256), "e": "Ag"},
    "e costs": {"kty": "RSA", "n": segment(b"\xff" * 256), "e": segment(b"\xff" * 9)},
    "encryption": {**KEY.public.jwk, "use": "enc"},
    "signs only": {**KEY.public.jwk, "key_ops": ["sign"]},
    "for another algorithm": {**KEY.public.jwk, "alg": "RS256"},
    "a kid that is no text": {**KEY.public.jwk, "kid": 5},
    "nothing": {},
    "null": None,
    "a list": [],
}


class Keys(unittest.TestCase):
    def test_thumbprints(self):
        for row in vectors("jose.json")["thumbprints"]:
            with self.subTest(row["source"]):
                self.assertEqual(row["thumbprint"], a2a.read_jwk(row["jwk"]).thumbprint)

    def test_keys_that_must_not_verify(self):
        for name, jwk in BAD_KEYS.items():
            with self.subTest(name), self.assertRaises(a2a.JoseError) as caught:
                a2a.read_jwk(jwk)
            self.assertIn("cannot be used", str(caught.exception))

    def test_a_set_with_odd_keys(self):
        """AUTH-12: keys without kid, alg and use, keys of other types and uses in between."""
        jwks = {"keys": [*BAD_KEYS.values(), KEY.public.jwk, "no key", {**ED_KEY.public.jwk}]}
        keys = a2a.read_jwks(jwks)
        self.assertEqual(["P-256", "Ed25519"], [key.kind for key in keys])
        self.assertEqual(["", ""], [key.kid for key in keys])
        claims = a2a.read_token(token({"sub": "a"}, kid="unheard of"), keys)
        self.assertEqual({"sub": "a"}, claims)

    def test_no_set(self):
        for jwks in (None, [], {}, {"keys": {}}, {"keys": [{}] * 101}):
            with self.subTest(str(jwks)[:20]), self.assertRaises(a2a.JoseError):
                a2a.read_jwks(jwks)

    def test_our_set_is_read_by_us(self):
        (key,) = a2a.read_jwks(a2a.write_jwks([KEY.public]))
        self.assertEqual(KEY.public.thumbprint, key.kid)
        self.assertEqual(KEY.public.numbers, key.numbers)
        self.assertNotIn("d", a2a.write_jwks([KEY.public])["keys"][0])

    def test_the_named_key_alone_is_tried(self):
        named = a2a.read_jwk({**KEY.public.jwk, "kid": "one"})
        other = a2a.read_jwk({**KEY.public.jwk, "kid": "two"})
        bare = a2a.read_jwk(KEY.public.jwk)
        for kid, expected in (
            ("one", [named]),
            ("two", [other]),
            ("three", [bare]),
            (bare.thumbprint, [bare]),
            (None, [named, other, bare]),
        ):
            header = {"alg": "ES256", **({"kid": kid} if kid else {})}
            self.assertEqual(expected, a2a.fitting_keys([named, other, bare], header), kid)
        self.assertEqual([], a2a.fitting_keys([named], {"alg": "EdDSA", "kid": "one"}))
        self.assertEqual(a2a.KEYS_TRIED, len(a2a.fitting_keys([bare] * 50, {"alg": "ES256"})))

    def test_private_keys_that_cannot_sign(self):
        for row in vectors("private.json")["refused"]:
            with self.subTest(row["name"]), self.assertRaises(a2a.UsageError) as caught:
                a2a.read_private_key(row["pem"].encode())
            self.assertIn(row["says"], str(caught.exception))

    def test_a_private_key_out_of_range(self):
        for number in (bytes(32), b"\xff" * 32):
            der = (
                bytes.fromhex("30310201010420") + number + bytes.fromhex("a00a06082a8648ce3d030107")
            )
            pem = "-----BEGIN EC PRIVATE KEY-----\n%s\n-----END EC PRIVATE KEY-----"
            with self.assertRaises(a2a.UsageError):
                a2a.read_private_key((pem % a2a.encode_base64(der)).encode())

    def test_damage_anywhere_is_a_usage_error(self):
        source = random.Random(3)
        for name in ("P-256 PKCS#8", "P-521", "Ed25519", "RSA PKCS#8", "RSA PKCS#1"):
            (row,) = [row for row in vectors("private.json")["keys"] if row["name"] == name]
            lines = row["pem"].splitlines()
            der = a2a.decode_base64("".join(lines[1:-1]))
            for _ in range(400):
                broken = bytearray(der[: source.choice((len(der), source.randrange(len(der))))])
                for _ in range(source.randrange(1, 4)):
                    if broken:
                        broken[source.randrange(min(80, len(broken)))] = source.randrange(256)
                pem = "\n".join((lines[0], a2a.encode_base64(bytes(broken)) or "AA==", lines[-1]))
                try:
                    key = a2a.read_private_key(pem.encode())
                    if source.randrange(20) == 0:
                        key.sign(b"sample", RANDOM)
                except a2a.UsageError as error:
                    self.assertTrue(str(error))

    def test_halves_of_two_keys(self):
        (row,) = [row for row in vectors("private.json")["keys"] if row["name"] == "RSA PKCS#8"]
        key = a2a.read_private_key(row["pem"].encode())
        with self.assertRaisesRegex(a2a.UsageError, "halves do not fit"):
            key._replace(secret=key.secret + 2).sign(b"sample", RANDOM)

    def test_a_private_key_does_not_show_itself(self):
        self.assertNotIn(str(KEY.secret), f"{KEY!r} {KEY} {[KEY]}")


class Jws(unittest.TestCase):
    def test_the_examples_of_the_rfcs(self):
        for row in vectors("jose.json")["jws"]:
            with self.subTest(row["source"]):
                jws = a2a.read_jws(row["jws"])
                key = a2a.read_jwk(row["jwk"])
                self.assertTrue(key.verify(jws.header["alg"], jws.signing_input, jws.signature))

    def test_wycheproof(self):
        """AUTH-21: modified headers, paddings and keys.

        Beside HMAC, which we do not take, two kinds come out differently, and are marked so:
        keys that are labelled for another algorithm, and a key with weak primes.
        """
        for group in vectors("wycheproof_jws.json")["groups"]:
            keys = a2a.read_jwks({"keys": group["keys"]})
            for number, _, valid, text, comment in group["tests"]:
                with self.subTest(group["group"], test=number, comment=comment):
                    try:
                        jws = a2a.read_jws(text)
                        signers = a2a.fitting_keys(keys, jws.header)
                        found = any(key.verify(jws.header["alg"], *jws[2:]) for key in signers)
                    except a2a.JoseError:
                        found = False
                    self.assertIs(valid, found)

    def test_headers_that_are_refused(self):
        """AUTH-21: alg none, HS256, crit, b64, an algorithm that is no text."""
        for header, said in (
            ({}, "algorithm 'none' is not"),
            ({"alg": "none"}, "algorithm 'none' is not"),
            ({"alg": "HS256"}, "'HS256'"),
            ({"alg": "\x1b[31m" + "x" * 100}, r"'\\x1b\[31mx+ is"),
            ({"alg": None}, "algorithm"),
            ({"alg": 5}, "wrong type"),
            ({"alg": "ES256", "kid": {}}, "wrong type"),
            ({"alg": "ES256", "typ": 1}, "wrong type"),
            ({"alg": "ES256", "crit": ["exp"]}, "extensions"),
            ({"alg": "ES256", "crit": []}, "extensions"),
            ({"alg": "ES256", "b64": False}, "extensions"),
            ([], "no JSON object"),
            (b'{"alg":"ES256","alg":"none"}', "not JSON"),
            (b'{"alg":"ES256"', "not JSON"),
            (b"\xff", "not JSON"),
        ):
            with self.subTest(header), self.assertRaisesRegex(a2a.JoseError, said):
                a2a.read_header(segment(header))
        self.assertEqual({"alg": "ES256"}, a2a.read_header(segment({"alg": "ES256", "jku": None})))

    def test_what_is_no_token(self):
        good = token({})
        for text, said in (
            ("opaque-token", "three parts"),
            (good + ".", "three parts"),
            (good + ".AAAA", "three parts"),
            (good + "=", "base64url"),
            (good.replace(".", ".=", 1), "base64url"),
            ("A" * (a2a.TOKEN_BYTES + 1), "longer"),
            ("A" * a2a.TOKEN_BYTES, "three parts"),
            ("é.é.é", "not JSON"),
        ):
            with self.subTest(text[:30]), self.assertRaisesRegex(a2a.JoseError, said):
                a2a.read_jws(text)

    def test_what_we_sign_is_read(self):
        protected, signature = a2a.sign_jws(b"payload", ED_KEY, RANDOM, typ="JOSE", jku="u")
        jws = a2a.read_jws(f"{protected}.{segment(b'payload')}.{signature}")
        thumbprint = ED_KEY.public.thumbprint
        expected = {"alg": "EdDSA", "jku": "u", "kid": thumbprint, "typ": "JOSE"}
        self.assertEqual((expected, b"payload"), (jws.header, jws.payload))
        self.assertTrue(ED_KEY.public.verify("EdDSA", jws.signing_input, jws.signature))


RULES = a2a.TokenRules(["https://idp.example/"], ["https://api.example", "api"], ["read", "write"])
CLAIMS = {
    "iss": "https://idp.example/",
    "aud": "https://api.example",
    "exp": NOW + 60,
    "scope": "write read more",
    "sub": "alice",
}


class Tokens(unittest.TestCase):
    def refusal(self, rules=RULES, certificate="", **changes):
        """Give why claims are refused; "" when they are not. A change to None takes one out."""
        claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
        try:
            a2a.check_claims(claims, rules, NOW, certificate)
        except a2a.TokenRefused as error:
            self.assertEqual("invalid_token", error.error)
            return str(error)
        return ""

    def test_audiences(self):
        """AUTH-08: a text or a list; an empty list is none."""
        for audience in ("https://api.example", ["x", "api"], ["https://api.example", "other"]):
            self.assertEqual("", self.refusal(aud=audience))
        for audience in (
            [],
            "other",
            ["other"],
            [["api"]],
            {"api": 1},
            5,
            ["https://api.example/"],
        ):
            with self.subTest(audience):
                self.assertRegex(self.refusal(aud=audience), "is for .*, not for https://api.ex")
        self.assertIn("'other'", self.refusal(aud="other"))

    def test_a_token_without_audience(self):
        """AUTH-09: refused, but for who says that the client stands for it."""
        self.assertIn("audience mapper", self.refusal(aud=None))
        lenient = RULES._replace(client_is_audience=True)
        cognito = {"aud": None, "client_id": "api", "token_use": "access"}
        self.assertEqual("", self.refusal(lenient, **cognito))
        self.assertIn("'app'", self.refusal(lenient, **{**cognito, "client_id": "app"}))
        self.assertIn("no aud", self.refusal(**cognito))
        self.assertIn("no access token", self.refusal(lenient, **{**cognito, "token_use": "id"}))
        self.assertIn("'other'", self.refusal(lenient, aud="other", client_id="api"))

    def test_scopes(self):
        """AUTH-10: scope, scp, scopes, as text or list; roles where they count."""
        for claims in (
            {"scope": "read write"},
            {"scope": None, "scp": "write  read"},
            {"scope": None, "scp": ["read", "write"]},
            {"scope": None, "scopes": ["read", "write", 5, None]},
            {"scope": "read", "scp": ["write"]},
        ):
            with self.subTest(claims):
                self.assertEqual("", self.refusal(**claims))
        app = {**CLAIMS, "scope": None, "roles": ["read", "write"]}
        a2a.check_claims(app, RULES._replace(roles_are_scopes=True), NOW)
        for claims in (app, {**CLAIMS, "scope": "read"}, {**CLAIMS, "scope": 5, "scp": {}}):
            with self.subTest(claims), self.assertRaises(a2a.TokenRefused) as caught:
                a2a.check_claims(claims, RULES, NOW)
            self.assertEqual("insufficient_scope", caught.exception.error)
            self.assertEqual("read write", caught.exception.scope)
        self.assertIn("lacks the scope read write", str(self.insufficient()))

    def insufficient(self):
        with self.assertRaises(a2a.TokenRefused) as caught:
            a2a.check_claims({**CLAIMS, "scope": ""}, RULES, NOW)
        return caught.exception

    def test_times(self):
        """AUTH-21: exp and nbf with 30 seconds between clocks; numbers alone, floats too."""
        for times in (
            {"exp": NOW - 29},
            {"exp": NOW + 0.5},
            {"nbf": NOW + 30, "iat": NOW + 29.5},
        ):
            with self.subTest(times):
                self.assertEqual("", self.refusal(**times))
        for times, said in (
            ({"exp": NOW - 30}, "expired, 30 seconds ago"),
            ({"exp": None}, "no exp"),
            ({"exp": str(NOW + 60)}, "no number"),
            ({"exp": True}, "no number"),
            ({"nbf": NOW + 31}, "not valid yet"),
            ({"iat": NOW + 31}, "not valid yet"),
            ({"iat": "now"}, "no number"),
        ):
            with self.subTest(times):
                self.assertIn(said, self.refusal(**times))

    def test_issuers(self):
        """The string must be the very same; the refusal names both."""
        for issuer in (None, "https://idp.example", "https://idp.example/x", 5, []):
            with self.subTest(issuer):
                self.assertIn("not from https://idp.example/", self.refusal(iss=issuer))
        self.assertIn("'https://idp.example'", self.refusal(iss="https://idp.example"))
        self.assertIn(r"'\x1b[0m'", self.refusal(iss="\x1b[0m"))

    def test_other_tokens_of_the_same_issuer(self):
        for claims in (
            {"nonce": "n"},
            {"at_hash": "h", "typ": "Bearer"},
            {"at_hash": "h"},
            {"typ": "ID"},
            {"typ": "Refresh"},
            {"token_use": "id"},
        ):
            with self.subTest(claims):
                self.assertIn("no access token", self.refusal(**claims))
        self.assertEqual("", self.refusal(typ="Bearer", token_use="access", nonce="n"))

    def test_bound_tokens(self):
        bound = {"cnf": {"x5t#S256": "abc"}}
        self.assertEqual("", self.refusal(certificate="abc", **bound))
        self.assertIn("client certificate", self.refusal(certificate="abd", **bound))
        self.assertIn("client certificate", self.refusal(**bound))
        for cnf in ({"jkt": "abc"}, {}, "abc", []):
            self.assertIn("bound to a key", self.refusal(certificate="abc", cnf=cnf))
        self.assertIn("client cert", self.refusal(cnf={"x5t#S256": ""}))

    def test_a_whole_token(self):
        keys = [ED_KEY.public, KEY.public]
        for key in (KEY, ED_KEY):
            self.assertEqual(CLAIMS, a2a.read_token(token(CLAIMS, key), keys))
        for typ in ("JWT", "jwt", "application/at+jwt", None):
            self.assertEqual(CLAIMS, a2a.read_token(token(CLAIMS, typ=typ), keys))

    def test_tokens_that_do_not_verify(self):
        """AUTH-21: another key, another algorithm, an unknown kid, a changed text."""
        good = token(CLAIMS)
        head, body, signature = good.split(".")
        confused = segment({"alg": "EdDSA", "typ": "at+jwt"})
        public = a2a.read_jwk({**KEY.public.jwk, "kid": "k"})
        for text, keys, said in (
            (good, [ED_KEY.public], "does not have"),
            (good, [], "does not have"),
            (token(CLAIMS, kid="other"), [public], "does not have"),
            (f"{head}.{segment({**CLAIMS, 'sub': 'root'})}.{signature}", [public], "is wrong"),
            (f"{confused}.{body}.{signature}", [ED_KEY.public, public], "is wrong"),
            (f"{head}.{body}.", [public], "is wrong"),
            (token(CLAIMS, alg="none"), [public], "not taken"),
            (token(CLAIMS, typ="logout+jwt"), [public], "no access token"),
            (token([]), [public], "no claims"),
            (token(b'{"exp":NaN}'), [public], "NaN"),
            (token(b'{"sub":"a","sub":"b"}'), [public], "twice"),
            ("opaque", [public], "no JWT"),
        ):
            with self.subTest(said), self.assertRaisesRegex(a2a.TokenRefused, said):
                a2a.read_token(text, keys)

    def test_keys_in_the_header_are_not_looked_at(self):
        """AUTH-21: a token that brings its own key (jwk, jku, x5c) proves nothing."""
        text = token(CLAIMS, ED_KEY, jwk=ED_KEY.public.jwk, jku="https://evil.example", x5c=["AA"])
        with self.assertRaisesRegex(a2a.TokenRefused, "does not have"):
            a2a.read_token(text, [KEY.public])

    def test_the_client_has_many_names(self):
        for name in ("azp", "client_id", "appid", "cid"):
            self.assertEqual("app", a2a.token_client({name: "app", "sub": "x"}))
        self.assertIsNone(a2a.token_client({"azp": 5, "sub": "x"}))


CARD = {
    "name": "Agent",
    "description": "Adds \u2014 and more",
    "supportedInterfaces": [
        {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "version": "1",
    "capabilities": {"streaming": False},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
}
KEYED = {
    **CARD,
    "securitySchemes": {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
    "securityRequirements": [{"schemes": {"k": {"list": []}}}],
}


def known(*keys):
    return lambda header: [key.public for key in keys]


class Cards(unittest.TestCase):
    def signed(self, card, form, key=KEY, **header):
        """Sign one form of a card, as others do."""
        protected, signature = a2a.sign_jws(a2a.card_forms(card)[form], key, RANDOM, **header)
        return {**card, "signatures": [{"protected": protected, "signature": signature}]}

    def test_the_example_of_the_specification(self):
        """SIG-01: A2A section 8.4.1; required fields stay, other defaults go."""
        fragment = {
            "name": "Example Agent",
            "description": "",
            "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
            "skills": [],
        }
        whole = {**CARD, **fragment}
        form = json.loads(a2a.card_forms(whole)["specification"])
        self.assertEqual(
            '{"capabilities":{"pushNotifications":false,"streaming":false},"description":"",'
            '"name":"Example Agent","skills":[]}',
            a2a.write_jcs({name: form[name] for name in fragment}).decode(),
        )

    def test_defaults_are_left_out_on_both_sides(self):
        """SIG-01: `required: false`, empty texts, lists and maps; explicit optional ones stay."""
        extension = {
            "uri": "u",
            "required": False,
            "description": "",
            "params": {"a": "", "n": None},
        }
        card = {
            **KEYED,
            "provider": {"organization": "", "url": "u"},
            "documentationUrl": "",
            "capabilities": {"streaming": False, "extensions": [extension]},
        }
        forms = {name: json.loads(form) for name, form in a2a.card_forms(card).items()}
        self.assertEqual(["served", "specification", "sdk"], list(forms))
        self.assertEqual(card, forms["served"])
        params = {"a": "", "n": None}
        self.assertEqual(
            {"streaming": False, "extensions": [{"uri": "u", "params": params}]},
            forms["specification"]["capabilities"],
        )
        self.assertEqual("", forms["specification"]["documentationUrl"])
        self.assertEqual("", forms["specification"]["provider"]["organization"])
        self.assertEqual([{"schemes": {"k": {}}}], forms["specification"]["securityRequirements"])
        self.assertEqual(
            {"streaming": False, "extensions": [{"uri": "u"}]}, forms["sdk"]["capabilities"]
        )
        self.assertEqual({"url": "u"}, forms["sdk"]["provider"])
        self.assertNotIn("securityRequirements", forms["sdk"])

    def test_a_plain_card_has_one_form(self):
        self.assertEqual(["served"], list(a2a.card_forms(CARD)))
        self.assertEqual(1, len(a2a.sign_card(CARD, KEY, "u", RANDOM)["signatures"]))
        self.assertEqual(["served"], list(a2a.card_forms(a2a.sign_card(CARD, KEY, "u", RANDOM))))

    def test_each_form_is_signed(self):
        card = a2a.sign_card(KEYED, ED_KEY, "https://a.example/keys", RANDOM)
        self.assertEqual(len(a2a.card_forms(KEYED)), len(card["signatures"]))
        for signature, payload in zip(card["signatures"], a2a.card_forms(KEYED).values()):
            text = f"{signature['protected']}.{segment(payload)}.{signature['signature']}"
            jws = a2a.read_jws(text)
            self.assertTrue(ED_KEY.public.verify("EdDSA", *jws[2:]))
            self.assertEqual("https://a.example/keys", jws.header["jku"])
            self.assertEqual("JOSE", jws.header["typ"])
            self.assertEqual(ED_KEY.public.thumbprint, jws.header["kid"])

    def test_the_card_that_verified_is_the_one_to_use(self):
        """SIG-03: what the signed form does not hold is gone; unknown fields that it holds stay."""
        extra = {**KEYED, "x-extra": 1}
        check = a2a.verify_card(self.signed(extra, "served"), known(KEY))
        self.assertEqual(("verified", extra), (check.outcome, check.card))
        self.assertIn("served form", check.reason)
        for form in ("specification", "sdk"):
            check = a2a.verify_card(self.signed(extra, form), known(KEY))
            self.assertEqual("verified", check.outcome)
            self.assertNotIn("x-extra", check.card)
            self.assertIn(f"{form} form", check.reason)
        self.assertNotIn("securityRequirements", check.card)

    def test_a_changed_card_has_failed(self):
        """SIG-04: one letter of the description."""
        card = {**self.signed(CARD, "served"), "description": "Adds - and more"}
        check = a2a.verify_card(card, known(KEY))
        self.assertEqual(("failed", None), (check.outcome, check.card))
        self.assertIn(KEY.public.thumbprint, check.reason)

    def test_one_good_signature_is_enough(self):
        """SIG-06: whatever stands around it, in any order."""
        good = self.signed(CARD, "served")["signatures"][0]
        other = self.signed(CARD, "served", ED_KEY)["signatures"][0]
        wrong = {**good, "signature": segment(bytes(64))}
        symmetric = {"protected": segment({"alg": "HS256", "kid": "x"}), "signature": "AAAA"}
        odd = [
            "no object",
            {},
            {"protected": 5, "signature": []},
            {"protected": "e", "signature": "*"},
        ]
        for signatures, outcome in (
            ([wrong, good], "verified"),
            ([good, wrong], "verified"),
            ([*odd, symmetric, other, good], "verified"),
            ([wrong], "failed"),
            ([other, wrong], "failed"),
            ([other], "unverifiable"),
            ([symmetric], "unverifiable"),
            (odd, "unverifiable"),
            ({"protected": 1}, "unverifiable"),
            ([wrong] * a2a.CARD_SIGNATURES + [good], "failed"),
            ([], "absent"),
            (None, "absent"),
        ):
            with self.subTest(outcome, signatures=str(signatures)[:60]):
                check = a2a.verify_card({**CARD, "signatures": signatures}, known(KEY))
                self.assertEqual(outcome, check.outcome)
                self.assertEqual(outcome == "absent", check.reason == "")
        self.assertEqual("absent", a2a.verify_card(CARD, known(KEY)).outcome)

    def test_why_a_card_cannot_be_verified(self):
        def unreachable(header):
            raise a2a.PeerError(f"No keys at {header['jku']}")

        card = self.signed(CARD, "served", jku="https://a.example/k")
        check = a2a.verify_card(card, unreachable)
        self.assertEqual(("unverifiable", "No keys at https://a.example/k"), check[:2])
        self.assertIn("not known", a2a.verify_card(card, known(ED_KEY)).reason)
        broken = {**card, "capabilities": {"extensions": [{"params": {"n": "\ud800"}}]}}
        self.assertIn("canonical", a2a.verify_card(broken, known(KEY)).reason)


if __name__ == "__main__":
    unittest.main()
