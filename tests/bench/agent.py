"""Our agent of the bench: it answers the texts of README.md beside this file."""

import asyncio


async def agent(turn):
    """Answer one text by the shortest way."""
    text = turn.text
    word = text.partition(" ")[0]
    if word == "msg":
        turn.reply(text)
        return None
    if word.startswith("chunks:"):
        count = int(word[7:])
        turn.status()
        for index in range(count):
            chunk = f"chunk {index} of the answer"
            turn.artifact(chunk, name="out", append=index > 0, last=index == count - 1)
        return None
    if word.startswith("hold:"):
        turn.status()
        await asyncio.sleep(float(word[5:]))
        return None
    if word == "full":
        turn.status()
    return text
