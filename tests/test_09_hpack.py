"""Chapter 9: header blocks. The examples of RFC 7541 appendix C are in vectors/hpack."""

import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors" / "hpack"


def vectors(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def pairs(fields):
    return [tuple(field) for field in fields]


class Decoding(unittest.TestCase):
    def test_the_examples_of_the_rfc(self):
        for example in vectors("rfc7541-appendix-c.json"):
            decoder = a2a.HpackDecoder(example["table_bytes"])
            for block in example["blocks"]:
                with self.subTest(example["name"], block=block["hex"]):
                    fields = decoder.decode(bytes.fromhex(block["hex"]))
                    self.assertEqual(pairs(block["fields"]), fields)
                    table = [decoder.table.field(62 + i) for i in range(len(block["table"]))]
                    self.assertEqual(pairs(block["table"]), table)
                    with self.assertRaises(a2a.HpackError):
                        decoder.table.field(62 + len(table))

    def test_malformed_blocks_are_refused(self):
        for case in vectors("malformed.json"):
            with self.subTest(case["name"]), self.assertRaises(a2a.HpackError) as caught:
                a2a.HpackDecoder().decode(bytes.fromhex(case["hex"]))
            self.assertEqual(a2a.COMPRESSION_ERROR, caught.exception.error_code)
            self.assertEqual(0, caught.exception.stream)

    def test_every_cut_of_a_block_decodes_or_is_refused(self):
        """No cut ends in another exception, whatever it cuts through."""
        for example in vectors("rfc7541-appendix-c.json"):
            block = bytes.fromhex(example["blocks"][0]["hex"])
            whole = pairs(example["blocks"][0]["fields"])
            for end in range(len(block)):
                try:
                    fields = a2a.HpackDecoder(256).decode(block[:end])
                except a2a.HpackError:
                    continue
                self.assertEqual(whole[: len(fields)], fields)

    def test_the_table_forgets_its_oldest_fields(self):
        decoder = a2a.HpackDecoder(100)
        for name in ("a", "b", "c"):
            decoder.decode(b"\x40\x01" + name.encode() + b"\x01v")
        self.assertEqual(("c", "v"), decoder.table.field(62))
        self.assertEqual(("b", "v"), decoder.table.field(63))
        with self.assertRaises(a2a.HpackError):
            decoder.table.field(64)

    def test_a_field_larger_than_the_table_empties_it(self):
        decoder = a2a.HpackDecoder(100)
        decoder.decode(b"\x40\x01a\x01v")
        fields = decoder.decode(b"\x40\x01b\x7f\x01" + b"x" * 128)
        self.assertEqual([("b", "x" * 128)], fields)
        with self.assertRaises(a2a.HpackError):
            decoder.decode(b"\xbe")

    def test_a_size_update_evicts(self):
        decoder = a2a.HpackDecoder()
        decoder.decode(b"\x40\x01a\x01v")
        self.assertEqual([], decoder.decode(b"\x20"))
        with self.assertRaises(a2a.HpackError):
            decoder.table.field(62)
        self.assertEqual([("b", "v")], decoder.decode(b"\x3f\xe1\x1f\x40\x01b\x01v"))
        self.assertEqual([("b", "v")], decoder.decode(b"\xbe"))

    def test_the_version_changes_only_with_the_table(self):
        decoder = a2a.HpackDecoder()
        decoder.decode(b"\x82\x00\x01a\x01v\x10\x01a\x01v")
        self.assertEqual(0, decoder.table.version)
        decoder.decode(b"\x40\x01a\x01v")
        self.assertEqual(1, decoder.table.version)
        decoder.decode(b"\x3f\xe1\x1f")
        self.assertEqual(2, decoder.table.version)

    def test_octets_above_ascii_are_latin_1(self):
        self.assertEqual([("a", "\xfc\xff")], a2a.HpackDecoder().decode(b"\0\x01a\x02\xfc\xff"))


class Limits(unittest.TestCase):
    def refused(self, block, decoder=None):
        with self.assertRaises(a2a.HpackError) as caught:
            (decoder or a2a.HpackDecoder()).decode(block)
        self.assertEqual(a2a.ENHANCE_YOUR_CALM, caught.exception.error_code)

    def test_an_hpack_bomb_is_refused_while_decoding(self):
        """14 KB of indexes that stand for 40 MB of headers; none of it is kept."""
        decoder = a2a.HpackDecoder()
        decoder.decode(b"\x40\x01a" + a2a.write_integer(4000, 7, 0) + b"x" * 4000)
        self.refused(b"\xbe" * 14000, decoder)

    def test_a_list_at_the_limit_passes_and_one_over_it_does_not(self):
        value = b"x" * (a2a.HEADER_BYTES - 33)
        block = b"\0\x01a" + a2a.write_integer(len(value), 7, 0) + value
        self.assertEqual([("a", value.decode())], a2a.HpackDecoder().decode(block))
        value += b"x"
        self.refused(b"\0\x01a" + a2a.write_integer(len(value), 7, 0) + value)

    def test_a_hundred_fields_pass_and_one_more_does_not(self):
        self.assertEqual(100, len(a2a.HpackDecoder().decode(b"\x82" * a2a.HEADER_COUNT)))
        self.refused(b"\x82" * (a2a.HEADER_COUNT + 1))

    def test_a_huffman_text_counts_decoded(self):
        text = "0" * a2a.HEADER_BYTES  # five bits each
        packed = a2a.write_huffman(text)
        self.assertLess(len(packed), a2a.HEADER_BYTES)
        self.refused(b"\0\x01a" + a2a.write_integer(len(packed), 7, 128) + packed)

    def test_an_announced_length_past_the_block_costs_nothing(self):
        with self.assertRaises(a2a.HpackError) as caught:
            a2a.HpackDecoder().decode(b"\0\x01a" + a2a.write_integer(2**27, 7, 0) + b"x")
        self.assertIn("ends inside a string", str(caught.exception))


class Integers(unittest.TestCase):
    def test_the_examples_of_the_rfc(self):
        """RFC 7541 appendix C.1."""
        for value, prefix_bits, octets in ((10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a")):
            written = a2a.write_integer(value, prefix_bits, 0)
            self.assertEqual(octets, written.hex())
            self.assertEqual((value, len(written)), a2a.read_integer(written, 0, prefix_bits))

    def test_all_sizes_survive_with_any_pattern(self):
        for prefix_bits in range(1, 9):
            pattern = 255 & ~((1 << prefix_bits) - 1)
            for value in (0, 1, 30, 31, 127, 128, 255, 256, 4096, 2**21, 2**28):
                written = a2a.write_integer(value, prefix_bits, pattern)
                self.assertEqual(pattern, written[0] & pattern)
                read = a2a.read_integer(b"\0" + written + b"\0", 1, prefix_bits)
                self.assertEqual((value, 1 + len(written)), read)

    def test_no_octet_more_than_needed_is_written(self):
        for value, octets in ((126, 1), (127, 2), (254, 2), (255, 3), (127 + 2**14, 4)):
            self.assertEqual(octets, len(a2a.write_integer(value, 7, 0)), value)

    def test_one_past_the_limit_is_refused(self):
        with self.assertRaises(a2a.HpackError):
            a2a.read_integer(a2a.write_integer(2**28 + 1, 7, 0), 0, 7)


class Huffman(unittest.TestCase):
    def test_every_octet_survives(self):
        for octet in range(256):
            text = chr(octet) * 3
            self.assertEqual(text, a2a.read_huffman(a2a.write_huffman(text)))

    def test_the_code_is_complete(self):
        """256 characters, and the lengths with end-of-string fill the space of codes exactly."""
        lengths = a2a.HUFFMAN_LENGTHS
        self.assertEqual(set(map(chr, range(256))), set("".join(lengths.values())))
        used = sum(2 ** (30 - bits) * len(chars) for bits, chars in lengths.items())
        self.assertEqual(2**30 - 1, used)

    def test_generated_texts_survive(self):
        generator = random.Random(7541)
        for _ in range(300):
            size = generator.randrange(60)
            text = "".join(chr(generator.randrange(256)) for _ in range(size))
            self.assertEqual(text, a2a.read_huffman(a2a.write_huffman(text)))

    def test_padding_is_ones_shorter_than_an_octet(self):
        self.assertEqual("a", a2a.read_huffman(b"\x1f"))
        self.assertEqual("", a2a.read_huffman(b""))
        for wrong in (b"\x18", b"\x1e", b"\x1f\xff", b"\xff", b"\xff\xff\xff\xff"):
            with self.subTest(wrong.hex()), self.assertRaises(a2a.HpackError):
                a2a.read_huffman(wrong)

    def test_the_end_of_string_symbol_is_refused_where_it_stands(self):
        with self.assertRaises(a2a.HpackError) as caught:
            a2a.read_huffman(b"\xff" * 100)
        self.assertIn("end-of-string", str(caught.exception))


class Encoding(unittest.TestCase):
    answer = [(":status", "200"), ("content-type", "application/grpc")]

    def test_what_it_writes_reads_back(self):
        encoder, decoder = a2a.HpackEncoder(), a2a.HpackDecoder()
        generator = random.Random(1)
        names = ["content-type", "x-any", ":status", "authorization", "a2a-version", "date"]
        values = ["200", "", "x" * 70, "v\xe9", "b" * 400]
        for _ in range(500):
            fields = [
                (generator.choice(names), generator.choice(values))
                for _ in range(generator.randrange(8))
            ]
            self.assertEqual(fields, decoder.decode(encoder.encode(fields)))

    def test_a_repeated_list_becomes_indexes(self):
        encoder = a2a.HpackEncoder()
        first, second = encoder.encode(self.answer), encoder.encode(self.answer)
        self.assertGreater(len(first), len(second))
        self.assertEqual(b"\x88\xbe", second)
        self.assertIs(second, encoder.encode(self.answer))

    def test_a_remembered_block_is_dropped_when_the_table_moves(self):
        encoder, decoder = a2a.HpackEncoder(), a2a.HpackDecoder()
        for fields in (self.answer, self.answer, [("server", "a2a")], self.answer, self.answer):
            self.assertEqual(fields, decoder.decode(encoder.encode(fields)))

    def test_credentials_are_never_indexed(self):
        """Not those with a name we know, and not those whose name a card made up."""
        encoder = a2a.HpackEncoder()
        for name in ("authorization", "cookie", "x-api-key", "x-made-up"):
            first = encoder.encode([(name, "secret-1")])
            self.assertEqual(0x10, first[0] & 0xF0, name)
            self.assertEqual(first, encoder.encode([(name, "secret-1")]))
        self.assertEqual(0, encoder.table.version)

    def test_long_values_stay_out_of_the_table(self):
        encoder = a2a.HpackEncoder()
        encoder.encode([("a2a-extensions", "x" * 257)])
        self.assertEqual(0, encoder.table.version)
        encoder.encode([("a2a-extensions", "x" * 256)])
        self.assertEqual(1, encoder.table.version)

    def test_indexes_and_lengths_of_more_than_an_octet(self):
        encoder, decoder = a2a.HpackEncoder(), a2a.HpackDecoder()
        lists = [[("vary", str(number))] for number in range(90)]
        for fields in [*lists, *lists, [("x", "\xff" * 300)]]:
            self.assertEqual(fields, decoder.decode(encoder.encode(fields)))

    def test_the_shorter_form_of_a_string_is_written(self):
        self.assertEqual(b"\x01&", a2a.write_string("&"))
        self.assertEqual(b"\x83" + a2a.write_huffman("hello"[:4]), a2a.write_string("hell"))

    def test_the_peer_may_shrink_the_table(self):
        encoder = a2a.HpackEncoder()
        for _ in range(3):
            encoder.encode(self.answer)
        encoder.set_limit(0)
        block = encoder.encode(self.answer)
        self.assertEqual(b"\x20", block[:1])
        self.assertEqual(self.answer, a2a.HpackDecoder(0).decode(block))
        self.assertNotEqual(b"\x20", encoder.encode(self.answer)[:1])

    def test_two_changes_announce_the_smallest_and_the_last(self):
        encoder, decoder = a2a.HpackEncoder(), a2a.HpackDecoder()
        decoder.decode(encoder.encode(self.answer))
        encoder.set_limit(0)
        encoder.set_limit(64)
        encoder.set_limit(4096)
        block = encoder.encode(self.answer)
        self.assertEqual(b"\x20\x3f\xe1\x1f", block[:4])
        self.assertEqual(self.answer, decoder.decode(block))
        self.assertEqual(self.answer, decoder.decode(encoder.encode(self.answer)))

    def test_a_larger_table_than_ours_is_not_used(self):
        encoder = a2a.HpackEncoder()
        encoder.set_limit(65536)
        self.assertEqual(b"\x88", encoder.encode([(":status", "200")]))
        self.assertEqual(a2a.HPACK_TABLE_BYTES, encoder.table.limit_bytes)

    def test_what_is_remembered_is_bounded(self):
        encoder = a2a.HpackEncoder()
        for number in range(1000):
            encoder.encode([("content-length", str(number))])
        self.assertLessEqual(len(encoder._blocks), a2a.HPACK_BLOCKS)


if __name__ == "__main__":
    unittest.main()
