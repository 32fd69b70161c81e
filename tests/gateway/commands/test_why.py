"""/why in a chat: as a reply to a message, and without one."""

from dataclasses import replace

import pytest

from agent_core.conversation import assistant
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall
from gateway.messages import InboundMessage, SessionKey
from gateway.policies.access import Role
from gateway.store import chats, trail
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tests.agent_core.scripted import ScriptedModel, answering, asks, call
from tests.gateway.scene import PacedModel, Pigeon, inbound, make_small, running, soon
from tests.gateway.store.exchange import exchange
from tests.gateway.store.rows import inbound as said
from tests.gateway.store.rows import take

GROUP = SessionKey(platform="telegram", kind="group", chat="-100")
UNKNOWN = "I have no record of that message."


def why(about: str = "", *, message_id: str = "why", chat: str = "home") -> InboundMessage:
    return replace(inbound("/why", message_id=message_id, chat=chat), about=about)


def ask(tx: Transaction, about: str, *, key: SessionKey = GROUP, role: Role = "member") -> str:
    return make_commands().run(tx, CommandCall(key=key, name="why", about=about, role=role)).text


async def test_a_reply_to_the_question_or_to_any_piece_of_the_answer_tells_the_same(db: Database) -> None:
    model = ScriptedModel([asks(call("dig")), assistant("found")])
    small = make_small(db, model, tools=[answering("dig", "gold")], platform=Pigeon(pieces=2))
    async with running(small):
        await small.say(inbound("where is it?"))
        for _ in range(2):
            await small.answer()
        await soon(small.delivery.flush())
        small.platform.pieces = 1
        told = []
        for number, about in enumerate(["1", "receipt 1", "receipt 2", ""]):
            await small.say(why(about, message_id=f"w{number}"))
            told.append((await small.answer()).splitlines())
    verdict, *steps = told[0]
    assert verdict.startswith("Answered in ")
    assert verdict.endswith("; delivered in 2 parts, the last as Pigeon message receipt 2.")
    words = [step.partition("  ")[2] for step in steps]
    assert words[0] == "accepted"
    assert words[1].startswith("started in turn ")
    assert words[3].startswith("the model replied twice in ")
    assert words[3].endswith(" (20 tokens in, 2 out); used dig")
    assert words[4:] == [
        "answer saved",
        "sending the answer",
        "a part of the answer was delivered as message receipt 1",
        "sending the answer",
        "the answer was delivered as message receipt 2",
    ]
    assert told[1:] == [told[0]] * 3


async def test_while_it_works_and_what_waits_behind_it(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(inbound("and then?", message_id="2"))
        await small.say(why("1"))
        assert ": waiting for the model." in await small.answer()
        await small.say(why("2", message_id="w2"))
        assert "Not answered yet because another turn is running" in await small.answer()


async def test_a_message_of_another_chat_is_nobodys_business(db: Database) -> None:
    model = PacedModel()
    model.let("a secret")
    async with running(make_small(db, model)) as small:
        await small.say(inbound("a secret", message_id="7", chat="office"))
        await small.answer()
        for number, about in enumerate(["7", "receipt 1", "nonsense"]):
            await small.say(why(about, message_id=f"w{number}"))
            assert await small.answer() == UNKNOWN
        await small.say(why())
        assert await small.answer() == "There is no message in this conversation yet."


def test_where_each_member_has_a_conversation_of_their_own_it_is_their_own(tx: Transaction) -> None:
    bobs, anns = replace(GROUP, user="1"), replace(GROUP, user="2")
    take(tx, said("a", key=bobs, message_id="7"))
    assert ask(tx, "7", key=anns) == UNKNOWN
    assert ask(tx, "7", key=bobs).startswith("Not answered yet")


def test_in_a_thread_that_is_no_reply_the_last_message_counts(tx: Transaction) -> None:
    thread = SessionKey(platform="slack", kind="channel", chat="C1", thread="100.1")
    take(tx, said("a", key=thread, message_id="100.1"))
    exchange(tx, key=thread)
    assert ask(tx, "100.1", key=thread).startswith("Answered in ")


def test_a_thread_below_a_message_is_a_reply_to_it(tx: Transaction) -> None:
    alone = SessionKey(platform="slack", kind="dm", chat="D1")
    take(tx, said("a", key=alone, message_id="100.1"))
    assert ask(tx, "100.1", key=replace(alone, thread="100.1")).startswith("Not answered yet")


def test_what_was_not_said_to_us(tx: Transaction) -> None:
    chats.add_overheard(tx, said("a", key=GROUP, message_id="7"), keep=5)
    assert ask(tx, "7").startswith("Not answered because it was not addressed to me. In a group, mention me")


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("owner", "Not answered because it was refused: revoked; `hermes pairing invite` lets them in again."),
        ("member", "Not answered because its sender may not talk to me here."),
        ("guest", "Not answered because its sender may not talk to me here."),
    ],
)
def test_why_somebody_is_not_let_in_is_told_to_the_owner_alone(tx: Transaction, role: Role, words: str) -> None:
    reason = "revoked; `hermes pairing invite` lets them in again"
    trail.record_refusal(tx, account="telegram", chat="-100", message_id="7", sender_id="666", reason=reason)
    assert ask(tx, "7", role=role) == words


async def test_a_command_has_a_trail_too(db: Database) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(inbound("/status", message_id="5"))
        await small.answer()
        await soon(small.delivery.flush())
        await small.say(why("5"))
        told = (await small.answer()).splitlines()
    assert told[0].endswith("; delivered as Pigeon message receipt 1.")
    assert [line.partition("  ")[2] for line in told[1:]] == [
        "accepted",
        "answer saved",
        "the answer was delivered as message receipt 1",
    ]
