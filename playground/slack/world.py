"""The workspace of Slack: its users, channels, messages and files."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from playground.slack.rules import USUAL_SCOPES, SlackRefusal
from playground.slack.text import blocks_text, unescape
from playground.wire import Wire
from playground.world import ChatRoom, Post, StoredFile, World

ChannelKind = Literal["channel", "group", "mpim", "im"]  # as events name them in `channel_type`

SLACKBOT = "USLACKBOT"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CREATED = 1_700_000_000


@dataclass(slots=True, kw_only=True)
class SlackUser:
    id: str
    name: str
    real_name: str = ""
    display_name: str = ""  # empty: the name
    is_bot: bool = False
    bot_id: str = ""
    app_id: str = ""
    team_id: str = ""

    @property
    def wire(self) -> Wire:
        real_name = self.real_name or self.name
        profile: Wire = {"real_name": real_name, "display_name": self.display_name or self.name}
        if self.is_bot:
            profile |= {"bot_id": self.bot_id, "api_app_id": self.app_id}
        wire: Wire = {"id": self.id, "team_id": self.team_id, "name": self.name, "deleted": False}
        return wire | {"real_name": real_name, "profile": profile, "is_bot": self.is_bot, "updated": _CREATED}

    @property
    def bot_profile(self) -> Wire:
        wire = {"id": self.bot_id, "app_id": self.app_id, "user_id": self.id, "name": self.real_name or self.name}
        return {**wire, "icons": {}, "deleted": False, "updated": _CREATED, "team_id": self.team_id}


@dataclass(slots=True, kw_only=True)
class SlackMessage(Post):
    """`body` is the message as the history gives it, metadata included."""

    for_user: str = ""  # an ephemeral message: seen by this user alone, and in no history

    @property
    def ts(self) -> str:
        return str(self.body["ts"])

    @property
    def thread_ts(self) -> str:
        """The thread it is in, as parent or reply; empty outside of threads."""
        return str(self.body.get("thread_ts", ""))

    @property
    def is_reply(self) -> bool:
        return self.thread_ts not in ("", self.ts)

    @property
    def words(self) -> str:
        """The text of the blocks, or without any the text."""
        own = [block for block in self.body.get("blocks") or () if block["type"] != "rich_text"]
        return unescape(blocks_text(own) or self.body.get("text", ""))


@dataclass(slots=True, kw_only=True)
class WorkspaceChannel(ChatRoom[str, SlackMessage]):
    id: str
    kind: ChannelKind
    name: str = ""
    user_id: str = ""  # the other side of an im
    created: int = _CREATED
    archived: bool = False
    restricted: bool = False  # only admins may post
    members: list[str] = field(default_factory=list)
    threads: dict[str, list[SlackMessage]] = field(default_factory=dict)  # replies by the parent's ts
    ephemeral: list[SlackMessage] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)  # how the bot says it is busy, by thread

    @property
    def wire(self) -> Wire:
        wire: Wire = {"id": self.id, "created": self.created, "is_archived": self.archived, "is_im": False}
        if self.kind == "im":
            return {**wire, "is_im": True, "user": self.user_id}
        wire |= {"name": self.name, "is_channel": self.kind == "channel", "is_private": self.kind != "channel"}
        return {**wire, "is_group": self.kind == "group", "is_mpim": self.kind == "mpim"}


@dataclass(slots=True, kw_only=True)
class SlackFile(StoredFile):
    user_id: str
    created: int
    shared: bool = False
    channels: list[str] = field(default_factory=list)


class SlackWorld(World):
    def __init__(self, *, bot_name: str, root: Callable[[], str]) -> None:
        super().__init__()
        self.root = root  # the address that links begin with, once it is known
        self.team_id, self.app_id = "T0PLAYGRND1", "A0PLAYGRND1"
        self.team_name = "Playground"
        self.bot = SlackUser(id="U0PLAYBOT01", name=bot_name, is_bot=True, bot_id="B0PLAYBOT01", app_id=self.app_id)
        self.bot.team_id = self.team_id
        self.users: dict[str, SlackUser] = {self.bot.id: self.bot}
        self.users[SLACKBOT] = SlackUser(id=SLACKBOT, name="slackbot", team_id=self.team_id)
        self.channels: dict[str, WorkspaceChannel] = {}
        self.files: dict[str, SlackFile] = {}
        self.edit_window_seconds: float | None = None
        self.scopes = USUAL_SCOPES  # of the bot's token
        self.emit: Callable[[str, Wire], None] = lambda subscription, event: None
        self._ids = itertools.count(1)
        self._last_ts = 0

    def new_id(self, prefix: str) -> str:
        """Return an id not given before, that looks like Slack's."""
        number, digits = next(self._ids) * 7919, ""
        while number:
            number, rest = divmod(number, 36)
            digits = _DIGITS[rest] + digits
        return f"{prefix}0P{digits.rjust(8, '0')}"

    def next_ts(self) -> str:
        """Return a ts that is unique and growing, over all channels."""
        self._last_ts = max(int(self.now() * 1_000_000), self._last_ts + 1)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def im_with(self, user_id: str) -> WorkspaceChannel:
        """Return the direct channel of the bot and this user, which is made when first asked for."""
        for channel in self.channels.values():
            if channel.kind == "im" and channel.user_id == user_id:
                return channel
        made = WorkspaceChannel(id=self.new_id("D"), kind="im", user_id=user_id, members=[user_id, self.bot.id])
        self.channels[made.id] = made
        return made

    def hears(self, channel: WorkspaceChannel) -> bool:
        return self.bot.id in channel.members

    def find_channel(self, channel_id: str) -> WorkspaceChannel:
        """Return a channel by id. A private channel the bot is not in does not exist for it."""
        channel = self.channels.get(channel_id)
        if channel is None or (channel.kind != "channel" and not self.hears(channel)):
            raise SlackRefusal("channel_not_found")
        return channel

    def readable_channel(self, channel_id: str) -> WorkspaceChannel:
        """Return a channel that the bot is in."""
        channel = self.find_channel(channel_id)
        if not self.hears(channel):
            raise SlackRefusal("not_in_channel")
        return channel

    def writable_channel(self, channel_id: str) -> WorkspaceChannel:
        """Return a channel the bot may write to now."""
        channel = self.find_channel(channel_id)
        if channel.archived:
            raise SlackRefusal("is_archived")
        if not self.hears(channel):
            raise SlackRefusal("not_in_channel")
        if channel.restricted:
            raise SlackRefusal("restricted_action")
        return channel

    def posts_in(self, place: str) -> Iterable[SlackMessage]:
        channel = self.channels[place]
        return sorted([*channel.posts.values(), *channel.ephemeral], key=lambda post: post.ts)

    def describe(self, post: SlackMessage) -> Wire:
        shown: Wire = {"ts": post.ts} | ({"for_user": post.for_user} if post.for_user else {})
        if post.is_reply:
            shown["thread"] = post.thread_ts
        if buttons := [button["text"]["text"] for button in find_buttons(post)]:
            shown["buttons"] = buttons
        return shown


def find_buttons(post: SlackMessage) -> list[Wire]:
    """Return the buttons of a message with the ids of their blocks."""
    blocks = [block for block in post.body.get("blocks") or () if block["type"] == "actions"]
    return [{**one, "block_id": block["block_id"]} for block in blocks for one in block["elements"]]
