"""The stage with Slack on it: direct messages, and threads of a channel, each known to the gateway from the start."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from playground.params import Params
from playground.slack.server import SlackServer
from playground.slack.sockets import Envelope
from playground.slack.world import SlackMessage
from playground.wire import Wire
from tests.faults.chat_inside import TAG
from tests.faults.chat_stage import LookupStage, Place, Taken, place_name, read_tag
from tests.faults.ledger import Sent

_SETTINGS = {"HERMES_PLATFORMS__SOCKET__ENABLED": "false", "HERMES_ACCESS__MESSAGES_PER_MINUTE": "0"}
_THREADS = 2
_ON_THE_WAY_SECONDS = 0.5
_LATE = ("late", "missed", "cut_socket")  # faults by which an envelope may come after later ones


class WatchedServer(SlackServer):
    """Tells of each tagged message that it takes."""

    def __init__(self, *, taken: Callable[[str, str, SlackMessage], None]) -> None:
        super().__init__()
        self._tell_taken = taken
        self.sockets.retry_seconds = (0.5, 1.0, 2.0)
        self.sockets.grace_seconds = 1.0

    def _run(self, method: str, params: Params) -> Wire:
        answer = super()._run(method, params)
        if tag := params.text(TAG):
            channel = params.text("channel") or params.text("channel_id")
            posts = self.world.channels[channel].posts
            self._tell_taken(tag, channel, posts[answer["ts"]] if "ts" in answer else posts[next(reversed(posts))])
        return answer


class SlackStage(LookupStage):
    server: WatchedServer
    account = "slack"

    def __init__(self, folder: Path, server: WatchedServer, settings: Mapping[str, str], broken: str) -> None:
        self.server = server
        self._sent: dict[str, tuple[str, str]] = {}  # channel and ts of what people said
        self._sending: Sent | None = None  # its envelope is on its way before anybody knows its ts
        self._on_the_way: dict[str, float] = {}  # messages that went out on a socket, and when; nobody has acked them
        server.sockets.watch = self._watch
        super().__init__(folder, "slack", settings, broken)

    # What people do.

    @property
    def mention(self) -> str:
        return f"<@{self.server.world.bot.id}>"

    def say(self, place: Place, text: str, *, expect: str = "", by: str = "", mention: bool = True) -> Sent:
        """In a channel, without a thread, it opens one of its own. In a thread of ours nobody needs to mention us."""
        sent = self.ledger.sent(place.name, text, expect=expect)
        written = f"{self.mention} {sent.text}" if mention and not place.is_private else sent.text
        self._sending = sent
        ts = self.server.people.send_text(place.chat, by or place.people[0], written, thread=place.thread)["ts"]
        self._sending = None
        if not place.is_private and not place.thread:
            sent.chat = place_name(place.chat, ts)
        self._sent[sent.id] = place.chat, ts
        self.heard(sent, place.chat, ts)
        return sent

    def command(self, place: Place, text: str, *, expect: str = "", by: str = "") -> Sent:
        """By the slash command, of which Slack says that it failed when the gateway does not answer it at once."""
        sent = self.ledger.sent(place.chat, text, expect=expect)
        sent.may_fail = True
        given = self.server.people.command(place.chat, by or place.people[0], "/hermes", sent.text.removeprefix("/"))
        self.heard(sent, place.chat, given["trigger_id"])
        return sent

    def edit(self, sent: Sent, text: str, *, expect: str) -> None:
        """From here on the answer to either wording is a proper one."""
        sent.instead = expect
        channel, ts = self._sent[sent.id]
        self.server.people.edit_text(channel, ts, text)

    async def envelopes_are_given_up(self) -> None:
        """As Slack does after its last try; what they brought is in the history alone."""
        await self.server.wait_for(lambda: not self.server.sockets.unacked, seconds=40)

    def texts(self, place: Place) -> list[str]:
        return self.server.texts(place.chat, thread=place.thread)

    # What the server sees.

    def took(self, tag: str, channel: str, post: SlackMessage) -> None:
        files = [self.server.world.files[one["id"]] for one in post.body.get("files", ())]
        self.taken(
            Taken(
                **read_tag(tag),
                chat=channel,
                thread=post.thread_ts,
                message_id=post.ts,
                text=files[0].content.decode() if files else post.words,
                is_whole=bool(files),
                more_names=tuple(one.id for one in files),
            )
        )

    def _watch(self, envelope: Envelope, what: str) -> None:
        event = envelope.payload.get("event", envelope.payload)
        channel = event.get("channel") or event.get("channel_id")
        id_ = self._ids.get((channel, event.get("ts") or event.get("trigger_id")))
        message = self.ledger.messages[id_] if id_ is not None else self._sending
        if message is None or "hidden" in event:
            return
        if what == "sent":
            self._on_the_way[message.id] = time.monotonic()
        elif what == "acked":
            self.ledger.acked(message.id)
            self._on_the_way.pop(message.id, None)
        elif what in _LATE:
            message.was_late = True
        if what.startswith("cut_socket"):
            self.break_lines()

    def break_lines(self) -> None:
        """What is on its way on one socket just now may be overtaken by what the other brings."""
        lately = time.monotonic() - _ON_THE_WAY_SECONDS
        for id_ in [id_ for id_, at in self._on_the_way.items() if at > lately]:
            self.ledger.messages[id_].was_late = True

    def cut_sockets(self) -> None:
        self.break_lines()
        self.server.sockets.cut()

    @property
    def late(self) -> int:
        return sum(message.was_late for message in self.ledger.messages.values())

    @property
    def secrets(self) -> Sequence[str]:
        return self.server.bot_token, self.server.app_token

    def _all_accepted(self) -> bool:
        return super()._all_accepted() and not self.server.sockets.unacked


@asynccontextmanager
async def on_slack_stage(
    folder: Path, *, users: int = 3, settings: Mapping[str, str] | None = None, broken: str = "", known: bool = True
) -> AsyncIterator[tuple[SlackStage, list[Place]]]:
    """Direct messages for each user, the owner first, then threads of a channel for all, and the channel itself.

    The gateway has been there, and is not running. Without `known` it has never been there.
    """
    server = WatchedServer(taken=lambda *what: stage.took(*what))
    async with server:
        people = tuple(str(server.people.make_user(f"user{number}")["id"]) for number in range(users))
        channel = str(server.people.make_channel(members=people)["id"])
        given = {
            **_SETTINGS,
            "SLACK_API_URL": server.api_url,
            "SLACK_BOT_TOKEN": server.bot_token,
            "SLACK_APP_TOKEN": server.app_token,
            "SLACK_ALLOWED_USERS": ",".join(people),
            "HERMES_ACCESS__OWNER_USERS": f"slack:{people[0]}",
            **(settings or {}),
        }
        stage = SlackStage(folder, server, given, broken)
        direct = [Place(chat=str(server.people.make_dm(one)["id"]), people=(one,)) for one in people]
        everybody = Place(chat=channel, people=people, is_private=False)
        try:
            threads = await _introduce(stage, direct, everybody) if known else []
            yield stage, [*direct, *threads, everybody]
        finally:
            if not stage.process.has_ended:
                await stage.process.kill()


async def _introduce(stage: SlackStage, direct: Sequence[Place], channel: Place) -> list[Place]:
    """Gives the threads that were opened."""
    await stage.start()
    await stage.server.wait_for_socket(2, seconds=40)
    for place in direct:
        stage.say(place, "hello $id", expect="Hello!")
    opened = [stage.say(channel, "hello $id", expect="Hello!") for _ in range(_THREADS)]
    await stage.become_known({place.chat for place in (*direct, channel)})
    await stage.at_rest()
    await stage.process.terminate()
    return [replace(channel, thread=one.chat.partition("/")[2]) for one in opened]
