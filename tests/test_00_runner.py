"""The runner itself: what it counts as passed, failed and skipped."""

import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))


class RunnerTest(unittest.TestCase):
    def count(self, text):
        """Give (passed, failed, skipped) of one test file with this text, and the exit status."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "test_sample.py")
            file.write_text("import os, sys, unittest\n" + textwrap.dedent(text), encoding="utf-8")
            report = pathlib.Path(folder, "result.json")
            command = [sys.executable, str(TESTS / "__main__.py"), "--one", str(file), str(report)]
            done = subprocess.run(command, capture_output=True, timeout=60)
            result = json.loads(report.read_text(encoding="utf-8"))
        counts = result["passed"], result["failed"], len(result["skipped"])
        return counts, done.returncode

    def test_passes_failures_and_skips_are_counted_by_test(self):
        counts = self.count(
            """
            class T(unittest.TestCase):
                def test_good(self): self.assertTrue(1)
                def test_bad(self): self.fail()
                def test_error(self): 1 / 0
                def test_subtests(self):
                    for i in range(3):
                        with self.subTest(i): self.assertEqual(1, i)
                @unittest.skip("not here")
                def test_skipped(self): self.fail()
            """
        )
        self.assertEqual(((1, 3, 1), 1), counts)

    def test_a_file_that_does_not_import_has_failed(self):
        self.assertEqual(((0, 1, 0), 1), self.count("import nowhere_at_all"))

    def test_a_file_without_a_test_has_failed(self):
        self.assertEqual(((0, 1, 0), 1), self.count("x = 1"))

    def test_a_file_may_skip_itself_whole(self):
        self.assertEqual(((0, 0, 1), 0), self.count("raise unittest.SkipTest('no such tool')"))

    def test_a_class_may_skip_in_its_set_up(self):
        counts = self.count(
            """
            class T(unittest.TestCase):
                @classmethod
                def setUpClass(cls): raise unittest.SkipTest("no peer")
                def test_x(self): self.fail()
            """
        )
        self.assertEqual(((0, 0, 1), 0), counts)

    def test_a_name_that_fits_no_file_is_a_failure(self):
        command = [sys.executable, str(TESTS), "--offline", "no_such_file_name"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stdout, r"\n0 passed, 1 failed, \d+ skipped\n$")


if __name__ == "__main__":
    unittest.main()
