"""Chapter 15: tokens by OAuth 2.0: who gets the secret, the grants, what is kept and renewed."""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import socket
import stat
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from providers import FakeProvider

OPENID = "/.well-known/openid-configuration"
SECRET = "s3cret/+ \u00e4"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class OAuthCase(unittest.TestCase):
    agent = "http://127.0.0.1"

    def setUp(self):
        self.debugged, self.warned, self.learnt, self.told = [], [], [], []
        self.pool = a2a.Pool(debug=self.debugged.append)
        self.addCleanup(self.pool.close)
        self.idp = FakeProvider()
        self.addCleanup(self.idp.__exit__)
        self.idp.pages["/token"] = {"access_token": "t1", "token_type": "Bearer"}
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = os.path.join(place.name, "sub", "tokens.json")

    def ask(self, text, url):
        self.told.append((text, url))

    def oauth(self, **options):
        options = {"client_id": "me", "learn": self.learnt.append, **options}
        return a2a.OAuth(self.pool, a2a.OAuthOptions(**options), self.warned.append)

    def scheme(self, scopes=(), document="", **flows):
        """Give a scheme of a card; a flow's URLs are paths of the provider."""
        at = {
            name: {key: self.idp.url + path for key, path in urls.items()}
            for name, urls in flows.items()
        }
        detail = {"flows": at}
        if document:
            detail["oauth2MetadataUrl" if flows else "openIdConnectUrl"] = self.idp.url + document
        return a2a.Scheme("o", "bearer", "a token", detail=detail, scopes=scopes)

    def machine(self):
        return self.scheme(clientCredentials={"tokenUrl": "/token"})

    def device(self, **more):
        urls = {"tokenUrl": "/token", "deviceAuthorizationUrl": "/device"}
        return self.scheme(deviceCode=urls, **more)

    def browser(self, **more):
        urls = {"tokenUrl": "/token", "authorizationUrl": "/authorize?x=1"}
        return self.scheme(authorizationCode=urls, **more)

    def get(self, oauth, scheme, **more):
        return oauth.get(scheme, self.agent, a2a.ENDLESS, **more)

    def refused(self, kind, oauth, scheme):
        with self.assertRaises(kind) as caught:
            self.get(oauth, scheme)
        return caught.exception


class ClientCredentialsTest(OAuthCase):
    def setUp(self):
        super().setUp()
        self.able = {"client_secret": SECRET, "issuer": self.idp.url}

    def test_the_secret_goes_along_as_basic(self):
        """AUTH-17: each half is form-encoded before they are joined (RFC 6749 section 2.3.1)."""
        self.idp.pages[OPENID] = self.idp.metadata()
        entry = self.get(self.oauth(client_id="m:e", **self.able), self.machine())
        self.assertEqual("t1", entry["accessToken"])
        path, headers, form = self.idp.requests[-1]
        self.assertEqual("/token", path)
        self.assertEqual({"grant_type": "client_credentials", "client_id": "m:e"}, form)
        pair = base64.b64decode(headers["authorization"].partition(" ")[2]).decode()
        self.assertEqual("m%3Ae:s3cret%2F%2B+%C3%A4", pair)

    def test_scopes_and_audience_are_asked_for(self):
        scheme = self.machine()._replace(scopes=["b", "a"])
        oauth = self.oauth(scope="c a", audience="https://api.example", **self.able)
        self.get(oauth, scheme)
        form = self.idp.forms("/token")[0]
        self.assertEqual(("a b c", "https://api.example"), (form["scope"], form["audience"]))

    def test_the_secret_goes_into_the_form_where_the_provider_says_so(self):
        methods = ["private_key_jwt", "client_secret_post"]
        self.idp.pages[OPENID] = self.idp.metadata(token_endpoint_auth_methods_supported=methods)
        self.get(self.oauth(**self.able), self.machine())
        _, headers, form = self.idp.requests[-1]
        self.assertEqual(("me", SECRET), (form["client_id"], form["client_secret"]))
        self.assertNotIn("authorization", headers)

    def test_a_provider_that_takes_no_basic_is_asked_once_more(self):
        """Where nothing says what it takes."""
        self.idp.pages["/token"] = lambda form: (
            {"access_token": "t2"}
            if "client_secret" in form
            else (401, {"error": "invalid_client"})
        )
        oauth = self.oauth(token_file=self.file, **self.able)
        entry = self.get(oauth, self.machine())
        self.assertEqual("t2", entry["accessToken"])
        self.assertEqual(2, len(self.idp.forms("/token")))
        self.assertEqual("t2", oauth.renew(entry, a2a.ENDLESS)["accessToken"])
        self.assertEqual(4, len(self.idp.forms("/token")))
        self.idp.pages["/token"] = (401, {"error": "invalid_client"})
        error = self.refused(a2a.AuthFailed, self.oauth(**self.able), self.machine())
        self.assertIn("No token was given: invalid_client", str(error))
        self.assertIn("id and secret", error.hint)

    def test_the_secret_goes_to_nobody_whom_the_user_did_not_name(self):
        """AUTH-01: a card chooses its token URL, and could collect secrets."""
        error = self.refused(a2a.AuthFailed, self.oauth(client_secret=SECRET), self.machine())
        self.assertIn(self.idp.url + "/token", str(error))
        self.assertIn("--oauth-issuer", error.hint)
        with FakeProvider() as other:
            other.pages[OPENID] = other.metadata()
            oauth = self.oauth(client_secret=SECRET, issuer=other.url)
            error = self.refused(a2a.AuthFailed, oauth, self.machine())
            self.assertIn(f"{self.idp.url}/token, which is not of {other.url}", str(error))
            self.assertEqual([], other.forms("/token"))
            self.refused(a2a.AuthFailed, oauth, self.scheme(document=OPENID))
        self.assertEqual([], self.idp.asked)

    def test_the_metadata_of_the_named_issuer_decide(self):
        """AUTH-01: a card cannot lead the secret to another path of the same host."""
        self.idp.pages[OPENID] = self.idp.metadata()
        scheme = self.scheme(clientCredentials={"tokenUrl": "/other-tenant/token"})
        self.get(self.oauth(**self.able), scheme)
        self.assertIn("POST /token", self.idp.asked)
        self.assertNotIn("POST /other-tenant/token", self.idp.asked)

    def test_an_issuer_without_metadata_is_an_origin(self):
        self.assertEqual("t1", self.get(self.oauth(**self.able), self.machine())["accessToken"])
        error = self.refused(a2a.AuthFailed, self.oauth(**self.able), self.scheme(document=OPENID))
        self.assertIn("No metadata of", str(error))

    def test_a_card_may_name_the_provider_by_its_metadata(self):
        """AUTH-07: openIdConnectUrl."""
        self.idp.pages["/realms/r" + OPENID] = self.idp.metadata("/realms/r")
        self.idp.pages["/realms/r/token"] = {"access_token": "t3", "token_type": "bearer"}
        oauth = self.oauth(client_secret=SECRET, issuer=self.idp.url + "/realms/r")
        scheme = self.scheme(document="/realms/r" + OPENID)
        self.assertEqual("t3", self.get(oauth, scheme)["accessToken"])

    def test_the_user_may_name_the_provider_by_its_metadata(self):
        """AUTH-07: an issuer that says something else than where its metadata are."""
        place = "/policy" + OPENID
        token_endpoint = self.idp.url + "/token"
        self.idp.pages[place] = self.idp.metadata("/tenant/v2.0/", token_endpoint=token_endpoint)
        self.idp.pages["/token"] = {"access_token": "t4", "token_type": "bearer"}
        oauth = self.oauth(client_secret=SECRET, issuer=self.idp.url + place)
        self.assertEqual("t4", self.get(oauth, self.scheme(document=place))["accessToken"])
        self.idp.pages[place]["issuer"] = "https://elsewhere.example"
        oauth = self.oauth(client_secret=SECRET, issuer=self.idp.url + place)
        error = self.refused(a2a.AuthFailed, oauth, self.scheme(document=place))
        self.assertIn("elsewhere.example", str(error))

    def test_answers_that_hold_no_token(self):
        for page, said in (
            ({}, "its answer holds no token"),
            ({"access_token": 5}, "its answer holds no token"),
            ({"access_token": "t\r\nX-Evil: 1"}, "its answer holds no token"),
            ({"access_token": "two words"}, "its answer holds no token"),
            ({"access_token": "t", "error": "server_error"}, "server_error"),
            ((400, {"error": "invalid_scope", "error_description": "no \x1b[31m x"}), "no ?[31m x"),
            ({"access_token": "t", "token_type": "DPoP"}, "DPoP tokens only"),
        ):
            self.idp.pages["/token"] = page
            with self.subTest(page=page):
                error = self.refused(a2a.AuthFailed, self.oauth(**self.able), self.machine())
                self.assertIn(said, str(error))

    def test_a_provider_that_is_away_is_not_taken_for_the_agent(self):
        gone = f"http://127.0.0.1:{support.free_port()}"
        scheme = a2a.Scheme(
            "o",
            "bearer",
            "a token",
            detail={"flows": {"clientCredentials": {"tokenUrl": gone + "/token"}}},
        )
        with self.assertRaises(a2a.TransportError) as caught:
            self.get(self.oauth(client_secret=SECRET, issuer=gone), scheme)
        self.assertNotIsInstance(caught.exception, a2a.Unreachable)
        metadata = self.idp.metadata(token_endpoint=gone + "/token")
        self.idp.pages[OPENID] = metadata
        with self.assertRaises(a2a.TransportError) as caught:
            self.get(self.oauth(**self.able), self.scheme(document=OPENID))
        self.assertNotIsInstance(caught.exception, a2a.Unreachable)

    def test_a_certificate_stands_in_for_the_secret(self):
        """AUTH-24: RFC 8705, at the endpoint for those who have one."""
        aliases = {"token_endpoint": self.idp.url + "/mtls/token"}
        self.idp.pages["/mtls/token"] = {"access_token": "bound"}
        self.idp.pages[OPENID] = self.idp.metadata(
            token_endpoint_auth_methods_supported=["tls_client_auth"],
            mtls_endpoint_aliases=aliases,
        )
        oauth = self.oauth(issuer=self.idp.url, certificate=True)
        self.assertTrue(oauth.alone(self.machine(), self.agent))
        self.assertEqual("bound", self.get(oauth, self.machine())["accessToken"])
        self.assertEqual("me", self.idp.forms("/mtls/token")[0]["client_id"])
        self.idp.pages[OPENID] = self.idp.metadata()
        oauth = self.oauth(issuer=self.idp.url, certificate=True)
        error = self.refused(a2a.CredentialsMissing, oauth, self.machine())
        self.assertIn("the provider offers client-credentials", str(error))
        self.assertIn("--cert", error.hint)

    def test_no_secret_is_logged(self):
        """AUTH-25: of requests and answers at the provider."""
        self.idp.pages["/token"] = {"access_token": "t0ken", "refresh_token": "r3fresh"}
        oauth = self.oauth(**self.able)
        self.get(oauth, self.machine())
        shown = "\n".join(self.debugged)
        self.assertIn("/token", shown)
        for secret in (SECRET, "t0ken", "r3fresh", "s3cret"):
            self.assertNotIn(secret, shown)
        self.assertEqual({"t0ken", "r3fresh"}, set(self.learnt))
        self.assertNotIn("s3cret", repr(a2a.OAuthOptions(client_secret=SECRET)))

    def test_a_client_that_nobody_knows(self):
        error = self.refused(a2a.CredentialsMissing, self.oauth(client_id=""), self.machine())
        self.assertIn("--oauth-client-id", error.hint)
        error = self.refused(a2a.AuthFailed, self.oauth(**self.able), self.scheme())
        self.assertIn("does not say where", str(error))

    def test_only_grants_that_are_spoken(self):
        """AUTH-22: of several flows one that can be used; implicit and password are none."""
        scheme = self.scheme(implicit={"authorizationUrl": "/a"}, password={"tokenUrl": "/token"})
        oauth = self.oauth(ask=self.ask, **self.able)
        self.assertFalse(oauth.alone(scheme, self.agent))
        self.assertIn(
            "nothing that is spoken", str(self.refused(a2a.CredentialsMissing, oauth, scheme))
        )
        several = self.scheme(
            authorizationCode={"tokenUrl": "/token", "authorizationUrl": "/authorize"},
            clientCredentials={"tokenUrl": "/token"},
            password={"tokenUrl": "/token"},
        )
        self.assertEqual("client-credentials", self.get(oauth, several)["grant"])


class DeviceTest(OAuthCase):
    def setUp(self):
        super().setUp()
        self.pauses = []
        self.pool.pause = lambda seconds, patience: self.pauses.append(seconds)
        self.start = {"device_code": "d3vice", "user_code": "AB-CD", "expires_in": 600}
        self.start["verification_uri"] = "https://idp.example/device"
        self.idp.pages["/device"] = self.start

    def sign_in(self, *answers, scheme=None, **options):
        self.idp.pages["/token"] = [*answers, {"access_token": "t1", "expires_in": "3600"}]
        return self.get(self.oauth(ask=self.ask, **options), scheme or self.device())

    def test_the_code_is_shown_and_the_token_fetched(self):
        """AUTH-04: interval and verification_uri_complete absent."""
        entry = self.sign_in(scheme=self.device(scopes=["a"]))
        self.assertEqual(("t1", "device"), (entry["accessToken"], entry["grant"]))
        ((text, url),) = self.told
        self.assertEqual("", url)
        self.assertIn(
            "https://idp.example/device\nand enter the code AB-CD within 600 seconds", text
        )
        self.assertEqual([{"scope": "a", "client_id": "me"}], self.idp.forms("/device"))
        form = {"grant_type": DEVICE, "device_code": "d3vice", "client_id": "me"}
        self.assertEqual([form], self.idp.forms("/token"))
        self.assertNotIn("d3vice", text + "".join(self.debugged))

    def test_it_waits_before_each_poll(self):
        """AUTH-05: before the first as well. AUTH-04: default 5, 0 is no busy loop, 600 stays."""
        pending = (400, {"error": "authorization_pending"})
        for given, expected in (
            ({}, 5.0),
            ({"interval": 2}, 2.0),
            ({"interval": "3"}, 3.0),
            ({"interval": 0}, 1.0),
            ({"interval": -1}, 5.0),
            ({"interval": 500}, 500.0),
            ({"interval": None}, 5.0),
        ):
            self.pauses.clear()
            self.idp.pages["/device"] = {**self.start, **given}
            with self.subTest(given=given):
                self.sign_in(pending, pending)
                self.assertEqual([expected] * 3, self.pauses)

    def test_it_slows_down_for_good(self):
        pending, slow = (400, {"error": "authorization_pending"}), (400, {"error": "slow_down"})
        self.sign_in(slow, pending, slow)
        self.assertEqual([5.0, 10.0, 10.0, 15.0], self.pauses)

    def test_it_backs_off_when_the_network_fails(self):
        """AUTH-05: a connection that is cut, a provider that is overloaded."""
        later = (503, {"error": "server_error"})
        self.sign_in(None, later, (429, {}), {"error": "authorization_pending"})
        self.assertEqual([5.0, 10.0, 20.0, 40.0, 40.0], self.pauses)

    def test_what_ends_it(self):
        """AUTH-04: access_denied, expired_token and all that is unknown."""
        for page, said in (
            ((400, {"error": "access_denied"}), "the sign-in was declined"),
            ((400, {"error": "expired_token"}), "the code was not used in time"),
            ((400, {"error": "invalid_grant"}), "invalid_grant"),
        ):
            self.idp.pages["/token"] = page
            with self.subTest(page=page):
                error = self.refused(a2a.AuthFailed, self.oauth(ask=self.ask), self.device())
                self.assertIn(said, str(error))
        self.idp.pages["/token"] = (404, {})
        error = self.refused(a2a.AuthFailed, self.oauth(ask=self.ask), self.device())
        self.assertIn("answered 404", str(error))

    def test_it_ends_when_the_code_expires(self):
        """AUTH-04: interval 600, expires_in 30; here 0.2, and the wait is cut to it."""
        del self.pool.pause
        self.idp.pages["/device"] = {**self.start, "interval": 600, "expires_in": 0.2}
        error = self.refused(a2a.AuthFailed, self.oauth(ask=self.ask), self.device())
        self.assertIn("not used in time", str(error))
        self.assertEqual([], self.idp.forms("/token"))

    def test_the_limit_of_the_user_and_close_end_the_wait(self):
        del self.pool.pause
        oauth = self.oauth(ask=self.ask)
        with self.assertRaises(a2a.TimeoutExpired):
            ends = a2a.Patience(time.monotonic() + 0.3, None, 0.3)
            oauth.get(self.device(), self.agent, ends)
        threading.Timer(0.1, self.pool.close).start()
        self.assertIn("closed", str(self.refused(a2a.TransportError, oauth, self.device())))

    def test_only_addresses_of_the_web_are_shown(self):
        for name in ("verification_uri", "verification_uri_complete"):
            for uri in (
                "javascript:alert(1)",
                "file:///etc/passwd",
                "http://idp.example/",
                "https://u:p@idp.example/",
                "https://idp.example/\x1b[2J",
            ):
                self.idp.pages["/device"] = {**self.start, name: uri}
                with self.subTest(name=name, uri=uri):
                    self.refused(a2a.AuthFailed, self.oauth(ask=self.ask), self.device())
        self.assertEqual([], self.told)
        self.idp.pages["/device"] = {
            **self.start,
            "user_code": "A\x1b[31m\nB",
            "verification_uri_complete": "https://idp.example/d?user_code=AB",
        }
        self.sign_in()
        self.assertIn("the code A?[31m B within", self.told[0][0])
        self.assertIn("or open https://idp.example/d?user_code=AB", self.told[0][0])

    def test_an_old_name_of_the_address_is_understood(self):
        self.start["verification_url"] = self.start.pop("verification_uri")
        self.sign_in()
        self.assertIn("https://idp.example/device", self.told[0][0])

    def test_a_start_that_says_too_little_is_refused(self):
        for name in ("device_code", "user_code", "verification_uri"):
            self.idp.pages["/device"] = {k: v for k, v in self.start.items() if k != name}
            self.refused(a2a.AuthFailed, self.oauth(ask=self.ask), self.device())
        self.idp.pages["/device"] = (400, {"error": "unauthorized_client"})
        error = self.refused(a2a.AuthFailed, self.oauth(ask=self.ask), self.device())
        self.assertIn("unauthorized_client", str(error))

    def test_nobody_is_asked_where_nobody_is(self):
        error = self.refused(a2a.SignInNeeded, self.oauth(), self.device())
        self.assertEqual(4, error.exit_status)
        self.assertEqual([], self.idp.asked)
        oauth = self.oauth(client_secret=SECRET, issuer=self.idp.url)
        self.refused(a2a.SignInNeeded, oauth, self.device())
        self.assertEqual([], self.idp.forms("/device"))

    def test_the_device_code_comes_before_the_browser(self):
        self.idp.pages[OPENID] = self.idp.metadata()
        self.assertEqual("device", self.sign_in(scheme=self.scheme(document=OPENID))["grant"])
        kinds = ["authorization_code", "refresh_token"]
        self.idp.pages[OPENID] = self.idp.metadata(grant_types_supported=kinds)
        grants = a2a.find_grants(
            self.pool, self.scheme(document=OPENID), a2a.OAuthOptions(), self.agent, a2a.ENDLESS
        )
        self.assertEqual(["browser"], list(grants))


class BrowserTest(OAuthCase):
    """AUTH-15: the browser comes back to this machine."""

    def visit(self, url):
        """Fetch a page as a browser does; give (status, text)."""
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def sign_in(self, answer, scheme=None, document=None, **options):
        """Sign in with a browser that does answer(redirect, parameters)."""
        threads, self.pages = [], []

        def ask(text, url):
            parts = urllib.parse.urlsplit(url)
            self.authorize = dict(urllib.parse.parse_qsl(parts.query))
            self.opened = url
            self.assertIn(url, text)
            thread = threading.Thread(target=lambda: answer(self.authorize["redirect_uri"]))
            threads.append(thread)
            thread.start()

        oauth = self.oauth(ask=ask, **options)
        try:
            return oauth.obtain(scheme or self.browser(), self.agent, a2a.ENDLESS, "browser")
        finally:
            for thread in threads:
                thread.join()

    def come_back(self, redirect, **fields):
        fields = {"state": self.authorize["state"], **fields}
        self.pages.append(self.visit(redirect + "?" + urllib.parse.urlencode(fields)))

    def test_a_code_is_traded_for_a_token(self):
        entry = self.sign_in(lambda redirect: self.come_back(redirect, code="c&1"), scope="a b")
        self.assertEqual(("t1", "browser"), (entry["accessToken"], entry["grant"]))
        asked, (form,) = self.authorize, self.idp.forms("/token")
        self.assertTrue(self.opened.startswith(self.idp.url + "/authorize?x=1&response_type=code"))
        self.assertEqual(
            ("me", "a b", "S256"),
            tuple(asked[name] for name in ("client_id", "scope", "code_challenge_method")),
        )
        self.assertRegex(asked["redirect_uri"], r"^http://127\.0\.0\.1:[1-9]\d+/callback$")
        self.assertEqual(asked["redirect_uri"], form["redirect_uri"])
        self.assertEqual(("c&1", "authorization_code"), (form["code"], form["grant_type"]))
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        self.assertEqual(challenge, asked["code_challenge"])
        self.assertEqual((43, 43), (len(form["code_verifier"]), len(asked["state"])))
        self.assertEqual([(200, "You are signed in. You can close this window.")], self.pages)

    def test_other_visitors_are_sent_away(self):
        """AUTH-15: favicon, a bad state, none, and connections that say nothing."""
        idle = []

        def answer(redirect):
            host, port = urllib.parse.urlsplit(redirect).netloc.split(":")
            idle.append(socket.create_connection((host, int(port))))
            root = redirect.rpartition("/")[0]
            self.pages += [self.visit(root + path) for path in ("/favicon.ico", "/", "/callback")]
            self.come_back(redirect, state="\u00e4wrong", code="evil")
            self.come_back(redirect, state="", error="access_denied")
            self.come_back(redirect, code="good")

        self.sign_in(answer)
        idle[0].close()
        self.assertEqual([404, 404, 400, 400, 400, 200], [status for status, _ in self.pages])
        self.assertEqual(["good"], [form["code"] for form in self.idp.forms("/token")])

    def test_an_error_is_shown(self):
        with self.assertRaises(a2a.AuthFailed) as caught:
            self.sign_in(
                lambda redirect: self.come_back(
                    redirect, error="access_denied", error_description="not \x1btoday"
                )
            )
        self.assertIn("the sign-in was declined (not ?today)", str(caught.exception))
        self.assertEqual([(200, "The sign-in failed. You can close this window.")], self.pages)
        for fields in ({}, {"error": ""}, {"error": "", "access_token": "x"},
                       {"code": "c", "error": "server_error"}):  # fmt: skip
            with self.subTest(fields=fields), self.assertRaises(a2a.AuthFailed):
                self.sign_in(lambda redirect, f=fields: self.come_back(redirect, **f))
        self.assertEqual([], self.idp.forms("/token"))

    def test_the_issuer_is_checked(self):
        """AUTH-15: iss (RFC 9207), where it comes and where it must."""
        self.idp.pages[OPENID] = self.idp.metadata()
        scheme = self.scheme(document=OPENID)
        self.sign_in(lambda r: self.come_back(r, code="c", iss=self.idp.url), scheme)
        with self.assertRaises(a2a.AuthFailed) as caught:
            self.sign_in(lambda r: self.come_back(r, code="c", iss="https://evil.example"), scheme)
        self.assertIn(f"from https://evil.example, not from {self.idp.url}", str(caught.exception))
        self.sign_in(lambda r: self.come_back(r, code="c"), scheme)
        self.idp.pages[OPENID]["authorization_response_iss_parameter_supported"] = True
        with self.assertRaises(a2a.AuthFailed):
            self.sign_in(lambda r: self.come_back(r, code="c"), scheme)
        self.assertEqual(2, len(self.idp.forms("/token")))

    def test_a_fixed_port_and_localhost(self):
        """AUTH-15: for providers that compare the whole address."""
        port = support.free_port()
        self.sign_in(lambda r: self.come_back(r, code="c"), redirect=("localhost", port))
        self.assertEqual(f"http://localhost:{port}/callback", self.authorize["redirect_uri"])
        taken = socket.create_server(("127.0.0.1", port))
        with taken, self.assertRaises(a2a.UsageError) as caught:
            self.sign_in(self.come_back, redirect=("127.0.0.1", port))
        self.assertIn("is taken", str(caught.exception))

    def test_a_card_that_names_two_providers_is_refused(self):
        """AUTH-15: or a code of the good one would go to the bad one (RFC 9700 section 4.4)."""
        scheme = self.browser()
        scheme.detail["flows"]["authorizationCode"]["tokenUrl"] = "https://evil.example/token"
        with self.assertRaises(a2a.AuthFailed) as caught:
            self.sign_in(self.come_back, scheme)
        self.assertIn("two providers", str(caught.exception))
        with self.assertRaises(a2a.AuthFailed):
            self.sign_in(self.come_back, scheme, issuer=self.idp.url)

    def test_a_card_of_elsewhere_may_not_point_here(self):
        """AUTH-01: cards are no way to make us ask what runs on this machine."""
        self.agent = "https://agent.example"
        for scheme in (self.browser(), self.scheme(document=OPENID)):
            with self.assertRaises(a2a.AuthFailed) as caught:
                self.sign_in(self.come_back, scheme)
            self.assertIn("which is this machine", str(caught.exception))
        self.assertEqual([], self.idp.asked)
        self.idp.pages[OPENID] = self.idp.metadata()
        self.sign_in(lambda r: self.come_back(r, code="c"), issuer=self.idp.url)

    def test_metadata_of_elsewhere_may_not_point_here_either(self):
        requests = a2a.TokenRequests(self.pool, a2a.OAuthOptions("me", ask=self.ask))
        ends = {"token_endpoint": self.idp.url + "/token", "trusted": False}
        ends["device_authorization_endpoint"] = self.idp.url + "/device"
        with self.assertRaises(a2a.AuthFailed) as caught:
            requests.run("device", ends, "https://agent.example", {}, a2a.ENDLESS)
        self.assertIn("which is this machine", str(caught.exception))
        self.assertEqual([], self.idp.asked)

    def test_aliases_for_certificates_are_of_a_provider_that_was_named(self):
        """AUTH-15: or they would be the second provider, behind the first."""
        aliases = {"token_endpoint": self.idp.url + "/evil"}
        self.idp.pages[OPENID] = self.idp.metadata(mtls_endpoint_aliases=aliases)
        self.idp.pages["/evil"] = {"access_token": "t2"}
        scheme = self.scheme(document=OPENID)
        for issuer, token in (("", "t1"), (self.idp.url, "t2")):
            entry = self.sign_in(
                lambda r: self.come_back(r, code="c"), scheme, certificate=True, issuer=issuer
            )
            self.assertEqual(token, entry["accessToken"])

    def test_offline_access_asks_for_consent(self):
        self.sign_in(lambda r: self.come_back(r, code="c"), scope="openid offline_access")
        self.assertEqual("consent", self.authorize["prompt"])

    def test_nobody_comes(self):
        kept, a2a.SIGN_IN_S = a2a.SIGN_IN_S, 0.1
        self.addCleanup(setattr, a2a, "SIGN_IN_S", kept)
        with self.assertRaises(a2a.AuthFailed) as caught:
            self.sign_in(lambda redirect: None)
        self.assertIn("Nobody signed in", str(caught.exception))
        a2a.SIGN_IN_S = kept
        threading.Timer(0.2, self.pool.close).start()
        with self.assertRaises(a2a.TransportError):
            self.sign_in(lambda redirect: None)


class StrangeAnswerTest(OAuthCase):
    """Whatever a provider or a file says, nothing but our own errors comes of it."""

    STRANGE = (
        None,
        True,
        0,
        -1,
        1.5,
        1e308,
        "",
        "\0",
        "x" * 9000,
        "\u202e\ud83d\ude00",
        [],
        {},
        [[]],
        [None],
        {"a": {}},
        "http://",
        "http://127.0.0.1:1/",
        "file:///",
        "https://[::1",
    )

    def get_all(self):
        """Get tokens by each grant; give how often that went well."""
        able = {"client_secret": SECRET, "issuer": self.idp.url}
        well = 0
        for options, wish in ((able, "client-credentials"), ({}, "device"), (able, "device")):
            oauth = self.oauth(ask=self.ask, **options)
            with contextlib.suppress(a2a.A2AError):
                entry = oauth.obtain(self.scheme(document=OPENID), self.agent, a2a.ENDLESS, wish)
                json.dumps([a2a.describe_token(entry), a2a.write_json(entry).decode()])
                a2a.attach([self.scheme()], a2a.Credentials(bearer=entry["accessToken"]))
                oauth.renew(entry, a2a.ENDLESS)
                well += 1
        return well

    def test_strange_values_in_every_field(self):
        self.pool.pause = lambda *_: None
        good = {
            OPENID: self.idp.metadata(
                grant_types_supported=["client_credentials", DEVICE],
                token_endpoint_auth_methods_supported=["client_secret_basic"],
                mtls_endpoint_aliases={}, revocation_endpoint=self.idp.url + "/revoke"),
            "/device": {"device_code": "d", "user_code": "u", "interval": 1, "expires_in": 9,
                        "verification_uri": "https://idp.example/",
                        "verification_uri_complete": "https://idp.example/u"},
            "/token": {"access_token": "t", "token_type": "Bearer", "expires_in": 9, "scope": "",
                       "refresh_token": "r", "error": None, "error_description": None},
        }  # fmt: skip
        self.idp.pages.update(good)
        self.assertEqual(3, self.get_all())
        pages = {}

        def fetch(pool, place, *_, **__):  # without the sockets: there are some thousand answers
            page = pages.get(a2a.read_provider_url(place).path)
            if page is None:
                raise a2a.HttpError(404, "none")
            return page

        with mock.patch.object(a2a, "fetch_json", fetch):
            for path, page in good.items():
                for name in page:
                    for strange in self.STRANGE:
                        pages.update(good)
                        pages[path] = {**page, name: strange}
                        with self.subTest(path=path, name=name, strange=str(strange)[:20]):
                            self.assertLessEqual(self.get_all(), 3)
        for path in good:
            for body in (b"", b"[]", b"{", b"\xff", b'"x"', (204, {}), (302, {}), (404, b"<html>")):
                self.idp.pages.update(good)
                self.idp.pages[path] = body
                with self.subTest(path=path, body=body):
                    self.assertLess(self.get_all(), 3)

    def test_a_refresh_token_is_not_revoked_at_another_place_than_it_came_from(self):
        """A card's provider could name the endpoints of a good one, and its own for revoking."""
        self.pool.pause = lambda *_: None
        self.idp.pages["/token"]["refresh_token"] = "r1"
        self.idp.pages["/device"] = {
            "device_code": "d", "user_code": "u", "verification_uri": "https://idp.example/"
        }  # fmt: skip
        with FakeProvider() as bad:
            bad.pages["/revoke"] = {}
            ends = self.idp.metadata(issuer=bad.url, revocation_endpoint=bad.url + "/revoke")
            bad.pages[OPENID] = ends
            detail = {"openIdConnectUrl": bad.url + OPENID}
            scheme = a2a.Scheme("o", "bearer", "a token", detail=detail)
            oauth = self.oauth(ask=self.ask)
            self.assertEqual("r1", self.get(oauth, scheme)["refreshToken"])
            self.assertEqual(1, len(oauth.forget("", a2a.ENDLESS)))
            self.assertEqual(["GET " + OPENID], bad.asked)

    def test_strange_values_in_the_file(self):
        entry = {"agent": self.agent, "urls": a2a.scheme_urls(self.device()), "issuer": "",
                 "tokenEndpoint": self.idp.url + "/token", "revocationEndpoint": "",
                 "clientId": "me",
                 "scope": "", "audience": "", "grant": "device", "accessToken": "t",
                 "refreshToken": "r", "expiresAt": 1, "authMethods": []}  # fmt: skip
        os.makedirs(os.path.dirname(self.file))
        for name in entry:
            for strange in self.STRANGE:
                a2a.write_whole(self.file, json.dumps({"tokens": [{**entry, name: strange}]}))
                oauth = self.oauth(token_file=self.file)
                with self.subTest(name=name, strange=str(strange)[:20]):
                    with contextlib.suppress(a2a.A2AError):
                        self.get(oauth, self.device())
                    self.assertLessEqual(
                        len(list(map(a2a.describe_token, oauth.store.entries()))), 1
                    )
                    self.assertLessEqual(len(oauth.forget("", a2a.ENDLESS)), 1)


class KeepingTest(OAuthCase):
    def setUp(self):
        super().setUp()
        self.able = {"client_secret": SECRET, "issuer": self.idp.url, "token_file": self.file}

    def tokens(self):
        return json.loads(pathlib.Path(self.file).read_text())["tokens"]

    def put(self, **changes):
        """Keep a token of a person, as signing in does."""
        entry = {
            "agent": self.agent, "urls": a2a.scheme_urls(self.device()), "issuer": "",
            "tokenEndpoint": self.idp.url + "/token", "clientId": "me", "scope": "a b",
            "audience": "", "grant": "device", "accessToken": "old", "refreshToken": "r1",
            "expiresAt": time.time() + 1000, **changes}  # fmt: skip
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        a2a.write_whole(self.file, json.dumps({"tokens": [entry]}))
        return entry

    def test_a_token_is_kept_for_later_and_for_the_owner_alone(self):
        """AUTH-25: a file of mode 0600 in a folder of mode 0700."""
        self.get(self.oauth(**self.able), self.machine())
        self.get(self.oauth(**self.able), self.machine())
        self.assertEqual(1, len(self.idp.forms("/token")))
        self.assertNotIn("s3cret", pathlib.Path(self.file).read_text())
        if os.name == "posix":
            self.assertEqual(0o600, stat.S_IMODE(os.stat(self.file).st_mode))
            self.assertEqual(0o700, stat.S_IMODE(os.stat(os.path.dirname(self.file)).st_mode))

    def test_a_token_is_for_whom_it_was_asked_for(self):
        """AUTH-01: bound to the card's origin, its URLs, the client, scopes and audience."""
        self.put()
        found = self.oauth(token_file=self.file).find(self.device(), self.agent)
        self.assertEqual("old", found["accessToken"])
        for oauth, scheme, agent in (
            ({}, self.device(), "http://127.0.0.1:1"),
            ({}, self.browser(), self.agent),
            ({}, self.device(scopes=["c"]), self.agent),
            ({"client_id": "you"}, self.device(), self.agent),
            ({"audience": "x"}, self.device(), self.agent),
            ({"scope": "d"}, self.device(), self.agent),
            ({"issuer": "https://i.example"}, self.device(), self.agent),
        ):
            with self.subTest(oauth=oauth):
                made = self.oauth(token_file=self.file, **oauth)
                self.assertIsNone(made.find(scheme, agent))
        later = self.oauth(token_file=self.file, client_id="")
        self.assertEqual("old", self.get(later, self.device(scopes=["b"]))["accessToken"])
        self.assertIn("old", self.learnt)

    def test_an_expired_token_is_renewed_and_the_refresh_token_rotates(self):
        """AUTH-19: 30 seconds early; expires_in a text, a number, absent."""
        for expires_in, kept in (
            ("3600", True),
            (3600, True),
            (None, False),
            (True, False),
            (10**300, True),
            ("soon", False),
        ):
            self.put(expiresAt=time.time() + 29)
            self.idp.pages["/token"] = {
                "access_token": "new",
                "refresh_token": "r2",
                "expires_in": expires_in,
            }
            oauth = self.oauth(token_file=self.file)
            self.assertTrue(oauth.alone(self.device(), self.agent))
            with self.subTest(expires_in=expires_in):
                self.assertEqual("new", self.get(oauth, self.device())["accessToken"])
                (entry,) = self.tokens()
                self.assertEqual(("new", "r2"), (entry["accessToken"], entry["refreshToken"]))
                self.assertEqual(kept, "expiresAt" in entry)
        form = {"grant_type": "refresh_token", "refresh_token": "r1", "client_id": "me"}
        self.assertEqual(form, self.idp.forms("/token")[-1])

    def test_a_refresh_token_that_does_not_rotate_stays(self):
        self.put(expiresAt=1)
        self.idp.pages["/token"] = {"access_token": "new"}
        self.get(self.oauth(token_file=self.file), self.device())
        self.assertEqual("r1", self.tokens()[0]["refreshToken"])

    def test_a_sign_in_that_has_ended_is_forgotten(self):
        self.put(expiresAt=1)
        self.idp.pages["/token"] = (400, {"error": "invalid_grant"})
        error = self.refused(a2a.SignInNeeded, self.oauth(token_file=self.file), self.device())
        self.assertIn("The sign-in has ended. No token was given: invalid_grant", str(error))
        (entry,) = self.tokens()
        self.assertEqual(
            ("", 0, "me"), tuple(entry[name] for name in ("refreshToken", "expiresAt", "clientId"))
        )
        self.refused(a2a.SignInNeeded, self.oauth(token_file=self.file), self.device())
        self.assertEqual(1, len(self.idp.forms("/token")))
        self.put(expiresAt=1, refreshToken="")
        oauth = self.oauth(token_file=self.file)
        self.assertFalse(oauth.alone(self.device(), self.agent))
        self.refused(a2a.SignInNeeded, oauth, self.device())

    def test_who_is_there_signs_in_again(self):
        self.pool.pause = lambda *_: None
        self.put(expiresAt=1, refreshToken="")
        self.idp.pages["/device"] = {
            "device_code": "d",
            "user_code": "u",
            "verification_uri": "https://idp.example/",
        }
        oauth = self.oauth(token_file=self.file, ask=self.ask, client_id="")
        self.assertEqual("t1", self.get(oauth, self.device())["accessToken"])
        self.assertEqual(1, len(self.told))
        form = {"client_id": "me", "scope": "a b"}
        self.assertEqual([form], self.idp.forms("/device"))
        self.assertEqual(1, len(self.tokens()))

    def test_a_failure_to_renew_forgets_nothing(self):
        entry = self.put(expiresAt=1)
        for page, kind in (
            ((503, {}), a2a.TransportError),
            ((404, {}), a2a.AuthFailed),
            (None, a2a.TransportError),
            ((401, {"error": "invalid_client"}), a2a.AuthFailed),
        ):
            self.idp.pages["/token"] = page
            self.refused(kind, self.oauth(token_file=self.file), self.device())
        self.assertEqual([entry], self.tokens())

    def test_a_secret_follows_no_token_to_a_provider_that_nobody_named(self):
        """AUTH-01: a person signed in without one where a card said; later there is a secret."""
        there = {"tokenEndpoint": self.idp.url + "/token", "expiresAt": 1}
        there["revocationEndpoint"] = self.idp.url + "/revoke"
        for issuer, options, goes in (
            ("", {}, False),
            (self.idp.url, {}, True),
            (self.idp.url, {"issuer": self.idp.url}, True),
            ("https://other.example", {"issuer": self.idp.url}, False),
        ):
            entry = self.put(issuer=issuer, **there)
            oauth = self.oauth(token_file=self.file, client_secret=SECRET, **options)
            self.idp.requests.clear()
            with self.subTest(issuer=issuer, options=options):
                oauth.renew(entry, a2a.ENDLESS)
                self.put(issuer=issuer, **there)
                oauth.forget("", a2a.ENDLESS)
                self.assertEqual(2, len(self.idp.requests))
                for _, headers, form in self.idp.requests:
                    self.assertEqual(goes, "authorization" in headers)
                    self.assertNotIn("client_secret", form)

    def test_one_of_many_renews(self):
        """A rotating refresh token is good for one time: a second use revokes the sign-in."""
        self.put(expiresAt=1)

        def answer(form):
            time.sleep(0.05)
            if form["refresh_token"] != "r1":
                return 400, {"error": "invalid_grant"}
            return {"access_token": "new", "refresh_token": "r2", "expires_in": 900}

        self.idp.pages["/token"] = answer
        found = []
        threads = [
            threading.Thread(
                target=lambda: found.append(
                    self.get(self.oauth(token_file=self.file), self.device())["accessToken"]
                )
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(["new"] * 4, found)
        self.assertEqual(1, len(self.idp.forms("/token")))

    def test_tokens_stay_in_memory_without_a_file(self):
        oauth = self.oauth(**{**self.able, "token_file": ""})
        self.get(oauth, self.machine())
        entry = self.get(oauth, self.machine())
        self.assertEqual(1, len(self.idp.forms("/token")))
        self.assertFalse(os.path.exists(self.file))
        self.idp.pages["/token"] = {"access_token": "t2"}
        self.assertEqual("t2", oauth.renew(entry, a2a.ENDLESS)["accessToken"])
        self.assertEqual("t2", oauth.renew(entry, a2a.ENDLESS)["accessToken"])
        self.assertEqual(2, len(self.idp.forms("/token")))

    @unittest.skipIf(os.name == "nt", "Windows has no such modes")
    def test_a_file_that_others_may_read_is_not_used(self):
        self.put()
        for mode in (0o644, 0o640, 0o602):
            os.chmod(self.file, mode)
            error = self.refused(a2a.AuthFailed, self.oauth(token_file=self.file), self.device())
            self.assertIn("others may read", str(error))
            self.assertIn("chmod 600", error.hint)

    def test_a_damaged_file_holds_nothing(self):
        for text in (
            "",
            "[]",
            "{",
            '{"tokens": 5}',
            '{"tokens": [5, {}, {"agent": 1}]}',
            '{"tokens": [{"agent": "http://127.0.0.1", "urls": []}]}',
        ):
            self.put()
            a2a.write_whole(self.file, text)
            with self.subTest(text=text):
                oauth = self.oauth(token_file=self.file)
                self.assertIsNone(oauth.find(self.device(), self.agent))

    def test_a_file_that_cannot_be_written_is_told_of(self):
        pathlib.Path(os.path.dirname(self.file)).write_text("no folder")
        oauth = self.oauth(**self.able)
        self.get(oauth, self.machine())
        self.assertEqual("t1", self.get(oauth, self.machine())["accessToken"])
        self.assertEqual(1, len(self.idp.forms("/token")))
        self.assertIn("cannot be kept", self.warned[0])
        self.assertNotIn("t1", self.warned[0])

    def test_what_is_shown_of_a_token_is_no_secret(self):
        """AUTH-25: presence, not content."""
        shown = a2a.describe_token(self.put(expiresAt=0.5e9))
        self.assertEqual("1985-11-05T00:53:20Z", shown["expiresAt"])
        self.assertEqual(("by itself", "me"), (shown["renewal"], shown["clientId"]))
        self.assertNotIn("old", json.dumps(shown))
        self.assertNotIn("r1", json.dumps(shown))

    def test_a_sign_in_is_revoked(self):
        """RFC 7009: the refresh token, for that ends all of it; whether it works is no matter."""
        oauth = self.oauth(token_file=self.file)
        entry = self.put(agent="http://127.0.0.1:1")
        self.assertEqual([], oauth.forget(self.agent, a2a.ENDLESS))
        self.assertEqual([entry], oauth.forget("http://127.0.0.1:1", a2a.ENDLESS))
        self.assertEqual(([], []), (self.idp.asked, self.tokens()))
        for page in ({}, b"", (503, {}), None):
            self.put(revocationEndpoint=self.idp.url + "/revoke")
            self.idp.pages["/revoke"] = page
            self.assertEqual(1, len(oauth.forget("", a2a.ENDLESS)))
            self.assertEqual([], self.tokens())
        self.assertEqual([{"token": "r1", "client_id": "me"}] * 4, self.idp.forms("/revoke"))


if __name__ == "__main__":
    unittest.main()
