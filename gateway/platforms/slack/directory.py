"""What people and channels are called: asked once in a while, and done without when Slack does not say."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable

import structlog

from gateway.platforms.slack.parsing import PlaceKind, SlackPlace
from gateway.platforms.slack.web_api import Api, Refused, SlackProblem, Wire
from gateway.platforms.text import one_line

log = structlog.get_logger()

_PATIENCE_SECONDS = 1.5  # Slack waits three for the acknowledgement
_GOOD_FOR_SECONDS = 3600.0
_FAILED_FOR_SECONDS = 60.0
_REMEMBERED = 2_000
_NOT_FOR_US = ("channel_not_found", "not_in_channel")
_KINDS: dict[str, PlaceKind] = {"im": "dm", "mpim": "group", "channel": "channel", "group": "channel"}


class Directory:
    def __init__(self, api: Api, account: str) -> None:
        self._api = api
        self._account = account
        self._known: OrderedDict[str, tuple[float, Wire]] = OrderedDict()
        self._missing_scopes: set[str] = set()

    async def names(self, people: Iterable[str]) -> dict[str, str]:
        """By id; those that could not be learnt are empty."""
        ids = sorted(set(people))
        found = await asyncio.gather(*(self._ask("users.info", "user", one) for one in ids))
        return dict(zip(ids, map(_name, found), strict=True))

    async def place(self, channel: str, channel_type: object = None) -> SlackPlace:
        """`channel_type` is what an event says of it, if it does."""
        kind = _KINDS.get(str(channel_type)) or ("dm" if channel.startswith("D") else None)
        if kind == "dm":
            return SlackPlace(id=channel, kind="dm")
        told = await self._ask("conversations.info", "channel", channel)
        if kind is None:
            kind = "dm" if told.get("is_im") else "group" if told.get("is_mpim") else "channel"
        return SlackPlace(id=channel, kind=kind, name=one_line(told.get("name")))

    async def can_speak_in(self, channel: str) -> bool:
        """Whether we are in there; True when Slack does not say. Asked each time: who is told no invites us at once."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                told = (await self._api.call("conversations.info", channel=channel)).get("channel")
        except (SlackProblem, TimeoutError) as error:
            self._say_why(error)
            return not (isinstance(error, Refused) and error.error in _NOT_FOR_US)
        return not isinstance(told, dict) or told.get("is_member") is not False

    async def opening(self, channel: str, thread: str) -> Wire:
        """The first message of a thread; empty when it cannot be had in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                answer = await self._api.call("conversations.replies", channel=channel, ts=thread, limit=1)
        except (SlackProblem, TimeoutError) as error:
            self._say_why(error)
            return {}
        first = next(iter(answer.get("messages") or ()), None)
        return first if isinstance(first, dict) else {}

    async def _ask(self, method: str, argument: str, id_: str) -> Wire:
        until, known = self._known.get(id_, (0.0, {}))
        if until > time.monotonic():
            self._known.move_to_end(id_)
            return known
        good_for = _FAILED_FOR_SECONDS
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                told = (await self._api.call(method, **{argument: id_})).get(argument)
            if isinstance(told, dict):
                known, good_for = told, _GOOD_FOR_SECONDS
        except (SlackProblem, TimeoutError) as error:
            self._say_why(error)
        self._known[id_] = time.monotonic() + good_for, known
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def _say_why(self, error: Exception) -> None:
        if isinstance(error, Refused) and error.needed and error.needed not in self._missing_scopes:
            self._missing_scopes.add(error.needed)
            log.warning("names stay unknown", account=self._account, missing_scope=error.needed)


def _name(user: Wire) -> str:
    profile = user.get("profile")
    shown = profile.get("display_name") or profile.get("real_name") if isinstance(profile, dict) else ""
    return one_line(shown or user.get("real_name") or user.get("name"))
