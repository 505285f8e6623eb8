"""Chapter 18: what answers a task."""

import asyncio
import functools
import os
import pathlib
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a


class Parts(unittest.TestCase):
    def test_what_an_agent_may_say(self):
        for what, parts in (
            ("text", [{"text": "text"}]),
            (b"bytes", [{"raw": "Ynl0ZXM="}]),
            ({"raw": b"bytes", "filename": "f"}, [{"raw": "Ynl0ZXM=", "filename": "f"}]),
            ({"data": {"a": [1, None]}}, [{"data": {"a": [1, None]}}]),
            (["a", {"text": "b"}, ["c"]], [{"text": "a"}, {"text": "b"}, {"text": "c"}]),
            ([], []),
        ):
            self.assertEqual(a2a.parts_of(what), parts)

    def test_what_it_may_not_say(self):
        for what in (1, None, object(), {"text": 1}, {}, {"data": float("nan")}, {"data": {1, 2}}):
            with self.assertRaises(a2a.A2AError, msg=repr(what)):
                a2a.parts_of(what)

    def test_data_is_no_longer_the_agents_to_change(self):
        data = {"list": [1]}
        parts = a2a.parts_of({"data": data})
        data["list"].append(2)
        self.assertEqual(parts, [{"data": {"list": [1]}}])


class FakeTurn(a2a.Turn):
    """A turn whose events are there to be read."""

    def __init__(self, text="hi", caller=a2a.ANONYMOUS):
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        message.update(taskId="task-1", contextId="context-1")
        super().__init__({"message": message}, message, caller, lambda: None)

    def said(self):
        """Give the texts of its artifact events and the states of its statuses."""
        words = []
        for event in self.events:
            ((kind, value),) = event.items()
            if kind == "artifactUpdate":
                words.append(a2a.text_of(value["artifact"]))
            else:
                words.append(value["status"]["state"])
        return words


def run(agent, turn=None):
    """Run an agent on a turn; give (what it gave back, the turn)."""
    turn = turn or FakeTurn()

    async def work():
        return await agent.run(turn)

    return asyncio.run(work()), turn


class Turns(unittest.TestCase):
    def test_what_it_knows_of_a_first_turn(self):
        turn = FakeTurn("one")
        self.assertEqual((turn.text, turn.number), ("one", 1))
        self.assertEqual((turn.task["id"], turn.task["contextId"]), ("task-1", "context-1"))
        self.assertEqual(turn.history, [turn.message])
        self.assertEqual(turn.accepted, [])
        turn.params["configuration"] = {"acceptedOutputModes": ["text/html"]}
        self.assertEqual(turn.accepted, ["text/html"])

    def test_what_it_knows_of_a_later_turn(self):
        turn = FakeTurn("two")
        earlier = a2a.new_task("task-1", "context-1", turn.message, "2026-01-01T00:00:00.000Z")
        earlier["history"].append(turn.message)
        earlier["artifacts"] = [{"artifactId": "a", "name": "notes", "parts": [{"text": "x"}]}]
        turn.go_on(earlier)
        self.assertEqual(turn.number, 2)
        self.assertEqual(turn.artifact("+", name="notes", append=True), "a")
        self.assertNotEqual(turn.artifact("new"), "a")
        turn.task["artifacts"][0]["parts"][0]["text"] = "changed by the agent"
        self.assertEqual(earlier["artifacts"][0]["parts"], [{"text": "x"}])

    def test_statuses_and_who_ends_the_turn(self):
        for method, state, ends in (
            ("status", a2a.WORKING, False),
            ("need_auth", a2a.AUTH_REQUIRED, False),
            ("ask", a2a.INPUT_REQUIRED, True),
            ("reject", a2a.REJECTED, True),
        ):
            turn = FakeTurn()
            getattr(turn, method)("a word")
            turn.status("after it")
            status = turn.events[0]["statusUpdate"]["status"]
            self.assertEqual((status["state"], a2a.text_of(status)), (state, "a word"))
            self.assertEqual(status["message"]["taskId"], "task-1")
            self.assertEqual(len(turn.events), 1 if ends else 2, method)

    def test_a_status_without_a_word_has_no_message(self):
        turn = FakeTurn()
        turn.status()
        self.assertNotIn("message", turn.events[0]["statusUpdate"]["status"])

    def test_work_that_goes_on_after_authorization_leaves_nothing_open(self):
        turn = FakeTurn()
        turn.need_auth("sign in")
        self.assertTrue(turn.parked)
        turn.artifact("done")
        self.assertFalse(turn.parked)

    def test_artifacts_by_name_and_by_id(self):
        turn = FakeTurn()
        named = turn.artifact("1", name="x", description="d", metadata={"m": [1]}, last=True)
        self.assertEqual(turn.artifact("2", name="x"), named)
        other = turn.artifact("3")
        self.assertNotEqual(other, named)
        self.assertEqual(turn.artifact("4", append=True), other)
        self.assertEqual(turn.artifact("5", artifact_id=named, append=True), named)
        for wrong in ({"name": "y"}, {"artifact_id": "z"}):
            with self.assertRaises(a2a.UsageError):
                turn.artifact("6", append=True, **wrong)
        first = turn.events[0]["artifactUpdate"]
        self.assertEqual((first["artifact"]["description"], first["lastChunk"]), ("d", True))
        self.assertEqual(first["artifact"]["metadata"], {"m": [1]})

    def test_nothing_to_append_to(self):
        with self.assertRaises(a2a.UsageError):
            FakeTurn().artifact("x", append=True)

    def test_replies(self):
        for what, parts in (
            ("hello", [{"text": "hello"}]),
            ([{"data": 1}], [{"data": 1}]),
            ({"parts": [{"text": "whole"}], "metadata": {"k": 1}}, [{"text": "whole"}]),
        ):
            turn = FakeTurn()
            turn.reply(what)
            turn.status("too late")
            (event,) = turn.events
            message = event["message"]
            self.assertEqual((message["parts"], message["role"]), (parts, a2a.ROLE_AGENT))
            self.assertEqual(message["contextId"], "context-1")
            self.assertTrue(message["messageId"])

    def test_a_reply_that_is_no_message(self):
        for wrong in ({"parts": []}, {"parts": [{}]}, {"parts": "x"}):
            with self.assertRaises(a2a.A2AError, msg=wrong):
                FakeTurn().reply(wrong)

    def test_it_is_told_that_it_is_cancelled_whenever_it_asks(self):
        early, late = FakeTurn(), FakeTurn()
        self.assertFalse(early.cancelled.is_set())
        for turn in (early, late):
            turn.cancel()
            self.assertTrue(turn.cancelled.is_set())
        self.assertIs(early.cancelled, early.cancelled)

    def test_a_thread_that_waits_is_woken_by_the_cancel(self):
        turn, woken = FakeTurn(), []
        waiting = threading.Thread(target=lambda: woken.append(turn.cancelled.wait(10)))
        waiting.start()
        turn.cancel()
        waiting.join()
        self.assertEqual(woken, [True])

    def test_the_echo_gives_back_what_it_was_given(self):
        turn = FakeTurn("hello")
        self.assertEqual(a2a.EchoAgent().run(turn), [{"text": "hello"}])

    def test_a_generator_that_never_waits_lets_others_have_a_turn(self):
        async def agent(turn):
            for number in range(a2a.BURST_EVENTS * 2):
                yield str(number)

        async def work():
            turn, steps = FakeTurn(), []
            running = asyncio.ensure_future(a2a.FunctionAgent(agent).run(turn))
            while not running.done():
                await asyncio.sleep(0)
                steps.append(len(turn.events))
            return steps

        steps = asyncio.run(work())
        self.assertIn(a2a.BURST_EVENTS, steps)
        self.assertEqual(steps[-1], a2a.BURST_EVENTS * 2)


class Ahead(unittest.TestCase):
    """A thread that says more than anybody takes."""

    def say(self, turn, **more):
        for number in range(100_000):
            turn.artifact("x" * 100, name=f"{number}", **more)
        self.fail("nothing ended it")

    def test_what_waits_is_bounded_and_fails_the_turn(self):
        turn = FakeTurn()
        with unittest.mock.patch.object(a2a, "TASK_BYTES", 1 << 20):
            with self.assertRaises(a2a.TaskFailed) as caught:
                self.say(turn)
            self.assertRegex(str(caught.exception), r"^The agent is \d+ events ahead of those")
            self.assertLess(len(turn.events), 2000)
            status = turn.events[-1]["statusUpdate"]["status"]
            self.assertEqual((a2a.FAILED, True), (status["state"], turn.ended))
            self.assertEqual(str(caught.exception), a2a.text_of(status))
            self.assertTrue(turn.cancelled.is_set())
            before = len(turn.events)
            with self.assertRaisesRegex(a2a.TaskFailed, "This turn is over"):
                turn.artifact("more")
            self.assertEqual(before, len(turn.events))

    def test_what_was_taken_meanwhile_does_not_count(self):
        turn = FakeTurn()
        with unittest.mock.patch.object(a2a, "TASK_BYTES", 1 << 20):
            for number in range(20_000):
                turn.artifact("x" * 100, name=str(number))
                if len(turn.events) > 500:
                    turn.events.popleft()
        self.assertFalse(turn.ended)

    def test_a_single_large_result_is_no_flood(self):
        turn = FakeTurn()
        with unittest.mock.patch.object(a2a, "TASK_BYTES", 1 << 20):
            for _ in range(a2a.BURST_EVENTS):
                turn.artifact("x" * 100_000)
        self.assertFalse(turn.ended)


class Functions(unittest.TestCase):
    def test_which_functions_are_called_in_the_loop(self):
        here = threading.get_ident()

        async def coroutine(turn):
            return threading.get_ident()

        async def generator(turn):
            yield str(threading.get_ident())

        def plain(turn):
            return threading.get_ident()

        class Async:
            async def __call__(self, turn):
                return threading.get_ident()

            async def method(self, turn):
                return threading.get_ident()

        class Plain:
            def __call__(self, turn):
                return threading.get_ident()

        for function, in_loop in (
            (coroutine, True),
            (functools.partial(coroutine), True),
            (Async(), True),
            (Async().method, True),
            (plain, False),
            (functools.partial(plain), False),
            (Plain(), False),
            (lambda turn: threading.get_ident(), False),
        ):
            where, _ = run(a2a.FunctionAgent(function))
            self.assertEqual(where == here, in_loop, function)
        _, turn = run(a2a.FunctionAgent(generator))
        self.assertEqual(turn.said(), [str(here)])

    def test_a_plain_function_that_gives_something_to_await(self):
        async def later(turn):
            return turn.text + "!"

        async def items(turn):
            yield turn.text

        self.assertEqual(run(a2a.FunctionAgent(lambda turn: later(turn)))[0], "hi!")
        _, turn = run(a2a.FunctionAgent(lambda turn: items(turn)))
        self.assertEqual(turn.said(), ["hi"])

    def test_items_are_chunks_of_one_artifact(self):
        def agent(turn):
            yield "one"
            yield ""
            yield {"data": 1}
            yield ["two", b"three"]
            return "four"

        given, turn = run(a2a.FunctionAgent(agent))
        self.assertEqual(given, "four")
        updates = [event["artifactUpdate"] for event in turn.events]
        self.assertEqual(len({u["artifact"]["artifactId"] for u in updates}), 1)
        self.assertEqual([u.get("append", False) for u in updates], [False, True, True])
        self.assertEqual(updates[0]["artifact"]["name"], "answer")
        self.assertEqual(updates[2]["artifact"]["parts"], [{"text": "two"}, {"raw": "dGhyZWU="}])

    def test_a_generator_is_closed_when_its_turn_has_ended(self):
        closed = []

        def agent(turn):
            try:
                yield "one"
                turn.ask("which?")
                yield "two"
                yield "three"
            finally:
                closed.append(True)

        given, turn = run(a2a.FunctionAgent(agent))
        self.assertEqual((given, closed), (None, [True]))
        self.assertEqual(turn.said(), ["one", "TASK_STATE_INPUT_REQUIRED"])

    def test_a_generator_in_a_thread_waits_for_the_loop(self):
        turn = FakeTurn()

        def agent(turn):
            for number in range(a2a.BACKLOG_EVENTS + 50):
                yield str(number)

        async def work():
            running = asyncio.ensure_future(a2a.FunctionAgent(agent).run(turn))
            await asyncio.sleep(0.3)
            waiting = len(turn.events)
            turn.events.clear()
            await running
            return waiting

        self.assertEqual(asyncio.run(work()), a2a.BACKLOG_EVENTS + 1)
        self.assertEqual(len(turn.events), 49)


class ThreadsTest(unittest.TestCase):
    def test_threads_are_used_again_and_few(self):
        threads = a2a.Threads(3)

        def who(wait):
            time.sleep(wait)
            return threading.get_ident()

        async def work():
            one = {await threads.run(who, 0) for _ in range(20)}
            three = set(await asyncio.gather(*[threads.run(who, 0.02) for _ in range(12)]))
            return one, three

        one, three = asyncio.run(work())
        self.assertLessEqual(len(one), 3)  # one may still be on its way back
        self.assertEqual(len(three), 3)
        for _ in range(200):  # the last ones are on their way back
            if threads._idle == 3:
                break
            time.sleep(0.01)
        self.assertEqual((threads._count, threads._idle, threads._late), (3, 3, 0))

    def test_an_idle_thread_ends(self):
        kept, a2a.THREAD_IDLE_S = a2a.THREAD_IDLE_S, 0.05
        self.addCleanup(setattr, a2a, "THREAD_IDLE_S", kept)
        threads = a2a.Threads(3)

        async def work():
            await asyncio.gather(*[threads.run(time.sleep, 0.01) for _ in range(3)])

        asyncio.run(work())
        for _ in range(200):
            if not threads._count:
                break
            time.sleep(0.01)
        self.assertEqual((threads._count, threads._idle), (0, 0))
        asyncio.run(work())

    def test_what_a_thread_raises(self):
        def leave():
            raise SystemExit(3)

        def stop():
            raise StopIteration

        def wrong():
            raise ValueError("wrong")

        threads = a2a.Threads(1)
        for function, error in ((leave, RuntimeError), (stop, RuntimeError), (wrong, ValueError)):
            with self.assertRaises(error):
                asyncio.run(threads.run(function))

    def test_who_has_to_wait_for_a_thread_is_told_and_may_give_up(self):
        threads, go = a2a.Threads(1), threading.Event()
        said, done = [], []

        async def work():
            first = asyncio.ensure_future(threads.run(go.wait, late=lambda: said.append("first")))
            second, third = (
                asyncio.ensure_future(
                    threads.run(done.append, name, late=functools.partial(said.append, name))
                )
                for name in ("second", "third")
            )
            await asyncio.sleep(0.05)
            second.cancel()
            go.set()
            await asyncio.gather(first, third)

        asyncio.run(work())
        self.assertEqual((["second", "third"], ["third"]), (said, done))

    def test_nobody_waits_any_more(self):
        threads = a2a.Threads(1)
        done = threading.Event()

        async def work():
            running = asyncio.ensure_future(threads.run(time.sleep, 0.1))
            await asyncio.sleep(0.01)
            running.cancel()

        asyncio.run(work())
        threads._submit(done.set)
        self.assertTrue(done.wait(10))


class Loading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(sys.path.__setitem__, slice(None), list(sys.path))

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_a_function_of_a_file(self):
        self.write("d_helper_x.py", "WORD = 'helped'")
        path = self.write(
            "d_agent_x.py",
            "import d_helper_x\n"
            "def agent(turn):\n    return d_helper_x.WORD\n"
            "class Many:\n    @staticmethod\n    def one(turn):\n        return 'one'\n",
        )
        self.assertEqual(run(a2a.load_agent(path + ":agent"))[0], "helped")
        self.assertEqual(run(a2a.load_agent(path + ":Many.one"))[0], "one")

    def test_what_cannot_be_loaded(self):
        broken = self.write("d_broken_x.py", "1 / 0")
        leaves = self.write("d_leaves_x.py", "import sys; sys.exit(3)")
        plain = self.write("d_plain_x.py", "value = 1")
        for source, text in (
            ("nothing", "No agent"),
            (str(self.folder / "missing.py") + ":agent", "No file"),
            (str(self.folder / "d_plain_x.py"), "No function of"),
            (broken + ":agent", "ZeroDivisionError"),
            (leaves + ":agent", "SystemExit"),
            (plain + ":missing", "missing"),
            (plain + ":value", "no function"),
            ("exec:", "no command"),
            ("exec:no-such-command-here", "no-such-command-here"),
            (None, "No agent"),
        ):
            with self.assertRaises(a2a.UsageError) as caught:
                a2a.load_agent(source)
            self.assertIn(text, str(caught.exception))

    def test_agents_as_they_are(self):
        agent = a2a.EchoAgent()
        self.assertIs(a2a.load_agent(agent), agent)
        self.assertIsInstance(a2a.load_agent("echo"), a2a.EchoAgent)
        with self.assertRaises(NotImplementedError):
            a2a.Agent().run(FakeTurn())


class Splitting(unittest.TestCase):
    def test_words_as_a_shell_has_them(self):
        for command, words in (
            ("a b", ["a", "b"]),
            ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
            ("a $HOME ; rm *", ["a", "$HOME", ";", "rm", "*"]),
            ("  ", []),
        ):
            self.assertEqual(a2a.split_command(command), words)
        with self.assertRaises(a2a.UsageError):
            a2a.split_command("a 'b")

    @unittest.skipUnless(os.name == "nt", "Windows has backslashes in paths")
    def test_backslashes(self):
        self.assertEqual(
            a2a.split_command('"C:\\Program Files\\x.exe" C:\\y'),
            ["C:\\Program Files\\x.exe", "C:\\y"],
        )


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def agent(self, script, *arguments, idle_s=0.0):
        """Make the agent that runs a Python script."""
        path = self.folder / "script.py"
        path.write_text("import os, sys, time\n" + textwrap.dedent(script), encoding="utf-8")
        command = " ".join(f'"{word}"' for word in (sys.executable, str(path), *arguments))
        return a2a.load_agent("exec:" + command, idle_s=idle_s)

    def failure(self, agent, text="hi"):
        """Run a command that fails; give (the failure's text, what was said)."""
        turn = FakeTurn(text)
        with self.assertRaises(a2a.TaskFailed) as caught:
            run(agent, turn)
        return str(caught.exception), turn.said()

    def text(self, agent, text="hi"):
        """Run a command; give its answer as one text."""
        _, turn = run(agent, FakeTurn(text))
        return "".join(turn.said())

    def test_text_in_text_out(self):
        agent = self.agent(
            "sys.stdout.buffer.write(b'[' + sys.stdin.buffer.read() + b']' + '✓ 東京'.encode())"
        )
        self.assertEqual(self.text(agent, "grüße\n"), "[grüße\n]✓ 東京")

    def test_arguments_arrive_as_they_are(self):
        agent = self.agent("print(sys.argv[1:])", "a b", "$HOME", "*")
        self.assertEqual(self.text(agent), "['a b', '$HOME', '*']")

    def test_newlines_at_the_end_are_dropped_and_others_kept(self):
        agent = self.agent(
            """
            for word in ("one", "two"):
                print(word, flush=True)
                print(flush=True)
                time.sleep(0.15)
            """
        )
        self.assertEqual(self.text(agent), "one\n\ntwo")

    def test_output_is_sent_on_while_the_command_runs(self):
        agent = self.agent(
            """
            for word in ("one", "two", "three"):
                print(word, end=" ", flush=True)
                time.sleep(0.2)
            """
        )
        _, turn = run(agent)
        self.assertEqual(turn.said(), ["one ", "two ", "three "])
        self.assertEqual(
            len({e["artifactUpdate"]["artifact"]["artifactId"] for e in turn.events}), 1
        )

    def test_a_character_cut_in_two_and_bytes_that_are_no_text(self):
        agent = self.agent(
            r"""
            for piece in (b"na\xc3", b"\xafve", b" \xff\xfe "):
                os.write(1, piece)
                time.sleep(0.15)
            """
        )
        self.assertEqual(self.text(agent), "naïve \ufffd\ufffd ")

    def test_a_line_of_two_megabytes(self):
        """CLI-06: no line is too long."""
        agent = self.agent("sys.stdout.write('x' * 2_000_000 + '\\n')")
        self.assertEqual(len(self.text(agent)), 2_000_000)

    def test_a_megabyte_in_and_out_at_once(self):
        agent = self.agent("sys.stdout.write(sys.stdin.read())")
        text = "0123456789" * 100_000
        self.assertEqual(self.text(agent, text), text)

    def test_input_that_nobody_reads(self):
        agent = self.agent("print('done')")
        self.assertEqual(self.text(agent, "x" * 3_000_000), "done")

    def test_nothing_but_newlines_is_not_held_for_ever(self):
        agent = self.agent("sys.stdout.write('\\n' * 10_000)")
        self.assertGreater(len(self.text(agent)), 5_000)

    def test_stderr_is_drained(self):
        agent = self.agent("sys.stderr.write('x' * 1_000_000); print('done')")
        self.assertEqual(self.text(agent), "done")

    def test_an_exit_status_fails_the_task(self):
        """TASK-13: with what the command said last on stderr."""
        agent = self.agent(
            """
            print("half")
            for number in range(100):
                print("line", number, file=sys.stderr)
            sys.exit(3)
            """
        )
        text, said = self.failure(agent)
        self.assertIn("exit status 3", text)
        self.assertIn("line 90\nline 91", text)
        self.assertNotIn("line 89\n", text)
        self.assertEqual(said, ["half"])

    def test_an_exit_status_without_a_word(self):
        text, _ = self.failure(self.agent("sys.exit(1)"))
        self.assertEqual(text, "The command ended with exit status 1")

    @unittest.skipIf(os.name == "nt", "no signals")
    def test_a_signal_fails_the_task(self):
        text, _ = self.failure(self.agent("os.kill(os.getpid(), 9)"))
        self.assertIn("signal 9", text)

    def test_a_question(self):
        agent = self.agent("print('[INPUT_REQUIRED] Which one?\\n')")
        _, turn = run(agent)
        self.assertEqual(turn.said(), ["TASK_STATE_INPUT_REQUIRED"])
        status = turn.events[0]["statusUpdate"]["status"]
        self.assertEqual(a2a.text_of(status), "Which one?")

    def test_a_question_that_comes_in_pieces(self):
        agent = self.agent(
            """
            for piece in ("\\n [INPUT", "_REQUIRED]", " Which", " one?"):
                print(piece, end="", flush=True)
                time.sleep(0.12)
            """
        )
        _, turn = run(agent)
        self.assertEqual(turn.said(), ["TASK_STATE_INPUT_REQUIRED"])

    def test_what_is_no_question(self):
        for script, text in (
            ("print('[INPUT')", "[INPUT"),
            ("print('see [INPUT_REQUIRED]')", "see [INPUT_REQUIRED]"),
            ("print('[INPUT_REQUIRED] ' + 'x' * 70_000)", "[INPUT_REQUIRED] " + "x" * 70_000),
        ):
            self.assertEqual(self.text(self.agent(script)), text)

    def test_a_question_alone(self):
        _, turn = run(self.agent("print('[INPUT_REQUIRED]')"))
        self.assertEqual(turn.said(), ["TASK_STATE_INPUT_REQUIRED"])

    def test_the_environment(self):
        agent = self.agent("print(sorted(k + '=' + v for k, v in os.environ.items()))")
        for name in ("CLAUDE_CODE_X", "CLAUDECODE", "A2A_TOKEN", "A2ACLI_BEARER"):
            os.environ[name] = "secret"
            self.addCleanup(os.environ.pop, name)
        caller = a2a.Caller("key", "", "a", "", "Anna\0B\ud800")
        _, turn = run(agent, FakeTurn("hi", caller))
        found = "".join(turn.said())
        self.assertNotIn("secret", found)
        for pair in ("A2A_TASK_ID=task-1", "A2A_CONTEXT_ID=context-1", "A2A_CALLER=AnnaB?"):
            self.assertIn(pair, found)
        self.assertIn("PATH=", found.upper())

    @unittest.skipIf(os.name == "nt", "no fork")
    def test_a_grandchild_that_keeps_the_pipes_open(self):
        agent = self.agent(
            """
            print("done", flush=True)
            if os.fork() == 0:
                print(os.getpid(), flush=True)
                time.sleep(60)
            time.sleep(0.1)
            """
        )
        started = time.monotonic()
        done, pid = self.text(agent).split("\n")
        self.assertEqual(done, "done")
        self.assertLess(time.monotonic() - started, 30)
        self.assert_gone(int(pid))

    def test_a_silent_command_is_ended(self):
        agent = self.agent("print('one', flush=True); time.sleep(60)", idle_s=0.4)
        text, said = self.failure(agent)
        self.assertEqual((text, said), ("The command printed nothing for 0.4 s", ["one"]))

    def test_a_command_that_keeps_printing_is_not_silent(self):
        agent = self.agent(
            """
            for _ in range(6):
                print(".", end="", flush=True)
                time.sleep(0.1)
            """,
            idle_s=0.45,
        )
        self.assertEqual(self.text(agent), "......")

    def test_a_command_that_prints_without_end_is_ended(self):
        agent = self.agent(
            """
            while True:
                os.write(1, b"x" * 100_000)
            """
        )
        agent.output_bytes = 1_000_000
        text, said = self.failure(agent)
        self.assertEqual("The command printed more than 1000000 bytes", text)
        self.assertLessEqual(len("".join(said)), 1_000_000)

    def test_the_bound_of_the_output_counts_bytes_and_can_be_lifted(self):
        agent = self.agent("sys.stdout.buffer.write('é'.encode() * 1000)")
        for limit, length in ((2000, 1000), (0, 1000)):
            agent = a2a.CommandAgent(f'"{agent.argv[0]}" "{agent.argv[1]}"', output_bytes=limit)
            self.assertEqual(length, len(self.text(agent)))
        agent.output_bytes = 1999
        self.failure(agent)

    def cancel(self, agent):
        """Cancel a command once it has said its pid; give that."""

        async def work():
            turn = FakeTurn()
            running = asyncio.ensure_future(agent.run(turn))
            while not turn.events:
                await asyncio.sleep(0.01)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running
            return turn.said()

        return [int(word) for word in "".join(asyncio.run(work())).split()]

    def assert_gone(self, pid):
        """Check that a process has ended (a zombie that nobody waits for has)."""
        for _ in range(200):
            try:
                os.kill(pid, 0)
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
            except OSError:
                return
            if state == "Z":
                return
            time.sleep(0.02)
        self.fail(f"process {pid} still runs")

    @unittest.skipIf(os.name == "nt", "no fork")
    def test_cancelling_ends_the_whole_group(self):
        """TASK-03: the command and what it started."""
        agent = self.agent(
            """
            child = os.fork()
            if child:
                print(os.getpid(), child, flush=True)
            time.sleep(60)
            """
        )
        started = time.monotonic()
        for pid in self.cancel(agent):
            self.assert_gone(pid)
        self.assertLess(time.monotonic() - started, 30)

    @unittest.skipIf(os.name == "nt", "no signals")
    def test_cancelling_a_command_that_does_not_listen(self):
        """TASK-03: one that ignores SIGTERM is killed."""
        agent = self.agent(
            """
            import signal
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print(os.getpid(), flush=True)
            while True:
                time.sleep(60)
            """
        )
        agent.close()  # so that it gets less time
        for pid in self.cancel(agent):
            self.assert_gone(pid)

    def test_a_command_that_cannot_start(self):
        agent = self.agent("")
        agent.argv[0] = str(self.folder)
        with self.assertRaises(OSError):
            run(agent)

    def test_commands_take_everything_and_are_few(self):
        defaults = self.agent("").defaults
        self.assertEqual((defaults.max_concurrent_tasks, defaults.tasks_a_minute), (4, 30))
        self.assertIn("application/octet-stream", defaults.input_modes)
        self.assertFalse(defaults.strict)
        self.assertTrue(defaults.at_once)


if __name__ == "__main__":
    unittest.main()
