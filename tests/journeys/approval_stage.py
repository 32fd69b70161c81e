"""Chats in which a tool asks before it does something, and people who press, answer or keep silent."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.store import approvals
from gateway.store.db.database import open_database
from playground.model_script import ModelAnswer, ScriptedCall, Step, ask_for
from playground.server import PlatformServer
from tests.journeys import discord_stage, slack_stage, telegram_stage
from tests.journeys.stage import PATIENCE_SECONDS, Home, RunningGateway, WatchedModel, merged, until

BUTTONS = ["Once", "Session", "Always", "Deny"]
WRECK = """
from pathlib import Path

from tools.approval.gate import Question, bound_to
from tools.registry import tool

RAN = Path(__file__).parents[1] / "ran"


async def about(given, context):
    folder = given.get("folder", "")
    return Question(
        tool="wreck",
        action=f"wreck {folder}",
        where="on this machine, in ~/proj",
        reasons=(f"it deletes {folder} and everything in it",),
        rules=() if given.get("never_lasting") else (f"recursive-delete {folder}",),
        binding=bound_to(folder),
        decider=given.get("decider", "owner"),
    )


@tool(toolset="wreck", about=about)
async def wreck(folder: str, decider: str = "owner", never_lasting: bool = False) -> str:
    \"\"\"Wreck a folder.\"\"\"
    with RAN.open("a") as ran:
        ran.write(f"{folder}\\n")
    return f"{folder} is wrecked"


@tool(toolset="wreck", asks="it changes the production board")
async def move_card(card: str) -> str:
    \"\"\"Move a card.\"\"\"
    with RAN.open("a") as ran:
        ran.write(f"card {card}\\n")
    return f"{card} is moved"
"""
CONFIG: Mapping[str, Any] = {"agent": {"enabled_toolsets": ["core", "wreck"]}}


def wreck(*folders: str, **more: object) -> ModelAnswer:
    """The model wants these done, all at once."""
    calls = [
        ScriptedCall(name="wreck", id=f"call_{number}", arguments=json.dumps({"folder": folder, **more}))
        for number, folder in enumerate(folders)
    ]
    return ask_for(*calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A message of the bot's, as it stands now."""

    id: str
    text: str
    buttons: list[str]


@dataclass(kw_only=True)
class Place:
    """A chat, and the one person who writes there unless another is named."""

    server: PlatformServer
    home: Home
    model: WatchedModel
    gateway: Callable[[], AbstractAsyncContextManager[RunningGateway]]
    say: Callable[[str], object]
    posts: Callable[[], list[Post]]
    press: Callable[[str, str], Any]  # a message and a button's label
    stage: Any = None
    chat: int = 0

    @property
    def texts(self) -> list[str]:
        return [post.text for post in self.posts()]

    async def sees(self, words: str, *, seconds: float = PATIENCE_SECONDS) -> Post:
        def found() -> Post | None:
            return next((post for post in reversed(self.posts()) if words in post.text), None)

        try:
            post = await self.server.wait_for(found, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"not seen: {words!r}, but {self.texts}") from None
        assert post is not None
        return post

    async def question(self, folder: str = "/srv/a/b") -> Post:
        """The question about this folder, once it stands there with its buttons."""

        def found() -> Post | None:
            asked = (post for post in reversed(self.posts()) if "May I do this" in post.text)
            return next((post for post in asked if f"wreck {folder}" in post.text and post.buttons), None)

        try:
            post = await self.server.wait_for(found, seconds=PATIENCE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"not asked about {folder}, but {self.texts}") from None
        assert post is not None
        return post

    async def becomes(self, post: Post, words: str) -> Post:
        """The message, once it says so."""

        def found() -> Post | None:
            return next((one for one in self.posts() if one.id == post.id and words in one.text), None)

        try:
            now = await self.server.wait_for(found, seconds=PATIENCE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"it never said {words!r}, but {self.texts}") from None
        assert now is not None
        return now

    @property
    def ran(self) -> list[str]:
        """The folders that were really wrecked, in order."""
        file = self.home.path / "ran"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def states(self) -> list[str]:
        return [state for (state,) in self.home.rows("SELECT state FROM approvals ORDER BY asked_ms, id")]

    async def until_states(self, *states: str) -> None:
        await until(lambda: self.states == list(states))

    async def until_asked(self) -> None:
        """All is sent, and the turn does nothing but wait."""
        await until(lambda: not self.home.rows("SELECT 1 FROM outbox WHERE state IN ('ready', 'sending', 'unsure')"))

    def change(self, statement: str, *values: object) -> None:
        """In the database, from outside: the gateway must be down."""
        with closing(sqlite3.connect(self.home.path / "state.db")) as database, database:
            database.execute(statement, values)


def with_tool(home: Home) -> None:
    folder = home.path / "tools"
    folder.mkdir()
    (folder / "wreck.py").write_text(WRECK)


def flat(buttons: Any) -> list[str]:
    return [label for row in buttons or () for label in (row if isinstance(row, list) else [row])]


def telegram_place(on: telegram_stage.Stage, user: int, chat: int = 0) -> Place:
    where = chat or user
    mention = f"@{on.telegram.world.bot.username} " if where < 0 else ""

    def posts() -> list[Post]:
        return [
            Post(id=str(one["message"]["message_id"]), text=one["text"], buttons=flat(one.get("buttons")))
            for one in on.telegram.show(where)
            if one["by_bot"]
        ]

    return Place(
        server=on.telegram,
        home=on.home,
        model=on.model,
        gateway=on.gateway,
        say=lambda text: on.say(user, text if text.startswith("/") else mention + text, chat=where),
        posts=posts,
        press=lambda message, label: on.people.press(where, user, int(message), text=label),
        stage=on,
        chat=where,
    )


def discord_place(
    server: Any, home: Home, model: WatchedModel, gateway: Callable[[], Any], user: str, channel: str, mention: str = ""
) -> Place:
    def posts() -> list[Post]:
        return [
            Post(id=str(one["message"]["id"]), text=one["text"], buttons=flat(one.get("buttons")))
            for one in server.show(channel)
            if one["by_bot"]
        ]

    return Place(
        server=server,
        home=home,
        model=model,
        gateway=gateway,
        say=lambda text: server.people.send_text(channel, user, mention + text),
        posts=posts,
        press=lambda message, label: server.people.press(channel, user, message, label=label),
    )


def slack_place(on: slack_stage.Stage, user: str, channel: str) -> Place:
    def posts() -> list[Post]:
        return [
            Post(id=str(one["ts"]), text=one["text"], buttons=flat(one.get("buttons")))
            for one in on.slack.show(channel)
            if one["by_bot"]
        ]

    return Place(
        server=on.slack,
        home=on.home,
        model=on.model,
        gateway=on.gateway,
        say=lambda text: on.say(channel, user, text),
        posts=posts,
        press=lambda message, label: on.people.press(channel, user, message, text=label),
    )


@asynccontextmanager
async def on_telegram(folder: Path, *, config: Mapping[str, Any] | None = None, **more: Any) -> AsyncIterator[Place]:
    """The owner's direct chat."""
    async with telegram_stage.stage(folder, config=merged(CONFIG, config or {}), **more) as on:
        with_tool(on.home)
        on.person("Olga", id=telegram_stage.OWNER)
        yield telegram_place(on, telegram_stage.OWNER)


@asynccontextmanager
async def on_discord(folder: Path, *, config: Mapping[str, Any] | None = None) -> AsyncIterator[Place]:
    async with discord_stage.stage(folder, config=merged(CONFIG, config or {})) as on:
        with_tool(on.home)
        yield discord_place(on.discord, on.home, on.model, on.gateway, on.owner, on.dm(on.owner))


@asynccontextmanager
async def on_slack(folder: Path, *, config: Mapping[str, Any] | None = None) -> AsyncIterator[Place]:
    async with slack_stage.stage(folder, config=merged(CONFIG, config or {})) as on:
        with_tool(on.home)
        user, channel = on.person("olga", id=slack_stage.OWNER)
        yield slack_place(on, user, channel)


STAGES: Mapping[str, Callable[..., AbstractAsyncContextManager[Place]]] = {
    "telegram": on_telegram,
    "discord": on_discord,
    "slack": on_slack,
}


async def asked(on: Place, *steps: Step, folder: str = "/srv/a/b") -> Post:
    """Somebody wants it done, and the question stands there."""
    on.model.script(*(steps or (wreck(folder),)))
    on.say("tidy up")
    return await on.question(folder)


# On Telegram: what a client that means harm, or a broken one, may send.


def stage_of(place: Place) -> telegram_stage.Stage:
    assert isinstance(place.stage, telegram_stage.Stage)
    return place.stage


def buttons_data(on: Place, post: Post) -> dict[str, str]:
    """What each button carries, by its label."""
    body = stage_of(on).telegram.world.chats[on.chat].posts[int(post.id)].body
    return {
        button["text"]: button["callback_data"] for row in body["reply_markup"]["inline_keyboard"] for button in row
    }


def press_forged(on: Place, post: Post, data: str) -> None:
    """As the owner, whatever buttons there are."""
    people = stage_of(on).people
    people._query(on.chat, telegram_stage.OWNER, people._post(on.chat, int(post.id)), data)


def replayed(on: Place, query_id: str) -> dict[str, Any]:
    """What Telegram said of a press, to be said once more."""
    world = stage_of(on).telegram.world
    query = world.queries[query_id]
    post = next(p for p in world.chats[on.chat].posts.values() if p.body.get("reply_markup"))
    sender = world.users[query.user_id].wire
    return {"id": query_id, "from": sender, "message": post.body, "chat_instance": str(-on.chat), "data": query.data}


def approval_ids(on: Place) -> list[str]:
    return [id_ for (id_,) in on.home.rows("SELECT id FROM approvals ORDER BY asked_ms, id")]


def shown_as_alive(on: Place) -> list[Any]:
    """Typing, and drafts that were shown or changed, in this chat."""
    methods = ("sendchataction", "sendmessagedraft", "editmessagetext")
    calls = [call for call in stage_of(on).telegram.calls if call.method.lower() in methods]
    return [call for call in calls if str(call.params.get("chat_id")) == str(on.chat)]


async def revoke(on: Place, rule_ids: Collection[int]) -> None:
    """As an operator does it while the gateway runs."""
    database = await open_database(on.home.path / "state.db")
    try:
        await database.write(lambda tx: approvals.revoke(tx, rule_ids, by="cli"))
    finally:
        await database.close()


async def until_waits(on: Place, gateway: RunningGateway, *, lives: int) -> None:
    """Until the last of so many gateways has the question as well, and waits."""
    await until(lambda: gateway.printed.count('"event": "asking"') >= lives or not gateway.is_running)
    assert gateway.is_running, gateway.printed[-3000:]
