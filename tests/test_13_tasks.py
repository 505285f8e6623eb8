"""Chapter 13: a task as a function of its events."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import a2a

T0, T1 = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z"


def text_message(message_id, text, role=a2a.ROLE_AGENT):
    return {"messageId": message_id, "role": role, "parts": [{"text": text}]}


def made(**more):
    task = a2a.new_task("t1", "c1", text_message("m1", "hi", a2a.ROLE_USER), T0)
    task.update(more)
    return task


def status(state, message=None):
    value = {"state": state, "timestamp": T1}
    if message:
        value["message"] = message
    return a2a.status_update("t1", "c1", value)


def chunk(artifact_id, *texts, append=False, last=False, **more):
    artifact = {"artifactId": artifact_id, "parts": [{"text": text} for text in texts], **more}
    return a2a.artifact_update("t1", "c1", artifact, append=append, last=last)


def texts(task):
    """Give each artifact's text parts, by id."""
    return {a["artifactId"]: [p.get("text") for p in a["parts"]] for a in task["artifacts"]}


class NewTask(unittest.TestCase):
    def test_a_new_task_is_submitted_with_its_message(self):
        task = made()
        self.assertEqual(task["status"], {"state": "TASK_STATE_SUBMITTED", "timestamp": T0})
        self.assertEqual([m["messageId"] for m in task["history"]], ["m1"])
        self.assertNotIn("artifacts", task)

    def test_settled_and_terminal(self):
        for state in a2a.TASK_STATES:
            task = made(status={"state": state})
            self.assertEqual(a2a.is_terminal(task), state in a2a.TERMINAL_STATES, state)
            waits = state in (a2a.UNSPECIFIED, a2a.SUBMITTED, a2a.WORKING)
            self.assertEqual(state in a2a.SETTLED_STATES, not waits, state)


class Statuses(unittest.TestCase):
    def test_the_first_terminal_state_wins(self):
        for state in sorted(a2a.TERMINAL_STATES):
            task = made()
            self.assertEqual(a2a.apply(task, status(state)), "")
            before = copy.deepcopy(task)
            for late in sorted(a2a.TERMINAL_STATES | {a2a.WORKING, a2a.INPUT_REQUIRED}):
                self.assertEqual(a2a.apply(task, status(late)), a2a.ENDED)
                self.assertEqual(a2a.apply(task, status(late), lenient=True), a2a.ENDED)
            self.assertEqual(a2a.apply(task, chunk("a", "x")), a2a.ENDED)
            self.assertEqual(task, before)

    def test_a_status_message_moves_to_the_history_with_the_next_status(self):
        """TASK-17: the same state again, with a message, is progress."""
        task = made()
        for event in (
            status(a2a.WORKING),
            status(a2a.WORKING, text_message("p1", "half way")),
            status(a2a.WORKING, text_message("p2", "nearly")),
        ):
            self.assertEqual(a2a.apply(task, event), "")
        self.assertEqual([m["messageId"] for m in task["history"]], ["m1", "p1"])
        self.assertEqual(task["status"]["message"]["messageId"], "p2")
        a2a.apply(task, status(a2a.COMPLETED))
        self.assertEqual([m["messageId"] for m in task["history"]], ["m1", "p1", "p2"])

    def test_the_question_stands_before_its_answer(self):
        task = made()
        a2a.apply(task, status(a2a.INPUT_REQUIRED, text_message("q", "which one?")))
        a2a.apply(task, {"message": text_message("m2", "that one", a2a.ROLE_USER)})
        a2a.apply(task, status(a2a.WORKING))
        self.assertEqual([m["messageId"] for m in task["history"]], ["m1", "q", "m2"])

    def test_messages_of_the_caller_are_never_merged(self):
        """TASK-10: the same messageId again is one message more."""
        task = made()
        again = text_message("m1", "hi again", a2a.ROLE_USER)
        a2a.apply(task, {"message": again})
        self.assertEqual([m["messageId"] for m in task["history"]], ["m1", "m1"])

    def test_a_peer_that_put_the_status_message_into_the_history_itself(self):
        told = text_message("p1", "half way")
        task = made(status={"state": a2a.WORKING, "message": told})
        task["history"].append(told)
        a2a.apply(task, status(a2a.COMPLETED), lenient=True)
        self.assertEqual([m["messageId"] for m in task["history"]], ["m1", "p1"])

    def test_a_stream_that_begins_without_its_task(self):
        """SSE-21: a status first, the task later."""
        task = {}
        a2a.apply(task, status(a2a.WORKING), lenient=True)
        self.assertEqual((task["id"], task["contextId"]), ("t1", "c1"))
        a2a.apply(task, {"task": made(status={"state": a2a.COMPLETED})}, lenient=True)
        self.assertEqual(task["status"]["state"], a2a.COMPLETED)
        self.assertEqual(len(task["history"]), 1)

    def test_a_stream_that_begins_with_an_artifact(self):
        task = {}
        self.assertEqual(a2a.apply(task, chunk("a", "x"), lenient=True), "")
        self.assertEqual((task["id"], task["status"]["state"]), ("t1", a2a.WORKING))
        self.assertEqual(texts(task), {"a": ["x"]})

    def test_a_stale_snapshot_does_not_wake_the_dead(self):
        task = made(status={"state": a2a.FAILED})
        note = a2a.apply(task, {"task": made(status={"state": a2a.WORKING})}, lenient=True)
        self.assertEqual((note, task["status"]["state"]), (a2a.ENDED, a2a.FAILED))

    def test_folding_leaves_the_snapshot_it_began_with_alone(self):
        shown = made(artifacts=[{"artifactId": "a", "parts": [{"text": "x"}]}])
        kept = copy.deepcopy(shown)
        task = {}
        a2a.apply(task, {"task": shown}, lenient=True)
        a2a.apply(task, chunk("a", "y", append=True), lenient=True)
        a2a.apply(task, {"message": text_message("m2", "more")})
        self.assertEqual(shown, kept)
        self.assertEqual(texts(task), {"a": ["xy"]})


class Artifacts(unittest.TestCase):
    def test_a_chunk_of_an_artifact_never_started(self):
        """ART-01: a server refuses it, a client keeps it and can say so."""
        task = made()
        with self.assertRaises(a2a.InvalidAgentResponseError) as caught:
            a2a.apply(task, chunk("new", "x", append=True))
        self.assertIn("never started", str(caught.exception))
        note = a2a.apply(task, chunk("new", "x", append=True), lenient=True)
        self.assertEqual((note, texts(task)), (a2a.NEVER_STARTED, {"new": ["x"]}))

    def test_without_append_all_parts_are_replaced(self):
        """ART-02: "ab", then "c" without append, is "c"."""
        task = made()
        a2a.apply(task, chunk("a", "ab", "more", name="one"))
        a2a.apply(task, chunk("a", "c"))
        self.assertEqual(task["artifacts"], [{"artifactId": "a", "parts": [{"text": "c"}]}])

    def test_chunks_are_one_text(self):
        """ART-03: "Hel" and "lo" are "Hello"."""
        task = made()
        a2a.apply(task, chunk("a", "Hel"))
        a2a.apply(task, chunk("a", "lo", append=True))
        self.assertEqual(texts(task), {"a": ["Hello"]})
        self.assertEqual(a2a.text_of(task), "Hello")

    def test_only_alike_text_goes_on(self):
        task = made()
        a2a.apply(task, chunk("a", "one", "two"))
        more = [{"text": "three"}, {"text": "four"}]
        a2a.apply(
            task, a2a.artifact_update("t1", "c1", {"artifactId": "a", "parts": more}, append=True)
        )
        self.assertEqual(texts(task), {"a": ["one", "twothree", "four"]})
        for part in (
            {"text": "x", "mediaType": "text/html"},
            {"text": "y"},
            {"data": None},
            {"text": "z"},
        ):
            event = a2a.artifact_update(
                "t1", "c1", {"artifactId": "a", "parts": [part]}, append=True
            )
            a2a.apply(task, event)
        self.assertEqual(texts(task), {"a": ["one", "twothree", "four", "x", "y", None, "z"]})

    def test_an_update_after_the_last_chunk(self):
        """ART-05: it appends or replaces as its flag says."""
        task = made()
        a2a.apply(task, chunk("a", "one", last=True))
        self.assertEqual(a2a.apply(task, chunk("a", "+", append=True)), "")
        self.assertEqual(texts(task), {"a": ["one+"]})
        self.assertEqual(a2a.apply(task, chunk("a", "two")), "")
        self.assertEqual(texts(task), {"a": ["two"]})

    def test_two_artifacts_interleaved(self):
        """ART-07: A1 B1 A2 B2 keeps each artifact's own order."""
        task = made()
        for name, word, append in (("A", "1", 0), ("B", "1", 0), ("A", "2", 1), ("B", "2", 1)):
            a2a.apply(task, chunk(name, word, append=bool(append)))
        self.assertEqual(texts(task), {"A": ["12"], "B": ["12"]})

    def test_a_chunk_may_name_and_describe_its_artifact(self):
        task = made()
        a2a.apply(task, chunk("a", "x", name="old", metadata={"a": 1}))
        a2a.apply(
            task, chunk("a", "y", append=True, name="new", description="d", metadata={"b": 2})
        )
        self.assertEqual(
            task["artifacts"],
            [
                {
                    "artifactId": "a",
                    "name": "new",
                    "description": "d",
                    "parts": [{"text": "xy"}],
                    "metadata": {"a": 1, "b": 2},
                }
            ],
        )

    def test_so_many_artifacts_and_no_more(self):
        """Each new one is compared with all before it: hundreds of thousands would take hours."""
        task = made()
        for number in range(a2a.TASK_ARTIFACTS):
            task.setdefault("artifacts", []).append({"artifactId": str(number), "parts": []})
        with self.assertRaisesRegex(a2a.InvalidAgentResponseError, "More than"):
            a2a.apply(task, chunk("another", "x"))
        self.assertEqual("", a2a.apply(task, chunk("0", "x")))
        self.assertEqual("", a2a.apply(task, chunk("another", "x"), lenient=True))

    def test_events_stay_as_they_were(self):
        task = made()
        events = [chunk("a", "x"), chunk("a", "y", append=True), chunk("a", "z", append=True)]
        kept = copy.deepcopy(events)
        for event in events:
            a2a.apply(task, event)
        self.assertEqual(events, kept)

    def test_a_late_artifact_is_kept_by_a_client_alone(self):
        task = made(status={"state": a2a.COMPLETED})
        self.assertEqual(a2a.apply(task, chunk("a", "x")), a2a.ENDED)
        self.assertEqual(a2a.apply(task, chunk("a", "x"), lenient=True), "")
        self.assertEqual(texts(task), {"a": ["x"]})

    def test_an_answer_of_many_pieces(self):
        task = made()
        a2a.apply(task, chunk("a", "é"))
        piece = "x" * 1200
        for _ in range(20_000):
            a2a.apply(task, chunk("a", piece, append=True))
        self.assertEqual(len(task["artifacts"][0]["parts"][0]["text"]), 1 + 1200 * 20_000)

    def test_a_peer_that_leaves_out_what_it_must_send(self):
        task = {}
        for append in (False, True):
            event = {"artifactUpdate": {"artifact": {"artifactId": "a"}, "append": append}}
            a2a.apply(task, event, lenient=True)
        self.assertEqual(task["artifacts"], [{"artifactId": "a", "parts": []}])


class Snapshots(unittest.TestCase):
    def test_history_length(self):
        """HIST-01: unset is all, 0 leaves the key out, n is the last n."""
        task = made(history=[{"messageId": str(n)} for n in range(3)])
        for length, expected in ((None, "012"), (1, "2"), (2, "12"), (9, "012")):
            seen = a2a.snapshot(task, length)
            self.assertEqual("".join(m["messageId"] for m in seen["history"]), expected)
        self.assertNotIn("history", a2a.snapshot(task, 0))
        self.assertEqual(len(task["history"]), 3)
        del task["history"]
        self.assertNotIn("history", a2a.snapshot(task, 2))

    def test_without_artifacts_there_is_no_key(self):
        """LIST-03: artifacts left out are left out whole."""
        task = made(artifacts=[])
        self.assertNotIn("artifacts", a2a.snapshot(task, artifacts=False))
        self.assertIn("artifacts", a2a.snapshot(task))
        self.assertIn("artifacts", task)


if __name__ == "__main__":
    unittest.main()
