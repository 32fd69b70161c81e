"""What is wrapped around Slack inside the gateway under test: tags on what is sent, steps, and things gone wrong."""

from collections.abc import Callable, Mapping, Sequence
from unittest.mock import patch

from gateway.messages import InboundMessage
from gateway.platforms.rate_limit import Rate
from gateway.platforms.slack import backfill, platform
from gateway.platforms.slack.backfill import CatchingUp
from gateway.platforms.slack.channels import SlackChannel
from gateway.platforms.slack.listener import SlackListener
from gateway.platforms.slack.platform import SlackPlatform
from gateway.platforms.slack.socket import SlackSocket
from gateway.platforms.slack.web_api import Api, Wire
from tests.faults.chat_inside import Reached, carry_tags, send_again_unasked, send_the_newest_first, tag, watch_sends
from tests.faults.points import ACKED, HISTORY_READ, TAKEN

_TAGGED = {"chat.postMessage", "files.completeUploadExternal"}


def prepare() -> None:
    call = Api.call

    async def calling(api: Api, method: str, **arguments: object) -> Wire:
        return await call(api, method, **arguments, **(tag() if method in _TAGGED else {}))

    carry_tags(SlackPlatform)
    patch.object(Api, "call", calling).start()
    patch.object(platform, "Rate", lambda **_: Rate()).start()  # nobody could wait that long


def watch_steps(reached: Reached) -> None:
    take, accept, answer = CatchingUp._take, SlackListener.accept, SlackSocket._answer

    async def taking(reader: CatchingUp, room: SlackChannel, shown: list[Wire]) -> int:
        if shown:
            reached(HISTORY_READ)
        return await take(reader, room, shown)

    async def accepting(listener: SlackListener, room: SlackChannel, messages: Sequence[InboundMessage]) -> None:
        await accept(listener, room, messages)
        reached(TAKEN)

    async def answering(socket: SlackSocket, envelope: Wire) -> None:
        await answer(socket, envelope)
        reached(ACKED)

    patch.object(CatchingUp, "_take", taking).start()
    patch.object(SlackListener, "accept", accepting).start()
    patch.object(SlackSocket, "_answer", answering).start()
    watch_sends(SlackPlatform, reached)


# What the ledger must notice.


def _ack_first() -> None:
    """And nobody looks for conversations that were never heard of: that would bring it all the same."""
    answer = SlackSocket._answer

    async def looking(reader: CatchingUp) -> None:
        return None

    async def answering(socket: SlackSocket, envelope: Wire) -> None:
        await socket._link.send_json({"envelope_id": envelope["envelope_id"]})
        await answer(socket, envelope)

    patch.object(SlackSocket, "_answer", answering).start()
    patch.object(CatchingUp, "_look_for_unheard", looking).start()


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
    async def reading(reader: CatchingUp, room: SlackChannel) -> int:
        return 0

    patch.object(CatchingUp, "_read", reading).start()


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
