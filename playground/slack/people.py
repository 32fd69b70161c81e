"""What people do: write, send files, edit, delete, react, type commands, press buttons."""

import secrets
from collections.abc import Sequence

from playground.events import EventLog
from playground.slack.files import share, store
from playground.slack.members import Members
from playground.slack.messages import add, bot_fields, change, person_fields, react, remove
from playground.slack.responses import Responses
from playground.slack.rules import Refused
from playground.slack.sockets import Delivery, Sockets
from playground.slack.text import as_kept, rich_text
from playground.slack.world import Channel, Post, User, World, buttons_of
from playground.wire import Wire


class People(Members):
    """Where is the first argument, who acts the second; a message is given back as the history shows it."""

    def __init__(self, world: World, sockets: Sockets) -> None:
        super().__init__(world)
        self._sockets = sockets
        self._responses = Responses(world)

    @property
    def responses(self) -> Responses:
        return self._responses

    @property
    def _log(self) -> EventLog:
        return self.world.events

    def send_text(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        thread: str = "",
        broadcast: bool = False,
        extra: Wire | None = None,
    ) -> Wire:
        """Mentions are written `<@U…>`. Raises ValueError for what no client would send."""
        place, author = self._spoken(channel, user)
        if not text.strip() or len(text) > 12_000:
            raise ValueError("a message has 1 to 12,000 characters")
        fields = person_fields(self.world, author, text) | (extra or {})
        return add(self.world, place, fields, thread=thread, broadcast=broadcast).body

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
        """With `size` the file claims that size whatever its content; as a `stub` it must be asked for."""
        item: Wire = {"content": content, "name": name, "mime_type": mime_type, "size": size}
        return self.send_files(channel, user, [item], text=text, thread=thread, stub=stub)

    def send_files(
        self, channel: str, user: str, files: Sequence[Wire], *, text: str = "", thread: str = "", stub: bool = False
    ) -> Wire:
        """Several in one message; each has what `send_file` takes."""
        place, author = self._spoken(channel, user)
        stored = []
        for item in files:
            content = item.get("content", b"bytes")
            size = item["size"] if item.get("size") is not None else len(content)
            name, mime_type = item.get("name") or "notes.txt", item.get("mime_type") or ""
            stored.append(store(self.world, user, name, size=size, content=content, mime_type=mime_type))
        fields = person_fields(self.world, author, text)
        return share(self.world, place, stored, fields, thread=thread, stub=stub)

    def send_as_bot(self, channel: str, user: str, text: str, *, thread: str = "", legacy: bool = False) -> Wire:
        """Another bot speaks; a `legacy` one is only a name: subtype `bot_message`, and no user."""
        place, bot = self._spoken(channel, user)
        if not bot.is_bot:
            raise ValueError(f"{user} is no bot")
        fields = bot_fields(self.world, bot, text)
        if legacy:
            fields = {"subtype": "bot_message", "text": fields["text"], "bot_id": bot.bot_id, "username": bot.name}
        return add(self.world, place, fields, thread=thread).body

    def _spoken(self, channel: str, user: str) -> tuple[Channel, User]:
        place, author = self._channel(channel), self._user(user)
        if place.archived:
            raise ValueError(f"{channel} is archived")
        if author.deleted or (user not in place.members):
            raise ValueError(f"{user} cannot write in {channel}: deactivated or no member")
        return place, author

    def edit_text(self, channel: str, ts: str, text: str) -> Wire:
        """The author changes a message."""
        place, post = self._post(channel, ts)
        if post.by_bot:
            raise ValueError("people cannot edit what the bot wrote")
        kept = as_kept(text)
        fields = {"text": kept, "blocks": rich_text(kept, self.world.new_id("B")[-5:])}
        change(self.world, place, post, fields, by=post.body.get("user", ""))
        return post.body

    def delete(self, channel: str, ts: str) -> None:
        """By its author or an admin, so the bot's messages too."""
        remove(self.world, *self._post(channel, ts))

    def react(self, channel: str, user: str, ts: str, name: str = "thumbsup") -> None:
        place, post = self._post(channel, ts)
        react(self.world, place, post, self._user(user).id, name, added=True)

    def unreact(self, channel: str, user: str, ts: str, name: str = "thumbsup") -> None:
        place, post = self._post(channel, ts)
        react(self.world, place, post, self._user(user).id, name, added=False)

    def _post(self, channel: str, ts: str) -> tuple[Channel, Post]:
        place = self._channel(channel)
        post = place.post(ts) or next((one for one in place.ephemeral if one.ts == ts and not one.deleted), None)
        if post is None:
            raise ValueError(f"{channel} shows no message {ts}")
        return place, post

    def command(self, channel: str, user: str, command: str, text: str = "") -> Wire:
        """Type a slash command; gives what the bot is sent. In threads there are none."""
        return self._command(channel, user, command, text).payload

    async def command_and_wait(
        self, channel: str, user: str, command: str, text: str = "", *, seconds: float = 5.0
    ) -> Wire:
        """And wait for the ack; gives its payload. Raises TimeoutError, as people are told of one."""
        return await self._acked(self._command(channel, user, command, text), seconds)

    def _command(self, channel: str, user: str, command: str, text: str) -> Delivery:
        place, author = self._channel(channel), self._user(user)
        if not command.startswith("/"):
            raise ValueError("a command begins with /")
        address, response = self._responses.new("commands", place, user)
        names = {"im": "directmessage", "group": "privategroup"}
        payload: Wire = {"token": "playground-verification", "team_id": self.world.team_id}
        payload |= {"team_domain": self.world.team_domain, "channel_id": place.id, "user_id": user}
        payload |= {"channel_name": names.get(place.kind, place.name), "user_name": author.name, "command": command}
        payload |= {"text": text, "api_app_id": self.world.app_id, "is_enterprise_install": "false"}
        payload |= {"response_url": address, "trigger_id": self._trigger()}
        self._log.note("command", channel=channel, user=user, command=command, text=text)

        def answered(given: Wire) -> None:
            try:
                if given.get("text") or given.get("blocks"):
                    self._responses.answer(response, given)
            except Refused as refused:
                self._log.note("bad_answer", channel=channel, user=user, error=refused.error)

        delivery = Delivery(
            type="slash_commands", payload=payload, name="slash_commands", place=channel, on_ack=answered
        )
        return self._sockets.push(delivery)

    def _trigger(self) -> str:
        return f"{int(self.world.now() * 1000)}.{self.world.team_id[1:]}.{secrets.token_hex(16)}"

    async def _acked(self, delivery: Delivery, seconds: float) -> Wire:
        if not await self._log.wait_for(lambda: delivery.acked or delivery.lost, seconds=seconds) or delivery.lost:
            raise TimeoutError
        return delivery.answer

    def press(self, channel: str, user: str, ts: str, *, action_id: str = "", text: str = "", value: str = "") -> Wire:
        """Press the button with this id, text or value; gives what the bot is sent. ValueError if there is none."""
        return self._press(channel, user, ts, action_id=action_id, text=text, value=value).payload

    async def press_and_wait(
        self,
        channel: str,
        user: str,
        ts: str,
        *,
        action_id: str = "",
        text: str = "",
        value: str = "",
        seconds: float = 5.0,
    ) -> Wire:
        """And wait for the ack. Raises TimeoutError, as people see a warning sign then."""
        return await self._acked(self._press(channel, user, ts, action_id=action_id, text=text, value=value), seconds)

    def _press(self, channel: str, user: str, ts: str, *, action_id: str, text: str, value: str) -> Delivery:
        place, post = self._post(channel, ts)
        for button in buttons_of(post):
            given = {"action_id": button["action_id"], "text": button["text"]["text"], "value": button.get("value", "")}
            asked = {"action_id": action_id, "text": text, "value": value}
            if any(asked.values()) and all(given[name] == words for name, words in asked.items() if words):
                payload = self._pressed(place, self._user(user), post, button)
                self._log.note("press", channel=channel, user=user, ts=ts, action_id=button["action_id"])
                return self._sockets.push(
                    Delivery(type="interactive", payload=payload, name="interactive", place=channel)
                )
        raise ValueError(f"message {ts} has no button {action_id or text or value!r}")

    def _pressed(self, channel: Channel, user: User, post: Post, button: Wire) -> Wire:
        address, _ = self._responses.new("actions", channel, user.id, post)
        who = {"id": user.id, "username": user.name, "name": user.name, "team_id": self.world.team_id}
        container: Wire = {"type": "message", "message_ts": post.ts, "channel_id": channel.id}
        container |= {"is_ephemeral": bool(post.for_user)}
        if post.thread_ts:
            container["thread_ts"] = post.thread_ts
        name = "directmessage" if channel.kind == "im" else channel.name
        payload: Wire = {"type": "block_actions", "user": who, "api_app_id": self.world.app_id}
        payload |= {"token": "playground-verification", "container": container, "trigger_id": self._trigger()}
        payload |= {"team": {"id": self.world.team_id, "domain": self.world.team_domain}, "enterprise": None}
        payload |= {"is_enterprise_install": False, "channel": {"id": channel.id, "name": name}}
        if not post.for_user:
            payload["message"] = dict(post.body)
        action: Wire = {
            key: button[key] for key in ("action_id", "block_id", "text", "value", "style") if key in button
        }
        action |= {"type": "button", "action_ts": self.world.next_ts()}
        return {**payload, "state": {"values": {}}, "response_url": address, "actions": [action]}

    def open_home(self, user: str, *, tab: str = "messages") -> None:
        """A look at the app; the bot hears `app_home_opened`."""
        channel = self.world.im_with(self._user(user).id)
        event = {"type": "app_home_opened", "user": user, "channel": channel.id, "tab": tab}
        self.world.emit("app_home_opened", {**event, "event_ts": self.world.next_ts()})
