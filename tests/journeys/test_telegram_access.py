"""The whole table of who may make the model think: every kind of event, everybody, everywhere."""

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playground.telegram.messages import add, compose
from tests.journeys.stage import code_in, tokens_in
from tests.journeys.telegram_stage import OWNER, Stage, stage

Who = Literal["owner", "allowed", "member", "guest", "stranger", "revoked"]
Where = Literal["dm", "group", "open group"]
Kind = Literal["message", "command", "forwarded", "edit", "reaction", "button"]

BOT = "@playground_bot"
ALLOWED, MEMBER, GUEST, STRANGER, REVOKED, OTHER_BOT = 2001, 2002, 2003, 2004, 2005, 2006
GROUP, OPEN_GROUP, CHANNEL = -1001000000777, -1001000000888, -1001000000999
IDS: dict[Who, int] = {
    "owner": OWNER,
    "allowed": ALLOWED,
    "member": MEMBER,
    "guest": GUEST,
    "stranger": STRANGER,
    "revoked": REVOKED,
}
WHERE: tuple[Where, ...] = ("dm", "group", "open group")
KINDS: tuple[Kind, ...] = ("message", "command", "forwarded", "edit", "reaction", "button")
SERVED: dict[Where, set[Who]] = {
    "dm": {"owner", "allowed", "member", "guest"},
    "group": {"owner", "allowed"},
    "open group": {"owner", "allowed", "member", "guest", "stranger"},
}


@dataclass(frozen=True)
class Case:
    who: Who
    where: Where
    kind: Kind

    @property
    def mark(self) -> str:
        return f"<{self.who}|{self.where}|{self.kind}>"

    @property
    def is_served(self) -> bool:
        return self.who in SERVED[self.where]

    @property
    def asks_the_model(self) -> bool:
        """A forwarded post is said to us in a direct message alone; elsewhere its author spoke to others."""
        return self.is_served and (self.kind == "message" or (self.kind == "forwarded" and self.where == "dm"))

    @property
    def chat(self) -> int:
        return {"dm": IDS[self.who], "group": GROUP, "open group": OPEN_GROUP}[self.where]


CASES = [Case(*case) for case in itertools.product(IDS, WHERE, KINDS)]


class Cast:
    """Plays the cases, all of them before the same gateway."""

    def __init__(self, on: Stage) -> None:
        self.on = on
        self.with_button: dict[int, int] = {}

    def set_up(self) -> None:
        for who, id_ in IDS.items():
            self.on.person(who.title(), id=id_)
        self.on.people.make_user("Machine", id=OTHER_BOT, is_bot=True)
        for chat in (GROUP, OPEN_GROUP):
            self.on.people.make_supergroup("A group", id=chat, members=list(IDS.values()), bot="administrator")
        self.on.people.make_channel("News", id=CHANNEL)
        world = self.on.telegram.world
        keyboard = {"inline_keyboard": [[{"text": "Again", "callback_data": "resend:none"}]]}
        for chat in (*IDS.values(), GROUP, OPEN_GROUP):  # as a bot's message that is still there from earlier
            body = compose(world, world.chats[chat], {"text": "Again?", "reply_markup": keyboard}, sender=world.bot)
            self.with_button[chat] = add(world, world.chats[chat], body, by_bot=True).body["message_id"]

    async def let_in(self) -> None:
        printed = await asyncio.gather(
            self.on.home.hermes("pairing", "invite", "telegram"),
            self.on.home.hermes("pairing", "invite", "telegram", "--role", "guest"),
            self.on.home.hermes("pairing", "revoke", "telegram", str(REVOKED)),
        )
        await self.on.ask(MEMBER, f"/start {code_in(printed[0])}", "You are in, as a member")
        await self.on.ask(GUEST, f"/start {code_in(printed[1])}", "You are in, as a guest")

    def play(self, case: Case) -> None:
        user, chat, people = IDS[case.who], case.chat, self.on.people
        called = f"{BOT} " if case.where != "dm" else ""
        match case.kind:
            case "message":
                self.on.say(user, f"{called}{case.mark}", chat=chat)
            case "command":
                self.on.say(user, f"/whoami {case.mark}", chat=chat)
            case "forwarded":
                origin = {"type": "user", "user_id": OWNER}  # who wrote it does not count, who forwards it does
                self.on.say(user, f"{called}{case.mark}", chat=chat, forward=origin)
            case "edit":
                earlier = people.send_text(chat, user, "not heard of", deliver=False)
                people.edit_text(chat, earlier["message_id"], f"{called}{case.mark}", deliver=True)
            case "reaction":
                people.react(chat, user, self.with_button[chat])
            case "button":
                people.press(chat, user, self.with_button[chat], text="Again")

    def play_those_without_a_role(self) -> None:
        people = self.on.people
        for chat in (GROUP, OPEN_GROUP):
            people.send_text(chat, OTHER_BOT, f"{BOT} <bot>", deliver=True)
        people.send_text(GROUP, 0, f"{BOT} <nameless>", anonymous=True)
        people.send_text(GROUP, 0, f"{BOT} <as a channel>", as_chat=CHANNEL)
        post = people.send_text(CHANNEL, 0, f"{BOT} <post>")
        people.edit_text(CHANNEL, post["message_id"], f"{BOT} <edited post>")
        for who in (STRANGER, REVOKED):
            people.send_media(who, who, "photo", caption="<photo>")


async def test_nobody_who_is_not_allowed_makes_the_model_think(tmp_path: Path) -> None:
    config: dict[str, Any] = {"access": {"allowed_chats": [f"telegram:{OPEN_GROUP}"]}}
    environment = {"TELEGRAM_ALLOWED_USERS": str(ALLOWED)}
    async with stage(tmp_path, config=config, environment=environment) as on:
        cast = Cast(on)
        cast.set_up()
        async with on.gateway() as running:
            await cast.let_in()
            for case in CASES:
                if not case.is_served:
                    cast.play(case)
            cast.play_those_without_a_role()
            await on.until_taken(OWNER)
            await on.home.until_idle()
            assert on.model.requests == []
            assert on.telegram.called("getFile") == []
            assert on.telegram.texts(GROUP) == ["Again?"]
            assert on.telegram.texts(OPEN_GROUP) == ["Again?"]
            assert on.telegram.texts(REVOKED) == ["Again?"]
            assert len(on.telegram.texts(STRANGER)) == 2  # and a code

            for case in CASES:
                if case.is_served:
                    cast.play(case)
            await on.until_taken(OWNER)
            await on.home.until_idle()
            await running.stop()
        heard = tokens_in(on.model.bodies, r"<[a-z |]+>")
        assert {case.mark for case in CASES if case.asks_the_model} == heard - _overheard()
        assert on.model.refusals == []


def _overheard() -> set[str]:
    """What was said in the open group, though not to us, comes along with what was."""
    return {case.mark for case in CASES if case.is_served and case.where == "open group" and case.kind == "forwarded"}
