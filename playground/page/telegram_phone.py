"""A phone with Telegram on it."""

from functools import partial

from playground.page.phone import Phone, PhoneMessage, PhonePlace
from playground.telegram.people import SendOptions
from playground.telegram.server import TelegramServer
from playground.telegram.world import DRAFT_SECONDS, TelegramChat, TelegramMessage
from playground.wire import Wire

OWNER = 1001
GROUP = -1001000000042
_MEDIA = ("photo", "document", "voice", "audio", "video", "animation", "sticker", "video_note")
_FILE_KINDS = {"photo": "image", "voice": "voice", "audio": "audio", "video": "video"}
_SENT_KINDS = {"image": "photo", "voice": "voice", "audio": "audio", "video": "video"}


class TelegramPhone(Phone):
    platform = "telegram"
    typing_seconds = 5.0

    def __init__(self, server: TelegramServer) -> None:
        super().__init__(server, handle=server.world.bot.username, mention=f"@{server.world.bot.username}")
        self._people, self._world = server.people, server.world
        people = self._people
        self.owner = str(people.make_user("You (owner)", id=OWNER, username="you")["id"])
        ada = people.make_user("Ada", id=1002, username="ada")["id"]
        people.make_user("Ben", id=1003, username="ben")
        people.make_supergroup("Garden club", id=GROUP, members=[OWNER, ada], forum=True)
        people.make_topic(GROUP, OWNER, "Roses")

    def people(self) -> dict[str, str]:
        return {str(user.id): user.first_name for user in self._world.users.values() if not user.is_bot}

    def places(self, person: str) -> list[PhonePlace]:
        found = [PhonePlace(id="dm", title=self._world.bot.first_name, kind="dm")]
        for chat in self._world.chats.values():
            if chat.is_group:
                joined, group = int(person) in chat.members, str(chat.id)
                found.append(PhonePlace(id=group, title=chat.title, kind="group", joined=joined))
                for thread, topic in chat.topics.items() if joined else ():
                    found.append(PhonePlace(id=f"{group}:{thread}", title=topic["name"], kind="topic", parent=group))
        return found

    def _find(self, person: str, place: str) -> tuple[TelegramChat, int]:
        """Return the chat and the topic in it."""
        if place == "dm":
            return self._world.chats[int(person)], 0
        group, _, thread = place.partition(":")
        chat = self._world.chats[int(group)]
        if int(person) not in chat.members:
            raise ValueError("They are not in this group.")
        return chat, int(thread or 0)

    def messages(self, person: str, place: str) -> list[PhoneMessage]:
        chat, thread = self._find(person, place)
        posts = [post for post in chat.posts.values() if not post.deleted and _topic(post.body) == thread]
        return [self._message(post, person) for post in posts]

    def _message(self, post: TelegramMessage, person: str) -> PhoneMessage:
        body = post.body
        author = body.get("from") or {"id": 0, "first_name": "Somebody"}
        entities = body.get("entities") or body.get("caption_entities", ())
        rows = body.get("reply_markup", {}).get("inline_keyboard", ())
        media = [(kind, body[kind][-1] if kind == "photo" else body[kind]) for kind in _MEDIA if kind in body]
        files = [self.show_file(one["file_id"], _FILE_KINDS.get(kind, "")) for kind, one in media]
        return PhoneMessage(
            id=str(body["message_id"]),
            author=author["first_name"],
            author_id=str(author["id"]),
            by_bot=post.by_bot,
            mine=str(author["id"]) == person,
            at_ms=body["date"] * 1000,
            words=[{"text": post.words, "format": "entities", "entities": entities}] if post.words else [],
            edited="edit_date" in body,
            service=_service(body),
            quote=_quote(body),
            buttons=[[{"label": one["text"], "key": one.get("callback_data", "")} for one in row] for row in rows],
            reactions=_reactions(post, person),
            files=files[:1],
        )

    def commands(self) -> list[Wire]:
        return [{"name": one["command"], "description": one["description"]} for one in self._world.commands]

    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        chat, thread = self._find(person, place)
        if event.get("chat_id") != chat.id:
            return None
        if event["kind"] == "action" and event["thread"] == thread:
            return bool(event["action"] != "cancel")
        spoke = event["kind"] == "message" and event["by_bot"] and _topic(event["message"]) == thread
        return False if spoke or event["kind"] == "draft" else None

    def drafts(self, person: str, place: str) -> list[Wire]:
        found = self._world.drafts(int(person)) if place == "dm" else []
        return [
            {
                "words": {"text": one.get("text", ""), "format": "entities", "entities": one.get("entities", ())},
                "until_ms": int((one["at"] + DRAFT_SECONDS) * 1000),
            }
            for one in found
        ]

    def add_person(self, name: str) -> str:
        return str(self._people.make_user(name)["id"])

    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None:
        chat, thread = self._find(person, place)
        options: SendOptions = {"thread": thread}
        if reply_to:
            options["reply_to"] = int(reply_to)
        self._people.send_text(chat.id, int(person), text, **options)

    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: str, caption: str = ""
    ) -> None:
        chat, thread = self._find(person, place)
        sent, details = _SENT_KINDS.get(kind, "document"), {"duration": 2} if kind == "voice" else None
        send = partial(self._people.send_media, chat.id, int(person), sent, content, caption=caption)
        send(name=name, mime_type=mime_type, details=details, thread=thread)

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        self._people.edit_text(self._find(person, place)[0].id, int(message), text)

    def delete(self, person: str, place: str, message: str) -> None:
        self._people.delete(self._find(person, place)[0].id, [int(message)])

    def react(self, person: str, place: str, message: str, emoji: str, *, remove: bool) -> None:
        self._people.react(self._find(person, place)[0].id, int(person), int(message), "" if remove else emoji)

    def press(self, person: str, place: str, message: str, button: str) -> None:
        self._people.press(self._find(person, place)[0].id, int(person), int(message), data=button)

    def join(self, person: str, place: str) -> None:
        self._people.join(int(place.partition(":")[0]), int(person))

    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        chat, _ = self._find(person, place)
        return f"{chat.id}:{self._people.make_topic(chat.id, int(person), name)}"


def _topic(body: Wire) -> int:
    """Return the topic of a message; replies outside of topics carry the number of a thread too."""
    return int(body["message_thread_id"]) if body.get("is_topic_message") else 0


def _quote(body: Wire) -> Wire | None:
    replied = body.get("reply_to_message")
    if not replied or "forum_topic_created" in replied:
        return None
    words = replied.get("text") or replied.get("caption") or "a file"
    return {"author": replied.get("from", {}).get("first_name", ""), "text": words[:120]}


def _service(body: Wire) -> str:
    if joined := body.get("new_chat_members"):
        return f"{', '.join(one['first_name'] for one in joined)} joined the group"
    if created := body.get("forum_topic_created"):
        return f"{body['from']['first_name']} created the topic “{created['name']}”"
    return ""


def _reactions(post: TelegramMessage, person: str) -> list[Wire]:
    by_emoji: dict[str, list[str]] = {}
    for user, marks in post.reactions.items():
        for mark in marks:
            by_emoji.setdefault(mark["emoji"], []).append(str(user))
    return [{"emoji": emoji, "count": len(by), "mine": person in by} for emoji, by in by_emoji.items()]
