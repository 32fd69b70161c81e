"""The stage with Telegram on it: a server that outlives the gateway, people in chats, and a ledger of both ways.

A message counts as accepted once an offset has confirmed it. What arrived is what the server took, told apart by
its tag (`telegram_inside`); a second copy is forgiven only to whom somebody has pressed "Send it again" before.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playground.telegram.request import Params
from playground.telegram.rules import Wire
from playground.telegram.server import TelegramServer
from playground.telegram.world import Post
from tests.faults import aftermath
from tests.faults.ledger import Arrival, Sent, Verdict
from tests.faults.stage import Stage
from tests.faults.telegram_inside import TAG

AGAIN = "Send it again"
_RESEND = "resend:"
_SETTINGS = {
    "HERMES_PLATFORMS__SOCKET__ENABLED": "false",
    "HERMES_PLATFORMS__TELEGRAM__SENDS_PER_SECOND": "0",
    "HERMES_PLATFORMS__TELEGRAM__CHAT_SENDS_PER_MINUTE": "0",
    "HERMES_PLATFORMS__TELEGRAM__GROUP_SENDS_PER_MINUTE": "0",
    "HERMES_ACCESS__MESSAGES_PER_MINUTE": "0",
}


class WatchedServer(TelegramServer):
    """Tells of each offset that confirms and of each tagged message that it takes."""

    def __init__(self, *, confirmed: Callable[[int], None], taken: Callable[[Wire, Wire], None]) -> None:
        super().__init__(privacy=False)
        self._tell_confirmed = confirmed
        self._tell_taken = taken

    async def _run(self, method: str, params: Params) -> bytes:
        if method == "getupdates":
            self._tell_confirmed(params.integer("offset"))
        answer = await super()._run(method, params)
        if tag := params.data(TAG):
            self._tell_taken(tag, json.loads(answer)["result"])
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a conversation is: a direct chat, a group, or a topic in one."""

    chat: int
    people: tuple[int, ...]
    thread: int = 0

    @property
    def name(self) -> str:
        return f"{self.chat}/{self.thread}" if self.thread else str(self.chat)


class TelegramStage(Stage):
    def __init__(
        self, folder: Path, server: WatchedServer, settings: Mapping[str, str], arguments: Sequence[str]
    ) -> None:
        self.server = server
        self.notices: Counter[str] = Counter()  # how often each came
        self._sent: dict[str, tuple[int, int]] = {}  # chat and message id of what people said
        self._ids: dict[tuple[str, str], str] = {}  # and the way back
        self._update_ids: dict[str, int] = {}
        self._arrivals: dict[str, Arrival] = {}  # by key
        self._pieces: Counter[tuple[str, int]] = Counter()
        self._presses: Counter[str] = Counter()  # by the key of what they ask for
        self._keys: dict[tuple[str, str], str] = {}  # by chat and message id of what the bot said
        super().__init__(folder, settings, ("--telegram", *arguments))

    # What people do.

    def say(self, place: Place, text: str, *, expect: str = "", by: int = 0) -> Sent:
        sent = self.ledger.sent(place.name, text, expect=expect)
        update_id = self.server.world.updates.next_id
        options: Any = {"thread": place.thread} if place.thread else {}
        body = self.server.people.send_text(place.chat, by or place.people[0], sent.text, **options)
        assert self.server.world.updates.next_id > update_id, "the bot does not hear it"
        self._sent[sent.id] = place.chat, body["message_id"]
        self._ids[str(place.chat), str(body["message_id"])] = sent.id
        self._update_ids[sent.id] = update_id
        return sent

    def edit(self, sent: Sent, text: str, *, expect: str) -> None:
        """From here on the answer to either wording is a proper one."""
        sent.instead = expect
        self.server.people.edit_text(*self._sent[sent.id], text)

    def press(self, place: Place, notice: Post, *, by: int = 0) -> None:
        """The one button below a notice of doubt."""
        # Each counts, also a second one below the same message: the answer may be in doubt again by then.
        self._presses[_resend_key(notice)] += 1
        self.server.people.press(place.chat, by or place.people[0], notice.body["message_id"], text=AGAIN)

    def notices_of_doubt(self, place: Place) -> list[Post]:
        """Those whose button can still be pressed."""
        posts = self.server.world.chats[place.chat].posts.values()
        return [post for post in posts if _resend_key(post) and _thread_of(post.body) == place.thread]

    @property
    def presses(self) -> int:
        return self._presses.total()

    async def have_all_sent_again(self, places: Sequence[Place]) -> None:
        """Presses below each notice of doubt, once, until cancelled."""
        pressed: set[tuple[int, int]] = set()

        def fresh() -> list[tuple[Place, Post]]:
            found = [(place, notice) for place in places for notice in self.notices_of_doubt(place)]
            return [one for one in found if (one[0].chat, one[1].body["message_id"]) not in pressed]

        while True:
            for place, notice in await self.server.wait_for(fresh, seconds=3600):
                pressed.add((place.chat, notice.body["message_id"]))
                self.press(place, notice)

    # What the server sees.

    def confirmed(self, offset: int) -> None:
        for id_ in [id_ for id_, update_id in self._update_ids.items() if update_id < offset]:
            del self._update_ids[id_]
            self.ledger.acked(id_)

    def taken(self, tag: Wire, result: Wire) -> None:
        key, piece, chat = tag["key"], tag["piece"], str(result["chat"]["id"])
        self._keys[chat, str(result["message_id"])] = key
        copies = self._pieces[key, piece]
        self._pieces[key, piece] += 1
        if not tag["answers"]:
            self.notices[key] += 1
        if copies and tag["answers"] and copies <= self._presses[key]:
            self.ledger.copies += 1
        elif piece and not copies:
            self._go_on(key, piece, result)
        else:
            self._arrive(key, tag["answers"], copies, result)

    def _arrive(self, key: str, answers: Sequence[str], copies: int, result: Wire) -> None:
        chat, thread = str(result["chat"]["id"]), _thread_of(result)
        arrival = Arrival(
            key=f"{key}#{copies + 1}" if copies else key,
            chat=f"{chat}/{thread}" if thread else chat,
            text=self._text_of(result),
            answers=tuple(self._ids.get((chat, id_), f"unknown {id_}") for id_ in answers),
            asked_for=self._presses[key] > 0,
        )
        self._arrivals.setdefault(key, arrival)
        self.ledger.arrived(arrival)

    def _go_on(self, key: str, piece: int, result: Wire) -> None:
        if not self._pieces[key, piece - 1]:
            self.ledger.complained(f"piece {piece} of {key} came without the one before")
        elif (arrival := self._arrivals[key]) is not self.ledger.arrivals[-1]:
            later = [one for one in self.ledger.arrivals if one.chat == arrival.chat]
            if later[-1] is not arrival and not self._presses[key]:
                self.ledger.complained(f"something else came between the pieces of {key}")
        self._arrivals[key].text += f" {self._text_of(result)}"  # the blank at which it was cut is in neither

    def _text_of(self, result: Wire) -> str:
        if "document" in result:
            return (self.server.world.files[result["document"]["file_id"]].content or b"").decode()
        return str(result["text"])

    # The end.

    def judge(self) -> Verdict:
        replies = aftermath.replies(self.database)
        outcomes = {self._ids.get(where, ""): outcome for where, outcome in aftermath.outcomes(self.database).items()}
        verdict = self.ledger.judge(
            effects=aftermath.effects(self.effects), outcomes=outcomes, in_doubt=self._explained_by_doubt(replies)
        )
        for reply in replies:
            if reply.state in ("failed", "expired"):
                verdict.accuse("given up", f"{reply.key} in {reply.chat}: {reply.state}")
            if reply.state == "sent" and self._keys.get((reply.chat, reply.receipt)) != reply.key:
                verdict.accuse("receipt of something else", f"{reply.key} in {reply.chat}: {reply.receipt}")
        if left := self.server.world.updates.count:
            verdict.accuse("left with Telegram", f"{left} updates")
        places = (self.home, self.process.log, self.effects)
        verdict.accuse("token leaked", *aftermath.leaks(self.server.token, places, allowed=self.home / ".env"))
        return verdict

    def _explained_by_doubt(self, replies: Sequence[aftermath.Reply]) -> set[str]:
        """Whose chat shows the button that sends the answer again."""
        chats = self.server.world.chats
        offered = {(str(chat.id), _resend_key(post)) for chat in chats.values() for post in chat.posts.values()}
        return {
            self._ids[reply.chat, id_]
            for reply in replies
            if reply.state == "in_doubt" and (reply.chat, reply.key) in offered
            for id_ in reply.answers
        }

    def _all_accepted(self) -> bool:
        return super()._all_accepted() and not self.server.world.updates.count


@asynccontextmanager
async def on_telegram_stage(
    folder: Path, *, users: int = 3, settings: Mapping[str, str] | None = None, broken: str = ""
) -> AsyncIterator[tuple[TelegramStage, list[Place]]]:
    """A direct chat for each user, the owner first, and a topic of a group for all; the gateway is not started yet."""
    server = WatchedServer(confirmed=lambda offset: stage.confirmed(offset), taken=lambda *what: stage.taken(*what))
    async with server:
        people = [server.people.make_user(f"User{number}")["id"] for number in range(users)]
        given = {
            **_SETTINGS,
            "TELEGRAM_API_URL": server.url,
            "TELEGRAM_BOT_TOKEN": server.token,
            "TELEGRAM_ALLOWED_USERS": ",".join(map(str, people)),
            "HERMES_ACCESS__OWNER_USERS": f"telegram:{people[0]}",
            **(settings or {}),
        }
        stage = TelegramStage(folder, server, given, ("--broken", broken) if broken else ())
        group = server.people.make_supergroup(forum=True, members=people)["id"]
        thread = server.people.make_topic(group, people[0], "Sums")
        direct = [Place(chat=person, people=(person,)) for person in people]
        try:
            yield stage, [*direct, Place(chat=group, people=tuple(people), thread=thread)]
        finally:
            if not stage.process.has_ended:
                await stage.process.kill()


def _resend_key(post: Post) -> str:
    """The key of the answer that the message offers to send again; empty when it offers nothing of the kind."""
    rows = post.body.get("reply_markup", {}).get("inline_keyboard", [])
    actions = [button.get("callback_data", "") for row in rows for button in row]
    return next((action.removeprefix(_RESEND) for action in actions if action.startswith(_RESEND)), "")


def _thread_of(body: Wire) -> int:
    return int(body["message_thread_id"]) if body.get("is_topic_message") else 0
