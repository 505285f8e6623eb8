"""Chapter 19, the gate: who may call, what the others are told, and that callers are apart."""

import asyncio
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support
from test_19_grpc import Channel

ANN, BOB, NOBODY = "key-of-ann-0123456789", "key-of-bob-0123456789", "key-of-nobody-0123456"
KEYS = ["ann: " + ANN, "bob: " + BOB]
CHALLENGE = 'ApiKey realm="a2a", header="X-API-Key"'


class Tokens:
    """Takes the token "good"; "weak" lacks a scope, at "down" the issuer cannot be reached."""

    schemes = {"oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://idp.example"}}}

    def __init__(self):
        self.seen = []
        self.go = self.keys = None
        self.scopes = ()

    async def ready(self, token):
        if self.keys is not None:
            await self.keys.wait()

    async def verify(self, token, certificate):
        self.seen.append((token, certificate))
        await self.ready(token)  # as every token needs the keys
        if self.go is not None:
            await self.go.wait()
        if token == "weak":
            raise a2a.TokenRefused(
                "The scope is missing", error="insufficient_scope", scope="tasks:write"
            )
        if token == "down":
            raise a2a.TransportError("The issuer cannot be reached")
        if token != "good":
            raise a2a.TokenRefused('The token is for "another" audience\n')
        return a2a.Caller("token", "https://idp.example", "carol", "", "carol")


def exchange(peer="192.0.2.7", certificate=b"", name="", **headers):
    """Give what the gate looks at of a request."""
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return types.SimpleNamespace(
        request=types.SimpleNamespace(headers=headers),
        peer=peer,
        certificate=certificate,
        certificate_name=name,
    )


def admit(gate, *args, **headers):
    """Give the caller, or the fault that a request meets; what is logged goes nowhere."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            return asyncio.run(gate.admit(exchange(*args, **headers)))
        except a2a.Fault as fault:
            return fault


def challenges(fault):
    return [value for name, value in fault.challenges if name == "www-authenticate"]


class KeysTest(unittest.TestCase):
    def test_a_line_is_a_key_or_a_name_and_a_key(self):
        text = f"# ours\n#none\n\nann: {ANN}\r\n  {BOB}  \nann:   a:b:c\n"
        keys = a2a.read_api_keys(text)
        self.assertEqual(["ann", "api-key", "ann"], [key.caller.display for key in keys])
        self.assertEqual(keys[0].caller.owner, keys[2].caller.owner)
        self.assertEqual(keys, a2a.read_api_keys(text.split("\n")))

    def test_callers_without_a_name_are_apart(self):
        """LIST-05: a key without a name is a caller of its own, whatever line it stands on."""
        first, second = (key.caller.owner for key in a2a.read_api_keys([ANN, BOB]))
        self.assertNotEqual(first, second)
        self.assertEqual(second, a2a.read_api_keys([BOB])[0].caller.owner)
        digest = a2a.read_api_keys([BOB])[0].digest.hex()
        self.assertNotIn(second, [key.caller.owner for key in a2a.read_api_keys([f"{digest}: x"])])

    def test_what_is_no_key_is_refused_without_being_shown(self):
        for lines, words in (
            ("ann: \n", "Line 1"),
            ("fine\ntwo words", "Line 2"), ("schlüssel", "Line 1"), ("a\0b", "Line 1"),
            ("a name: key", "Line 1"), ("b" * 65 + ": key", "Line 1"),
        ):  # fmt: skip
            with self.subTest(lines), self.assertRaises(a2a.UsageError) as caught:
                a2a.read_api_keys(lines)
            self.assertIn(words, str(caught.exception))
            for secret in ("words", "schl", "b: key"):
                self.assertNotIn(secret, str(caught.exception))

    def test_no_key_is_kept(self):
        """AUTH-25: a digest is all there is of a key, in every representation."""
        server = a2a.Server("echo", api_keys=KEYS, port=0)
        for shown in (server.options, vars(server._keys), vars(server)):
            self.assertNotIn(ANN, repr(shown))


class KeyFileTest(unittest.TestCase):
    """A key that is taken out of the file is revoked while the server runs."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name, "keys")
        patch = unittest.mock.patch.object(a2a, "KEYS_LOOK_S", 0)
        patch.start()
        self.addCleanup(patch.stop)
        self.log = io.StringIO()
        redirected = contextlib.redirect_stderr(self.log)
        redirected.__enter__()
        self.addCleanup(redirected.__exit__, None, None, None)

    def write(self, *lines):
        self.path.write_text("\n".join(lines), encoding="utf-8")

    def known(self, keys):
        return [bool(keys.find(key)) for key in (ANN, BOB, NOBODY)]

    def test_what_the_file_says_holds(self):
        self.write("ann: " + ANN)
        keys = a2a.ApiKeys(["bob: " + BOB], str(self.path))
        self.assertEqual([True, True, False], self.known(keys))
        self.write("nobody: " + NOBODY)
        self.assertEqual([False, True, True], self.known(keys))
        self.write("# all revoked")
        self.assertEqual([False, True, False], self.known(keys))

    def test_a_file_that_cannot_be_read_changes_nothing(self):
        self.write("ann: " + ANN)
        keys = a2a.ApiKeys(path=str(self.path))
        self.write("ann: " + ANN, "not a key")
        self.assertEqual([True, False, False], self.known(keys))
        self.path.unlink()
        self.assertEqual([True, False, False], self.known(keys))
        said = self.log.getvalue().splitlines()
        self.assertIn("Line 2", said[0])
        self.assertIn("cannot be read", said[1], "what is wrong in it is told once")
        self.assertNotIn("not a key", self.log.getvalue())
        self.write("bob: " + BOB)
        self.assertEqual([False, True, False], self.known(keys))

    def test_it_is_looked_at_from_time_to_time_only(self):
        self.write("ann: " + ANN)
        keys = a2a.ApiKeys(path=str(self.path))
        with unittest.mock.patch.object(a2a, "KEYS_LOOK_S", 3600):
            self.known(keys)
            self.write("bob: " + BOB)
            self.assertEqual([True, False, False], self.known(keys))

    def test_a_server_stops_listening_to_a_key(self):
        self.write("ann: " + ANN, "bob: " + BOB)
        with Guarded(api_keys=None, api_key_file=str(self.path)) as agent:
            self.assertEqual(200, agent.rest("GET", "/tasks", key=ANN)[0])
            self.write("bob: " + BOB)
            self.assertEqual(401, agent.rest("GET", "/tasks", key=ANN)[0])
            self.assertEqual(200, agent.rest("GET", "/tasks", key=BOB)[0])
            self.write("")
            self.assertEqual(401, agent.rest("GET", "/tasks", key=BOB)[0])
            self.assertEqual(401, agent.rest("GET", "/tasks")[0])


class AttemptsTest(unittest.TestCase):
    def setUp(self):
        self.now = 1000.0
        self.attempts = a2a.Attempts(3, lambda: self.now)

    def fail(self, peer, times=1):
        for _ in range(times):
            self.attempts.begin(peer)

    def test_so_many_a_minute_may_fail(self):
        self.fail("192.0.2.7", 3)
        self.now += 20.5
        with self.assertRaises(a2a.RateLimitedError) as caught:
            self.fail("192.0.2.7")
        self.assertEqual(40, caught.exception.retry_after_s)
        self.fail("192.0.2.8", 3)
        self.now += 40
        self.fail("192.0.2.7", 3)

    def test_one_that_succeeded_does_not_count(self):
        for _ in range(10):
            self.attempts.begin("192.0.2.7")[1] -= 1
        self.fail("192.0.2.7", 3)

    def test_a_network_of_ipv6_is_one_peer(self):
        """One customer has 2^64 addresses; an IPv4 address in IPv6 clothes is itself."""
        self.fail("2001:db8:0:1::1", 3)
        for peer, refused in (
            ("2001:db8:0:1:ffff::9", True), ("2001:db8:0:2::1", False),
            ("::ffff:192.0.2.9", False), ("192.0.2.8", False),
        ):  # fmt: skip
            with self.subTest(peer), contextlib.ExitStack() as stack:
                if refused:
                    stack.enter_context(self.assertRaises(a2a.RateLimitedError))
                self.fail(peer)
        self.fail("fe80:0:0:5::1%eth0", 3)
        self.fail("fe80:0:0:6::1%eth0", 3)
        self.fail("::ffff:192.0.2.8", 2)
        with self.assertRaises(a2a.RateLimitedError):
            self.fail("192.0.2.8")

    def test_no_limit_is_no_limit(self):
        self.attempts.limit = 0
        self.fail("192.0.2.7", 100)

    def test_the_table_is_bounded(self):
        self.fail("192.0.2.7", 3)
        for number in range(a2a.AUTH_PEERS_COUNT):
            self.attempts.begin(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        self.assertEqual(a2a.AUTH_PEERS_COUNT, len(self.attempts._peers))
        self.fail("192.0.2.7")


class GateTest(unittest.TestCase):
    def setUp(self):
        self.keys = a2a.ApiKeys(KEYS)
        self.tokens = Tokens()

    def test_without_a_credential_it_is_open(self):
        gate = a2a.Gate()
        self.assertTrue(gate.open)
        self.assertEqual(({}, []), gate.schemes())

    def test_the_card_lists_each_credential_as_a_requirement_of_its_own(self):
        key = {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}
        oidc = Tokens.schemes["oidc"]
        for gate, names, requirements in (
            (a2a.Gate(self.keys), ["apiKey"], [["apiKey"]]),
            (a2a.Gate(None, self.tokens), ["oidc"], [["oidc"]]),
            (a2a.Gate(self.keys, self.tokens), ["apiKey", "oidc"], [["apiKey"], ["oidc"]]),
            (a2a.Gate(None, None, True), ["mtls"], [["mtls"]]),
            (
                a2a.Gate(self.keys, self.tokens, True),
                ["apiKey", "oidc", "mtls"],
                [["apiKey", "mtls"], ["oidc", "mtls"]],
            ),
        ):
            self.assertFalse(gate.open)
            schemes, alternatives = gate.schemes()
            self.assertEqual(names, list(schemes))
            self.assertEqual(requirements, [list(one["schemes"]) for one in alternatives])
            self.assertEqual(schemes.get("apiKey", key), key)
            self.assertEqual(schemes.get("oidc", oidc), oidc)

    def test_the_card_says_which_scopes_a_token_needs(self):
        self.tokens.scopes = ("tasks:read", "tasks:write")
        _, alternatives = a2a.Gate(self.keys, self.tokens).schemes()
        listed = {"oidc": {"list": ["tasks:read", "tasks:write"]}}
        self.assertEqual([{"schemes": {"apiKey": {}}}, {"schemes": listed}], alternatives)

    def test_a_key_names_its_caller(self):
        gate = a2a.Gate(self.keys)
        for key, name in ((ANN, "ann"), (BOB, "bob")):
            caller = admit(gate, x_api_key=key)
            self.assertEqual((name, ("api-key", name, "", "")), (caller.display, caller.owner))

    def test_only_the_whole_key_counts(self):
        for number in range(3000):
            self.assertIsNone(self.keys.find(f"guess-{number}"))

    def test_without_a_credential_the_challenge_is_bare(self):
        """AUTH-18: a challenge for each scheme, and words on what to send."""
        fault = admit(a2a.Gate(self.keys, self.tokens))
        self.assertIsInstance(fault, a2a.UnauthenticatedError)
        self.assertEqual(['Bearer realm="a2a"', CHALLENGE], challenges(fault))
        self.assertIn("an API key as X-API-Key or a bearer token", str(fault))
        self.assertEqual([CHALLENGE], challenges(admit(a2a.Gate(self.keys))))
        fault = admit(a2a.Gate(self.keys, self.tokens), x_api_key="")
        self.assertIn("Authentication required", str(fault))

    def test_a_wrong_key_is_told_as_such(self):
        """AUTH-18: and does not come back in the answer."""
        for key in (NOBODY, ANN + "x", ANN[:-1], ANN.upper(), f"{ANN}, {BOB}", "\xff\xfe", " "):
            fault = admit(a2a.Gate(self.keys), x_api_key=key)
            self.assertIsInstance(fault, a2a.UnauthenticatedError, key)
            self.assertEqual("The API key is not known here", str(fault))
            self.assertEqual([CHALLENGE], challenges(fault))

    def test_a_token_goes_to_its_issuer_with_the_certificate(self):
        caller = admit(
            a2a.Gate(self.keys, self.tokens), "192.0.2.7", b"DER", authorization="Bearer good"
        )
        self.assertEqual("carol", caller.display)
        self.assertEqual([("good", b"DER")], self.tokens.seen)

    def test_names_of_schemes_ignore_case(self):
        """AUTH-17: and more than one blank may follow."""
        gate = a2a.Gate(None, self.tokens)
        for value in ("bearer good", "BEARER good", "Bearer  good", "bEaReR   good"):
            self.assertEqual("carol", admit(gate, authorization=value).display, value)
        for value in ("Basic dTrDqQ==", "bearergood", "good", ""):
            fault = admit(gate, authorization=value)
            self.assertIsInstance(fault, a2a.UnauthenticatedError, value)
            self.assertEqual(['Bearer realm="a2a"'], challenges(fault))

    def test_a_bad_token_is_told_why(self):
        """AUTH-18: as RFC 6750 has it, in what a quoted string may hold."""
        fault = admit(a2a.Gate(self.keys, self.tokens), authorization="Bearer bad")
        self.assertIsInstance(fault, a2a.UnauthenticatedError)
        told = 'error="invalid_token", error_description="The token is for another audience"'
        self.assertEqual([f'Bearer realm="a2a", {told}', CHALLENGE], challenges(fault))

    def test_a_missing_scope_is_another_answer(self):
        """AUTH-18: 403 names the scope, and is no failed sign-in."""
        gate = a2a.Gate(None, self.tokens, attempts=a2a.Attempts(1))
        for _ in range(3):
            fault = admit(gate, authorization="Bearer weak")
            self.assertIsInstance(fault, a2a.PermissionDeniedError)
            self.assertIn('error="insufficient_scope"', challenges(fault)[0])
            self.assertIn('scope="tasks:write"', challenges(fault)[0])

    def test_two_credentials_or_a_broken_one_are_no_request(self):
        """AUTH-18: 400 with the challenge of RFC 6750 section 3.1."""
        gate = a2a.Gate(self.keys, self.tokens)
        for headers in (
            {"x_api_key": ANN, "authorization": "Bearer good"},
            {"authorization": "Bearer good, Bearer good"}, {"authorization": "Bearer"},
            {"authorization": "Bearer a b"}, {"authorization": "bearer =="},
        ):  # fmt: skip
            fault = admit(gate, **headers)
            self.assertIsInstance(fault, a2a.InvalidRequestError, headers)
            self.assertIn('error="invalid_request"', challenges(fault)[0])
        self.assertEqual([], self.tokens.seen)

    def test_what_is_not_asked_for_is_not_looked_at(self):
        """A proxy's own Authorization does no harm where keys are the only credential."""
        gate = a2a.Gate(self.keys)
        self.assertEqual("ann", admit(gate, x_api_key=ANN, authorization="Basic x").display)
        gate = a2a.Gate(None, self.tokens)
        self.assertEqual("carol", admit(gate, x_api_key=ANN, authorization="Bearer good").display)

    def test_a_certificate_names_the_caller_when_nothing_else_does(self):
        gate = a2a.Gate(None, None, True)
        caller = admit(gate, "192.0.2.7", b"DER", "spiffe://example/ann")
        self.assertEqual(("certificate", "", "spiffe://example/ann", ""), caller.owner)
        self.assertEqual("spiffe://example/ann", caller.display)
        gate = a2a.Gate(self.keys, None, True)
        caller = admit(gate, "192.0.2.7", b"DER", "spiffe://example/ann", x_api_key=BOB)
        self.assertEqual("bob", caller.display)
        self.assertIsInstance(admit(gate, "192.0.2.7", b"DER", "x"), a2a.UnauthenticatedError)

    def test_a_certificate_is_never_taken_for_granted(self):
        for gate in (a2a.Gate(None, None, True), a2a.Gate(self.keys, None, True)):
            fault = admit(gate, x_api_key=ANN)
            self.assertIsInstance(fault, a2a.UnauthenticatedError)
            self.assertIn("certificate", str(fault))

    def test_failed_sign_ins_are_limited(self):
        """A right key waits as well, or guessing would go on until it is found."""
        gate = a2a.Gate(self.keys, self.tokens, attempts=a2a.Attempts(3))
        for headers in ({"x_api_key": NOBODY}, {"authorization": "Bearer x"}, {"x_api_key": "y"}):
            self.assertIsInstance(admit(gate, **headers), a2a.UnauthenticatedError)
        seen = len(self.tokens.seen)
        for headers in ({"x_api_key": ANN}, {"authorization": "Bearer good"}):
            fault = admit(gate, **headers)
            self.assertIsInstance(fault, a2a.RateLimitedError)
            self.assertTrue(0 < fault.retry_after_s <= 60)
        self.assertEqual(seen, len(self.tokens.seen))
        self.assertEqual("ann", admit(gate, "192.0.2.8", x_api_key=ANN).display)
        self.assertIsInstance(admit(gate), a2a.UnauthenticatedError)  # asks what to send

    def test_neither_good_ones_nor_our_own_trouble_count(self):
        gate = a2a.Gate(self.keys, self.tokens, attempts=a2a.Attempts(1))
        for _ in range(3):
            self.assertEqual("ann", admit(gate, x_api_key=ANN).display)
            self.assertEqual("carol", admit(gate, authorization="Bearer good").display)
            with self.assertRaises(a2a.TransportError):
                admit(gate, authorization="Bearer down")

    def test_an_attempt_counts_before_it_is_looked_at(self):
        """A flood of tokens at once costs no more than so many checks."""
        gate = a2a.Gate(None, self.tokens, attempts=a2a.Attempts(5))

        async def flood():
            self.tokens.go = asyncio.Event()
            calls = [
                asyncio.ensure_future(gate.admit(exchange(authorization=f"Bearer {number}")))
                for number in range(50)
            ]
            await asyncio.sleep(0)
            self.tokens.go.set()
            return await asyncio.gather(*calls, return_exceptions=True)

        with contextlib.redirect_stderr(io.StringIO()):
            kinds = [type(result) for result in asyncio.run(flood())]
        self.assertEqual(5, len(self.tokens.seen))
        self.assertEqual(5, kinds.count(a2a.UnauthenticatedError))
        self.assertEqual(45, kinds.count(a2a.RateLimitedError))

    def test_who_waits_for_the_keys_of_an_issuer_has_not_failed(self):
        gate = a2a.Gate(None, self.tokens, attempts=a2a.Attempts(5))

        async def crowd():
            self.tokens.keys = asyncio.Event()
            calls = [
                asyncio.ensure_future(gate.admit(exchange(authorization="Bearer good")))
                for _ in range(50)
            ]
            await asyncio.sleep(0)
            self.tokens.keys.set()
            return await asyncio.gather(*calls)

        self.assertEqual(["carol"] * 50, [caller.display for caller in asyncio.run(crowd())])

    def test_failures_are_logged_without_the_credential(self):
        """AUTH-25: the log says who and why."""
        out = io.StringIO()
        gate = a2a.Gate(self.keys, self.tokens)
        for headers in ({"x_api_key": NOBODY}, {"authorization": "Bearer secret.token"}):
            with contextlib.redirect_stderr(out), self.assertRaises(a2a.Fault):
                asyncio.run(gate.admit(exchange(**headers)))
        self.assertEqual(2, out.getvalue().count("192.0.2.7"))
        self.assertNotIn(NOBODY, out.getvalue())
        self.assertNotIn("secret.token", out.getvalue())


REST, RPC, GRPC = "HTTP+JSON", "JSONRPC", "GRPC"


class Guarded:
    """A server that wants a key, and calls of it over each binding.

    call gives what came of a call: the HTTP or gRPC status, the headers or trailers, the answer.
    """

    def __init__(self, agent="echo", **options):
        options = {"api_keys": KEYS, "port": 0, **options}
        self.log = io.StringIO()
        with contextlib.redirect_stderr(self.log):
            self.server = a2a.Server(agent, **options)

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(contextlib.redirect_stderr(self.log))
        self.stack.enter_context(self.server)
        self.port, self.url = self.server.port, self.server.url
        return self

    def __exit__(self, *_):
        self.stack.close()

    def client(self, binding, key):
        return a2a.Client(self.url, transport=(binding,), api_key=key)

    def rest(self, method, path, body=b"", key=None):
        headers = [("X-API-Key", key)] if key else []
        status, fields, answer = support.http(self.port, method, path, headers, body)
        return status, fields, json.loads(answer)

    def rpc(self, method, params, key=None):
        headers = [("x-api-key", key)] if key else []
        return support.http(self.port, "POST", "/", headers, support.rpc_body(method, params))

    def grpc(self, operation, params, key=None):
        metadata = {"x_api_key": key} if key else {}
        with Channel(self.port) as channel:
            return channel.answer(channel.call(operation, params, **metadata))


def sent(text="hi", **fields):
    return {"message": support.message(text, **fields)}


class RefusalTest(unittest.TestCase):
    def test_every_binding_refuses_who_has_no_key(self):
        """AUTH-18: with its own kind of error, and the challenge."""
        with Guarded() as agent:
            for key in (None, NOBODY):
                status, headers, body = agent.rpc("SendMessage", sent(), key)
                error = json.loads(body)
                self.assertEqual((401, -32050), (status, error["error"]["code"]))
                self.assertIsNone(error["id"])
                self.assertEqual(CHALLENGE, headers["www-authenticate"])
                status, headers, answer = agent.rest("POST", "/message:send", sent(), key)
                self.assertEqual((401, "UNAUTHENTICATED"), (status, answer["error"]["status"]))
                self.assertEqual(CHALLENGE, headers["www-authenticate"])
                answer = agent.grpc("SendMessage", sent(), key)
                self.assertEqual((200, "UNAUTHENTICATED"), (answer.status, answer.grpc_status))
                self.assertEqual(CHALLENGE, answer.headers["www-authenticate"])

    def test_every_operation_needs_a_key(self):
        """A2A section 7.4: no request gets by, whatever it asks."""
        with Guarded() as agent:
            for operation in a2a.OPERATIONS:
                status, _, _ = agent.rpc(operation, {"id": "x"})
                self.assertEqual(401, status, operation)
            for method, path in (
                ("GET", "/tasks"), ("GET", "/tasks/x"), ("GET", "/extendedAgentCard"),
                ("GET", "/acme/tasks"), ("GET", "/nope"), ("PUT", "/"), ("POST", "/a2a/jsonrpc"),
                ("GET", "/tasks/x:subscribe"), ("OPTIONS", "/tasks"),
            ):  # fmt: skip
                self.assertEqual(401, support.http(agent.port, method, path)[0], (method, path))

    def test_the_card_is_public(self):
        """It is how a client learns what to send."""
        with Guarded() as agent:
            for path in (a2a.CARD_PATH, a2a.OLD_CARD_PATH):
                status, _, card = agent.rest("GET", path)
                self.assertEqual(200, status)
            self.assertEqual([{"schemes": {"apiKey": {}}}], card["securityRequirements"])
            self.assertTrue(card["capabilities"]["extendedAgentCard"])
            self.assertEqual([], a2a.violations("AgentCard", card))
            self.assertEqual(card, a2a.read_message("AgentCard", card))

    def test_credentials_are_judged_before_everything_else(self):
        """But for the host and the page that ask: those are refused first."""
        with Guarded() as agent:
            for headers in ([("A2A-Version", "9.9")], [("Content-Type", "text/plain")]):
                status, _, _ = support.http(agent.port, "POST", "/", headers, b"no json")
                self.assertEqual(401, status)
            for header, expected in ((("Host", "evil.example"), 421), (("Origin", "null"), 403)):
                headers = [header, ("X-API-Key", ANN)]
                self.assertEqual(expected, support.http(agent.port, "GET", "/tasks", headers)[0])

    def test_a_body_is_not_waited_for(self):
        """JSON-18: refused at the head; a short rest is read over, a long one ends it all."""
        with Guarded() as agent:
            for length, stays in ((a2a.BODY_BEFORE_SIGN_IN_BYTES, True), (2**20 + 1, False)):
                with support.Raw(agent.port) as raw:
                    raw.send(
                        support.head("POST", "/", agent.port, [("Content-Length", str(length))])
                    )
                    status, headers, _ = raw.read_reply()
                    self.assertEqual(401, status)
                    self.assertEqual(stays, headers.get("connection") != "close")
                    if stays:
                        raw.send(b"x" * length)
                        key = [("X-API-Key", ANN)]
                        raw.send(support.head("GET", "/tasks", agent.port, key))
                        self.assertEqual(200, raw.read_reply()[0])
            with support.Raw(agent.port) as raw:
                fields = [("Content-Length", "10"), ("Expect", "100-continue")]
                raw.send(support.head("POST", "/", agent.port, fields))
                self.assertEqual(401, raw.read_head()[0])

    def test_failed_sign_ins_are_answered_429_over_every_binding(self):
        """CLI-14: with Retry-After; the card can still be read."""
        with Guarded(auth_failures_a_minute=3) as agent:
            for _ in range(3):
                self.assertEqual(401, agent.rest("GET", "/tasks", key=NOBODY)[0])
            status, headers, answer = agent.rest("GET", "/tasks", key=ANN)
            self.assertEqual((429, "RESOURCE_EXHAUSTED"), (status, answer["error"]["status"]))
            self.assertTrue(0 < int(headers["retry-after"]) <= 60)
            status, headers, body = agent.rpc("ListTasks", {}, ANN)
            self.assertEqual((429, -32051), (status, json.loads(body)["error"]["code"]))
            self.assertIn("retry-after", headers)
            self.assertEqual("RESOURCE_EXHAUSTED", agent.grpc("ListTasks", {}, ANN).grpc_status)
            self.assertEqual(200, agent.rest("GET", a2a.CARD_PATH)[0])
        with Guarded(auth_failures_a_minute=0) as agent:
            for _ in range(30):
                self.assertEqual(401, agent.rest("GET", "/tasks", key=NOBODY)[0])
            self.assertEqual(200, agent.rest("GET", "/tasks", key=ANN)[0])

    def test_tokens_are_refused_as_each_binding_has_it(self):
        """AUTH-18: 401, 403 and 400 with RFC 6750's words, and the codes of JSON-RPC and gRPC."""

        class TokenGate(a2a.Gate):
            def __init__(self, keys, _, *rest):
                super().__init__(keys, Tokens(), *rest)

        with unittest.mock.patch.object(a2a, "Gate", TokenGate), Guarded() as agent:
            for token, words, http, rpc, grpc, more in (
                ("bad", "invalid_token", 401, -32050, "UNAUTHENTICATED", ()),
                ("weak", "insufficient_scope", 403, -32052, "PERMISSION_DENIED", ()),
                ("a b", "invalid_request", 400, -32600, "INVALID_ARGUMENT", ()),
                ("good", "invalid_request", 400, -32600, "INVALID_ARGUMENT", [("X-API-Key", ANN)]),
            ):
                fields = [("Authorization", "Bearer " + token), *more]
                told = f'error="{words}"'
                body = support.rpc_body("ListTasks", {})
                status, headers, body = support.http(agent.port, "POST", "/", fields, body)
                self.assertEqual((http, rpc), (status, json.loads(body)["error"]["code"]), token)
                self.assertIn(told, headers["www-authenticate"])
                status, headers, body = support.http(agent.port, "GET", "/tasks", fields)
                self.assertEqual((http, grpc), (status, json.loads(body)["error"]["status"]))
                metadata = {name.lower().replace("-", "_"): value for name, value in fields}
                with Channel(agent.port) as channel:
                    answer = channel.answer(channel.call("ListTasks", {}, **metadata))
                self.assertEqual(grpc, answer.grpc_status)
                self.assertIn(told, answer.headers["www-authenticate"])
            fields = [("Authorization", "Bearer good")]
            self.assertEqual(200, support.http(agent.port, "GET", "/tasks", fields)[0])

    def test_no_answer_and_no_log_holds_a_key(self):
        """AUTH-25: neither the right ones nor those that were tried."""
        with Guarded() as agent:
            said = [agent.rest("GET", path)[2] for path in (a2a.CARD_PATH, "/tasks")]
            said += [agent.rest("GET", "/tasks", key=NOBODY)]
            said += [agent.rpc("Nope", {}, ANN), agent.rest("GET", "/extendedAgentCard", key=ANN)]
            answer = agent.grpc("ListTasks", {}, NOBODY)
            said += [answer.headers, answer.trailers]
        text = repr(said) + agent.log.getvalue()
        self.assertIn("Not let in: 127.0.0.1", text)
        for key in (ANN, BOB, NOBODY):
            self.assertNotIn(key, text)


class CallersTest(unittest.TestCase):
    def test_every_binding_lets_in_who_has_a_key(self):
        with Guarded(lambda turn: turn.caller.display) as agent:
            for binding in (RPC, REST, GRPC):
                with agent.client(binding, BOB) as client:
                    self.assertEqual("bob", a2a.text_of(client.send("who am I?")), binding)
                    events = list(client.stream("who am I?"))
                    self.assertEqual("bob", a2a.text_of(events[-2]) or a2a.text_of(events[0]))

    def test_tasks_of_other_callers_do_not_exist(self):
        """LIST-05: over all bindings a foreign task looks like none at all."""
        with Guarded(lambda turn: turn.ask("Which one?")) as agent:
            with agent.client(RPC, ANN) as client:
                task = client.send("mine")["task"]
            for binding in (RPC, REST, GRPC):
                with agent.client(binding, BOB) as client:
                    self.assertEqual([], client.list()["tasks"])
                    self.assertEqual(0, client.list(contextId=task["contextId"])["totalSize"])
                    for call in (
                        client.get, client.cancel, lambda name: list(client.subscribe(name)),
                        lambda name: client.send("more", task_id=name),
                        lambda name: client.send("more", task_id=name, wait=False),
                        lambda name: list(client.stream("more", task_id=name)),
                    ):  # fmt: skip
                        said = []
                        for name in (task["id"], "no-such-task"):
                            with self.assertRaises(a2a.TaskNotFoundError) as caught:
                                call(name)
                            said.append((str(caught.exception), caught.exception.details))
                        self.assertEqual(*said)
                with agent.client(binding, ANN) as client:
                    self.assertEqual(1, client.list()["totalSize"])
                    self.assertEqual(task["id"], client.get(task["id"])["id"])

    def test_contexts_of_other_callers_are_other_contexts(self):
        """LIST-05: the same id, another conversation."""
        with contextlib.ExitStack() as stack:
            agent = stack.enter_context(Guarded(lambda turn: turn.text))
            ann, bob = (stack.enter_context(agent.client(RPC, key)) for key in (ANN, BOB))
            context_id = ann.send("hers")["task"]["contextId"]
            self.assertEqual(
                context_id, bob.send("his", context_id=context_id)["task"]["contextId"]
            )
            for client, text in ((ann, "hers"), (bob, "his")):
                page = client.list(contextId=context_id, includeArtifacts=True)
                self.assertEqual([text], [a2a.text_of(task) for task in page["tasks"]])

    def test_a_tenant_is_no_way_around(self):
        """LIST-05: an owner is the credential first."""
        with Guarded() as agent:
            body = sent()
            made = agent.rest("POST", "/acme/message:send", body, ANN)[2]["task"]["id"]
            self.assertEqual(200, agent.rest("GET", f"/acme/tasks/{made}", key=ANN)[0])
            for path, key in ((f"/acme/tasks/{made}", BOB), (f"/tasks/{made}", ANN)):
                self.assertEqual(404, agent.rest("GET", path, key=key)[0])

    def test_limits_are_for_each_caller(self):
        with Guarded(tasks_a_minute=2) as agent:
            for key in (ANN, BOB):
                codes = [agent.rest("POST", "/message:send", sent(), key)[0] for _ in range(3)]
                self.assertEqual([200, 200, 429], codes)

    def test_keys_of_one_name_are_one_caller(self):
        with Guarded(api_keys=["ann: old-key-0123456789", "ann: new-key-0123456789"]) as agent:
            agent.rest("POST", "/message:send", sent(), "old-key-0123456789")
            listed = agent.rest("GET", "/tasks", key="new-key-0123456789")[2]
            self.assertEqual(1, listed["totalSize"])

    def test_what_a_caller_gets_is_for_no_cache(self):
        """RFC 9111 keeps shared caches off for Authorization, and knows nothing of X-API-Key."""
        with Guarded() as agent:
            for path in ("/tasks", "/extendedAgentCard"):
                self.assertEqual("no-store", agent.rest("GET", path, key=ANN)[1]["cache-control"])


class ExtendedCardTest(unittest.TestCase):
    def test_who_signed_in_is_told_the_limits(self):
        """CARD-18: over every binding; nobody else is."""
        with Guarded(tasks_a_minute=7, max_request_bytes=2**20) as agent:
            self.assertEqual(401, agent.rest("GET", "/extendedAgentCard")[0])
            public = agent.rest("GET", a2a.CARD_PATH)[2]
            self.assertNotIn("extensions", public["capabilities"])
            for binding in (RPC, REST, GRPC):
                with agent.client(binding, ANN) as client:
                    card = client.extended_card()
                self.assertEqual([], a2a.violations("AgentCard", card))
                (extension,) = card["capabilities"].pop("extensions")
                self.assertEqual(a2a.LIMITS_URI, extension["uri"])
                limits = extension["params"]
                self.assertEqual((7, 2**20), (limits["tasksPerMinute"], limits["maxRequestBytes"]))
                self.assertEqual(public, card)

    def test_extensions_of_the_user_stay_in_it(self):
        ours = {"uri": "https://example.com/ext", "required": True}
        card = {"capabilities": {"extensions": [ours]}, "signatures": [
            {"protected": "e30", "signature": "AA"}]}  # fmt: skip
        with Guarded(card=card) as agent:
            headers = [("X-API-Key", ANN), ("A2A-Extensions", ours["uri"])]
            answer = support.rpc(agent.port, "GetExtendedAgentCard", {}, headers)["result"]
        uris = [extension["uri"] for extension in answer["capabilities"]["extensions"]]
        self.assertEqual([ours["uri"], a2a.LIMITS_URI], uris)
        self.assertNotIn("signatures", answer)

    def test_a_card_that_does_not_declare_it_has_none(self):
        """CARD-18: -32004 where it is not declared, even with a credential."""
        with Guarded(card={"capabilities": {"extendedAgentCard": False}}) as agent:
            headers = [("X-API-Key", ANN)]
            answer = support.rpc(agent.port, "GetExtendedAgentCard", {}, headers)
        self.assertEqual(-32004, answer["error"]["code"])


class ExposureTest(unittest.TestCase):
    """Other machines reach a server only where a credential says who they are."""

    def test_without_a_credential_it_stays_on_loopback(self):
        for host in ("0.0.0.0", "::", "192.0.2.1", "agent.example"):
            with self.subTest(host), self.assertRaises(a2a.UsageError) as caught:
                a2a.Server("echo", host=host)
            self.assertIn("would let anyone", str(caught.exception))
            for words in ("--api-key-file", "A2A_SERVE_API_KEY", "--public-url"):
                self.assertIn(words, caught.exception.hint)

    def test_no_key_among_the_keys_is_no_way_to_open_it(self):
        for keys in ("", [], "# none yet\n"):
            with self.subTest(keys), self.assertRaises(a2a.UsageError):
                a2a.Server("echo", api_keys=keys)

    def test_with_a_credential_it_serves_others_and_warns(self):
        with Guarded(host="0.0.0.0") as agent:
            self.assertIn("no TLS on 0.0.0.0", agent.log.getvalue())
            self.assertEqual(401, agent.rest("GET", "/tasks")[0])
            self.assertEqual(200, agent.rest("GET", "/tasks", key=ANN)[0])

    def warned(self, **options):
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            a2a.Server("echo", api_keys=KEYS, **options)
        return out.getvalue()

    def test_nothing_is_said_where_nobody_can_listen(self):
        self.assertEqual("", self.warned(host="127.0.0.1"))
        self.assertEqual("", self.warned(host="0.0.0.0", public_url="https://agent.example"))
        self.assertIn("no TLS", self.warned(host="0.0.0.0", public_url="http://agent.example"))


if __name__ == "__main__":
    unittest.main()
