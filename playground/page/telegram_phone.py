"""A phone with Telegram on it."""

from typing import Any

from playground.page.phone import Phone, checked_name, file_kind, mentioned
from playground.page.shapes import (
    Button,
    Command,
    Draft,
    File,
    FileKind,
    Message,
    Person,
    Place,
    Quote,
    Reaction,
    Words,
)
from playground.telegram.server import TelegramServer
from playground.telegram.world import DRAFT_SECONDS, Chat, Post
from playground.wire import Wire

OWNER = 1001
GROUP = -1001000000042
_GARDEN = "Garden club"
_MEDIA = ("photo", "document", "voice", "audio", "video", "animation", "sticker", "video_note")
_FILE_KINDS: dict[str, FileKind] = {"photo": "image", "voice": "voice", "audio": "audio", "video": "video"}


class TelegramPhone(Phone):
    platform = "telegram"
    typing_seconds = 5.0

    def __init__(self, server: TelegramServer, *, first_message: int = 0) -> None:
        super().__init__(server)
        self._people, self._world = server.people, server.world
        self._fill(first_message)

    def _fill(self, first_message: int) -> None:
        people = self._people
        self.owner = str(people.make_user("You (owner)", id=OWNER, username="you")["id"])
        ada = people.make_user("Ada", id=1002, username="ada")["id"]
        people.make_user("Ben", id=1003, username="ben")
        people.make_supergroup(_GARDEN, id=GROUP, members=[OWNER, ada], forum=True)
        if first_message:
            self._world.count_messages_from(first_message)
            self._world.chats[GROUP].last_id = first_message
        people.make_topic(GROUP, OWNER, "Roses")

    @property
    def handle(self) -> str:
        return self._world.bot.username

    def people(self) -> list[Person]:
        users = [user for user in self._world.users.values() if not user.is_bot]
        return [Person(id=str(user.id), name=user.first_name, owner=str(user.id) == self.owner) for user in users]

    def places(self, person: str) -> list[Place]:
        found = [Place(id="dm", title=self._world.bot.first_name, kind="dm")]
        for chat in self._world.chats.values():
            if not chat.is_group:
                continue
            joined, group = chat.members.get(int(person), "left") not in ("left", "kicked"), str(chat.id)
            found.append(Place(id=group, title=chat.title, kind="group", joined=joined))
            for thread, topic in chat.topics.items() if joined else ():
                found.append(Place(id=f"{group}:{thread}", title=topic["name"], kind="topic", parent=group))
        return found

    def _find(self, person: str, place: str) -> tuple[Chat, int]:
        """The chat, and the topic in it."""
        if place == "dm":
            return self._world.chats[int(person)], 0
        group, _, thread = place.partition(":")
        chat = self._world.chats.get(int(group))
        if chat is None or not chat.is_group or chat.members.get(int(person), "left") == "left":
            raise ValueError("They are not in this group.")
        return chat, int(thread or 0)

    def messages(self, person: str, place: str) -> list[Message]:
        chat, thread = self._find(person, place)
        posts = [post for post in chat.posts.values() if not post.deleted and _topic(post.body) == thread]
        return [self._message(post, person) for post in posts]

    def _message(self, post: Post, person: str) -> Message:
        body = post.body
        author = body.get("from") or {"id": 0, "first_name": "Somebody"}
        field = "text" if "text" in body else "caption"
        entities = body.get("entities" if field == "text" else "caption_entities", ())
        words = (Words(text=body[field], format="entities", entities=tuple(entities)),) if body.get(field) else ()
        return Message(
            id=str(body["message_id"]),
            author=author["first_name"],
            author_id=str(author["id"]),
            by_bot=post.by_bot,
            mine=str(author["id"]) == person,
            at_ms=body["date"] * 1000,
            words=words,
            edited="edit_date" in body,
            service=_service(body),
            quote=_quote(body),
            buttons=_buttons(body),
            reactions=self._reactions(post, person),
            files=self._files(body),
        )

    def _reactions(self, post: Post, person: str) -> tuple[Reaction, ...]:
        by_emoji: dict[str, list[str]] = {}
        for user, marks in post.reactions.items():
            for mark in marks:
                by_emoji.setdefault(mark.get("emoji", "?"), []).append(str(user))
        return tuple(Reaction(emoji=emoji, count=len(by), mine=person in by) for emoji, by in by_emoji.items())

    def _files(self, body: Wire) -> tuple[File, ...]:
        for kind in _MEDIA:
            if kind in body:
                given: Any = body[kind][-1] if kind == "photo" else body[kind]
                stored = self._world.files.get(given["file_id"])
                content = stored.content if stored and stored.content else b""
                shown = _FILE_KINDS.get(kind) or file_kind(content, given.get("mime_type", ""))
                name = given.get("file_name") or (stored.path.rpartition("/")[2] if stored else kind)
                size, url = given.get("file_size", 0), f"/media/telegram/{given['file_id']}"
                return (File(name=name, kind=shown, size_bytes=size, url=url),)
        return ()

    def names(self) -> dict[str, str]:
        return {}  # mentions are written by name here

    def commands(self) -> list[Command]:
        known = self._world.commands.get(("all_private_chats", "")) or self._world.commands.get(("default", ""), [])
        return [Command(name=one["command"], description=one["description"]) for one in known]

    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        chat, thread = self._find(person, place)
        if event.get("chat_id") != chat.id:
            return None
        if event["kind"] == "action" and event["thread"] == thread:
            return bool(event["action"] != "cancel")
        spoke = event["kind"] == "message" and event["by_bot"] and _topic(event["message"]) == thread
        return False if spoke or event["kind"] == "draft" else None

    def drafts(self, person: str, place: str) -> list[Draft]:
        found = self._world.drafts(int(person)) if place == "dm" else []
        return [
            Draft(
                words=Words(text=one.get("text", ""), format="entities", entities=tuple(one.get("entities", ()))),
                until_ms=int((one["at"] + DRAFT_SECONDS) * 1000),
            )
            for one in found
        ]

    def file(self, file_id: str) -> bytes | None:
        stored = self._world.files.get(file_id)
        return stored.content if stored else None

    def add_person(self, name: str) -> str:
        return str(self._people.make_user(checked_name(name))["id"])

    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None:
        chat, thread = self._find(person, place)
        options: Any = {"thread": thread} if thread else {}
        if reply_to:
            options["reply_to"] = int(reply_to)
        text = mentioned(text, "hermes", f"@{self.handle}")
        self._people.send_text(chat.id, int(person), text, **options)

    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: FileKind, caption: str = ""
    ) -> None:
        chat, thread = self._find(person, place)
        as_kind = {"image": "photo", "voice": "voice", "audio": "audio", "video": "video"}.get(kind, "document")
        options: Any = {"thread": thread} if thread else {}
        details = {"duration": 2} if kind == "voice" else None
        self._people.send_media(
            chat.id,
            int(person),
            as_kind,
            content,
            name=name,
            mime_type=mime_type,
            caption=caption,
            details=details,
            **options,
        )

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        chat, _ = self._own(person, place, message)
        self._people.edit_text(chat.id, int(message), text)

    def delete(self, person: str, place: str, message: str) -> None:
        chat, _ = self._own(person, place, message)
        self._people.delete(chat.id, [int(message)])

    def _own(self, person: str, place: str, message: str) -> tuple[Chat, Post]:
        chat, _ = self._find(person, place)
        post = chat.post(int(message))
        if post is None or str(post.body.get("from", {}).get("id")) != person:
            raise ValueError("That is no message of theirs.")
        return chat, post

    def react(self, person: str, place: str, message: str, emoji: str) -> None:
        chat, _ = self._find(person, place)
        post = chat.post(int(message))
        there = post is not None and any(mark.get("emoji") == emoji for mark in post.reactions.get(int(person), ()))
        self._people.react(chat.id, int(person), int(message), "" if there else emoji)

    def press(self, person: str, place: str, message: str, button: str) -> None:
        chat, _ = self._find(person, place)
        self._people.press(chat.id, int(person), int(message), data=button)

    def join(self, person: str, place: str) -> None:
        chat = self._world.chats.get(int(place.partition(":")[0]))
        if chat is None or not chat.is_group:
            raise ValueError("There is no such group.")
        self._people.join(chat.id, int(person))

    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        chat, _ = self._find(person, place)
        return f"{chat.id}:{self._people.make_topic(chat.id, int(person), checked_name(name))}"


def _topic(body: Wire) -> int:
    """Replies outside of topics carry the number of a thread too, and are in none."""
    return int(body["message_thread_id"]) if body.get("is_topic_message") else 0


def _quote(body: Wire) -> Quote | None:
    replied = body.get("reply_to_message")
    if not replied or "forum_topic_created" in replied:
        return None
    words = replied.get("text") or replied.get("caption") or "a file"
    return Quote(author=replied.get("from", {}).get("first_name", ""), text=words[:120])


def _service(body: Wire) -> str:
    if joined := body.get("new_chat_members"):
        return f"{', '.join(one['first_name'] for one in joined)} joined the group"
    if left := body.get("left_chat_member"):
        return f"{left['first_name']} left the group"
    if created := body.get("forum_topic_created"):
        return f"{body['from']['first_name']} created the topic “{created['name']}”"
    return ""


def _buttons(body: Wire) -> tuple[tuple[Button, ...], ...]:
    rows = body.get("reply_markup", {}).get("inline_keyboard", ())
    return tuple(tuple(Button(label=one["text"], key=one.get("callback_data", "")) for one in row) for row in rows)
