"""Chapters 9 and 10 beside hpack, hyperframe and h2: generated headers, traffic and mistakes."""

import contextlib
import pathlib
import random
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import a2a

try:
    import h2.config
    import h2.connection
    import h2.events
    import h2.exceptions
    import hpack
    import hpack.huffman
    import hpack.huffman_constants
    import hyperframe.exceptions
    import hyperframe.frame
except ImportError as error:
    raise unittest.SkipTest("no h2: `python3 tests` installs it") from error

NAMES = ("accept", "content-type", "x-a", "x-bcd", "authorization", "a2a-version", "set-cookie")
HOST = [("host", "a.example")]


def text(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(("", "200", "application/grpc", "1.0"))
    alphabet = range(256) if kind == 1 else range(33, 127)
    return "".join(chr(rng.choice(alphabet)) for _ in range(rng.randrange(60)))


def field_value(rng):
    while True:
        value = text(rng)
        if re.fullmatch(a2a.FIELD_VALUE, value):
            return value


def header_list(rng):
    fields = [(rng.choice(NAMES), text(rng)) for _ in range(rng.randrange(12))]
    return [(":status", str(rng.choice((200, 404, 418)))), *fields]


def octets(fields):
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


class HpackOracle(unittest.TestCase):
    def test_our_blocks_read_there(self):
        rng = random.Random(1)
        for _ in range(30):
            ours, theirs = a2a.HpackEncoder(), hpack.Decoder()
            for _ in range(60):
                if not rng.randrange(9):
                    size = rng.choice((0, 50, 200, 4096, 65536))
                    ours.set_limit(size)
                    theirs.max_allowed_table_size = max(size, 4096)
                fields = header_list(rng)
                found = theirs.decode(ours.encode(fields), raw=True)
                self.assertEqual(octets(fields), [tuple(field) for field in found])

    def test_their_blocks_read_here(self):
        rng = random.Random(2)
        for _ in range(30):
            ours, theirs = a2a.HpackDecoder(), hpack.Encoder()
            for _ in range(60):
                if not rng.randrange(9):
                    theirs.header_table_size = rng.choice((0, 50, 200, 4096))
                fields = header_list(rng)
                sent = [
                    hpack.NeverIndexedHeaderTuple(*field) if rng.randrange(2) else field
                    for field in octets(fields)
                ]
                block = theirs.encode(sent, huffman=bool(rng.randrange(2)))
                self.assertEqual(fields, ours.decode(block))

    def test_the_huffman_code_is_the_same(self):
        constants = hpack.huffman_constants
        theirs = hpack.huffman.HuffmanEncoder(
            constants.REQUEST_CODES, constants.REQUEST_CODES_LENGTH
        )
        rng = random.Random(3)
        for _ in range(2000):
            data = bytes(rng.randrange(256) for _ in range(rng.randrange(50)))
            self.assertEqual(theirs.encode(data), a2a.write_huffman(data.decode("latin-1")))

    def test_changed_blocks_are_read_alike_or_refused_by_both(self):
        rng = random.Random(4)
        agreed = 0
        for _ in range(6000):
            block = bytearray(hpack.Encoder().encode(octets(header_list(rng))))
            for _ in range(rng.randrange(1, 3)):
                block[rng.randrange(len(block))] = rng.randrange(256)
            ours = theirs = None
            with contextlib.suppress(a2a.HpackError):
                ours = octets(a2a.HpackDecoder().decode(bytes(block)))
            with contextlib.suppress(hpack.HPACKError):
                decoder = hpack.Decoder(max_header_list_size=a2a.HEADER_BYTES)
                theirs = [tuple(field) for field in decoder.decode(bytes(block), raw=True)]
            self.assertEqual(theirs, ours, block.hex())
            agreed += ours is not None
        self.assertGreater(agreed, 500)


class Theirs:
    """One side of a connection by h2, in the verbs of ours."""

    def __init__(self, client):
        config = h2.config.H2Configuration(client_side=client, header_encoding="latin-1")
        self.connection = h2.connection.H2Connection(config)
        self.connection.initiate_connection()
        self.queues = {}

    def take_output(self):
        for stream, (data, trailers) in list(self.queues.items()):
            self.push(stream, data, trailers)
        return self.connection.data_to_send()

    def send(self, stream, data, trailers):
        self.push(stream, data, trailers)

    def push(self, stream, data, trailers):
        connection = self.connection
        while data:
            most = min(
                connection.local_flow_control_window(stream), connection.max_outbound_frame_size
            )
            if most <= 0:
                break
            connection.send_data(stream, data[:most], end_stream=False)
            data = data[most:]
        if data:
            self.queues[stream] = data, trailers
            return
        self.queues.pop(stream, None)
        if trailers:
            connection.send_headers(stream, trailers, end_stream=True)
        else:
            connection.end_stream(stream)

    def receive(self, data):
        found = []
        for event in self.connection.receive_data(data) if data else []:
            if isinstance(event, (h2.events.RequestReceived, h2.events.ResponseReceived)):
                found.append(("head", event.stream_id, dict(event.headers)))
            elif isinstance(event, h2.events.DataReceived):
                if event.flow_controlled_length:
                    self.connection.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id
                    )
                found.append(("data", event.stream_id, event.data))
            elif isinstance(event, h2.events.TrailersReceived):
                found.append(("trailers", event.stream_id, dict(event.headers)))
            elif isinstance(event, h2.events.StreamEnded):
                found.append(("end", event.stream_id, None))
            elif isinstance(event, h2.events.StreamReset):
                found.append(("reset", event.stream_id, event.error_code))
        return found


class Ours:
    """One side by a2a.py, events in the same form."""

    def __init__(self, client):
        self.connection = a2a.Http2Connection(client)
        self.take_output = self.connection.take_output

    def send(self, stream, data, trailers):
        self.connection.data(stream, data, end=not trailers)
        if trailers:
            self.connection.trailers(stream, trailers)

    def receive(self, data):
        found = []
        for event in self.connection.receive(data):
            if isinstance(event, a2a.Request):
                head = {":method": event.method, ":path": event.target, **event.headers}
                found.append(("head", event.stream, head))
            elif isinstance(event, a2a.Response):
                head = {":status": str(event.status), **event.headers}
                found.append(("head", event.stream, head))
            elif isinstance(event, a2a.Data):
                found.append(("data", event.stream, event.data))
            elif isinstance(event, a2a.End):
                if event.trailers:
                    found.append(("trailers", event.stream, dict(event.trailers)))
                found.append(("end", event.stream, None))
            elif isinstance(event, a2a.Reset):
                found.append(("reset", event.stream, event.error_code))
        return found


def collect(found, into):
    """Fold events: stream -> {"head", "body", "trailers", "end", "reset"}."""
    for kind, stream, value in found:
        entry = into.setdefault(stream, {"data": b""})
        entry[kind] = entry["data"] + value if kind == "data" else value


class Http2Oracle(unittest.TestCase):
    def settle(self, client, server):
        heard_by_client, heard_by_server = {}, {}
        for _ in range(3000):
            up, down = client.take_output(), server.take_output()
            if not up and not down:
                return heard_by_client, heard_by_server
            collect(server.receive(up), heard_by_server)
            collect(client.receive(down), heard_by_client)
        raise AssertionError("the two sides never fall silent")

    def bodies(self, rng):
        sizes = [rng.choice((0, 1, 100, 16384, 16385, 70000, 300000)) for _ in range(30)]
        return [rng.choice((b"a", b"\0")) * size for size in sizes]

    def trailers(self, rng):
        return rng.choice(([], [("grpc-status", "0")], [("a", "b" * 30000)]))

    def test_our_client_with_their_server(self):
        rng = random.Random(5)
        client, server = Ours(True), Theirs(False)
        sent, answers = {}, {}
        for body in self.bodies(rng):
            number = client.connection.request(
                "POST", f"/{rng.randrange(9)}", [*HOST, ("x", field_value(rng))], body
            )
            sent[number] = body
        _, heard = self.settle(client, server)
        self.assertEqual(sent, {stream: entry["data"] for stream, entry in heard.items()})
        self.assertTrue(all("end" in entry for entry in heard.values()))
        for number, body in zip(sent, self.bodies(rng)):
            trailers = self.trailers(rng)
            server.connection.send_headers(number, [(":status", "200"), ("x", "y")])
            server.send(number, body, trailers)
            answers[number] = (body, dict(trailers))
        heard, _ = self.settle(client, server)
        found = {n: (e["data"], e.get("trailers", {})) for n, e in heard.items()}
        self.assertEqual(answers, found)
        self.assertEqual({}, client.connection.streams)

    def test_their_client_with_our_server(self):
        rng = random.Random(6)
        client, server = Theirs(True), Ours(False)
        sent, answers = {}, {}
        self.settle(client, server)
        for index, body in enumerate(self.bodies(rng)):
            number = 2 * index + 1
            head = [(":method", "POST"), (":scheme", "http"), (":authority", "a.example")]
            client.connection.send_headers(number, [*head, (":path", "/"), ("x", "y" * 20)])
            client.send(number, body, self.trailers(rng))
            sent[number] = body
        _, heard = self.settle(client, server)
        self.assertEqual(sent, {stream: entry["data"] for stream, entry in heard.items()})
        for number, body in zip(sent, self.bodies(rng)):
            trailers = self.trailers(rng)
            server.connection.start(number, 200, [("x", "y")])
            server.send(number, body, trailers)
            answers[number] = (body, dict(trailers))
        heard, _ = self.settle(client, server)
        found = {n: (e["data"], e.get("trailers", {})) for n, e in heard.items()}
        self.assertEqual(answers, found)
        self.assertEqual({}, server.connection.streams)

    def test_our_frames_parse_there(self):
        rng = random.Random(7)
        client = a2a.Http2Connection(client=True)
        for body in self.bodies(rng)[:10]:
            client.request("POST", "/", [*HOST, ("x", field_value(rng) * 500)], body)
        data = client.take_output()[len(a2a.PREFACE) :]
        while data:
            frame, length = hyperframe.frame.Frame.parse_frame_header(
                memoryview(data[:9]), strict=True
            )
            frame.parse_body(memoryview(data[9 : 9 + length]))
            data = data[9 + length :]
        self.assertEqual(b"", data)

    def test_what_they_refuse_we_refuse(self):
        """Thousands of changes to good traffic. We refuse more: fields, floods, push."""
        rng = random.Random(8)
        base = self.traffic()
        refused = 0
        for _ in range(3000):
            data = bytearray(base)
            for _ in range(rng.randrange(1, 3)):
                data[rng.randrange(len(a2a.PREFACE), len(data))] = rng.randrange(256)
            theirs, ours = Theirs(False), a2a.Http2Connection(client=False)
            ours.receive(bytes(data))
            sent = ours.take_output()
            complaint = ours.closed or self.has_reset(sent)
            try:
                theirs.receive(bytes(data))
            except (h2.exceptions.ProtocolError, hyperframe.exceptions.HyperframeError) as error:
                refused += 1
                if not complaint and not self.excused(error):
                    self.fail(f"{type(error).__name__}: {error}: {data[24:].hex()}")
        self.assertGreater(refused, 500)

    def has_reset(self, data):
        while data:
            if data[3] == a2a.RST_STREAM:
                return True
            data = data[9 + int.from_bytes(data[:3], "big") :]
        return False

    def excused(self, error):
        return any(
            mark in str(error)
            for mark in (
                "depend on itself",  # priorities: RFC 9113 has taken them out
                "Setting 8 has",  # of WebSockets (RFC 8441)
                "non-compliant data",  # the reserved bit of a WINDOW_UPDATE, which is to be ignored
            )
        )

    def traffic(self):
        client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
        client.initiate_connection()
        head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")]
        client.send_headers(1, [*head, ("content-length", "6")])
        client.send_data(1, b"abc", pad_length=3)
        client.send_headers(3, [*head, ("te", "trailers")], priority_weight=9)
        client.send_data(1, b"def", end_stream=True)
        client.increment_flow_control_window(1000, 3)
        client.increment_flow_control_window(1000)
        client.ping(b"12345678")
        client.send_data(3, b"xyz")
        client.send_headers(3, [("grpc-status", "0")], end_stream=True)
        client.send_headers(5, [(":method", "GET"), *head[1:]], end_stream=True)
        client.reset_stream(5)
        client.update_settings({4: 70000})
        client.close_connection(last_stream_id=0)
        return client.data_to_send()


if __name__ == "__main__":
    unittest.main()
