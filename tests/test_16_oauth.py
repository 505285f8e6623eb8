"""Chapter 16: a client gets tokens for its calls, sends them where they belong, renews them."""

import pathlib
import sys
import time
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from providers import FakeProvider
from scripted import Scripted

DONE = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
WORKING = {**DONE, "status": {"state": "TASK_STATE_WORKING"}}


class TokenTest(unittest.TestCase):
    def setUp(self):
        self.debugged, self.issued = [], 0
        self.idp = FakeProvider()
        self.addCleanup(self.idp.__exit__)
        self.idp.pages["/token"] = self.issue
        self.valid = set()
        self.agent = self.serve(["machine"])

    def issue(self, form):
        self.issued += 1
        self.valid = {f"t0ken-{self.issued}"}
        return {"access_token": f"t0ken-{self.issued}", "expires_in": 3600}

    def serve(self, *alternatives, **card):
        """Give an agent that lets in whoever has a valid token, with schemes of the provider."""
        token_url, device = self.idp.url + "/token", self.idp.url + "/device"
        schemes = {
            "machine": {"oauth2SecurityScheme": {"flows": {
                "clientCredentials": {"tokenUrl": token_url, "scopes": {"a": ""}}}}},
            "person": {"oauth2SecurityScheme": {"flows": {
                "deviceCode": {"tokenUrl": token_url, "deviceAuthorizationUrl": device,
                               "scopes": {}}}}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        }  # fmt: skip
        requirements = [
            {"schemes": {name: {"list": ["a"] if name == "machine" else []} for name in names}}
            for names in alternatives
        ]
        card = {"securitySchemes": schemes, "securityRequirements": requirements, **card}
        agent = Scripted(self.answer, **card)
        self.addCleanup(agent.__exit__)
        return agent

    def answer(self, method, params):
        return {"task": DONE} if self.shown_by("call") in self.valid else 401

    def shown_by(self, _):
        """Give the token that came with the last call."""
        headers = {name.lower(): value for name, value in self.agent.requests[-1][0].items()}
        return headers.get("authorization", "").partition("Bearer ")[2]

    def client(self, agent=None, oauth=None, **options):
        oauth = {"client_id": "me", "client_secret": "s3cret", "issuer": self.idp.url,
                 **(oauth or {})}  # fmt: skip
        options = {"debug": self.debugged.append, "warn": self.debugged.append, **options}
        client = a2a.Client(
            (agent or self.agent).url, oauth=a2a.OAuthOptions(**oauth), timeout_s=20, **options
        )
        self.addCleanup(client.close)
        return client

    def calls(self, agent=None):
        return [name for _, name, _ in (agent or self.agent).requests if name != "card"]

    def test_a_token_is_got_once_and_sent_with_each_call(self):
        client = self.client()
        for _ in range(3):
            self.assertEqual(DONE, client.send("x", wait=False)["task"])
        (form,) = self.idp.forms("/token")
        self.assertEqual(("client_credentials", "a"), (form["grant_type"], form["scope"]))
        shown = "\n".join(self.debugged)
        self.assertIn("POST", shown)
        for secret in ("t0ken", "s3cret"):
            self.assertNotIn(secret, shown)
        self.assertNotIn("s3cret", repr(client.options))

    def test_a_token_that_is_refused_is_renewed_once(self):
        """AUTH-19: 401 once, then 200; 401 for good ends after one more try."""
        client = self.client()
        client.send("x", wait=False)
        self.valid = set()
        self.assertEqual(DONE, client.send("x", wait=False)["task"])
        self.assertEqual((2, 3), (self.issued, len(self.calls())))
        self.idp.pages["/token"] = lambda form: {**self.issue(form), "access_token": "n0-good"}
        self.valid = set()
        for _ in range(2):
            before = len(self.calls())
            with self.assertRaises(a2a.AuthFailed):
                client.send("x", wait=False)
            self.assertEqual(before + 2, len(self.calls()))
        self.assertEqual(4, self.issued)

    def test_a_token_that_may_not_do_that_is_not_renewed(self):
        """AUTH-19: 403 is about rights; another token of the same kind has no more."""
        self.answer = lambda method, params: 403
        with self.assertRaises(a2a.NotAllowed):
            self.client(self.serve(["machine"])).send("x", wait=False)
        self.assertEqual(1, self.issued)

    def test_a_token_is_renewed_before_it_ends(self):
        """AUTH-19: expires_in is told, so there is no call in vain."""
        self.idp.pages["/token"] = lambda form: {**self.issue(form), "expires_in": "29"}
        client = self.client()
        for _ in range(3):
            client.send("x", wait=False)
        self.assertEqual((3, 3), (len(self.calls()), self.issued))

    def test_a_stream_and_what_follows_it_go_on_with_new_tokens(self):
        """AUTH-19: the token ends in the middle of a task."""

        def answer(method, params):
            if self.shown_by("call") not in self.valid:
                return 401
            if method == "SendStreamingMessage":
                self.valid = set()
                return [{"task": WORKING}]
            return [{"task": DONE}] if method == "SubscribeToTask" else WORKING

        self.answer = answer
        self.agent = self.serve(["machine"])
        events = []
        self.assertEqual(DONE, self.client().send("x", on_event=events.append)["task"])
        self.assertEqual(2, self.issued)

    def test_no_token_is_asked_for_that_may_not_be_sent(self):
        """AUTH-01: an interface on another origin."""
        rpc = {"url": "http://127.0.0.1:1/rpc", "protocolBinding": "JSONRPC",
               "protocolVersion": "1.0"}  # fmt: skip
        agent = self.serve(["machine"], supportedInterfaces=[rpc])
        with self.assertRaises(a2a.UntrustedOrigin):
            self.client(agent).send("x")
        with self.assertRaises(a2a.UntrustedOrigin):
            a2a.sign_in(self.client(agent))
        self.assertEqual([], self.idp.asked)

    def test_what_needs_no_person_comes_first(self):
        """AUTH-22: the order of the card decides among those; nothing is better than a person."""
        self.answer = lambda method, params: {"task": DONE}
        agent = self.serve(["person"], ["machine"], ["key"])
        public = {"client_secret": "", "issuer": ""}
        self.client(agent).send("x", wait=False)
        self.assertEqual("Bearer t0ken-1", agent.requests[-1][0]["authorization"])
        self.client(agent, public, api_key="k").send("x", wait=False)
        self.assertEqual("k", agent.requests[-1][0]["x-key"])
        agent = self.serve(["person"], [])
        self.client(agent, public).send("x", wait=False)
        self.assertNotIn("authorization", agent.requests[-1][0])
        with self.assertRaises(a2a.SignInNeeded):
            self.client(self.serve(["person"]), public).send("x")
        with self.assertRaises(a2a.CredentialsMissing) as caught:
            self.client(self.serve(["person"], ["key"]), {"client_id": ""}).send("x")
        self.assertEqual(
            "Give --bearer TOKEN or --oauth-client-id ID or --api-key KEY.", caught.exception.hint
        )
        self.assertEqual([], self.idp.forms("/device"))

    def test_a_token_of_the_user_is_sent_as_it_is(self):
        self.valid = {"mine"}
        self.client(bearer="mine").send("x", wait=False)
        self.assertEqual(0, self.issued)
        self.valid = set()
        with self.assertRaises(a2a.AuthFailed):
            self.client(bearer="mine").send("x", wait=False)
        self.assertEqual(0, self.issued)

    def test_a_person_signs_in_and_stays_so(self):
        self.idp.pages["/device"] = {
            "device_code": "d", "user_code": "CODE", "verification_uri": "https://idp.example/",
            "interval": 1}  # fmt: skip
        told = []
        oauth = {"client_secret": "", "issuer": "", "ask": lambda text, url: told.append(text)}
        self.agent = agent = self.serve(["person"])
        client = self.client(agent, oauth)
        token = a2a.sign_in(client)
        self.assertEqual((agent.url, "device"), (token["agent"], token["grant"]))
        self.assertNotIn("t0ken", repr(token))
        self.assertIn(f"To sign in for {agent.url}", told[0])
        client.send("x", wait=False)
        self.assertEqual(1, self.issued)
        self.assertEqual([token], a2a.sign_out(client))
        self.assertEqual([], a2a.sign_out(client))
        with self.assertRaises(a2a.UsageError):
            a2a.sign_in(self.client(self.serve(["key"])))

    def test_nobody_signs_in_where_nothing_can_be_called(self):
        self.agent.card["supportedInterfaces"][0]["protocolBinding"] = "SOAP"
        with self.assertRaisesRegex(a2a.CardInvalid, "SOAP"):
            a2a.sign_in(self.client(self.agent))
        self.assertEqual(0, self.issued)

    def test_a_card_that_the_user_gave_binds_to_the_agent(self):
        card = self.agent.card
        client = a2a.Client(card, oauth=a2a.OAuthOptions("me", "s3cret", self.idp.url))
        with client, warnings.catch_warnings():
            warnings.simplefilter("error")
            client.send("x", wait=False)
            (token,) = a2a.sign_out(client)
        self.assertEqual(self.agent.url, token["agent"])

    def test_a_provider_that_is_away_is_told_as_such(self):
        """The interfaces of the agent are not blamed, nor tried one after the other."""
        self.idp.pages["/token"] = None
        agent = self.agent
        (rpc,) = agent.card["supportedInterfaces"]
        agent.card["supportedInterfaces"].append({**rpc, "url": rpc["url"] + "/2"})
        with self.assertRaises(a2a.TransportError) as caught:
            self.client(agent).send("x")
        self.assertIn("closed before an answer came", str(caught.exception))
        self.assertEqual(1, len(self.idp.forms("/token")))

    def test_a_limit_of_time_counts_for_the_sign_in_too(self):
        self.idp.pages["/token"] = lambda form: time.sleep(1) or {"access_token": "late"}
        with (
            self.assertRaises(a2a.TimeoutExpired),
            a2a.Client(
                self.agent.url, timeout_s=0.3, oauth=a2a.OAuthOptions("me", "s", self.idp.url)
            ) as client,
        ):
            client.send("x")


if __name__ == "__main__":
    unittest.main()
