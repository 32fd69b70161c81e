"""The whole path of a message between a model and a platform that both answer at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_core.conversation import Message, assistant
from agent_core.events import Emit, TextDelta, Usage
from gateway.changes import Changes
from gateway.commands.catalog import make_commands
from gateway.commands.runner import CommandRunner
from gateway.errors import MediaUnavailable
from gateway.inbound.intake import Intake
from gateway.media.incoming import Attachments
from gateway.messages import Media, OutboundMessage, Receipt
from gateway.outbound.delivery import Delivery, DeliveryLimits
from gateway.platforms.base import Features, Inlet
from gateway.platforms.rate_limit import RateLimits
from gateway.policies.access import Rules
from gateway.store.db.database import Database
from gateway.store.inspect import read_counts
from gateway.store.media import MediaFiles
from gateway.turns.lanes import Lanes
from gateway.turns.responder import Responder
from hermes_config.redaction import Redactor
from hermes_config.settings import GatewaySettings, Settings
from tests.bench.scratch import ACCOUNT, inbound, scratch_store
from tests.gateway.scene import make_runner
from tools.base import Tool

ANSWER = "The build broke in the linker: a symbol was removed, and one test still used it."


@dataclass(slots=True)
class InstantModel:
    name: str = "instant"

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        emit(TextDelta(text=ANSWER))
        emit(Usage(input_tokens=100, output_tokens=20))
        return assistant(ANSWER)


@dataclass(slots=True)
class InstantPlatform:
    account: str = ACCOUNT
    features: Features = field(default_factory=lambda: Features(resend="safe", local=True))
    rate_limits: RateLimits = field(default_factory=RateLimits)
    waiting: dict[tuple[str, str], asyncio.Future[float]] = field(default_factory=dict)

    async def run(self, inlet: Inlet) -> None:
        await asyncio.Event().wait()

    async def send(self, message: OutboundMessage) -> Receipt:
        for answered in message.answers:
            self.waiting.pop((message.address.chat, answered)).set_result(time.perf_counter())
        return Receipt(message_id=message.key)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        raise MediaUnavailable("nothing is attached here")

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallGateway:
    db: Database
    intake: Intake
    platform: InstantPlatform
    delivery: Delivery

    async def ask(self, chat: str, message_id: str, text: str) -> float:
        """Hands a message in; gives the seconds until its answer is handed to the platform."""
        answered = asyncio.get_running_loop().create_future()
        self.platform.waiting[chat, message_id] = answered
        began = time.perf_counter()
        await self.intake.accept([inbound(chat, message_id, text)], None, account=ACCOUNT, local=True)
        sent: float = await answered
        return sent - began

    async def settle(self) -> None:
        """Returns when every answer is marked as sent."""
        await self.delivery.flush()
        assert (await self.db.read(read_counts))["undelivered"] == 0


def build_responder(db: Database, folder: Path) -> Responder:
    async def fetch(account: str, media: Media) -> bytes:
        raise MediaUnavailable("nothing is attached here")

    settings = Settings()
    runner = make_runner(
        db, InstantModel(), settings=settings, tool_slots=asyncio.Semaphore(settings.gateway.max_tool_runs)
    )
    attachments = Attachments(db=db, files=MediaFiles({"file": folder / "files"}), fetch=fetch)
    return Responder(runner=runner, attachments=attachments)


@asynccontextmanager
async def small_gateway(folder: Path) -> AsyncIterator[SmallGateway]:
    settings = GatewaySettings()
    async with scratch_store(folder) as db:
        platform = InstantPlatform()
        next_command = CommandRunner(commands=make_commands(), model_name="instant").handle_next
        changes = Changes()
        lanes = Lanes(db, build_responder(db, folder), next_command, max_turns=settings.max_turns, changes=changes)
        intake = Intake(db=db, rules=Rules(), changes=changes)
        delivery = Delivery(
            db,
            platform,
            lambda: True,
            DeliveryLimits(sends_at_once=settings.max_sends_per_account),
            redactor=Redactor(),
        )
        changes.subscribe("inbox", lanes.wake)
        changes.subscribe("outbox", delivery.wake)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(lanes.run()), group.create_task(delivery.run())]
            await lanes.recovered.wait()
            yield SmallGateway(db=db, intake=intake, platform=platform, delivery=delivery)
            for task in tasks:
                task.cancel()
