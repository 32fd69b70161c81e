"""A phone with Slack on it."""

from playground.page.phone import Phone, PhoneMessage, PhonePlace, flatten, to_handle
from playground.slack.server import SlackServer
from playground.slack.world import SLACKBOT, SlackMessage, WorkspaceChannel, find_buttons
from playground.wire import Wire

OWNER = "U0OWNER001"
COMMAND = "/hermes"
_VOICE = "audio_message.ogg"
_EMOJI = {"thumbsup": "👍", "+1": "👍", "heart": "❤️", "tada": "🎉", "eyes": "👀", "white_check_mark": "✅"}
_EMOJI |= {"x": "❌", "warning": "⚠️", "joy": "😂", "thinking_face": "🤔"}
_SERVICE = dict.fromkeys(("channel_join", "group_join"), "{name} joined the channel")
_SERVICE |= {"tombstone": "This message was deleted."}
_NAMES = {emoji: name for name, emoji in reversed(_EMOJI.items())}


class SlackPhone(Phone):
    platform = "slack"
    typing_seconds = 120.0  # a status stands until the answer comes

    def __init__(self, server: SlackServer) -> None:
        super().__init__(server, handle=server.world.bot.name, mention=f"<@{server.world.bot.id}>")
        self._people, self._world = server.people, server.world
        self.owner = self._make_user("you", "You (owner)", id=OWNER)
        ada = self._make_user("ada", "Ada", id="U0ADA00001")
        self._make_user("ben", "Ben", id="U0BEN00001")
        for name, number in (("general", "C0GENERAL1"), ("roses", "C0ROSES001")):
            self._people.make_channel(name, members=[self.owner, ada], id=number)

    def people(self) -> dict[str, str]:
        users = self._world.users.values()
        return {user.id: user.real_name for user in users if not user.is_bot and user.id != SLACKBOT}

    def places(self, person: str) -> list[PhonePlace]:
        found = [PhonePlace(id="dm", title=self._world.bot.name, kind="dm")]
        found += self._threads(self._world.im_with(person), "dm")
        for channel in self._world.channels.values():
            if channel.kind == "channel":
                joined = person in channel.members
                found.append(PhonePlace(id=channel.id, title=channel.name, kind="channel", joined=joined))
                found += self._threads(channel, channel.id) if joined else []
        return found

    def _threads(self, channel: WorkspaceChannel, place: str) -> list[PhonePlace]:
        threads = []
        for ts in channel.threads:
            parent = channel.posts.get(ts)
            title = flatten(parent.words, self.names())[:40] if parent else ""
            threads.append(PhonePlace(id=f"{place}/{ts}", title=title or "Thread", kind="thread", parent=place))
        return threads

    def _find(self, person: str, place: str) -> tuple[WorkspaceChannel, str]:
        """Return the channel and the thread in it."""
        where, _, thread = place.partition("/")
        channel = self._world.im_with(person) if where == "dm" else self._world.channels[where]
        if person not in channel.members:
            raise ValueError("They are not in this channel.")
        return channel, thread

    def messages(self, person: str, place: str) -> list[PhoneMessage]:
        channel, thread = self._find(person, place)
        return [
            self._message(channel, post, person, place)
            for post in self._world.posts_in(channel.id)
            if not post.deleted
            and post.for_user in ("", person)
            and (thread in (post.ts, post.thread_ts) if thread else not post.is_reply)
        ]

    def _message(self, channel: WorkspaceChannel, post: SlackMessage, person: str, place: str) -> PhoneMessage:
        body, user = post.body, post.body.get("user", "")
        name = self.names().get(user) or str(body.get("username", "Somebody"))
        words = [
            {"text": block["text"], "format": "markdown"}
            if block["type"] == "markdown"
            else {"text": block["text"]["text"], "format": "mrkdwn"}
            for block in body.get("blocks") or ()
            if block["type"] in ("markdown", "section")
        ]
        buttons = [
            {"label": one["text"]["text"], "key": one["action_id"], "style": one.get("style", "")}
            for one in find_buttons(post)
        ]
        return PhoneMessage(
            id=post.ts,
            author=name,
            author_id=user,
            by_bot=post.by_bot,
            mine=user == person,
            at_ms=int(float(post.ts) * 1000),
            words=words or ([{"text": body["text"], "format": "mrkdwn"}] if body.get("text") else []),
            edited="edited" in body,
            service=_SERVICE.get(body.get("subtype", ""), "").format(name=name),
            private=bool(post.for_user),
            buttons=[buttons] if buttons else [],
            reactions=[
                {"emoji": _EMOJI.get(one["name"], f":{one['name']}:"), "count": one["count"]}
                | {"mine": person in one["users"]}
                for one in body.get("reactions", ())
            ],
            files=[
                self.show_file(one["id"], "voice" if one.get("name") == _VOICE else "") for one in body.get("files", ())
            ],
            thread=self._thread(channel, post, place),
        )

    def _thread(self, channel: WorkspaceChannel, post: SlackMessage, place: str) -> Wire | None:
        replies = [one for one in channel.threads.get(post.ts, ()) if not one.deleted]
        if not replies or "/" in place:
            return None
        names, last = self.names(), replies[-1]
        said = f"{names.get(last.body.get('user', ''), '')}: {flatten(last.words, names)[:80]}"
        return {"place": f"{place}/{post.ts}", "replies": len(replies), "last": said}

    def names(self) -> dict[str, str]:
        return {user.id: user.real_name or user.name for user in self._world.users.values()}

    def commands(self) -> list[Wire]:
        return [{"name": COMMAND[1:], "description": "Ask Hermes or run a command: help, status, new, stop…"}]

    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        channel, thread = self._find(person, place)
        if event.get("channel") != channel.id:
            return None
        if event["kind"] == "status":
            return bool(event["status"]) if not thread or event["thread"] == thread else None
        spoke = event["kind"] == "message" and event["by_bot"]
        return False if spoke and (not thread or event["message"].get("thread_ts") == thread) else None

    def add_person(self, name: str) -> str:
        return self._make_user(to_handle(name), name)

    def _make_user(self, handle: str, name: str, id: str = "") -> str:  # noqa: A002
        """Give a user one name everywhere, as on the other phones: clients show the display name, if there is one."""
        return str(self._people.make_user(handle, real_name=name, display_name=name, id=id)["id"])

    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None:
        channel, thread = self._find(person, place)
        name, _, rest = text.strip().partition(" ")
        if name == COMMAND:
            if thread:
                raise ValueError("Slack has no slash commands in threads. Write the command without the slash.")
            self._people.command(channel.id, person, COMMAND, rest.strip())
            return
        self._people.send_text(channel.id, person, text, thread=thread)

    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: str, caption: str = ""
    ) -> None:
        channel, thread = self._find(person, place)
        name = _VOICE if kind == "voice" else name
        self._people.send_file(channel.id, person, content, name=name, mime_type=mime_type, text=caption, thread=thread)

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        self._people.edit_text(self._find(person, place)[0].id, message, text)

    def delete(self, person: str, place: str, message: str) -> None:
        self._people.delete(self._find(person, place)[0].id, message)

    def react(self, person: str, place: str, message: str, emoji: str, *, remove: bool) -> None:
        channel, name = self._find(person, place)[0].id, _NAMES.get(emoji, "thumbsup")
        self._people.react(channel, person, message, name, remove=remove)

    def press(self, person: str, place: str, message: str, button: str) -> None:
        self._people.press(self._find(person, place)[0].id, person, message, action_id=button)

    def join(self, person: str, place: str) -> None:
        self._people.join(place.partition("/")[0], person)

    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        """Open a thread, which is only a place to write to until its first reply."""
        channel, _ = self._find(person, place)
        if channel.post(message) is None:
            raise ValueError("A thread needs a message to begin at.")
        channel.threads.setdefault(message, [])
        return f"{place.partition('/')[0]}/{message}"
