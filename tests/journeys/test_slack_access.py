"""The whole table of who may make the model think on Slack: every kind of event, everybody, everywhere."""

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from playground.slack.messages import add, bot_fields, person_fields
from tests.journeys.slack_stage import OWNER, Stage, stage
from tests.journeys.stage import code_in, tokens_in

Who = Literal["owner", "allowed", "member", "guest", "stranger", "revoked"]
Where = Literal["dm", "channel", "open channel"]
Kind = Literal["message", "command", "question", "shared", "reply", "edit", "reaction", "button"]

ALLOWED, REVOKED = "U0ALLOWED1", "U0REVOKED1"
IDS: dict[Who, str] = {
    "owner": OWNER,
    "allowed": ALLOWED,
    "member": "U0MEMBER01",
    "guest": "U0GUEST001",
    "stranger": "U0STRANGE1",
    "revoked": REVOKED,
}
OPEN: dict[Who, str] = {who: f"C0OPEN{id_[2:]}" for who, id_ in IDS.items()}
WHERE: tuple[Where, ...] = ("dm", "channel", "open channel")
KINDS: tuple[Kind, ...] = ("message", "command", "question", "shared", "reply", "edit", "reaction", "button")
SERVED: dict[Where, set[Who]] = {
    "dm": {"owner", "allowed", "member", "guest"},
    "channel": {"owner", "allowed"},
    "open channel": {"owner", "allowed", "member", "guest", "stranger"},
}
MARK = r"\{[a-z /]+\}"
LEFT_FROM_EARLIER = "Again?"


@dataclass(frozen=True)
class Case:
    who: Who
    where: Where
    kind: Kind

    @property
    def mark(self) -> str:
        return f"{{{self.who}/{self.where}/{self.kind}}}"

    @property
    def is_served(self) -> bool:
        return self.who in SERVED[self.where]

    @property
    def asks_the_model(self) -> bool:
        """An edit of what we never heard is none for us, unless it mentions us only now."""
        if self.kind == "edit":
            return self.is_served and self.where != "dm"
        return self.is_served and self.kind in ("message", "question", "shared", "reply")


CASES = [Case(*case) for case in itertools.product(IDS, WHERE, KINDS)]


class Cast:
    """Plays the cases, all of them before the same gateway. Everybody has channels of their own: a bot may write about
    one message a second in each."""

    def __init__(self, on: Stage) -> None:
        self.on = on
        self.chats: dict[tuple[Who, Where], str] = {}
        self.with_button: dict[str, str] = {}
        self.machine = on.people.make_bot("machine")["id"]

    def set_up(self) -> None:
        world = self.on.slack.world
        button: dict[str, Any] = {"type": "button", "action_id": "again", "value": "resend:none"}
        button |= {"text": {"type": "plain_text", "text": "Again"}}
        blocks: list[dict[str, Any]] = [
            {"type": "section", "block_id": "words", "text": {"type": "mrkdwn", "text": LEFT_FROM_EARLIER}},
            {"type": "actions", "block_id": "buttons", "elements": [button]},
        ]
        for who, id_ in IDS.items():
            _, self.chats[who, "dm"] = self.on.person(who, id=id_)
            self.chats[who, "channel"] = self.on.channel(f"{who}-closed", id_, self.machine)
            self.chats[who, "open channel"] = OPEN[who]
            self.on.people.make_channel(f"{who}-open", members=[id_, self.machine], id=OPEN[who])
        for chat in self.chats.values():
            fields = bot_fields(world, world.bot, LEFT_FROM_EARLIER, blocks)
            self.with_button[chat] = add(world, world.channels[chat], fields, by_bot=True).ts

    async def let_in(self) -> None:
        printed = await asyncio.gather(
            self.on.home.hermes("pairing", "invite", "slack"),
            self.on.home.hermes("pairing", "invite", "slack", "--role", "guest"),
            self.on.home.hermes("pairing", "revoke", "slack", REVOKED),
        )
        invited: tuple[Who, Who] = ("member", "guest")
        for who, line in zip(invited, printed, strict=False):
            await self.on.ask(self.chats[who, "dm"], IDS[who], code_in(line), f"You are in, as a {who}")

    def play(self, case: Case) -> None:
        user, chat, people = IDS[case.who], self.chats[case.who, case.where], self.on.people
        called = f"{self.on.bot} " if case.where != "dm" else ""
        match case.kind:
            case "message":
                self.on.say(chat, user, f"{called}{case.mark}")
            case "command":
                people.command(chat, user, "/hermes", f"whoami {case.mark}")
            case "question":
                people.command(chat, user, "/hermes", case.mark)
            case "shared":  # who wrote it does not count, who shares it does
                shared = {"is_share": True, "author_id": OWNER, "author_name": "owner", "text": case.mark}
                self.on.say(chat, user, f"{called}look", extra={"attachments": [shared]})
            case "reply":
                self.on.say(chat, user, case.mark, thread=self.with_button[chat])
            case "edit":
                world = self.on.slack.world
                fields = person_fields(world, world.users[user], "not heard of")
                earlier = add(world, world.channels[chat], fields, quiet=True)
                people.edit_text(chat, earlier.ts, f"{called}{case.mark}")
            case "reaction":
                people.react(chat, user, self.with_button[chat])
            case "button":
                people.press(chat, user, self.with_button[chat], text="Again")

    def play_those_without_a_role(self) -> None:
        people, bot = self.on.people, self.on.bot
        for (who, where), chat in self.chats.items():
            if where != "dm":
                people.send_as_bot(chat, self.machine, f"{bot} {{a bot}}")
                people.send_as_bot(chat, self.machine, f"{bot} {{a nameless bot}}", legacy=True)
                people.send_as_bot(chat, self.machine, "{a bot in our thread}", thread=self.with_button[chat])
            elif who in ("stranger", "revoked"):
                people.send_file(chat, IDS[who], b"{a file}", text="{a file}")


@pytest.mark.thorough
async def test_nobody_who_is_not_allowed_makes_the_model_think(tmp_path: Path) -> None:
    config: dict[str, Any] = {"access": {"allowed_chats": [f"slack:{chat}" for chat in OPEN.values()]}}
    async with stage(tmp_path, config=config, environment={"SLACK_ALLOWED_USERS": ALLOWED}) as on:
        on.slack.sockets.retry_seconds = (30.0,)  # so many at once may take longer than a person waits
        cast = Cast(on)
        cast.set_up()
        async with on.gateway() as running:
            await cast.let_in()
            before = {chat: on.slack.texts(chat) for chat in cast.chats.values()}
            for case in CASES:
                if not case.is_served:
                    cast.play(case)
            cast.play_those_without_a_role()
            await on.until_taken()
            await on.home.until_idle()
            assert on.model.requests == []
            assert on.slack.called("file") == []
            said = {chat: on.slack.texts(chat)[len(texts) :] for chat, texts in before.items()}
            [code] = said.pop(cast.chats["stranger", "dm"])
            assert "this code" in code
            assert not any(said.values()), said

            for case in CASES:
                if case.is_served:
                    cast.play(case)
            await on.until_taken()
            await on.home.until_idle(seconds=60)
            await running.stop()
        assert tokens_in(on.model.bodies, MARK) == {case.mark for case in CASES if case.asks_the_model}
        assert on.model.refusals == []
        assert not any(event["kind"] == "lost" for event in on.slack.events.after(0))


async def test_a_file_is_fetched_and_told_to_the_model_when_somebody_sends_it_who_may_speak(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        (ada, dm), (stranger, strangers) = on.person("ada", id=OWNER), on.person("stranger")
        async with on.gateway() as running:
            on.people.send_file(strangers, stranger, b"a virus", name="gift.txt")
            await on.hear(strangers, "this code")
            on.people.send_file(dm, ada, b"milk and eggs", name="list.txt", text="what is in it?")
            await on.hear(dm, "Noted.")
            await running.stop()
        assert "what is in it?" in on.model.newest_words()
        assert "[file list.txt" in on.model.newest_words()
        assert [path for path in on.home.holds("milk and eggs") if "state.db" not in path]
        assert len(on.slack.called("file")) == 1
        assert on.home.holds("a virus") == []
