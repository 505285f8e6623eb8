"""Chapter 7: HTTP/1.1 from both sides, against raw bytes good and bad, cut in every way."""

import http
import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "http1"


def vectors(name):
    """Give the cases of a file; their bytes as bytes. An empty file is an error."""
    rows = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert rows, name
    for row in rows:
        row["bytes"] = row["bytes"].encode("latin-1")
    return rows


def splits(data, seed=1):
    """Give ways to cut data: whole, byte by byte, and at random places."""
    yield "whole", [data]
    yield "byte by byte", [data[i : i + 1] for i in range(len(data))]
    rng = random.Random(seed)
    for number in range(4):
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 9)))
        ends = [0, *cuts, len(data)]
        yield f"random {number}", [data[a:b] for a, b in zip(ends, ends[1:])]


def serve(machine, pieces):
    """Feed a server machine, answering each request once it is whole; give what it read."""
    requests = []
    for piece in pieces:
        events = machine.receive(piece)
        while events:
            for event in events:
                if isinstance(event, a2a.Request):
                    row = {"method": event.method, "target": event.target}
                    requests.append({**row, "headers": event.headers, "body": b""})
                elif isinstance(event, a2a.Data):
                    requests[-1]["body"] += event.data
                else:
                    requests[-1]["trailers"] = dict(event.trailers)
                    requests[-1]["keep_alive"] = machine.keep_alive
                    machine.respond(200, [])
            events = machine.receive(b"")
    return requests


def read_answer(machine, pieces, eof=False):
    """Feed a client machine; give (response, body, end)."""
    events = [event for piece in pieces for event in machine.receive(piece)]
    events += machine.receive_eof() if eof else []
    response, *data, end = events
    return response, b"".join(event.data for event in data), end


def fields_of(answer):
    """Give the status line and the headers of an answer's bytes, and what follows."""
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    return line, dict(field.split(": ", 1) for field in fields), body


GET = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"


class ServerReadsTest(unittest.TestCase):
    maxDiff = None

    def test_what_must_be_refused_is_refused_however_it_is_cut(self):
        for row in vectors("reject"):
            for way, pieces in splits(row["bytes"]):
                with self.subTest(row["name"], way=way):
                    machine = a2a.Http1Server()
                    with self.assertRaises(a2a.HttpError) as caught:
                        serve(machine, pieces)
                        self.fail("taken for a request, or waiting for more")
                    self.assertEqual(row["status"], caught.exception.status)
                    self.assertFalse(machine.keep_alive)
                    self.assertEqual([], machine.receive(GET), "nothing is read after an error")
                    answer = machine.respond(row["status"], [("x", "y")], b"why")
                    line, fields, _ = fields_of(answer)
                    self.assertTrue(line.startswith(f"HTTP/1.1 {row['status']} "), line)
                    self.assertEqual("close", fields["connection"])

    def test_what_must_be_accepted_is_read_however_it_is_cut(self):
        for row in vectors("accept"):
            for expected in row["requests"]:
                expected["body"] = expected["body"].encode("latin-1")
            for way, pieces in splits(row["bytes"]):
                with self.subTest(row["name"], way=way):
                    self.assertEqual(row["requests"], serve(a2a.Http1Server(), pieces))

    def test_an_error_comes_no_later_than_its_last_byte_needs(self):
        """A head that cannot become good is not waited for."""
        for raw in (b"\x16\x03\x01", b"GET /\r\n", b"GET / HTTP/1.1\n", b"SSH-2.0-x\r\n", b"\n"):
            with self.subTest(raw), self.assertRaises(a2a.HttpError):
                a2a.Http1Server().receive(raw)

    def test_events_of_a_request_with_a_body(self):
        events = a2a.Http1Server().receive(POST + b"hello")
        head = a2a.Request("POST", "/", {"host": "a.example", "content-length": "5"})
        self.assertEqual([head, a2a.Data(b"hello"), a2a.End()], events)
        self.assertEqual((0, False), (events[0].stream, events[0].http2))

    def test_pieces_of_a_body_come_at_once(self):
        machine = a2a.Http1Server()
        self.assertEqual(2, len(machine.receive(POST + b"he")))
        self.assertEqual([a2a.Data(b"l")], machine.receive(b"l"))
        self.assertEqual([], machine.receive(b""))
        self.assertEqual([a2a.Data(b"lo"), a2a.End()], machine.receive(b"lo"))

    def test_pieces_of_a_chunk_come_at_once(self):
        machine = a2a.Http1Server()
        machine.receive(CHUNKED + b"5\r\n")
        self.assertEqual([a2a.Data(b"he")], machine.receive(b"he"))
        self.assertEqual([a2a.Data(b"llo")], machine.receive(b"llo\r"))
        self.assertEqual([a2a.Data(b"x"), a2a.End()], machine.receive(b"\n1\r\nx\r\n0\r\n\r\n"))

    def test_a_short_request_behind_trailers_that_came_in_two(self):
        machine = a2a.Http1Server()
        machine.receive(CHUNKED + b"0\r\nDigest: 0123456789012345678901234567890123456789\r\n")
        events = machine.receive(b"\r\nGET / HTTP/1.0\r\n\r\n")
        self.assertEqual(["digest"], list(events[0].trailers))
        machine.respond(200, [])
        self.assertEqual("GET", machine.receive(b"")[0].method)


class LimitTest(unittest.TestCase):
    def refused(self, status, raw, **options):
        for way, pieces in splits(raw):
            with self.subTest(status=status, way=way):
                with self.assertRaises(a2a.HttpError) as caught:
                    serve(a2a.Http1Server(**options), pieces)
                self.assertEqual(status, caught.exception.status)

    def test_a_request_line_of_the_limit_passes_and_one_more_is_414(self):
        room = a2a.REQUEST_LINE_BYTES - len("GET / HTTP/1.1\r\n")
        tail = b" HTTP/1.1\r\nHost: a\r\n\r\n"
        for _, pieces in splits(b"GET /" + b"x" * room + tail):
            self.assertEqual(1, len(serve(a2a.Http1Server(), pieces)))
        self.refused(414, b"GET /" + b"x" * (room + 1) + tail)
        self.refused(414, b"GET /" + b"x" * 2 * a2a.REQUEST_LINE_BYTES)
        self.refused(414, b"x" * 2 * a2a.REQUEST_LINE_BYTES)

    def test_headers_of_the_limit_pass_and_one_byte_more_is_431(self):
        start = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
        room = a2a.HEADER_BYTES - len(b"Host: a\r\nX: \r\n")
        for _, pieces in splits(start + b"x" * room + b"\r\n\r\n"):
            self.assertEqual(1, len(serve(a2a.Http1Server(), pieces)))
        self.refused(431, start + b"x" * (room + 1) + b"\r\n\r\n")
        self.refused(431, start + b"x" * 2 * a2a.HEADER_BYTES)

    def test_the_malformed_line_is_counted_out(self):
        with self.assertRaisesRegex(a2a.HttpError, "line 3 is"):
            a2a.Http1Server().receive(b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nZ\r\n\r\n")

    def test_a_hundred_header_lines_pass_and_one_more_is_431(self):
        lines = b"X: y\r\n" * (a2a.HEADER_COUNT - 1)
        start = b"GET / HTTP/1.1\r\nHost: a\r\n"
        self.assertEqual(1, len(serve(a2a.Http1Server(), [start + lines + b"\r\n"])))
        self.refused(431, start + lines + b"X: y\r\n\r\n")

    def test_trailers_are_bounded_like_headers(self):
        end = CHUNKED + b"0\r\n"
        self.refused(431, end + b"X: " + b"x" * a2a.HEADER_BYTES + b"\r\n\r\n")
        self.refused(431, end + b"X: " + b"x" * 2 * a2a.HEADER_BYTES)
        self.refused(431, end + b"X: y\r\n" * (a2a.HEADER_COUNT + 1) + b"\r\n")

    def test_a_body_over_the_limit_is_refused_by_its_announcement(self):
        """JSON-18: a body over the limit is 413 before a byte of it is kept."""
        machine = a2a.Http1Server(body_limit_bytes=4)
        with self.assertRaises(a2a.HttpError) as caught:
            machine.receive(POST)
        self.assertEqual(413, caught.exception.status)
        self.assertEqual(0, machine.buffered_bytes)
        self.assertIn(b"connection: close", machine.respond(413, []))
        self.assertEqual([], machine.receive(b"x" * 1000))
        self.assertEqual(0, machine.buffered_bytes, "what comes after is dropped")

    def test_a_chunked_body_is_counted_while_it_is_read(self):
        """JSON-18: chunks that add up to more than the limit are 413."""
        self.refused(413, CHUNKED + b"3\r\nabc\r\n" * 5, body_limit_bytes=24)
        self.refused(413, CHUNKED + b"64\r\n", body_limit_bytes=99)

    def test_chunk_framing_counts_as_body(self):
        """A flood of tiny chunks or of extensions ends as a large body does."""
        self.refused(413, CHUNKED + b"1\r\nx\r\n" * 100, body_limit_bytes=400)
        self.refused(413, CHUNKED + b"1;" + b"x" * 99 + b"\r\nx\r\n", body_limit_bytes=99)

    def test_each_body_has_the_limit_to_itself(self):
        machine = a2a.Http1Server(body_limit_bytes=30)
        for raw in (CHUNKED + b"9\r\nchunked..\r\n0\r\n\r\n", POST + b"sized") * 9:
            self.assertEqual(3, len(machine.receive(raw)))
            machine.respond(200, [])
        client = a2a.Http1Client(body_limit_bytes=5)
        for _ in range(3):
            client.request("GET", "/", [("host", "a")])
            read_answer(client, [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])

    def test_a_limit_of_0_means_none(self):
        machine = a2a.Http1Server(body_limit_bytes=0)
        events = machine.receive(POST.replace(b"5", b"99999999999"))
        self.assertEqual(1, len(events))

    def test_bytes_past_the_content_length_are_the_next_request(self):
        """JSON-18: a lying Content-Length does not make the body longer."""
        machine = a2a.Http1Server()
        events = machine.receive(POST + b"hello" + b"x" * 1000)
        self.assertEqual([a2a.Data(b"hello"), a2a.End()], events[1:])
        machine.respond(200, [])
        with self.assertRaises(a2a.HttpError):
            machine.receive(b"\r\n")

    def test_drip_fed_heads_cost_no_rescans(self):
        """Each byte of a long head is looked at a bounded number of times."""
        looked = []

        class Counting(bytearray):
            def find(self, what, start=0, *end):
                looked.append(len(self) - start)
                return bytearray.find(self, what, start, *end)

        machine = a2a.Http1Server()
        machine._buffer = Counting()
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 5000:
            machine.receive(bytes((byte,)))
        ends = looked[::2]  # the search for the end of the head; the other is for the first line
        self.assertLess(max(ends), 5)


class ServerWritesTest(unittest.TestCase):
    def machine(self, raw=GET):
        machine = a2a.Http1Server()
        machine.receive(raw)
        return machine

    def test_a_whole_answer(self):
        answer = self.machine().respond(200, [("content-type", "a/b")], b"{}")
        expected = b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ncontent-length: 2\r\n\r\n{}"
        self.assertEqual(expected, answer)

    def test_reasons_are_those_of_the_registry(self):
        renamed = {413, 414}  # by RFC 9110; Python followed in 3.13
        for status, reason in a2a.REASONS.items():
            if status not in renamed:
                self.assertEqual(http.HTTPStatus(status).phrase, reason)

    def test_a_status_without_a_known_reason(self):
        self.assertTrue(self.machine().respond(299, []).startswith(b"HTTP/1.1 299 \r\n"))

    def test_an_answer_in_chunks(self):
        machine = self.machine()
        head = machine.start(200, [("content-type", "a/b")])
        expected = b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ntransfer-encoding: chunked\r\n\r\n"
        self.assertEqual(expected, head)
        self.assertEqual(b"1\r\nx\r\n", machine.data(b"x"))
        self.assertEqual(b"", machine.data(b""), "an empty chunk would end the body")
        self.assertEqual(b"12\r\n" + b"y" * 18 + b"\r\n", machine.data(b"y" * 18))
        self.assertEqual(b"0\r\n\r\n", machine.end())
        self.assertTrue(machine.keep_alive)
        self.assertEqual(2, len(machine.receive(GET)))

    def test_http_1_0_gets_a_body_until_close(self):
        machine = self.machine(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        head = machine.start(200, [])
        self.assertEqual(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", head)
        self.assertEqual(b"x", machine.data(b"x"))
        self.assertEqual(b"", machine.end())
        self.assertFalse(machine.keep_alive)

    def test_http_1_0_is_told_that_the_connection_stays(self):
        machine = self.machine(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        _, fields, _ = fields_of(machine.respond(200, [], b"x"))
        self.assertEqual("keep-alive", fields["connection"])
        self.assertTrue(machine.keep_alive)

    def test_head_has_headers_and_no_body(self):
        """NET-05: HEAD is answered like GET, without the body."""
        raw = GET.replace(b"GET", b"HEAD")
        line, fields, body = fields_of(self.machine(raw).respond(200, [], b"12345"))
        self.assertEqual(("HTTP/1.1 200 OK", "5", b""), (line, fields["content-length"], body))
        machine = self.machine(raw)
        self.assertNotIn(b"chunked", machine.start(200, []))
        self.assertEqual(b"", machine.data(b"x") + machine.end())
        self.assertEqual(2, len(machine.receive(GET)))

    def test_204_and_304_have_no_body(self):
        _, fields, body = fields_of(self.machine().respond(204, [], b"x"))
        self.assertEqual(({}, b""), (fields, body))
        _, fields, body = fields_of(self.machine().respond(304, [("etag", '"1"')], b"x"))
        self.assertEqual(({"etag": '"1"'}, b""), (fields, body))
        machine = self.machine()
        self.assertEqual(b"HTTP/1.1 204 No Content\r\n\r\n", machine.start(204, []))
        self.assertEqual(b"", machine.data(b"x") + machine.end())
        machine = self.machine()
        self.assertEqual(b"HTTP/1.1 304 Not Modified\r\n\r\n", machine.start(304, []))
        self.assertEqual(b"", machine.data(b"x") + machine.end())

    def test_a_header_cannot_smuggle_another(self):
        bad = ["a\r\nSet-Cookie: x=1", "a\nb", "a\rb", "a\0b", "\x1b[31m", "\u20ac", "\x7f"]
        for value in bad:
            with self.subTest(value), self.assertRaisesRegex(a2a.UsageError, "'y'"):
                self.machine().respond(200, [("x", "fine"), ("y", value)])
        for name in ("a b", "", "a\r\nb", "a: b\r\nc", "\xe9"):
            with self.subTest(name), self.assertRaises(a2a.UsageError):
                self.machine().start(200, [(name, "v"), ("x", "fine")])

    def test_obs_text_and_tabs_may_be_written(self):
        answer = self.machine().respond(200, [("x", "\xe9\t")])
        self.assertIn(b"x: \xe9\t\r\n", answer)


class ConnectionTest(unittest.TestCase):
    """Requests after one another, deadlines, answers before their time."""

    def test_the_next_request_waits_for_the_answer(self):
        """NET-05: pipelined requests are answered one by one, in order."""
        machine = a2a.Http1Server()
        second = GET.replace(b"/ ", b"/2 ")
        self.assertEqual("/", machine.receive(GET + second)[0].target)
        self.assertEqual([], machine.receive(b""))
        self.assertEqual(len(second), machine.buffered_bytes)
        machine.start(200, [])
        self.assertEqual([], machine.receive(b""))
        machine.end()
        self.assertEqual("/2", machine.receive(b"")[0].target)
        self.assertEqual(0, machine.buffered_bytes)

    def test_which_deadline_runs(self):
        """NET-05: a slow head, a slow body and an idle connection are told apart."""
        machine = a2a.Http1Server()

        def clocks():
            return machine.idle, machine.in_body

        self.assertEqual((True, False), clocks())
        machine.receive(b"P")
        self.assertEqual((False, False), clocks())
        machine.receive(POST[1:])
        self.assertEqual((False, True), clocks())
        machine.receive(b"hello")
        self.assertEqual((False, False), clocks())
        machine.respond(200, [])
        self.assertEqual((True, False), clocks())

    def test_100_continue(self):
        """NET-05: a client that waits before its body is told to go on."""
        raw = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-Continue\r\n\r\n")
        machine = a2a.Http1Server()
        self.assertEqual(1, len(machine.receive(raw)))
        self.assertTrue(machine.expects_continue)
        self.assertEqual(b"HTTP/1.1 100 Continue\r\n\r\n", a2a.CONTINUE)
        machine.expects_continue = False
        self.assertEqual([a2a.Data(b"hello"), a2a.End()], machine.receive(b"hello"))
        self.assertNotIn(b"close", machine.respond(200, []))
        machine.receive(raw)
        machine.receive(b"hello")
        self.assertFalse(machine.expects_continue, "the client did not wait")

    def test_100_continue_is_not_written_when_the_body_is_there(self):
        raw = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
        machine = a2a.Http1Server()
        machine.receive(raw + b"he")
        self.assertFalse(machine.expects_continue)
        machine = a2a.Http1Server()
        machine.receive(GET.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        self.assertFalse(machine.expects_continue, "there is no body to wait for")

    def test_a_refused_expectation_closes(self):
        """Whether the client sends the body after all cannot be known."""
        raw = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
        machine = a2a.Http1Server()
        machine.receive(raw)
        self.assertIn(b"connection: close", machine.respond(401, []))
        self.assertEqual([], machine.receive(b"hello" + GET))

    def test_a_short_rest_of_a_body_is_read_over(self):
        """NET-05: an answer before the body ends keeps the connection when little is left."""
        machine = a2a.Http1Server()
        machine.receive(POST)
        self.assertNotIn(b"close", machine.respond(401, []))
        self.assertTrue(machine.in_body)
        self.assertEqual([], machine.receive(b"he"))
        events = machine.receive(b"llo" + GET)
        self.assertEqual("GET", events[0].method)
        machine.respond(200, [])
        self.assertEqual(3, len(machine.receive(POST + b"hello")))

    def test_a_long_or_unknown_rest_of_a_body_closes(self):
        large = POST.replace(b"5", b"%d" % (a2a.BODY_BEFORE_SIGN_IN_BYTES + 1))
        for raw in (large, CHUNKED, CHUNKED + b"2\r\nab\r\n"):
            machine = a2a.Http1Server()
            machine.receive(raw)
            self.assertIn(b"connection: close", machine.respond(401, []))
            self.assertFalse(machine.keep_alive)
            self.assertEqual([], machine.receive(b"0\r\n\r\n" + GET))

    def test_a_wish_to_close_outlives_an_early_answer(self):
        machine = a2a.Http1Server()
        machine.receive(POST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        self.assertIn(b"connection: close", machine.respond(401, []))
        machine = a2a.Http1Server()
        machine.receive(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET)
        machine.receive_eof()
        self.assertFalse(machine.keep_alive)

    def test_an_answer_started_before_the_body_ends(self):
        machine = a2a.Http1Server()
        machine.receive(POST)
        machine.start(200, [])
        self.assertEqual([a2a.Data(b"hello"), a2a.End()], machine.receive(b"hello"))
        machine.end()
        self.assertTrue(machine.idle)

    def test_the_end_of_the_bytes(self):
        self.assertEqual([], a2a.Http1Server().receive_eof())
        for raw in (b"G", GET[:-1], POST, POST + b"he", CHUNKED + b"5\r\nhello\r\n"):
            with self.subTest(raw), self.assertRaisesRegex(a2a.HttpError, "cut off"):
                machine = a2a.Http1Server()
                machine.receive(raw)
                try:
                    machine.receive_eof()
                finally:
                    self.assertEqual([], machine.receive(GET))

    def test_the_end_of_the_bytes_after_the_answer_is_no_error(self):
        machine = a2a.Http1Server()
        machine.receive(POST)
        machine.respond(401, [])
        self.assertEqual([], machine.receive_eof())

    def test_a_half_closed_client_gets_its_answer(self):
        machine = a2a.Http1Server()
        machine.receive(GET + GET)
        self.assertEqual([], machine.receive_eof())
        self.assertNotIn(b"close", machine.respond(200, []), "one more is buffered")
        self.assertEqual(2, len(machine.receive(b"")))
        machine.receive_eof()
        self.assertIn(b"connection: close", machine.respond(200, []))

    def test_random_bytes_never_break_the_machine(self):
        rng = random.Random(7)
        words = [
            GET,
            POST,
            CHUNKED,
            b"\r\n",
            b"\n",
            b"\0",
            b"5\r\nhello\r\n",
            b"0\r\n\r\n",
            b"x: y",
        ]
        for _ in range(2000):
            raw = b"".join(rng.choice(words) for _ in range(rng.randrange(1, 9)))
            at = rng.randrange(len(raw))
            raw = raw[:at] + bytes((rng.randrange(256),)) + raw[at + 1 :]
            results = set()
            for _, pieces in splits(raw, seed=at):
                try:
                    results.add(json.dumps(serve(a2a.Http1Server(), pieces), default=repr))
                except a2a.HttpError as error:
                    results.add(str(error.status))
            self.assertEqual(1, len(results), (raw, results))


class ClientTest(unittest.TestCase):
    maxDiff = None

    def client(self, method="GET"):
        machine = a2a.Http1Client()
        machine.request(method, "/", [("host", "a.example")])
        return machine

    def test_answers_are_read_however_they_are_cut(self):
        for row in vectors("client_accept"):
            for way, pieces in splits(row["bytes"]):
                with self.subTest(row["name"], way=way):
                    machine = self.client(row["method"])
                    response, body, end = read_answer(machine, pieces, row["eof"])
                    self.assertEqual(a2a.Response(row["status"], row["headers"]), response)
                    self.assertEqual(row["body"].encode("latin-1"), body)
                    self.assertEqual(row["trailers"], end.trailers)
                    self.assertEqual(row["reusable"], machine.reusable)

    def test_bad_answers_are_refused_however_they_are_cut(self):
        for row in vectors("client_reject"):
            for way, pieces in splits(row["bytes"]):
                with self.subTest(row["name"], way=way):
                    machine = self.client(row["method"])
                    with self.assertRaisesRegex(a2a.PeerError, row["message"]):
                        read_answer(machine, pieces, row["eof"])
                        self.fail("taken for an answer, or waiting for more")
                    self.assertFalse(machine.reusable)
                    self.assertEqual([], machine.receive(b"HTTP/1.1 200 OK\r\n\r\n"))

    def test_a_request(self):
        raw = a2a.Http1Client().request("POST", "/x?y", [("host", "a"), ("x", "y")], b"{}")
        expected = b"POST /x?y HTTP/1.1\r\nhost: a\r\nx: y\r\naccept-encoding: identity\r\n"
        self.assertEqual(expected + b"content-length: 2\r\n\r\n{}", raw)

    def test_a_body_has_its_length_whatever_the_method(self):
        raw = a2a.Http1Client().request("GET", "/", [("host", "a")], b"abc")
        self.assertTrue(raw.endswith(b"content-length: 3\r\n\r\nabc"))

    def test_a_connection_is_not_reusable_while_an_answer_is_owed(self):
        machine = self.client()
        self.assertFalse(machine.reusable)
        machine.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
        self.assertFalse(machine.reusable)
        machine.receive(b"x")
        self.assertTrue(machine.reusable)

    def test_content_length_is_written_where_a_body_is_usual(self):
        for method, written in (("POST", True), ("PUT", True), ("GET", False), ("DELETE", False)):
            raw = a2a.Http1Client().request(method, "/", [("host", "a")])
            self.assertEqual(written, b"content-length: 0" in raw, method)

    def test_a_request_that_cannot_be_written(self):
        bad = [
            ("GET", "/a b", []), ("GET", "/\r\nX: y", []), ("GET", "/#f", []), ("GET", "", []),
            ("GET", "/\xe9", []), ("G T", "/", []), ("GET", "/", [("x", "a\r\nb: c")]),
            ("GET", "/", [("x y", "a")]), ("GET", "/", [("x", "\u20ac")]),
        ]  # fmt: skip
        for method, target, headers in bad:
            with self.subTest(target=target, headers=headers), self.assertRaises(a2a.UsageError):
                a2a.Http1Client().request(method, target, headers)

    def test_both_machines_understand_each_other(self):
        client, server = a2a.Http1Client(), a2a.Http1Server()
        for number in range(3):
            raw = client.request("POST", f"/{number}", [("host", "a")], b"x" * number)
            request, *data, _ = server.receive(raw)
            self.assertEqual(f"/{number}", request.target)
            self.assertEqual(number, sum(len(event.data) for event in data))
            raw = server.start(200, []) + server.data(b"hello") + server.end()
            response, body, _ = read_answer(client, [raw])
            self.assertEqual((200, b"hello"), (response.status, body))
            self.assertTrue(client.reusable and server.keep_alive)

    def test_a_connection_closed_before_the_answer(self):
        """The caller can tell this from an answer cut off, and may try again."""
        with self.assertRaisesRegex(a2a.TransportError, "before an answer"):
            self.client().receive_eof()

    def test_a_connection_closed_between_requests(self):
        machine = a2a.Http1Client()
        self.assertTrue(machine.reusable)
        self.assertEqual([], machine.receive_eof())
        self.assertFalse(machine.reusable)
        self.assertEqual([], machine.receive_eof())

    def test_bytes_nobody_asked_for_end_the_reuse(self):
        machine = a2a.Http1Client()
        self.assertEqual([], machine.receive(b"HTTP/1.1 408 Request Timeout\r\n\r\n"))
        self.assertFalse(machine.reusable)

    def test_a_body_until_close_is_bounded(self):
        machine = a2a.Http1Client(body_limit_bytes=5)
        machine.request("GET", "/", [("host", "a")])
        machine.receive(b"HTTP/1.1 200 OK\r\n\r\nabc")
        with self.assertRaisesRegex(a2a.PeerError, "larger than 5 bytes"):
            machine.receive(b"def")

    def test_a_large_body_is_handed_on_without_a_copy(self):
        machine = self.client()
        machine.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        piece = b"x" * 65536
        self.assertIs(piece, machine.receive(piece)[0].data)


if __name__ == "__main__":
    unittest.main()
