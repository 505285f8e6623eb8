"""Chapter 8: server-sent events, cut in every way, and events written."""

import json
import pathlib
import random
import sys
import tracemalloc
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "sse"


def streams():
    """Give {name: (bytes, events)} of the vectors."""
    rows = json.loads((VECTORS / "streams.json").read_text(encoding="utf-8"))
    return {row["name"]: (row["bytes"].encode("latin-1"), row["events"]) for row in rows}


STREAMS = streams()


def read(*pieces, limit=a2a.CLIENT_EVENT_BYTES):
    """Give the events of a stream that comes in pieces."""
    reader = a2a.SseReader(limit)
    events = [event for piece in pieces for event in reader.receive(piece)]
    return events + reader.receive_eof()


def one_by_one(data):
    return [data[i : i + 1] for i in range(len(data))]


class ReaderTest(unittest.TestCase):
    maxDiff = None

    def test_every_stream_cut_at_every_place(self):
        self.assertGreater(len(STREAMS), 20)
        for name, (data, events) in STREAMS.items():
            with self.subTest(name):
                self.assertEqual(events, read(data))
                self.assertEqual(events, read(*one_by_one(data)))
                for at in range(len(data)):
                    self.assertEqual(events, read(data[:at], b"", data[at:]), at)

    def test_random_streams_mean_the_same_however_they_are_cut(self):
        rng = random.Random(8)
        words = [b"data: a", b"data:", b"data", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"id: 1",
                 b"\xef\xbb\xbf", b"\xc3\xa9", b"x"]  # fmt: skip
        for _ in range(3000):
            data = b"".join(rng.choice(words) for _ in range(rng.randrange(12)))
            at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
            whole = read(data)
            self.assertEqual(whole, read(*one_by_one(data)), data)
            self.assertEqual(whole, read(data[:at], data[at:to], data[to:]), data)

    def test_event_cut_inside_a_character(self):
        """SSE-01: bytes are decoded by the event, so no character is lost between two reads."""
        events = read(b'data: {"text":"na\xc3', b'\xafve"}\n\n')
        self.assertEqual([{"text": "na\u00efve"}], [json.loads(event) for event in events])

    def test_several_events_in_one_read(self):
        """SSE-02: all are given, in order, before more is read."""
        data, events = STREAMS["two events"]
        self.assertEqual(events, a2a.SseReader().receive(data))

    def test_comments_keep_a_stream_alive_and_mean_nothing(self):
        """SSE-03: comments come before, between and inside events."""
        data, events = STREAMS["comments"]
        self.assertEqual(events, read(data))
        self.assertEqual([], read(a2a.SSE_COMMENT * 3))
        self.assertEqual(["a"], read(b"data: a\n", a2a.SSE_COMMENT))

    def test_one_event_over_several_data_lines(self):
        """SSE-04: the lines are joined by LF and are one JSON document."""
        data, _ = STREAMS["several data lines"]
        self.assertEqual({"task": {"id": "t1", "status": {}}}, json.loads(*read(data)))

    def test_one_space_after_the_colon_is_dropped(self):
        """SSE-05: exactly one, when there is one."""
        self.assertEqual(["{}", " {}", "{}"], read(b"data:{}\n\ndata:  {}\n\ndata: {}\n\n"))

    def test_one_byte_order_mark_is_dropped(self):
        """SSE-08: at the very start, however it is cut, and never again."""
        for name in STREAMS:
            if "byte order" in name:
                data, events = STREAMS[name]
                self.assertEqual(events, read(data[:1], data[1:2], data[2:]), name)

    def test_empty_data_and_other_fields(self):
        """SSE-09: a block without data gives nothing, an empty data line gives an empty text."""
        data, events = STREAMS["fields other than data"]
        self.assertEqual(["", "{}"], events)
        self.assertEqual(events, read(data))

    def test_an_event_as_soon_as_its_blank_line_is_there(self):
        for end in (b"\n", b"\r", b"\r\n"):
            reader = a2a.SseReader()
            self.assertEqual([], reader.receive(b"data: a" + end))
            self.assertEqual(["a"], reader.receive(end[:1]), "CR is not held back to see a LF")

    def test_a_very_long_line(self):
        """SSE-11: five million characters on one line, in pieces."""
        text = "x" * 5_000_000
        data = b"data: " + text.encode() + b"\n\n"
        pieces = [data[at : at + 16384] for at in range(0, len(data), 16384)]
        self.assertEqual([text], read(*pieces))

    def test_a_long_event_of_many_lines(self):
        """SSE-11: 200 KB in short lines."""
        data = b"data: 0123456789abcdef\n" * 12_000 + b"\n"
        (event,) = read(*[data[at : at + 999] for at in range(0, len(data), 999)])
        self.assertEqual(12_000, len(event.split("\n")))

    def test_an_endless_line_ends_at_the_limit(self):
        """SSE-12: no newline ever comes; memory stays bounded."""
        self.endless(b"data: ", b"x" * 1000)
        self.endless(b": ", b"x" * 1000)

    def test_an_endless_event_ends_at_the_limit(self):
        """SSE-12: no blank line ever comes; empty lines of data count too."""
        self.endless(b"", b"data: x\n" * 100)
        self.endless(b"", b"data:\n" * 100)
        self.endless(b"", b"data\n" * 100 + b":\n")

    def endless(self, first, piece):
        reader = a2a.SseReader(event_limit_bytes=50_000)
        reader.receive(first)
        tracemalloc.start()
        try:
            with self.assertRaisesRegex(a2a.SseError, "larger than 50000 bytes"):
                for _ in range(1_000_000):
                    reader.receive(piece)
            self.assertLess(tracemalloc.get_traced_memory()[1], 8_000_000)
        finally:
            tracemalloc.stop()

    def test_the_limit_is_for_one_event_not_for_the_stream(self):
        self.assertEqual(["x" * 90] * 50, read(b"data: " + b"x" * 90 + b"\n\n", limit=100) * 50)
        self.assertEqual(50, len(read(*[b"data: " + b"x" * 90 + b"\n\n"] * 50, limit=100)))
        self.assertEqual(1, len(read(b"data: " + b"x" * 99 + b"\n\n", limit=100)))
        with self.assertRaises(a2a.SseError):
            read(b"data: " + b"x" * 100 + b"\n\n", limit=100)
        self.assertEqual(1, len(read(b"data: " + b"x" * 101 + b"\n\n", limit=0)), "0 is none")

    def test_keep_alives_inside_an_event_do_not_count(self):
        comments = a2a.SSE_COMMENT[:2] * 1000
        self.assertEqual(["a"], read(b"data: a\n", comments, b"\n", limit=100))


class WriterTest(unittest.TestCase):
    def test_an_event(self):
        self.assertEqual(b'data: {"a":1}\n\n', a2a.write_event(b'{"a":1}'))

    def test_line_ends_in_the_data_cannot_end_the_event(self):
        self.assertEqual(b"data: a\ndata: b\ndata: \n\n", a2a.write_event(b"a\r\nb\n"))
        self.assertEqual(b"data: a\ndata: \ndata: b\n\n", a2a.write_event(b"a\r\rb"))

    def test_what_is_written_is_read_again(self):
        texts = ["", "{}", "a\nb", "\n", " a", "data: x", ":", "\u00e9\U0001f600\u2028", "\ufeff"]
        written = [a2a.write_event(text.encode()) for text in texts]
        self.assertEqual(texts, read(*written))
        self.assertEqual(texts, read(*one_by_one(b"".join(written))))


if __name__ == "__main__":
    unittest.main()
