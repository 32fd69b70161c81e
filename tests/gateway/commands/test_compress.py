"""`/compress` as a chat and a terminal see it."""

import asyncio

import pytest

from agent_core.compaction import SECTIONS
from agent_core.conversation import Message, assistant, user
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall
from gateway.messages import SessionKey
from gateway.policies.budgets import Amount, Budgets
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.turns.metering import Meter
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import PacedModel, inbound, make_small, rows, running, soon
from tests.gateway.test_terminal_chat import chat

KEY = SessionKey(platform="pigeon", kind="dm", chat="home")
SUMMARY = "\n".join(f"## {name}\n- noted" for name in SECTIONS)


def fill(tx: Transaction, key: SessionKey = KEY, turns: int = 60) -> None:
    session = sessions.open_current(tx, key)
    for number in range(turns):
        transcripts.append(tx, session.id, user(f"question {number} about /data/{number}.csv " + "word " * 100))
        transcripts.append(tx, session.id, assistant(f"answer {number}"))


@pytest.mark.parametrize("arguments", ["lots", "-5", "12", "5m", "1.5.x"])
def test_a_wrong_target_is_explained(tx: Transaction, arguments: str) -> None:
    fill(tx)
    reply = make_commands().run(tx, CommandCall(key=KEY, name="compress", arguments=arguments))
    assert reply.text == "Give the target in tokens, such as /compress 20000 or /compress 20k."


def test_without_a_conversation_there_is_nothing_to_compress(tx: Transaction) -> None:
    reply = make_commands().run(tx, CommandCall(key=KEY, name="compress"))
    assert reply.text == "There is nothing to compress yet: this conversation has not begun."


@pytest.mark.parametrize(("arguments", "tokens"), [("", 50_000), ("20k", 20_000), ("8,000", 8_000), ("12000", 12_000)])
def test_the_target_is_read(tx: Transaction, arguments: str, tokens: int) -> None:
    fill(tx)
    call = CommandCall(key=KEY, name="compress", arguments=arguments, place="cli")
    assert make_commands().run(tx, call).compress_to == tokens


async def test_in_a_chat_it_reports_before_and_after_and_the_next_turn_is_given_the_summary(db: Database) -> None:
    model = ScriptedModel([assistant(SUMMARY), assistant("here I am")])
    await db.write(fill)
    async with running(make_small(db, model)) as small:
        await small.say(inbound("/compress 4k", message_id="c"))
        assert (await small.answer()).startswith("Summarising the older messages.")
        done = await small.answer()
        await small.say(inbound("hello", message_id="h"))
        assert await small.answer() == "here I am"
    assert done.startswith("Compressed: about ")
    [(before, after)] = await rows(db, "SELECT tokens_before, tokens_after FROM compactions")
    assert f"{before:,} tokens before, {after:,} after" in done
    assert isinstance(after, int)
    assert after < 5_000
    shown = model.asked[-1]
    assert len(shown) < 40
    assert "## Goal" in shown[2].text
    assert shown[-1].text == "hello"
    assert not any("/compress" in message.text for message in shown)
    [(events,)] = await rows(db, "SELECT COUNT(*) FROM trail WHERE event = 'compacted'")
    assert events == 1


async def test_below_the_target_it_says_so_and_changes_nothing(db: Database) -> None:
    await db.write(fill)
    async with running(make_small(db, ScriptedModel([]))) as small:
        await small.say(inbound("/compress", message_id="c"))
        await small.answer()
        assert "less than the target of 50,000. /compress " in await small.answer()
    assert await rows(db, "SELECT COUNT(*) FROM messages") == [(120,)]


async def test_it_waits_for_the_running_turn_and_does_not_join_it(db: Database) -> None:
    model = PacedModel()
    await db.write(fill)
    async with running(make_small(db, model)) as small:
        await small.say(inbound("slow", message_id="1"))
        assert await soon(model.asked.get()) == "slow"
        await small.say(inbound("/compress 2k", message_id="c"))
        assert (await small.answer()).startswith("Summarising")
        model.let("slow")
        assert await small.answer() == "re: slow"
        request = await soon(model.asked.get())
        assert "Write the new summary now." in request
        model.let(request)
        assert (await small.answer()).startswith("Compressed: about ")


async def test_messages_that_wait_with_it_are_answered_after_it(db: Database) -> None:
    model = ScriptedModel([assistant(SUMMARY), assistant("both read")])
    await db.write(fill)
    small = make_small(db, model)
    await small.say(inbound("/compress 4k", message_id="c"), inbound("hello", message_id="h"))
    async with running(small):
        assert (await small.answer()).startswith("Summarising")
        texts = sorted([await small.answer(), await small.answer()])
    assert texts[0].startswith("Compressed: about ")
    assert texts[1] == "both read"
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state <> 'done'") == [(0,)]
    assert await rows(db, "SELECT COUNT(*) FROM compactions") == [(1,)]


async def test_at_the_terminal_it_reports_at_once(db: Database) -> None:
    model = ScriptedModel([assistant(SUMMARY), assistant("hi")])
    talk = chat(db, model)
    await db.write(lambda tx: fill(tx, talk.key))
    assert (await talk.say("/compress 4k")).startswith("Compressed: about ")
    assert await talk.say("hello") == "hi"
    shown: tuple[Message, ...] = model.asked[-1]
    assert "## Goal" in shown[3].text
    assert shown[0].role == "system"


async def test_stopped_at_the_terminal_it_ends_and_is_paid_for(db: Database) -> None:
    model = PacedModel()
    talk = chat(db, model, meter=Meter(budgets=Budgets(limits={"day": Amount(tokens=1_000_000)})))
    await db.write(lambda tx: fill(tx, talk.key))
    order = asyncio.create_task(talk.say("/compress 4k"))
    await soon(model.asked.get())
    order.cancel()
    with pytest.raises(asyncio.CancelledError):
        await order
    assert await rows(db, "SELECT settled FROM spending") == [(1,)]
    assert await rows(db, "SELECT outcome FROM inbox") == [("stopped",)]
