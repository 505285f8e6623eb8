"""The folder through which tasks are answered: whole files, locks, the stages of a turn."""

import json
import os
import pathlib
import stat
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import support


class FolderTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = a2a.Folder(os.path.join(place.name, "deep", ".a2a"))
        self.folder.make()

    def task(self, name="calm-otter", turn=1, **more):
        """Make an open task as the server does."""
        path = pathlib.Path(self.folder.at("tasks", name))
        (path / "outbox").mkdir(parents=True)
        task = {"taskId": "t-" + name, "contextId": "c", "turn": turn, "state": a2a.WORKING, **more}
        a2a.write_whole(str(path / "task.json"), json.dumps(task))
        return path

    def stages(self):
        return [task["stage"] for task in self.folder.tasks()]

    def test_the_folder_is_private_and_hidden_from_git(self):
        self.folder.make()
        self.assertEqual("*\n", pathlib.Path(self.folder.at(".gitignore")).read_text())
        if os.name == "posix":
            self.assertEqual(0o700, stat.S_IMODE(os.stat(self.folder.path).st_mode))
            self.assertEqual(0o600, stat.S_IMODE(os.stat(self.folder.at(".gitignore")).st_mode))

    def test_a_folder_of_other_things_is_left_as_it_is(self):
        """Such as a project's own, a home or /tmp: closed to everybody else, hidden from git."""
        with tempfile.TemporaryDirectory() as project:
            os.chmod(project, 0o755)
            pathlib.Path(project, "main.c").touch()
            with self.assertRaisesRegex(a2a.UsageError, "holds other things") as caught:
                a2a.Folder(project).make()
            self.assertIn(os.path.join(project, ".a2a"), caught.exception.hint)
            self.assertEqual(["main.c"], os.listdir(project))
            if os.name == "posix":
                self.assertEqual(0o755, stat.S_IMODE(os.stat(project).st_mode))
            os.remove(os.path.join(project, "main.c"))
            a2a.Folder(project).make()
            self.assertIn("tasks", os.listdir(project))

    def test_links_that_came_with_a_project_lead_nowhere(self):
        """Through them a server would clear folders and empty files that are none of its own."""
        outside = tempfile.TemporaryDirectory()
        self.addCleanup(outside.cleanup)
        for name in ("done", "tasks", "a2a.db-server", "server.log", "bell"):
            with tempfile.TemporaryDirectory() as project:
                folder = a2a.Folder(os.path.join(project, ".a2a"))
                os.mkdir(folder.path, 0o755)
                self.link(outside.name, folder.at(name))
                with self.assertRaisesRegex(a2a.UsageError, f"{name} is a link"):
                    folder.make()
                self.assertEqual([name], os.listdir(folder.path))
        with tempfile.TemporaryDirectory() as project:
            folder = a2a.Folder(os.path.join(project, ".a2a"))
            self.link(outside.name, folder.path)
            with self.assertRaisesRegex(a2a.UsageError, ".a2a is a link"):
                folder.make()
        self.assertEqual([], os.listdir(outside.name))

    def link(self, target, path):
        try:
            os.symlink(target, path)
        except OSError:
            self.skipTest("no right to make links")

    def test_a_link_is_no_task(self):
        task = self.task()
        self.link(str(task), self.folder.at("tasks", "linked"))
        self.assertEqual(["calm-otter"], [task["name"] for task in self.folder.tasks()])

    @unittest.skipUnless(hasattr(os, "mkfifo"), "no pipes in folders here")
    def test_nobody_waits_for_a_pipe(self):
        path = self.task()
        for name in ("picked", "pipe"):
            os.mkfifo(path / name)
        os.mkdir(self.folder.at("tasks", "waits"))
        os.mkfifo(self.folder.at("tasks", "waits", "task.json"))
        found = []

        def read():
            found.append(a2a.read_whole(str(path / "pipe")))
            found.extend(self.stages())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(support.DEADLINE_S)
        self.assertEqual([{}, "waiting"], found)

    @unittest.skipIf(os.name == "nt", "files may be as large as they will")
    def test_a_file_that_the_disk_does_not_take_leaves_no_part_of_it(self):
        """A part in an outbox would be an artifact."""
        import resource

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with self.assertRaises(OSError):
                a2a.write_whole(self.folder.at("done", "x"), bytes(2000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual([], os.listdir(self.folder.at("done")))

    def test_news_is_what_may_have_changed(self):
        def look():
            tasks = self.folder.news()
            return tasks if tasks is None else [task["stage"] for task in tasks]

        def settle():
            old = time.time() - a2a.FRESH_S - 1
            for name in os.listdir(self.folder.at("tasks")):
                os.utime(self.folder.at("tasks", name), (old, old))
            look()

        self.assertEqual([None, None], [look() or None, look() or None])
        path = self.task()
        self.assertEqual(["waiting"], look())
        self.assertEqual(["waiting"], look(), "it may change again unseen")
        settle()
        self.assertIsNone(look())
        (task,) = self.folder.tasks()
        self.folder.pick(task)
        self.assertEqual(["picked"], look())
        settle()
        self.assertIsNone(look())
        old = time.time() - a2a.PICK_S - 1
        os.utime(path / "picked", (old, old))
        settle()
        self.folder.pick(task)
        settle()
        self.assertIsNone(look())
        with unittest.mock.patch("time.time", lambda: old + 2 * a2a.PICK_S + 2):
            self.assertEqual(["waiting"], look(), "a pick runs out")
        settle()
        self.task("brave-newt")
        self.assertEqual(2, len(look()))
        settle()
        a2a.remove_tree(str(path))
        self.assertEqual(["waiting"], look())

    def test_a_lock_belongs_to_one_and_ends_with_its_process(self):
        self.assertFalse(self.folder.serving())
        program = (
            "import sys, a2a, time; lock = a2a.hold_lock(sys.argv[1])\n"
            "print(bool(lock), flush=True); time.sleep(60)"
        )
        command = [sys.executable, "-c", program, self.folder.at("lock")]
        env = support.clean_environment(PYTHONPATH=str(support.ROOT))
        with support.Process(command, env=env) as child:
            child.wait_for("True")
            self.assertTrue(self.folder.serving())
            self.assertIsNone(a2a.hold_lock(self.folder.at("lock")))
            child.kill()
            child.wait()
            self.assertFalse(self.folder.serving())
        lock = a2a.hold_lock(self.folder.at("lock"))
        self.assertIsNotNone(lock)
        lock.close()

    @unittest.skipIf(os.name == "nt", "no modes of files")
    def test_nobody_else_can_take_a_lock(self):
        """To be allowed to read a file is enough to lock it, as long as one likes."""
        before = os.umask(0o022)
        try:
            a2a.hold_lock(self.folder.at("lock")).close()
        finally:
            os.umask(before)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.folder.at("lock")).st_mode))

    def test_the_bell_rings_anew_each_time(self):
        rung = []
        for _ in range(3):
            self.folder.ring()
            rung.append(pathlib.Path(self.folder.at("bell")).read_text())
        self.assertEqual(3, len(set(rung)))

    def test_the_stages_of_a_turn(self):
        path = self.task()
        self.assertEqual(["waiting"], self.stages())
        (task,) = self.folder.tasks()
        self.assertEqual(("calm-otter", str(path)), (task["name"], task["folder"]))
        self.folder.pick(task)
        self.assertEqual(["picked"], self.stages())
        old = time.time() - a2a.PICK_S - 1
        os.utime(path / "picked", (old, old))
        self.assertEqual(["waiting"], self.stages(), "its heartbeat has stopped")
        (path / "outbox" / "x.txt").write_text("x")
        self.assertEqual(["picked"], self.stages(), "somebody writes in its folder")
        os.utime(path / "outbox" / "x.txt", (old, old))
        self.assertEqual(["waiting"], self.stages())
        for name in a2a.FINAL_REPLIES:
            a2a.write_whole(str(path / f"{name}.md"), "")
            self.assertEqual(["replied"], self.stages(), name)
            os.unlink(path / f"{name}.md")
        (path / "turns" / "1").mkdir(parents=True)
        a2a.write_whole(str(path / "turns" / "1" / "answer.md"), "")
        self.assertEqual(["collected"], self.stages())
        os.unlink(path / "turns" / "1" / "answer.md")
        a2a.write_whole(str(path / "progress.md"), "half")
        self.assertEqual(["picked"], self.stages())

    def test_a_pick_is_for_one_turn(self):
        path = self.task()
        self.folder.pick(self.folder.tasks()[0])
        task = json.loads((path / "task.json").read_text())
        a2a.write_whole(str(path / "task.json"), json.dumps({**task, "turn": 2}))
        self.assertEqual(["waiting"], self.stages())
        a2a.write_whole(str(path / "task.json"), json.dumps({**task, "state": a2a.INPUT_REQUIRED}))
        self.assertEqual(["asked"], self.stages())

    def test_tasks_come_oldest_first_and_strangers_are_left_out(self):
        self.task("b", createdAt="2026-01-02")
        self.task("c", createdAt="2026-01-01")
        os.makedirs(self.folder.at("tasks", "no-task"))
        pathlib.Path(self.folder.at("tasks", "a-file")).write_text("x")
        self.assertEqual(["c", "b"], [task["name"] for task in self.folder.tasks()])
        self.assertEqual([], a2a.Folder(self.folder.at("nowhere")).tasks())


if __name__ == "__main__":
    unittest.main()
