"""Answers that are seen growing: a preview in private chats, a message that is edited elsewhere."""

import zlib

from telegram.error import BadRequest

from gateway.errors import PlatformUnavailable
from gateway.messages import OutboundMessage
from gateway.platforms.base import DraftStyle, Known
from gateway.platforms.pace import Pace
from gateway.platforms.telegram.errors import Refusal, refusal
from gateway.platforms.telegram.letter import entities_of, place_of
from gateway.platforms.telegram.line import ListeningBot
from gateway.platforms.telegram.markdown import render

PREVIEW = DraftStyle(interval_seconds=1.0, max_units=3_500, fades=True)
MESSAGE = DraftStyle(interval_seconds=4.0, max_units=3_500)  # a group takes twenty messages a minute, edits too
_MOST_PROBED = 50
_KEPT_FOR_ANSWERS = 5  # of what may be said in a group at once
_REMEMBERED_PROBES = 10_000


async def show_preview(bot: ListeningBot, draft: OutboundMessage) -> None:
    """It is gone after thirty seconds, or with the next message."""
    chat, thread = place_of(draft.address)
    written = render(draft.text)
    await bot.send_message_draft(
        chat,
        zlib.crc32(draft.key.encode()) or 1,
        written[0].text if written else "",
        message_thread_id=thread,
        entities=entities_of(written[0]) if written else None,
    )


class Probes:
    """Finds a draft whose id we never learned.

    Telegram tells no bot what it has said. But only one's own messages can be edited: an edit that changes nothing
    tells them apart. Asked only about messages between the one that is answered and one of ours that was said since,
    and only while every other one of ours among them is known: what is found then can be nothing but the draft.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._not_ours: set[tuple[int, int]] = set()  # chat and message

    async def find(self, bot: ListeningBot, draft: OutboundMessage, known: Known) -> int | None:
        chat, _ = place_of(draft.address)
        answered, ours = draft.address.reply_to, {int(one) for one in known.ids if one.isdecimal()}
        if not answered.isdecimal():
            return None
        if not known.is_all or not ours:
            raise PlatformUnavailable("it cannot be told yet which messages are ours")
        numbers = range(int(answered) + 1, max(ours))
        candidates = [one for one in numbers if one not in ours and (chat, one) not in self._not_ours]
        if len(candidates) > _MOST_PROBED:
            return None
        for number in candidates:
            if self._pace.room(str(chat)) <= _KEPT_FOR_ANSWERS:
                raise PlatformUnavailable("the group has to rest before more can be asked")
            self._pace.spend(str(chat))
            if await _is_ours(bot, chat, number):
                return number
            self._remember(chat, number)
        return None

    def _remember(self, chat: int, number: int) -> None:
        if len(self._not_ours) >= _REMEMBERED_PROBES:
            self._not_ours.clear()
        self._not_ours.add((chat, number))


async def _is_ours(bot: ListeningBot, chat: int, number: int) -> bool:
    """One with buttons loses them, but every one that had any is known."""
    try:
        await bot.edit_message_reply_markup(chat, number, reply_markup=None)
    except BadRequest as error:
        return refusal(error) is Refusal.UNCHANGED
    return False
