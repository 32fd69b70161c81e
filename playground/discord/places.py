"""Making users, guilds, channels and threads, and moving people and the bot in and out of them."""

from collections.abc import Sequence

from playground.discord import intents
from playground.discord.threads import enter_thread, set_archived, start_thread
from playground.discord.wires import channel_wire, guild_create_wire, guild_wire, member_wire
from playground.discord.world import PERMISSIONS, PRIVATE_THREAD, PUBLIC_THREAD, TEXT, Channel, Guild, Post, User, World
from playground.wire import Wire

Id = int | str


class Places:
    """Every method takes and gives plain ids and JSON values, so the same calls work over HTTP.

    Ids may be numbers or strings; what is given back is as on the wire, with ids as strings.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    def make_user(
        self,
        username: str = "ada",
        *,
        global_name: str | None = None,
        bot: bool = False,
        id: Id = 0,  # noqa: A002 - Discord's word for it
    ) -> Wire:
        number = int(id) or self.world.snowflake()
        user = User(id=number, username=username, global_name=global_name, bot=bot)
        self.world.users[user.id] = user
        return user.wire

    def make_guild(self, name: str = "Guild", *, members: Sequence[Id] = (), bot: bool = True) -> Wire:
        """A guild with these people, the first its owner, and with the bot unless told otherwise."""
        now, users = self.world.stamp(), [self._user(one) for one in members]
        guild = Guild(id=self.world.snowflake(), name=name, owner_id=users[0].id if users else 0, bot_in=False)
        guild.members = {user.id: now for user in users}
        self.world.guilds[guild.id] = guild
        if bot:
            self.add_bot(guild.id)
        return guild_wire(self.world, guild)

    def make_channel(self, guild_id: Id, name: str = "general") -> Wire:
        guild = self._guild(guild_id)
        channel = Channel(id=self.world.snowflake(), kind=TEXT, name=name, guild_id=guild.id)
        self.world.channels[channel.id] = channel
        wire = channel_wire(self.world, channel)
        if guild.bot_in:
            self.world.dispatch("CHANNEL_CREATE", wire, intents=intents.GUILDS)
        return wire

    def delete_channel(self, channel_id: Id) -> None:
        channel = self._channel(channel_id)
        kind, wire = "THREAD" if channel.is_thread else "CHANNEL", channel_wire(self.world, channel)
        del self.world.channels[channel.id]
        self.world.dispatch(f"{kind}_DELETE", wire, intents=intents.GUILDS)

    def make_thread(
        self, channel_id: Id, user_id: Id, name: str = "thread", *, message_id: Id = 0, private: bool = False
    ) -> Wire:
        """From a message, or without one. The bot hears of a private thread when it is brought in."""
        parent, user = self._channel(channel_id), self._user(user_id)
        source = self._post(channel_id, message_id) if message_id else None
        kind = PRIVATE_THREAD if private else PUBLIC_THREAD
        return channel_wire(self.world, start_thread(self.world, parent, user, name, source=source, kind=kind))

    def add_to_thread(self, channel_id: Id, user_id: Id = 0) -> None:
        """A user, or the bot if none is named."""
        user = self._user(user_id) if user_id else self.world.bot
        enter_thread(self.world, self._channel(channel_id), user)

    def archive_thread(self, channel_id: Id, *, archived: bool = True, locked: bool = False) -> None:
        set_archived(self.world, self._channel(channel_id), archived=archived, locked=locked)

    def open_dm(self, user_id: Id) -> Wire:
        """The direct messages of this user and the bot."""
        return channel_wire(self.world, self.world.dm(self._user(user_id)))

    def close_dms(self, user_id: Id) -> None:
        """The bot may no longer write to this user (50007)."""
        self._user(user_id).dms_open = False

    def open_dms(self, user_id: Id) -> None:
        self._user(user_id).dms_open = True

    def deny(self, channel_id: Id, permissions: Sequence[str]) -> None:
        """Take these from the bot in this channel, and give it all others: `view`, `send`, `read_history`…"""
        if unknown := set(permissions) - set(PERMISSIONS):
            raise ValueError(f"unknown permissions {sorted(unknown)}; there are {', '.join(PERMISSIONS)}")
        channel = self._channel(channel_id)
        channel.denied = set(permissions)
        self.world.dispatch("CHANNEL_UPDATE", channel_wire(self.world, channel), intents=intents.GUILDS)

    def join(self, guild_id: Id, user_id: Id) -> None:
        guild, user = self._guild(guild_id), self._user(user_id)
        guild.members[user.id] = self.world.stamp()
        if guild.bot_in:
            wire = member_wire(guild, user) | {"guild_id": str(guild.id)}
            self.world.dispatch("GUILD_MEMBER_ADD", wire, intents=intents.MEMBERS)

    def leave(self, guild_id: Id, user_id: Id) -> None:
        guild, user = self._guild(guild_id), self._user(user_id)
        guild.members.pop(user.id, None)
        gone = {"guild_id": str(guild.id), "user": user.wire}
        if guild.bot_in:
            self.world.dispatch("GUILD_MEMBER_REMOVE", gone, intents=intents.MEMBERS)

    def add_bot(self, guild_id: Id) -> None:
        guild = self._guild(guild_id)
        guild.bot_in, guild.members[self.world.bot.id] = True, self.world.stamp()
        wire = guild_create_wire(self.world, guild, all_members=False, joined=True)
        self.world.dispatch("GUILD_CREATE", wire, intents=intents.GUILDS)

    def kick_bot(self, guild_id: Id) -> None:
        guild = self._guild(guild_id)
        guild.bot_in = False
        guild.members.pop(self.world.bot.id, None)
        self.world.dispatch("GUILD_DELETE", {"id": str(guild.id)}, intents=intents.GUILDS)

    def set_outage(self, guild_id: Id, *, on: bool = True) -> None:
        """Discord loses a guild for a while, and finds it again."""
        guild = self._guild(guild_id)
        guild.unavailable = on
        if on:
            self.world.dispatch("GUILD_DELETE", {"id": str(guild.id), "unavailable": True}, intents=intents.GUILDS)
        else:
            wire = guild_create_wire(self.world, guild, all_members=False)
            self.world.dispatch("GUILD_CREATE", wire, intents=intents.GUILDS)

    def expire_files(self) -> None:
        """Addresses of files given before this no longer work, as after a day."""
        for stored in self.world.files.values():
            stored.expired = True

    def age(self, seconds: float) -> None:
        """Let time pass for nonces and interactions: 3 s, 3 min, 15 min are the ages that matter."""
        self.world.nonces = {nonce: (at - seconds, post) for nonce, (at, post) in self.world.nonces.items()}
        for interaction in self.world.interactions.values():
            interaction.born -= seconds

    def _user(self, user_id: Id) -> User:
        if int(user_id) not in self.world.users:
            raise ValueError(f"there is no user {user_id}")
        return self.world.users[int(user_id)]

    def _guild(self, guild_id: Id) -> Guild:
        if int(guild_id) not in self.world.guilds:
            raise ValueError(f"there is no guild {guild_id}")
        return self.world.guilds[int(guild_id)]

    def _channel(self, channel_id: Id) -> Channel:
        if int(channel_id) not in self.world.channels:
            raise ValueError(f"there is no channel {channel_id}")
        return self.world.channels[int(channel_id)]

    def _post(self, channel_id: Id, message_id: Id) -> Post:
        post = self._channel(channel_id).post(int(message_id))
        if post is None:
            raise ValueError(f"channel {channel_id} shows no message {message_id}")
        return post
