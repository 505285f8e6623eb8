"""Chapter 19, the edge: the card, who may ask, what is refused, and a server over real sockets."""

import asyncio
import contextlib
import contextvars
import gc
import gzip
import http.client
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

PATIENCE_S = 20.0  # how long a test waits for what must come
URL = "http://127.0.0.1:41241"


def answer_tests(turn):
    """Answers tests.

    And nothing else.
    """
    return turn.text


def card_of(url=URL, **options):
    """Build a card with the options of a server."""
    return a2a.build_card(a2a.ServerOptions(**options), url, a2a.load_agent(answer_tests))


class CardTest(unittest.TestCase):
    def test_a_card_has_every_required_field(self):
        """CARD-15: nothing required is missing, null or empty."""
        card = card_of()
        self.assertEqual([], a2a.violations("AgentCard", card))
        for field in a2a.MESSAGES["AgentCard"]:
            if field.required:
                self.assertTrue(card[field.name], field.name)
        for field in a2a.MESSAGES["AgentSkill"]:
            if field.required:
                self.assertTrue(card["skills"][0][field.name], field.name)

    def test_a_card_is_its_own_canonical_form(self):
        card = card_of(skills=["One"], description="d", name="n")
        self.assertEqual(card, a2a.read_message("AgentCard", json.loads(a2a.write_json(card))))

    def test_the_interfaces_are_the_transports_in_their_order(self):
        card = card_of(transports=("HTTP+JSON", "JSONRPC"))
        self.assertEqual(
            [
                {"url": URL, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
                {"url": URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            ],
            card["supportedInterfaces"],
        )

    def test_an_agent_says_who_it_is_itself(self):
        card = card_of()
        self.assertEqual(("answer_tests", "Answers tests."), (card["name"], card["description"]))
        options = a2a.ServerOptions()
        for agent, name in (("echo", "Echo"), (lambda turn: "", "Agent")):
            card = a2a.build_card(options, URL, a2a.load_agent(agent))
            self.assertEqual(name, card["name"])
            self.assertTrue(card["description"])

    def test_the_user_says_who_the_agent_is(self):
        card = card_of(name="Cook", description="Cooks", skills=["Fry eggs!", "東京"])
        self.assertEqual(("Cook", "Cooks"), (card["name"], card["description"]))
        whole = {"id": "x", "name": "X", "description": "Does x", "tags": ["x"]}
        self.assertEqual([whole], card_of(skills=[whole])["skills"])
        ids = [(skill["id"], skill["name"]) for skill in card["skills"]]
        self.assertEqual([("fry-eggs", "Fry eggs!"), ("skill", "東京")], ids)

    def test_a_partial_card_is_laid_over_the_built_one(self):
        over = {
            "version": "7",
            "capabilities": {"streaming": False},
            "provider": {"organization": "Example", "url": "https://example.com"},
        }
        card = card_of(card=over)
        self.assertEqual("7", card["version"])
        self.assertEqual({"streaming": False, "pushNotifications": False}, card["capabilities"])
        self.assertEqual("Example", card["provider"]["organization"])
        self.assertEqual("answer_tests", card["name"])

    def test_a_partial_card_may_come_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "card.json")
            pathlib.Path(path).write_text('{"name": "Größe"}', encoding="utf-8")
            self.assertEqual("Größe", card_of(card=path)["name"])

    def test_a_card_that_breaks_the_specification_is_refused(self):
        """CARD-15: nulls and wrong types never get out."""
        for over, words in (
            ({"skills": [{"id": "x"}]}, "skills[0].name: is required"),
            ({"name": 7}, "name: must be a string"),
            ({"supportedInterfaces": "x"}, "supportedInterfaces: must be a list"),
            ({"capabilities": {"pushNotifications": True}}, "push notifications"),
        ):
            with self.subTest(over), self.assertRaises(a2a.UsageError) as caught:
                card_of(card=over)
            self.assertIn(words, str(caught.exception))

    def test_null_in_a_partial_card_takes_a_field_out(self):
        """CARD-15: a null does not get out either."""
        self.assertNotIn("provider", card_of(card={"provider": None}))
        self.assertEqual([], card_of(card={"skills": []})["skills"])
        with self.assertRaises(a2a.UsageError):
            card_of(card={"skills": None})

    def test_a_card_file_that_cannot_be_used_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content, words in (
                ("gone.json", None, "cannot be read"),
                ("bad.json", "{", "is no JSON"),
                ("list.json", "[]", "is no JSON object"),
            ):
                path = pathlib.Path(folder, name)
                if content is not None:
                    path.write_text(content, encoding="utf-8")
                with self.subTest(name), self.assertRaises(a2a.UsageError) as caught:
                    card_of(card=str(path))
                self.assertIn(words, str(caught.exception))


class CardPageTest(unittest.TestCase):
    """CARD-16: what caches ask for."""

    def setUp(self):
        self.page = a2a.CardPage(card_of(), 1_000_000_000.5)
        status, headers, self.body = self.page.answer({})
        self.headers = dict(headers)
        self.assertEqual(200, status)

    def status(self, **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        status, _, body = self.page.answer(names)
        self.assertEqual(b"" if status == 304 else self.body, body)
        return status

    def test_the_card_says_how_long_it_lasts(self):
        """CARD-16: ETag, Last-Modified and Cache-Control."""
        self.assertEqual("public, max-age=60", self.headers["cache-control"])
        self.assertEqual("Sun, 09 Sep 2001 01:46:40 GMT", self.headers["last-modified"])
        self.assertRegex(self.headers["etag"], r'^"[0-9a-f]{32}"$')
        self.assertEqual("application/json", self.headers["content-type"])

    def test_another_card_has_another_tag(self):
        other = a2a.CardPage(card_of(name="Other"), 0.0).answer({})[1]
        self.assertNotEqual(self.headers["etag"], dict(other)["etag"])

    def test_a_known_tag_is_answered_304(self):
        """CARD-16: one tag, weak ones, lists, and any."""
        tag = self.headers["etag"]
        for value in (tag, f"W/{tag}", f'"other", {tag}', f'W/"a,b" , W/{tag},"c"', "*", " * "):
            self.assertEqual(304, self.status(if_none_match=value), value)
        for value in ('"other"', 'W/"abc"', tag.strip('"'), "", f'"x{tag[1:]}', tag[:-1]):
            self.assertEqual(200, self.status(if_none_match=value), value)

    def test_304_carries_the_validators(self):
        headers = dict(self.page.answer({"if-none-match": "*"})[1])
        self.assertEqual(self.headers["etag"], headers["etag"])
        self.assertEqual(self.headers["cache-control"], headers["cache-control"])

    def test_a_date_is_compared(self):
        """CARD-16: If-Modified-Since, when there is no tag to go by."""
        for value, status in (
            ("Sun, 09 Sep 2001 01:46:40 GMT", 304),
            ("Mon, 10 Sep 2001 00:00:00 GMT", 304),
            ("Sun, 09 Sep 2001 01:46:39 GMT", 200),
            ("Mon, 31 Dec 1999 23:59:59 GMT", 200),
            ("Sun, 09 Foo 2001 01:46:40 GMT", 200),
            ("yesterday", 200),
            ("", 200),
        ):
            self.assertEqual(status, self.status(if_modified_since=value), value)

    def test_the_tag_counts_more_than_the_date(self):
        late = "Mon, 10 Sep 2035 00:00:00 GMT"
        self.assertEqual(200, self.status(if_none_match='"other"', if_modified_since=late))


def asked(local="127.0.0.1", secure=False, **headers):
    """Give an exchange as far as the gate looks at it."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = types.SimpleNamespace(headers=names)
    return types.SimpleNamespace(request=request, local=local, secure=secure)


class OriginsTest(unittest.TestCase):
    def setUp(self):
        self.origins = a2a.Origins(["Agent.Example", "other.example"])

    def verdict(self, **headers):
        try:
            self.origins.check(asked(**headers))
        except a2a.HttpError as error:
            return error.status
        return 200

    def test_our_names_are_known(self):
        for host in (
            "localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:41241", "127.8.8.8", "[::1]",
            "[::1]:41241", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "agent.example",
            "AGENT.example:443", "other.example.", "localhost.:80", "other.example:",
        ):  # fmt: skip
            self.assertEqual(200, self.verdict(host=host), host)
            self.assertEqual(200, self.verdict(host=host), host)

    def test_other_names_are_refused(self):
        """CARD-05: neither a Host nor a forwarded name is believed."""
        for host in (
            "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.1", "0.0.0.0",
            "2130706433", "10.0.0.1", "[::2]", "[fe80::1]", "agent.example.evil", "[::]", "0x7f.1",
        ):  # fmt: skip
            self.assertEqual(421, self.verdict(host=host), host)
            self.assertEqual(421, self.verdict(host=host, x_forwarded_host="localhost"), host)

    def test_the_address_of_the_socket_is_known(self):
        self.assertEqual(200, self.verdict(host="10.0.0.1:80", local="10.0.0.1"))
        self.assertEqual(200, self.verdict(host="10.0.0.1", local="::ffff:10.0.0.1"))
        self.assertEqual(200, self.verdict(host="[fe80::1]", local="fe80::1"))
        self.assertEqual(421, self.verdict(host="10.0.0.2", local="10.0.0.1"))
        self.assertEqual(421, self.verdict(host="evil.example", local=""))

    def test_a_request_of_http_1_0_may_have_no_host(self):
        self.assertEqual(200, self.verdict())

    def test_pages_of_other_origins_are_refused(self):
        """NET-04: CORS is off, so nothing of another origin gets in."""
        for origin in (
            "https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1", "",
            "file://", "http://127.0.0.1:41241.evil.example", "http://evil.example:41241",
        ):  # fmt: skip
            self.assertEqual(403, self.verdict(host="127.0.0.1:41241", origin=origin), origin)
        self.assertEqual(403, self.verdict(origin="null"))

    def test_our_own_pages_are_let_in(self):
        for scheme in ("http", "https"):
            origin = f"{scheme}://Localhost:41241"
            self.assertEqual(200, self.verdict(host="localhost:41241", origin=origin))

    def test_a_page_without_tls_is_foreign_to_a_server_with_it(self):
        """Whoever is on the way could have written it, and the browser shows its certificate."""
        for scheme, status in (("http", 403), ("https", 200)):
            headers = {"host": "localhost:41241", "origin": f"{scheme}://localhost:41241"}
            self.assertEqual(status, self.verdict(secure=True, **headers))

    def test_a_rebound_name_does_not_count_as_our_own_page(self):
        headers = {"host": "evil.example", "origin": "http://evil.example"}
        self.assertEqual(421, self.verdict(**headers))

    def test_what_a_browser_calls_cross_site_is_refused(self):
        self.assertEqual(403, self.verdict(host="localhost", sec_fetch_site="cross-site"))
        self.assertEqual(200, self.verdict(host="localhost", sec_fetch_site="same-origin"))
        self.assertEqual(200, self.verdict(host="localhost", sec_fetch_site="none"))

    def test_the_names_that_are_remembered_are_bounded(self):
        for port in range(1000):
            self.assertEqual(200, self.verdict(host=f"localhost:{port}"))
        self.assertLessEqual(len(self.origins._names), a2a.REMEMBERED)


class MediaTypeTest(unittest.TestCase):
    def test_json_in_utf8_is_taken(self):
        """REST-03: both types, in any case, with a charset."""
        for value in (
            "application/json", "application/a2a+json", "Application/A2A+JSON;charset=UTF-8",
            "application/json; charset=utf-8", 'application/json;  Charset="utf-8"',
            "application/json; x=y", " application/json ",
        ):  # fmt: skip
            a2a.check_media_type(value)
            self.assertTrue(value)

    def test_anything_else_is_refused(self):
        """REST-03: a wrong type gives 415."""
        for value in (
            "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
            "application/json; charset=latin-1", "application/jsonx", "application/json, x/y",
            "text/plain; application/json", "application/json; charset=utf-8; charset=utf-16",
        ):  # fmt: skip
            with self.subTest(value), self.assertRaises(a2a.HttpError) as caught:
                a2a.check_media_type(value)
            self.assertEqual(415, caught.exception.status)


class LogTest(unittest.TestCase):
    def test_no_peer_writes_our_log(self):
        """Control characters are escaped, and a line of its own making is set in."""
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            a2a.log("a\x1b[31m\nFAKE\r\u202e\u2028\x9b\ud800 Grüße\n")
        escaped = "a\\x1b[31m\n    FAKE\\x0d\\u202e\\u2028\\x9b\\ud800 Grüße\n"
        self.assertEqual(escaped, out.getvalue())

    def test_a_log_that_nobody_reads_any_more_stops_no_work(self):
        ours, theirs = os.pipe()
        os.close(ours)
        with open(theirs, "w", encoding="utf-8") as pipe, contextlib.redirect_stderr(pipe):
            self.assertIsNone(a2a.log("into the void"))
            with contextlib.suppress(OSError):
                pipe.close()  # tries once more to flush what could not be written

    def test_an_agent_fails_as_ever_where_the_log_is_closed(self):

        def agent(turn):
            raise ValueError("to be logged")

        closed = io.StringIO()
        closed.close()
        with contextlib.redirect_stderr(closed), Asking(agent) as served:
            _, _, answer = served.ask("POST", "/message:send", message())
        self.assertEqual(a2a.FAILED, answer["task"]["status"]["state"])


def message(text="hi", **fields):
    """Give a SendMessageRequest."""
    return {
        "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    }


class Asking:
    """A server of one agent, and a connection to it."""

    def __init__(self, agent="echo", **options):
        self.server = a2a.Server(agent, **{"port": 0, **options})

    def __enter__(self):
        self.server.start()
        self.port = self.server.port
        self.link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return self

    def __exit__(self, *_):
        self.link.close()
        self.server.stop()

    def ask(self, method, path, body=None, **headers):
        """Send a request; give status, headers and the body, read as JSON if it is some."""
        fields = {"A2A-Version": "1.0"}
        if body is not None:
            fields["Content-Type"] = "application/json"
        fields.update((name.replace("_", "-"), value) for name, value in headers.items())
        fields = {name: value for name, value in fields.items() if value is not None}
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        self.link.request(method, path, data, fields)
        answer = self.link.getresponse()
        text = answer.read()
        with contextlib.suppress(ValueError):
            text = json.loads(text)
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text

    def rpc(self, method, params=None, path="/", **headers):
        """Call over JSON-RPC; give the status and the response object."""
        call = {"jsonrpc": "2.0", "id": 7, "method": method}
        if params is not None:
            call["params"] = params
        status, _, answer = self.ask("POST", path, call, **headers)
        return status, answer

    def raw(self, data, half_close=False):
        """Send bytes over a connection of their own; give all that comes until it is closed."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as link:
            link.sendall(data)
            if half_close:
                link.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := link.recv(65536):
                answer += piece
            return answer

    def open_stream(self, text, rest=False):
        """Begin a stream; give the response, whose lines can be read."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        call = {"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage"}
        body = message(text) if rest else {**call, "params": message(text)}
        headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
        link.request("POST", "/message:stream" if rest else "/", json.dumps(body), headers)
        return link, link.getresponse()


def next_event(response):
    """Read the next event's data as JSON; None at the end."""
    while line := response.readline():
        if line.startswith(b"data: "):
            return json.loads(line[6:])
    return None


def read_events(response):
    """Read the rest of a stream."""
    return list(iter(lambda: next_event(response), None))


def states(events):
    """Give what the StreamResponses of a stream say, in short."""
    found = []
    for event in events:
        event = event.get("result", event)
        if "artifactUpdate" in event:
            found.append("artifact")
        else:
            kind = "task" if "task" in event else "statusUpdate"
            found.append(event[kind]["status"]["state"].removeprefix("TASK_STATE_"))
    return found


def eventually(check):
    """Wait until check() is true."""
    until = time.monotonic() + PATIENCE_S
    while not check():
        if time.monotonic() > until:
            raise AssertionError("it never came true")
        time.sleep(0.01)


class Gated:
    """An agent whose turns wait until the test lets them go on."""

    def __init__(self):
        self.go = threading.Event()
        self.began = threading.Event()

    async def __call__(self, turn):
        turn.status("working")
        self.began.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        return "done"


class CardOverTheWireTest(unittest.TestCase):
    def test_the_card_is_at_both_well_known_places(self):
        with Asking() as agent:
            for path in (a2a.CARD_PATH, a2a.OLD_CARD_PATH, a2a.CARD_PATH + "/"):
                status, headers, card = agent.ask("GET", path, A2A_Version=None)
                self.assertEqual((200, "application/json"), (status, headers["content-type"]))
                self.assertEqual(agent.server.url, card["supportedInterfaces"][0]["url"])
            self.assertEqual([], a2a.violations("AgentCard", card))

    def test_head_gives_the_headers_alone(self):
        """NET-05: HEAD."""
        with Asking() as agent:
            _, got, _ = agent.ask("GET", a2a.CARD_PATH)
            status, headers, body = agent.ask("HEAD", a2a.CARD_PATH)
        self.assertEqual((200, b""), (status, body))
        self.assertEqual(got["content-length"], headers["content-length"])
        self.assertEqual(got["etag"], headers["etag"])

    def test_a_card_that_is_known_is_not_sent_again(self):
        """CARD-16: 304 over the wire, and the connection goes on."""
        with Asking() as agent:
            _, headers, _ = agent.ask("GET", a2a.CARD_PATH)
            for _ in range(2):
                status, _, body = agent.ask("GET", a2a.CARD_PATH, If_None_Match=headers["etag"])
                self.assertEqual((304, b""), (status, body))
            since = headers["last-modified"]
            self.assertEqual(304, agent.ask("GET", a2a.CARD_PATH, If_Modified_Since=since)[0])

    def test_the_card_is_read_only(self):
        with Asking() as agent:
            status, headers, _ = agent.ask("POST", a2a.CARD_PATH, {})
        self.assertEqual((405, "GET, HEAD"), (status, headers["allow"]))

    def test_the_address_in_the_card_is_the_bound_one(self):
        """CARD-04: not what a Host header says."""
        with Asking() as agent:
            _, _, card = agent.ask("GET", a2a.CARD_PATH, Host="localhost:1")
        urls = [interface["url"] for interface in card["supportedInterfaces"]]
        url = f"http://127.0.0.1:{agent.port}"
        self.assertEqual([url, url, f"127.0.0.1:{agent.port}"], urls)

    def test_a_wildcard_address_never_gets_into_the_card(self):
        """CARD-04: 0.0.0.0 and [::] are no addresses to call."""
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            for host in ("0.0.0.0", "::", "0:0:0:0:0:0:0:0"):
                url = a2a.base_url(host, 80)
                self.assertNotRegex(url, r"//0\.0\.0\.0|//\[[0:]*\]")
        self.assertIn("--public-url", out.getvalue())
        self.assertEqual("http://[::1]:8080", a2a.base_url("::1", 8080))

    def test_behind_a_proxy_the_public_url_counts(self):
        """CARD-05: and no forwarded header."""
        forwarded = {
            "X_Forwarded_Proto": "https",
            "X_Forwarded_Host": "evil.example",
            "X_Forwarded_Prefix": "/agents/a",
            "Forwarded": "host=evil.example",
        }
        with Asking(public_url="https://agent.example/team/a/") as agent:
            _, _, card = agent.ask("GET", a2a.CARD_PATH, **forwarded)
            urls = {interface["url"] for interface in card["supportedInterfaces"]}
            self.assertEqual({"https://agent.example/team/a"}, urls)
            for prefix in ("", "/team/a"):
                for host in ("agent.example", "127.0.0.1", "AGENT.example:443"):
                    path = prefix + a2a.CARD_PATH
                    self.assertEqual(200, agent.ask("GET", path, Host=host)[0], (path, host))
                self.assertIn("task", agent.rpc("SendMessage", message(), prefix)[1]["result"])
                path = prefix + "/message:send"
                self.assertIn("task", agent.ask("POST", path, message())[2])
            self.assertEqual(404, agent.ask("GET", "/team/ab" + a2a.CARD_PATH)[0])

    def test_the_transports_chosen_are_listed_and_served(self):
        with Asking(transports=["HTTP+JSON"]) as agent:
            _, _, card = agent.ask("GET", a2a.CARD_PATH)
            bindings = [i["protocolBinding"] for i in card["supportedInterfaces"]]
            self.assertEqual(["HTTP+JSON"], bindings)
            self.assertEqual(404, agent.rpc("SendMessage", message())[0])
            self.assertEqual(200, agent.ask("POST", "/message:send", message())[0])
        with Asking(transports=["JSONRPC"]) as agent:
            self.assertEqual(404, agent.ask("POST", "/message:send", message())[0])
            self.assertEqual(200, agent.rpc("SendMessage", message())[0])

    def test_the_extended_card(self):
        """CARD-18: not declared, and declared but none."""
        with Asking() as agent:
            self.assertEqual(-32004, agent.rpc("GetExtendedAgentCard")[1]["error"]["code"])
            status, _, body = agent.ask("GET", "/extendedAgentCard")
            self.assertEqual(400, status)
            self.assertEqual("UNSUPPORTED_OPERATION", body["error"]["details"][0]["reason"])
        with Asking(card={"capabilities": {"extendedAgentCard": True}}) as agent:
            self.assertEqual(-32007, agent.rpc("GetExtendedAgentCard")[1]["error"]["code"])
            self.assertEqual(400, agent.ask("GET", "/extendedAgentCard")[0])


class RoutingTest(unittest.TestCase):
    def test_both_bindings_live_at_the_root_and_beside_it(self):
        with Asking() as agent:
            for path in ("", "/", "/a2a/jsonrpc", "/a2a/jsonrpc/"):
                status, answer = agent.rpc("SendMessage", message(), path)
                self.assertEqual(200, status, path)
                self.assertIn("task", answer["result"])
            for path in ("/message:send", "/message:send/", "/a2a/rest/message:send"):
                status, headers, answer = agent.ask("POST", path, message())
                self.assertEqual((200, a2a.A2A_TYPE), (status, headers["content-type"]), path)
                self.assertIn("task", answer)

    def test_unknown_paths_are_404(self):
        """NET-05: 404, in the words of REST."""
        with Asking() as agent:
            for path in ("/nope", "/a2a", "/a2a/rest", "/.well-known/other", "/message:sends"):
                status, _, answer = agent.ask("GET", path)
                self.assertEqual((404, 404), (status, answer["error"]["code"]), path)

    def test_wrong_methods_are_405_with_allow(self):
        """NET-05: 405 with Allow."""
        with Asking() as agent:
            for method, path, allow in (
                ("GET", "/", "POST"),
                ("PUT", "/a2a/jsonrpc", "POST"),
                ("DELETE", "/tasks", "GET"),
                ("PUT", "/tasks/t1:subscribe", "GET, POST"),
                ("GET", "/message:send", "POST"),
                ("HEAD", "/tasks/t1:subscribe", "GET, POST"),
                ("BREW", "/tasks/t1", "GET"),
            ):
                status, headers, _ = agent.ask(method, path)
                self.assertEqual((405, allow), (status, headers["allow"]), (method, path))

    def test_head_is_a_get_without_its_body(self):
        """NET-05: HEAD on a REST path."""
        with Asking() as agent:
            status, headers, body = agent.ask("HEAD", "/tasks")
            self.assertEqual((200, b""), (status, body))
            self.assertGreater(int(headers["content-length"]), 10)
            self.assertEqual(404, agent.ask("HEAD", "/tasks/none")[0])

    def test_options_names_the_methods_and_lets_no_page_in(self):
        """NET-04: CORS is off; a preflight gets no leave."""
        with Asking() as agent:
            status, headers, body = agent.ask("OPTIONS", "/tasks")
            self.assertEqual((204, "GET", b""), (status, headers["allow"], body))
            self.assertNotIn("content-type", headers)  # of what?
            self.assertEqual("POST", agent.ask("OPTIONS", "/")[1]["allow"])
            self.assertEqual("GET, HEAD", agent.ask("OPTIONS", a2a.CARD_PATH)[1]["allow"])
            origin = {"Origin": "https://evil.example", "Access_Control_Request_Method": "POST"}
            status, headers, _ = agent.ask("OPTIONS", "/", **origin)
            self.assertEqual(403, status)
            self.assertFalse([name for name in headers if name.startswith("access-control")])

    def test_a_target_may_name_the_host(self):
        with Asking() as agent:
            request = "GET http://{0}{1} HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\r\n"
            for host, status in ((f"127.0.0.1:{agent.port}", b"200"), ("evil.example", b"421")):
                answer = agent.raw(request.format(host, a2a.CARD_PATH).encode())
                self.assertEqual(status, answer[9:12])


class RefusalTest(unittest.TestCase):
    def test_pages_of_other_origins_are_refused_before_anything(self):
        """NET-04: whatever they ask, also with a body that never comes."""
        with Asking() as agent:
            for path in ("/", "/message:send", a2a.CARD_PATH, "/nope"):
                status, headers, _ = agent.ask("POST", path, "x", Origin="null")
                self.assertEqual(403, status, path)
                self.assertFalse([name for name in headers if name.startswith("access-control")])
            request = (
                f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{agent.port}\r\nOrigin: https://evil.example"
                "\r\nContent-Length: 10000000\r\n\r\n"
            )
            self.assertTrue(agent.raw(request.encode()).startswith(b"HTTP/1.1 403 "))

    def test_a_refusal_of_json_rpc_has_its_error(self):
        with Asking() as agent:
            status, answer = agent.rpc("SendMessage", message(), Origin="https://evil.example")
            self.assertEqual((403, -32052, None), (status, answer["error"]["code"], answer["id"]))
            _, _, answer = agent.ask("POST", "/message:send", "x", Origin="null")
            self.assertEqual("PERMISSION_DENIED", answer["error"]["status"])

    def test_names_that_were_made_to_point_here_are_refused(self):
        """CARD-05: Host must be a name of ours, for the card as well."""
        with Asking(allow_hosts=["inside.example"]) as agent:
            for host, status in (
                ("evil.example", 421),
                (f"evil.example:{agent.port}", 421),
                ("inside.example", 200),
                ("localhost", 200),
                (f"[::1]:{agent.port}", 200),
            ):
                self.assertEqual(status, agent.ask("GET", a2a.CARD_PATH, Host=host)[0], host)
                self.assertEqual(status, agent.rpc("ListTasks", Host=host)[0], host)

    def test_other_media_types_are_refused(self):
        """REST-03: 415 with a body, over both bindings; none needed without one."""
        with Asking() as agent:
            for path in ("/", "/message:send"):
                for kind in ("text/plain", "application/x-www-form-urlencoded", None):
                    status, _, _ = agent.ask("POST", path, "{}", Content_Type=kind)
                    self.assertEqual(415, status, (path, kind))
            for kind in ("application/json", "Application/A2A+JSON;charset=UTF-8"):
                status, headers, _ = agent.ask(
                    "POST", "/message:send", message(), Content_Type=kind
                )
                self.assertEqual((200, a2a.A2A_TYPE), (status, headers["content-type"]))

    def test_the_path_is_judged_before_the_body(self):
        """NET-05: 404 and 405 before 415, and without waiting for a body."""
        with Asking() as agent:
            self.assertEqual(404, agent.ask("POST", "/nope", "x", Content_Type="text/plain")[0])
            self.assertEqual(405, agent.ask("PUT", "/tasks", "x", Content_Type="text/plain")[0])
            request = (
                f"POST /nope HTTP/1.1\r\nHost: 127.0.0.1:{agent.port}\r\nA2A-Version: 1.0\r\n"
                "Content-Type: application/json\r\nContent-Length: 10000000\r\n\r\n"
            )
            self.assertTrue(agent.raw(request.encode()).startswith(b"HTTP/1.1 404 "))

    def test_a_request_over_the_limit_is_refused(self):
        """JSON-18: 413 at once, the connection closed, the server goes on."""
        with Asking(max_request_bytes=100_000) as agent:
            for length in ("60000000", "100001"):
                head = (
                    f"POST /message:send HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
                )
                answer = agent.raw(head.encode() + b"{" * 50_000)
                self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer)
                self.assertIn(b"connection: close", answer)
            for lie in (b"-1", b"+5", b"1_0", b"5, 6"):
                head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %b\r\n\r\n{}"
                self.assertTrue(agent.raw(head % lie).startswith(b"HTTP/1.1 400 "), lie)
            self.assertEqual(200, agent.rpc("SendMessage", message())[0])

    def test_large_requests_together_have_a_limit_as_well(self):
        """CLI-14: 503 for one more, over both bindings."""
        head = (
            "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\n"
            "Content-Type: application/json\r\nContent-Length: 300000\r\n\r\n"
        )
        with unittest.mock.patch.object(a2a, "BODIES_BYTES", 100_000), Asking() as agent:
            for path, code in (("/", b"-32051"), ("/message:send", b'"UNAVAILABLE"')):
                answer = agent.raw(head.format(path).encode() + b"x" * 200_000)
                self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
                self.assertIn(code, answer)
            self.assertEqual(200, agent.rpc("SendMessage", message())[0])

    def test_without_a_limit_any_length_is_taken(self):
        text = "x" * (a2a.BODY_BYTES + 1)
        with Asking(lambda turn: str(len(turn.text)), max_request_bytes=0) as agent:
            task = agent.ask("POST", "/message:send", message(text))[2]["task"]
            self.assertEqual(str(len(text)), a2a.text_of(task))

    def test_a_short_content_length_does_not_smuggle(self):
        """JSON-18: what goes past Content-Length is the next request, and a bad one."""
        head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
        with Asking() as agent:
            answer = agent.raw(head + b"Content-Type: application/json\r\n\r\n{}x y z\r\n\r\n")
        self.assertEqual([b"200", b"400"], [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]])

    def test_compressed_bodies_are_not_understood(self):
        with Asking() as agent:
            body = gzip.compress(json.dumps(message()).encode())
            status, _, _ = agent.ask("POST", "/message:send", body, Content_Encoding="gzip")
        self.assertEqual(400, status)


class BindingsOverTheWireTest(unittest.TestCase):
    def test_malformed_json(self):
        """RPC-01: -32700 with id null, HTTP 200, and nothing of the parser."""
        with Asking() as agent:
            for body in ('{"jsonrpc":"2.0",', "", "\ufeff{}", "nonsense"):
                status, _, answer = agent.ask("POST", "/", body.encode())
                self.assertEqual((200, -32700), (status, answer["error"]["code"]), body)
                self.assertIsNone(answer["id"])
                self.assertNotIn("Traceback", answer["error"]["message"])
            self.assertEqual(400, agent.ask("POST", "/message:send", "{")[0])

    def test_unknown_methods(self):
        """RPC-03: -32601, also for the names of 0.3."""
        with Asking() as agent:
            for method in ("tasks/get", "message/send", "sendmessage", "x"):
                status, answer = agent.rpc(method, {})
                self.assertEqual((200, -32601), (status, answer["error"]["code"]), method)

    def test_wrong_params(self):
        """RPC-04: -32602 with the fields that are wrong."""
        with Asking() as agent:
            for params in ([], None, {"message": "hi"}, {"message": {"parts": []}}, "x", 7):
                _, answer = agent.rpc("SendMessage", params)
                error = answer["error"]
                self.assertEqual(-32602, error["code"], params)
                self.assertEqual(a2a.BAD_REQUEST, error["data"][0]["@type"])
                self.assertTrue(error["data"][0]["fieldViolations"])

    def test_subscribing_over_rest_goes_with_both_methods(self):
        """REST-01: GET and POST, and no other route swallows it."""
        gated = Gated()
        with Asking(gated) as agent:
            link, stream = agent.open_stream("x", rest=True)
            task_id = next_event(stream)["task"]["id"]
            streams = []
            for method in ("GET", "POST"):
                other = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=PATIENCE_S)
                other.request(method, f"/tasks/{task_id}:subscribe", headers={"A2A-Version": "1.0"})
                streams.append((other, other.getresponse()))
            for _, answer in streams:
                self.assertEqual(200, answer.status)
                self.assertEqual(task_id, next_event(answer)["task"]["id"])
            gated.go.set()
            for other, answer in streams:
                self.assertEqual("COMPLETED", states(read_events(answer))[-1])
                other.close()
            link.close()

    def test_cancelling_needs_no_body(self):
        """REST-02: without a body or Content-Type, and with an empty one."""
        for body, headers in ((None, {}), ("", {"Content_Type": None}), ({"metadata": {}}, {})):
            gated = Gated()
            with Asking(gated) as agent:
                link, stream = agent.open_stream("x")
                task_id = next_event(stream)["result"]["task"]["id"]
                path = f"/tasks/{task_id}:cancel"
                status, _, task = agent.ask("POST", path, body, **headers)
                self.assertEqual((200, a2a.CANCELED), (status, task["status"]["state"]))
                link.close()

    def test_zero_is_a_value_in_a_query(self):
        """REST-04: historyLength=0 leaves the history out."""
        with Asking() as agent:
            task_id = agent.ask("POST", "/message:send", message())[2]["task"]["id"]
            self.assertIn("history", agent.ask("GET", f"/tasks/{task_id}")[2])
            task = agent.ask("GET", f"/tasks/{task_id}?historyLength=0")[2]
            self.assertNotIn("history", task)

    def test_bad_filters_are_refused(self):
        """REST-05: not answered with all tasks."""
        with Asking() as agent:
            for query in (
                "status=foo", "status=invalid", "pageSize=0", "pageSize=101", "pageSize=x",
                "historyLength=-1", "pageToken=unknown", "statusTimestampAfter=yesterday",
            ):  # fmt: skip
                status, _, answer = agent.ask("GET", "/tasks?" + query)
                self.assertEqual(400, status, query)
                self.assertEqual("INVALID_ARGUMENT", answer["error"]["status"])

    def test_booleans_and_repeats(self):
        """REST-06: true is true; two values for one field are refused."""
        with Asking() as agent:
            agent.ask("POST", "/message:send", message())
            tasks = agent.ask("GET", "/tasks?includeArtifacts=true")[2]["tasks"]
            self.assertIn("artifacts", tasks[0])
            self.assertNotIn("artifacts", agent.ask("GET", "/tasks")[2]["tasks"][0])
            for query in ("status=1&status=2", "includeArtifacts=yes", "includeArtifacts=1"):
                self.assertEqual(400, agent.ask("GET", "/tasks?" + query)[0], query)

    def test_preconditions_are_400(self):
        """REST-12: subscribing to an ended task, cancelling it, writing to it."""
        with Asking() as agent:
            task_id = agent.ask("POST", "/message:send", message())[2]["task"]["id"]
            for method, path, body in (
                ("POST", f"/tasks/{task_id}:subscribe", None),
                ("GET", f"/tasks/{task_id}:subscribe", None),
                ("POST", f"/tasks/{task_id}:cancel", None),
                ("POST", "/message:send", message(taskId=task_id)),
                ("POST", "/message:stream", message(taskId=task_id)),
                ("POST", f"/tasks/{task_id}/pushNotificationConfigs", {"url": "https://x.example"}),
            ):
                status, headers, answer = agent.ask(method, path, body)
                self.assertEqual((400, 400), (status, answer["error"]["code"]), path)
                self.assertEqual(a2a.A2A_TYPE, headers["content-type"])
            self.assertEqual(404, agent.ask("GET", "/tasks/none")[0])

    def test_push_configurations_do_not_exist_yet(self):
        """REST-13: whatever is asked of them."""
        with Asking() as agent:
            task_id = agent.ask("POST", "/message:send", message())[2]["task"]["id"]
            path = f"/tasks/{task_id}/pushNotificationConfigs"
            for method, where in (("GET", path), ("GET", path + "/c"), ("DELETE", path + "/none")):
                for _ in range(2):
                    status, _, answer = agent.ask(method, where)
                    self.assertEqual(400, status)
                    reason = answer["error"]["details"][0]["reason"]
                    self.assertEqual("PUSH_NOTIFICATION_NOT_SUPPORTED", reason)

    def test_the_version_must_be_named(self):
        """VER-01: absent or empty means 0.3, which is not spoken; the text says what to do."""
        with Asking() as agent:
            for version in (None, "", " "):
                status, answer = agent.rpc("ListTasks", {}, A2A_Version=version)
                self.assertEqual((200, -32009), (status, answer["error"]["code"]))
                self.assertIn("A2A-Version: 1.0", answer["error"]["message"])
                self.assertEqual(400, agent.ask("GET", "/tasks", A2A_Version=version)[0])

    def test_a_lenient_server_takes_an_absent_version_for_1_0(self):
        """VER-01: the option."""
        with Asking(lenient_version=True) as agent:
            self.assertIn("result", agent.rpc("ListTasks", {}, A2A_Version=None)[1])
            self.assertIn("error", agent.rpc("ListTasks", {}, A2A_Version="0.3")[1])

    def test_other_versions_are_refused(self):
        """VER-03: with the reason, over both bindings."""
        with Asking() as agent:
            for version in ("9.9", "abc", "0.30", "0.3", "1.1", "1"):
                status, _, answer = agent.ask("GET", "/tasks", A2A_Version=version)
                self.assertEqual(400, status, version)
                self.assertEqual("FAILED_PRECONDITION", answer["error"]["status"])
                reason = answer["error"]["details"][0]["reason"]
                self.assertEqual("VERSION_NOT_SUPPORTED", reason)
                error = agent.rpc("ListTasks", {}, A2A_Version=version)[1]["error"]
                self.assertEqual(-32009, error["code"])

    def test_the_version_may_stand_in_the_query(self):
        """VER-05: alone; where both differ the header wins."""
        with Asking() as agent:
            path = "/tasks?A2A-Version=1.0"
            self.assertEqual(200, agent.ask("GET", path, A2A_Version=None)[0])
            self.assertEqual(400, agent.ask("GET", path, A2A_Version="0.3")[0])
            self.assertEqual(200, agent.ask("GET", "/tasks?A2A-Version=0.3")[0])
            answer = agent.rpc("ListTasks", {}, "/?A2A-Version=1.0", A2A_Version=None)[1]
            self.assertIn("result", answer)

    def test_a_required_extension_must_be_named(self):
        """EXT-01: -32008 without it."""
        uri = "https://example.com/ext/v1"
        card = {"capabilities": {"extensions": [{"uri": uri, "required": True}]}}
        with Asking(card=card) as agent:
            self.assertEqual(-32008, agent.rpc("SendMessage", message())[1]["error"]["code"])
            named = f"https://example.com/other, {uri}"
            self.assertIn("result", agent.rpc("SendMessage", message(), A2A_Extensions=named)[1])

    def test_tasks_of_others_do_not_exist(self):
        """LIST-05: another tenant's task and none at all look the same."""
        with Asking() as agent:
            task_id = agent.ask("POST", "/acme/message:send", message())[2]["task"]["id"]
            self.assertEqual(200, agent.ask("GET", f"/acme/tasks/{task_id}")[0])
            self.assertEqual(0, agent.ask("GET", "/tasks")[2]["totalSize"])
            for method, path in (
                ("GET", "/tasks/{}"), ("POST", "/tasks/{}:cancel"), ("GET", "/tasks/{}:subscribe"),
                ("GET", "/other/tasks/{}"),
            ):  # fmt: skip
                foreign = agent.ask(method, path.format(task_id))
                missing = agent.ask(method, path.format("missing"))
                self.assertEqual(404, foreign[0])
                self.assertEqual(foreign[2], missing[2])
            body = message(taskId=task_id)
            foreign = agent.rpc("SendMessage", body)[1]
            self.assertEqual(-32001, foreign["error"]["code"])


class LargeBodyTest(unittest.TestCase):
    def test_others_have_their_turn_between_reading_a_large_body_and_the_work(self):
        order, read = [], a2a.JSONRPC.read

        def watched(*arguments):
            call = read(*arguments)
            order.append("read")
            asyncio.get_running_loop().call_soon(order.append, "others")
            return call

        class Agent(a2a.EchoAgent):
            def run(self, turn):
                order.append("work")
                return "done"

        with Asking(Agent()) as agent, unittest.mock.patch.object(a2a.JSONRPC, "read", watched):
            for text, wanted in (("x", ["read", "work"]), ("x" * 1_100_000, ["read", "others"])):
                order.clear()
                self.assertEqual(200, agent.rpc("SendMessage", message(text))[0])
                eventually(lambda: len(order) == 3)
                self.assertEqual(wanted, order[:2])


class FailureTest(unittest.TestCase):
    def test_an_internal_failure_tells_the_caller_nothing(self):
        """RPC-08: a generic text and a reference; the log has the rest."""
        secret = "/home/ann/key.pem: hunter2"
        out = io.StringIO()
        broken = unittest.mock.patch.object(a2a.Origins, "check", side_effect=KeyError(secret))
        with contextlib.redirect_stderr(out), Asking() as agent, broken:
            status, answer = agent.rpc("ListTasks", {})
            rest = agent.ask("GET", "/tasks")
        self.assertEqual((200, -32603), (status, answer["error"]["code"]))
        self.assertEqual(500, rest[0])
        text = json.dumps([answer, rest[2]])
        for word in ("hunter2", "ann", "KeyError", "Traceback", "a2a.py"):
            self.assertNotIn(word, text)
        reference = answer["error"]["message"].split()[-1]
        self.assertIn(reference, out.getvalue())
        self.assertIn("hunter2", out.getvalue())

    def test_a_failure_in_the_midst_of_a_stream_is_its_last_event(self):
        """RPC-08: over both bindings."""
        for rest in (False, True):
            out = io.StringIO()
            real = a2a.Subscription.__anext__
            calls = []

            async def fail(subscription, real=real, calls=calls):
                calls.append(1)
                if len(calls) > 1:
                    raise KeyError("hunter2")
                return await real(subscription)

            broken = unittest.mock.patch.object(a2a.Subscription, "__anext__", fail)
            with contextlib.redirect_stderr(out), Asking() as agent, broken:
                link, stream = agent.open_stream("x", rest)
                events = read_events(stream)
                link.close()
            self.assertIn("error", events[-1])
            self.assertNotIn("hunter2", json.dumps(events))
            self.assertIn("hunter2", out.getvalue())

    def test_too_many_messages_are_answered_429(self):
        """CLI-14: with Retry-After, over both bindings."""
        gated = Gated()
        with Asking(gated, max_concurrent_tasks=1, queue=3) as agent:
            immediately = {**message(), "configuration": {"returnImmediately": True}}
            for _ in range(4):
                self.assertEqual(200, agent.ask("POST", "/message:send", immediately)[0])
            status, headers, answer = agent.ask("POST", "/message:send", immediately)
            self.assertEqual((429, "RESOURCE_EXHAUSTED"), (status, answer["error"]["status"]))
            self.assertGreater(int(headers["retry-after"]), 0)
            status, answer = agent.rpc("SendMessage", immediately)
            self.assertEqual((429, -32051), (status, answer["error"]["code"]))
            self.assertEqual(200, agent.ask("GET", "/tasks")[0])
            gated.go.set()


class StreamOverTheWireTest(unittest.TestCase):
    def test_a_stream_is_ready_for_proxies(self):
        """SSE-17: nothing in between caches or buffers it."""
        with Asking() as agent:
            for rest in (False, True):
                link, stream = agent.open_stream("x", rest)
                headers = {name.lower(): value for name, value in stream.getheaders()}
                self.assertEqual("text/event-stream", headers["content-type"])
                self.assertEqual("no-cache", headers["cache-control"])
                self.assertEqual("no", headers["x-accel-buffering"])
                self.assertEqual(["SUBMITTED", "artifact", "COMPLETED"], short(read_events(stream)))
                link.close()

    def test_a_silent_agent_is_kept_company_by_comments(self):
        """SSE-17: a comment now and then."""
        gated = Gated()
        often = unittest.mock.patch.multiple(a2a, SSE_COMMENT_S=0.1, SWEEP_S=0.05)
        with often, Asking(gated) as agent:
            link, stream = agent.open_stream("x")
            seen = b""
            while seen.count(b"\n:\n") < 2:
                seen += stream.readline()
            gated.go.set()
            self.assertEqual("COMPLETED", states(read_events(stream))[-1])
            link.close()

    def test_a_reader_that_does_not_keep_up_costs_little_and_is_told(self):
        """SSE-18: no more of its stream than a part lies in memory, then it ends with an error."""

        async def talk(turn):
            for _ in range(600):
                turn.artifact("x" * 65536, name="big", append=True)
                await asyncio.sleep(0)
            done.set()

        done = threading.Event()

        async def agent_function(turn):
            turn.artifact("x", name="big")
            await talk(turn)

        with Asking(agent_function) as agent:
            queued = []
            real = a2a.ServerWire.write

            def write(wire, data):
                real(wire, data)
                queued.append(wire.transport.get_write_buffer_size())

            with unittest.mock.patch.object(a2a.ServerWire, "write", write):
                link, stream = agent.open_stream("x")
                self.assertTrue(done.wait(PATIENCE_S))
                self.assertLess(max(queued), 2_000_000)
                last = read_events(stream)[-1]
                link.close()
        self.assertEqual(-32051, last["error"]["code"])

    def test_a_card_without_streaming(self):
        """SSE-16: -32004 when it is not declared."""
        with Asking(card={"capabilities": {"streaming": False}}) as agent:
            error = agent.rpc("SendStreamingMessage", message())[1]["error"]
            self.assertEqual(-32004, error["code"])
            self.assertEqual(400, agent.ask("POST", "/message:stream", message())[0])
            self.assertEqual(200, agent.ask("POST", "/message:send", message())[0])

    def test_a_client_that_drops_its_stream_leaves_the_task_alone(self):
        """SSE-18: it goes on and is there to be asked for."""
        gated = Gated()
        with Asking(gated) as agent:
            link, stream = agent.open_stream("x")
            task_id = next_event(stream)["result"]["task"]["id"]
            stream.close()
            link.close()
            self.assertTrue(gated.began.wait(PATIENCE_S))
            gated.go.set()

            def completed():
                task = agent.rpc("GetTask", {"id": task_id})[1]["result"]
                return task["status"]["state"] == a2a.COMPLETED

            eventually(completed)

    def test_subscribing_gives_the_task_first(self):
        """SSE-19: then what happens, then the end."""
        gated = Gated()
        with Asking(gated) as agent:
            link, stream = agent.open_stream("x")
            task_id = next_event(stream)["result"]["task"]["id"]
            other = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=PATIENCE_S)
            call = {"jsonrpc": "2.0", "id": 8, "method": "SubscribeToTask"}
            body = json.dumps({**call, "params": {"id": task_id}})
            headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
            other.request("POST", "/", body, headers)
            subscription = other.getresponse()
            first = next_event(subscription)
            self.assertEqual((8, task_id), (first["id"], first["result"]["task"]["id"]))
            gated.go.set()
            self.assertEqual("COMPLETED", states(read_events(subscription))[-1])
            self.assertEqual("COMPLETED", states(read_events(stream))[-1])
            other.close()
            link.close()

    def test_subscribing_to_an_ended_task(self):
        """SSE-20: an error before any SSE header."""
        with Asking() as agent:
            task_id = agent.rpc("SendMessage", message())[1]["result"]["task"]["id"]
            call = {"jsonrpc": "2.0", "id": 8, "method": "SubscribeToTask"}
            status, headers, answer = agent.ask("POST", "/", {**call, "params": {"id": task_id}})
            self.assertEqual((200, -32004), (status, answer["error"]["code"]))
            self.assertEqual("application/json", headers["content-type"])
            status, headers, answer = agent.ask("POST", f"/tasks/{task_id}:subscribe")
            self.assertEqual((400, a2a.A2A_TYPE), (status, headers["content-type"]))


class Http2OverTheWireTest(unittest.TestCase):
    """The same port, the same answers."""

    def ask(self, agent, *requests):
        """Send (method, path, host, body) side by side; give [(status, body)] in that order."""
        machine = a2a.Http2Connection(client=True)
        streams = []
        for method, path, host, body in requests:
            fields = [("host", host), ("a2a-version", "1.0")]
            if body:
                fields.append(("content-type", "application/json"))
            streams.append(machine.request(method, path, fields, json.dumps(body or "").encode()))
        events = []
        with socket.create_connection(("127.0.0.1", agent.port), PATIENCE_S) as link:
            while sum(isinstance(event, a2a.End) for event in events) < len(streams):
                link.sendall(machine.take_output())
                events += machine.receive(link.recv(65536))
        answers = []
        for stream in streams:
            mine = [event for event in events if event.stream == stream]
            body = b"".join(event.data for event in mine if isinstance(event, a2a.Data))
            answers.append((mine[0].status, body))
        return answers

    def test_card_calls_and_streams(self):
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}
        with Asking() as agent:
            host = f"127.0.0.1:{agent.port}"
            card, rpc, rest, stream = self.ask(
                agent,
                ("GET", a2a.CARD_PATH, host, None),
                ("POST", "/", host, call),
                ("POST", "/message:send", host, message()),
                ("POST", "/message:stream", host, message()),
            )
        self.assertEqual(agent.server.url, json.loads(card[1])["supportedInterfaces"][0]["url"])
        self.assertIn("task", json.loads(rpc[1])["result"])
        self.assertIn("task", json.loads(rest[1]))
        events = [json.loads(line[6:]) for line in stream[1].split(b"\n") if line]
        self.assertEqual("COMPLETED", states(events)[-1])

    def test_the_authority_must_be_a_name_of_ours(self):
        """CARD-05: as Host must."""
        with Asking() as agent:
            answers = self.ask(
                agent,
                ("GET", a2a.CARD_PATH, "evil.example", None),
                ("GET", a2a.CARD_PATH, "localhost", None),
            )
        self.assertEqual([421, 200], [status for status, _ in answers])


def short(events):
    """Give the states without repeats in a row."""
    found = []
    for state in states(events):
        if found[-1:] != [state]:
            found.append(state)
    return found


class StartTest(unittest.TestCase):
    """A task whose first step is made at once, where Python lets us."""

    def run_main(self, main):
        return asyncio.run(main())

    def test_its_first_step_runs_inside_the_task(self):
        async def job(seen):
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

        async def main():
            seen = []
            task = a2a.start_task(job(seen))
            self.assertIsNot(task, asyncio.current_task())
            await task
            return seen == [task, task]

        self.assertTrue(self.run_main(main))

    def test_outside_of_any_task_it_does_the_same(self):
        async def job(seen):
            seen.append(asyncio.current_task() is not None)

        async def main():
            seen, done = [], asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.call_soon(
                lambda: a2a.start_task(job(seen)).add_done_callback(lambda _: done.set())
            )
            await done.wait()
            return seen

        self.assertEqual([True], self.run_main(main))

    def test_its_context_is_its_own(self):
        variable = contextvars.ContextVar("variable", default="ours")

        async def job(seen):
            variable.set("its")
            await asyncio.sleep(0)
            seen.append(variable.get())

        async def main():
            seen = []
            await a2a.start_task(job(seen))
            return [*seen, variable.get()]

        self.assertEqual(["its", "ours"], self.run_main(main))

    def test_its_error_and_its_cancellation_are_its_result(self):
        async def fail():
            raise KeyError("at once")

        async def wait():
            await asyncio.sleep(100)

        async def main():
            failed, waiting = a2a.start_task(fail()), a2a.start_task(wait())
            waiting.cancel()
            return await asyncio.gather(failed, waiting, return_exceptions=True)

        kinds = [type(outcome) for outcome in self.run_main(main)]
        self.assertEqual([KeyError, asyncio.CancelledError], kinds)


class LifeTest(unittest.TestCase):
    def test_other_hosts_than_loopback_are_refused(self):
        for host in ("0.0.0.0", "::", "192.0.2.1", "agent.example", "127.0.0.1.example"):
            with self.subTest(host), self.assertRaises(a2a.UsageError) as caught:
                a2a.Server("echo", host=host)
            self.assertIn("would let anyone", str(caught.exception))
            self.assertIn("--public-url", caught.exception.hint)

    def test_options_that_cannot_be_are_refused(self):
        for options in (
            {"transports": ["SOAP"]}, {"transports": []}, {"transports": ["JSONRPC", "JSONRPC"]},
            {"allow_hosts": ["http://x/"]}, {"allow_hosts": [""]}, {"port": 65536}, {"port": -1},
            {"public_url": "ftp://x.example"}, {"public_url": "https://x.example/?q"},
            {"public_url": "https://ann:pw@x.example"}, {"host": "::1%lo"},
            {"public_url": "http://[fe80::1%25eth0]/"}, {"card": "no-such-file.json"},
        ):  # fmt: skip
            with self.subTest(options), self.assertRaises(a2a.UsageError):
                a2a.Server("echo", **{"port": 0, **options}).start()

    def test_unknown_options_are_refused(self):
        with self.assertRaises(TypeError):
            a2a.Server("echo", prot=1)

    def test_a_start_that_failed_leaves_the_port_free(self):
        with a2a.listening_socket("127.0.0.1", 0) as probe:
            port = probe.getsockname()[1]
        with self.assertRaises(a2a.UsageError):
            a2a.Server("echo", port=port, card="no-such-file.json").start()
        with a2a.Server("echo", port=port) as server:
            self.assertEqual(port, server.port)

    def test_a_taken_port_is_an_error_with_a_hint(self):
        with Asking() as agent, self.assertRaises(a2a.UsageError) as caught:
            a2a.Server("echo", port=agent.port).start()
        self.assertIn("is taken", str(caught.exception))
        self.assertTrue(caught.exception.hint)

    def test_a_server_tells_when_it_is_ready(self):
        told = []
        with a2a.Server("echo", port=0, ready=lambda server: told.append(server.url)) as server:
            eventually(lambda: told)
        self.assertEqual([server.url], told)

    @unittest.skipUnless(socket.has_ipv6, "no IPv6")
    def test_a_server_on_ipv6(self):
        """NET-03: `::1`, with brackets in the card and in Host."""
        try:
            server = a2a.Server("echo", host="::1", port=0).start()
        except a2a.UsageError:
            self.skipTest("no IPv6 on this machine")
        try:
            self.assertEqual(f"http://[::1]:{server.port}", server.url)
            link = http.client.HTTPConnection("::1", server.port, timeout=PATIENCE_S)
            link.request("GET", a2a.CARD_PATH)
            card = json.loads(link.getresponse().read())
            self.assertEqual(server.url, card["supportedInterfaces"][0]["url"])
            for host, status in (("[::1]:99", 200), ("[fe80::1]", 421), ("[fe80::1%25lo]", 400)):
                link.request("GET", a2a.CARD_PATH, headers={"Host": host})
                answer = link.getresponse()
                answer.read()
                self.assertEqual(status, answer.status, host)
            link.close()
        finally:
            server.stop()

    def test_stopping_ends_streams_and_waiting_calls(self):
        gated = Gated()
        server = a2a.Server(gated, port=0).start()
        agent = Asking.__new__(Asking)
        agent.port = server.port
        link, stream = agent.open_stream("x")
        next_event(stream)
        began = time.monotonic()
        server.stop()
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual("FAILED", states(read_events(stream))[-1])
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", server.port), 1)
        link.close()

    def test_stopping_does_not_wait_for_an_agent_that_goes_on(self):
        ready = threading.Event()

        async def agent(turn):
            turn.status("at work")
            while True:
                ready.set()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)

        server = a2a.Server(agent, port=0).start()
        client = Asking.__new__(Asking)
        client.port = server.port
        link, stream = client.open_stream("x")
        next_event(stream)
        ready.wait(20)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            server.stop()
            self.assertEqual(1, len(server.left))
            server.left = ()
            gc.collect()  # which asyncio would have words about
        self.assertIn("Agents that did not end although they were told to: 1\n", said.getvalue())
        self.assertEqual(1, said.getvalue().count("\n"))
        self.assertFalse(server._thread.is_alive())
        self.assertEqual("FAILED", states(read_events(stream))[-1])
        link.close()

    def test_stopping_lets_a_waiting_call_have_its_answer(self):
        gated = Gated()
        server = a2a.Server(gated, port=0).start()
        link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
        link.request("POST", "/message:send", json.dumps(message()), headers)
        self.assertTrue(gated.began.wait(PATIENCE_S))
        server.stop()
        answer = link.getresponse()
        self.assertEqual("close", answer.getheader("Connection"))
        self.assertEqual(a2a.FAILED, json.loads(answer.read())["task"]["status"]["state"])
        link.close()

    def test_a_server_in_the_foreground_gives_signals_back(self):
        numbers = [signal.SIGINT, signal.SIGTERM]
        before = [signal.getsignal(number) for number in numbers]
        during = []

        def look(server):
            during.extend(signal.getsignal(number) for number in numbers)
            threading.Thread(target=server.stop).start()

        a2a.serve("echo", port=0, ready=look)
        self.assertEqual(before, [signal.getsignal(number) for number in numbers])
        self.assertFalse({id(handler) for handler in before} & {id(handler) for handler in during})

    def test_localhost_is_loopback(self):
        with a2a.Server("echo", host="localhost", port=0) as server:
            self.assertEqual(f"http://127.0.0.1:{server.port}", server.url)

    def test_stopping_twice_or_before_the_start_does_no_harm(self):
        server = a2a.Server("echo", port=0)
        server.stop()
        server.start()
        server.stop()
        server.stop()
        self.assertFalse(server._thread.is_alive())

    def test_two_servers_live_side_by_side(self):
        with Asking() as first, Asking() as second:
            self.assertNotEqual(first.port, second.port)
            for agent in (first, second):
                self.assertEqual(1, len(agent.ask("POST", "/message:send", message())[2]))

    @unittest.skipIf(os.name == "nt", "Windows ends processes at once")
    def test_signals_end_a_server_in_the_foreground(self):
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); import a2a\n"
            "a2a.serve(lambda turn: turn.text, port=0, ready=lambda s: print(s.port, flush=True))\n"
            "print('ended', flush=True)"
        )
        root = str(pathlib.Path(__file__).resolve().parents[1])
        for number in ("SIGINT", "SIGTERM"):
            with subprocess.Popen(
                [sys.executable, "-c", program, root], stdout=subprocess.PIPE, text=True
            ) as child:
                agent = Asking.__new__(Asking)
                agent.port = int(child.stdout.readline())
                link, stream = agent.open_stream("x")
                read_events(stream)
                child.send_signal(getattr(signal, number))
                self.assertEqual("ended\n", child.stdout.read())
                self.assertEqual(0, child.wait(PATIENCE_S))
                link.close()


if __name__ == "__main__":
    unittest.main()
