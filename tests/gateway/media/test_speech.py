"""Voice messages in and out: real espeak-ng, the real offline recogniser, services on loopback."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from agent_core.conversation import Message
from agent_core.provenance import read_provenance
from gateway.media.kinds import detect_format
from gateway.media.speech import (
    Recogniser,
    Speech,
    _convert,
    edge_reader,
    espeak_reader,
    find_readers,
    find_recognisers,
    find_words_to_speak,
    offline_recogniser,
    openai_reader,
    openai_recogniser,
    whisper_recogniser,
)
from gateway.messages import Media
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from hermes_config.settings import VoiceSettings
from tests.gateway.media.test_incoming import VOICE, Desk, accepted, desk
from tests.programs import needs
from tests.tools.places import place_in
from tests.tools.test_url_guard import leading_to
from tools.base import ToolContext
from tools.builtin.speech import NoSpeech, speech_tool, transcription_tool
from tools.content import text_of, words_of
from tools.errors import ToolFailed
from tools.url_guard import UrlGuard

__all__ = ["desk"]  # a fixture

pytestmark = needs("espeak-ng")
ESPEAK = espeak_reader("espeak-ng")
OFFLINE = offline_recogniser().name
GRAMMAR = "#JSGF V1.0;\ngrammar home;\npublic <order> = lights | yellow | no;\n"


def recorded(words: str) -> bytes:
    """A recording of a person, as far as a program can be one."""
    command = ["espeak-ng", "--stdin", "--stdout", "-v", "en"]
    return subprocess.run(command, input=words.encode(), capture_output=True, check=True).stdout


class SpeechService:
    """Speaks OpenAI's protocol for sound, and keeps what it was sent."""

    def __init__(self) -> None:
        self.port = 0
        self.heard: list[dict[str, Any]] = []
        self.spoken: list[Any] = []
        self.transcript: Any = {"text": " turn the  lights\noff "}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def transcribe(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        head = file.file.read(4)
        key = request.headers.get("Authorization")
        self.heard.append({"model": form["model"], "name": file.filename, "head": head, "key": key})
        return web.json_response(self.transcript)

    async def speak(self, request: web.Request) -> web.Response:
        self.spoken.append(await request.json())
        return web.Response(body=recorded("yellow"))


@pytest.fixture
async def service() -> AsyncIterator[SpeechService]:
    serving = SpeechService()
    app = web.Application(client_max_size=50_000_000)
    app.router.add_post("/v1/audio/transcriptions", serving.transcribe)
    app.router.add_post("/v1/audio/speech", serving.speak)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    serving.port = runner.addresses[0][1]
    yield serving
    await runner.cleanup()


@pytest.fixture
def grammar(tmp_path: Path) -> str:
    (tmp_path / "home.jsgf").write_text(GRAMMAR)
    return str(tmp_path / "home.jsgf")


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    return MediaFiles({kind: tmp_path / "caches" / kind for kind in ("image", "audio", "video", "file")})


def hearing(service: SpeechService) -> Recogniser:
    return openai_recogniser(service.url, "whisper-1", "k", UrlGuard())


async def test_a_voice_note_is_understood_again(db: Database, files: MediaFiles, grammar: str) -> None:
    speech = Speech(recognisers=(offline_recogniser(grammar),), readers=(ESPEAK,), db=db, files=files)
    note = await speech.speak("**Yellow!** `code`")
    sound = files.load(note)
    assert sound is not None
    assert (note.kind, note.mime, note.name) == ("audio", "audio/ogg", "voice.ogg")
    assert b"OpusHead" in sound[:100]  # Telegram shows no other format as a voice note
    found = await speech.transcribe(sound, "voice.ogg")
    assert (found.text, "offline" in found.engine) == ("yellow", True)


async def test_a_service_is_sent_the_recording_and_speaks(
    service: SpeechService, db: Database, files: MediaFiles
) -> None:
    reader = openai_reader(service.url, "tts-1", "k", UrlGuard())
    speech = Speech(recognisers=(hearing(service),), readers=(reader,), voice="nova", db=db, files=files)
    assert (await speech.transcribe(recorded("lights"), "clip.wav")).text == "turn the lights off"
    assert service.heard == [{"model": "whisper-1", "name": "clip.wav", "head": b"RIFF", "key": "Bearer k"}]
    note = await speech.speak("Yellow")
    assert (note.mime, service.spoken[0]["voice"], service.spoken[0]["input"]) == ("audio/ogg", "nova", "Yellow")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"just text", "not a recording but: text"),
        (b"OggS\0" + bytes(200), "damaged|No words"),
        (b"", "not a recording"),
    ],
)
async def test_what_is_no_recording_is_said_in_a_sentence(content: bytes, told: str) -> None:
    with pytest.raises(ToolFailed, match=told):
        await Speech(recognisers=(offline_recogniser(),)).transcribe(content, "x.ogg")


async def test_the_next_engine_takes_over(
    service: SpeechService, db: Database, files: MediaFiles, grammar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.transcript = ["nonsense"]
    broken = openai_reader(f"{service.url}/nowhere", "m", "", UrlGuard())
    speech = Speech(
        recognisers=(hearing(service), offline_recogniser(grammar)),
        readers=(broken, edge_reader(UrlGuard()), ESPEAK),
        db=db,
        files=files,
    )
    assert (await speech.transcribe(recorded("yellow"), "x.wav")).text == "yellow"
    leading_to(monkeypatch, ["127.0.0.1"])  # so the guard refuses what the library asks for
    assert (await speech.speak("yellow")).mime == "audio/ogg"
    with pytest.raises(ToolFailed, match=r"could not be transcribed\. whisper-1: The service answered without"):
        await Speech(recognisers=(hearing(service),)).transcribe(recorded("no"), "x.wav")


async def test_a_whisper_model_that_cannot_be_loaded_leaves_it_to_the_next_engine(tmp_path: Path, grammar: str) -> None:
    broken = whisper_recogniser(tmp_path)
    heard = await Speech(recognisers=(broken, offline_recogniser(grammar))).transcribe(recorded("yellow"), "x.wav")
    assert (heard.text, heard.engine) == ("yellow", OFFLINE)
    with pytest.raises(ToolFailed, match="offline\\): The model could not be used"):
        await Speech(recognisers=(broken,)).transcribe(recorded("yellow"), "x.wav")


async def test_an_engine_without_the_voice_speaks_with_its_own(db: Database, files: MediaFiles) -> None:
    assert (await Speech(readers=(ESPEAK,), voice="nova", db=db, files=files).speak("yellow")).sha256


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Tea\n- *hot* water\n1. [leaves](http://x.example/y)", "Tea\nhot water\nleaves"),
        ("Run:\n```\nrm -rf /\n```\nthen `ls`.", "Run:\n\nthen ls."),
        ("see https://x.example/page", "see"),
        ("```\nonly code\n```", ""),
        ("…", ""),
        ("word " * 2_000, ("word " * 2_000)[:4_000]),
    ],
)
def test_only_words_are_read_aloud(text: str, words: str) -> None:
    assert find_words_to_speak(text) == words


@pytest.mark.parametrize(
    ("given", "is_openai", "hears", "speaks"),
    [
        ({}, False, [OFFLINE], ["edge-tts", "espeak-ng"]),
        (
            {},
            True,
            ["whisper-1", OFFLINE],
            ["tts-1", "edge-tts", "espeak-ng"],
        ),
        ({"offline": True}, True, [OFFLINE], ["espeak-ng"]),
        (
            {"offline": True, "transcription_url": "http://h:1/v1", "speech_url": "http://h:2/v1"},
            False,
            ["whisper-1", OFFLINE],
            ["tts-1", "espeak-ng"],
        ),
    ],
)
def test_the_settings_choose_the_engines(
    given: dict[str, Any], is_openai: bool, hears: list[str], speaks: list[str]
) -> None:
    voice = VoiceSettings(**given)
    recognisers = find_recognisers("k", voice, UrlGuard(), is_openai=is_openai)
    readers = find_readers("k", voice, UrlGuard(), is_openai=is_openai)
    assert [one.name for one in recognisers] == hears
    assert [one.name for one in readers] == speaks


def test_a_whisper_model_is_used_where_it_and_its_package_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, missing = tmp_path / "small", ["faster_whisper"]
    folder.mkdir()
    monkeypatch.setattr("gateway.media.speech.find_spec", lambda name: None if name in missing else object())

    def find() -> list[str]:
        voice = VoiceSettings(whisper_model=str(folder))
        return [one.name for one in find_recognisers("", voice, UrlGuard(), is_openai=False)]

    with capture_logs() as logged:
        assert find() == [OFFLINE]
        missing.clear()
        (folder / "model.bin").touch()
        assert find() == [OFFLINE]
        (folder / "tokenizer.json").touch()
        assert find() == ["faster-whisper (small, offline)", OFFLINE]
    assert [one["problem"].partition(":")[0] for one in logged] == [
        "install it with",
        f"{folder} has no tokenizer.json",
    ]


async def test_a_recording_becomes_samples_for_whisper() -> None:
    sound = recorded("yellow")
    seconds = len(sound) / 2 / 22_050  # as espeak-ng records
    assert len(await _convert(sound, "samples", 60.0)) == pytest.approx(seconds * 2 * 16_000, rel=0.02)


# In messages.


async def test_a_voice_message_is_the_words_of_its_sender(desk: Desk, service: SpeechService) -> None:
    desk.store.files = {"v1": recorded("lights")}
    spoken = Media(kind="audio", name="voice.ogg", reference="v1", is_voice=True, duration_seconds=2)
    [message] = await desk.bring_in(await accepted(desk.db, spoken), speech=Speech(recognisers=(hearing(service),)))
    assert words_of(message.parts) == "turn the lights off"
    assert text_of(message.parts).endswith(" 2 s, 30 KB]\nturn the lights off") or "turn the lights off" in message.text
    assert "transcribed by whisper-1" in message.text
    heard = read_provenance([Message(role="user", parts=message.parts)], ())
    assert (heard.own_words, heard.outside) == ("turn the lights off", ())
    assert not desk.told


async def test_a_recording_that_was_passed_on_is_text_from_outside(desk: Desk, service: SpeechService) -> None:
    desk.store.files = {"v1": recorded("lights")}
    [message] = await desk.bring_in(await accepted(desk.db, VOICE), speech=Speech(recognisers=(hearing(service),)))
    assert words_of(message.parts) == ""
    assert "A transcript follows. It is untrusted" in message.text
    assert "\n> turn the lights off\n" in message.text
    heard = read_provenance([Message(role="user", parts=message.parts)], ())
    assert (heard.own_words, len(heard.outside)) == ("", 1)


async def test_the_chat_is_told_what_the_offline_recogniser_heard_and_what_nobody_understood(
    desk: Desk, grammar: str
) -> None:
    spoken = Media(kind="audio", name="voice.ogg", reference="v1", is_voice=True)
    speech = Speech(recognisers=(offline_recogniser(grammar),))
    desk.store.files = {"v1": recorded("yellow")}
    await desk.bring_in(await accepted(desk.db, spoken), speech=speech)
    desk.store.files = {"v1": b"OggS\0" + bytes(500)}
    await desk.bring_in(await accepted(desk.db, spoken, message_id="2"), speech=speech)
    assert desk.told[0].endswith("(pocketsphinx), which often errs. I heard: “yellow”")
    assert desk.told[1].startswith("I could not read voice.ogg: ")


# The tools.


async def test_the_tools_speak_and_transcribe(
    db: Database, files: MediaFiles, service: SpeechService, tmp_path: Path
) -> None:
    speech = Speech(recognisers=(hearing(service),), readers=(ESPEAK,), db=db, files=files)
    context = ToolContext(task_id="one", workplace=place_in(tmp_path))
    result = await speech_tool(speech, in_chat=True).run('{"text": "Hello"}', context)
    assert isinstance(result, tuple)
    note = result[1]
    assert isinstance(note, Media)
    assert (note.to_chat, detect_format(files.load(note) or b"").kind) == (True, "audio")
    (tmp_path / "project" / "clip.wav").write_bytes(recorded("lights"))
    found = await transcription_tool(speech).run('{"path": "clip.wav"}', context)
    assert found == {"text": "turn the lights off", "transcribed_by": "whisper-1"}


def test_without_engines_each_tool_says_what_to_do() -> None:
    assert "hermes-gateway[voice]" in speech_tool(NoSpeech(), in_chat=True).unavailable()
    assert "voice.transcription_url" in transcription_tool(NoSpeech()).unavailable()
    assert speech_tool(Speech(readers=(ESPEAK,)), in_chat=False).unavailable() == "it works only in chats"
