"""A Discord, a model server and a real gateway between them: what every Discord story is played on.

A bot says four things in five seconds to a channel, so a story that listens to more of them takes as long.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from playground.discord.server import API, DiscordServer
from playground.discord.world import DM
from playground.model_script import Step
from playground.wire import Wire
from tests.journeys.stage import PATIENCE_SECONDS, Home, RunningGateway, WatchedModel, make_home, merged, until


@dataclass(kw_only=True)
class Stage:
    discord: DiscordServer
    model: WatchedModel
    home: Home
    owner: str

    @property
    def people(self) -> Any:
        return self.discord.people

    @property
    def mention(self) -> str:
        return f"<@{self.discord.world.bot.id}>"

    @asynccontextmanager
    async def gateway(self, *, module: str = "hermes_cli") -> AsyncIterator[RunningGateway]:
        """A gateway that listens to Discord and has set its slash commands."""
        events, world = self.discord.events, self.discord.world
        seen = events.last
        async with self.home.gateway(module=module) as running:
            try:
                await events.wait_for(
                    lambda: world.commands and any(one["kind"] == "ready" for one in events.after(seen)), seconds=60
                )
            except TimeoutError:
                raise AssertionError(f"it does not listen: {running.printed[-3000:]}") from None
            yield running

    def person(self, name: str = "ada") -> str:
        return str(self.people.make_user(name)["id"])

    def dm(self, user: str) -> str:
        return str(self.people.open_dm(user)["id"])

    def guild(self, *members: str) -> str:
        """With the bot and a witness in it, who is a bot that nobody listens to."""
        witness = self.people.make_user("witness", bot=True)["id"]
        return str(self.people.make_guild("Garden", members=[*members, witness])["id"])

    def channel(self, *members: str, guild: str = "") -> str:
        """In a guild of its own, unless one is named."""
        return str(self.people.make_channel(guild or self.guild(*members), "roses")["id"])

    def say(self, user: str, text: str, *, where: str = "", **options: Any) -> str:
        """In direct messages, or in a channel; gives the message's id."""
        return str(self.people.send_text(where or self.dm(user), user, text, **options)["id"])

    async def hear(self, where: str, words: str, *, seconds: float = PATIENCE_SECONDS) -> Wire:
        try:
            return await self.discord.wait_for_text(where, words, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"nobody said {words!r}: {self.discord.texts(where)}") from None

    async def hear_count(self, where: str, count: int) -> list[str]:
        """What the bot said, once it has said so many things."""
        try:
            await self.discord.wait_for(lambda: len(self.discord.texts(where)) >= count, seconds=PATIENCE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"fewer than {count}: {self.discord.texts(where)}") from None
        return self.discord.texts(where)

    async def ask(self, user: str, text: str, words: str, *, where: str = "", **options: Any) -> Wire:
        self.say(user, text, where=where, **options)
        return await self.hear(where or self.dm(user), words)

    async def command(self, user: str, name: str, text: str = "", *, where: str = "") -> Wire:
        """A slash command; gives what Discord was told within its three seconds."""
        options = {"text": text} if text else None
        answer: Wire = await self.people.use_command_and_wait(where or self.dm(user), user, name, options)
        return answer

    async def until_taken(self, where: str) -> None:
        """Until everything that was said in the channel so far was taken or refused: each is heard in its own order.

        In direct messages somebody has to say it who is answered for it, if they may speak.
        """
        channel = self.discord.world.channels[int(where)]
        if channel.kind == DM:
            last = self.say(str(channel.recipient), "/whoami", where=where)
        else:
            members = self.discord.world.guilds[channel.guild_id].members
            witness = next(one for one in members if self.discord.world.users[one].username == "witness")
            last = self.say(str(witness), "seen", where=where)
        await self.until_seen(where, last)

    async def until_seen(self, where: str, message: str) -> None:
        """Until the gateway has written down that it has taken the channel so far."""
        how_far = "SELECT value FROM cursors WHERE channel = ?"
        await until(lambda: any(int(value) >= int(message) for (value,) in self.home.rows(how_far, f"seen:{where}")))


CONFIG: Mapping[str, Any] = {
    "platforms": {
        "socket": {"enabled": True},
        "web": {"enabled": False},
        "discord": {"streaming": False},  # on a busy machine a draft may come before any answer
    },
    "access": {"messages_per_minute": 0},
    "model": {"name": "playground", "demo_pace_ms": 0},
}


@asynccontextmanager
async def stage(
    tmp_path: Path,
    *,
    demo: bool = False,
    otherwise: Step | None = None,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    discord: DiscordServer | None = None,
) -> AsyncIterator[Stage]:
    """`config` goes on top of what all stories share; `demo`: the demo model answers instead of the server's."""
    async with AsyncExitStack() as stack:
        if discord is None:
            discord = await stack.enter_async_context(DiscordServer())
        model = await stack.enter_async_context(WatchedModel(otherwise=otherwise))
        owner = discord.people.make_user("olga")["id"]
        own = {"access": {"owner_users": [f"discord:{owner}"]}, **({"model": {"name": "demo"}} if demo else {})}
        variables = {
            "DISCORD_BOT_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": model.api_key,
            **(environment or {}),
        }
        home = make_home(tmp_path / "home", merged(CONFIG, merged(own, config or {})), variables)
        yield Stage(discord=discord, model=model, home=home, owner=owner)


@asynccontextmanager
async def two_bots(tmp_path: Path) -> AsyncIterator[tuple[Stage, DiscordServer]]:
    """One gateway with a second bot, `work`: each lives on a server of its own, behind one address."""
    async with (
        DiscordServer() as first,
        DiscordServer(token="MTE.work.token", username="work", bot_id=1_100_000_000_000_000_002) as work,
        _switchboard({server.token: server.url for server in (first, work)}) as address,
        stage(
            tmp_path,
            demo=True,
            discord=first,
            config={"platforms": {"discord": {"accounts": ["work"]}}},
            environment={"DISCORD_API_URL": f"{address}{API}", "DISCORD_BOT_TOKEN_WORK": work.token},
        ) as on,
    ):
        yield on, work


@asynccontextmanager
async def _switchboard(servers: Mapping[str, str]) -> AsyncIterator[str]:
    """Passes a bot's calls on to its own server, by its token; that one names its own gateway."""
    async with ClientSession() as session:

        async def pass_on(request: web.Request) -> web.Response:
            authorization = request.headers["Authorization"]
            url = servers[authorization.removeprefix("Bot ")] + request.path_qs
            headers = {"Authorization": authorization, "Content-Type": request.headers.get("Content-Type", "")}
            async with session.request(request.method, url, data=await request.read(), headers=headers) as answer:
                told = {name: value for name, value in answer.headers.items() if name.startswith(("X-", "Via"))}
                told["Content-Type"] = answer.headers.get("Content-Type", "application/json")
                return web.Response(status=answer.status, body=await answer.read(), headers=told)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", pass_on)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
