"""A command's effect, its answer and the end of its row are one commit."""

from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply, Commands, CommandSpec
from gateway.commands.runner import CommandRunner, fail_next_command
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tests.gateway.scene import PacedModel, inbound, make_small, rows, running

NEW_PERSON = "INSERT INTO people (id, name, role, created_ms) VALUES ('x', 'x', 'guest', 0)"


class Broken(Exception):
    pass


def _half_done(tx: Transaction, call: CommandCall) -> CommandReply:
    tx.execute(NEW_PERSON)
    raise Broken


BROKEN = CommandSpec("break", "Help", "", _half_done)


async def test_effect_answer_and_end_are_one_transaction(db: Database) -> None:
    command_runner = CommandRunner(commands=make_commands(), model_name="m")
    small = make_small(db, PacedModel())
    await small.say(inbound("/new"))

    def cut_off(tx: Transaction) -> None:
        assert command_runner.handle_next(tx)
        raise Broken

    try:
        await db.write(cut_off)
    except Broken:
        assert await rows(db, "SELECT state FROM inbox") == [("ready",)]
        assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]
    assert await db.write(command_runner.handle_next)
    assert await rows(db, "SELECT state, outcome FROM inbox") == [("done", "answered")]
    assert await rows(db, "SELECT reply_to, answers FROM outbox") == [("1", '["1"]')]
    assert await rows(db, "SELECT event FROM trail WHERE inbox_id = 1 ORDER BY id") == [("accepted",), ("answered",)]
    assert not await db.write(command_runner.handle_next)


async def test_commands_are_handled_in_the_order_they_came(db: Database) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(inbound("/stop"), inbound("/nothing", message_id="2"), inbound("/new", message_id="3"))
        answers = [await small.answer() for _ in range(3)]
    assert [answer.split(".")[0] for answer in answers] == [
        "Nothing is running",
        "There is no command /nothing",
        "A new conversation begins with your next message",
    ]


async def test_a_command_that_breaks_is_undone_answered_and_never_tried_again(db: Database) -> None:
    commands = Commands([BROKEN, *make_commands().specs])
    async with running(make_small(db, PacedModel(), commands=commands)) as small:
        await small.say(inbound("/break"), inbound("/stop", message_id="2"))
        assert "went wrong inside Hermes" in await small.answer()
        assert await small.answer() == "Nothing is running."
    assert await rows(db, "SELECT outcome FROM inbox ORDER BY id") == [("failed",), ("answered",)]
    assert await rows(db, "SELECT COUNT(*) FROM people WHERE id = 'x'") == [(0,)]


async def test_there_may_be_no_command_to_give_up(db: Database) -> None:
    await db.write(fail_next_command)
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]
