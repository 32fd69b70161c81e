"""The agent sends files: each as what it is on every platform, from the workspace alone, and the rest in words."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.platforms.enclosed import png
from tests.journeys import discord_stage, slack_stage, telegram_stage
from tests.journeys.stage import Home, until
from tests.thorough import a_few_of

MAX_BYTES = 2_000
FILES = {
    "plot.png": png(),
    "note.ogg": b"OggS\0\x02 OpusHead a voice",
    "notes.txt": b"my notes",
    "large.bin": bytes(MAX_BYTES + 1),
}

Shown = tuple[str, str, bytes]
"""A message of the bot's: what it says, as what it shows a file, and the file's bytes."""


@dataclass(kw_only=True)
class Chat:
    """An owner alone with the bot, on whatever platform."""

    home: Home
    say: Callable[[str], object]
    shown: Callable[[], list[Shown]]

    async def ask(self, text: str) -> list[Shown]:
        """What comes back, once all of it is there."""
        before, sent = len(self.shown()), self._sent()
        self.say(text)
        await until(lambda: self._sent() > sent)
        return self.shown()[before:]

    def _sent(self) -> int:
        return int(self.home.rows("SELECT COUNT(*) FROM outbox WHERE state = 'sent'")[0][0])


def settings(workspace: Path) -> dict[str, Any]:
    return {
        "terminal": {"cwd": str(workspace)},
        "media": {"max_outgoing_bytes": MAX_BYTES},
        "display": {"draft_after_seconds": 3600},  # what is seen of an answer before it is there is another story
    }


@asynccontextmanager
async def on_telegram(tmp_path: Path, workspace: Path) -> AsyncIterator[Chat]:
    async with telegram_stage.stage(tmp_path, demo=True, config=settings(workspace)) as on, on.gateway():
        owner = on.person("Olga", id=telegram_stage.OWNER)

        def shown() -> list[Shown]:
            return [telegram_message(on, one["message"]) for one in on.telegram.show(owner) if one["by_bot"]]

        yield Chat(home=on.home, say=lambda text: on.say(owner, text), shown=shown)


def telegram_message(on: telegram_stage.Stage, message: Mapping[str, Any]) -> Shown:
    words = message.get("text") or message.get("caption", "")
    for kind in ("photo", "voice", "document"):
        if file := message.get(kind):
            stored = on.telegram.world.files[(file[-1] if kind == "photo" else file)["file_id"]]
            return words, kind, stored.content or b""
    return words, "", b""


@asynccontextmanager
async def on_discord(tmp_path: Path, workspace: Path) -> AsyncIterator[Chat]:
    async with discord_stage.stage(tmp_path, demo=True, config=settings(workspace)) as on, on.gateway():
        dm = on.dm(on.owner)

        def shown() -> list[Shown]:
            return [discord_message(on, one["message"]) for one in on.discord.show(dm) if one["by_bot"]]

        yield Chat(home=on.home, say=lambda text: on.say(on.owner, text), shown=shown)


def discord_message(on: discord_stage.Stage, message: Mapping[str, Any]) -> Shown:
    for file in message["attachments"]:
        [stored] = [one for one in on.discord.world.files.values() if one.path in file["url"]]
        return message["content"], file["filename"], stored.content
    return message["content"], "", b""


@asynccontextmanager
async def on_slack(tmp_path: Path, workspace: Path) -> AsyncIterator[Chat]:
    async with slack_stage.stage(tmp_path, demo=True, config=settings(workspace)) as on, on.gateway():
        owner, dm = on.person("olga", id=slack_stage.OWNER)

        def shown() -> list[Shown]:
            return [slack_message(on, one) for one in on.slack.show(dm) if one["by_bot"]]

        yield Chat(home=on.home, say=lambda text: on.say(dm, owner, text), shown=shown)


def slack_message(on: slack_stage.Stage, shown: Mapping[str, Any]) -> Shown:
    for file in shown["message"].get("files", ()):
        return shown["text"], file["name"], on.slack.world.files[file["id"]].content or b""
    return shown["text"], "", b""


Open = Callable[[Path, Path], AbstractAsyncContextManager[Chat]]
AS_WHAT = {
    on_telegram: {"plot.png": "photo", "note.ogg": "voice", "notes.txt": "document"},
    on_discord: {name: name for name in FILES},
    on_slack: {name: name for name in FILES},
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    secret = tmp_path / "secret.txt"
    secret.write_text("the canary")
    (folder / "link.txt").symlink_to(secret)
    return folder


@pytest.mark.parametrize(
    "platform", a_few_of([on_telegram, on_discord, on_slack], 1), ids=["telegram", "discord", "slack"]
)
async def test_files_of_the_workspace_arrive_and_nothing_else_does(
    tmp_path: Path, workspace: Path, platform: Open
) -> None:
    kinds = AS_WHAT[platform]  # type: ignore[index]
    async with platform(tmp_path, workspace) as chat:
        for name in ("plot.png", "note.ogg", "notes.txt"):
            shown = await chat.ask(f"send me the file {name}")
            assert [(kind, content) for _, kind, content in shown if kind] == [(kinds[name], FILES[name])]
            assert [words for words, _, _ in shown if words] == ["Here it is."]

        several = await chat.ask(f"send me the files plot.png, {workspace}/notes.txt and note.ogg")
        assert several[0] == ("Here they are.", "", b"")
        names = ("plot.png", "notes.txt", "note.ogg")
        assert [(kind, content) for _, kind, content in several[1:]] == [(kinds[name], FILES[name]) for name in names]

        for name, reason in {
            "large.bin": "it is larger than 2 KB",
            str(tmp_path / "secret.txt"): "it is outside the folders",
            "../secret.txt": "a path with ..",
            "link.txt": "it is a link",
            "missing.txt": "there is no such file",
            str(chat.home.path / ".env"): "it is outside the folders",
        }.items():
            [(words, kind, _)] = await chat.ask(f"send me the file {name}")
            assert (reason in words, kind) == (True, ""), (name, words)
        assert not any(b"the canary" in content for _, _, content in chat.shown())


async def test_a_member_gets_back_what_they_sent_and_not_the_workspace(tmp_path: Path, workspace: Path) -> None:
    ada = 2002
    config = {**settings(workspace), "access": {"allowed_users": [f"telegram:{ada}"]}}
    async with telegram_stage.stage(tmp_path, demo=True, config=config) as on, on.gateway():
        on.person("Ada", id=ada)
        await on.ask(ada, "send me the file notes.txt", "there is no such file")
        on.people.send_media(ada, ada, "document", b"the report", name="report.txt")
        await on.hear(ada, "I got report.txt")

        def reports() -> int:
            shown = [telegram_message(on, one["message"]) for one in on.telegram.show(ada) if one["by_bot"]]
            return shown.count(("", "document", b"the report"))

        await until(lambda: reports() == 1)  # the demo model sends back what it gets
        on.say(ada, "send me the file report.txt")
        await until(lambda: reports() == 2)


async def test_a_killed_gateway_asks_before_it_sends_a_file_again_as_it_was(tmp_path: Path, workspace: Path) -> None:
    async with telegram_stage.stage(tmp_path, demo=True, config=settings(workspace)) as on:
        owner = on.person("Olga", id=telegram_stage.OWNER)

        def files() -> list[bytes]:
            shown = [telegram_message(on, one["message"]) for one in on.telegram.show(owner) if one["by_bot"]]
            return [content for _, kind, content in shown if kind]

        on.telegram.faults.add("hang_after", "sendDocument")
        async with on.gateway() as running:
            on.say(owner, "send me the file notes.txt")
            await until(lambda: files())
            await running.kill()
        (workspace / "notes.txt").write_text("other notes")
        async with on.gateway():
            notice = await on.hear(owner, "I cannot tell whether it arrived")
            assert files() == [b"my notes"]
            on.people.press(owner, owner, notice["message_id"], text="Send it again")
            await until(lambda: len(files()) == 2)
        assert files() == [b"my notes", b"my notes"]
