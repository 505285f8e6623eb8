"""A certified identity provider gives our client tokens, which our server checks."""

import contextlib
import html
import http.cookiejar
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import support

sys.path.insert(0, str(support.ROOT))
import a2a

AUDIENCE = "https://agent.example"


class Provider(support.Process):
    """The provider of oidc_server.mjs, ready to be asked."""

    def __init__(self, *tls):
        peers.need_js_sdk()
        self.port = support.free_port()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        super().__init__([*peers.node_command("oidc_server.mjs"), self.port, *tls])
        try:
            self.wait_for("ready")
        except BaseException:
            self.__exit__()
            raise


class Person:
    """Somebody with a browser, who fills in every form: signs in as ann, and agrees."""

    def __init__(self):
        jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        self.pages = []

    def open(self, url, decline=False):
        """Open a page and go through the forms until there is none; give the last page.

        decline   where a form has a way out, take it
        """
        body = None
        for _ in range(9):
            with self.opener.open(url, body, timeout=10) as answer:
                url, page = answer.geturl(), answer.read().decode()
            self.pages.append(page)
            form = re.search(r"<form[^>]*>(.*?)</form>", page, re.S)
            if form is None:
                return page
            action = re.search(r'action="([^"]*)"', form[0])
            url = urllib.parse.urljoin(url, html.unescape(action[1]) if action else url)
            found = {}
            for tag in re.findall(r"<(?:input|button)[^>]*>", form[0]):
                at = dict(re.findall(r'(\w+)="([^"]*)"', tag))
                if at.get("name") and at.get("name") != "abort":
                    found[at["name"]] = html.unescape(at.get("value", "")) or "ann"
            if decline and 'name="abort"' in page:
                body = urllib.parse.urlencode({**found, "abort": "yes"}).encode()
                with contextlib.suppress(urllib.error.HTTPError):
                    self.opener.open(url, body, timeout=10).close()
                return page
            body = urllib.parse.urlencode(found).encode()
        raise AssertionError("the forms do not end:\n" + page)


class OAuthTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.provider = Provider()
        cls.addClassCleanup(cls.provider.__exit__)
        cls.server = a2a.Server(
            lambda turn: f"{turn.caller.display}: {turn.text}",
            port=0,
            oidc_issuer=cls.provider.url,
            oidc_audience=[AUDIENCE],
            required_scopes=["use"],
        ).start()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = os.path.join(place.name, "tokens.json")
        self.debugged = []

    def client(self, client_id, secret="", transport="JSONRPC", **options):
        oauth = a2a.OAuthOptions(
            client_id, secret, **{"issuer": self.provider.url, "token_file": self.file, **options}
        )
        client = a2a.Client(
            self.server.url,
            oauth=oauth,
            transport=[transport],
            timeout_s=60,
            debug=self.debugged.append,
        )
        self.addCleanup(client.close)
        return client

    def kept(self):
        return json.loads(pathlib.Path(self.file).read_text())["tokens"]

    def test_a_machine_signs_in_by_its_secret(self):
        """AUTH-22: client credentials, by HTTP Basic, over each transport."""
        for transport in ("JSONRPC", "HTTP+JSON", "GRPC"):
            client = self.client("machine", "machine secret+", transport)
            self.assertEqual("machine: hi", a2a.text_of(client.send("hi")))
        self.assertEqual(1, sum("POST" in line for line in self.debugged if "/token" in line))
        shown = "\n".join(self.debugged)
        self.assertNotIn(self.kept()[0]["accessToken"], shown)
        self.assertNotIn("machine secret", shown)

    def test_a_wrong_secret_is_told(self):
        with self.assertRaises(a2a.AuthFailed) as caught:
            self.client("machine", "wrong").send("hi")
        self.assertIn("invalid_client", str(caught.exception))

    def test_a_person_signs_in_by_a_device_code(self):
        """AUTH-04: then stays so, by refresh tokens that rotate."""
        person = Person()

        def ask(text, url):
            person.open(re.search(r"or open (\S+)", text)[1])

        client = self.client("person", ask=ask, scope="openid offline_access")
        token = a2a.sign_in(client)
        self.assertEqual(("device", "by itself"), (token["grant"], token["renewal"]))
        self.assertEqual("ann: hi", a2a.text_of(client.send("hi")))
        refreshed = set()
        for _ in range(3):
            (entry,) = self.kept()
            refreshed.add(entry["refreshToken"])
            a2a.write_whole(self.file, json.dumps({"tokens": [{**entry, "expiresAt": 1}]}))
            later = self.client("", issuer="")
            self.assertEqual("ann: again", a2a.text_of(later.send("again")))
        self.assertEqual(3, len(refreshed))
        entry = self.kept()[0]
        self.assertEqual(1, len(a2a.sign_out(later)))
        a2a.write_whole(self.file, json.dumps({"tokens": [{**entry, "expiresAt": 1}]}))
        with self.assertRaises(a2a.SignInNeeded) as caught:
            later.send("hi")
        self.assertIn("invalid_grant", str(caught.exception))

    def test_a_person_signs_in_with_a_browser(self):
        """AUTH-15: PKCE, a loopback port of our choice, iss in the answer."""
        person = Person()

        def ask(text, url):
            threading.Thread(target=person.open, args=(url,)).start()

        for redirect in (("127.0.0.1", 0), ("localhost", support.free_port())):
            client = self.client("person", ask=ask, scope="openid", redirect=redirect)
            self.assertEqual("browser", a2a.sign_in(client, "browser")["grant"])
            self.assertIn("You are signed in", person.pages[-1])
        self.assertEqual("ann: hi", a2a.text_of(client.send("hi")))

    def test_a_person_who_declines(self):
        """AUTH-04: access_denied."""

        def ask(text, url):
            Person().open(re.search(r"or open (\S+)", text)[1], decline=True)

        with self.assertRaises(a2a.AuthFailed) as caught:
            a2a.sign_in(self.client("person", ask=ask))
        self.assertIn("the sign-in was declined", str(caught.exception))

    def test_a_token_without_the_scope_is_refused_and_the_scope_is_named(self):
        """AUTH-19: 403 is not answered with another token."""
        client = self.client("machine", "machine secret+")
        card = {**client.card, "securityRequirements": [{"schemes": {"oidc": {"list": []}}}]}
        oauth = a2a.OAuthOptions("machine", "machine secret+", self.provider.url, "admin")
        with a2a.Client(card, oauth=oauth) as other, self.assertRaises(a2a.NotAllowed) as caught:
            other.send("hi")
        self.assertIn('scope="use"', caught.exception.hint)

    def test_the_command_line_signs_in(self):
        """A2ACLI_AUTH_005, 007 and 010: OpenID Connect, from card to answer."""
        with tempfile.TemporaryDirectory() as home:
            env = {"HOME": home, "USERPROFILE": home}
            command = [sys.executable, support.A2A, "auth", "login", self.server.url,
                       "--oauth-client-id", "person", "-o", "json"]  # fmt: skip
            with support.Process(command, env=support.clean_environment(**env)) as child:
                line = child.wait_for("or open", "stderr")
                Person().open(re.search(r"or open (\S+)", line)[1])
                self.assertEqual(0, child.wait())
            self.assertEqual("device", json.loads(child.stdout)["tokens"][0]["grant"])
            done = support.run_cli("send", self.server.url, "hi", env=env)
            self.assertIn("ann: hi", done.stdout, done.stderr)


@unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
class TlsTest(unittest.TestCase):
    """A2ACLI_AUTH_009: the same over TLS, where a certificate stands in for the secret."""

    @classmethod
    def setUpClass(cls):
        cls.folder = support.certificates()
        cls.ca = str(cls.folder / "ca.pem")
        cls.provider = Provider(cls.folder / "server.pem", cls.ca)
        cls.addClassCleanup(cls.provider.__exit__)

    def request(self, client_id, secret="", **tls):
        options = a2a.OAuthOptions(client_id, secret, self.provider.url, certificate="cert" in tls)
        pool = a2a.Pool(a2a.TlsOptions(**tls))
        self.addCleanup(pool.close)
        detail = {"openIdConnectUrl": self.provider.url + "/.well-known/openid-configuration"}
        scheme = a2a.Scheme("o", "bearer", "a token", detail=detail)
        oauth = a2a.OAuth(pool, options, lambda text: None)
        return oauth.get(scheme, "https://agent.example", a2a.ENDLESS)

    def test_an_authority_of_our_own_is_trusted(self):
        token = self.request("poster", "poster-secret", ca=self.ca)
        self.assertEqual(3, len(token["accessToken"].split(".")))
        with self.assertRaises(a2a.TransportError) as caught:
            self.request("poster", "poster-secret")
        self.assertIn("not trusted", str(caught.exception))
        self.assertIn("--ca", caught.exception.hint)

    def test_a_certificate_signs_us_in_and_the_token_is_bound_to_it(self):
        """AUTH-24: tls_client_auth at the token endpoint (RFC 8705)."""
        token = self.request("cert", ca=self.ca, cert=str(self.folder / "client.pem"))
        claims = json.loads(a2a.decode_base64url(token["accessToken"].split(".")[1]))
        self.assertIn("x5t#S256", claims["cnf"])
        for name in ("plain.pem", "rogue.pem"):
            with self.assertRaises((a2a.AuthFailed, a2a.TransportError)):
                self.request("cert", ca=self.ca, cert=str(self.folder / name))

    def test_a_bound_token_is_good_with_its_certificate_alone(self):
        """AUTH-24: over mutual TLS, to a server that checks the binding (RFC 8705 section 3)."""
        arguments = ["--agent", "echo", "--oidc-issuer", self.provider.url,
                     "--oidc-audience", AUDIENCE, "--tls-client-ca", self.ca,
                     "--tls-cert", self.folder / "server.pem", "--oidc-ca", self.ca]  # fmt: skip
        with support.Served(*arguments) as server:
            own = {"ca": self.ca, "cert": str(self.folder / "client.pem")}
            for binding in ("JSONRPC", "GRPC"):
                oauth = a2a.OAuthOptions("cert", issuer=self.provider.url)
                with a2a.Client(server.url, oauth=oauth, transport=[binding], **own) as client:
                    self.assertEqual("hi", a2a.text_of(client.send("hi")))
            stolen = self.request("cert", **own)["accessToken"]
            own["cert"] = str(self.folder / "person.pem")
            other = a2a.Client(server.url, bearer=stolen, **own)
            with other, self.assertRaises(a2a.AuthFailed) as caught:
                other.send("hi")
            self.assertIn("invalid_token", caught.exception.hint)

    def test_a_secret_goes_by_form_where_the_provider_takes_no_basic(self):
        token = self.request("poster", "poster-secret", ca=self.ca)
        self.assertEqual("client-credentials", token["grant"])


if __name__ == "__main__":
    unittest.main()
