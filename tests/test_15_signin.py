"""Chapter 15: which credentials a card wants, how they go along, and where to; redaction."""

import ast
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

SCHEMES = {
    "token": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
    "login": {"httpAuthSecurityScheme": {"scheme": "basic"}},
    "digest": {"httpAuthSecurityScheme": {"scheme": "Digest"}},
    "head": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
    "query": {"apiKeySecurityScheme": {"location": "query", "name": "api key"}},
    "cookie": {"apiKeySecurityScheme": {"location": "cookie", "name": "session"}},
    "upper": {"apiKeySecurityScheme": {"location": "HEADER", "name": "X-Key"}},
    "oauth": {"oauth2SecurityScheme": {"flows": {}}},
    "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://idp.example/"}},
    "mtls": {"mtlsSecurityScheme": {}},
}
SCHEMES["query"]["apiKeySecurityScheme"]["name"] = "api.key"


def card(*alternatives, schemes=SCHEMES):
    """Give a card that takes any of the alternatives, each a list of names of schemes."""
    requirements = [{"schemes": {name: {"list": []} for name in names}} for names in alternatives]
    return {"securitySchemes": schemes, "securityRequirements": requirements}


def read(value):
    """Read a card as a client does."""
    whole = {
        "name": "a",
        "supportedInterfaces": [{"url": "http://h", "protocolBinding": "JSONRPC"}],
    }
    return a2a.read_message("AgentCard", {**whole, **value}, lenient=True)


class ChoiceTest(unittest.TestCase):
    def chosen(self, value, **credentials):
        schemes = a2a.choose_requirement(value, a2a.Credentials(**credentials))
        return [scheme.name for scheme in schemes]

    def missing(self, value, **credentials):
        with self.assertRaises(a2a.CredentialsMissing) as caught:
            self.chosen(value, **credentials)
        return caught.exception

    def test_nothing_is_sent_where_nothing_is_asked_for(self):
        self.assertEqual([], self.chosen({}, bearer="t", basic="u:p", api_key="k"))
        self.assertEqual([], self.chosen(card([]), bearer="t"))

    def test_each_kind_meets_its_schemes(self):
        for name, given in (
            ("token", {"bearer": "t"}),
            ("oauth", {"bearer": "t"}),
            ("oidc", {"bearer": "t"}),
            ("login", {"basic": "u:p"}),
            ("head", {"api_key": "k"}),
            ("query", {"api_key": "k"}),
            ("cookie", {"api_key": {"cookie": "k"}}),
            ("upper", {"api_key": "k"}),
            ("mtls", {"certificate": True}),
        ):
            with self.subTest(name=name):
                self.assertEqual([name], self.chosen(card([name]), **given))
                self.missing(card([name]))

    def test_the_first_alternative_that_is_met_is_taken(self):
        value = card(["login"], ["head", "mtls"], ["token"], ["oauth"])
        self.assertEqual(["token"], self.chosen(value, bearer="t", api_key="k"))
        self.assertEqual(
            ["head", "mtls"], self.chosen(value, bearer="t", api_key="k", certificate=True)
        )

    def test_what_is_given_is_sent_also_where_nothing_would_do(self):
        self.assertEqual(["token"], self.chosen(card([], ["token"]), bearer="t"))
        self.assertEqual([], self.chosen(card(["token"], [])))

    def test_schemes_without_a_requirement_may_each_be_used(self):
        value = {"securitySchemes": SCHEMES}
        self.assertEqual([], self.chosen(value))
        self.assertEqual(["login"], self.chosen(value, basic="u:p"))

    def test_two_keys_at_once_need_a_key_each(self):
        value = card(["head", "query"])
        self.missing(value, api_key="k")
        self.missing(value, api_key={"head": "k"})
        keys = {"head": "k", "query": "l"}
        self.assertEqual(["head", "query"], self.chosen(value, api_key=keys))

    def test_what_is_missing_is_said_with_the_options_that_give_it(self):
        error = self.missing(card(["token"], ["head", "mtls"]), basic="u:p")
        self.assertEqual(
            "The agent asks for a bearer token "
            "or an API key (header X-Key) with a client certificate",
            str(error),
        )
        self.assertEqual("Give --bearer TOKEN or --api-key KEY or --cert FILE.", error.hint)
        self.assertEqual((4, "A2ACLI_ERR_CREDENTIALS_MISSING"), (error.exit_status, error.code))

    def test_a_scheme_that_is_not_supported_or_not_explained_is_said(self):
        for names, said in (
            (["digest"], "digest (HTTP digest), which is not supported"),
            (["lost"], "lost, which the card does not explain"),
        ):
            error = self.missing(card(names), bearer="t", basic="u:p", api_key="k")
            self.assertIn(said, str(error))
            self.assertEqual("", error.hint)

    def test_a_key_may_not_take_the_place_of_a_header_of_http(self):
        for location, name in (
            ("header", "Content-Length"), ("header", "Host"), ("header", "X-A\r\nX-B"),
            ("body", "x"), ("", ""),
        ):  # fmt: skip
            schemes = {"k": {"apiKeySecurityScheme": {"location": location, "name": name}}}
            with self.subTest(name=name):
                self.missing(card(["k"], schemes=schemes), api_key="secret")

    def test_cards_of_0_3_and_1_0_mean_the_same(self):
        """CARD-13: {"type":"http","scheme":"bearer"}, `in`, and requirements by name."""
        old = {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "oauth": {"type": "oauth2", "flows": {}},
                "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://idp.example/"},
                "mtls": {"type": "mutualTLS"},
            },
        }
        new = {name: SCHEMES[name] for name in old["securitySchemes"]}
        for name in new:
            with self.subTest(name=name):
                first = a2a.requirements(read({**old, "security": [{name: []}]}))
                second = a2a.requirements(read(card([name], schemes=new)))
                self.assertEqual(first, second)
                self.assertTrue(first[0][0].kind)


class AttachTest(unittest.TestCase):
    def attached(self, *names, **credentials):
        schemes = [a2a.read_scheme(name, SCHEMES[name]) for name in names]
        return a2a.attach(schemes, a2a.Credentials(**credentials))

    def test_a_token_and_a_password_go_into_authorization(self):
        """AUTH-17: names of schemes ignore case; Basic is UTF-8."""
        self.assertEqual(
            ({"authorization": "Bearer t.o-k"}, []), self.attached("token", bearer="t.o-k")
        )
        self.assertEqual(({"authorization": "Bearer t"}, []), self.attached("oauth", bearer="t"))
        self.assertEqual(
            ({"authorization": "Basic dTrDqQ=="}, []), self.attached("login", basic="u:\u00e9")
        )

    def test_a_key_goes_where_the_card_says(self):
        """AUTH-16: header, query and cookie; cookies share one header."""
        self.assertEqual(({"x-key": "k"}, []), self.attached("head", api_key="k"))
        self.assertEqual(({}, [("api.key", "a&b")]), self.attached("query", api_key="a&b"))
        self.assertEqual(({"cookie": "session=k"}, []), self.attached("cookie", api_key="k"))
        second = a2a.Scheme("s", "api_key", "", "other", "cookie")
        schemes = [a2a.read_scheme("cookie", SCHEMES["cookie"]), second]
        credentials = a2a.Credentials(api_key={"cookie": "k", "s": "l"})
        self.assertEqual({"cookie": "session=k; other=l"}, a2a.attach(schemes, credentials)[0])

    def test_a_certificate_needs_no_header(self):
        self.assertEqual(({}, []), self.attached("mtls", certificate=True))

    def test_what_no_header_can_carry_is_a_usage_error(self):
        for names, given in (
            ("token", {"bearer": "a\r\nX-Evil: 1"}),
            ("token", {"bearer": "caf\u00e9"}),
            ("head", {"api_key": " k"}),
            ("cookie", {"api_key": "k\n"}),
            ("login", {"basic": "no colon"}),
        ):
            with self.subTest(given=given), self.assertRaises(a2a.UsageError) as caught:
                self.attached(names, **given)
            self.assertNotIn("Evil", str(caught.exception))

    def test_headers_of_the_connection_are_not_given_by_a_card_or_a_user(self):
        """AUTH-16: a second Host or length would be read differently on the way."""
        for name in ("Content-Length", "host", "Transfer-Encoding", "Connection"):
            scheme = a2a.Scheme("k", "api_key", "an API key", name, "header")
            with self.subTest(name=name):
                with self.assertRaises(a2a.UsageError) as caught:
                    a2a.attach([scheme], a2a.Credentials(api_key="5"))
                self.assertIn(name.lower(), str(caught.exception).lower())
                with self.assertRaises(a2a.UsageError):
                    a2a.check_header_names(["x-trace", name])
        a2a.check_header_names(["Authorization", "X-Trace", "A2A-Extensions"])


class DestinationTest(unittest.TestCase):
    def check(self, url, origin="https://a.example", trusted=(), allow_http=False):
        a2a.check_destination(a2a.read_url(url), origin, trusted, allow_http)
        return True

    def refused(self, *arguments, **options):
        with self.assertRaises(a2a.UntrustedOrigin) as caught:
            self.check(*arguments, **options)
        return caught.exception

    def test_credentials_go_to_the_origin_of_the_card_alone(self):
        """AUTH-01: card from https://a.example, interface https://evil.example/rpc."""
        self.assertTrue(self.check("https://a.example/rpc"))
        self.assertTrue(self.check("https://a.example:443/x"))
        for url in (
            "https://evil.example/rpc",
            "https://a.example:8443/",
            "https://a.example.evil/",
        ):
            error = self.refused(url)
            self.assertIn("not sent to " + a2a.read_url(url).origin, str(error))
            self.assertIn("--trusted-origin", error.hint)
        self.assertIsInstance(error, a2a.AuthError)

    def test_an_origin_that_the_user_named_may_have_them(self):
        """AUTH-01: unless allowed."""
        self.assertTrue(self.check("https://b.example/", trusted=["https://b.example"]))
        self.assertTrue(self.check("https://anywhere.example/", origin=""))

    def test_plain_http_is_for_this_machine(self):
        """AUTH-23: refused to others, unless the user says so."""
        for origin in ("", "http://svc.cluster.example"):
            error = self.refused("http://svc.cluster.example/", origin=origin)
            self.assertIn("--allow-http-credentials", error.hint)
            self.assertTrue(
                self.check("http://svc.cluster.example/", origin=origin, allow_http=True)
            )
        self.assertTrue(self.check("http://127.0.0.1:8080/", origin=""))

    def test_the_names_of_this_machine_are_one(self):
        origins = [a2a.bound_origin(a2a.read_url(f"http://{h}:80")) for h in ("localhost", "[::1]")]
        self.assertEqual(["http://127.0.0.1"] * 2, origins)
        origin = a2a.bound_origin(a2a.read_url("http://localhost:8080/"))
        self.assertTrue(self.check("http://127.0.0.1:8080/", origin=origin))
        self.refused("http://127.0.0.1:8081/", origin=origin)

    def test_plain_http_is_refused_unless_said(self):
        """AUTH-23: the default."""
        with self.assertRaises(a2a.UntrustedOrigin) as caught:
            a2a.check_destination(a2a.read_url("http://h.example/"), "", ())
        self.assertIn("Credentials are not sent to http://h.example", str(caught.exception))


def messages(tree):
    """Give every text of the file that is no docstring, with x for what f-strings fill in."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
            yield "".join(
                getattr(value, "value", "x")
                for value in node.values
                if isinstance(value, ast.Constant)
            )
        elif isinstance(node, ast.Expr):  # of a text: a docstring
            parts.add(id(node.value))
        elif isinstance(getattr(node, "value", 0), str) and id(node) not in parts:
            yield node.value


class RedactionTest(unittest.TestCase):
    def test_what_we_say_ourselves_is_not_taken_for_a_secret(self):
        source = pathlib.Path(a2a.__file__).read_text(encoding="utf-8")
        said = list(messages(ast.parse(source)))
        self.assertGreater(len(said), 1000)
        self.assertEqual([], [text for text in said if a2a.redact(text) != text])

    def test_known_secrets_are_hidden_in_every_form(self):
        """AUTH-25: as they are, percent-encoded, in JSON and in Basic."""
        credentials = a2a.Credentials(bearer="b3ar/er", basic="me:p\u00e4ss", api_key={"x": 'k"ey'})
        basic = a2a.encode_base64("me:p\u00e4ss".encode())
        text = (
            'Authorization: Bearer b3ar/er\nx?y=b3ar%2Fer {"a":"k\\"ey"} k%22ey '
            'p\u00e4ss p%C3%A4ss k"ey p\\u00e4ss ' + basic
        )
        shown = a2a.redact(text, credentials.secrets())
        for part in ("b3ar", "p\u00e4ss", "ss", "ey", "bWU6"):
            self.assertNotIn(part, shown.replace(a2a.HIDDEN, "").replace("key", ""), shown)

    def test_a_secret_is_hidden_as_json_writes_it(self):
        """AUTH-25: with quotes escaped, in UTF-8 or in ASCII."""
        for text in ('{"a":"q\\"\u00e4zz"}', '{"a":"q\\"\\u00e4zz"}'):
            self.assertEqual('{"a":"' + a2a.HIDDEN + '"}', a2a.redact(text, ['q"\u00e4zz']))

    def test_names_tell_what_is_secret(self):
        for name in ("Authorization", "cookie", "X-API-Key", "api_key", "x-auth-token", "key",
                     "X-Goog-Key", "client_secret", "Password"):  # fmt: skip
            self.assertTrue(a2a.is_secret_name(name), name)
        for name in ("x-trace-id", "keyboard", "a2a-version", "monkey", "accept"):
            self.assertFalse(a2a.is_secret_name(name), name)

    def test_credentials_do_not_show_in_a_traceback(self):
        """AUTH-25: not by their repr either."""
        credentials = a2a.Credentials("t0ken", "me:pa55", "k3y")
        for part in ("t0ken", "pa55", "k3y"):
            self.assertNotIn(part, repr(credentials) + str(credentials))

    def test_a_short_secret_does_not_garble_words(self):
        self.assertEqual(f"a cat [{a2a.HIDDEN}]", a2a.redact("a cat [at]", ["at"]))

    def test_secrets_that_nobody_knows_are_hidden_by_their_place(self):
        """AUTH-25: bearer, query key, cookie, token response."""
        for text, secret in (
            ("Authorization: Bearer abcd.efgh", "abcd"),
            ("authorization: ApiKey zzzz", "zzzz"),
            ("Proxy-Authorization: Basic bWU6cHc=", "bWU6"),
            ("Cookie: a=b; session=zzz", "zzz"),
            ("Set-Cookie: sid=zzz; Path=/", "zzz"),
            ("X-API-Key: zzz", "zzz"),
            ("x-auth-token: zzz", "zzz"),
            ("GET /?api_key=zzz&a=b", "zzz"),
            ("GET /?a=b&access_token=zzz HTTP/1.1", "zzz"),
            ('{"access_token":"zzz","token_type":"Bearer"}', "zzz"),
            ('{"refresh_token": "zz\\"z"}', "zz"),
            ('{"client_secret":"zzz"}', "zzz"),
            ('{"authentication":{"scheme":"Bearer","credentials":"zzz"}}', "zzz"),
            ("http://me:zzz@proxy.example:3128", "zzz"),
        ):
            with self.subTest(text=text):
                shown = a2a.redact(text)
                self.assertNotIn(secret, shown)
                self.assertIn(a2a.HIDDEN, shown)

    def test_ordinary_text_stays(self):
        for text in (
            '{"message":{"parts":[{"text":"the basic idea, token by token"}]}}',
            "POST https://h.example/rpc?a=b",
            '{"nextPageToken":""}',
            "Content-Type: application/json",
        ):
            self.assertEqual(text, a2a.redact(text))

    def test_an_empty_secret_hides_nothing(self):
        self.assertEqual("abc", a2a.redact("abc", ["", ""]))


if __name__ == "__main__":
    unittest.main()
