"""No secret in what is said in chats, nor in what is shown of an answer while it grows."""

from dataclasses import replace

import pytest

from agent_core.conversation import ToolCall, tool_result
from agent_core.events import Done, Event, ReasoningDelta, Restarted, TextDelta, ToolFinished, ToolStarted
from gateway.messages import Address, Choice, Location, Media, Part, Progress, Quote, Text
from gateway.outbound.live_reply import LiveReply
from gateway.store import outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from hermes_config.redaction import HIDDEN, NOTE, Redactor
from tests.gateway.outbound.test_delivery import delivering, put
from tests.gateway.outbound.test_live_reply import turn_in
from tests.gateway.scene import ACCOUNT, Pigeon, rows, soon

KEY = "canary-4711-in-the-mine"
REDACTOR = Redactor([KEY])
CALL = ToolCall(id="1", name="terminal", arguments=f'{{"command": "{"x" * 70} {KEY}"}}')


async def test_a_secret_in_an_answer_is_hidden_and_told_once(db: Database) -> None:
    platform = Pigeon(pieces=3)
    await put(db, f"It is {KEY}. And {KEY}.", "Nothing here.")
    async with delivering(db, platform, redactor=REDACTOR) as delivery:
        await soon(delivery.flush())
    said = f"It is {HIDDEN}. And {HIDDEN}.\n\n{NOTE}"
    assert platform.texts == [said, said, said, *["Nothing here."] * 3]


async def test_another_try_and_whoever_reads_the_row_find_the_same_words(db: Database) -> None:
    platform = Pigeon()
    await put(db, KEY)
    async with delivering(db, platform, redactor=REDACTOR) as delivery:
        await soon(delivery.flush())
        await db.write(lambda tx: tx.execute("UPDATE outbox SET state = 'ready'"))
        await soon(delivery.flush())
    assert platform.texts == [f"{HIDDEN}\n\n{NOTE}"] * 2
    assert KEY not in str(await rows(db, "SELECT * FROM outbox"))


async def test_a_password_that_is_a_word_of_the_note_does_not_bring_it_again(db: Database) -> None:
    platform = Pigeon()
    await put(db, "the secret")
    async with delivering(db, platform, redactor=Redactor(["secret"])) as delivery:
        await soon(delivery.flush())
        await db.write(lambda tx: tx.execute("UPDATE outbox SET state = 'ready'"))
        await soon(delivery.flush())
    assert platform.texts == [f"the {HIDDEN}\n\n{NOTE.replace('secret', HIDDEN)}"] * 2


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([Media(kind="file", name=f"{KEY}.txt")], [Media(kind="file", name=f"{HIDDEN}.txt"), Text(text=NOTE)]),
        (
            [Text(text="here"), Media(kind="file", problem=f"no {KEY}")],
            [Text(text=f"here\n\n{NOTE}"), Media(kind="file", problem=f"no {HIDDEN}")],
        ),
        ([Media(kind="file", text=KEY, form=KEY)], [Media(kind="file", text=HIDDEN, form=HIDDEN), Text(text=NOTE)]),
        ([Quote(text=KEY, author=f"{KEY}!")], [Quote(text=HIDDEN, author=f"{HIDDEN}!"), Text(text=NOTE)]),
        (
            [Location(latitude=1, longitude=2, name=KEY)],
            [Location(latitude=1, longitude=2, name=HIDDEN), Text(text=NOTE)],
        ),
    ],
)
async def test_all_that_can_be_read_of_a_part_is_cleaned(db: Database, parts: list[Part], said: list[Part]) -> None:
    def unit(tx: Transaction) -> None:
        outbox.add(tx, Address(account=ACCOUNT, chat="home"), parts)

    platform = Pigeon()
    await db.write(unit)
    async with delivering(db, platform, redactor=REDACTOR) as delivery:
        await soon(delivery.flush())
    assert list(platform.sent[0].parts) == said


async def test_what_stands_on_a_button_is_cleaned_and_it_works_as_before(db: Database) -> None:
    """The title of a conversation, say, which is what somebody has said."""
    choices = [Choice(label=f"use {KEY}", action="continue:1"), Choice(label="Other", action="continue:2")]
    await db.write(
        lambda tx: outbox.add(tx, Address(account=ACCOUNT, chat="home"), [Text(text="Which?")], choices=choices)
    )
    platform = Pigeon()
    async with delivering(db, platform, redactor=REDACTOR) as delivery:
        await soon(delivery.flush())
    [message] = platform.sent
    assert message.choices == (Choice(label=f"use {HIDDEN}", action="continue:1"), choices[1])
    assert message.text == "Which?"
    assert KEY not in str(await rows(db, "SELECT * FROM outbox"))


async def shown(*events: Event) -> list[Progress]:
    seen: list[Progress] = []
    live = LiveReply(shows={ACCOUNT: lambda address, progress: seen.append(progress)}, redactor=REDACTOR)
    async with live.watch(turn_in("home")) as watched:
        for event in events:
            watched.emit(event)
    return seen[1:-1]


def text_of(seen: list[Progress], what: str = "text") -> str:
    return "".join(progress.text for progress in seen if progress.what == what)


async def test_a_secret_letter_by_letter_is_not_shown() -> None:
    words = f"It is {KEY}, I think."
    seen = await shown(*(TextDelta(text=letter) for letter in words), Done(finished_naturally=True))
    assert text_of(seen) == f"It is {HIDDEN}, I think."


async def test_thoughts_are_cleaned_too_and_come_before_what_follows() -> None:
    thoughts = [ReasoningDelta(text=letter) for letter in f"So {KEY}"]
    seen = await shown(*thoughts, ToolStarted(call=CALL))
    assert text_of(seen, "reasoning") == f"So {HIDDEN}"
    assert seen[-1].what == "tool"


async def test_what_was_held_back_is_gone_when_the_answer_begins_again() -> None:
    held = TextDelta(text=KEY[:12])
    seen = await shown(held, Restarted(), TextDelta(text="Better."), Done(finished_naturally=True))
    assert [progress.what for progress in seen] == ["restart", "text"]
    assert text_of(seen) == "Better."


async def test_tools_are_shown_without_secrets_however_they_are_escaped() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    sly = replace(CALL, name=f"a{KEY}", arguments=f'{{"path": "{escaped}"}}')
    result = tool_result(CALL, f"failed: {KEY}", is_error=True)
    seen = await shown(ToolStarted(call=CALL), ToolStarted(call=sly), ToolFinished(call=CALL, result=result, seconds=1))
    assert KEY not in str(seen)
    assert escaped not in str(seen)
    assert str(seen).count(HIDDEN) == 5
    assert (seen[-1].tool.result, seen[-1].tool.error) == (f"failed: {HIDDEN}", True) if seen[-1].tool else False
    assert result.text == f"failed: {KEY}"  # what the model is given is another matter
