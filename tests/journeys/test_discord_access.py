"""The whole table of who may make the model think on Discord: every kind of event, everybody, everywhere."""

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from playground.discord.messages import add, compose
from playground.discord.server import DiscordServer
from playground.wire import Wire
from tests.journeys.discord_stage import Stage, stage
from tests.journeys.stage import code_in, tokens_in

Who = Literal["owner", "allowed", "member", "guest", "stranger", "revoked"]
Where = Literal["dm", "channel", "open channel", "thread", "open thread"]
Kind = Literal["message", "typed", "command", "forwarded", "edit", "reaction", "button"]
WHO: tuple[Who, ...] = get_args(Who)
WHERE: tuple[Where, ...] = get_args(Where)
KINDS: tuple[Kind, ...] = get_args(Kind)

SHUT_OUT: tuple[Who, ...] = ("stranger", "revoked")
IN_CLOSED: set[Who] = {"owner", "allowed"}
IN_OPEN: set[Who] = {"owner", "allowed", "member", "guest", "stranger"}
SERVED: dict[Where, set[Who]] = {
    "dm": {"owner", "allowed", "member", "guest"},
    "channel": IN_CLOSED,
    "open channel": IN_OPEN,
    "thread": IN_CLOSED,
    "open thread": IN_OPEN,  # what is allowed in a channel is allowed in its threads
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


CASES = [Case(*case) for case in itertools.product(WHO, WHERE, KINDS)]


class Cast:
    """Everybody, each with places of their own: a channel is spoken to four times in five seconds at most."""

    def __init__(self, discord: DiscordServer, owner: str) -> None:
        people = discord.people
        self.discord = discord
        self.ids = {who: owner if who == "owner" else people.make_user(who)["id"] for who in WHO}
        self.robot, self.hook = people.make_user("robot", bot=True)["id"], people.make_user("hook")["id"]
        witness = people.make_user("witness", bot=True)["id"]
        guild = people.make_guild("Garden", members=[*self.ids.values(), self.robot, self.hook, witness])["id"]
        self.places: dict[tuple[Where, Who], str] = {}
        for who, id_ in self.ids.items():
            closed, opened = (people.make_channel(guild, f"{who} {name}")["id"] for name in ("closed", "open"))
            self.places |= {("dm", who): people.open_dm(id_)["id"]}
            self.places |= {("channel", who): closed, ("open channel", who): opened}
            self.places |= {("thread", who): people.make_thread(closed, id_, "closed")["id"]}
            self.places |= {("open thread", who): people.make_thread(opened, id_, "open")["id"]}
        self.with_button = {place: self._with_button(place) for place in self.places.values()}

    def _with_button(self, place: str) -> str:
        """As a bot's message that is still there from earlier."""
        world, button = self.discord.world, {"type": 2, "style": 2, "label": "Again", "custom_id": "resend:none"}
        channel = world.channels[int(place)]
        post = compose(world, channel, world.bot, "Again?", components=[{"type": 1, "components": [button]}])
        return str(add(world, channel, post).id)

    @property
    def open_channels(self) -> list[str]:
        return [place for (where, _), place in self.places.items() if where == "open channel"]

    def play(self, case: Case) -> None:
        people, user, place = self.discord.people, self.ids[case.who], self.places[case.where, case.who]
        called = f"<@{self.discord.world.bot.id}> " if case.where != "dm" else ""
        match case.kind:
            case "message":
                people.send_text(place, user, f"{called}{case.mark}")
            case "typed":
                people.send_text(place, user, f"/whoami {case.mark}")
            case "command":
                people.use_command(place, user, "whoami", {"text": case.mark})
            case "forwarded":
                people.send_text(place, user, extra=_forwarded(f"{called}{case.mark}"))
            case "edit":
                self.discord.faults.add("drop", "message_create", chat_id=place)
                earlier = people.send_text(place, user, "not heard of")
                people.edit_text(place, earlier["id"], f"{called}{case.mark}")
            case "reaction":
                people.react(place, user, self.with_button[place])
            case "button":
                people.press(place, user, self.with_button[place], label="Again")

    def play_those_without_a_role(self) -> None:
        people, name = self.discord.people, f"<@{self.discord.world.bot.id}>"
        for (where, _), place in self.places.items():
            if where != "dm":
                people.send_text(place, self.robot, f"{name} <bot>")
                people.send_text(place, self.robot, "/whoami")
                people.send_text(place, self.hook, f"{name} <webhook>", extra={"webhook_id": self.hook})
        for who in SHUT_OUT:
            people.send_text(self.places["dm", who], self.ids[who], "<file>", files=[{"name": "a.png"}])


def _forwarded(text: str) -> Wire:
    """Who wrote it is not even told; who forwards it counts."""
    inner = {"content": text, "type": 0, "timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None}
    inner |= {"attachments": [], "embeds": []}
    return {"message_snapshots": [{"message": inner}], "message_reference": {"type": 1, "channel_id": "1"}}


async def _let_in(on: Stage, cast: Cast) -> None:
    printed = await asyncio.gather(
        on.home.hermes("pairing", "invite", "discord"),
        on.home.hermes("pairing", "invite", "discord", "--role", "guest"),
        on.home.hermes("pairing", "revoke", "discord", cast.ids["revoked"]),
    )
    await on.ask(cast.ids["member"], code_in(printed[0]), "You are in, as a member")
    await on.ask(cast.ids["guest"], code_in(printed[1]), "You are in, as a guest")


async def _until_all_is_taken(on: Stage, cast: Cast, *, dms: bool) -> None:
    interactions = on.discord.world.interactions.values()
    await on.discord.wait_for(lambda: all(one.answer is not None for one in interactions), seconds=30)
    await asyncio.gather(*(on.until_taken(place) for (where, _), place in cast.places.items() if dms or where != "dm"))
    await on.home.until_idle()


async def test_nobody_who_is_not_allowed_makes_the_model_think(tmp_path: Path) -> None:
    async with DiscordServer() as discord:
        owner = discord.people.make_user("olga")["id"]
        cast = Cast(discord, owner)
        access = {
            "owner_users": [f"discord:{owner}"],
            "allowed_chats": [f"discord:{place}" for place in cast.open_channels],
        }
        environment = {"DISCORD_ALLOWED_USERS": cast.ids["allowed"]}
        async with stage(tmp_path, discord=discord, config={"access": access}, environment=environment) as on:
            async with on.gateway() as running:
                await _let_in(on, cast)
                await _nobody_else_is_served(on, cast)
                for case in CASES:
                    if case.is_served:
                        cast.play(case)
                await _until_all_is_taken(on, cast, dms=True)
                await running.stop()
            heard = tokens_in(on.model.bodies, r"<[a-z |]+>")
            assert {case.mark for case in CASES if case.asks_the_model} == heard - _overheard()
            assert on.model.refusals == []


async def _nobody_else_is_served(on: Stage, cast: Cast) -> None:
    for case in CASES:
        if not case.is_served:
            cast.play(case)
    cast.play_those_without_a_role()
    await _until_all_is_taken(on, cast, dms=False)
    for who in SHUT_OUT:
        await on.until_taken(cast.places["dm", who])
    await on.home.until_idle()
    assert on.model.requests == []
    assert on.discord.called("file") == []
    for (where, who), place in cast.places.items():
        if where != "dm":
            assert on.discord.texts(place) == ["Again?"], (where, who)
    assert on.discord.texts(cast.places["dm", "revoked"]) == ["Again?"]
    assert len(on.discord.texts(cast.places["dm", "stranger"])) == 2  # and a code


def _overheard() -> set[str]:
    """What was said in open places, though not to us, comes along with what was."""
    opened = ("open channel", "open thread")
    return {case.mark for case in CASES if case.is_served and case.where in opened and case.kind == "forwarded"}
