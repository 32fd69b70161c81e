"""One kind of chat on one platform, and a model that can be held back word by word, for live replies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

from gateway.platforms.discord.sending import DRAFT_MARK
from playground.discord.server import DiscordServer
from playground.model_script import ModelAnswer, ModelRefusal, Step
from playground.server import PlatformServer
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer
from tests.journeys import discord_stage, slack_stage, telegram_stage
from tests.journeys.stage import PATIENCE_SECONDS, Home, RunningGateway, WatchedModel, make_home, merged

Kind = Literal["telegram dm", "telegram group", "discord dm", "discord channel", "slack dm", "slack channel"]
KINDS: tuple[Kind, ...] = (
    "telegram dm",
    "telegram group",
    "discord dm",
    "discord channel",
    "slack dm",
    "slack channel",
)
GROUPS: tuple[Kind, ...] = ("telegram group", "discord channel", "slack channel")
_SILENT = 1 << 12  # Discord's flag


class HeldModel(WatchedModel):
    """Keeps back what it says from certain words on, until it is let."""

    def __init__(self, *, otherwise: Step | None = None) -> None:
        super().__init__(otherwise=otherwise)
        self._held: dict[str, asyncio.Event] = {}

    def hold(self, words: str) -> asyncio.Event:
        """Set it to let them be said."""
        return self._held.setdefault(words, asyncio.Event())

    async def _play(self, step: Step, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        if isinstance(step, ModelRefusal) and step.message in self._held:
            await self._held[step.message].wait()
        return await super()._play(step, request, body)

    async def _stream(self, step: ModelAnswer, request: web.Request, model: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for frame in step.frames(model):
            for words, may_go_on in self._held.items():
                if words.encode() in frame:
                    await may_go_on.wait()
            if step.delay_seconds:
                await asyncio.sleep(step.delay_seconds)
            await response.write(frame)
        return await self._end(step, request, response)


@dataclass(kw_only=True)
class Chat:
    """Where somebody asks, and what they see there."""

    kind: Kind
    server: PlatformServer
    model: HeldModel
    home: Home
    gateway: Callable[[], AbstractAsyncContextManager[RunningGateway]]
    say: Callable[[str], str]  # gives the message's id
    texts: Callable[[], list[str]]  # messages of the bot's that stand there
    preview: Callable[[], list[str]] = list  # what fades by itself
    reactions: Callable[[str], list[str]]  # the bot's own
    rings: Callable[[], int]  # how often a phone has rung
    asked: list[str] = field(default_factory=list)

    @property
    def shown(self) -> list[str]:
        return [text.removeprefix(DRAFT_MARK) for text in (*self.texts(), *self.preview())]

    def ask(self, text: str = "what?") -> str:
        self.asked.append(self.say(text))
        return self.asked[-1]

    async def sees(self, words: str, *, seconds: float = PATIENCE_SECONDS) -> str:
        """The whole message, as soon as one says so."""

        def found() -> str:
            return next((text for text in self.shown if words in text), "")

        return str(await self._until(found, words, seconds))

    async def sees_nothing_but(self, *texts: str, seconds: float = PATIENCE_SECONDS) -> None:
        await self._until(lambda: self.shown == list(texts), str(texts), seconds)

    async def at_rest(self) -> None:
        """All is answered and sent, and no draft is known any more."""
        await self.home.until_idle()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.home.rows("SELECT 1 FROM drafts"):
                await asyncio.sleep(0.02)

    async def _until(self, condition: Callable[[], Any], words: str, seconds: float) -> Any:
        try:
            return await self.server.wait_for(condition, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"not seen: {words!r}, but {self.shown}") from None


@asynccontextmanager
async def chat(
    folder: Path,
    kind: Kind,
    *,
    config: Mapping[str, Any] | None = None,
    otherwise: Step | None = None,
    limits: bool = False,
) -> AsyncIterator[Chat]:
    """A home and its servers; the gateway is not started yet. `otherwise`: what the model says unless it is told."""
    platform = kind.partition(" ")[0]
    build = {"telegram": _on_telegram, "discord": _on_discord, "slack": _on_slack}[platform]
    own = {"platforms": {platform: {"streaming": True}}, "display": {"draft_after_seconds": 0.1}}
    settings = merged(own, config or {})
    async with HeldModel(otherwise=otherwise) as model, build(folder, kind, model, settings, limits) as made:
        yield made


def _variables(model: HeldModel, **more: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": model.api_key, **more}


@asynccontextmanager
async def _on_telegram(
    folder: Path, kind: Kind, model: HeldModel, config: Mapping[str, Any], limits: bool
) -> AsyncIterator[Chat]:
    owner = telegram_stage.OWNER
    async with TelegramServer(privacy=False, limits=limits) as server:
        rate_limits = {"platforms": {"telegram": telegram_stage.UNHURRIED}} if limits else {}
        given = merged(telegram_stage.CONFIG, merged(rate_limits, config))
        variables = _variables(model, TELEGRAM_BOT_TOKEN=server.token, TELEGRAM_API_URL=server.url)
        home = make_home(folder / "home", given, variables)
        on = telegram_stage.Stage(telegram=server, model=model, home=home)
        on.person("Olga", id=owner)
        is_group = kind == "telegram group"
        place = int(server.people.make_supergroup("Garden", members=[owner])["id"]) if is_group else owner
        address = f"@{server.world.bot.username} " if is_group else ""
        seen = server.world.chats

        def reactions(message_id: str) -> list[str]:
            return [one["emoji"] for one in seen[place].posts[int(message_id)].reactions.get(server.world.bot.id, [])]

        def rings() -> int:
            sent = [call for call in server.calls if call.method.lower() in ("sendmessage", "senddocument")]
            return sum(call.status == 200 and call.params.get("disable_notification") != "true" for call in sent)

        yield Chat(
            kind=kind,
            server=server,
            model=model,
            home=home,
            gateway=on.gateway,
            say=lambda text: str(on.say(owner, text if text.startswith("/") else address + text, chat=place)),
            texts=lambda: server.texts(place),
            preview=lambda: [draft["text"] for draft in seen[place].drafts.values()],
            reactions=reactions,
            rings=rings,
        )


@asynccontextmanager
async def _on_discord(
    folder: Path, kind: Kind, model: HeldModel, config: Mapping[str, Any], limits: bool
) -> AsyncIterator[Chat]:
    async with DiscordServer(limits=limits) as server:
        owner = str(server.people.make_user("olga")["id"])
        given = merged(merged(discord_stage.CONFIG, {"access": {"owner_users": [f"discord:{owner}"]}}), config)
        variables = _variables(model, DISCORD_BOT_TOKEN=server.token, DISCORD_API_URL=server.api_url)
        home = make_home(folder / "home", given, variables)
        on = discord_stage.Stage(discord=server, model=model, home=home, owner=owner)
        is_group = kind == "discord channel"
        place = on.channel(owner) if is_group else on.dm(owner)
        address = f"{on.mention} " if is_group else ""

        def reactions(message_id: str) -> list[str]:
            marks = server.world.channels[int(place)].posts[int(message_id)].reactions
            return [emoji for emoji, who in marks.items() if server.world.bot.id in who]

        def rings() -> int:
            sent = server.called("createMessage")
            return sum(call.status == 200 and not int(call.params.get("flags", 0)) & _SILENT for call in sent)

        yield Chat(
            kind=kind,
            server=server,
            model=model,
            home=home,
            gateway=on.gateway,
            say=lambda text: on.say(owner, address + text, where=place),
            texts=lambda: server.texts(place),
            reactions=reactions,
            rings=rings,
        )


@asynccontextmanager
async def _on_slack(
    folder: Path, kind: Kind, model: HeldModel, config: Mapping[str, Any], limits: bool
) -> AsyncIterator[Chat]:
    owner = slack_stage.OWNER
    async with SlackServer(limits=limits) as server:
        tokens = {"SLACK_BOT_TOKEN": server.bot_token, "SLACK_APP_TOKEN": server.app_token}
        home = make_home(
            folder / "home",
            merged(slack_stage.CONFIG, config),
            _variables(model, SLACK_API_URL=server.api_url, **tokens),
        )
        on = slack_stage.Stage(slack=server, model=model, home=home)
        _, dm = on.person("olga", id=owner)
        is_group = kind == "slack channel"
        place = on.channel("garden", owner) if is_group else dm
        address, threads = (f"{on.bot} " if is_group else ""), list[str]()

        def say(text: str) -> str:
            """In a channel all belongs to the thread below the first."""
            ts = on.say(place, owner, address + text, thread=threads[0] if threads and is_group else "")
            threads.append(ts)
            return ts

        def reactions(message_id: str) -> list[str]:
            marks = server.world.channels[place].posts[message_id].body.get("reactions", ())
            return [mark["name"] for mark in marks if server.world.bot.id in mark["users"]]

        def texts() -> list[str]:
            posts = server.world.channels[place].posts.values()
            return [post.words for post in posts if post.by_bot and not post.deleted]

        yield Chat(
            kind=kind,
            server=server,
            model=model,
            home=home,
            gateway=on.gateway,
            say=say,
            texts=texts,
            reactions=reactions,
            rings=lambda: sum(call.status == 200 for call in server.called("chat.postMessage")),
        )
