"""What people do in channels: write, send files, edit, delete, react, type, use commands, press buttons."""

import mimetypes
from collections.abc import Sequence
from typing import TypedDict

from playground.discord import intents
from playground.discord.interactions import begin
from playground.discord.messages import add, compose, delete, edit, hears, mentions_of, react, render
from playground.discord.places import Id, Places
from playground.discord.rules import MAX_CONTENT
from playground.discord.sending import reference_wire
from playground.discord.wires import member_wire
from playground.discord.world import DM, Channel, Interaction, Post, User
from playground.wire import Wire


class File(TypedDict, total=False):
    name: str
    content: bytes
    mime_type: str
    extra: Wire  # further fields of the attachment, such as a size it does not have


_OPTION_KINDS = {bool: 5, str: 3, int: 4, float: 10}


class People(Places):
    """Who acts is always the second argument; a message is given back as REST would give it."""

    def send_text(
        self,
        channel_id: Id,
        user_id: Id,
        text: str = "",
        *,
        reply_to: Id = 0,
        ping: bool = True,
        files: Sequence[File] = (),
        extra: Wire | None = None,
    ) -> Wire:
        """Mentions in the text count; `ping` is whether a reply mentions whom it replies to.

        Raises ValueError for what no client would send.
        """
        channel, user = self._channel(channel_id), self._user(user_id)
        self._check_member(channel, user)
        if len(text) > MAX_CONTENT or not (text.strip() or files or extra):
            raise ValueError(f"a text has 1 to {MAX_CONTENT} characters; see send_long_text")
        fields: Wire = dict(extra or {})
        replied: Post | None = None
        if reply_to:
            replied = self._post(channel_id, reply_to)
            fields = {"type": 19, "message_reference": reference_wire(channel, replied), **fields}
        fields["attachments"] = [self._attach(channel, file) for file in files]
        post = compose(self.world, channel, user, text.strip(), **fields)
        post.body |= mentions_of(self.world, post.words, None, replied.author if replied and ping else None)
        return render(self.world, add(self.world, channel, post))

    def send_long_text(self, channel_id: Id, user_id: Id, text: str) -> list[Wire]:
        """As people do who may not send a file: cut at the limit into messages that follow at once."""
        pieces = [text[start : start + MAX_CONTENT] for start in range(0, len(text), MAX_CONTENT)]
        return [self.send_text(channel_id, user_id, piece) for piece in pieces]

    def send_system(self, channel_id: Id, user_id: Id, kind: int, text: str = "") -> Wire:
        """What nobody wrote: someone joined (7), pinned (6), boosted (8)…"""
        channel = self._channel(channel_id)
        post = compose(self.world, channel, self._user(user_id), text, type=kind)
        return render(self.world, add(self.world, channel, post))

    def _check_member(self, channel: Channel, user: User) -> None:
        if channel.kind == DM:
            if user.id != channel.recipient:
                raise ValueError(f"user {user.id} is not in the direct messages {channel.id}")
        elif user.id not in self.world.guilds[channel.guild_id].members:
            raise ValueError(f"user {user.id} is not in the guild of channel {channel.id}")
        if channel.is_thread:
            channel.members.add(user.id)

    def _attach(self, channel: Channel, file: File) -> Wire:
        name = file.get("name", "file.txt")
        kind = file.get("mime_type") or mimetypes.guess_type(name)[0] or ""
        wire = self.world.store_file(channel.id, name, file.get("content", b"bytes"), kind)
        return wire | file.get("extra", {})

    def edit_text(self, channel_id: Id, message_id: Id, text: str) -> Wire:
        post = self._post(channel_id, message_id)
        if post.author is self.world.bot:
            raise ValueError("people cannot edit what the bot wrote")
        edit(self.world, post, {"content": text, **mentions_of(self.world, text, None)})
        return render(self.world, post)

    def delete(self, channel_id: Id, message_ids: Sequence[Id]) -> None:
        """Several at once are one event."""
        delete(self.world, [self._post(channel_id, message_id) for message_id in message_ids])

    def react(self, channel_id: Id, user_id: Id, message_id: Id, emoji: str = "👍", *, remove: bool = False) -> None:
        react(self.world, self._post(channel_id, message_id), self._user(user_id), emoji, remove=remove)

    def start_typing(self, channel_id: Id, user_id: Id) -> None:
        channel, user = self._channel(channel_id), self._user(user_id)
        data: Wire = {"channel_id": str(channel.id), "user_id": str(user.id), "timestamp": int(self.world.now())}
        wanted = intents.DM_TYPING
        if channel.guild_id:
            guild, wanted = self.world.guilds[channel.guild_id], intents.GUILD_TYPING
            data |= {"guild_id": str(guild.id), "member": member_wire(guild, user)}
        if hears(self.world, channel):
            self.world.dispatch("TYPING_START", data, intents=wanted)

    def use_command(self, channel_id: Id, user_id: Id, name: str, options: Wire | None = None) -> Wire:
        """Use a slash command the bot has set; gives the interaction. Raises ValueError for one it has not."""
        channel, user = self._channel(channel_id), self._user(user_id)
        known = [*self.world.commands.get(channel.guild_id, []), *self.world.commands[0]]
        command = next((one for one in known if one["name"] == name and one["type"] == 1), None)
        if command is None:
            raise ValueError(f"there is no command /{name}")
        given = [
            {"name": key, "type": _OPTION_KINDS[type(value)], "value": value} for key, value in (options or {}).items()
        ]
        data = {"id": command["id"], "name": name, "type": 1, "options": given}
        return begin(self.world, channel, user, 2, data, None).body

    async def use_command_and_wait(
        self, channel_id: Id, user_id: Id, name: str, options: Wire | None = None, *, seconds: float = 5.0
    ) -> Wire:
        """Use a command and wait for the bot's first answer. Raises TimeoutError."""
        return await self._answer(self.use_command(channel_id, user_id, name, options), seconds)

    def press(self, channel_id: Id, user_id: Id, message_id: Id, *, custom_id: str = "", label: str = "") -> Wire:
        """Press the button with this id or label; gives the interaction. A missing button is a ValueError."""
        post = self._post(channel_id, message_id)
        for button in (part for row in post.body["components"] for part in row.get("components", [])):
            if button.get("disabled") or "custom_id" not in button:
                continue
            if button["custom_id"] == custom_id or (label and button.get("label") == label):
                data = {"component_type": button["type"], "custom_id": button["custom_id"], "id": button.get("id", 1)}
                return begin(self.world, self._channel(channel_id), self._user(user_id), 3, data, post).body
        raise ValueError(f"message {message_id} has no button {label or custom_id!r}")

    async def press_and_wait(
        self,
        channel_id: Id,
        user_id: Id,
        message_id: Id,
        *,
        custom_id: str = "",
        label: str = "",
        seconds: float = 5.0,
    ) -> Wire:
        """Press and wait for the bot's first answer. Raises TimeoutError."""
        pressed = self.press(channel_id, user_id, message_id, custom_id=custom_id, label=label)
        return await self._answer(pressed, seconds)

    async def _answer(self, body: Wire, seconds: float) -> Wire:
        interaction: Interaction = self.world.interactions[int(body["id"])]
        answer = await self.world.events.wait_for(lambda: interaction.answer, seconds=seconds)
        assert answer is not None
        return answer
