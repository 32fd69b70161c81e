"""The stage with Telegram on it.

A message counts as accepted once an offset has confirmed it. A second copy is forgiven only where somebody has pressed
"Send it again" before.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playground.params import Params
from playground.telegram.server import TelegramServer
from playground.telegram.world import TelegramMessage
from playground.wire import Wire
from tests.faults import aftermath
from tests.faults.chat_inside import TAG
from tests.faults.chat_stage import ChatStage, Place, Taken, read_tag
from tests.faults.ledger import Sent, Verdict

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

    def __init__(self, *, confirmed: Callable[[int], None], taken: Callable[[str, Wire], None]) -> None:
        super().__init__(privacy=False)
        self._tell_confirmed = confirmed
        self._tell_taken = taken

    async def _run(self, method: str, params: Params) -> bytes:
        if method == "getupdates":
            self._tell_confirmed(params.integer("offset"))
        answer = await super()._run(method, params)
        if tag := params.text(TAG):
            self._tell_taken(tag, json.loads(answer)["result"])
        return answer


class TelegramStage(ChatStage):
    server: WatchedServer

    def __init__(self, folder: Path, server: WatchedServer, settings: Mapping[str, str], broken: str) -> None:
        self.server = server
        self._sent: dict[str, tuple[int, int]] = {}  # chat and message id of what people said
        self._update_ids: dict[str, int] = {}
        self._presses: Counter[str] = Counter()  # by the key of what they ask for
        super().__init__(folder, "telegram", settings, broken)

    # What people do.

    def say(self, place: Place, text: str, *, expect: str = "", by: str = "") -> Sent:
        sent = self.ledger.sent(place.name, text, expect=expect)
        update_id = self.server.world.updates.next_id
        options: Any = {"thread": int(place.thread)} if place.thread else {}
        chat, who = int(place.chat), int(by or place.people[0])
        body = self.server.people.send_text(chat, who, sent.text, **options)
        assert self.server.world.updates.next_id > update_id, "the bot does not hear it"
        self._sent[sent.id] = chat, body["message_id"]
        self._update_ids[sent.id] = update_id
        self.heard(sent, place.chat, str(body["message_id"]))
        return sent

    def edit(self, sent: Sent, text: str, *, expect: str) -> None:
        """From here on the answer to either wording is a proper one."""
        sent.instead = expect
        self.server.people.edit_text(*self._sent[sent.id], text)

    def press(self, place: Place, notice: TelegramMessage, *, by: str = "") -> None:
        """The one button below a notice of doubt."""
        # Each counts, also a second one below the same message: the answer may be in doubt again by then.
        self._presses[_resend_key(notice)] += 1
        who = int(by or place.people[0])
        self.server.people.press(int(place.chat), who, notice.body["message_id"], text=AGAIN)

    def notices_of_doubt(self, place: Place) -> list[TelegramMessage]:
        """Those whose button can still be pressed."""
        posts = self.server.world.chats[int(place.chat)].posts.values()
        return [post for post in posts if _resend_key(post) and _thread_of(post.body) == place.thread]

    async def notice_of_doubt(self, place: Place) -> TelegramMessage:
        """The first, as soon as there is one."""
        return (await self.server.wait_for(lambda: self.notices_of_doubt(place), seconds=40))[0]

    def texts(self, place: Place) -> list[str]:
        return self.server.texts(int(place.chat))

    @property
    def presses(self) -> int:
        return self._presses.total()

    async def have_all_sent_again(self, places: Sequence[Place]) -> None:
        """Presses below each notice of doubt, once, until cancelled."""
        pressed: set[tuple[str, int]] = set()

        def fresh() -> list[tuple[Place, TelegramMessage]]:
            found = [(place, notice) for place in places for notice in self.notices_of_doubt(place)]
            return [one for one in found if (one[0].chat, one[1].body["message_id"]) not in pressed]

        while True:
            for place, notice in await self.server.wait_for(fresh, seconds=3600):
                pressed.add((place.chat, notice.body["message_id"]))
                self.press(place, notice)

    # What the server sees.

    def asked_again(self, key: str) -> int:
        return self._presses[key]

    def confirmed(self, offset: int) -> None:
        for id_ in [id_ for id_, update_id in self._update_ids.items() if update_id < offset]:
            del self._update_ids[id_]
            self.ledger.acked(id_)

    def took(self, tag: str, result: Wire) -> None:
        is_file = "document" in result
        text = self._content_of(result["document"]["file_id"]) if is_file else result["text"]
        chat, message_id = str(result["chat"]["id"]), str(result["message_id"])
        thread = _thread_of(result)
        self.taken(Taken(**read_tag(tag), chat=chat, thread=thread, message_id=message_id, text=text, is_whole=is_file))

    def _content_of(self, file_id: str) -> str:
        return self.server.world.files[file_id].content.decode()

    # The end.

    def judge(self) -> Verdict:
        verdict = super().judge()
        if left := self.server.world.updates.count:
            verdict.accuse("left with Telegram", f"{left} updates")
        return verdict

    @property
    def secrets(self) -> Sequence[str]:
        return (self.server.token,)

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
    server = WatchedServer(confirmed=lambda offset: stage.confirmed(offset), taken=lambda *what: stage.took(*what))
    async with server:
        people = [server.people.make_user(f"User{number}")["id"] for number in range(users)]
        names = tuple(map(str, people))
        given = {
            **_SETTINGS,
            "TELEGRAM_API_URL": server.url,
            "TELEGRAM_BOT_TOKEN": server.token,
            "TELEGRAM_ALLOWED_USERS": ",".join(names),
            "HERMES_ACCESS__OWNER_USERS": f"telegram:{people[0]}",
            **(settings or {}),
        }
        stage = TelegramStage(folder, server, given, broken)
        group = server.people.make_supergroup(forum=True, members=people)["id"]
        thread = server.people.make_topic(group, people[0], "Sums")
        direct = [Place(chat=name, people=(name,)) for name in names]
        try:
            yield stage, [*direct, Place(chat=str(group), people=names, thread=str(thread), is_private=False)]
        finally:
            if not stage.process.has_ended:
                await stage.process.kill()


def _resend_key(post: TelegramMessage) -> str:
    """The key of the answer that the message offers to send again; empty when it offers nothing of the kind."""
    rows = post.body.get("reply_markup", {}).get("inline_keyboard", [])
    actions = [button.get("callback_data", "") for row in rows for button in row]
    return next((action.removeprefix(_RESEND) for action in actions if action.startswith(_RESEND)), "")


def _thread_of(body: Wire) -> str:
    return str(body["message_thread_id"]) if body.get("is_topic_message") else ""
