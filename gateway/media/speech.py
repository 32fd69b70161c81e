"""Speech both ways: what was said in a recording, and a text read aloud as a voice note.

Engines are tried in order; each is a service of the owner's choice or a program on this machine. Recordings are decoded
in a child process with limits (`audio`).
"""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path

import structlog

from gateway.media.kinds import detect_format
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
_MAX_ANSWER_BYTES = 40_000_000  # 20 minutes of samples
_MAX_SPOKEN_CHARS = 4_000
_MAX_HEARD_CHARS = 20_000
_SPEAKING_SECONDS = 60.0
_CHILD_MEMORY_BYTES = 1_000_000_000
_API = FetchLimits(max_bytes=_MAX_SOUND_BYTES, timeout_seconds=120.0)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"^[ \t]*(?:#{1,6}|[-*+>]|\d+\.)[ \t]+|[*_`~|]+|https?://\S+", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recogniser:
    name: str
    hear: Callable[[bytes, str, str], Awaitable[str]]
    """Returns the words of a recording, given its name and MIME type, too; raises ToolFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechReader:
    name: str
    read_aloud: Callable[[str, str], Awaitable[bytes]]
    """Returns a sound file of a text, given the name of a voice, too; raises ToolFailed."""


def openai_recogniser(base_url: str, model: str, key: str, guard: UrlGuard) -> Recogniser:
    """Build an engine over any server with OpenAI's endpoint for recordings."""

    async def hear(content: bytes, name: str, mime: str) -> str:
        file = FormFile(name=name, mime=mime, content=content)
        request = ApiRequest(headers=_headers(key), form={"model": model, "file": file})
        url = f"{base_url.rstrip('/')}/audio/transcriptions"
        answer = await fetch(url, guard.allowing(base_url), _API, request)
        try:
            words = json.loads(answer.content)["text"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ToolFailed("The service answered without a transcript.") from error
        return str(words)

    return Recogniser(name=model, hear=hear)


def whisper_recogniser(folder: Path) -> Recogniser:
    """Build an engine over faster-whisper, with the model in a folder."""

    async def hear(content: bytes, name: str, mime: str) -> str:
        samples = await _convert(content, "samples", 60.0)
        return (await _convert(samples, "whisper", 600.0, str(folder))).decode("utf-8", "replace")

    return Recogniser(name=f"faster-whisper ({folder.name}, offline)", hear=hear)


def offline_recogniser(grammar: str = "") -> Recogniser:
    """Build an engine that understands English, and much of it wrongly; a small grammar makes it reliable."""

    async def hear(content: bytes, name: str, mime: str) -> str:
        return (await _convert(content, "words", 120.0, grammar)).decode("utf-8", "replace")

    return Recogniser(name="pocketsphinx (offline, often wrong)", hear=hear)


def openai_reader(base_url: str, model: str, key: str, guard: UrlGuard) -> SpeechReader:
    """Build an engine over any server with OpenAI's endpoint for speech."""

    async def read_aloud(text: str, voice: str) -> bytes:
        wanted = {"model": model, "input": text, "voice": voice or "alloy", "response_format": "opus"}
        url = f"{base_url.rstrip('/')}/audio/speech"
        return (
            await fetch(url, guard.allowing(base_url), _API, ApiRequest(headers=_headers(key), json=wanted))
        ).content

    return SpeechReader(name=model, read_aloud=read_aloud)


def edge_reader(guard: UrlGuard) -> SpeechReader:
    """Build an engine over Microsoft's public service. The library connects by itself, so it is sent through our
    filtering proxy."""

    async def read_aloud(text: str, voice: str) -> bytes:
        import aiohttp
        from edge_tts import Communicate
        from edge_tts.exceptions import EdgeTTSException

        proxy = Proxy(guard)
        port = await proxy.open_port()
        sound = b""
        try:
            async with asyncio.timeout(_SPEAKING_SECONDS):
                speaking = Communicate(text, voice or "en-US-AriaNeural", proxy=f"http://127.0.0.1:{port}")
                async for piece in speaking.stream():
                    if piece["type"] == "audio":
                        sound += piece["data"]
        except (aiohttp.ClientError, EdgeTTSException, TimeoutError, ValueError, OSError) as error:
            raise ToolFailed(f"Microsoft's speech service did not answer ({type(error).__name__}).") from error
        finally:
            proxy.close()
        return sound

    return SpeechReader(name="edge-tts", read_aloud=read_aloud)


def espeak_reader(program: str) -> SpeechReader:
    """Build an engine over espeak-ng on this machine."""

    async def read_aloud(text: str, voice: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(program, "--stdin", "--stdout", "-v", voice if re.fullmatch(r"[\w+-]+", voice) else "en"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_SPEAKING_SECONDS):
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

    return SpeechReader(name="espeak-ng", read_aloud=read_aloud)


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
        form = detect_format(content)
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
        form = detect_format(sound)
        sha256 = await asyncio.to_thread(self.files.save, "audio", sound)
        name = f"voice.{ {'audio/ogg': 'ogg', 'audio/mpeg': 'mp3'}.get(form.mime, 'wav') }"
        made = Media(kind="audio", name=name, mime=form.mime, form=form.title, size_bytes=len(sound), sha256=sha256)
        await self.db.write_when_possible(lambda tx: media.record_parts(tx, [made]))
        return made

    async def _read_aloud(self, words: str, voice: str) -> bytes:
        problems = []
        attempts = [(reader, voice) for reader in self.readers]
        if voice:  # better with another voice than not at all
            attempts += [(reader, "") for reader in self.readers]
        for reader, wanted in attempts:
            try:
                sound = await reader.read_aloud(words, wanted)
                if detect_format(sound).kind != "audio":
                    raise ToolFailed("the answer is no sound")
                is_voice_note = sound.startswith(b"OggS") and b"OpusHead" in sound[:200]  # as chat apps show it
                return sound if is_voice_note or find_spec("av") is None else await _convert(sound, "opus", 60.0)
            except ToolFailed as error:
                log.warning("text not read aloud", engine=reader.name, problem=str(error))
                problems.append(str(error).rstrip("."))
        raise ToolFailed(f"The text could not be read aloud. {'; '.join(dict.fromkeys(problems))}.")


def find_words_to_speak(text: str) -> str:
    """Return a text without what nobody would read aloud: code, addresses, marks of Markdown."""
    plain = _MARKUP.sub("", _LINK.sub(r"\1", _CODE.sub(" ", text)))
    words = "\n".join(" ".join(line.split()) for line in plain.splitlines()).strip()
    return words[:_MAX_SPOKEN_CHARS] if any(map(str.isalnum, words)) else ""


def find_recognisers(key: str, voice: VoiceSettings, guard: UrlGuard, *, is_openai: bool) -> tuple[Recogniser, ...]:
    """Return the engines that can be used, best first. `is_openai` says whether the key is one of OpenAI itself."""
    engines: list[Recogniser] = []
    if url := voice.transcription_url or (_OPENAI if is_openai and not voice.offline else ""):
        engines.append(openai_recogniser(url, voice.transcription_model, key, guard))
    if voice.whisper_model:
        folder = Path(voice.whisper_model).expanduser().absolute()
        # Without a tokenizer in the folder it would be fetched from the network.
        missing = [name for name in ("model.bin", "tokenizer.json") if not (folder / name).is_file()]
        if find_spec("faster_whisper") is None:
            log.warning("voice.whisper_model is not used", problem="install it with: pip install faster-whisper")
        elif missing:
            log.warning("voice.whisper_model is not used", problem=f"{folder} has no {' and no '.join(missing)}")
        else:
            engines.append(whisper_recogniser(folder))
    if find_spec("pocketsphinx") is not None and find_spec("av") is not None:
        engines.append(offline_recogniser(voice.grammar))
    return tuple(engines)


def find_readers(key: str, voice: VoiceSettings, guard: UrlGuard, *, is_openai: bool) -> tuple[SpeechReader, ...]:
    engines: list[SpeechReader] = []
    if url := voice.speech_url or (_OPENAI if is_openai and not voice.offline else ""):
        engines.append(openai_reader(url, voice.speech_model, key, guard))
    if find_spec("edge_tts") is not None and not voice.offline:
        engines.append(edge_reader(guard))
    if program := shutil.which("espeak-ng"):
        engines.append(espeak_reader(program))
    return tuple(engines)


async def _convert(content: bytes, way: str, timeout_seconds: float, named: str = "") -> bytes:
    limits = (str(ceil(timeout_seconds)), str(_CHILD_MEMORY_BYTES), named)
    command = [sys.executable, "-I", "-m", "gateway.media.audio", way, *limits]
    with await asyncio.to_thread(write_temporary, content) as file:
        try:
            answer = await run_child(command, file, timeout_seconds=timeout_seconds, max_bytes=_MAX_ANSWER_BYTES)
        except TimeoutError as error:
            raise ToolFailed("Converting the recording took too long.") from error
    if way == "whisper" and not answer:
        raise ToolFailed("The model could not be used: it is damaged, or needs more memory.")
    if answer is None or (way in ("opus", "samples") and not answer):
        raise ToolFailed("The recording is damaged.")
    return answer


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}
