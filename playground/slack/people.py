"""The people of Slack: they make channels, write, send files, edit, react, use commands and press buttons."""

import secrets
from collections.abc import Sequence

from playground.slack.messages import add, bot_fields, change, join, leave, person_fields, react, remove
from playground.slack.methods import add_ephemeral, share_files, store_file
from playground.slack.rules import SlackRefusal, check_blocks, check_text
from playground.slack.sockets import Envelope, SocketMode
from playground.slack.text import escape, make_rich_text
from playground.slack.world import SlackMessage, SlackUser, SlackWorld, WorkspaceChannel, find_buttons
from playground.wire import Wire
from playground.world import look_up


class SlackPeople:
    """The channel is the first argument and who acts the second; a message is returned as the history shows it."""

    def __init__(self, world: SlackWorld, sockets: SocketMode) -> None:
        self.world = world
        self._sockets = sockets

    def make_user(
        self,
        name: str = "ada",
        *,
        real_name: str = "",
        display_name: str = "",
        id: str = "",  # noqa: A002
    ) -> Wire:
        """Make a member of the workspace."""
        return self._add_user(
            SlackUser(id=id or self.world.new_id("U"), name=name, real_name=real_name, display_name=display_name)
        )

    def make_bot(self, name: str = "helper") -> Wire:
        """Make another bot."""
        bot_id, app_id = self.world.new_id("B"), self.world.new_id("A")
        return self._add_user(
            SlackUser(id=self.world.new_id("U"), name=name, is_bot=True, bot_id=bot_id, app_id=app_id)
        )

    def _add_user(self, user: SlackUser) -> Wire:
        user.team_id = self.world.team_id
        self.world.users[user.id] = user
        return user.wire

    def make_channel(
        self,
        name: str = "general",
        *,
        members: Sequence[str] = (),
        private: bool = False,
        with_bot: bool = True,
        id: str = "",  # noqa: A002
    ) -> Wire:
        """Make a channel, with the bot unless told otherwise; no event tells of that."""
        inside = [*(self._user(user).id for user in members), *([self.world.bot.id] if with_bot else [])]
        channel = WorkspaceChannel(
            id=id or self.world.new_id("C"), kind="group" if private else "channel", name=name, members=inside
        )
        self.world.channels[channel.id] = channel
        return channel.wire

    def make_dm(self, user: str) -> Wire:
        """Return the direct channel of a user and the bot."""
        return self.world.im_with(self._user(user).id).wire

    def make_group_dm(self, users: Sequence[str]) -> Wire:
        """Make a direct channel of several users and the bot."""
        members = sorted({*(self._user(user).id for user in users), self.world.bot.id})
        name = "mpdm-" + "--".join(self.world.users[user].name for user in members) + "-1"
        channel = WorkspaceChannel(id=self.world.new_id("G"), kind="mpim", name=name, members=members)
        self.world.channels[channel.id] = channel
        return channel.wire

    def join(self, channel: str, user: str) -> None:
        join(self.world, self._channel(channel), self._user(user))

    def invite_bot(self, channel: str, user: str) -> None:
        """Invite the bot, which hears that it joined and who invited it."""
        join(self.world, self._channel(channel), self.world.bot, inviter=self._user(user).id)

    def remove_bot(self, channel: str) -> None:
        leave(self.world, self._channel(channel), self.world.bot)

    def archive(self, channel: str, user: str, *, undo: bool = False) -> None:
        place = self._channel(channel)
        place.archived = not undo
        kind = f"{'group' if place.kind == 'group' else 'channel'}_{'unarchive' if undo else 'archive'}"
        if self.world.hears(place):
            event = {"type": kind, "channel": channel, "user": self._user(user).id, "event_ts": self.world.next_ts()}
            self.world.emit(kind, event)

    def restrict(self, channel: str, *, undo: bool = False) -> None:
        """Let only admins post, which the bot is not."""
        self._channel(channel).restricted = not undo

    def send_text(self, channel: str, user: str, text: str, *, thread: str = "", extra: Wire | None = None) -> Wire:
        """Send a message; mentions are written `<@U…>`. Raises ValueError where no client could."""
        place, author = self._check_speaker(channel, user)
        if not text.strip() or len(text) > 12_000:
            raise ValueError("a message has 1 to 12,000 characters")
        fields = person_fields(self.world, author, text) | (extra or {})
        return add(self.world, place, fields, thread=thread).body

    def send_file(
        self,
        channel: str,
        user: str,
        content: bytes = b"bytes",
        *,
        name: str = "notes.txt",
        mime_type: str = "",
        size: int | None = None,
        text: str = "",
        thread: str = "",
        stub: bool = False,
    ) -> Wire:
        """Send a file; with `size` it claims that size, and as a `stub` it must be asked for."""
        place, author = self._check_speaker(channel, user)
        size = len(content) if size is None else size
        stored = store_file(self.world, user, name, size=size, content=content, mime_type=mime_type)
        fields = person_fields(self.world, author, text)
        return share_files(self.world, place, [stored], fields, thread=thread, stub=stub).body

    def send_as_bot(self, channel: str, user: str, text: str, *, thread: str = "", legacy: bool = False) -> Wire:
        """Send as another bot; a `legacy` one is only a name: subtype `bot_message`, and no user."""
        place, bot = self._check_speaker(channel, user)
        fields = bot_fields(self.world, bot, text)
        if legacy:
            fields = {"subtype": "bot_message", "text": fields["text"], "bot_id": bot.bot_id, "username": bot.name}
        return add(self.world, place, fields, thread=thread).body

    def _check_speaker(self, channel: str, user: str) -> tuple[WorkspaceChannel, SlackUser]:
        place = self._channel(channel)
        if place.archived or user not in place.members:
            raise ValueError(f"{user} cannot write in {channel}: it is archived, or they are no member")
        return place, self._user(user)

    def edit_text(self, channel: str, ts: str, text: str) -> Wire:
        """Change a message as its author."""
        place, post = self._post(channel, ts)
        if post.by_bot:
            raise ValueError("people cannot edit what the bot wrote")
        kept = escape(text)
        fields = {"text": kept, "blocks": make_rich_text(kept, self.world.new_id("B")[-5:])}
        change(self.world, place, post, fields, by=post.body.get("user", ""))
        return post.body

    def delete(self, channel: str, ts: str) -> None:
        """Delete as the author or an admin, so the bot's messages too."""
        remove(self.world, *self._post(channel, ts))

    def react(self, channel: str, user: str, ts: str, name: str = "thumbsup", *, remove: bool = False) -> None:
        react(self.world, *self._post(channel, ts), self._user(user).id, name, added=not remove)

    def command(self, channel: str, user: str, command: str, text: str = "") -> Wire:
        """Type a slash command and return the payload for the bot. There are none in threads."""
        return self._command(channel, user, command, text).payload

    async def command_and_wait(
        self, channel: str, user: str, command: str, text: str = "", *, seconds: float = 5.0
    ) -> Wire:
        """Type a slash command, wait for the ack and return its payload. Raises TimeoutError."""
        return await self._wait_for_ack(self._command(channel, user, command, text), seconds)

    def _command(self, channel: str, user: str, command: str, text: str) -> Envelope:
        place, author = self._channel(channel), self._user(user)
        if not command.startswith("/"):
            raise ValueError("a command begins with /")
        payload: Wire = {"token": "playground-verification", "team_id": self.world.team_id, "channel_id": place.id}
        payload |= {"user_id": user, "user_name": author.name, "command": command, "text": text}
        payload |= {"api_app_id": self.world.app_id, "trigger_id": self._new_trigger()}
        self.world.events.note("command", channel=channel, user=user, command=command, text=text)

        def show_answer(given: Wire) -> None:
            """Show the answer in the ack to the user who asked."""
            try:
                words, blocks = check_text(str(given.get("text") or "")), check_blocks(given.get("blocks"))
            except SlackRefusal as refusal:
                self.world.events.note("bad_answer", channel=channel, user=user, error=refusal.error)
                return
            if words or blocks:
                add_ephemeral(self.world, place, user, words, blocks)

        return self._sockets.push(
            Envelope(type="slash_commands", payload=payload, name="slash_commands", place=channel, on_ack=show_answer)
        )

    def _new_trigger(self) -> str:
        return f"{int(self.world.now() * 1000)}.{self.world.team_id[1:]}.{secrets.token_hex(16)}"

    async def _wait_for_ack(self, envelope: Envelope, seconds: float) -> Wire:
        await self.world.events.wait_for(lambda: envelope.acked or envelope.lost, seconds=seconds)
        if envelope.lost:
            raise TimeoutError
        return envelope.answer

    def press(self, channel: str, user: str, ts: str, *, action_id: str = "", text: str = "") -> Wire:
        """Press the button with this id or text and return the payload for the bot. Raises ValueError without one."""
        return self._press(channel, user, ts, action_id=action_id, text=text).payload

    async def press_and_wait(self, channel: str, user: str, ts: str, *, text: str = "", seconds: float = 5.0) -> Wire:
        """Press a button and wait for the ack. Raises TimeoutError, as people see a warning sign then."""
        return await self._wait_for_ack(self._press(channel, user, ts, action_id="", text=text), seconds)

    def _press(self, channel: str, user: str, ts: str, *, action_id: str, text: str) -> Envelope:
        place, post = self._post(channel, ts)
        for button in find_buttons(post):
            if button["action_id"] == action_id or (text and button["text"]["text"] == text):
                payload = self._press_payload(place, self._user(user), post, button)
                self.world.events.note("press", channel=channel, user=user, ts=ts, action_id=button["action_id"])
                return self._sockets.push(
                    Envelope(type="interactive", payload=payload, name="interactive", place=channel)
                )
        raise ValueError(f"message {ts} has no button {action_id or text!r}")

    def _press_payload(self, channel: WorkspaceChannel, user: SlackUser, post: SlackMessage, button: Wire) -> Wire:
        who = {"id": user.id, "username": user.name, "name": user.name, "team_id": self.world.team_id}
        container: Wire = {"type": "message", "message_ts": post.ts, "channel_id": channel.id}
        container |= {"is_ephemeral": bool(post.for_user)}
        if post.thread_ts:
            container["thread_ts"] = post.thread_ts
        name = "directmessage" if channel.kind == "im" else channel.name
        payload: Wire = {"type": "block_actions", "user": who, "api_app_id": self.world.app_id}
        payload |= {"token": "playground-verification", "container": container, "trigger_id": self._new_trigger()}
        payload |= {"team": {"id": self.world.team_id}, "channel": {"id": channel.id, "name": name}}
        if not post.for_user:
            payload["message"] = dict(post.body)
        kept = ("action_id", "block_id", "text", "value", "style")
        action: Wire = {key: button[key] for key in kept if key in button}
        return {**payload, "actions": [action | {"type": "button", "action_ts": self.world.next_ts()}]}

    def open_home(self, user: str) -> None:
        """Look at the app; the bot hears `app_home_opened`."""
        channel = self.world.im_with(self._user(user).id)
        event = {"type": "app_home_opened", "user": user, "channel": channel.id, "tab": "messages"}
        self.world.emit("app_home_opened", {**event, "event_ts": self.world.next_ts()})

    def _channel(self, channel: str) -> WorkspaceChannel:
        return look_up(self.world.channels, channel, "channel")

    def _user(self, user: str) -> SlackUser:
        return look_up(self.world.users, user, "user")

    def _post(self, channel: str, ts: str) -> tuple[WorkspaceChannel, SlackMessage]:
        place = self._channel(channel)
        post = place.post(ts) or next((one for one in place.ephemeral if one.ts == ts), None)
        if post is None:
            raise ValueError(f"{channel} shows no message {ts}")
        return place, post
