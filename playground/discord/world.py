"""Users, guilds, channels, messages, files and interactions of Discord, and how they look on the wire."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from playground.discord import intents
from playground.discord.rules import read_id, refusal
from playground.wire import Wire
from playground.world import ChatRoom, Post, StoredFile, World

TEXT, DM, PUBLIC_THREAD = 0, 1, 11
EPOCH_MS = 1_420_070_400_000
# Permissions of the bot unless a channel denies them, by the bit of the permission.
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
class DiscordUser:
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
class DiscordMessage(Post):
    """`body` lacks reactions and the message replied to; `messages.render` adds them."""

    id: int
    channel_id: int
    author: DiscordUser
    ephemeral: bool = False
    reactions: dict[str, list[int]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return str(self.body["content"])


@dataclass(slots=True, kw_only=True)
class DiscordChannel(ChatRoom[int, DiscordMessage]):
    id: int
    kind: int
    name: str = ""
    guild_id: int = 0
    parent_id: int = 0
    owner_id: int = 0
    recipient: int = 0  # of a DM
    members: set[int] = field(default_factory=set)  # of a thread
    denied: set[str] = field(default_factory=set)  # permissions the bot lacks here
    last_message_id: int = 0
    typing: int = 0  # how often the bot said that it types

    @property
    def is_thread(self) -> bool:
        return self.kind == PUBLIC_THREAD


@dataclass(slots=True, kw_only=True)
class Guild:
    id: int
    name: str
    owner_id: int
    members: dict[int, str] = field(default_factory=dict)  # when they joined


@dataclass(slots=True, kw_only=True)
class DiscordFile(StoredFile):
    path: str
    signature: str
    expired: bool = False


@dataclass(slots=True, kw_only=True)
class Interaction:
    """A slash command or a pressed button. It can be answered for 3 seconds."""

    id: int
    token: str
    body: Wire
    user_id: int
    channel_id: int
    born: float
    source: DiscordMessage | None = None  # the message whose button was pressed
    answer: Wire | None = None  # the first answer of the bot
    original: DiscordMessage | None = None


class Dispatcher(Protocol):
    """Sends an event to the sessions that asked for one of `intents`; 0 is for all."""

    def __call__(self, event: str, data: Wire, *, intents: int = 0) -> None: ...


class DiscordWorld(World):
    def __init__(self, *, bot: DiscordUser) -> None:
        super().__init__()
        self.bot = bot
        self.dispatch: Dispatcher = lambda event, data, *, intents=0: None
        self.privileged = intents.PRIVILEGED  # those switched on for the application
        self.base_url: Callable[[], str] = lambda: ""
        self.users: dict[int, DiscordUser] = {bot.id: bot}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, DiscordChannel] = {}
        self.files: dict[str, DiscordFile] = {}  # by path
        self.interactions: dict[int, Interaction] = {}
        self.commands: list[Wire] = []
        self.nonces: dict[str, tuple[float, DiscordMessage]] = {}
        self._last_id = 0

    def snowflake(self) -> int:
        """Return an id that grows with time, and always."""
        fresh = (int(self.now() * 1000) - EPOCH_MS) << 22
        self._last_id = max(fresh, self._last_id + 1)
        return self._last_id

    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.now(), UTC).isoformat()

    def find_channel(self, channel_id: object) -> DiscordChannel:
        """Return a channel the bot can see. Raises the server's refusal otherwise."""
        channel = self.channels.get(read_id(channel_id))
        if channel is None:
            raise refusal(10003)
        if "view" in self.denied(channel):
            raise refusal(50001)
        return channel

    def denied(self, channel: DiscordChannel) -> set[str]:
        """Return the permissions the bot lacks there; threads follow their channel."""
        return self.channels[channel.parent_id].denied if channel.is_thread else channel.denied

    def dm(self, user: DiscordUser) -> DiscordChannel:
        """Return the direct messages of the bot and this user, which are made when first asked for."""
        for channel in self.channels.values():
            if channel.recipient == user.id:
                return channel
        made = DiscordChannel(id=self.snowflake(), kind=DM, recipient=user.id)
        self.channels[made.id] = made
        return made

    def store_file(self, channel_id: int, name: str, content: bytes, mime_type: str = "") -> Wire:
        """Keep a file and return its attachment. The signature in its address is checked, as on the real CDN."""
        number, signature = str(self.snowflake()), secrets.token_hex(16)
        path, size = f"{channel_id}/{number}/{name}", len(content)
        self.files[path] = DiscordFile(
            id=number, name=name, mime_type=mime_type, size=size, content=content, path=path, signature=signature
        )
        url = f"{self.base_url()}/attachments/{path}?ex=ffffffff&is=0&hm={signature}&"
        wire: Wire = {"id": number, "filename": name, "size": size, "url": url, "proxy_url": url}
        return {**wire, "content_type": mime_type} if mime_type else wire

    def posts_in(self, place: int | str) -> Iterable[DiscordMessage]:
        return self.channels[int(place)].posts.values()

    def describe(self, post: DiscordMessage) -> Wire:
        shown: Wire = {name: value for name in ("ephemeral", "reactions") if (value := getattr(post, name))}
        if rows := [row["components"] for row in post.body["components"]]:
            shown["buttons"] = [[button.get("label") for button in row] for row in rows]
        return shown


def member_wire(guild: Guild, user: DiscordUser, *, with_user: bool = True) -> Wire:
    wire: Wire = {"nick": None, "avatar": None, "roles": [], "joined_at": guild.members.get(user.id), "flags": 0}
    wire |= {"deaf": False, "mute": False, "pending": False, "premium_since": None}
    return {**wire, "user": user.wire} if with_user else wire


def channel_wire(world: DiscordWorld, channel: DiscordChannel) -> Wire:
    last = str(channel.last_message_id) if channel.last_message_id else None
    wire: Wire = {"id": str(channel.id), "type": channel.kind, "flags": 0, "last_message_id": last}
    if channel.kind == DM:
        return {**wire, "recipients": [world.users[channel.recipient].wire]}
    wire |= {"guild_id": str(channel.guild_id), "name": channel.name, "rate_limit_per_user": 0}
    if not channel.is_thread:
        wire |= {"position": 0, "topic": None, "nsfw": False, "parent_id": None}
        # A permission is denied to everyone, so that a client can work it out.
        deny = sum(PERMISSIONS[name] for name in channel.denied)
        denial = {"id": str(channel.guild_id), "type": 0, "allow": "0", "deny": str(deny)}
        return {**wire, "permission_overwrites": [denial] if deny else []}
    messages = sum(not post.deleted for post in channel.posts.values())
    metadata: Wire = {"archived": False, "auto_archive_duration": 1440, "locked": False}
    metadata["archive_timestamp"] = world.timestamp()
    wire |= {"parent_id": str(channel.parent_id), "owner_id": str(channel.owner_id), "thread_metadata": metadata}
    counts = {"message_count": messages, "total_message_sent": messages, "member_count": len(channel.members)}
    if world.bot.id in channel.members:
        joined = {"id": str(channel.id), "user_id": str(world.bot.id), "join_timestamp": world.timestamp(), "flags": 0}
        wire["member"] = joined
    return wire | counts


def guild_wire(guild: Guild) -> Wire:
    """Return a guild as REST gives it."""
    everyone: Wire = {"id": str(guild.id), "name": "@everyone", "permissions": str(ALL_PERMISSIONS), "position": 0}
    everyone |= {"color": 0, "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None}}
    everyone |= {"hoist": False, "managed": False, "mentionable": False, "flags": 0}
    wire: Wire = {"id": str(guild.id), "name": guild.name, "owner_id": str(guild.owner_id), "roles": [everyone]}
    wire |= {"icon": None, "features": [], "emojis": [], "stickers": [], "preferred_locale": "en-US"}
    wire |= {"verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0}
    return wire | {"afk_timeout": 300, "mfa_level": 0, "nsfw_level": 0, "premium_tier": 0, "system_channel_id": None}


def guild_create_wire(world: DiscordWorld, guild: Guild, *, all_members: bool) -> Wire:
    """Return a guild as the gateway gives it."""
    channels = [channel for channel in world.channels.values() if channel.guild_id == guild.id]
    members = guild.members if all_members else [world.bot.id]
    return guild_wire(guild) | {
        "channels": [channel_wire(world, channel) for channel in channels if not channel.is_thread],
        "threads": [channel_wire(world, channel) for channel in channels if channel.is_thread],
        "members": [member_wire(guild, world.users[user]) for user in members],
        "member_count": len(guild.members),
        "joined_at": guild.members.get(world.bot.id),
        "large": False,
        "presences": [],
        "voice_states": [],
        "unavailable": False,
    }
