"""Connect a platform: its way in to the store, and its deliveries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.inbound.intake import Intake
from gateway.messages import Cursor, InboundMessage
from gateway.outbound.delivery import NATURAL_PAUSE_MS, Delivery, DeliveryLimits
from gateway.platforms.base import Inlet, Platform
from gateway.store import chats, pairing, restored
from gateway.store.db.connection import Transaction
from gateway.store.outbox import Outgoing
from gateway.supervisor import ConnectionStatus
from hermes_config.redaction import Redactor
from hermes_config.settings import DisplaySettings, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A platform with its inlet, its connection status and its delivery."""

    platform: Platform
    inlet: Inlet
    status: ConnectionStatus
    delivery: Delivery


def connect(platform: Platform, intake: Intake, settings: Settings, redactor: Redactor) -> Connected:
    limits = DeliveryLimits(
        sends_at_once=settings.gateway.max_sends_per_account,
        send_timeout_seconds=settings.gateway.send_timeout_seconds,
        pause_ms=_pause_ms(settings.display),
    )

    status = ConnectionStatus(account=platform.account, changes=intake.changes)
    codes = intake.pairing_limits

    def compose_code(tx: Transaction, row: Outgoing) -> str | None:
        return pairing.compose_code(tx, row.message.address.account, row.message.address.chat, codes)

    delivery = Delivery(
        intake.db,
        platform,
        lambda: status.is_connected,
        limits,
        redactor=redactor,
        compose={pairing.CODE_TOPIC: compose_code},
    )
    intake.changes.subscribe("outbox", delivery.wake, account=platform.account)

    async def accept(messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        await intake.accept(messages, cursor, account=platform.account, local=platform.features.local)

    async def cursor_of(channel: str) -> str:
        return await intake.db.read(lambda tx: chats.read_cursor(tx, platform.account, channel))

    async def all_cursors() -> Mapping[str, str]:
        return await intake.db.read(lambda tx: chats.read_cursors(tx, platform.account))

    async def history_since_ms() -> int:
        return await intake.db.read(restored.went_back_ms)

    async def moved(old: str, new: str) -> None:
        await intake.db.write_when_possible(lambda tx: chats.move(tx, platform.account, old, new))
        intake.changes.notify("outbox", account=platform.account)

    inlet = Inlet(
        accept=accept,
        cursor=cursor_of,
        cursors=all_cursors,
        alive=status.report_alive,
        chat_reachable=delivery.reachable,
        chat_moved=moved,
        history_since_ms=history_since_ms,
        serves=intake.serves,
    )
    return Connected(platform=platform, inlet=inlet, status=status, delivery=delivery)


def _pause_ms(display: DisplaySettings) -> tuple[int, int]:
    match display.human_delay_mode:
        case "off":
            return 0, 0
        case "natural":
            return NATURAL_PAUSE_MS
        case "custom":
            shortest = display.human_delay_min_ms
            return shortest, max(shortest, display.human_delay_max_ms)
