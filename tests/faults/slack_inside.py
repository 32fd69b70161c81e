"""What is wrapped around Slack inside the gateway under test: tags on what is sent, steps, and things gone wrong."""

from collections.abc import Callable, Mapping, Sequence
from unittest.mock import patch

from gateway.messages import InboundMessage
from gateway.platforms.rate_limit import Rate
from gateway.platforms.slack import backfill, platform
from gateway.platforms.slack.backfill import Backfill
from gateway.platforms.slack.channels import SlackChannel
from gateway.platforms.slack.listener import SlackListener
from gateway.platforms.slack.platform import SlackPlatform
from gateway.platforms.slack.socket import SlackSocket
from gateway.platforms.slack.web_api import SlackWebApi, Wire
from tests.faults.chat_inside import Reached, carry_tags, send_again_unasked, send_the_newest_first, tag, watch_sends
from tests.faults.points import ACKED, HISTORY_READ, TAKEN

_TAGGED = {"chat.postMessage", "files.completeUploadExternal"}


def prepare() -> None:
    call = SlackWebApi.call

    async def calling(api: SlackWebApi, method: str, **arguments: object) -> Wire:
        return await call(api, method, **arguments, **(tag() if method in _TAGGED else {}))

    carry_tags(SlackPlatform)
    patch.object(SlackWebApi, "call", calling).start()
    patch("gateway.platforms.slack.spec.Rate", lambda **_: Rate()).start()  # nobody could wait that long


def watch_steps(reached: Reached) -> None:
    take, accept, answer = Backfill._accept, SlackListener.accept, SlackSocket._handle_envelope

    async def taking(reader: Backfill, room: SlackChannel, shown: list[Wire]) -> int:
        if shown:
            reached(HISTORY_READ)
        return await take(reader, room, shown)

    async def accepting(listener: SlackListener, room: SlackChannel, messages: Sequence[InboundMessage]) -> None:
        await accept(listener, room, messages)
        reached(TAKEN)

    async def answering(socket: SlackSocket, envelope: Wire) -> None:
        await answer(socket, envelope)
        reached(ACKED)

    patch.object(Backfill, "_accept", taking).start()
    patch.object(SlackListener, "accept", accepting).start()
    patch.object(SlackSocket, "_handle_envelope", answering).start()
    watch_sends(SlackPlatform, reached)


# What the ledger must notice.


def _ack_first() -> None:
    """And nobody looks for conversations that were never heard of: that would bring it all the same."""
    answer = SlackSocket._handle_envelope

    async def looking(reader: Backfill) -> None:
        return None

    async def answering(socket: SlackSocket, envelope: Wire) -> None:
        await socket.link.send_json({"envelope_id": envelope["envelope_id"]})
        await answer(socket, envelope)

    patch.object(SlackSocket, "_handle_envelope", answering).start()
    patch.object(Backfill, "_find_new_channels", looking).start()


def _move_the_cursor_first() -> None:
    """And nothing before it is read over again: that would bring it all the same."""
    accept = SlackListener.accept

    async def accepting(listener: SlackListener, room: SlackChannel, messages: Sequence[InboundMessage]) -> None:
        behind_it = f"{float(max(one.message_id for one in messages)) + 0.001:.6f}"
        await listener.inlet.accept((), room.cursor(behind_it))
        await accept(listener, room, messages)

    patch.object(SlackListener, "accept", accepting).start()
    patch.object(backfill, "_OVERLAP_SECONDS", 0).start()


def _read_no_history() -> None:
    async def reading(reader: Backfill, room: SlackChannel) -> int:
        return 0

    patch.object(Backfill, "_read_history", reading).start()


def _take_any_message_for_ours() -> None:
    patch.object(platform, "is_copy", lambda shown, letter: True).start()
    patch.object(platform, "is_our_own", lambda shown, me: True).start()


BREAKS: Mapping[str, Callable[[], None]] = {
    "ack first": _ack_first,
    "cursor first": _move_the_cursor_first,
    "no history": _read_no_history,
    "resend": lambda: send_again_unasked(SlackPlatform),
    "any will do": _take_any_message_for_ours,
    "newest first": send_the_newest_first,
}
