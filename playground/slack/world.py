"""Who and what there is: the workspace, its users, channels, messages and files. It decides nothing."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from playground.events import EventLog
from playground.slack.text import as_read, blocks_text
from playground.wire import Wire

ChannelKind = Literal["channel", "group", "mpim", "im"]  # as events name them in `channel_type`

SLACKBOT = "USLACKBOT"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(slots=True, kw_only=True)
class User:
    id: str
    name: str
    real_name: str = ""
    display_name: str = ""  # empty: the name
    tz: str = "Europe/Amsterdam"
    is_bot: bool = False
    bot_id: str = ""
    app_id: str = ""
    deleted: bool = False
    team_id: str = ""

    @property
    def wire(self) -> Wire:
        real_name = self.real_name or self.name
        shown = self.display_name or self.name
        profile: Wire = {"real_name": real_name, "display_name": shown, "team": self.team_id, "status_text": ""}
        if self.is_bot:
            profile |= {"bot_id": self.bot_id, "api_app_id": self.app_id}
        wire: Wire = {"id": self.id, "team_id": self.team_id, "name": self.name, "deleted": self.deleted}
        wire |= {"real_name": real_name, "tz": self.tz, "tz_label": "Local Time", "tz_offset": 3600}
        wire |= {"profile": profile, "is_bot": self.is_bot, "is_app_user": False, "updated": 1_700_000_000}
        flags = ("is_admin", "is_owner", "is_primary_owner", "is_restricted", "is_ultra_restricted")
        return wire | dict.fromkeys(flags, False)

    @property
    def bot_profile(self) -> Wire:
        wire = {"id": self.bot_id, "app_id": self.app_id, "user_id": self.id, "name": self.real_name or self.name}
        return {**wire, "icons": {}, "deleted": False, "updated": 1_700_000_000, "team_id": self.team_id}


@dataclass(slots=True, kw_only=True)
class Post:
    """A message and what became of it. `body` is the message as the history gives it, metadata included."""

    body: Wire
    by_bot: bool = False  # by the bot that is connected here
    deleted: bool = False
    for_user: str = ""  # an ephemeral message: seen by this user alone, and in no history
    earlier: list[str] = field(default_factory=list)  # what it said before edits

    @property
    def ts(self) -> str:
        ts: str = self.body["ts"]
        return ts

    @property
    def thread_ts(self) -> str:
        """Of the thread it is in, as parent or reply; empty outside of threads."""
        ts: str = self.body.get("thread_ts", "")
        return ts

    @property
    def is_reply(self) -> bool:
        return self.thread_ts not in ("", self.ts)

    @property
    def words(self) -> str:
        """What people read: the blocks, or without any the text."""
        blocks = self.body.get("blocks")
        own = [block for block in blocks if block["type"] != "rich_text"] if blocks else []
        return as_read(blocks_text(own) or self.body.get("text", ""))


@dataclass(slots=True, kw_only=True)
class Channel:
    id: str
    kind: ChannelKind
    name: str = ""
    user_id: str = ""  # the other side of an im
    created: int = 1_700_000_000
    archived: bool = False
    restricted: bool = False  # only admins may post
    members: list[str] = field(default_factory=list)
    posts: dict[str, Post] = field(default_factory=dict)
    threads: dict[str, list[Post]] = field(default_factory=dict)  # replies by the parent's ts
    ephemeral: list[Post] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)  # what the assistant says it is doing, by thread

    def post(self, ts: str) -> Post | None:
        """A message that is still there."""
        post = self.posts.get(ts)
        return None if post is None or post.deleted else post

    @property
    def wire(self) -> Wire:
        wire: Wire = {"id": self.id, "created": self.created, "is_archived": self.archived, "is_im": False}
        if self.kind == "im":
            wire |= {"is_im": True, "user": self.user_id, "is_user_deleted": False, "is_open": True}
            return {**wire, "is_org_shared": False, "priority": 0}
        private = self.kind != "channel"
        wire |= {"name": self.name, "name_normalized": self.name, "is_channel": self.kind == "channel"}
        wire |= {"is_group": self.kind == "group", "is_mpim": self.kind == "mpim", "is_private": private}
        wire |= {"is_general": False, "is_shared": False, "is_ext_shared": False, "is_org_shared": False}
        for name in ("topic", "purpose"):
            wire[name] = {"value": "", "creator": "", "last_set": 0}
        return {**wire, "creator": self.members[0] if self.members else "", "num_members": len(self.members)}


@dataclass(slots=True, kw_only=True)
class StoredFile:
    id: str
    name: str
    title: str
    user_id: str
    size: int
    mime_type: str
    created: int
    content: bytes | None = None  # None: nothing was uploaded yet
    shared: bool = False
    channels: list[str] = field(default_factory=list)


class World:
    """Everything the server remembers. Survives the bot, not the server."""

    def __init__(self, *, bot_name: str, events: EventLog, root: Callable[[], str]) -> None:
        self.events = events
        self.root = root  # the address that links begin with, once it is known
        self.team_id, self.app_id = "T0PLAYGRND1", "A0PLAYGRND1"
        self.team_name, self.team_domain = "Playground", "playground"
        self.bot = User(id="U0PLAYBOT01", name=bot_name, is_bot=True, bot_id="B0PLAYBOT01", app_id=self.app_id)
        self.bot.team_id = self.team_id
        self.users: dict[str, User] = {self.bot.id: self.bot}
        self.users[SLACKBOT] = User(id=SLACKBOT, name="slackbot", team_id=self.team_id)
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, StoredFile] = {}
        self.now: Callable[[], float] = time.time
        self.edit_window_seconds: float | None = None
        self.scopes: frozenset[str] = frozenset()  # of the bot's token
        self.emit: Callable[[str, Wire], None] = lambda subscription, event: None
        self._ids = itertools.count(1)
        self._last_ts = 0

    def new_id(self, prefix: str) -> str:
        """An id not given before, that looks like Slack's."""
        number, digits = next(self._ids) * 7919, ""
        while number:
            number, rest = divmod(number, 36)
            digits = _DIGITS[rest] + digits
        return f"{prefix}0P{digits.rjust(8, '0')}"

    def next_ts(self) -> str:
        """Unique and growing, over all channels."""
        self._last_ts = max(int(self.now() * 1_000_000), self._last_ts + 1)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def im_with(self, user_id: str) -> Channel:
        """The direct channel of the bot and this user, made when first asked for."""
        for channel in self.channels.values():
            if channel.kind == "im" and channel.user_id == user_id:
                return channel
        made = Channel(id=self.new_id("D"), kind="im", user_id=user_id, members=[user_id, self.bot.id])
        self.channels[made.id] = made
        return made

    def hears(self, channel: Channel) -> bool:
        return self.bot.id in channel.members

    def show(self, channel_id: str, *, deleted: bool = False, thread: str = "") -> list[Wire]:
        """The channel as its people see it, in order; replies carry their thread, `thread` gives one alone."""
        channel = self.channels[channel_id]
        posts = sorted([*channel.posts.values(), *channel.ephemeral], key=lambda post: post.ts)
        return [
            _shown(channel, post)
            for post in posts
            if (deleted or not post.deleted) and (not thread or thread in (post.ts, post.thread_ts))
        ]


def _shown(channel: Channel, post: Post) -> Wire:
    shown: Wire = {"by_bot": post.by_bot, "message": dict(post.body), "text": post.words, "ts": post.ts}
    for name in ("deleted", "earlier", "for_user"):
        if value := getattr(post, name):
            shown[name] = value
    if post.is_reply:
        shown["thread"] = post.thread_ts
        if post.thread_ts not in channel.posts:
            shown["orphan"] = True  # answers a message that never was: nobody sees it
    if buttons := [button["text"]["text"] for button in buttons_of(post)]:
        shown["buttons"] = buttons
    return shown


def buttons_of(post: Post) -> list[Wire]:
    """With the id of their block."""
    found = []
    for block in post.body.get("blocks", ()):
        elements = block.get("elements", ()) if block["type"] == "actions" else [block.get("accessory") or {}]
        found += [{**one, "block_id": block["block_id"]} for one in elements if one.get("type") == "button"]
    return found
