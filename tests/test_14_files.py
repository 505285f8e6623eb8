"""Chapter 14: files that a user names, and those that several processes share."""

import os
import pathlib
import stat
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a


class InFolder(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def at(self, name):
        return os.path.join(self.folder, name)


class NamedFileTest(InFolder):
    def test_a_file_that_cannot_be_read_is_a_usage_error(self):
        for path, why in ((self.at("none"), "no such file"), ("a\0b", "null byte")):
            for read in (a2a.file_bytes, a2a.file_text, a2a.read_password):
                with self.assertRaisesRegex(a2a.UsageError, f"cannot be read: .*{why}"):
                    read(path)

    def test_a_password_is_the_first_line(self):
        for data in (b"open sesame", b"open sesame\n", b"open sesame\r\nmore\n"):
            pathlib.Path(self.at("word")).write_bytes(data)
            self.assertEqual(b"open sesame", a2a.read_password(self.at("word")))
        pathlib.Path(self.at("word")).write_bytes(bytes(2000))
        self.assertEqual(1024, len(a2a.read_password(self.at("word"))))

    def test_a_stamp_tells_that_a_file_was_written_or_replaced(self):
        path, stamps = self.at("file"), [a2a.file_stamp(self.at("file"))]
        for text in ("a", "ab"):
            pathlib.Path(path).write_text(text)
            stamps.append(a2a.file_stamp(path))
        self.assertEqual(stamps[-1], a2a.file_stamp(path))
        changed_ns = os.stat(path).st_mtime_ns
        a2a.write_whole(path, "ba")
        os.utime(path, ns=(changed_ns, changed_ns))
        stamps.append(a2a.file_stamp(path))
        self.assertEqual((), stamps[0])
        self.assertEqual(4, len(set(stamps)))


class SharedFileTest(InFolder):
    def test_files_appear_whole(self):
        path = self.at("file")
        texts = ["a" * 100_000, "b" * 100_000]
        a2a.write_whole(path, texts[0])
        seen, stop = set(), threading.Event()

        def read():
            while not stop.is_set():
                seen.add(pathlib.Path(path).read_text())

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(200):
            a2a.write_whole(path, texts[number % 2])
        stop.set()
        reader.join()
        self.assertLessEqual(seen, set(texts))
        self.assertEqual(["file"], [n for n in os.listdir(self.folder) if "file" in n])

    def test_what_is_no_json_object_reads_as_nothing(self):
        for text in ("", "[]", "{", "\0"):
            a2a.write_whole(self.at("x"), text)
            self.assertEqual({}, a2a.read_whole(self.at("x")))
        self.assertEqual({}, a2a.read_whole(self.at("none")))

    def test_only_the_owner_may_read_it(self):
        a2a.write_whole(self.at("file"), b"secret")
        if os.name == "posix":
            self.assertEqual(0o600, stat.S_IMODE(os.stat(self.at("file")).st_mode))
        self.assertEqual("secret", pathlib.Path(self.at("file")).read_text())

    def test_a_file_that_somebody_reads_is_replaced_a_little_later(self):
        """Windows refuses while a reader has it open; no other system can be made to."""
        replace, tries = os.replace, []

        def refuse(*names):
            tries.append(names)
            if len(tries) < 3:
                raise PermissionError
            replace(*names)

        with mock.patch("os.replace", refuse):
            a2a.write_whole(self.at("file"), "text")
        self.assertEqual("text", pathlib.Path(self.at("file")).read_text())
        always = mock.patch("os.replace", side_effect=PermissionError)
        with always, mock.patch("time.sleep"), self.assertRaises(PermissionError):
            a2a.write_whole(self.at("file"), "other")
        self.assertEqual(["file"], os.listdir(self.folder))

    def test_a_lock_is_waited_for(self):
        lock = a2a.hold_lock(self.at("lock"))
        self.assertIsNone(a2a.hold_lock(self.at("lock"), 0.02))
        giving = threading.Timer(0.05, lock.close)
        giving.start()
        mine = a2a.hold_lock(self.at("lock"), 10)
        giving.join()
        self.assertIsNotNone(mine)
        mine.close()

    def test_a_lock_is_for_one_at_a_time(self):
        lock = a2a.hold_lock(self.at("lock"))
        self.assertIsNone(a2a.hold_lock(self.at("lock")))
        lock.close()
        again = a2a.hold_lock(self.at("lock"))
        self.assertIsNotNone(again)
        again.close()


if __name__ == "__main__":
    unittest.main()
