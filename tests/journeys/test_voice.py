"""Voice both ways on each platform: somebody speaks, the agent answers with a voice note that is understood again."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.media.speech import offline_recogniser
from playground.model_script import say
from tests.gateway.media.test_speech import GRAMMAR, SpeechService, recorded, service
from tests.journeys import discord_stage, slack_stage, telegram_stage
from tests.journeys.stage import WatchedModel, until
from tests.journeys.test_media_out import Shown, discord_message, slack_message, telegram_message
from tests.programs import needs

__all__ = ["service"]  # a fixture

pytestmark = needs("espeak-ng")
VOICE_MESSAGE = 1 << 13  # Discord's flag


@dataclass(kw_only=True)
class SpokenChat:
    model: WatchedModel
    say: Callable[[str], object]
    speak: Callable[[bytes], object]
    shown: Callable[[], list[Shown]]

    async def until_shown(self, found: Callable[[Shown], object]) -> Shown:
        await until(lambda: any(map(found, self.shown())))
        return next(filter(found, self.shown()))


@asynccontextmanager
async def on_telegram(tmp_path: Path, config: dict[str, Any]) -> AsyncIterator[SpokenChat]:
    async with telegram_stage.stage(tmp_path, config=config) as on, on.gateway():
        owner = on.person("Olga", id=telegram_stage.OWNER)
        yield SpokenChat(
            model=on.model,
            say=lambda text: on.say(owner, text),
            speak=lambda sound: on.people.send_media(owner, owner, "voice", sound, details={"duration": 2}),
            shown=lambda: [telegram_message(on, one["message"]) for one in on.telegram.show(owner) if one["by_bot"]],
        )


@asynccontextmanager
async def on_discord(tmp_path: Path, config: dict[str, Any]) -> AsyncIterator[SpokenChat]:
    async with discord_stage.stage(tmp_path, config=config) as on, on.gateway():
        dm = on.dm(on.owner)

        def speak(sound: bytes) -> object:
            file = {"name": "voice-message.ogg", "content": sound, "mime_type": "audio/ogg"}
            return on.say(on.owner, "", files=[file], extra={"flags": VOICE_MESSAGE})

        yield SpokenChat(
            model=on.model,
            say=lambda text: on.say(on.owner, text),
            speak=speak,
            shown=lambda: [discord_message(on, one["message"]) for one in on.discord.show(dm) if one["by_bot"]],
        )


@asynccontextmanager
async def on_slack(tmp_path: Path, config: dict[str, Any]) -> AsyncIterator[SpokenChat]:
    async with slack_stage.stage(tmp_path, config=config) as on, on.gateway():
        owner, dm = on.person("olga", id=slack_stage.OWNER)
        yield SpokenChat(
            model=on.model,
            say=lambda text: on.say(dm, owner, text),
            speak=lambda sound: on.people.send_file(dm, owner, sound, name="audio_message.ogg", mime_type="audio/ogg"),
            shown=lambda: [slack_message(on, one) for one in on.slack.show(dm) if one["by_bot"]],
        )


Open = Callable[[Path, dict[str, Any]], AbstractAsyncContextManager[SpokenChat]]


@pytest.mark.parametrize("platform", [on_telegram, on_discord, on_slack], ids=["telegram", "discord", "slack"])
async def test_what_is_spoken_is_answered_aloud(tmp_path: Path, service: SpeechService, platform: Open) -> None:
    (tmp_path / "home.jsgf").write_text(GRAMMAR)
    config = {
        "voice": {"offline": True, "transcription_url": service.url},
        "display": {"draft_after_seconds": 3600},
    }
    async with platform(tmp_path, config) as chat:
        chat.say("/voice auto")
        await chat.until_shown(lambda one: one[0].startswith("I answer voice messages"))
        chat.model.script(say("Yellow."), say("Only text."))
        chat.speak(recorded("lights"))
        _, kind, sound = await chat.until_shown(lambda one: one[2])
        assert b"OpusHead" in sound[:100]
        assert await offline_recogniser(str(tmp_path / "home.jsgf")).hear(sound, kind, "audio/ogg") == "yellow"
        shown = chat.model.newest_words()
        assert shown.endswith("]\nturn the lights off")
        assert "untrusted" not in shown
        assert [one[0] for one in chat.shown() if one[0] == "Yellow."] == ["Yellow."]

        chat.say("and now in writing")
        await chat.until_shown(lambda one: one[0] == "Only text.")
        assert len([one for one in chat.shown() if one[2]]) == 1
