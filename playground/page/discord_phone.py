"""A phone with Discord on it."""

from datetime import datetime

from playground.discord.messages import LOADING
from playground.discord.server import DiscordServer
from playground.discord.world import DM, TEXT, Channel, Guild, Post, StoredFile, User
from playground.page.phone import Phone, checked_name, file_kind, mentioned, plainly
from playground.page.shapes import (
    Button,
    Command,
    File,
    FileKind,
    Message,
    Person,
    Place,
    Quote,
    Reaction,
    Thread,
    Words,
)
from playground.wire import Wire

OWNER = 1_200_000_000_000_000_001
_GARDEN = "Garden club"
_STYLES = {1: "primary", 3: "good", 4: "danger"}
_VOICE_MESSAGE = 1 << 13
_JOINED, _THREAD_START = 7, 21
_REPLIES = (19, 20)  # to a message, and of a slash command
_SERVICE = {
    6: "{name} pinned a message",
    _JOINED: "{name} joined the server",
    18: "{name} started a thread: {content}",
    _THREAD_START: "The thread begins here",
}


class DiscordPhone(Phone):
    platform = "discord"
    typing_seconds = 10.0

    def __init__(self, server: DiscordServer) -> None:
        super().__init__(server)
        self._people, self._world = server.people, server.world
        people = self._people
        self.owner = str(people.make_user("you", global_name="You (owner)", id=OWNER)["id"])
        ada = people.make_user("ada", global_name="Ada", id=OWNER + 1)["id"]
        people.make_user("ben", global_name="Ben", id=OWNER + 2)
        guild = people.make_guild(_GARDEN, members=[self.owner, ada])["id"]
        for name in ("general", "roses"):
            people.make_channel(guild, name)

    @property
    def handle(self) -> str:
        return self._world.bot.username

    @property
    def _mention(self) -> str:
        return f"<@{self._world.bot.id}>"

    @property
    def _guild(self) -> Guild:
        return next(iter(self._world.guilds.values()))

    def people(self) -> list[Person]:
        users = [user for user in self._world.users.values() if not user.bot]
        return [Person(id=str(user.id), name=_name(user), owner=str(user.id) == self.owner) for user in users]

    def places(self, person: str) -> list[Place]:
        found = [Place(id="dm", title=self._world.bot.username, kind="dm")]
        joined = int(person) in self._guild.members
        for channel in self._world.channels.values():
            if channel.kind != TEXT:
                continue
            found.append(Place(id=str(channel.id), title=channel.name, kind="channel", joined=joined))
            threads = [one for one in self._world.channels.values() if one.is_thread and one.parent_id == channel.id]
            found += [
                Place(id=str(one.id), title=one.name, kind="thread", parent=str(channel.id))
                for one in threads
                if joined
            ]
        return found

    def _channel(self, person: str, place: str) -> Channel:
        if place == "dm":
            return self._world.dm(self._world.users[int(person)])
        channel = self._world.channels.get(int(place))
        if channel is None or channel.kind == DM or int(person) not in self._guild.members:
            raise ValueError("They are not in this channel.")
        return channel

    def messages(self, person: str, place: str) -> list[Message]:
        posts = self._channel(person, place).posts.values()
        return [self._message(post, person) for post in posts if not post.deleted and _is_for(post, person)]

    def _message(self, post: Post, person: str) -> Message:
        body, author, name = post.body, post.author, _name(post.author)
        return Message(
            id=str(post.id),
            author=name,
            author_id=str(author.id),
            by_bot=author is self._world.bot,
            mine=str(author.id) == person,
            at_ms=int(datetime.fromisoformat(body["timestamp"]).timestamp() * 1000),
            words=(Words(text=post.words, format="markdown"),) if post.words else (),
            edited=bool(body["edited_timestamp"]),
            service=_SERVICE.get(body["type"], "").format(name=name, content=body["content"]),
            private=post.ephemeral,
            waiting=bool(body["flags"] & LOADING),
            quote=self._quote(body),
            buttons=_buttons(body),
            reactions=tuple(
                Reaction(emoji=emoji.partition(":")[0], count=len(by), mine=int(person) in by)
                for emoji, by in post.reactions.items()
            ),
            files=tuple(self._file(one, body) for one in body["attachments"]),
            thread=self._thread(post),
        )

    def _quote(self, body: Wire) -> Quote | None:
        reference = body.get("message_reference")
        if not reference or body["type"] not in _REPLIES:
            return None
        replied = self._world.channels[int(reference["channel_id"])].post(int(reference["message_id"]))
        if replied is None:
            return Quote(author="", text="a message that was deleted")
        text = plainly(replied.words, self.names())[:120] or "a file"
        return Quote(author=_name(replied.author), text=text)

    def _file(self, wire: Wire, body: Wire) -> File:
        stored = self._stored(wire["id"])
        kind = file_kind(stored.content if stored else b"", wire.get("content_type", ""))
        if kind == "audio" and body["flags"] & _VOICE_MESSAGE:
            kind = "voice"
        return File(name=wire["filename"], kind=kind, size_bytes=wire["size"], url=f"/media/discord/{wire['id']}")

    def _stored(self, number: str) -> StoredFile | None:
        return next((one for path, one in self._world.files.items() if path.split("/")[1] == number), None)

    def _thread(self, post: Post) -> Thread | None:
        thread = self._world.channels.get(post.id)
        if thread is None or not thread.is_thread:
            return None
        replies = [one for one in thread.posts.values() if not one.deleted and one.body["type"] != _THREAD_START]
        last = replies[-1] if replies else None
        words = f"{_name(last.author)}: {plainly(last.words, self.names())[:80]}" if last else ""
        return Thread(place=str(thread.id), replies=len(replies), last=words)

    def names(self) -> dict[str, str]:
        return {str(user.id): _name(user) for user in self._world.users.values()}

    def commands(self) -> list[Command]:
        known = [one for one in self._world.commands[0] if one["type"] == 1]
        return [Command(name=one["name"], description=one["description"]) for one in known]

    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        if event.get("channel_id") != str(self._channel(person, place).id):
            return None
        if event["kind"] == "typing":
            return True
        return False if event["kind"] == "message" and event["by_bot"] else None

    def file(self, file_id: str) -> bytes | None:
        stored = self._stored(file_id)
        return stored.content if stored else None

    def add_person(self, name: str) -> str:
        name = checked_name(name)
        username = "".join(one for one in name.lower() if one.isascii() and one.isalnum()) or "someone"
        return str(self._people.make_user(username, global_name=name)["id"])

    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None:
        channel, (name, _, rest) = self._channel(person, place), text.strip().partition(" ")
        if name.removeprefix("/") in [one.name for one in self.commands()] and name.startswith("/"):
            options = {"text": rest.strip()} if rest.strip() else None
            self._people.use_command(channel.id, int(person), name[1:], options)
            return
        said = mentioned(text, self.handle, self._mention)
        self._people.send_text(channel.id, int(person), said, reply_to=int(reply_to or 0))

    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: FileKind, caption: str = ""
    ) -> None:
        voice = kind == "voice"
        about: Wire = {"duration_secs": 2.0, "waveform": "AAAA"} if voice else {}
        self._people.send_text(
            self._channel(person, place).id,
            int(person),
            mentioned(caption, self.handle, self._mention),
            files=[{"name": name, "content": content, "mime_type": mime_type, "extra": about}],
            extra={"flags": _VOICE_MESSAGE} if voice else None,
        )

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        channel = self._own(person, place, message)
        self._people.edit_text(channel.id, int(message), mentioned(text, self.handle, self._mention))

    def delete(self, person: str, place: str, message: str) -> None:
        self._people.delete(self._own(person, place, message).id, [int(message)])

    def _own(self, person: str, place: str, message: str) -> Channel:
        channel = self._channel(person, place)
        post = channel.post(int(message))
        if post is None or str(post.author.id) != person:
            raise ValueError("That is no message of theirs.")
        return channel

    def react(self, person: str, place: str, message: str, emoji: str) -> None:
        channel = self._channel(person, place)
        post = channel.post(int(message))
        there = post is not None and int(person) in post.reactions.get(emoji, ())
        self._people.react(channel.id, int(person), int(message), emoji, remove=there)

    def press(self, person: str, place: str, message: str, button: str) -> None:
        self._people.press(self._channel(person, place).id, int(person), int(message), custom_id=button)

    def join(self, person: str, place: str) -> None:
        self._people.join(self._guild.id, int(person))
        general = next(one for one in self._world.channels.values() if one.kind == TEXT)
        self._people.send_system(general.id, int(person), _JOINED)

    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        channel = self._channel(person, place)
        made = self._people.make_thread(channel.id, int(person), checked_name(name), message_id=int(message or 0))
        return str(made["id"])


def _is_for(post: Post, person: str) -> bool:
    """What is shown to one person alone names them as the one who asked."""
    about = post.body.get("interaction_metadata") or {}
    return not post.ephemeral or about.get("user", {}).get("id") == person


def _name(user: User) -> str:
    return user.global_name or user.username


def _buttons(body: Wire) -> tuple[tuple[Button, ...], ...]:
    rows = [row.get("components", ()) for row in body["components"]]
    return tuple(
        tuple(
            Button(label=one.get("label", ""), key=one["custom_id"], style=_STYLES.get(one.get("style", 2), ""))
            for one in row
            if one.get("type") == 2 and "custom_id" in one and not one.get("disabled")
        )
        for row in rows
    )
