"""The stage with Discord on it: direct messages, a channel and a thread, each known to the gateway from the start."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from playground.discord.methods import RestCall, Route
from playground.discord.server import DiscordServer
from playground.server import ApiAnswer
from playground.wire import Wire
from tests.faults.chat_inside import TAG
from tests.faults.chat_stage import LookupStage, Place, Taken, read_tag
from tests.faults.ledger import Sent

_SETTINGS = {"HERMES_PLATFORMS__SOCKET__ENABLED": "false", "HERMES_ACCESS__MESSAGES_PER_MINUTE": "0"}


class WatchedServer(DiscordServer):
    """Tells of each tagged message that it takes, and of each interaction that is answered."""

    def __init__(self, *, taken: Callable[[str, Wire], None], answered: Callable[[str], None]) -> None:
        super().__init__()
        self.gateway.identify_total = 1_000_000
        self._tell_taken = taken
        self._tell_answered = answered

    async def _run(self, route: Route, call: RestCall) -> ApiAnswer:
        answer = await super()._run(route, call)
        if tag := call.fields.get(TAG) if answer.status == 200 else "":
            self._tell_taken(tag, json.loads(answer.body))
        if route.name == "interactionCallback":
            self._tell_answered(call.path["interaction_id"])
        return answer


class DiscordStage(LookupStage):
    server: WatchedServer
    account = "discord"

    def __init__(self, folder: Path, server: WatchedServer, settings: Mapping[str, str], broken: str) -> None:
        self.server = server
        self._sent: dict[str, tuple[str, str]] = {}  # channel and message id of what people said
        self._asked: dict[str, str] = {}  # of what they said by slash commands, by interaction
        super().__init__(folder, "discord", settings, broken)

    # What people do.

    @property
    def mention(self) -> str:
        return f"<@{self.server.world.bot.id}>"

    def say(self, place: Place, text: str, *, expect: str = "", by: str = "") -> Sent:
        sent = self.ledger.sent(place.name, text, expect=expect)
        body = self.server.people.send_text(place.chat, by or place.people[0], sent.text)
        self._sent[sent.id] = place.chat, body["id"]
        self.heard(sent, place.chat, body["id"])
        return sent

    def command(self, place: Place, text: str, *, expect: str = "", by: str = "") -> Sent:
        """By a slash command, of which Discord says that it failed when the gateway does not answer it at once."""
        sent = self.ledger.sent(place.name, text, expect=expect)
        sent.may_fail = True
        who, name = by or place.people[0], text.removeprefix("/")
        interaction = self.server.people.use_command(place.chat, who, name)
        self._asked[interaction["id"]] = sent.id
        self.heard(sent, place.chat, interaction["id"])
        return sent

    def edit(self, sent: Sent, text: str, *, expect: str) -> None:
        """From here on the answer to either wording is a proper one."""
        sent.instead = expect
        self.server.people.edit_text(*self._sent[sent.id], text)

    def refuse_resumes(self) -> None:
        """The line breaks, and the session is no longer known."""
        self.server.gateway.sessions.clear()
        self.server.gateway.cut()

    def texts(self, place: Place) -> list[str]:
        return self.server.texts(place.chat)

    # What the server sees.

    def took(self, tag: str, result: Wire) -> None:
        files = [self._content_of(one["url"]) for one in result["attachments"]]
        self.taken(
            Taken(
                **read_tag(tag),
                chat=result["channel_id"],
                message_id=result["id"],
                text=files[0] if files else result["content"],
                is_whole=bool(files),
            )
        )

    def answered(self, interaction_id: str) -> None:
        if id_ := self._asked.get(interaction_id):
            self.ledger.acked(id_)

    def _content_of(self, url: str) -> str:
        path = url.partition("/attachments/")[2].partition("?")[0]
        return self.server.world.files[path].content.decode()

    @property
    def secrets(self) -> Sequence[str]:
        return (self.server.token,)


@asynccontextmanager
async def on_discord_stage(
    folder: Path, *, users: int = 3, settings: Mapping[str, str] | None = None, broken: str = "", known: bool = True
) -> AsyncIterator[tuple[DiscordStage, list[Place]]]:
    """Direct messages for each user, the owner first, then a channel and a thread for all.

    The gateway has been there, and is not running. Without `known` it has never been there.
    """
    server = WatchedServer(taken=lambda *what: stage.took(*what), answered=lambda number: stage.answered(number))
    async with server:
        people = tuple(str(server.people.make_user(f"user{number}")["id"]) for number in range(users))
        guild = server.people.make_guild(members=people)["id"]
        channel = server.people.make_channel(guild)["id"]
        thread = server.people.make_thread(channel, people[0])["id"]
        given = {
            **_SETTINGS,
            "DISCORD_API_URL": server.api_url,
            "DISCORD_BOT_TOKEN": server.token,
            "DISCORD_ALLOWED_USERS": ",".join(people),
            "HERMES_ACCESS__OWNER_USERS": f"discord:{people[0]}",
            **(settings or {}),
        }
        stage = DiscordStage(folder, server, given, broken)
        direct = [Place(chat=server.people.open_dm(one)["id"], people=(one,)) for one in people]
        shared = [Place(chat=chat, people=people, is_private=False) for chat in (channel, thread)]
        try:
            if known:
                await _introduce(stage, [*direct, *shared])
            yield stage, [*direct, *shared]
        finally:
            if not stage.process.has_ended:
                await stage.process.kill()


async def _introduce(stage: DiscordStage, places: Sequence[Place]) -> None:
    await stage.start()
    await stage.server.wait_for(lambda: stage.server.gateway.connected, seconds=40)
    for place in places:
        if place.is_private:
            stage.say(place, "hello $id", expect="Hello!")
    await stage.become_known({place.chat for place in places})
    await stage.at_rest()
    await stage.process.terminate()
