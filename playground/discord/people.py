"""The people of Discord: they make guilds and channels, write, send files, react, use commands and press buttons."""

import mimetypes
import secrets
from collections.abc import Sequence
from typing import TypedDict

from playground.discord import intents, messages
from playground.discord.rules import MAX_CONTENT
from playground.discord.world import (
    ALL_PERMISSIONS,
    DM,
    PERMISSIONS,
    TEXT,
    DiscordChannel,
    DiscordMessage,
    DiscordUser,
    DiscordWorld,
    Guild,
    Interaction,
    channel_wire,
    guild_create_wire,
    guild_wire,
    member_wire,
)
from playground.wire import Wire
from playground.world import look_up

Id = int | str


class OutgoingFile(TypedDict, total=False):
    name: str
    content: bytes
    mime_type: str
    extra: Wire  # further fields of the attachment, such as a size it does not have


class DiscordPeople:
    """The channel is the first argument and who acts the second.

    Ids may be numbers or strings; results are as on the wire, with ids as strings.
    """

    def __init__(self, world: DiscordWorld) -> None:
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
        user = DiscordUser(id=number, username=username, global_name=global_name, bot=bot)
        self.world.users[user.id] = user
        return user.wire

    def make_guild(self, name: str = "Guild", *, members: Sequence[Id] = (), bot: bool = True) -> Wire:
        """Make a guild with these people, the first its owner, and with the bot unless told otherwise."""
        now, users = self.world.timestamp(), [self._user(one) for one in members]
        guild = Guild(id=self.world.snowflake(), name=name, owner_id=users[0].id if users else 0)
        guild.members = {user.id: now for user in users}
        self.world.guilds[guild.id] = guild
        if bot:
            self.add_bot(guild.id)
        return guild_wire(guild)

    def add_bot(self, guild_id: Id) -> None:
        guild = look_up(self.world.guilds, int(guild_id), "guild")
        guild.members[self.world.bot.id] = self.world.timestamp()
        wire = guild_create_wire(self.world, guild, all_members=False)
        del wire["unavailable"]  # which tells a new guild from one that comes back
        self.world.dispatch("GUILD_CREATE", wire, intents=intents.GUILDS)

    def make_channel(self, guild_id: Id, name: str = "general") -> Wire:
        guild = look_up(self.world.guilds, int(guild_id), "guild")
        channel = DiscordChannel(id=self.world.snowflake(), kind=TEXT, name=name, guild_id=guild.id)
        self.world.channels[channel.id] = channel
        wire = channel_wire(self.world, channel)
        if self.world.bot.id in guild.members:
            self.world.dispatch("CHANNEL_CREATE", wire, intents=intents.GUILDS)
        return wire

    def delete_channel(self, channel_id: Id) -> None:
        channel = self._channel(channel_id)
        kind, wire = "THREAD" if channel.is_thread else "CHANNEL", channel_wire(self.world, channel)
        del self.world.channels[channel.id]
        self.world.dispatch(f"{kind}_DELETE", wire, intents=intents.GUILDS)

    def make_thread(self, channel_id: Id, user_id: Id, name: str = "thread", *, message_id: Id = 0) -> Wire:
        """Start a thread from a message, or without one."""
        source = self._post(channel_id, message_id) if message_id else None
        thread = messages.start_thread(self.world, self._channel(channel_id), self._user(user_id), name, source)
        return channel_wire(self.world, thread)

    def open_dm(self, user_id: Id) -> Wire:
        """Return the direct messages of this user and the bot."""
        return channel_wire(self.world, self.world.dm(self._user(user_id)))

    def close_dms(self, user_id: Id, *, undo: bool = False) -> None:
        """Forbid the bot to write to this user (50007)."""
        self._user(user_id).dms_open = undo

    def deny(self, channel_id: Id, permissions: Sequence[str]) -> None:
        """Take these from the bot in this channel, and give it all others: `view`, `send`, `read_history`…"""
        if unknown := set(permissions) - set(PERMISSIONS):
            raise ValueError(f"unknown permissions {sorted(unknown)}; there are {', '.join(PERMISSIONS)}")
        channel = self._channel(channel_id)
        channel.denied = set(permissions)
        self.world.dispatch("CHANNEL_UPDATE", channel_wire(self.world, channel), intents=intents.GUILDS)

    def join(self, guild_id: Id, user_id: Id) -> None:
        guild, user = look_up(self.world.guilds, int(guild_id), "guild"), self._user(user_id)
        guild.members[user.id] = self.world.timestamp()
        wire = member_wire(guild, user) | {"guild_id": str(guild.id)}
        self.world.dispatch("GUILD_MEMBER_ADD", wire, intents=intents.MEMBERS)

    def expire_files(self) -> None:
        """Let the current addresses of files stop working, as after a day."""
        for stored in self.world.files.values():
            stored.expired = True

    def age(self, seconds: float) -> None:
        """Let time pass for nonces and interactions: 3 s and 3 min are the ages that matter."""
        self.world.nonces = {nonce: (at - seconds, post) for nonce, (at, post) in self.world.nonces.items()}
        for interaction in self.world.interactions.values():
            interaction.born -= seconds

    def send_text(
        self,
        channel_id: Id,
        user_id: Id,
        text: str = "",
        *,
        reply_to: Id = 0,
        ping: bool = True,
        files: Sequence[OutgoingFile] = (),
        extra: Wire | None = None,
    ) -> Wire:
        """Send a message whose mentions count; `ping` is whether a reply mentions the author it replies to.

        Raises ValueError where no client could.
        """
        channel, user = self._channel(channel_id), self._user(user_id)
        self._check_member(channel, user)
        if len(text) > MAX_CONTENT or not (text.strip() or files or extra):
            raise ValueError(f"a text has 1 to {MAX_CONTENT} characters")
        replied = self._post(channel_id, reply_to) if reply_to else None
        fields: Wire = {**(messages.reply_fields(channel, replied) if replied else {}), **(extra or {})}
        fields["attachments"] = [self._attach(channel, file) for file in files]
        post = messages.compose(self.world, channel, user, text.strip(), **fields)
        post.body |= messages.find_mentions(self.world, post.words, None, replied.author if replied and ping else None)
        return messages.render(self.world, messages.add(self.world, channel, post))

    def send_system(self, channel_id: Id, user_id: Id, kind: int) -> Wire:
        """Send a message nobody wrote: someone joined (7), pinned (6), boosted (8)…"""
        channel = self._channel(channel_id)
        post = messages.compose(self.world, channel, self._user(user_id), "", type=kind)
        return messages.render(self.world, messages.add(self.world, channel, post))

    def _check_member(self, channel: DiscordChannel, user: DiscordUser) -> None:
        if user.id not in ((channel.recipient,) if channel.kind == DM else self.world.guilds[channel.guild_id].members):
            raise ValueError(f"user {user.id} is not in channel {channel.id}")
        if channel.is_thread:
            channel.members.add(user.id)

    def _attach(self, channel: DiscordChannel, file: OutgoingFile) -> Wire:
        name = file.get("name", "file.txt")
        kind = file.get("mime_type") or mimetypes.guess_type(name)[0] or ""
        wire = self.world.store_file(channel.id, name, file.get("content", b"bytes"), kind)
        return wire | file.get("extra", {})

    def edit_text(self, channel_id: Id, message_id: Id, text: str) -> Wire:
        post = self._post(channel_id, message_id)
        if post.by_bot:
            raise ValueError("people cannot edit what the bot wrote")
        messages.edit(self.world, post, {"content": text, **messages.find_mentions(self.world, text, None)})
        return messages.render(self.world, post)

    def delete(self, channel_id: Id, message_ids: Sequence[Id]) -> None:
        """Delete messages; several at once are one event."""
        messages.delete(self.world, [self._post(channel_id, message_id) for message_id in message_ids])

    def react(self, channel_id: Id, user_id: Id, message_id: Id, emoji: str = "👍", *, remove: bool = False) -> None:
        messages.react(self.world, self._post(channel_id, message_id), self._user(user_id), emoji, remove=remove)

    def use_command(self, channel_id: Id, user_id: Id, name: str, options: Wire | None = None) -> Wire:
        """Use a slash command and return the interaction. Raises ValueError if the bot has not set it."""
        command = next((one for one in self.world.commands if one["name"] == name), None)
        if command is None:
            raise ValueError(f"there is no command /{name}")
        given = [{"name": key, "type": 3, "value": value} for key, value in (options or {}).items()]
        data = {"id": command["id"], "name": name, "type": 1, "options": given}
        return self._interact(channel_id, user_id, 2, data, None)

    async def use_command_and_wait(
        self, channel_id: Id, user_id: Id, name: str, options: Wire | None = None, *, seconds: float = 5.0
    ) -> Wire:
        """Use a command, wait for the bot's first answer and return it. Raises TimeoutError."""
        return await self._answer(self.use_command(channel_id, user_id, name, options), seconds)

    def press(self, channel_id: Id, user_id: Id, message_id: Id, *, custom_id: str = "", label: str = "") -> Wire:
        """Press the button with this id or label and return the interaction. Raises ValueError without one."""
        post = self._post(channel_id, message_id)
        for button in (part for row in post.body["components"] for part in row["components"]):
            if button["custom_id"] == custom_id or (label and button.get("label") == label):
                data = {"component_type": button["type"], "custom_id": button["custom_id"], "id": button.get("id", 1)}
                return self._interact(channel_id, user_id, 3, data, post)
        raise ValueError(f"message {message_id} has no button {label or custom_id!r}")

    async def press_and_wait(
        self, channel_id: Id, user_id: Id, message_id: Id, *, label: str = "", seconds: float = 5.0
    ) -> Wire:
        """Press a button, wait for the bot's first answer and return it. Raises TimeoutError."""
        return await self._answer(self.press(channel_id, user_id, message_id, label=label), seconds)

    async def _answer(self, body: Wire, seconds: float) -> Wire:
        interaction = self.world.interactions[int(body["id"])]
        answer = await self.world.events.wait_for(lambda: interaction.answer, seconds=seconds)
        assert answer is not None
        return answer

    def _interact(self, channel_id: Id, user_id: Id, kind: int, data: Wire, source: DiscordMessage | None) -> Wire:
        """Tell the bot; interactions need no intent."""
        world, channel, user = self.world, self._channel(channel_id), self._user(user_id)
        number, token, allowed = world.snowflake(), secrets.token_urlsafe(48), str(ALL_PERMISSIONS)
        body: Wire = {"id": str(number), "application_id": str(world.bot.id), "type": kind, "token": token}
        body |= {"data": data, "version": 1, "channel_id": str(channel.id), "attachment_size_limit": 10 * 1024 * 1024}
        body |= {"locale": "en-US", "entitlements": [], "authorizing_integration_owners": {}}
        body |= {"channel": channel_wire(world, channel) | {"permissions": allowed}, "app_permissions": allowed}
        if channel.kind == DM:
            body |= {"user": user.wire, "context": 1}
        else:
            guild = world.guilds[channel.guild_id]
            member = member_wire(guild, user) | {"permissions": allowed}
            partial = {"id": str(guild.id), "locale": "en-US", "features": []}
            body |= {"member": member, "guild_id": partial["id"], "guild": partial, "guild_locale": "en-US"}
            body["context"] = 0
        if source:
            body["message"] = messages.render(world, source)
        world.interactions[number] = Interaction(
            id=number, token=token, body=body, user_id=user.id, channel_id=channel.id, born=world.now(), source=source
        )
        world.events.note("interaction", interaction_id=str(number), channel_id=str(channel.id), user_id=str(user.id))
        world.dispatch("INTERACTION_CREATE", body)
        return body

    def _user(self, user_id: Id) -> DiscordUser:
        return look_up(self.world.users, int(user_id), "user")

    def _channel(self, channel_id: Id) -> DiscordChannel:
        return look_up(self.world.channels, int(channel_id), "channel")

    def _post(self, channel_id: Id, message_id: Id) -> DiscordMessage:
        post = self._channel(channel_id).post(int(message_id))
        if post is None:
            raise ValueError(f"channel {channel_id} shows no message {message_id}")
        return post
