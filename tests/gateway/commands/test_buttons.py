"""Buttons: what a press does, by whom, and how often."""

from dataclasses import replace

import pytest

from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply, Commands
from gateway.commands.runner import CommandRunner, fail_next_command
from gateway.errors import DeliveryInDoubt
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import InboundMessage, OutboundMessage, Text
from gateway.outbound import delivery as delivery_module
from gateway.policies.access import Rules
from gateway.store import outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tests.gateway.inbound.test_intake import Door
from tests.gateway.scene import ACCOUNT, PacedModel, Pigeon, Small, inbound, make_small, rows, running, soon


def press(action: str, *, press_id: str = "p1", chat: str = "home", sender: str = "42") -> InboundMessage:
    return replace(inbound(action, message_id=press_id, chat=chat, sender=sender), kind="button", about="receipt 1")


def breaks_once() -> Pigeon:
    left = [DeliveryInDoubt("no answer")]

    async def fail(message: OutboundMessage) -> None:
        if left and message.notify:
            raise left.pop()

    return Pigeon(on_send=fail)


async def in_doubt(small: Small, model: PacedModel) -> str:
    """An answer that nobody can know to have arrived; gives its button's action."""
    model.let("hello")
    await small.say(inbound("hello"))
    notice = await soon(small.platform.arrived.get())
    [choice] = notice.choices
    assert choice.label == "Send it again"
    assert len(choice.action.encode()) <= 64
    return choice.action


async def test_the_answer_in_doubt_comes_at_the_press_and_the_notice_is_changed_in_place(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, platform=breaks_once())) as small:
        action = await in_doubt(small, model)
        await small.say(press(action))
        arrived = {(await soon(small.platform.arrived.get())).text for _ in range(2)}
    assert arrived == {"re: hello", "Sent again:"}
    [change] = [message for message in small.platform.sent if message.text == "Sent again:"]
    assert (change.edits, change.choices) == ("receipt 1", ())
    assert await rows(db, "SELECT outcome FROM inbox WHERE kind = 'button'") == [("answered",)]


async def test_pressed_twice_it_is_sent_once(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, platform=breaks_once())) as small:
        action = await in_doubt(small, model)
        await small.say(press(action), press(action, press_id="p2"), press(action))
        for _ in range(3):
            await soon(small.platform.arrived.get())
        await soon(small.delivery.flush())
    assert small.platform.texts.count("re: hello") == 1
    assert small.platform.texts.count("That answer was already sent again.") == 1
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE kind = 'button'") == [(2,)]


async def test_nobody_gets_another_chats_answer_by_its_button(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, platform=breaks_once())) as small:
        action = await in_doubt(small, model)
        await small.say(press(action, chat="office", sender="43"))
        assert await small.answer() == "That answer is no longer stored."
        await soon(small.delivery.flush())
    assert "re: hello" not in small.platform.texts
    assert small.platform.sent[-1].edits == ""
    assert await rows(db, "SELECT COUNT(*) FROM outbox WHERE state = 'in_doubt'") == [(1,)]


@pytest.mark.parametrize(
    "action", ["dance:now", "", ":", "resend", "resend:", "resend:' OR 1=1", "continue:x", "RESEND"]
)
async def test_whatever_a_button_says_it_does_no_harm(db: Database, action: str) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(press(action))
        assert await small.answer()
    [answer] = small.platform.sent
    assert (answer.edits, answer.address.reply_to) == ("", "receipt 1")  # the message it stands below may be another's


async def test_a_press_is_handled_while_a_turn_runs(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, max_turns=1)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(press("dance:now"))
        assert await small.answer() == "This button is from an older version and no longer works."


async def test_a_button_below_no_message_is_answered_with_one(db: Database) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(replace(press("dance"), about=""))
        await small.answer()
    assert small.platform.sent[0].edits == ""


async def test_an_answer_that_is_gone_is_not_said_to_have_been_sent_again(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, platform=breaks_once())) as small:
        action = await in_doubt(small, model)
        await db.write(lambda tx: tx.execute("DELETE FROM outbox WHERE state = 'in_doubt'"))
        await small.say(press(action))
        assert await small.answer() == "That answer is no longer stored."


async def test_a_strangers_press_is_refused(db: Database) -> None:
    door = Door(db)
    await door.accept(press("resend:x", sender="666"))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(0,)]
    assert await rows(db, "SELECT event FROM trail") == [("refused",)]


async def test_presses_count_towards_the_limit(db: Database) -> None:
    rules = Rules(allowed_users=frozenset({"42"}))
    door = Door(db, rules=rules, limits=SenderLimits(per_minute=1, clock=lambda: 0.0))
    await door.accept(*(press("dance", press_id=str(n)) for n in range(5)))
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == [(1,)]


async def test_a_press_that_breaks_is_undone_and_told(db: Database) -> None:
    def half_done(tx: Transaction, call: CommandCall) -> CommandReply:
        outbox.add(tx, call.key.reply_address("1"), [Text(text="half")])
        raise ZeroDivisionError

    async with running(make_small(db, PacedModel(), commands=Commands([], buttons={"break": half_done}))) as small:
        await small.say(press("break"))
        assert "went wrong inside Hermes" in await small.answer()
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(1,)]


async def test_the_oldest_of_commands_and_presses_is_next(db: Database) -> None:
    command_runner = CommandRunner(commands=make_commands(), model_name="m")
    small = make_small(db, PacedModel())
    await small.say(press("dance"), inbound("/help", message_id="2"), press("dance", press_id="p2"))
    for left in (2, 1, 0):
        assert await db.write(command_runner.handle_next)
        assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == [(left,)]
    assert not await db.write(command_runner.handle_next)
    await db.write(fail_next_command)
    assert await rows(db, "SELECT outcome FROM inbox") == [("answered",)] * 3


async def test_what_was_sent_again_and_is_in_doubt_again_can_be_asked_for_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "backoff_seconds", lambda failures: 0.0)

    async def fail(message: OutboundMessage) -> None:
        if message.notify and not message.edits:
            raise DeliveryInDoubt("no answer")

    model = PacedModel()
    async with running(make_small(db, model, platform=Pigeon(on_send=fail))) as small:
        action = await in_doubt(small, model)
        await small.say(press(action))
        notices = [await soon(small.platform.arrived.get()) for _ in range(2)]
    assert [choice.action for notice in notices for choice in notice.choices] == [action]
    assert all(message.address.account == ACCOUNT for message in notices)
