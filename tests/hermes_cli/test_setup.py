"""`hermes setup` by keyboard and by script, against servers that speak the platforms' protocols."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from playground.discord.server import DiscordServer
from playground.model_script import ModelAnswer
from playground.model_server import ModelServer
from playground.slack.server import SlackServer
from playground.telegram.server import TelegramServer
from tests.hermes_cli.at_a_terminal import AtATerminal
from tests.hermes_cli.running import hermes
from tests.journeys.gateway_process import gateway

ENTER, CTRL_C = "\n", "\x03"
ASKED = "none): "  # ends the question for a secret that is not set


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """A bot on a playground server: its tokens in the order of the questions, and what setup shows of it."""

    label: str
    variables: dict[str, str]
    wrong: str
    name: str
    next_step: str


@asynccontextmanager
async def bot_on(platform: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    if platform == "telegram":
        async with TelegramServer() as telegram:
            monkeypatch.setenv("TELEGRAM_API_URL", telegram.url)
            tokens = {"TELEGRAM_BOT_TOKEN": telegram.token}
            yield Bot(
                label="Telegram", variables=tokens, wrong="42:wrong-token", name="playground_bot", next_step="t.me"
            )
    elif platform == "discord":
        async with DiscordServer() as discord:
            monkeypatch.setenv("DISCORD_API_URL", discord.api_url)
            tokens = {"DISCORD_BOT_TOKEN": discord.token}
            link = "discord.com/oauth2/authorize?client_id="
            yield Bot(label="Discord", variables=tokens, wrong="MTE.wrong.token", name="playground", next_step=link)
    else:
        async with SlackServer() as slack:
            monkeypatch.setenv("SLACK_API_URL", slack.api_url)
            tokens = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": slack.app_token}
            yield Bot(
                label="Slack", variables=tokens, wrong="xoxb-wrong-token", name="playground", next_step="slack://user"
            )


def read_all(home: Path) -> dict[str, str]:
    """Return the files of settings; there must be no others but those."""
    return {file.name: file.read_text() for file in sorted(home.glob("*")) if file.is_file()} if home.exists() else {}


def skip_to(terminal: AtATerminal, label: str) -> None:
    """Answer no to the platforms before this one, and yes to it."""
    for earlier in ("Telegram", "Discord", "Slack"):
        terminal.until(f"Connect {earlier}? [y/N]: ")
        if earlier == label:
            terminal.press("y\n")
            return
        terminal.press(ENTER)


def type_tokens(terminal: AtATerminal, tokens: list[str]) -> None:
    for token in tokens:
        terminal.until(ASKED)
        terminal.press(f"{token}\n")


def interrupt(terminal: AtATerminal) -> None:
    """Press Ctrl-C until it ends: one that comes just before the program begins to read waits for the next key."""
    for _ in range(5):
        terminal.press(CTRL_C)
        with suppress(subprocess.TimeoutExpired):
            terminal.process.wait(timeout=10)
            return


@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
async def test_a_bot_is_connected_by_keyboard(
    platform: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong token, then the right one with the bot's name."""
    async with bot_on(platform, monkeypatch) as bot:
        right = list(bot.variables.values())

        def connect() -> str:
            with AtATerminal("setup", "platforms", cwd=tmp_path, columns=200) as terminal:
                skip_to(terminal, bot.label)
                type_tokens(terminal, [bot.wrong, *right[1:]])
                assert "rejects our token" in terminal.until("Type it again? [Y/n]: ")
                assert read_all(home) == {}
                terminal.press(ENTER)
                type_tokens(terminal, right)
                terminal.until("Next: ")
                for _ in range(["slack", "discord", "telegram"].index(platform)):
                    terminal.until("[y/N]: ")
                    terminal.press(ENTER)
                assert terminal.leave() == 0
                return terminal.shown

        shown = await asyncio.to_thread(connect)
        assert f"{platform} accepts our token; the bot's name is {bot.name}" in shown
        assert bot.next_step in shown
        assert all(token not in shown for token in (*right, bot.wrong))
        assert read_all(home) == {".env": "".join(f"{name}={token}\n" for name, token in bot.variables.items())}


def test_a_bot_that_is_set_up_is_kept_and_a_stop_in_the_middle_changes_nothing(home: Path, tmp_path: Path) -> None:
    home.mkdir(mode=0o700)
    (home / ".env").write_text("TELEGRAM_BOT_TOKEN=42:some-good-token\n")
    (home / ".env").chmod(0o600)
    written = read_all(home)
    with AtATerminal("setup", "platforms", cwd=tmp_path, columns=200) as terminal:
        for question in ("Telegram is set up. Change its token?", "Connect Discord?", "Connect Slack?"):
            terminal.until(f"{question} [y/N]: ")
            terminal.press(ENTER)
        assert terminal.leave() == 0
        assert "Nothing was changed." in terminal.shown
    with AtATerminal("setup", "platforms", cwd=tmp_path, columns=200) as terminal:
        terminal.until("[y/N]: ")
        terminal.press("y\n")
        terminal.until("Enter keeps")
        interrupt(terminal)
        assert terminal.leave() == 1
        assert "Stopped. Nothing was changed." in terminal.shown
    assert read_all(home) == written


@pytest.mark.parametrize(("answer", "is_saved"), [(ENTER, False), ("y\n", True)])
async def test_without_a_network_the_token_is_saved_only_on_demand(
    answer: str, is_saved: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_API_URL", "http://127.0.0.1:1")

    def connect() -> None:
        with AtATerminal("setup", "platforms", cwd=tmp_path, columns=200) as terminal:
            skip_to(terminal, "Telegram")
            type_tokens(terminal, ["nonsense"])
            assert "does not look like" in terminal.until(ASKED)
            terminal.press("42:some-good-token\n")
            assert "telegram cannot be reached" in terminal.until("Save it without the check? [y/N]: ")
            terminal.press(answer)
            for label in ("Discord", "Slack"):
                terminal.until(f"Connect {label}? [y/N]: ")
                terminal.press(ENTER)
            assert terminal.leave() == 0

    await asyncio.to_thread(connect)
    assert read_all(home) == ({".env": "TELEGRAM_BOT_TOKEN=42:some-good-token\n"} if is_saved else {})


async def test_the_model_is_tried_and_its_section_written_before_the_next_is_asked(home: Path, tmp_path: Path) -> None:
    home.mkdir(mode=0o700)
    mine = "# mine\nmodel:\n  name: demo  # for now\nlogs: {level: error}\n"
    (home / "config.yaml").write_text(mine)

    async with ModelServer(otherwise=ModelAnswer(text=("ready",))) as server:

        def choose(key: str) -> AtATerminal:
            terminal.until("Choice [")
            terminal.press("other\n")
            terminal.until("Its address [")
            terminal.press(f"{server.url}\n")
            terminal.until("OPENAI_API_KEY (")
            terminal.press(f"{key}\n")
            terminal.until("Model")
            terminal.press("playground\n")
            return terminal

        with AtATerminal("setup", cwd=tmp_path, columns=200) as terminal:
            await asyncio.to_thread(choose, "sk-wrong")
            await asyncio.to_thread(terminal.until, "Choice [1]: ")
            assert "does not accept the key" in terminal.shown
            assert read_all(home) == {"config.yaml": mine}
            terminal.press(ENTER)
            await asyncio.to_thread(choose, server.api_key)
            await asyncio.to_thread(terminal.until, "Connect Telegram?")
            await asyncio.to_thread(interrupt, terminal)
            assert await asyncio.to_thread(terminal.leave) == 1
            assert "Stopped. Saved before: model. To go on: hermes setup" in terminal.shown
    written = read_all(home)
    assert written[".env"] == f"OPENAI_API_KEY={server.api_key}\n"
    assert written["config.yaml"] == mine.replace("demo  #", "playground  #").replace(
        "for now\n", f"for now\n  base_url: {server.url!r}\n".replace("'", '"')
    )


def test_terminal_and_owner_ask_with_what_is_set(home: Path, tmp_path: Path) -> None:
    home.mkdir(mode=0o700)
    (home / ".env").write_text("TELEGRAM_BOT_TOKEN=42:some-good-token\n")
    (home / ".env").chmod(0o600)
    with AtATerminal("setup", "owner", "terminal", cwd=tmp_path, columns=200) as terminal:
        terminal.until("Your id, or Enter for an invite: ")
        terminal.press("@ada\n")
        assert "looks like a user name" in terminal.until("Your id, or Enter for an invite: ")
        terminal.press("77\n")
        terminal.until("Ids of others who may talk to it [nobody]: ")
        terminal.press(ENTER)
        terminal.until("Choice [1]: ")
        terminal.press("local\n")
        terminal.until("Folder in which the agent works [~]: ")
        terminal.press(ENTER)
        assert terminal.leave() == 0
    expected = '_config_version: 1\naccess:\n  owner_users: ["telegram:77"]\nterminal:\n  backend: local\n'
    assert (home / "config.yaml").read_text() == expected


async def test_a_script_sets_everything_or_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bot_on("telegram", monkeypatch) as bot, ModelServer(otherwise=ModelAnswer(text=("ready",))) as model:
        [token] = bot.variables.values()
        flags = ["--base-url", model.url, "--owner", "telegram:7", "--invite", "telegram", "--backend", "local"]

        async def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            return await asyncio.to_thread(hermes, "setup", "--non-interactive", *arguments)

        wrong = await run("--model", "unknown", *flags, TELEGRAM_BOT_TOKEN=bot.wrong, OPENAI_API_KEY=model.api_key)
        assert wrong.returncode == 1
        assert "telegram rejects our token" in wrong.stderr
        assert "does not know the model" in wrong.stderr
        assert read_all(home) == {}
        done = await run("--model", "playground", *flags, TELEGRAM_BOT_TOKEN=token)
        assert done.returncode == 0, done.stderr
        assert "the bot's name is playground_bot" in done.stdout
        assert re.search(r"https://t\.me/playground_bot\?start=[A-Z2-9]{8}\n", done.stdout)
        assert token not in done.stdout + wrong.stderr
        assert "overrides" not in done.stdout  # it is the same token
    assert f"TELEGRAM_BOT_TOKEN={token}\n" in (home / ".env").read_text()
    assert 'owner_users: ["telegram:7"]' in (home / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "needs a terminal"),
        (("--model", "m"), "add --non-interactive"),
        (("--non-interactive", "model"), "leave them out"),
        (("--non-interactive", "--no-check", "--invite", "slack"), "no bot of that platform"),
        (("nonsense",), "'nonsense' is not one of"),
    ],
)
def test_wrong_usage_says_what_to_do(home: Path, arguments: tuple[str, ...], part: str) -> None:
    done = hermes("setup", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr
    assert not home.exists()


def test_a_home_of_another_program_is_left_alone(home: Path) -> None:
    home.mkdir()
    (home / "auth.json").touch()
    done = hermes("setup", "--non-interactive", "--no-check", "--model", "demo")
    assert done.returncode == 1
    assert "another program" in done.stderr
    assert os.listdir(home) == ["auth.json"]


async def test_the_first_message_is_answered_after_setup_in_a_fresh_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_PLATFORMS__WEB__ENABLED", "false")
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemd here, whatever this machine has
    async with TelegramServer() as telegram, ModelServer(otherwise=ModelAnswer(text=("Hello, Ada.",))) as model:
        monkeypatch.setenv("TELEGRAM_API_URL", telegram.url)

        def answer_all() -> str:
            with AtATerminal("setup", cwd=tmp_path, columns=200) as terminal:
                for question, keys in (
                    ("Choice [", "other"),
                    ("Its address [", model.url),
                    ("OPENAI_API_KEY (", model.api_key),
                    ("Model", "playground"),
                    ("Connect Telegram?", "y"),
                    (ASKED, telegram.token),
                    ("Connect Discord?", ""),
                    ("Connect Slack?", ""),
                    ("Enter for an invite: ", ""),
                    ("Ids of others", ""),
                    ("Choice [1]", ""),
                    ("Folder", ""),
                ):
                    terminal.until(question)
                    terminal.press(f"{keys}\n")
                assert terminal.leave() == 0
                assert "Start the gateway: hermes gateway run" in terminal.shown
                return terminal.shown

        shown = await asyncio.to_thread(answer_all)
        code = re.search(r"\?start=([A-Z2-9]{8})", shown)
        assert code is not None
        ada = telegram.people.make_user("Ada")["id"]
        async with gateway(home):
            telegram.people.send_text(ada, ada, f"/start {code[1]}")
            await telegram.wait_for_text(ada, "owner", seconds=30)
            telegram.people.send_text(ada, ada, "hello")
            await telegram.wait_for_text(ada, "Hello, Ada.", seconds=30)
