"""One turn: accepted messages in, one agent turn, one commit."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from agent_core.model import ModelError
from gateway.messages import Media, Text
from gateway.store import chats, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from tests.agent_core.scripted import ScriptedModel, answering, asks, call
from tests.gateway.scene import (
    ACCOUNT,
    PacedModel,
    begin,
    inbound,
    make_responder,
    make_small,
    rows,
    running,
    soon,
    unhappy,
)
from tools.base import Tool

PHOTO = Media(kind="image", name="cat.png", mime="image/png", reference="file-1")


async def resume(db: Database) -> Turn:
    """As the next process finds it."""
    [turn] = await db.write(turns.resume_all)
    return turn


async def state(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {
        "messages": await rows(db, "SELECT role FROM messages ORDER BY id"),
        "outbox": await rows(db, "SELECT kind FROM outbox ORDER BY id"),
        "inbox": await rows(db, "SELECT state FROM inbox ORDER BY id"),
        "turns": await rows(db, "SELECT state FROM turns"),
    }


async def said(db: Database) -> str:
    [(parts,)] = await rows(db, "SELECT parts FROM outbox")
    return "\n".join(part["text"] for part in json.loads(parts))


async def test_an_answer_ends_transcript_inbox_and_turn_in_one_transaction(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await begin(db, inbound("hello"))
    really_finish = turns.finish

    def cut_off(*arguments: object) -> None:
        raise KeyError("the power went")

    monkeypatch.setattr(turns, "finish", cut_off)
    with pytest.raises(KeyError):
        await make_responder(db, ScriptedModel([assistant("hi")])).respond(turn)
    assert await state(db) == {
        "messages": [("user",)],
        "outbox": [],
        "inbox": [("running",)],
        "turns": [("running",)],
    }
    monkeypatch.setattr(turns, "finish", really_finish)
    await make_responder(db, ScriptedModel([assistant("hi")])).respond(await resume(db))
    assert await state(db) == {
        "messages": [("user",), ("assistant",)],
        "outbox": [("answer",)],
        "inbox": [("done",)],
        "turns": [("done",)],
    }


async def test_the_reply_knows_its_place_and_the_session_its_use(db: Database) -> None:
    turn = await begin(db, inbound("hello\n  there", message_id="7"), inbound("and you", message_id="8"))
    await make_responder(db, ScriptedModel([assistant("hi")])).respond(turn)
    assert await rows(db, "SELECT account, chat, reply_to, answers, turn_id FROM outbox") == [
        (ACCOUNT, "home", "8", '["7", "8"]', turn.id)
    ]
    assert await rows(db, "SELECT title, input_tokens, output_tokens, cached_tokens, total_tokens FROM sessions") == [
        ("hello there", 10, 1, 5, 11)
    ]
    events = await rows(db, "SELECT event FROM trail WHERE turn_id = ? ORDER BY id", turn.id)
    assert [event for (event,) in events] == ["claimed", "claimed", "opened", "model_replied", "answered", "answered"]


async def test_a_long_first_message_gives_a_short_title(db: Database) -> None:
    await make_responder(db, ScriptedModel([assistant("hi")])).respond(await begin(db, inbound("word " * 100)))
    [(title,)] = await rows(db, "SELECT title FROM sessions")
    assert len(title) <= 60
    assert title.endswith("…")


async def test_tool_calls_are_in_the_trail_and_the_transcript(db: Database) -> None:
    model = ScriptedModel([asks(call("dig")), assistant("found")])
    turn = await begin(db, inbound("dig"))
    await make_responder(db, model, tools=[answering("dig", "gold")]).respond(turn)
    events = await rows(db, "SELECT event FROM trail WHERE turn_id = ? ORDER BY id", turn.id)
    assert [event for (event,) in events] == [
        "claimed",
        "opened",
        "model_replied",
        "tool_started",
        "tool_finished",
        "model_replied",
        "answered",
    ]
    assert await rows(db, "SELECT role FROM messages ORDER BY id") == [
        ("user",),
        ("assistant",),
        ("tool",),
        ("assistant",),
    ]
    assert await rows(db, "SELECT COUNT(*) FROM tool_starts") == [(0,)]


async def test_the_trail_knows_what_each_call_took(db: Database) -> None:
    model = ScriptedModel([asks(call("dig")), assistant("found")])
    turn = await begin(db, inbound("dig"))
    await make_responder(db, model, tools=[answering("dig", "gold")]).respond(turn)
    told = await rows(db, "SELECT event, detail FROM trail WHERE detail LIKE '%\"ms\"%' ORDER BY id")
    steps = [(event, {**json.loads(detail), "ms": "some"}) for event, detail in told]
    assert steps == [
        ("model_replied", {"tools": "dig", "ms": "some", "input_tokens": 10, "output_tokens": 1}),
        ("tool_finished", {"tool": "dig", "call": "call_dig", "error": False, "ms": "some"}),
        ("model_replied", {"tools": "", "ms": "some", "input_tokens": 10, "output_tokens": 1}),
    ]


async def test_attachments_are_there_before_the_model_is_asked(db: Database) -> None:
    async def fetch(account: str, media: Media) -> bytes:
        assert (account, media.reference) == (ACCOUNT, "file-1")
        return b"meow"

    model = ScriptedModel([assistant("a cat")])
    turn = await begin(db, inbound(parts=(Text(text="what is it?"), PHOTO)))
    await make_responder(db, model, fetch=fetch).respond(turn)
    [asked] = model.asked[0]
    [photo] = [part for part in asked.parts if isinstance(part, Media)]
    assert (photo.size_bytes, photo.problem) == (4, "")
    assert (db.path.parent / "cache" / photo.sha256).read_bytes() == b"meow"


async def test_an_attachment_that_cannot_be_had_is_told_to_the_model(db: Database) -> None:
    model = ScriptedModel([assistant("I cannot see it")])
    await make_responder(db, model).respond(await begin(db, inbound(parts=(PHOTO,))))
    assert model.asked[0][0].text == "[image cat.png could not be read: nothing is attached here]"
    told = await rows(db, "SELECT kind, notify, parts FROM outbox ORDER BY id")
    assert [(kind, notify) for kind, notify, _ in told] == [("notice", 0), ("answer", 1)]
    assert "I could not read cat.png: nothing is attached here." in told[0][2]


async def test_an_empty_answer_is_not_silence(db: Database) -> None:
    await make_responder(db, ScriptedModel([assistant("  \n")])).respond(await begin(db, inbound("hello")))
    assert await said(db) == "The model returned an empty answer. Please try again or rephrase your message."


async def test_a_model_that_cannot_answer_says_so_in_the_chat(db: Database) -> None:
    turn = await begin(db, inbound("hello"))
    await make_responder(db, unhappy()).respond(turn)
    assert await said(db) == "The key was refused. Check it with `hermes config check`."
    assert await rows(db, "SELECT state, outcome FROM turns") == [("done", "failed")]
    assert await rows(db, "SELECT state, outcome FROM inbox") == [("done", "failed")]
    assert await rows(db, "SELECT detail FROM trail WHERE event = 'failed'") == [('{"problem": "ModelError"}',)]


async def test_a_model_that_cannot_answer_tells_nothing_to_who_has_stopped_it(db: Database) -> None:
    turn = await begin(db, inbound("hello"))

    class StoppedMeanwhile(ScriptedModel):
        async def reply(
            self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
        ) -> Message:
            await db.write(lambda tx: turns.request_stop(tx, turn.session_key))
            return await super().reply(messages, tools, emit, may_call=may_call)

    await make_responder(db, StoppedMeanwhile([ModelError("no more")])).respond(turn)
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]
    assert await rows(db, "SELECT state, outcome FROM turns") == [("done", "stopped")]


async def test_a_turn_that_was_stopped_is_not_given_up_aloud(db: Database) -> None:
    turn = await begin(db, inbound("dig"))
    await db.write(lambda tx: turns.request_stop(tx, turn.session_key))
    for _ in range(4):
        turn = await resume(db)
    await make_responder(db, ScriptedModel([])).respond(turn)
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]
    assert await rows(db, "SELECT state, outcome FROM turns") == [("done", "stopped")]


@pytest.mark.parametrize(
    ("kind", "user", "name", "heard"),
    [
        ("group", "", "Ada", "Ada:\nhello"),
        ("channel", "", "Ada", "Ada:\nhello"),
        ("thread", "", "", "42:\nhello"),
        ("group", "42", "Ada", "hello"),
        ("dm", "", "Ada", "hello"),
        ("", "", "Ada", "hello"),
    ],
)
async def test_in_a_shared_conversation_the_speaker_is_named(
    db: Database, kind: str, user: str, name: str, heard: str
) -> None:
    model = ScriptedModel([assistant("hi")])
    turn = await begin(db, inbound("hello", kind=kind, user=user, name=name))
    await make_responder(db, model).respond(turn)
    assert model.asked[0][0].text == heard


async def test_a_turn_that_keeps_dying_is_given_up_with_a_message(db: Database) -> None:
    await begin(db, inbound("dig"))
    for _ in range(3):
        turn = await resume(db)
        assert turn.resumes <= 3
    model = ScriptedModel([])
    await make_responder(db, model).respond(await resume(db))
    assert model.asked == []
    assert (await said(db)).startswith("I was restarted 4 times while working on this, so I gave up.")
    assert await rows(db, "SELECT state, outcome FROM turns") == [("done", "given_up")]


async def test_the_third_resume_still_answers(db: Database) -> None:
    await begin(db, inbound("hello"))
    for _ in range(3):
        turn = await resume(db)
    await make_responder(db, ScriptedModel([assistant("hi")])).respond(turn)
    assert await said(db) == "hi"


async def test_a_call_cut_by_a_crash_is_not_run_again_and_the_model_is_told(db: Database) -> None:
    turn = await begin(db, inbound("dig"))
    cut = asks(call("dig"), call("look"))

    def crash(tx: Transaction) -> None:
        transcripts.append(tx, turn.session_id, Message(role="user", parts=(Text(text="dig"),)), turn_id=turn.id)
        transcripts.append(tx, turn.session_id, cut, turn_id=turn.id)
        transcripts.mark_tool_started(tx, turn.id, "call_dig")

    await db.write(crash)
    ran: list[str] = []

    def tool(name: str) -> Tool:
        async def run(arguments: str, context: object) -> str:
            ran.append(name)
            return "found"

        return Tool(name=name, toolset="test", description="", schema={}, run=run)

    model = ScriptedModel([assistant("done")])
    await make_responder(db, model, tools=[tool("dig"), tool("look")]).respond(await resume(db))
    assert ran == ["look"]
    results = {message.tool_call_id: message.text for message in model.asked[0] if message.role == "tool"}
    assert "interrupted by a restart" in results["call_dig"]
    assert results["call_look"] == "found"
    assert await said(db) == "done"


async def test_a_failure_after_the_answer_says_nothing_more(db: Database) -> None:
    turn = await begin(db, inbound("hello"))
    responder = make_responder(db, ScriptedModel([assistant("hi")]))
    await responder.respond(turn)
    await asyncio.gather(responder.fail(turn), responder.stop(turn), responder.pause(turn))
    assert await said(db) == "hi"
    assert await rows(db, "SELECT state, outcome FROM turns") == [("done", "answered")]


async def test_the_answer_follows_a_group_that_was_given_another_id_meanwhile(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig", chat="-7", kind="group"))
        asked = await soon(model.asked.get())
        await db.write(lambda tx: chats.move(tx, ACCOUNT, "-7", "-1007"))
        model.let(asked)
        await small.answer()
    assert small.platform.sent[0].address.chat == "-1007"
