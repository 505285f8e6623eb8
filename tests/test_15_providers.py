"""Chapter 15: what is read from identity providers, and where their metadata is looked for."""

import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from providers import FakeProvider

OPENID = "/.well-known/openid-configuration"
OAUTH = "/.well-known/oauth-authorization-server"


class ProviderCase(unittest.TestCase):
    def setUp(self):
        self.said = []
        self.pool = a2a.Pool(debug=self.said.append)
        self.addCleanup(self.pool.close)
        self.idp = FakeProvider()
        self.addCleanup(self.idp.__exit__)


class FetchTest(ProviderCase):
    def fetch(self, page, path="/x", **options):
        self.idp.pages["/x"] = page
        return a2a.fetch_json(self.pool, self.idp.url + path, **options)

    def refused(self, kind, page, **options):
        with self.assertRaises(kind) as caught:
            self.fetch(page, **options)
        return str(caught.exception)

    def test_an_object_is_given(self):
        self.assertEqual({"a": 1}, self.fetch({"a": 1}))
        self.assertEqual(["GET /x"], self.idp.asked)
        self.assertEqual("application/json", self.idp.requests[0][1]["accept"])

    def test_a_form_is_posted_and_its_error_given(self):
        form = {"grant_type": "x y", "client_secret": "s&\u00e4"}
        self.assertEqual({"ok": True}, self.fetch({"ok": True}, form=form))
        error = {"error": "invalid_grant"}
        self.assertEqual(error, self.fetch((400, error), form=form))
        self.assertEqual([form, form], self.idp.forms("/x"))
        self.assertEqual("POST /x", self.idp.asked[0])

    def test_an_error_is_none_where_nothing_was_posted(self):
        self.assertIn("answered 400", self.refused(a2a.HttpError, (400, {"error": "x"})))
        self.assertIn("answered 500", self.refused(a2a.HttpError, (500, {"a": 1}), form={}))

    def test_what_is_no_object_is_refused(self):
        for page in (b"", b"[]", b"<html>", b'{"a":1,"a":2}', b'{"a":NaN}', b'"error"'):
            with self.subTest(page=page):
                self.assertIn("without a JSON object", self.refused(a2a.HttpError, page))

    def test_a_redirect_is_not_followed(self):
        """AUTH-02: not even to the same host, for what is asked may be a secret."""
        there = {"Location": self.idp.url + "/y"}
        for status in (301, 302, 303, 307, 308):
            said = self.refused(a2a.HttpError, (status, {}, there), form={"token": "t"})
            self.assertIn(f"answered {status}, a redirect, which is not followed", said)
        self.assertEqual({"POST /x"}, set(self.idp.asked))

    def test_an_answer_is_bounded(self):
        said = self.refused(a2a.PeerError, b'{"a":"' + b"x" * a2a.PROVIDER_BYTES + b'"}')
        self.assertIn("larger than", said)
        self.assertIn(
            "larger than 10", self.refused(a2a.PeerError, {"a": "12345678"}, limit_bytes=10)
        )
        self.refused(a2a.HttpError, b"[" * 5000)

    def test_plain_http_is_for_this_machine(self):
        """AUTH-23: neither a token nor a key is fetched without TLS from elsewhere."""
        with self.assertRaises(a2a.AuthFailed) as caught:
            a2a.fetch_json(self.pool, "http://idp.example/token", form={"client_secret": "s3cret"})
        self.assertIn("need https", str(caught.exception))
        for text in ("ftp://idp.example/", "idp.example", "http://u:p@127.0.0.1/", ""):
            with self.subTest(text=text), self.assertRaises(a2a.AuthError):
                a2a.fetch_json(self.pool, text)

    def test_who_does_not_answer_is_not_waited_for(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            ends = a2a.Patience(time.monotonic() + 0.1, None, 0.1)
            with self.assertRaises(a2a.TimeoutExpired):
                a2a.fetch_json(self.pool, url, ends)
            kept, a2a.PROVIDER_S = a2a.PROVIDER_S, 0.1
            self.addCleanup(setattr, a2a, "PROVIDER_S", kept)
            with self.assertRaises(a2a.TransportError) as caught:
                a2a.fetch_json(self.pool, url)
        self.assertIn("did not answer within 0.1 s", str(caught.exception))
        self.assertNotIsInstance(caught.exception, a2a.TimeoutExpired)

    def test_an_answer_that_drips_is_not_waited_for(self):
        def drip():
            link, _ = server.accept()
            with link:
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n")
                for _ in range(100):
                    if ended.wait(0.02):
                        return
                    link.sendall(b" ")

        ended = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=drip)
            thread.start()
            ends = a2a.Patience(time.monotonic() + 0.2, None, 0.2)
            with self.assertRaises(a2a.TimeoutExpired):
                a2a.fetch_json(self.pool, f"http://127.0.0.1:{server.getsockname()[1]}/", ends)
            ended.set()
            thread.join()

    def test_what_is_logged_holds_no_secret(self):
        """AUTH-25: neither of the request nor of the answer."""
        form = dict.fromkeys(
            ("client_secret", "code", "code_verifier", "device_code", "refresh_token", "assertion"),
            "s3cret",
        )
        answer = dict.fromkeys(
            ("access_token", "refresh_token", "id_token", "device_code"), "s3cret"
        )
        self.fetch(answer, form={"grant_type": "device", **form})
        shown = "\n".join(self.said)
        self.assertIn("POST", shown)
        self.assertIn("device", shown)
        self.assertNotIn("s3cret", shown)


class DiscoveryTest(ProviderCase):
    def test_the_places_of_an_issuer(self):
        """AUTH-07: append, RFC 8414's insertion, openid inserted, the old append."""
        issuer = "https://kc.example/realms/r"
        self.assertEqual(
            [
                issuer + OPENID,
                "https://kc.example" + OAUTH + "/realms/r",
                "https://kc.example" + OPENID + "/realms/r",
                issuer + OAUTH,
            ],
            a2a.metadata_places(issuer),
        )
        self.assertEqual(a2a.metadata_places(issuer), a2a.metadata_places(issuer + "/"))
        both = ["https://i.example" + OPENID, "https://i.example" + OAUTH]
        self.assertEqual(both, a2a.metadata_places("https://i.example/"))

    def test_each_place_is_tried_in_turn(self):
        """AUTH-07: whichever has it."""
        issuer = self.idp.url + "/realms/r"
        for number, place in enumerate(a2a.metadata_places(issuer), 1):
            path = place[len(self.idp.url) :]
            self.idp.pages, self.idp.asked = {path: self.idp.metadata("/realms/r")}, []
            with self.subTest(path=path):
                where, found = a2a.discover(self.pool, issuer)
                self.assertEqual((place, issuer), (where, found["issuer"]))
                self.assertEqual(number, len(self.idp.asked))

    def test_the_issuer_is_compared_exactly(self):
        """AUTH-07: Auth0's ends in a slash, and the slash counts."""
        self.idp.pages[OPENID] = self.idp.metadata("/")
        _, found = a2a.discover(self.pool, self.idp.url + "/")
        self.assertEqual(self.idp.url + "/", found["issuer"])
        with self.assertRaises(a2a.AuthError) as caught:
            a2a.discover(self.pool, self.idp.url)
        said = str(caught.exception)
        self.assertIn(f"the metadata of '{self.idp.url}/', which is not '{self.idp.url}'", said)
        self.assertIn(f"\n  {self.idp.url}{OAUTH} answered 404", said)

    def test_an_issuer_of_another_kind_is_no_issuer(self):
        for issuer in (None, 5, ["x"], {}):
            self.idp.pages = {OPENID: self.idp.metadata(issuer=issuer)}
            with self.subTest(issuer=issuer), self.assertRaises(a2a.AuthError):
                a2a.discover(self.pool, self.idp.url)
            with self.subTest(issuer=issuer), self.assertRaises(a2a.AuthError):
                a2a.discover(self.pool, "", document=self.idp.url + OPENID)

    def test_a_document_is_taken_where_it_is(self):
        """AUTH-07: openIdConnectUrl and oauth2MetadataUrl are used as they are."""
        self.idp.pages["/a/.well-known/odd?x=1"] = self.idp.metadata("/other")
        document = self.idp.url + "/a/.well-known/odd?x=1"
        where, found = a2a.discover(self.pool, "", document=document)
        self.assertEqual(document, where)
        self.assertEqual(self.idp.url + "/other", found["issuer"])
        with self.assertRaises(a2a.AuthError):
            a2a.discover(self.pool, self.idp.url, document=document)
        self.assertEqual(2, len(self.idp.asked))

    def test_a_document_that_is_an_issuer_is_taken_for_one(self):
        """AUTH-07: cards give the issuer's URL, too."""
        self.idp.pages["/r" + OPENID] = self.idp.metadata("/r")
        _, found = a2a.discover(self.pool, "", document=self.idp.url + "/r")
        self.assertEqual(self.idp.url + "/r", found["issuer"])

    def test_a_document_may_not_speak_for_another_host(self):
        """AUTH-15: or codes of a good provider would go to a bad one (RFC 9700 section 4.4)."""
        self.idp.pages[OPENID] = self.idp.metadata(issuer="https://good.example")
        with self.assertRaises(a2a.AuthError) as caught:
            a2a.discover(self.pool, "", document=self.idp.url + OPENID)
        self.assertIn("https://good.example", str(caught.exception))

    def test_what_a_stranger_calls_itself_is_cut_short(self):
        self.idp.pages[OPENID] = self.idp.metadata(issuer="x" * 100_000)
        with self.assertRaises(a2a.AuthError) as caught:
            a2a.discover(self.pool, self.idp.url)
        self.assertLess(len(str(caught.exception)), 2000)

    def test_who_cannot_be_reached_is_tried_once(self):
        url = f"http://127.0.0.1:{support.free_port()}"
        with self.assertRaises(a2a.TransportError) as caught:
            a2a.discover(self.pool, url)
        self.assertEqual(1, str(caught.exception).count(OPENID))
        self.assertIn("refused", str(caught.exception))

    def test_a_limit_of_the_user_ends_it(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            ends = a2a.Patience(time.monotonic() + 0.1, None, 0.1)
            with self.assertRaises(a2a.TimeoutExpired):
                a2a.discover(self.pool, url, ends)


if __name__ == "__main__":
    unittest.main()
