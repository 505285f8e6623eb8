"""Chapter 10: HTTP/2. vectors/http2 has the frames of a client that break RFC 9113, by section."""

import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "http2"
KINDS = {rule.name: kind for kind, rule in a2a.FRAMES.items()}
GET = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.example")]
POST = [(":method", "POST"), *GET[1:]]
HOST = [("host", "a.example")]
OPENING = a2a.PREFACE + bytes.fromhex("000000040000000000")


def frame(kind, flags, stream, payload=b""):
    """Give the bytes of a frame; kind is a name, or a number that has none."""
    number = KINDS.get(kind, kind)
    head = len(payload).to_bytes(3, "big") + bytes((number, flags)) + stream.to_bytes(4, "big")
    return head + payload


def block(fields):
    """Give a header block of plain literals, whatever the fields hold."""
    out = b""
    for name, value in fields:
        out += b"\0"
        for text in (name.encode("latin-1"), value.encode("latin-1")):
            out += a2a.write_integer(len(text), 7, 0) + text
    return out


def headers(stream, fields, flags=5):
    return frame("HEADERS", flags, stream, block(fields))


def number(kind, stream, value):
    return frame(kind, 0, stream, value.to_bytes(4, "big"))


def setting(*pairs):
    payload = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs)
    return frame("SETTINGS", 0, 0, payload)


def frames(data):
    """Take bytes apart: [(name, flags, stream, payload)]."""
    names = {kind: name for name, kind in KINDS.items()}
    if data.startswith(a2a.PREFACE):
        data = data[len(a2a.PREFACE) :]
    found = []
    while data:
        end = 9 + int.from_bytes(data[:3], "big")
        stream = int.from_bytes(data[5:9], "big")
        found.append((names[data[3]], data[4], stream, data[9:end]))
        data = data[end:]
    return found


def named(data, *names):
    return [found for found in frames(data) if found[0] in names]


def exchange(client, server):
    """Let two machines talk until both are silent; give what each found, and take it all."""
    found = {client: [], server: []}
    while True:
        up, down = client.take_output(), server.take_output()
        if not up and not down:
            return found[client], found[server]
        found[server] += server.receive(up)
        found[client] += client.receive(down)


class Http2Case(unittest.TestCase):
    def setUp(self):
        self.server = a2a.Http2Connection(client=False)
        self.server.receive(OPENING)
        self.server.take_output()

    def assert_goaway(self, error_code, data=None, server=None):
        """The connection ended with that code: as an event, on the wire, for good."""
        server = server or self.server
        events = server.receive(data) if data is not None else []
        sent = named(server.take_output(), "GOAWAY")
        self.assertEqual(1, len(sent), events)
        self.assertEqual(error_code, int.from_bytes(sent[0][3][4:8], "big"), sent)
        self.assertTrue(server.closed)
        self.assertEqual({}, server.streams)
        self.assertEqual([], server.receive(frame("PING", 0, 0, b"x" * 8)))
        self.assertEqual(b"", server.take_output())
        if data is not None:
            self.assertIsInstance(events[-1], a2a.GoAway)
            self.assertEqual(error_code, events[-1].error_code)
            self.assertTrue(events[-1].message)

    def assert_reset(self, stream, error_code, data):
        """One stream ended with that code, the connection goes on."""
        events = self.server.receive(data)
        sent = named(self.server.take_output(), "RST_STREAM", "GOAWAY")
        self.assertEqual([("RST_STREAM", 0, stream, error_code.to_bytes(4, "big"))], sent)
        self.assertFalse(self.server.closed)
        self.assertNotIn(stream, self.server.streams)
        self.assertEqual([], self.server.receive(frame("PING", 0, 0, b"x" * 8)))
        self.assertEqual([("PING", 1, 0, b"x" * 8)], frames(self.server.take_output()))
        return events


class Talking(unittest.TestCase):
    """The two sides with each other."""

    def setUp(self):
        self.client = a2a.Http2Connection(client=True)
        self.server = a2a.Http2Connection(client=False)

    def test_a_client_begins_with_the_preface_and_refuses_push(self):
        data = self.client.take_output()
        self.assertTrue(data.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        (settings, window) = frames(data)
        self.assertEqual(("SETTINGS", 0, 0), settings[:3])
        self.assertIn(bytes.fromhex("000200000000"), settings[3])
        self.assertEqual(("WINDOW_UPDATE", 0, 0), window[:3])

    def test_a_server_begins_with_settings_and_a_window(self):
        settings, window = frames(self.server.take_output())
        self.assertEqual(("SETTINGS", 0, 0), settings[:3])
        self.assertIn(bytes.fromhex("000300000064"), settings[3])
        self.assertEqual(("WINDOW_UPDATE", 0, 0), window[:3])

    def test_a_request_and_its_answer(self):
        number = self.client.request("POST", "/x?y=1", [*HOST, ("a", "b")], b"hello")
        _, seen = exchange(self.client, self.server)
        head = {"host": "a.example", "a": "b"}
        self.assertEqual(
            [a2a.Request("POST", "/x?y=1", head, 1, True), a2a.Data(b"hello", 1), a2a.End(1)], seen
        )
        self.server.start(number, 200, [("content-type", "text/plain")])
        self.server.data(number, b"one")
        self.server.data(number, b"two")
        self.server.trailers(number, [("grpc-status", "0")])
        seen, _ = exchange(self.client, self.server)
        self.assertEqual(
            [
                a2a.Response(200, {"content-type": "text/plain"}, 1),
                a2a.Data(b"one", 1),
                a2a.Data(b"two", 1),
                a2a.End(1, {"grpc-status": "0"}),
            ],
            seen,
        )
        self.assertEqual(({}, {}), (self.client.streams, self.server.streams))

    def test_one_byte_at_a_time(self):
        for _ in range(2):  # the second time the blocks are indexes
            self.client.request("POST", "/x", HOST, b"hello")
            self.server.receive(b"")
        seen = []
        for octet in self.client.take_output():
            seen += self.server.receive(bytes((octet,)))
        self.assertEqual(["Request", "Data", "End"] * 2, [type(event).__name__ for event in seen])
        for stream in (1, 3):
            self.server.respond(stream, 200, [], b"body")
        seen = []
        for octet in self.server.take_output():
            seen += self.client.receive(bytes((octet,)))
        self.assertEqual(["Response", "Data", "End"] * 2, [type(event).__name__ for event in seen])

    def test_an_answer_without_a_body_is_one_frame(self):
        """GRPC-03: the head of a trailers-only answer ends the stream."""
        number = self.client.request("GET", "/", HOST)
        exchange(self.client, self.server)
        self.server.start(number, 200, [("grpc-status", "16")], end=True)
        data = self.server.take_output()
        self.assertEqual([("HEADERS", 5, 1)], [found[:3] for found in frames(data)])
        seen = self.client.receive(data)
        self.assertEqual([a2a.Response(200, {"grpc-status": "16"}, 1), a2a.End(1)], seen)

    def test_the_last_data_carries_the_end(self):
        number = self.client.request("GET", "/", HOST)
        exchange(self.client, self.server)
        self.server.respond(number, 200, [], b"body")
        self.assertEqual(
            [("HEADERS", 4, 1), ("DATA", 1, 1)],
            [found[:3] for found in frames(self.server.take_output())],
        )

    def test_end_after_all_data(self):
        number = self.client.request("POST", "/", HOST, end=False)
        self.client.data(number, b"a")
        self.client.data(number, b"", end=True)
        _, seen = exchange(self.client, self.server)
        self.assertEqual([a2a.Data(b"a", 1), a2a.End(1)], seen[1:])
        self.server.start(number, 204, [])
        self.server.data(number, b"", end=True)
        seen, _ = exchange(self.client, self.server)
        self.assertEqual([a2a.Response(204, {}, 1), a2a.End(1)], seen)

    def test_respond_adds_the_length_and_knows_head(self):
        for method, status, length, body in (
            ("GET", 200, "4", [a2a.Data(b"body", 1)]),
            ("HEAD", 200, "4", []),
            ("GET", 304, "4", []),
            ("GET", 204, None, []),
        ):
            with self.subTest(method=method, status=status):
                self.setUp()
                self.client.request(method, "/", HOST)
                exchange(self.client, self.server)
                self.server.respond(1, status, [], b"body")
                seen, _ = exchange(self.client, self.server)
                self.assertEqual(length, seen[0].headers.get("content-length"))
                self.assertEqual([*body, a2a.End(1)], seen[1:])

    def test_an_answer_with_trailers(self):
        """GRPC-03: without a body they are its head, and no length is added."""
        for body in (b"", b"body"):
            self.setUp()
            self.client.request("POST", "/", HOST)
            exchange(self.client, self.server)
            self.server.respond(1, 200, [("a", "b")], body, [("t", "1")])
            seen, _ = exchange(self.client, self.server)
            if body:
                self.assertEqual(
                    [a2a.Response(200, {"a": "b"}, 1), a2a.Data(body, 1), a2a.End(1, {"t": "1"})],
                    seen,
                )
            else:
                self.assertEqual([a2a.Response(200, {"a": "b", "t": "1"}, 1), a2a.End(1)], seen)
            self.assertEqual({}, self.server.streams)

    def test_a_started_answer_to_head_has_no_body(self):
        self.client.request("HEAD", "/", HOST)
        exchange(self.client, self.server)
        self.server.start(1, 200, [])
        self.server.data(1, b"x")
        self.server.data(1, b"y", end=True)
        seen, _ = exchange(self.client, self.server)
        self.assertEqual([a2a.Response(200, {}, 1), a2a.End(1)], seen)

    def test_interim_answers_are_swallowed(self):
        self.client.request("GET", "/", HOST)
        exchange(self.client, self.server)
        for status in (100, 103):
            self.server.start(1, status, [("link", "x")])
        self.server.respond(1, 200, [], b"")
        seen, _ = exchange(self.client, self.server)
        self.assertEqual([200], [event.status for event in seen if type(event) is a2a.Response])

    def test_a_large_head_is_cut_into_whole_frames(self):
        for size, flags in (
            (16384 * 2, [("HEADERS", 1), ("CONTINUATION", 0), ("CONTINUATION", 4)]),
            (16384 + 5, [("HEADERS", 1), ("CONTINUATION", 4)]),
            (16384, [("HEADERS", 1), ("CONTINUATION", 4)]),
        ):
            self.setUp()
            self.client.request("GET", "/", [*HOST, ("a", "\xff" * size)])
            found = [frame[:2] for frame in frames(self.client.take_output())][2:]
            self.assertEqual(flags, found)
        fields = [("a", "\xff" * 32000)]
        fields.append(
            ("b", "\xff" * (16384 * 2 - len(self.client.sender.encoder.encode(fields)) - 6))
        )
        sender = a2a.Http2Sender()
        sender.fields(1, fields)
        self.assertEqual([16384, 16384], [len(f[3]) for f in frames(b"".join(sender.output))])
        self.assertEqual(("CONTINUATION", 4), frames(b"".join(sender.output))[-1][:2])

    def test_streams_mix_on_one_connection(self):
        for target in ("/a", "/b", "/c"):
            self.client.request("GET", target, HOST)
        _, seen = exchange(self.client, self.server)
        self.assertEqual(
            [("/a", 1), ("/b", 3), ("/c", 5)],
            [(e.target, e.stream) for e in seen if type(e) is a2a.Request],
        )
        for stream in (5, 1, 3):
            self.server.respond(stream, 200, [], b"%d" % stream)
        seen, _ = exchange(self.client, self.server)
        bodies = [(e.stream, e.data) for e in seen if type(e) is a2a.Data]
        self.assertEqual([(5, b"5"), (1, b"1"), (3, b"3")], bodies)

    def test_heads_that_are_remembered_are_not_shared(self):
        heads = []
        for _ in range(3):
            self.client.request("GET", "/", HOST)
            _, seen = exchange(self.client, self.server)
            heads.append(seen[0].headers)
            heads[-1]["changed"] = "x"
        self.assertEqual([{"host": "a.example", "changed": "x"}] * 3, heads)

    def test_a_head_larger_than_a_frame_goes_on_in_continuation(self):
        value = "\xff" * 20000  # no Huffman code is shorter
        self.client.request("GET", "/", [*HOST, ("a", value)])
        data = self.client.take_output()
        kinds = [found[:2] for found in frames(data)][2:]
        self.assertEqual([("HEADERS", 1), ("CONTINUATION", 4)], kinds)
        self.assertEqual(value, self.server.receive(data)[0].headers["a"])

    def test_what_cannot_be_written_is_refused_before_anything_is_sent(self):
        self.client.take_output()
        for target, field in (
            ("/a b", ("a", "b")),
            ("a", ("a", "b")),
            ("/", ("A", "b")),
            ("/", ("a", "b\r\nc: d")),
            ("/", ("", "b")),
        ):
            with self.assertRaises(a2a.UsageError):
                self.client.request("GET", target, [*HOST, field])
        self.assertEqual(
            (b"", {}, -1), (self.client.take_output(), self.client.streams, self.client.last_stream)
        )

    def test_generated_traffic_comes_through_whole(self):
        """Bodies of all sizes in all pieces, on many streams at once, through small reads."""
        generator = random.Random(9113)
        sizes = [generator.choice((0, 1, 9, 16384, 16385, 200000)) for _ in range(40)]
        bodies = [bytes((generator.randrange(256),)) * size for size in sizes]
        sent = {self.client.request("POST", "/", HOST, body): body for body in bodies}
        got = {}
        while sent.keys() - {stream for stream, (_, over) in got.items() if over}:
            data = self.client.take_output()
            for at in range(0, len(data), 5000):
                for event in self.server.receive(data[at : at + 5000]):
                    body, over = got.get(event.stream, (b"", False))
                    if type(event) is a2a.Data:
                        body += event.data
                    got[event.stream] = body, over or type(event) is a2a.End
            self.client.receive(self.server.take_output())
        self.assertEqual(sent, {stream: body for stream, (body, _) in got.items()})


class Malformed(Http2Case):
    def test_every_vector_ends_with_the_right_code(self):
        for case in json.loads((VECTORS / "malformed.json").read_text(encoding="utf-8")):
            with self.subTest(case["name"]):
                self.setUp()
                data = b""
                for kind, flags, stream, payload in case["frames"]:
                    octets = block(payload) if isinstance(payload, list) else bytes.fromhex(payload)
                    data += frame(kind, flags, stream, octets)
                error_code = getattr(a2a, case["error"])
                if case["scope"] == "stream":
                    self.assert_reset(case["frames"][-1][2], error_code, data)
                else:
                    self.assert_goaway(error_code, data)

    def test_an_event_for_a_stream_that_failed_names_the_reason(self):
        data = headers(1, [*POST, ("content-length", "3")], 4) + frame("DATA", 1, 1, b"x")
        events = self.assert_reset(1, a2a.PROTOCOL_ERROR, data)
        self.assertEqual(["Request", "Data", "Reset"], [type(event).__name__ for event in events])
        self.assertIn("shorter", events[-1].message)

    def test_a_request_that_is_refused_at_its_head_is_not_told(self):
        self.assertEqual([], self.assert_reset(1, a2a.PROTOCOL_ERROR, headers(1, [("A", "b")])))

    def test_a_connection_that_begins_otherwise(self):
        for data in (b"GET / HTTP/1.1\r\n", b"PRI * HTTP/1.1\r\n\r\n", b"\x16\x03\x01"):
            server = a2a.Http2Connection(client=False)
            server.take_output()
            self.assert_goaway(a2a.PROTOCOL_ERROR, data, server)

    def test_the_first_frame_must_be_settings(self):
        for first in (frame("PING", 0, 0, b"x" * 8), frame("SETTINGS", 1, 0), headers(1, GET)):
            server = a2a.Http2Connection(client=False)
            server.take_output()
            self.assert_goaway(a2a.PROTOCOL_ERROR, a2a.PREFACE + first, server)

    def test_a_frame_that_is_too_large_is_refused_at_its_head(self):
        self.assert_goaway(a2a.FRAME_SIZE_ERROR, bytes.fromhex("004001000000000001"))

    def test_an_error_inside_a_read_keeps_what_came_before(self):
        events = self.server.receive(headers(1, GET) + frame("PING", 0, 1, b"x" * 8))
        kinds = [type(event).__name__ for event in events]
        self.assertEqual(["Request", "End", "GoAway"], kinds)
        self.assertEqual(1, events[-1].last_stream)

    def test_what_is_well_formed_though_odd_is_read(self):
        for name, data in {
            "padding": frame("HEADERS", 13, 1, b"\x03" + block(POST) + b"\0\0\0"),
            "priority": frame("HEADERS", 37, 1, b"\x80\0\0\0\x10" + block(POST)),
            "both": frame("HEADERS", 45, 1, b"\x01\0\0\0\0\0" + block(POST) + b"\0"),
            "empty continuations": frame("HEADERS", 1, 1)
            + frame("CONTINUATION", 0, 1)
            + frame("CONTINUATION", 4, 1, block(POST)),
            "a priority frame first": frame("PRIORITY", 0, 1, b"\0\0\0\0\x10") + headers(1, POST),
            "a frame of tomorrow": frame(99, 255, 7, b"x") + headers(1, POST),
            "a setting of tomorrow": setting((0x99, 2**32 - 1)) + headers(1, POST),
            "host alone": headers(1, [*POST[:3], ("host", "a.example")]),
            "host and authority": headers(1, [*POST, ("host", "a.example")]),
            "the reserved bit": frame("HEADERS", 5, 1 | 1 << 31, block(POST)),
        }.items():
            with self.subTest(name):
                self.setUp()
                events = self.server.receive(data)
                request = a2a.Request("POST", "/", {"host": "a.example"}, 1, True)
                self.assertEqual([request, a2a.End(1)], events)
                self.assertFalse(self.server.closed)

    def test_after_a_block_in_pieces_other_frames_may_follow(self):
        data = frame("HEADERS", 1, 1) + frame("CONTINUATION", 4, 1, block(POST))
        self.server.receive(data + frame("PING", 0, 0, b"12345678"))
        self.assertEqual(["PING"], [found[0] for found in frames(self.server.take_output())])

    def test_a_block_that_changes_the_table_is_read_each_time(self):
        """What is remembered of heads must not hide it, nor outlive it."""
        insert = block(GET) + b"\x40\x01a\x01"
        for stream, fields, value in (
            (1, insert + b"1", "1"),
            (3, insert + b"1", "1"),
            (5, block(GET) + b"\xbf", "1"),
            (7, block(GET) + b"\xbe", "1"),
            (9, block(GET) + b"\xbe", "1"),
            (11, insert + b"2", "2"),
            (13, block(GET) + b"\xbe", "2"),
            (15, block(GET) + b"\xbf", "1"),
        ):
            events = self.server.receive(frame("HEADERS", 5, stream, fields))
            self.assertEqual(value, events[0].headers["a"], stream)

    def test_bodies_of_exactly_their_length(self):
        for size in (0, 1, 2):
            self.setUp()
            length = ("content-length", str(size))
            data = headers(1, [*POST, length], 4)
            for _ in range(size):
                data += frame("DATA", 0, 1, b"x")
            events = self.server.receive(data + frame("DATA", 1, 1))
            self.assertEqual(a2a.End(1), events[-1])
        events = self.server.receive(headers(3, [*POST, ("content-length", "0")]))
        self.assertEqual(a2a.End(3), events[-1])

    def test_the_largest_window(self):
        self.server.receive(headers(1, POST, 4) + setting((4, 2**31 - 1)))
        self.assertEqual(2**31 - 1, self.server.streams[1].window)
        self.server.receive(number("WINDOW_UPDATE", 0, 2**31 - 1 - 65535))
        self.assertFalse(self.server.closed)

    def test_a_star_is_for_options(self):
        head = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*")]
        request = self.server.receive(headers(1, head))[0]
        self.assertEqual(("OPTIONS", "*", {}), request[:3])

    def test_repeated_fields_are_joined(self):
        fields = [*GET, ("a", "1"), ("cookie", "x=1"), ("a", "2"), ("cookie", "y=2")]
        head = self.server.receive(headers(1, fields))[0].headers
        self.assertEqual({"a": "1, 2", "cookie": "x=1; y=2", "host": "a.example"}, head)

    def test_padding_is_no_body(self):
        events = self.server.receive(headers(1, POST, 4) + frame("DATA", 9, 1, b"\x02hi\0\0"))
        self.assertEqual([a2a.Data(b"hi", 1), a2a.End(1)], events[1:])

    def test_mutated_traffic_never_raises(self):
        generator = random.Random(1)
        base = OPENING + headers(1, POST, 4) + frame("DATA", 0, 1, b"hello")
        base += setting((4, 70000)) + number("WINDOW_UPDATE", 1, 10)
        base += frame("HEADERS", 1, 3, block(GET)[:9]) + frame("CONTINUATION", 4, 3, block(GET)[9:])
        base += number("RST_STREAM", 1, 8) + frame("GOAWAY", 0, 0, bytes(8))
        for _ in range(3000):
            data = bytearray(base)
            for _ in range(generator.randrange(1, 4)):
                data[generator.randrange(len(OPENING), len(data))] = generator.randrange(256)
            server = a2a.Http2Connection(client=False)
            cut = generator.randrange(len(data))
            events = server.receive(bytes(data[:cut])) + server.receive(bytes(data[cut:]))
            for event in events:
                if type(event) is a2a.End:
                    server.respond(event.stream, 200, [], b"x" * 100)
            ours = [e for e in events if type(e) is a2a.GoAway and e.error_code and e.message]
            self.assertEqual(bool(ours), server.state is a2a.CLOSED, events)


class FromTheServer(Http2Case):
    """What a client must not take from a server."""

    def setUp(self):
        self.server = a2a.Http2Connection(client=True)  # the machine under test
        self.server.receive(frame("SETTINGS", 0, 0))
        self.server.request("GET", "/", HOST)
        self.server.take_output()

    def test_an_answer_in_http_1_says_so(self):
        """GRPC-08: a server of HTTP/1.1 is told from one that is broken."""
        client = a2a.Http2Connection(client=True)
        events = client.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        self.assertIn("HTTP/1.1", events[0].message)
        self.assertTrue(client.closed)

    def test_malformed_answers_end_the_stream(self):
        ok = [(":status", "200")]
        for name, data in {
            "no status": headers(1, [("a", "b")]),
            "status of a request": headers(1, [*ok, (":path", "/")]),
            "two digits": headers(1, [(":status", "20")]),
            "no digits": headers(1, [(":status", "2xx")]),
            "switching protocols": headers(1, [(":status", "101")], 4),
            "an interim answer that ends": headers(1, [(":status", "100")]),
            "DATA first": frame("DATA", 0, 1, b"x"),
            "upper case": headers(1, [*ok, ("A", "b")]),
            "a short body": headers(1, [*ok, ("content-length", "2")], 4)
            + frame("DATA", 1, 1, b"x"),
            "a long body": headers(1, [*ok, ("content-length", "0")], 4)
            + frame("DATA", 1, 1, b"x"),
        }.items():
            with self.subTest(name):
                self.setUp()
                events = self.assert_reset(1, a2a.PROTOCOL_ERROR, data)
                self.assertEqual(a2a.Reset, type(events[-1]))

    def test_what_ends_the_connection(self):
        for name, data in {
            "a pushed stream": headers(2, [(":status", "200")]),
            "a stream we did not open": headers(3, [(":status", "200")]),
            "a promise": frame("PUSH_PROMISE", 4, 1, b"\0\0\0\2"),
            "push turned on": setting((2, 1)),
        }.items():
            with self.subTest(name):
                self.setUp()
                self.assert_goaway(a2a.PROTOCOL_ERROR, data)

    def test_a_length_without_a_body_is_fine_for_head_and_304(self):
        head = [(":status", "304"), ("content-length", "9")]
        self.assertEqual(a2a.End(1), self.server.receive(headers(1, head))[-1])
        self.server.request("HEAD", "/", HOST)
        head = [(":status", "200"), ("content-length", "9")]
        self.assertEqual(a2a.End(3), self.server.receive(headers(3, head))[-1])

    def test_endless_interim_answers(self):
        data = headers(1, [(":status", "103")], 4) * (a2a.HTTP2_CONTROL_FRAMES + 1)
        self.assert_goaway(a2a.ENHANCE_YOUR_CALM, data)

    def test_many_resets_by_a_server_are_its_right(self):
        for _ in range(300):
            stream = self.server.request("GET", "/", HOST)
            events = self.server.receive(number("RST_STREAM", stream, a2a.REFUSED_STREAM))
            self.assertEqual([a2a.Reset(stream, a2a.REFUSED_STREAM)], events)
        self.assertFalse(self.server.closed)

    def test_room_follows_the_settings_of_the_server(self):
        self.assertTrue(self.server.has_room)
        self.server.receive(setting((3, 1)))
        self.assertFalse(self.server.has_room)
        self.server.receive(headers(1, [(":status", "204")]))
        self.assertTrue(self.server.has_room)
        self.server.last_stream = 2**31 - 1
        self.assertFalse(self.server.has_room)


class FlowControl(Http2Case):
    def opened(self, fields=GET, flags=5):
        self.server.receive(headers(1, fields, flags))
        self.server.start(1, 200, [])
        self.server.take_output()

    def sent(self):
        return [
            (stream, len(data)) for _, _, stream, data in named(self.server.take_output(), "DATA")
        ]

    def test_data_waits_for_the_window_of_its_stream(self):
        self.server.receive(number("WINDOW_UPDATE", 0, 10**6))
        self.opened()
        self.server.data(1, b"x" * 100000)
        self.assertEqual(65535, sum(size for _, size in self.sent()))
        self.assertEqual(100000 - 65535, self.server.queued(1))
        self.assertEqual(100000 - 65535, self.server.queued_bytes)
        self.assertEqual([], self.server.receive(number("WINDOW_UPDATE", 1, 10)))
        self.assertEqual([(1, 10)], self.sent())
        events = self.server.receive(number("WINDOW_UPDATE", 1, 10**6))
        self.assertEqual([a2a.WindowOpen(1)], events)
        self.assertEqual(100000 - 65545, sum(size for _, size in self.sent()))
        self.assertEqual(0, self.server.queued_bytes)

    def test_data_waits_for_the_window_of_the_connection_in_turns(self):
        self.server.receive(setting((4, 10**6)))
        self.opened()
        self.server.receive(headers(3, GET))
        self.server.start(3, 200, [])
        self.server.data(1, b"x" * 65535)
        self.server.data(1, b"x" * 40000)
        self.server.data(3, b"x" * 40000)
        self.server.take_output()
        self.server.receive(number("WINDOW_UPDATE", 0, 16384 * 3))
        self.assertEqual([(1, 16384), (3, 16384), (1, 16384)], self.sent())
        self.assertEqual(0, self.server.queued(5))

    def test_the_order_of_a_stream_holds(self):
        self.server.receive(setting((4, 3)))
        self.opened()
        for piece in (b"abcd", b"ef", b"g"):
            self.server.data(1, piece)
        self.server.trailers(1, [("t", "1")])
        data = self.server.take_output()
        self.server.receive(number("WINDOW_UPDATE", 1, 100))
        data += self.server.take_output()
        body = b"".join(found[3] for found in named(data, "DATA"))
        self.assertEqual(b"abcdefg", body)
        self.assertEqual(("HEADERS", 5, 1), frames(data)[-1][:3])
        self.assertEqual({}, self.server.streams)

    def test_the_end_waits_with_the_data(self):
        self.server.receive(setting((4, 0)))
        self.opened()
        self.server.data(1, b"abc", end=True)
        self.assertEqual([], self.sent())
        events = self.server.receive(number("WINDOW_UPDATE", 1, 3))
        self.assertEqual([], events)
        self.assertEqual([("DATA", 1, 1, b"abc")], frames(self.server.take_output()))
        self.assertEqual({}, self.server.streams)

    def test_an_empty_end_needs_no_window(self):
        self.server.receive(setting((4, 0)))
        self.opened()
        self.server.data(1, b"", end=True)
        self.assertEqual([("DATA", 1, 1, b"")], frames(self.server.take_output()))

    def test_a_smaller_window_setting_may_make_windows_negative(self):
        self.opened()
        self.server.data(1, b"x" * 1000)
        self.server.receive(setting((4, 100)))
        self.assertEqual(-900, self.server.streams[1].window)
        self.server.data(1, b"y")
        self.server.take_output()
        self.server.receive(number("WINDOW_UPDATE", 1, 900))
        self.assertEqual([], self.sent())
        self.server.receive(setting((4, 101)))
        self.assertEqual([(1, 1)], self.sent())

    def test_larger_frames_are_used_when_the_peer_takes_them(self):
        self.server.receive(setting((5, 2**24 - 1), (4, 2**20)))
        self.server.receive(number("WINDOW_UPDATE", 0, 2**20))
        self.opened()
        self.server.data(1, b"x" * 300000)
        self.assertEqual([(1, a2a.HTTP2_SENT_FRAME_BYTES), (1, 300000 - 2**18)], self.sent())

    def test_a_reset_drops_what_waits(self):
        self.server.receive(setting((4, 0)))
        self.opened()
        self.server.data(1, b"x" * 1000)
        self.assertEqual(1000, self.server.queued_bytes)
        self.server.receive(number("RST_STREAM", 1, 8))
        self.assertEqual(0, self.server.queued_bytes)
        self.server.receive(number("WINDOW_UPDATE", 0, 10))
        self.assertEqual([], self.sent())

    def test_received_data_is_allowed_again_in_large_steps(self):
        data = b"x" * 16384
        self.server.receive(headers(1, POST, 4))
        updates = []
        for _ in range(a2a.HTTP2_CONNECTION_WINDOW_BYTES // len(data)):
            self.server.receive(frame("DATA", 0, 1, data))
            updates += named(self.server.take_output(), "WINDOW_UPDATE")
        half = a2a.HTTP2_WINDOW_BYTES // 2
        self.assertEqual({0: 2, 1: 8}, {n: sum(u[2] == n for u in updates) for n in (0, 1)})
        self.assertEqual({half}, {int.from_bytes(u[3], "big") for u in updates if u[2] == 1})

    def test_a_held_stream_gets_no_more_than_its_window(self):
        data = frame("DATA", 0, 1, b"x" * 16384)
        self.server.receive(headers(1, POST, 4))
        self.server.hold(1, True)
        for _ in range(a2a.HTTP2_WINDOW_BYTES // 16384):
            self.server.receive(data)
        self.assertEqual([], [u for u in frames(self.server.take_output()) if u[2] == 1])
        self.server.hold(1, False)
        update = number("WINDOW_UPDATE", 1, a2a.HTTP2_WINDOW_BYTES)
        self.assertEqual(update, self.server.take_output())
        self.server.hold(1, True)
        self.server.receive(data * (a2a.HTTP2_WINDOW_BYTES // 16384))
        self.server.take_output()
        self.assert_reset(1, a2a.FLOW_CONTROL_ERROR, data)
        self.server.hold(1, False)

    def test_data_past_the_window_of_the_connection(self):
        """Only a reader that holds streams back could be flooded: the streams' windows differ."""
        events = []
        self.server._received = a2a.HTTP2_CONNECTION_WINDOW_BYTES - 10
        events = self.server.receive(headers(1, POST, 4) + frame("DATA", 0, 1, b"x" * 11))
        self.assertEqual(a2a.FLOW_CONTROL_ERROR, events[-1].error_code)

    def test_a_stalled_stream_is_found(self):
        self.server.receive(setting((4, 0)))
        self.opened()
        self.server.data(1, b"x" * 1000)
        limit = a2a.WRITE_STALL_S
        self.assertEqual([], self.server.stalled(5.0))
        self.assertEqual([], self.server.stalled(5.0 + limit))
        self.assertEqual([1], self.server.stalled(5.1 + limit))

    def test_tiny_windows_are_no_progress(self):
        self.server.receive(setting((4, 1)))
        self.opened()
        self.server.data(1, b"x" * 5000)
        for second in range(60):
            self.server.receive(number("WINDOW_UPDATE", 1, 1), float(second))
            found = self.server.stalled(float(second))
        self.assertEqual([1], found)
        self.server.receive(number("WINDOW_UPDATE", 1, 300))
        self.assertEqual([], self.server.stalled(60.0))


class Endings(Http2Case):
    def test_an_early_answer_stops_the_upload(self):
        self.server.receive(headers(1, POST, 4))
        self.server.respond(1, 413, [], b"no")
        sent = frames(self.server.take_output())
        self.assertEqual(["HEADERS", "DATA", "RST_STREAM"], [found[0] for found in sent])
        self.assertEqual(bytes(4), sent[-1][3])
        self.assertEqual([], self.server.receive(frame("DATA", 0, 1, b"x") * 1500))
        self.assertEqual([], self.server.receive(frame("DATA", 1, 1, b"x")))
        self.assertEqual([], self.server.receive(headers(1, [("t", "1")])))
        self.assertEqual(b"", self.server.take_output())

    def test_the_rest_of_a_short_request_is_read_over(self):
        """curl takes a reset for a failure of the answer that came before it."""
        limit = a2a.BODY_BEFORE_SIGN_IN_BYTES
        for length, kinds in ((limit, []), (limit + 1, ["RST_STREAM"])):
            with self.subTest(length):
                self.setUp()
                self.server.receive(headers(1, [*POST, ("content-length", str(length))], 4))
                self.server.respond(1, 401, [], b"no")
                sent = [found[0] for found in frames(self.server.take_output())]
                self.assertEqual(["HEADERS", "DATA", *kinds], sent)
        self.setUp()
        self.server.receive(headers(1, [*POST, ("content-length", "4")], 4))
        self.server.respond(1, 401, [], b"no")
        self.server.take_output()
        self.server.receive(frame("DATA", 0, 1, b"xx"))
        self.assertEqual([1], list(self.server.streams))
        self.server.receive(frame("DATA", 1, 1, b"yy"))
        self.assertEqual([], list(self.server.streams))
        self.assertEqual([], frames(self.server.take_output()))

    def test_the_rest_of_a_short_request_has_its_time(self):
        self.server.receive(headers(1, [*POST, ("content-length", "4")], 4))
        self.server.respond(1, 401, [], b"no")
        for second in (0.0, a2a.WRITE_STALL_S):
            self.server.receive(frame("DATA", 0, 1, b"x"))
            self.assertEqual([], self.server.stalled(second))
        self.assertEqual([1], self.server.stalled(a2a.WRITE_STALL_S + 1))

    def test_an_early_answer_that_waits_for_a_window_comes_whole(self):
        self.server.receive(setting((4, 0)) + headers(1, POST, 4))
        self.server.respond(1, 413, [], b"no")
        self.server.take_output()
        self.server.receive(number("WINDOW_UPDATE", 1, 10))
        sent = frames(self.server.take_output())
        self.assertEqual([("DATA", 1), ("RST_STREAM", 0)], [found[:2] for found in sent])

    def test_what_is_sent_on_a_stream_that_is_gone_is_dropped(self):
        self.server.receive(headers(1, GET) + number("RST_STREAM", 1, 8))
        self.server.take_output()
        self.server.start(1, 200, [])
        self.server.data(1, b"x", end=True)
        self.server.trailers(1, [("a", "b")])
        self.server.respond(1, 200, [])
        self.server.reset(1)
        self.server.hold(1, True)
        self.assertEqual(b"", self.server.take_output())

    def test_sending_after_the_end_is_our_own_mistake(self):
        client = a2a.Http2Connection(client=True)
        client.request("GET", "/", HOST)
        with self.assertRaises(a2a.Http2Error):
            client.data(1, b"x")

    def test_a_reset_of_ours_is_written_once_and_late_frames_are_ignored(self):
        self.server.receive(headers(1, POST, 4))
        self.server.reset(1, a2a.REFUSED_STREAM)
        sent = frames(self.server.take_output())
        self.assertEqual([("RST_STREAM", 0, 1, b"\0\0\0\7")], sent)
        late = (
            frame("DATA", 0, 1, b"x") + number("RST_STREAM", 1, 8) + number("WINDOW_UPDATE", 1, 1)
        )
        self.assertEqual([], self.server.receive(late))
        self.assertEqual(b"", self.server.take_output())

    def test_only_the_last_resets_are_remembered(self):
        for stream in range(1, 500, 2):
            self.server.receive(headers(stream, POST, 4), float(stream))
            self.server.reset(stream)
        self.assertEqual(a2a.HTTP2_STREAMS, len(self.server._ignored))
        self.server.take_output()
        self.assert_reset(1, a2a.STREAM_CLOSED, frame("DATA", 0, 1, b"x"))

    def test_too_many_streams_are_refused(self):
        last = 2 * a2a.HTTP2_STREAMS - 1
        for stream in range(1, last + 1, 2):
            self.server.receive(headers(stream, GET))
        self.assert_reset(last + 2, a2a.REFUSED_STREAM, headers(last + 2, GET))
        self.server.respond(1, 200, [], b"")
        self.assertEqual(2, len(self.server.receive(headers(last + 4, GET))))

    def test_a_graceful_end_lets_streams_finish(self):
        self.server.receive(headers(1, GET))
        self.server.close()
        self.assertEqual(
            [("GOAWAY", 0, 0, bytes.fromhex("0000000100000000"))], frames(self.server.take_output())
        )
        self.assertFalse(self.server.closed)
        self.assert_reset(3, a2a.REFUSED_STREAM, headers(3, GET))
        self.server.respond(1, 200, [], b"done")
        self.assertTrue(self.server.closed)
        self.assertEqual(["HEADERS", "DATA"], [f[0] for f in frames(self.server.take_output())])

    def test_an_end_before_the_preface_is_final(self):
        server = a2a.Http2Connection(client=False)
        server.close()
        self.assertTrue(server.closed)
        server.take_output()
        server.close()
        self.assertEqual(b"", server.take_output())

    def test_a_client_learns_what_may_be_sent_again(self):
        client = a2a.Http2Connection(client=True)
        for _ in range(3):
            client.request("GET", "/", HOST)
        payload = bytes.fromhex("0000000300000000") + b"bye"
        events = client.receive(frame("SETTINGS", 0, 0) + frame("GOAWAY", 0, 0, payload))
        self.assertEqual([a2a.GoAway(0, 3, "bye"), a2a.Reset(5, a2a.REFUSED_STREAM)], events)
        self.assertFalse(client.has_room)
        self.assertFalse(client.closed)
        for stream in (1, 3):
            client.receive(headers(stream, [(":status", "204")]))
        self.assertTrue(client.closed)

    def test_a_client_that_goes_away_gets_its_answers(self):
        self.server.receive(headers(1, GET) + frame("GOAWAY", 0, 0, bytes(8)))
        self.server.respond(1, 200, [], b"done")
        self.assertTrue(self.server.closed)
        self.assertIn(b"done", self.server.take_output())

    def test_ping_and_settings_are_acknowledged(self):
        self.server.receive(frame("PING", 0, 0, b"12345678") + setting((1, 0)))
        self.assertEqual(
            [("PING", 1, 0, b"12345678"), ("SETTINGS", 1, 0, b"")],
            frames(self.server.take_output()),
        )
        self.server.receive(frame("PING", 1, 0, b"12345678") + frame("SETTINGS", 1, 0))
        self.assertEqual(b"", self.server.take_output())

    def test_the_header_table_follows_the_peer(self):
        self.server.receive(setting((1, 0)) + headers(1, GET))
        self.server.take_output()
        self.server.start(1, 200, [("content-type", "text/plain")])
        sent = frames(self.server.take_output())[0][3]
        self.assertEqual(0x20, sent[0])


class Floods(Http2Case):
    """facts of CVE-2023-44487, CVE-2024-27316, CVE-2019-9511 to 9518: GOAWAY, nothing kept."""

    def calm(self, data):
        self.assert_goaway(a2a.ENHANCE_YOUR_CALM, data)

    def test_frames_that_carry_nothing(self):
        self.server.receive(headers(1, POST, 4))
        many = a2a.HTTP2_CONTROL_FRAMES + 1
        for name, data in {
            "PING": frame("PING", 0, 0, b"x" * 8),
            "PING acknowledged": frame("PING", 1, 0, b"x" * 8),
            "SETTINGS": frame("SETTINGS", 0, 0),
            "SETTINGS acknowledged": frame("SETTINGS", 1, 0),
            "PRIORITY": frame("PRIORITY", 0, 1, b"\0\0\0\0\x10"),
            "WINDOW_UPDATE": number("WINDOW_UPDATE", 0, 1),
            "WINDOW_UPDATE of a stream": number("WINDOW_UPDATE", 1, 1),
            "empty DATA": frame("DATA", 0, 1),
            "padding alone": frame("DATA", 8, 1, b"\3\0\0\0"),
            "frames unknown": frame(99, 0, 0, b"x"),
            "RST_STREAM of an ended stream": number("RST_STREAM", 3, 8),
            "GOAWAY": frame("GOAWAY", 0, 0, bytes(8)),
        }.items():
            with self.subTest(name):
                self.setUp()
                self.server.receive(headers(1, POST, 4) + headers(3, GET))
                self.server.respond(3, 204, [])
                self.server.take_output()
                self.calm(data * many)

    def test_settings_cost_by_their_number(self):
        self.calm(setting(*[(3, 100)] * 2000))

    def test_a_slow_trickle_of_them_is_fine(self):
        ping = frame("PING", 0, 0, b"x" * 8)
        for second in range(100):
            self.server.receive(ping * 90, float(second))
            self.server.take_output()
        self.assertFalse(self.server.closed)

    def test_acknowledging_what_we_send_is_no_flood(self):
        self.server.receive(setting((4, 2**30)) + number("WINDOW_UPDATE", 0, 2**30))
        self.server.receive(headers(1, GET))
        self.server.start(1, 200, [])
        update = number("WINDOW_UPDATE", 0, 100) + number("WINDOW_UPDATE", 1, 100)
        for _ in range(5000):
            self.server.data(1, b"x" * 100)
            self.server.receive(update)
        self.assertFalse(self.server.closed)

    def test_rapid_reset(self):
        data = b""
        for stream in range(1, 2 * a2a.HTTP2_RESETS + 2, 2):
            data += headers(stream, GET) + number("RST_STREAM", stream, 8)
        self.assertEqual(a2a.HTTP2_RESETS + 1, data.count(block(GET)))
        one = len(headers(1, GET) + number("RST_STREAM", 1, 8))
        self.server.receive(data[:-one])
        self.assertFalse(self.server.closed)
        self.calm(data[-one:])

    def test_resets_over_a_long_time_are_fine(self):
        for stream in range(1, 1001, 2):
            data = headers(stream, GET) + number("RST_STREAM", stream, 8)
            self.server.receive(data, stream / 10)
        self.assertFalse(self.server.closed)

    def test_streams_that_a_client_makes_us_reset(self):
        """The same attack with our own RST_STREAM: rules broken on purpose (CVE-2025-8671)."""
        data = b""
        for stream in range(1, 2 * a2a.HTTP2_RESETS + 2, 2):
            data += headers(stream, GET) + number("WINDOW_UPDATE", stream, 0)
        self.calm(data)

    def test_refused_streams_count(self):
        last = 2 * a2a.HTTP2_STREAMS - 1
        for stream in range(1, last + 1, 2):
            self.server.receive(headers(stream, GET))
        more = range(last + 2, last + 2 * a2a.HTTP2_RESETS + 4, 2)
        self.calm(b"".join(headers(stream, GET) for stream in more))

    def test_continuation_flood(self):
        self.calm(frame("HEADERS", 1, 1) + frame("CONTINUATION", 0, 1, b"\x82") * 1000)

    def test_empty_continuation_flood(self):
        self.calm(frame("HEADERS", 1, 1) + frame("CONTINUATION", 0, 1) * 1000)

    def test_a_header_block_that_is_too_large(self):
        piece = b"\0" * 16384
        self.calm(frame("HEADERS", 1, 1, piece) + frame("CONTINUATION", 0, 1, piece) * 4)

    def test_an_hpack_bomb(self):
        big = b"\x40\x01a" + a2a.write_integer(4000, 7, 0) + b"x" * 4000
        self.server.receive(frame("HEADERS", 5, 1, block(GET) + big))
        self.calm(frame("HEADERS", 5, 3, block(GET) + b"\xbe" * 14000))

    def test_headers_past_the_limits(self):
        self.calm(headers(1, [*GET, *[("a", "b")] * a2a.HEADER_COUNT]))

    def test_what_is_remembered_of_heads_is_bounded(self):
        for stream in range(1, 401, 2):
            self.server.receive(headers(stream, [*GET, ("x", str(stream))]))
            self.server.respond(stream, 200, [], b"")
        self.assertLessEqual(len(self.server.heads._heads), a2a.HPACK_BLOCKS)

    def test_trailers_of_streams_that_ended(self):
        self.server.receive(headers(1, POST, 4))
        self.server.reset(1)
        self.server.take_output()
        self.calm(headers(1, [("a", "b")]) * (a2a.HTTP2_CONTROL_FRAMES + 1))


if __name__ == "__main__":
    unittest.main()
