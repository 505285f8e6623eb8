"""Our agent of the interop tests: it does what agents.md says.

python3 a2a.py serve --agent tests/interop/agent.py:words
"""


def words(turn):
    """Do what the first word of the text says."""
    word, _, rest = turn.text.partition(" ")
    if len(turn.history) > 1:
        word, rest = "answer", turn.text
    return ACTIONS.get(word, echo)(turn, rest)


def echo(turn, rest):
    turn.artifact(turn.message["parts"], name="echo")


def msg(turn, rest):
    turn.reply(rest)


def chunks(turn, rest):
    count = int(rest)
    for index in range(count):
        last = index == count - 1
        turn.artifact(f"{index} ", name="chunks", append=index > 0, last=last)


def ask(turn, rest):
    turn.ask("which colour?")


def answer(turn, rest):
    turn.artifact("you chose " + rest, name="answer")


def fail(turn, rest):
    turn.status("about to break")
    raise RuntimeError("it broke: " + rest)


def reject(turn, rest):
    turn.reject("not for me")


def files(turn, rest):
    turn.artifact([{"text": "# Report", "mediaType": "text/markdown"}], name="a")
    picture = {"raw": bytes(range(256)), "mediaType": "image/png", "filename": "dot.png"}
    turn.artifact([picture], name="b")
    link = {"url": "https://h.example/?a=1&b=<2>", "mediaType": "text/html"}
    turn.artifact([link], name="c")


def data(turn, rest):
    value = {"n": 1, "f": 0.5, "list": [1, "two", None], "deep": {"ü": "東京 😀"}}
    turn.artifact([{"data": value}], name="data")


def hold(turn, rest):
    turn.status("holding")
    turn.cancelled.wait(float(rest))


ACTIONS = {
    "msg": msg,
    "chunks": chunks,
    "ask": ask,
    "answer": answer,
    "fail": fail,
    "reject": reject,
    "files": files,
    "data": data,
    "hold": hold,
}
