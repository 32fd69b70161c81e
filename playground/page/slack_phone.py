"""A phone with Slack on it."""

from playground.page.phone import Phone, checked_name, file_kind, mentioned, plainly
from playground.page.shapes import (
    Button,
    Command,
    File,
    FileKind,
    Message,
    Person,
    Place,
    Reaction,
    Thread,
    Words,
)
from playground.slack.server import SlackServer
from playground.slack.world import SLACKBOT, Channel, Post, buttons_of
from playground.wire import Wire

OWNER = "U0OWNER001"
COMMAND = "/hermes"
_EMOJI = {
    "thumbsup": "👍",
    "+1": "👍",
    "heart": "❤️",
    "tada": "🎉",
    "eyes": "👀",
    "white_check_mark": "✅",
    "x": "❌",
    "warning": "⚠️",
    "joy": "😂",
    "thinking_face": "🤔",
}
_NAMES = {emoji: name for name, emoji in reversed(_EMOJI.items())}


class SlackPhone(Phone):
    platform = "slack"
    typing_seconds = 120.0  # a status stands until the answer comes

    def __init__(self, server: SlackServer) -> None:
        super().__init__(server)
        self._people, self._world = server.people, server.world
        self.owner = self._make_user("you", "You (owner)", id=OWNER)
        ada = self._make_user("ada", "Ada", id="U0ADA00001")
        self._make_user("ben", "Ben", id="U0BEN00001")
        for name, number in (("general", "C0GENERAL1"), ("roses", "C0ROSES001")):
            self._people.make_channel(name, members=[self.owner, ada], id=number)

    @property
    def handle(self) -> str:
        return self._world.bot.name

    @property
    def _mention(self) -> str:
        return f"<@{self._world.bot.id}>"

    def people(self) -> list[Person]:
        users = [user for user in self._world.users.values() if not user.is_bot and user.id != SLACKBOT]
        return [Person(id=user.id, name=user.real_name or user.name, owner=user.id == self.owner) for user in users]

    def places(self, person: str) -> list[Place]:
        found = [Place(id="dm", title=self._world.bot.name, kind="dm"), *self._threads(self._dm(person), "dm")]
        for channel in self._world.channels.values():
            if channel.kind == "channel":
                joined = person in channel.members
                found.append(Place(id=channel.id, title=channel.name, kind="channel", joined=joined))
                found += self._threads(channel, channel.id) if joined else []
        return found

    def _threads(self, channel: Channel, place: str) -> list[Place]:
        threads = []
        for ts in channel.threads:
            parent = channel.posts.get(ts)
            title = plainly(parent.words, self.names())[:40] if parent else "Thread"
            threads.append(Place(id=f"{place}/{ts}", title=title or "Thread", kind="thread", parent=place))
        return threads

    def _dm(self, person: str) -> Channel:
        return self._world.im_with(person)

    def _find(self, person: str, place: str) -> tuple[Channel, str]:
        """The channel, and the thread in it."""
        where, _, thread = place.partition("/")
        channel = self._dm(person) if where == "dm" else self._world.channels.get(where)
        if channel is None or person not in channel.members:
            raise ValueError("They are not in this channel.")
        return channel, thread

    def messages(self, person: str, place: str) -> list[Message]:
        channel, thread = self._find(person, place)
        posts = sorted([*channel.posts.values(), *channel.ephemeral], key=lambda post: post.ts)
        return [
            self._message(channel, post, person, place)
            for post in posts
            if not post.deleted
            and post.for_user in ("", person)
            and (thread in (post.ts, post.thread_ts) if thread else _is_on_top(post))
        ]

    def _message(self, channel: Channel, post: Post, person: str, place: str) -> Message:
        body = post.body
        author = self._world.users.get(body.get("user", ""))
        name = (author.real_name or author.name) if author else str(body.get("username", "Somebody"))
        buttons = tuple(
            Button(label=one["text"]["text"], key=one["action_id"], style=one.get("style", ""))
            for one in buttons_of(post)
        )
        marks = body.get("reactions", ())
        return Message(
            id=post.ts,
            author=name,
            author_id=author.id if author else "",
            by_bot=post.by_bot,
            mine=body.get("user") == person,
            at_ms=int(float(post.ts) * 1000),
            words=_words(body),
            edited="edited" in body,
            service=_service(body, name),
            private=bool(post.for_user),
            buttons=(buttons,) if buttons else (),
            reactions=tuple(
                Reaction(
                    emoji=_EMOJI.get(one["name"], f":{one['name']}:"), count=one["count"], mine=person in one["users"]
                )
                for one in marks
            ),
            files=tuple(self._file(one) for one in body.get("files", ())),
            thread=self._thread(channel, post, place),
        )

    def _file(self, wire: Wire) -> File:
        stored = self._world.files.get(wire["id"])
        content = stored.content if stored and stored.content else b""
        name, mime_type = (stored.name, stored.mime_type) if stored else ("file", "")
        kind = file_kind(content, mime_type)
        if kind == "audio" and name.startswith("audio_message"):
            kind = "voice"
        size = stored.size if stored else 0
        return File(name=name, kind=kind, size_bytes=size, url=f"/media/slack/{wire['id']}")

    def _thread(self, channel: Channel, post: Post, place: str) -> Thread | None:
        replies = [one for one in channel.threads.get(post.ts, ()) if not one.deleted]
        if not replies or "/" in place:
            return None
        last = replies[-1]
        author = self._world.users.get(last.body.get("user", ""))
        said = f"{author.real_name or author.name if author else ''}: {plainly(last.words, self.names())[:80]}"
        return Thread(place=f"{place}/{post.ts}", replies=len(replies), last=said)

    def names(self) -> dict[str, str]:
        return {user.id: user.real_name or user.name for user in self._world.users.values()}

    def commands(self) -> list[Command]:
        return [Command(name=COMMAND[1:], description="Ask Hermes or run a command: help, status, new, stop…")]

    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        channel, thread = self._find(person, place)
        if event.get("channel") != channel.id:
            return None
        if event["kind"] == "status":
            return bool(event["status"]) if not thread or event["thread"] == thread else None
        spoke = event["kind"] == "message" and event["by_bot"]
        return False if spoke and (not thread or event["message"].get("thread_ts") == thread) else None

    def file(self, file_id: str) -> bytes | None:
        stored = self._world.files.get(file_id)
        return stored.content if stored else None

    def add_person(self, name: str) -> str:
        name = checked_name(name)
        handle = "".join(one for one in name.lower() if one.isascii() and one.isalnum()) or "someone"
        return self._make_user(handle, name)

    def _make_user(self, handle: str, name: str, id: str = "") -> str:  # noqa: A002
        """By the same name everywhere, as on the other phones: a client shows the display name, if there is one."""
        return str(self._people.make_user(handle, real_name=name, display_name=name, id=id)["id"])

    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None:
        channel, thread = self._find(person, place)
        name, _, rest = text.strip().partition(" ")
        if name == COMMAND:
            if thread:
                raise ValueError("Slack has no slash commands in threads. Write the command without the slash.")
            self._people.command(channel.id, person, COMMAND, rest.strip())
            return
        self._people.send_text(channel.id, person, mentioned(text, self.handle, self._mention), thread=thread)

    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: FileKind, caption: str = ""
    ) -> None:
        channel, thread = self._find(person, place)
        name = "audio_message.ogg" if kind == "voice" else name
        text = mentioned(caption, self.handle, self._mention)
        self._people.send_file(channel.id, person, content, name=name, mime_type=mime_type, text=text, thread=thread)

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        channel = self._own(person, place, message)
        self._people.edit_text(channel.id, message, mentioned(text, self.handle, self._mention))

    def delete(self, person: str, place: str, message: str) -> None:
        self._people.delete(self._own(person, place, message).id, message)

    def _own(self, person: str, place: str, message: str) -> Channel:
        channel, _ = self._find(person, place)
        post = channel.post(message)
        if post is None or post.body.get("user") != person:
            raise ValueError("That is no message of theirs.")
        return channel

    def react(self, person: str, place: str, message: str, emoji: str) -> None:
        channel, _ = self._find(person, place)
        name, post = _NAMES.get(emoji, "thumbsup"), channel.post(message)
        marks = post.body.get("reactions", ()) if post else ()
        there = any(one["name"] == name and person in one["users"] for one in marks)
        (self._people.unreact if there else self._people.react)(channel.id, person, message, name)

    def press(self, person: str, place: str, message: str, button: str) -> None:
        channel, _ = self._find(person, place)
        self._people.press(channel.id, person, message, action_id=button)

    def join(self, person: str, place: str) -> None:
        self._people.join(place.partition("/")[0], person)

    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        """A thread begins with its first reply; until then it is only a place to write to."""
        channel, _ = self._find(person, place)
        if channel.post(message) is None:
            raise ValueError("A thread needs a message to begin at.")
        channel.threads.setdefault(message, [])
        return f"{place.partition('/')[0]}/{message}"


def _is_on_top(post: Post) -> bool:
    return not post.is_reply or post.body.get("subtype") == "thread_broadcast"


def _words(body: Wire) -> tuple[Words, ...]:
    """What the blocks say, each in its own markup; without any, the text."""
    found = []
    for block in body.get("blocks") or ():
        match block["type"]:
            case "markdown":
                found.append(Words(text=block["text"], format="markdown"))
            case "section" if block.get("text"):
                found.append(Words(text=block["text"]["text"], format="mrkdwn"))
            case "context":
                texts = [one["text"] for one in block["elements"] if isinstance(one.get("text"), str)]
                found.append(Words(text=" ".join(texts), format="mrkdwn", small=True))
    if found or not body.get("text"):
        return tuple(found)
    return (Words(text=body["text"], format="mrkdwn"),)


def _service(body: Wire, name: str) -> str:
    match body.get("subtype"):
        case "channel_join" | "group_join":
            return f"{name} joined the channel"
        case "tombstone":
            return "This message was deleted."
    return ""
