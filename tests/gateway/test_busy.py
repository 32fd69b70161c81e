"""What becomes of a message that arrives while a turn runs, in each mode."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from agent_core.history import arrange
from gateway.messages import InboundMessage, Media, Text
from gateway.store import turns
from gateway.store.db.database import Database
from gateway.store.inbox import BusyMode
from tests.agent_core.scripted import ScriptedModel, asks, call
from tests.gateway.scene import PacedModel, Small, deletion_of, inbound, make_small, rows, running, soon
from tools.base import Tool, ToolContext

INBOX = "SELECT message_id, outcome FROM inbox WHERE kind = 'message' ORDER BY id"
JOINED = "[This came while you were working.]\n"
PHOTO = Media(kind="image", name="cat.png", mime="image/png", reference="file-1")


@dataclass
class Spade:
    """A tool that digs until the test lets it go, and may take its time to put itself away."""

    at_work: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    may_be_put_away: asyncio.Event = field(default_factory=asyncio.Event)
    user_wrote: asyncio.Event | None = None

    def __post_init__(self) -> None:
        self.may_be_put_away.set()

    async def dig(self, arguments: str, context: ToolContext) -> str:
        self.user_wrote = context.user_wrote
        self.at_work.set()
        try:
            await self.may_end.wait()
        finally:
            self.at_work.clear()
            await self.may_be_put_away.wait()
        return "gold"

    @property
    def tool(self) -> Tool:
        return Tool(name="dig", toolset="test", description="", schema={}, run=self.dig)


@asynccontextmanager
async def digging(
    db: Database, spade: Spade, model: ScriptedModel, mode: BusyMode, first: InboundMessage | None = None
) -> AsyncIterator[Small]:
    """A gateway in the middle of a turn: the tool is at work."""

    async def fetch(account: str, media: Media) -> bytes:
        return b"meow"

    async with running(make_small(db, model, tools=[spade.tool], busy_mode=mode, fetch=fetch)) as small:
        await small.say(first or inbound("dig", message_id="1"))
        await soon(spade.at_work.wait())
        yield small


def digs(*answers: str) -> ScriptedModel:
    """Uses the tool once, then gives these answers."""
    return ScriptedModel([asks(call("dig")), *map(assistant, answers)])


def heard(model: ScriptedModel, place: int = -1) -> list[str]:
    """What people had said when the model was asked."""
    return [message.text for message in model.asked[place] if message.role == "user"]


def in_group(text: str, message_id: str, *, sender: str = "42") -> InboundMessage:
    return inbound(text, message_id=message_id, chat="group", kind="group", sender=sender, sent_ms=int(message_id))


# Steer.


async def test_what_its_user_says_joins_the_turn_between_the_tool_and_the_model(db: Database) -> None:
    spade, model = Spade(), digs("gold, and the logs are fine")
    async with digging(db, spade, model, "steer") as small:
        await small.say(inbound("also check the logs", message_id="2", sent_ms=2))
        await small.say(inbound("thanks", message_id="3", sent_ms=3))
        spade.may_end.set()
        assert await small.answer() == "gold, and the logs are fine"
    assert [message.role for message in model.asked[1]] == ["user", "assistant", "tool", "user", "user"]
    assert heard(model) == ["dig", f"{JOINED}also check the logs", f"{JOINED}thanks"]
    [reply] = small.platform.sent
    assert (reply.answers, reply.address.reply_to) == (("1", "2", "3"), "3")
    assert await rows(db, INBOX) == [("1", "answered"), ("2", "answered"), ("3", "answered")]
    assert await rows(db, "SELECT COUNT(*) FROM turns") == [(1,)]
    joined = "SELECT message_id FROM trail JOIN inbox ON inbox.id = inbox_id WHERE event = 'joined' ORDER BY trail.id"
    assert await rows(db, joined) == [("2",), ("3",)]


async def test_when_the_model_needs_no_more_tools_the_next_turn_answers_what_came(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(inbound("and you?", message_id="2", sent_ms=2))
        model.let("dig", "and you?")
        assert [await small.answer() for _ in range(2)] == ["re: dig", "re: and you?"]
    assert [reply.answers for reply in small.platform.sent] == [("1",), ("2",)]


async def test_nobody_joins_a_turn_that_acts_with_somebody_elses_rights(db: Database) -> None:
    spade, model = Spade(), digs("gold", "you are welcome", "so are you")
    async with digging(db, spade, model, "steer", in_group("dig", "1")) as small:
        await small.say(in_group("wipe the disk", "2", sender="666"))
        await small.say(in_group("thanks", "3"))  # behind the other one, and stays there
        spade.may_end.set()
        assert [await small.answer() for _ in range(3)] == ["gold", "you are welcome", "so are you"]
    assert heard(model, 1) == ["Ada:\ndig"]
    assert [reply.answers for reply in small.platform.sent] == [("1",), ("2",), ("3",)]


async def test_files_are_fetched_first_so_their_message_waits_and_none_overtakes_it(db: Database) -> None:
    spade, model = Spade(), digs("gold", "a cat", "bye")
    async with digging(db, spade, model, "steer") as small:
        await small.say(inbound(parts=(Text(text="who is it?"), PHOTO), message_id="2", sent_ms=2))
        await small.say(inbound("hm?", message_id="3", sent_ms=3))
        spade.may_end.set()
        assert [await small.answer() for _ in range(3)] == ["gold", "a cat", "bye"]
    assert heard(model, 1) == ["dig"]
    [*_, asked] = model.asked[2]
    assert [part.size_bytes for part in asked.parts if isinstance(part, Media)] == [4]


async def test_a_command_in_between_is_answered_at_once_and_joins_nothing(db: Database) -> None:
    spade, model = Spade(), digs("gold")
    async with digging(db, spade, model, "steer") as small:
        await small.say(inbound("one more thing", message_id="2", sent_ms=2))
        await small.say(inbound("/status", message_id="3", sent_ms=3))
        assert "A turn is running" in await small.answer()
        spade.may_end.set()
        assert await small.answer() == "gold"
    assert heard(model) == ["dig", f"{JOINED}one more thing"]
    assert small.platform.sent[-1].answers == ("1", "2")


@dataclass
class Hanging(ScriptedModel):
    """Is asked for the second time, and never heard again."""

    hangs: asyncio.Event = field(default_factory=asyncio.Event)

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        if not self.replies:
            self.asked.append(tuple(messages))
            self.hangs.set()
            await asyncio.Event().wait()
        return await super().reply(messages, tools, emit, may_call=may_call)


async def test_a_crash_after_joining_neither_loses_nor_doubles(db: Database) -> None:
    spade, model = Spade(), Hanging([asks(call("dig"))])
    async with digging(db, spade, model, "steer") as small:
        await small.say(inbound("also the logs", message_id="2", sent_ms=2))
        spade.may_end.set()
        await soon(model.hangs.wait())
        await small.say(inbound("hello?", message_id="3", sent_ms=3))
    after = ScriptedModel([assistant("gold and logs"), assistant("here")])
    async with running(make_small(db, after)) as small:
        assert [await small.answer() for _ in range(2)] == ["gold and logs", "here"]
    assert after.asked[0] == model.asked[1]
    assert [reply.answers for reply in small.platform.sent] == [("1", "2"), ("3",)]


async def test_what_came_before_a_crash_joins_the_turn_after_it_as_well(db: Database) -> None:
    spade, model = Spade(), digs()
    async with digging(db, spade, model, "steer") as small:
        await small.say(inbound("also the logs", message_id="2", sent_ms=2))
    after = ScriptedModel([assistant("unknown, and logs")])
    async with running(make_small(db, after)) as small:
        assert await small.answer() == "unknown, and logs"
    assert heard(after) == ["dig", f"{JOINED}also the logs"]
    assert small.platform.sent[0].answers == ("1", "2")


async def test_a_stop_ends_what_has_joined_too(db: Database) -> None:
    spade, model = Spade(), Hanging([asks(call("dig"))])
    async with digging(db, spade, model, "steer") as small:
        await small.say(inbound("also the logs", message_id="2", sent_ms=2))
        spade.may_end.set()
        await soon(model.hangs.wait())
        await small.say(inbound("/stop", message_id="3", sent_ms=3))
        assert await small.answer() == "Stopped."
        await soon(until_idle(small))
    assert small.platform.texts == ["Stopped."]
    assert await rows(db, INBOX) == [("1", "stopped"), ("2", "stopped")]


async def until_idle(small: Small) -> None:
    while small.lanes.running:
        await asyncio.sleep(0)


# Interrupt.


async def test_a_newer_message_ends_a_model_call_at_once_and_is_answered_with_it(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, busy_mode="interrupt")) as small:
        await small.say(inbound("dig", message_id="1"))
        await soon(model.asked.get())
        model.let("no, fill it up")
        await small.say(inbound("no, fill it up", message_id="2", sent_ms=2))
        assert await small.answer() == "re: no, fill it up"
    assert small.platform.sent[0].answers == ("1", "2")
    assert await rows(db, INBOX) == [("1", "superseded"), ("2", "answered")]
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(1,)]


async def test_an_interrupted_tool_is_told_as_such_and_history_is_valid(db: Database) -> None:
    spade, model = Spade(), digs("filled up")
    async with digging(db, spade, model, "interrupt") as small:
        await small.say(inbound("no, fill it up", message_id="2", sent_ms=2))
        assert await small.answer() == "filled up"
    history: list[Message] = list(model.asked[-1])
    assert history == arrange(history)
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant", "user"]
    assert "A newer message of the user interrupted this call of dig" in history[2].text
    assert history[3].text == "(Interrupted by a newer message; not answered yet.)"


async def test_several_that_interrupt_are_one_next_turn(db: Database) -> None:
    spade, model = Spade(), digs("all right")
    spade.may_be_put_away.clear()
    async with digging(db, spade, model, "interrupt") as small:
        for number in ("2", "3", "4"):
            await small.say(inbound(f"text {number}", message_id=number, sent_ms=int(number)))
        spade.may_be_put_away.set()
        assert await small.answer() == "all right"
    assert heard(model) == ["dig", "text 2", "text 3", "text 4"]
    assert small.platform.sent[0].answers == ("1", "2", "3", "4")


async def test_a_chain_of_interruptions_is_answered_in_the_end(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, busy_mode="interrupt")) as small:
        for number in ("1", "2", "3"):
            await small.say(inbound(number, message_id=number, sent_ms=int(number)))
            assert await soon(model.asked.get()) == number
        model.let("3", "4")
        assert await small.answer() == "re: 3"
        await small.say(inbound("4", message_id="4", sent_ms=4))
        assert await small.answer() == "re: 4"
    assert [reply.answers for reply in small.platform.sent] == [("1", "2", "3"), ("4",)]


async def test_nobody_interrupts_what_somebody_else_waits_for(db: Database) -> None:
    spade, model = Spade(), digs("gold", "later", "so be it")
    async with digging(db, spade, model, "interrupt", in_group("dig", "1")) as small:
        await small.say(in_group("stop that", "2", sender="666"))
        await small.say(in_group("faster", "3"))  # comes after the other one, who waits already
        assert spade.at_work.is_set()
        spade.may_end.set()
        assert [await small.answer() for _ in range(3)] == ["gold", "later", "so be it"]
    assert [outcome for (outcome,) in await rows(db, "SELECT outcome FROM turns")] == ["answered"] * 3


async def test_a_message_with_a_file_interrupts_and_a_command_does_not(db: Database) -> None:
    spade, model = Spade(), digs("a cat")
    async with digging(db, spade, model, "interrupt") as small:
        await small.say(inbound("/status", message_id="2", sent_ms=2))
        assert "A turn is running" in await small.answer()
        assert spade.at_work.is_set()
        await small.say(inbound(parts=(PHOTO,), message_id="3", sent_ms=3))
        assert await small.answer() == "a cat"
    assert small.platform.sent[-1].answers == ("1", "3")


async def test_an_interruption_that_was_accepted_holds_after_a_crash(db: Database) -> None:
    small = make_small(db, PacedModel(), busy_mode="interrupt")
    await small.say(inbound("dig", message_id="1"))
    await db.write(turns.begin)
    await small.say(inbound("never mind", message_id="2", sent_ms=2))  # and that process died
    model = PacedModel()
    model.let("never mind")
    async with running(make_small(db, model, busy_mode="interrupt")) as small:
        assert await small.answer() == "re: never mind"
    assert model.asked.get_nowait() == "never mind"
    assert small.platform.sent[0].answers == ("1", "2")
    assert await rows(db, INBOX) == [("1", "superseded"), ("2", "answered")]


async def test_an_answer_that_is_there_is_given_though_a_newer_message_came_just_before(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, busy_mode="interrupt")) as small:
        await small.say(inbound("dig", message_id="1"))
        await soon(model.asked.get())
        newer = asyncio.ensure_future(small.say(inbound("hello", message_id="2", sent_ms=2)))
        await asyncio.sleep(0)  # its unit is in the queue; the answer's comes behind it
        model.let("dig", "hello")
        await soon(newer)
        answers = [(await soon(small.platform.arrived.get())).answers for _ in range(2)]
    assert answers == [("1",), ("2",)]


async def test_when_the_newer_message_is_taken_back_the_older_one_does_not_end_in_nothing(db: Database) -> None:
    spade, model = Spade(), digs()
    spade.may_be_put_away.clear()
    async with digging(db, spade, model, "interrupt") as small:
        newer = inbound("no, wait", message_id="2", sent_ms=2)
        await small.say(newer)
        await small.say(deletion_of(newer))
        spade.may_be_put_away.set()
        assert (await small.answer()).startswith("I stopped working on this for a newer message that is gone.")
    assert await rows(db, INBOX) == [("1", "stopped"), ("2", "deleted")]


async def test_a_stop_after_an_interruption_is_a_stop(db: Database) -> None:
    spade, model = Spade(), digs("hello too")
    spade.may_be_put_away.clear()
    async with digging(db, spade, model, "interrupt") as small:
        await small.say(inbound("hello", message_id="2", sent_ms=2))
        await small.say(inbound("/stop", message_id="3", sent_ms=3))
        assert await small.answer() == "Stopped. 1 waiting message comes next."
        spade.may_be_put_away.set()
        assert await small.answer() == "hello too"
    assert await rows(db, INBOX) == [("1", "stopped"), ("2", "answered")]
    assert small.platform.sent[-1].answers == ("2",)


# Queue and collect.


@pytest.mark.parametrize(
    ("mode", "answers"), [("queue", [("1",), ("2",), ("3",), ("4",)]), ("collect", [("1",), ("2", "3", "4")])]
)
@pytest.mark.parametrize("sender", ["42", "7"])
async def test_what_came_waits_for_turns_of_its_own_or_for_one_together(
    db: Database, mode: BusyMode, answers: list[tuple[str, ...]], sender: str
) -> None:
    spade, model = Spade(), digs("gold", "two", "three", "four")
    async with digging(db, spade, model, mode, in_group("dig", "1")) as small:
        await small.say(in_group("text 2", "2"))
        photo = inbound(parts=(PHOTO,), message_id="3", chat="group", kind="group", sender=sender, sent_ms=3)
        await small.say(photo)
        await small.say(in_group("/status", "9"))
        assert "Waiting: 2" in await small.answer()
        await small.say(in_group("text 4", "4"))
        spade.may_end.set()
        for _ in answers:
            await small.answer()
    assert heard(model, 1) == ["Ada:\ndig"]
    assert [reply.answers for reply in small.platform.sent[1:]] == answers


async def test_what_was_collected_is_one_turn_after_a_crash_too(db: Database) -> None:
    async with digging(db, Spade(), digs(), "collect") as small:
        await small.say(inbound("text 2", message_id="2", sent_ms=2))
        await small.say(inbound("text 3", message_id="3", sent_ms=3))
    after = ScriptedModel([assistant("unknown"), assistant("both")])
    async with running(make_small(db, after, busy_mode="collect")) as small:
        assert [await small.answer() for _ in range(2)] == ["unknown", "both"]
    assert [reply.answers for reply in small.platform.sent] == [("1",), ("2", "3")]


# In every mode.


@pytest.mark.parametrize("mode", ["steer", "queue", "collect"])
async def test_a_tool_that_waits_can_tell_that_somebody_has_written(db: Database, mode: BusyMode) -> None:
    spade, model = Spade(), digs("gold", "hello")
    async with digging(db, spade, model, mode) as small:
        assert spade.user_wrote is not None
        assert not spade.user_wrote.is_set()
        await small.say(inbound("hello", message_id="2", sent_ms=2))
        await soon(spade.user_wrote.wait())
        spade.may_end.set()
        await small.answer()
        assert spade.user_wrote.is_set() is (mode != "steer")


@pytest.mark.parametrize("mode", ["steer", "interrupt", "queue", "collect"])
async def test_stop_is_answered_at_once_and_the_next_turn_waits_for_a_tool_that_takes_its_time(
    db: Database, mode: BusyMode
) -> None:
    spade, model = Spade(), digs("hello too")
    spade.may_be_put_away.clear()
    async with digging(db, spade, model, mode) as small:
        await small.say(inbound("stop", message_id="2", sent_ms=2))
        assert await small.answer() == "Stopped."
        await small.say(inbound("hello", message_id="3", sent_ms=3))
        assert (len(model.asked), small.lanes.running) == (1, 1)
        assert await rows(db, "SELECT state FROM turns") == [("running",)]
        spade.may_be_put_away.set()
        assert await small.answer() == "hello too"
    assert await rows(db, INBOX) == [("1", "stopped"), ("3", "answered")]
