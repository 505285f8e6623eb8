"""Chapter 7 beside h11: what h11 refuses we refuse, and what both take means the same.

The inputs are the vectors of chapter 7 and thousands of random changes to good messages. The other
way round need not hold: we refuse much that h11 repairs (a bare LF, for one).
"""

import json
import pathlib
import random
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import a2a

try:
    import h11
except ImportError as error:
    raise unittest.SkipTest("no h11: `python3 tests` installs it") from error

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors" / "http1"
ROUNDS = 10_000
LIMIT = a2a.REQUEST_LINE_BYTES + a2a.HEADER_BYTES + 2

# What we take and h11 does not, each with our reason. A pattern is searched in the bytes.
WE_ALSO_TAKE = {
    rb"(^|[^\n]|\n\r\n)\r\n?(\S+ \S+ HTTP/1|[^\r\n]*$)": "an empty line before a request",
    rb"^HTTP/1.. (204|304)": "a length or coding of a body that cannot be is not read",
    rb"(?i)expect:": "h11 leaves an expectation it does not know to its caller",
}


def vectors(name):
    rows = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return [row["bytes"].encode("latin-1") for row in rows]


def cut(data, rng):
    """Give data in a few pieces."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(3)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]


def change(data, rng):
    """Give data with a few bytes changed, taken out, doubled or put in."""
    for _ in range(rng.randrange(1, 4)):
        at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        kind = rng.randrange(5)
        if kind == 0:
            data = data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + rng.choice(SPICE) + data[at:]
        elif kind == 2:
            data = data[:at] + data[at + 1 :]
        elif kind == 3 and to - at < 40:
            data = data[:to] + data[at:]
        else:
            data = data[:at] + data[at : at + 1].swapcase() + data[at + 1 :]
    return data


SPICE = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b";", b",", b"0", b"chunked", b"\xff", b"\x0b",
    b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"+", b"_",
    b"a" * 17, b"Host: b\r\n", b"Connection: close\r\n", b"\r\n ", b"HTTP/1.0", b"\"", b"=",
]  # fmt: skip


class Message(dict):
    """One message as a machine read it; whole when its end came."""


def ours(machine, pieces, answer):
    """Give the messages that our machine read, or None for a refusal."""
    messages = []
    try:
        for piece in pieces:
            events = machine.receive(piece)
            while events:
                for event in events:
                    take_ours(event, messages)
                if messages[-1].get("whole"):
                    answer(machine)
                events = machine.receive(b"")
    except a2a.PeerError:
        return None
    return messages


def take_ours(event, messages):
    if isinstance(event, a2a.Data):
        messages[-1]["body"] += event.data
    elif isinstance(event, a2a.End):
        messages[-1].update(whole=True, trailers=dict(event.trailers))
    else:
        start = event[:2] if isinstance(event, a2a.Request) else event[:1]
        messages.append(Message(start=start, headers=event.headers, body=b""))


def theirs(connection, pieces, answer):
    """Give the messages that h11 read, or None for a refusal."""
    messages = []
    try:
        for piece in pieces:
            if piece:
                connection.receive_data(piece)
            for event in iter(connection.next_event, None):
                if event in (h11.NEED_DATA, h11.PAUSED):
                    break
                if isinstance(event, h11.ConnectionClosed):
                    break
                take_theirs(event, messages)
                if messages and messages[-1].get("whole") and not answer(connection):
                    return messages
    except h11.RemoteProtocolError:
        return None
    return messages


def take_theirs(event, messages):
    if isinstance(event, h11.Data):
        messages[-1]["body"] += bytes(event.data)
    elif isinstance(event, h11.EndOfMessage):
        messages[-1].update(whole=True, trailers=joined(event.headers))
    elif isinstance(event, h11.Request):
        start = (event.method.decode(), event.target.decode())
        messages.append(Message(start=start, headers=joined(event.headers), body=b""))
    elif isinstance(event, h11.Response):
        start = (event.status_code,)
        messages.append(Message(start=start, headers=joined(event.headers), body=b""))


def joined(headers):
    fields = {}
    for name, value in headers:
        name, value = name.decode(), value.decode("latin-1")
        glue = "; " if name == "cookie" else ", "
        fields[name] = fields[name] + glue + value if name in fields else value
    return fields


def normalise(message):
    """Even out what is said in two ways: h11 leaves absolute targets, lowers and merges values."""
    headers = message["headers"]
    if len(message["start"]) == 2:
        method, target = message["start"]
        absolute, authority, origin = re.fullmatch(
            r"((?i:https?)://([^/?]*))?(.*)", target
        ).groups()
        message["start"] = method, origin if origin[:1] in ("/", "*") else "/" + origin
        if absolute:
            headers.setdefault("host", authority)
    for name in ("content-length", "transfer-encoding", "expect"):
        if name in headers:
            headers[name] = headers[name].lower().partition(",")[0].strip()


def h11_answers(connection):
    """Answer the request; say whether another may follow."""
    connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    if connection.their_state is not h11.DONE or connection.our_state is not h11.DONE:
        return False
    connection.start_next_cycle()
    return True


class OracleTest(unittest.TestCase):
    maxDiff = None

    def test_requests(self):
        """What h11 refuses as a server, we refuse; what both take reads the same."""
        good = vectors("accept")
        taken = self.compare(good, vectors("accept") + vectors("reject"), self.read_requests)
        self.assertGreater(taken["both"], ROUNDS / 20)
        self.assertGreater(taken["neither"], ROUNDS / 20)

    def test_answers(self):
        """What h11 refuses as a client, we refuse; what both take reads the same."""
        good = vectors("client_accept")
        bad = vectors("client_reject")
        taken = self.compare(good, good + bad, self.read_answers)
        self.assertGreater(taken["both"], ROUNDS / 20)
        self.assertGreater(taken["neither"], ROUNDS / 20)

    def compare(self, good, first, read):
        rng = random.Random(11)
        inputs = first + [change(rng.choice(good), rng) for _ in range(ROUNDS)]
        taken = {"both": 0, "neither": 0, "h11 alone": 0}
        for data in inputs:
            our, their = read(cut(data, rng))
            if their is None and our is not None:
                if not any(re.search(pattern, data) for pattern in WE_ALSO_TAKE):
                    self.fail(f"h11 refuses {data!r}, we read {our}")
            elif their is not None and our is None:
                taken["h11 alone"] += 1
            else:
                taken["both" if our else "neither"] += 1
                if our:
                    self.same(data, our, their)
        return taken

    def same(self, data, our, their):
        for message in our + their:
            normalise(message)
        self.assertEqual(their, our, data)

    def read_requests(self, pieces):
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LIMIT)
        return (
            ours(a2a.Http1Server(), pieces, lambda machine: machine.respond(200, [])),
            theirs(connection, pieces, h11_answers),
        )

    def read_answers(self, pieces):
        machine = a2a.Http1Client()
        machine.request("GET", "/", [("host", "a")])
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LIMIT)
        connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
        connection.send(h11.EndOfMessage())
        return (
            ours(machine, pieces, lambda machine: None),
            theirs(connection, pieces, lambda connection: False),
        )


if __name__ == "__main__":
    unittest.main()
