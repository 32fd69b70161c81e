"""Who and what there is: users, guilds, channels, messages, files, interactions. It decides little."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from playground.discord import intents
from playground.discord.rules import Refused, refused
from playground.events import EventLog
from playground.wire import Wire

TEXT, DM, PUBLIC_THREAD, PRIVATE_THREAD = 0, 1, 11, 12
EPOCH_MS = 1_420_070_400_000
NONCE_SECONDS = 180.0
# What the bot may do unless a channel denies it, by the bit of the permission.
PERMISSIONS = {
    "add_reactions": 1 << 6,
    "view": 1 << 10,
    "send": 1 << 11,
    "manage_messages": 1 << 13,
    "embed_links": 1 << 14,
    "attach_files": 1 << 15,
    "read_history": 1 << 16,
    "create_threads": 1 << 35,
    "send_in_threads": 1 << 38,
}
ALL_PERMISSIONS = sum(PERMISSIONS.values()) | 1 << 36 | 1 << 31


@dataclass(slots=True, kw_only=True)
class User:
    id: int
    username: str
    global_name: str | None = None
    bot: bool = False
    dms_open: bool = True

    @property
    def wire(self) -> Wire:
        wire: Wire = {"id": str(self.id), "username": self.username, "discriminator": "0", "avatar": None}
        wire |= {"global_name": self.global_name, "public_flags": 0}
        return {**wire, "discriminator": "0001", "bot": True} if self.bot else wire


@dataclass(slots=True, kw_only=True)
class Post:
    """A message and what became of it. `body` is what REST gives, but for what belongs to others (see `messages`)."""

    id: int
    channel_id: int
    author: User
    body: Wire
    deleted: bool = False
    ephemeral: bool = False
    earlier: list[str] = field(default_factory=list)  # texts before edits
    reactions: dict[str, list[int]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        words: str = self.body["content"]
        return words


@dataclass(slots=True, kw_only=True)
class Channel:
    id: int
    kind: int
    name: str = ""
    guild_id: int = 0
    parent_id: int = 0
    owner_id: int = 0
    recipient: int = 0  # of a DM
    members: set[int] = field(default_factory=set)  # of a thread
    posts: dict[int, Post] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)  # permissions the bot lacks here
    archived: bool = False
    locked: bool = False
    last_message_id: int = 0
    typing: int = 0  # how often the bot said that it types

    @property
    def is_thread(self) -> bool:
        return self.kind in (PUBLIC_THREAD, PRIVATE_THREAD)

    def post(self, message_id: int) -> Post | None:
        """A message that is still there."""
        post = self.posts.get(message_id)
        return None if post is None or post.deleted else post


@dataclass(slots=True, kw_only=True)
class Guild:
    id: int
    name: str
    owner_id: int
    members: dict[int, str] = field(default_factory=dict)  # when they joined
    bot_in: bool = True
    unavailable: bool = False


@dataclass(slots=True, kw_only=True)
class StoredFile:
    path: str
    name: str
    mime_type: str
    content: bytes
    signature: str
    expired: bool = False


@dataclass(slots=True, kw_only=True)
class Interaction:
    """A slash command or a pressed button. It can be answered for 3 seconds, and followed up for 15 minutes."""

    id: int
    token: str
    body: Wire
    user_id: int
    channel_id: int
    born: float
    source: Post | None = None  # the message whose button was pressed
    answer: Wire | None = None  # what the bot said first
    original: Post | None = None
    followups: list[Post] = field(default_factory=list)


class Dispatcher(Protocol):
    """How the bot hears: an event for those sessions that asked for one of `intents`; 0 is always heard."""

    def __call__(self, event: str, data: Wire, *, intents: int = 0, redacted: Wire | None = None) -> None: ...


class World:
    """Everything the server remembers. Survives the bot, not the server."""

    def __init__(self, *, bot: User, events: EventLog) -> None:
        self.bot = bot
        self.events = events
        self.dispatch: Dispatcher = lambda event, data, *, intents=0, redacted=None: None
        self.privileged = intents.PRIVILEGED  # those switched on for the application
        self.hears_unjoined_threads = True  # the documentation says so; some report that a bot must join first
        self.base_url: Callable[[], str] = lambda: ""
        self.users: dict[int, User] = {bot.id: bot}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.dms: dict[int, Channel] = {}  # by user
        self.files: dict[str, StoredFile] = {}
        self.interactions: dict[int, Interaction] = {}
        self.tokens: dict[str, Interaction] = {}
        self.commands: dict[int, list[Wire]] = {0: []}  # by guild; 0 is everywhere
        self.nonces: dict[str, tuple[float, Post]] = {}
        self.now: Callable[[], float] = time.time
        self._last_id = 0

    def snowflake(self) -> int:
        """Grows with time, and always."""
        fresh = (int(self.now() * 1000) - EPOCH_MS) << 22
        self._last_id = max(fresh, self._last_id + 1)
        return self._last_id

    def stamp(self) -> str:
        return datetime.fromtimestamp(self.now(), UTC).isoformat()

    def find_channel(self, channel_id: object) -> Channel:
        """A channel the bot can see. Raises what the server would say otherwise."""
        channel = self.channels.get(as_id(channel_id))
        if channel is None:
            raise refused(10003)
        if channel.guild_id and not self.guilds[channel.guild_id].bot_in:
            raise refused(50001)
        if "view" in self.denied(channel):
            raise refused(50001)
        return channel

    def denied(self, channel: Channel) -> set[str]:
        """What the bot may not do there; threads follow their channel."""
        return self.channels[channel.parent_id].denied if channel.is_thread else channel.denied

    def find_post(self, channel_id: object, message_id: object) -> Post:
        post = self.find_channel(channel_id).post(as_id(message_id))
        if post is None or post.ephemeral:
            raise refused(10008)
        return post

    def find_guild(self, guild_id: object) -> Guild:
        guild = self.guilds.get(as_id(guild_id))
        if guild is None:
            raise refused(10004)
        if not guild.bot_in:
            raise refused(50001)
        return guild

    def dm(self, user: User) -> Channel:
        """The direct messages of the bot and this user; made when they are first asked for."""
        if user.id not in self.dms:
            channel = Channel(id=self.snowflake(), kind=DM, recipient=user.id)
            self.dms[user.id] = self.channels[channel.id] = channel
        return self.dms[user.id]

    def store_file(self, channel_id: int, name: str, content: bytes, mime_type: str = "") -> Wire:
        """Keep a file; gives its attachment. The signature in its address is checked, as on the real CDN."""
        number = self.snowflake()
        path, signature = f"{channel_id}/{number}/{name}", secrets.token_hex(16)
        self.files[path] = StoredFile(path=path, name=name, mime_type=mime_type, content=content, signature=signature)
        url = f"{self.base_url()}/attachments/{path}?ex=ffffffff&is=0&hm={signature}&"
        wire: Wire = {"id": str(number), "filename": name, "size": len(content), "url": url, "proxy_url": url}
        return {**wire, "content_type": mime_type} if mime_type else wire

    def show(self, channel_id: int, *, deleted: bool = False) -> list[Wire]:
        """The channel as its people see it: messages in order, with what changed them."""
        posts = self.channels[channel_id].posts.values()
        return [self._shown(post) for post in posts if deleted or not post.deleted]

    def _shown(self, post: Post) -> Wire:
        shown: Wire = {"by_bot": post.author is self.bot, "text": post.words, "message": dict(post.body)}
        for name in ("deleted", "ephemeral", "earlier", "reactions"):
            if value := getattr(post, name):
                shown[name] = value
        rows = [row.get("components", []) for row in post.body["components"]]
        if buttons := [[part.get("label") for part in row if part.get("type") == 2] for row in rows]:
            shown["buttons"] = buttons
        return shown


def as_id(value: object) -> int:
    """Ids are numbers here and strings on the wire; what is no id is an Invalid Form Body."""
    try:
        return int(str(value))
    except ValueError:
        message = f'Value "{value}" is not snowflake.'
        errors = {"_errors": [{"code": "NUMBER_TYPE_COERCE", "message": message}]}
        raise Refused(400, 50035, "Invalid Form Body", errors) from None
