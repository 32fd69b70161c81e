"""Speech both ways: what was said in a recording, and a text read aloud as a voice note.

Engines are tried in order; each is a service of the owner's choice or a program on this machine. Recordings are decoded
in a child process with limits (`audio`).
"""

import asyncio
import json
import re
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from typing import Protocol

import structlog

from gateway.media.kinds import look
from gateway.media.reader import run_child, write_temporary
from gateway.store import media
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from hermes_config.settings import VoiceSettings
from tools.backends.proxy import Proxy
from tools.builtin.speech import Transcript
from tools.content import Media
from tools.errors import ToolFailed
from tools.url_guard import ApiRequest, FetchLimits, FormFile, UrlGuard, fetch

log = structlog.get_logger()

_OPENAI = "https://api.openai.com/v1"
_MAX_SOUND_BYTES = 20_000_000
_MAX_SPOKEN_CHARS = 4_000
_MAX_HEARD_CHARS = 20_000
_CHILD_MEMORY_BYTES = 1_000_000_000
_API = FetchLimits(max_bytes=_MAX_SOUND_BYTES, timeout_seconds=120.0)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"^[ \t]*(?:#{1,6}|[-*+>]|\d+\.)[ \t]+|[*_`~|]+|https?://\S+", re.MULTILINE)


class Recogniser(Protocol):
    @property
    def name(self) -> str: ...

    async def hear(self, content: bytes, name: str, mime: str) -> str:
        """Return the words of a recording; raises ToolFailed."""


class SpeechReader(Protocol):
    async def read_aloud(self, text: str, voice: str) -> bytes:
        """Return a sound file of the text; raises ToolFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIRecogniser:
    base_url: str
    model: str
    key: str
    guard: UrlGuard

    @property
    def name(self) -> str:
        return self.model

    async def hear(self, content: bytes, name: str, mime: str) -> str:
        file = FormFile(name=name, mime=mime, content=content)
        request = ApiRequest(headers=_headers(self.key), form={"model": self.model, "file": file})
        url = f"{self.base_url.rstrip('/')}/audio/transcriptions"
        answer = await fetch(url, self.guard.allowing(self.base_url), _API, request)
        try:
            words = json.loads(answer.content)["text"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ToolFailed("The service answered without a transcript.") from error
        return str(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRecogniser:
    """Understands English, and much of it wrongly; a small grammar makes it reliable."""

    grammar: str = ""
    timeout_seconds: float = 120.0
    name: str = "pocketsphinx (offline, often wrong)"

    async def hear(self, content: bytes, name: str, mime: str) -> str:
        return (await _convert(content, "words", self.timeout_seconds, self.grammar)).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIReader:
    base_url: str
    model: str
    key: str
    guard: UrlGuard

    async def read_aloud(self, text: str, voice: str) -> bytes:
        wanted = {"model": self.model, "input": text, "voice": voice or "alloy", "response_format": "opus"}
        url = f"{self.base_url.rstrip('/')}/audio/speech"
        request = ApiRequest(headers=_headers(self.key), json=wanted)
        return (await fetch(url, self.guard.allowing(self.base_url), _API, request)).content


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeReader:
    """Microsoft's public service. The library connects by itself, so it is sent through our filtering proxy."""

    guard: UrlGuard
    timeout_seconds: float = 60.0

    async def read_aloud(self, text: str, voice: str) -> bytes:
        import aiohttp
        from edge_tts import Communicate
        from edge_tts.exceptions import EdgeTTSException

        proxy = Proxy(self.guard, _allow)
        port = await proxy.open_port()
        sound = b""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                speaking = Communicate(text, voice or "en-US-AriaNeural", proxy=f"http://127.0.0.1:{port}")
                async for piece in speaking.stream():
                    if piece["type"] == "audio":
                        sound += piece["data"]
        except (aiohttp.ClientError, EdgeTTSException, TimeoutError, ValueError, OSError) as error:
            raise ToolFailed(f"Microsoft's speech service did not answer ({type(error).__name__}).") from error
        finally:
            proxy.close()
        return sound


@dataclass(frozen=True, slots=True, kw_only=True)
class EspeakReader:
    program: str
    timeout_seconds: float = 60.0

    async def read_aloud(self, text: str, voice: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(self.program, "--stdin", "--stdout", "-v", voice if re.fullmatch(r"[\w+-]+", voice) else "en"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(self.timeout_seconds):
                sound, _ = await process.communicate(text.encode())
        except TimeoutError as error:
            raise ToolFailed("espeak-ng took too long.") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise ToolFailed(f"espeak-ng failed: it may have no voice named {voice!r}.")
        return sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The engines of an installation, and where recordings are stored."""

    recognisers: tuple[Recogniser, ...] = ()
    readers: tuple[SpeechReader, ...] = ()
    voice: str = ""  # of the settings
    db: Database | None = None
    files: MediaFiles | None = None

    @property
    def hears(self) -> bool:
        return bool(self.recognisers)

    @property
    def speaks(self) -> bool:
        return bool(self.readers)

    async def transcribe(self, content: bytes, name: str) -> Transcript:
        """Return what is said in a recording; raises ToolFailed."""
        form = look(content)
        if form.kind not in ("audio", "video"):
            raise ToolFailed(f"{name} is not a recording but: {form.title}.")
        problems = []
        for engine in self.recognisers:
            try:
                words = " ".join((await engine.hear(content, name, form.mime)).split())
            except ToolFailed as error:
                log.warning("recording not transcribed", engine=engine.name, problem=str(error))
                problems.append(f"{engine.name}: {str(error).rstrip('.')}")
                continue
            if not words:
                raise ToolFailed(f"No words were heard in {name}.")
            return Transcript(text=words[:_MAX_HEARD_CHARS], engine=engine.name)
        raise ToolFailed(f"{name} could not be transcribed. {'; '.join(problems)}.")

    async def speak(self, text: str, voice: str = "") -> Media:
        """Return a recording of the text, as a voice note where it can be converted; raises ToolFailed."""
        words = find_words_to_speak(text)
        if not words or self.db is None or self.files is None:
            raise ToolFailed("There is nothing in this text that can be read aloud.")
        sound = await self._read_aloud(words, voice or self.voice)
        form = look(sound)
        sha256 = await asyncio.to_thread(self.files.save, "audio", sound)
        name = f"voice.{ {'audio/ogg': 'ogg', 'audio/mpeg': 'mp3'}.get(form.mime, 'wav') }"
        made = Media(kind="audio", name=name, mime=form.mime, form=form.title, size_bytes=len(sound), sha256=sha256)
        await self.db.write_when_possible(lambda tx: media.record_parts(tx, [made]))
        return made

    async def _read_aloud(self, words: str, voice: str) -> bytes:
        problems = []
        for reader in self.readers:
            try:
                sound = await reader.read_aloud(words, voice)
                if look(sound).kind != "audio":
                    raise ToolFailed("the answer is no sound")
                return await _as_voice_note(sound)
            except ToolFailed as error:
                log.warning("text not read aloud", engine=type(reader).__name__, problem=str(error))
                problems.append(str(error).rstrip("."))
        raise ToolFailed(f"The text could not be read aloud. {'; '.join(problems)}.")


def find_words_to_speak(text: str) -> str:
    """Return a text without what nobody would read aloud: code, addresses, marks of Markdown."""
    plain = _MARKUP.sub("", _LINK.sub(r"\1", _CODE.sub(" ", text)))
    words = "\n".join(" ".join(line.split()) for line in plain.splitlines()).strip()
    return words[:_MAX_SPOKEN_CHARS] if any(map(str.isalnum, words)) else ""


def find_recognisers(key: str, voice: VoiceSettings, guard: UrlGuard, *, is_openai: bool) -> tuple[Recogniser, ...]:
    """Return the engines that can be used, best first. `is_openai` says whether the key is one of OpenAI itself."""
    engines: list[Recogniser] = []
    if url := voice.transcription_url or (_OPENAI if is_openai and not voice.offline else ""):
        engines.append(OpenAIRecogniser(base_url=url, model=voice.transcription_model, key=key, guard=guard))
    if find_spec("pocketsphinx") is not None and find_spec("av") is not None:
        engines.append(OfflineRecogniser(grammar=voice.grammar))
    return tuple(engines)


def find_readers(key: str, voice: VoiceSettings, guard: UrlGuard, *, is_openai: bool) -> tuple[SpeechReader, ...]:
    engines: list[SpeechReader] = []
    if url := voice.speech_url or (_OPENAI if is_openai and not voice.offline else ""):
        engines.append(OpenAIReader(base_url=url, model=voice.speech_model, key=key, guard=guard))
    if find_spec("edge_tts") is not None and not voice.offline:
        engines.append(EdgeReader(guard=guard))
    if program := shutil.which("espeak-ng"):
        engines.append(EspeakReader(program=program))
    return tuple(engines)


async def _as_voice_note(sound: bytes) -> bytes:
    """Return OGG/Opus, which chat apps show as a voice note; what it is where it cannot be converted."""
    if sound.startswith(b"OggS") and b"OpusHead" in sound[:200]:
        return sound
    if find_spec("av") is None:
        return sound
    return await _convert(sound, "opus", 60.0)


async def _convert(content: bytes, way: str, timeout_seconds: float, grammar: str = "") -> bytes:
    limits = (str(ceil(timeout_seconds)), str(_CHILD_MEMORY_BYTES), grammar)
    command = [sys.executable, "-I", "-m", "gateway.media.audio", way, *limits]
    with await asyncio.to_thread(write_temporary, content) as file:
        try:
            answer = await run_child(command, file, timeout_seconds=timeout_seconds, max_bytes=_MAX_SOUND_BYTES)
        except TimeoutError as error:
            raise ToolFailed("Converting the recording took too long.") from error
    if answer is None or (way == "opus" and not answer):
        raise ToolFailed("The recording is damaged.")
    return answer


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


async def _allow(host: str) -> bool:
    return True  # the guard decides
