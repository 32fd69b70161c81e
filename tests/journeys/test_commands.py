"""Every command with right, wrong and missing arguments, as people read the answers on each platform.

One table is played on Telegram, Discord (slash commands), Slack (its slash command), the page and at the terminal.
With `SHOW_TEXTS` set to a file, everything that was said is written there, to be read aloud.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from playground.discord.server import DiscordServer
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer
from tests.journeys.stage import PATIENCE_SECONDS, Home, RunningGateway, make_home, merged, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # some fifty answers one after the other on each platform

NOTHING_YET = "Nothing has been said in this conversation yet."
# What is said, and what stands in the answer.
STEPS: Sequence[tuple[str, str]] = (
    ("/sessions", "This chat has no conversations yet."),
    ("/title Sums", "No conversation is open. Send a message first, then give it a title."),
    ("/history", NOTHING_YET),
    ("/save", f"{NOTHING_YET} There is nothing to save."),
    ("/retry", f"{NOTHING_YET} There is nothing to retry."),
    ("/undo", f"{NOTHING_YET} There is nothing to undo."),
    ("/branch", f"{NOTHING_YET} There is nothing to branch."),
    ("/search", "Say what to search for: /search WORDS"),
    ("what is 6 * 7?", "6 * 7 = 42"),
    ("/title", "This conversation is called “what is 6 * 7?”."),
    ("/title Sums", "This conversation is now called “Sums”."),
    ("/history many", "Use /history or /history NUMBER, from 1 to 50."),
    ("/history 1", "just now: “6 * 7 = 42"),
    ("/search zebra", "Nothing found for “zebra”. Try fewer or other words."),
    ("/search what", "what is 6 * 7?"),
    ("/save docx", "There is no format “docx”. Use /save md|json."),
    ("/save json", "2 messages"),
    ("/retry", "6 * 7 = 42"),
    ("/compress some", "Give the target in tokens, such as /compress 20000 or /compress 20k."),
    ("/compress", "less than the target of 50,000."),
    ("/reasoning", "The last answer came without thoughts."),
    ("/reasoning hihg", "There is no such level. Use /reasoning none|minimal|low|medium|high|default, show or hide."),
    ("/reasoning high", "Reasoning effort: high."),
    ("/help compress", "/compress [tokens]: Summarise the older messages of this conversation"),
    ("/help compres", "There is no command /compres. Did you mean /compress"),
    ("/model", "Model: demo"),
    ("/model dmeo", "There is no model “dmeo”. Did you mean demo?"),
    ("/model demo", "Model: demo, from your next message until the next /new."),
    ("/model default", "Back to the default model demo, from your next message on."),
    ("/personality", "Personality: default (SOUL.md in the home, if there is one)."),
    ("/personality techer", "There is no personality “techer”. Did you mean teacher?"),
    ("/personality teacher", "Personality: teacher, from your next message"),
    ("/personality default", "Back to the default personality, from your next message on."),
    ("/tools", "Tools in this conversation:"),
    ("/toolsets", "todo: on (a task list for each conversation)"),
    ("/toolsets off", "Name a toolset, such as /toolsets off terminal."),
    ("/toolsets off tood", "There is no toolset “tood”. Did you mean todo?"),
    ("/toolsets off todo", "todo is off, from your next message"),
    ("/toolsets default", "Back to the default toolsets: core."),
    ("/branch Other sums", "You are now in a copy of this conversation, “Other sums”."),
    ("/sessions", "Current: Other sums"),
    ("/sessions daisies", "No conversation matches “daisies”. These exist:"),
    ("/undo", "Remove the last exchange from this conversation?"),
    ("/undo now", "Use /undo, or /undo yes to remove the last exchange without being asked."),
    ("/undo yes", "Removed:"),
    ("/undo yes", f"{NOTHING_YET} There is nothing to undo."),
    ("/terminal", "Say what to run, such as /terminal ls -la."),
    ("/terminal echo one two", "one two"),
    ("/terminal exit 3", "Exit code 3, no output."),
    ("/frobnicate", "There is no command /frobnicate. /help lists all commands."),
)
IN_CHATS: Sequence[tuple[str, str]] = (
    ("/background", "Say what to do: /background PROMPT"),
    ("/background what is 6 * 8?", "6 * 8 = 48"),
    ("/config", "/config works in the terminal, not in chats. /help lists what works here."),
    ("/help", "/background PROMPT: Work on a prompt beside this conversation and post the result here"),
)
AT_TERMINAL: Sequence[tuple[str, str]] = (
    ("/background x", "/background works in chats, not in the terminal. /help lists what works here."),
    ("/restart", "/restart works in chats, not in the terminal. /help lists what works here."),
    ("/config", "model    demo: offline and rule-based, to try things out"),
    ("/help", "/quit, /exit: End the chat"),
)
FOR_MEMBERS: Sequence[tuple[str, str]] = (
    ("/terminal ls", "/terminal is not available to you here. /help lists what is."),
    ("/restart", "/restart is not available to you here. /help lists what is."),
    ("/model demo", "Model: demo, from your next message until the next /new."),
    ("/toolsets on messaging", "messaging is not offered here. An owner can switch it on in a private chat."),
)
LISTED = ("sessions", "title", "history", "search", "save", "retry", "undo", "branch", "model", "personality", "tools")

CONFIG: dict[str, Any] = {
    "platforms": {
        "socket": {"enabled": False},
        "telegram": {
            "poll_seconds": 20,
            "streaming": False,
            **dict.fromkeys(("sends_per_second", "chat_sends_per_minute", "group_sends_per_minute"), 0),
        },
        "discord": {"streaming": False},
        "slack": {"streaming": False},
    },
    "access": {"messages_per_minute": 0},
    "model": {"name": "demo", "demo_pace_ms": 0},
}


@asynccontextmanager
async def running(
    tmp_path: Path,
    variables: Mapping[str, str],
    *,
    owner: str = "",
    member: str = "",
    config: Mapping[str, Any] | None = None,
) -> AsyncIterator[tuple[Home, RunningGateway]]:
    access = {"owner_users": [owner], "allowed_users": [member]} if owner else {}
    own = {"access": access, "platforms": {"web": {"enabled": False}}, "terminal": {"cwd": str(tmp_path)}}
    home = make_home(tmp_path / "home", merged(merged(CONFIG, own), config or {}), variables)
    async with home.gateway() as gateway:
        yield home, gateway


Say = Callable[[str], Awaitable[None]]
Texts = Callable[[], list[str]]


async def play(where: str, steps: Sequence[tuple[str, str]], say: Say, texts: Texts, home: Home) -> None:
    """Say one thing after the other, each once the last was answered."""
    for said, expected in steps:
        before = len(texts())
        await say(said)
        try:
            await until(lambda: any(expected in _plain(text) for text in texts()[before:]), seconds=PATIENCE_SECONDS)  # noqa: B023
        except TimeoutError:
            raise AssertionError(f"{where}: {said!r} was answered {texts()[before:]}, not {expected!r}") from None
        await home.until_idle()
        show(where, said, "\n".join(texts()[before:]))


def _plain(text: str) -> str:
    """Without the marks by which a platform formats."""
    return re.sub(r"[*_`\\]", "", text).replace("6  7", "6 * 7").replace("6  8", "6 * 8")


def show(where: str, said: str, answer: str) -> None:
    if path := os.environ.get("SHOW_TEXTS"):
        with Path(path).open("a") as file:
            file.write(f"[{where}] {said}\n{answer}\n\n")


async def test_on_telegram(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        owner = int(telegram.people.make_user("Olga")["id"])
        member = int(telegram.people.make_user("Max")["id"])
        variables = {"TELEGRAM_BOT_TOKEN": telegram.token, "TELEGRAM_API_URL": telegram.url}
        async with running(tmp_path, variables, owner=f"telegram:{owner}", member=f"telegram:{member}") as (home, _):
            for person, steps in ((owner, (*STEPS, *IN_CHATS)), (member, FOR_MEMBERS)):

                async def say(text: str, person: int = person) -> None:
                    telegram.people.send_text(person, person, text)

                await play("Telegram", steps, say, partial(telegram.texts, person), home)
            menu = {one["command"]: one["description"] for one in telegram.world.commands}
    assert menu["resume"] == "Go back to an old conversation · [id or title]"
    assert set(LISTED) <= menu.keys()
    assert not {"terminal", "restart", "pairing"} & menu.keys()  # a menu is shown to everybody


async def test_on_discord(tmp_path: Path) -> None:
    async with DiscordServer() as discord:
        owner, member = (str(discord.people.make_user(name)["id"]) for name in ("olga", "max"))
        variables = {"DISCORD_BOT_TOKEN": discord.token, "DISCORD_API_URL": discord.api_url}
        async with running(tmp_path, variables, owner=f"discord:{owner}", member=f"discord:{member}") as (home, _):
            await home.until_platform("connected", account="discord")
            menu = {one["name"]: one for one in await until(lambda: list(discord.world.commands))}
            for person, steps in ((owner, (*STEPS, *IN_CHATS)), (member, FOR_MEMBERS)):
                dm = str(discord.people.open_dm(person)["id"])

                async def say(text: str, person: str = person, dm: str = dm) -> None:
                    name, _, words = text.removeprefix("/").partition(" ")
                    if text.startswith("/") and name in menu:
                        options = {"text": words} if words else None
                        await discord.people.use_command_and_wait(dm, person, name, options)
                    else:
                        discord.people.send_text(dm, person, text)

                def texts(dm: str = dm) -> list[str]:
                    # Without the receipt of a command, which may be deleted after its answer was posted.
                    return [text for text in discord.texts(dm) if text != "…"]

                await play("Discord", steps, say, texts, home)
    assert set(LISTED) <= menu.keys()
    [option] = menu["resume"]["options"]
    assert option["description"] == "[id or title]"


async def test_on_slack(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        owner, member = (str(slack.people.make_user(name)["id"]) for name in ("olga", "max"))
        variables = {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_API_URL": slack.api_url,
        }
        async with running(tmp_path, variables, owner=f"slack:{owner}", member=f"slack:{member}") as (home, _):
            await home.until_platform("connected", account="slack")
            for person, steps in ((owner, (*STEPS, *IN_CHATS)), (member, FOR_MEMBERS)):
                dm = str(slack.people.make_dm(person)["id"])

                async def say(text: str, person: str = person, dm: str = dm) -> None:
                    if text.startswith("/"):
                        # Without a slash, only known words are commands: anything else is a message.
                        is_odd = text in ("/frobnicate", "/config")
                        words = text if is_odd else text.removeprefix("/")
                        await slack.people.command_and_wait(dm, person, "/hermes", words)
                    else:
                        slack.people.send_text(dm, person, text)

                await play("Slack", steps, say, partial(slack.texts, dm), home)


async def test_on_the_page(tmp_path: Path) -> None:
    chat, said = "abcdef0123456789", iter(range(1000))
    texts: list[str] = []
    config = {"platforms": {"web": {"enabled": True, "port": 0}}}
    async with (
        running(tmp_path, {}, config=config) as (home, gateway),
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
    ):
        await until(lambda: "The chat page is on" in gateway.printed or "Chat here" in gateway.printed)
        link = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", await home.hermes("web"))
        assert link is not None
        async with client.get(link[0]) as response:
            address = str(response.url.origin())
        async with client.get(f"{address}/api/about") as response:
            listed = {one["name"]: one for one in (await response.json())["commands"]}
        async with client.ws_connect(f"{address}/ws") as socket:

            async def read() -> None:
                async for line in socket:
                    told = line.json()
                    if told["type"] == "message":
                        texts.append(told["item"]["text"])

            async def say(text: str) -> None:
                await socket.send_json({"type": "send", "id": str(next(said)), "chat": chat, "text": text})

            reading = asyncio.create_task(read())
            await play("Page", (*STEPS, *IN_CHATS), say, lambda: texts, home)
            reading.cancel()
    assert {*LISTED, "terminal", "restart"} <= listed.keys()  # whoever sees the page is the owner
    assert listed["terminal"]["hint"] == "COMMAND [--background]"


async def test_at_the_terminal(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", {**CONFIG, "agent": {"platform_toolsets": ["cli=core"]}}, {})
    steps = (*STEPS, *AT_TERMINAL)
    texts = await _converse(home, tmp_path, [said for said, _ in steps])
    for said, expected in steps:
        assert expected in texts, f"{said}: {texts}"
    show("Terminal", "all of it", texts)
    [saved] = tmp_path.glob("hermes-*.json")
    assert "6 * 7 = 42" in saved.read_text()


async def _converse(home: Home, folder: Path, lines: Sequence[str]) -> str:
    """Return what `hermes chat` prints when these lines are typed."""

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "hermes_cli", "chat"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, "HERMES_HOME": str(home.path), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        printed, _ = await process.communicate("".join(f"{line}\n" for line in (*lines, "/quit", "never")).encode())
    assert process.returncode == 0, printed.decode()
    return printed.decode()
