"""The cast of these tests: messages, a platform and a model that do what the test says, and a small gateway."""

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit, Usage
from agent_core.model import Model, ModelError
from gateway.changes import Changes
from gateway.commands.catalog import make_commands
from gateway.commands.registry import Commands
from gateway.commands.runner import CommandRunner
from gateway.errors import MediaUnavailable, StoreUnavailable
from gateway.inbound.intake import Intake, IntakePolicy
from gateway.media.incoming import Attachments, Fetch
from gateway.messages import InboundMessage, Media, MediaKind, OutboundMessage, Part, Receipt, Sender, SessionKey, Text
from gateway.outbound.delivery import Delivery, DeliveryLimits
from gateway.platforms.base import Features, Inlet
from gateway.platforms.rate_limit import RateLimits
from gateway.policies.access import Role, Rules
from gateway.store import inbox, people, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import BusyMode
from gateway.store.media import MediaFiles
from gateway.store.turns import Turn
from gateway.turns.compacting import Compacting
from gateway.turns.lanes import Lanes
from gateway.turns.responder import Responder
from gateway.turns.runner import TurnRunner
from hermes_config.redaction import Redactor
from hermes_config.settings import AgentSettings, GatewaySettings, Settings
from tests.agent_core.scripted import ScriptedModel
from tools.base import Tool

T = TypeVar("T")
ACCOUNT = "pigeon"


async def soon(awaited: Awaitable[T], *, seconds: float = 10.0) -> T:
    async with asyncio.timeout(seconds):
        return await awaited


def inbound(
    text: str = "hello",
    *,
    message_id: str = "1",
    chat: str = "home",
    kind: str = "dm",
    user: str = "",
    sender: str = "42",
    name: str = "Ada",
    parts: tuple[Part, ...] | None = None,
    sent_ms: int = 1,
) -> InboundMessage:
    return InboundMessage(
        key=SessionKey(platform=ACCOUNT, kind=kind, chat=chat, user=user),
        message_id=message_id,
        sender=Sender(id=sender, name=name),
        parts=(Text(text=text),) if parts is None else parts,
        sent_ms=sent_ms,
    )


def edit_of(message: InboundMessage, *, edited_ms: int = 10) -> InboundMessage:
    """The message as it reads from now on."""
    return replace(message, kind="edit", edited_ms=edited_ms, sent_ms=edited_ms, more_follows=False)


def deletion_of(message: InboundMessage, *, sent_ms: int = 10) -> InboundMessage:
    return replace(message, kind="deletion", parts=(Text(text="deleted"),), sent_ms=sent_ms, about=message.message_id)


def reaction_to(message_id: str, emoji: str = "👍", *, chat: str = "home", sent_ms: int = 10) -> InboundMessage:
    said = inbound(emoji, message_id=f"{message_id}:42:{sent_ms}", chat=chat, sent_ms=sent_ms)
    return replace(said, kind="reaction", about=message_id)


async def rows(db: Database, sql: str, *values: str | int) -> list[tuple[Any, ...]]:
    return await db.read(lambda tx: [tuple(row) for row in tx.all(sql, *values)])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process is in the middle of a write that takes long."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def set_clock_back(monkeypatch: pytest.MonkeyPatch, *, ms: int = 3_600_000) -> None:
    wall_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - ms * 1_000_000)


async def refused_twice(db: Database) -> None:
    """Two writes in a row fail: what was handed in before the first was over has been tried by the second."""
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await db.write(lambda tx: None)


@dataclass
class Pigeon:
    """A platform that keeps what it is to send, and fails as the test wishes."""

    account: str = ACCOUNT
    features: Features = field(default_factory=lambda: Features(resend="never"))
    sent: list[OutboundMessage] = field(default_factory=list)
    arrived: asyncio.Queue[OutboundMessage] = field(default_factory=asyncio.Queue)
    on_send: Callable[[OutboundMessage], Awaitable[None]] | None = None
    rate_limits: RateLimits = field(default_factory=RateLimits)
    on_find: Callable[[OutboundMessage], Receipt | None] = lambda message: None
    pieces: int = 1  # in how many an answer is sent

    async def run(self, inlet: Inlet) -> None:
        inlet.alive()
        await asyncio.Event().wait()

    async def send(self, message: OutboundMessage) -> Receipt:
        if self.on_send is not None:
            await self.on_send(message)
        self.sent.append(message)
        self.arrived.put_nowait(message)
        more = not message.edits and message.notify and message.piece + 1 < self.pieces
        return Receipt(message_id=f"receipt {len(self.sent)}", more=more)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        raise MediaUnavailable("pigeons carry no files")

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        return self.on_find(message)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.sent]


async def begin(db: Database, *messages: InboundMessage, role: Role = "member") -> Turn:
    """Take messages of one sender and begin their turn."""

    def unit(tx: Transaction) -> Turn | None:
        for message in messages:
            person = people.recognise(tx, ACCOUNT, message.sender, role=role)
            inbox.insert(tx, message, person_id=person, role=role)
        return turns.begin(tx)

    turn = await db.write(unit)
    assert turn is not None
    return turn


def unhappy() -> ScriptedModel:
    return ScriptedModel([ModelError("The key was refused. Check it with `hermes config check`.")])


class PacedModel:
    """Answers a text once the test lets it."""

    name = "paced"

    def __init__(self) -> None:
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def let(self, *texts: str) -> None:
        for text in texts:
            self._gates[text].set()

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        text = messages[-1].text
        self.asked.put_nowait(text)
        await self._gates[text].wait()
        emit(Usage(input_tokens=10, output_tokens=1))
        return assistant(f"re: {text}")


async def _nothing_to_fetch(account: str, media: Media) -> bytes:
    raise MediaUnavailable("nothing is attached here")


def make_runner(
    db: Database, model: Model, *, tools: Sequence[Tool] = (), settings: Settings | None = None, **parts: Any
) -> TurnRunner:
    async def offer(*_: Any) -> Sequence[Tool]:
        return tools

    given: dict[str, Any] = {"compacting": Compacting(db=db), "choose_model": lambda name: model} | parts
    settings = settings or Settings(agent=AgentSettings(max_iterations=5))
    return TurnRunner(db=db, settings=settings, model=model, offer_tools=offer, **given)


def make_responder(db: Database, model: Model, *, fetch: Fetch = _nothing_to_fetch, **parts: Any) -> Responder:
    """`parts` are those of `make_runner`."""
    folder = db.path.parent / "cache"
    kinds: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
    attachments = Attachments(db=db, files=MediaFiles(dict.fromkeys(kinds, folder)), fetch=fetch)
    return Responder(runner=make_runner(db, model, **parts), attachments=attachments)


@dataclass(frozen=True, kw_only=True)
class Small:
    """Everything between a platform and a model, without the process around it."""

    db: Database
    intake: Intake
    lanes: Lanes
    delivery: Delivery
    platform: Pigeon
    changes: Changes

    async def say(self, *messages: InboundMessage) -> None:
        await self.intake.accept(messages, None, account=ACCOUNT, local=True)

    async def answer(self) -> str:
        """The next text that arrives in a chat."""
        return (await soon(self.platform.arrived.get())).text


def make_small(
    db: Database,
    model: Model,
    *,
    tools: Sequence[Tool] = (),
    max_turns: int = 10,
    max_waiting: int = 20,
    commands: Commands | None = None,
    platform: Pigeon | None = None,
    fetch: Fetch = _nothing_to_fetch,
    busy_mode: BusyMode = "steer",
) -> Small:
    command_runner = CommandRunner(commands=commands or make_commands(), model_name=model.name)
    settings = Settings(agent=AgentSettings(max_iterations=5), gateway=GatewaySettings(busy_mode=busy_mode))
    responder = make_responder(db, model, tools=tools, fetch=fetch, settings=settings)
    changes = Changes()
    lanes = Lanes(db, responder, command_runner.handle_next, max_turns=max_turns, changes=changes)
    platform = platform or Pigeon()
    delivery = Delivery(db, platform, lambda: True, DeliveryLimits(), redactor=Redactor())
    intake = Intake(
        db=db,
        rules=Rules(),
        policy=IntakePolicy(max_waiting_per_session=max_waiting, busy_mode=busy_mode),
        changes=changes,
    )
    changes.subscribe("inbox", lanes.wake)
    changes.subscribe("outbox", delivery.wake)
    return Small(db=db, intake=intake, lanes=lanes, delivery=delivery, platform=platform, changes=changes)


@asynccontextmanager
async def running(small: Small) -> AsyncIterator[Small]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(small.lanes.run()), group.create_task(small.delivery.run())]
        await soon(small.lanes.recovered.wait())
        yield small
        for task in tasks:
            task.cancel()
