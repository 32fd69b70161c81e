"""Fetch and read the attachments of accepted messages before their turn. A failure is reported, never fatal.

Files are fetched, identified and stored; then the readable ones are read one after the other, so that one chat
never occupies all the child processes that read files.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from agent_core.model import Model
from gateway.errors import GatewayError, MediaUnavailable
from gateway.media import kinds
from gateway.media.kinds import TOO_MANY, FileFormat, find_picture_problem, notice
from gateway.media.pictures import describe_picture
from gateway.media.reader import DocumentReader
from gateway.media.stickers import StickerBook
from gateway.messages import Media, Part
from gateway.store import inbox, media
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.media import MediaFiles
from hermes_config.settings import MediaSettings
from tools.builtin.speech import NoSpeech, SpeechEngines
from tools.errors import ToolFailed

log = structlog.get_logger()

Fetch = Callable[[str, Media], Awaitable[bytes]]
"""Fetches a part by its account; raises MediaUnavailable."""
Tell = Callable[[Transaction, str], None]
"""Writes a notice for the chat in the same transaction."""


@dataclass(slots=True, kw_only=True)
class Attachments:
    db: Database
    files: MediaFiles
    fetch: Fetch
    limits: MediaSettings = field(default_factory=MediaSettings)
    reader: DocumentReader = field(default_factory=DocumentReader)
    stickers: StickerBook | None = None
    speech: SpeechEngines = field(default_factory=NoSpeech)
    sees: bool = True  # whether the model accepts pictures
    _places: dict[str, asyncio.Semaphore] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        at_once = self.limits.fetches_at_once  # per account: one that hangs must not hold up the others
        self._places = defaultdict(lambda: asyncio.Semaphore(at_once))

    async def bring_in(
        self,
        messages: Sequence[Accepted],
        tell: Tell,
        model: Model | None = None,
        *,
        sees: bool | None = None,
        vision: Model | None = None,
    ) -> list[Accepted]:
        """Return the messages with their files stored and read, or with the reason why not.

        `model` describes stickers, if the book may ask at all; the call counts towards the sender's budget. `sees` says
        whether a model that was chosen for the conversation accepts pictures; if none does, `vision` describes them.

        The result is stored in one commit with the notices to the chat, so a resumed turn repeats neither.
        """
        chosen = self._choose(messages)
        if not chosen:
            return list(messages)
        is_seen = self.sees if sees is None else sees
        settled = dict(
            zip(chosen, await self._settle(chosen.values(), model, None if is_seen else vision), strict=True)
        )
        brought = [
            replace(
                message,
                parts=tuple(settled.get((message.id, place), part) for place, part in enumerate(message.parts)),
            )
            for message in messages
        ]

        def unit(tx: Transaction) -> None:
            media.record_parts(tx, settled.values())
            for message in brought:
                inbox.set_parts(tx, message.id, message.parts)
            if words := notice(list(settled.values()), sees=is_seen):
                tell(tx, words)

        await self.db.write_when_possible(unit)
        return brought

    async def take_files(self, files: Sequence[Media]) -> list[Media]:
        """Return files that belong to no message in the inbox stored and read, or with the reason why not."""
        most = self.limits.max_files_per_message
        settled = await self._settle(
            [
                _Candidate("", part, "" if place < most else f"{TOO_MANY} {most} files of one message are taken")
                for place, part in enumerate(files)
            ]
        )
        await self.db.write_when_possible(lambda tx: media.record_parts(tx, settled))
        return settled

    def _choose(self, messages: Sequence[Accepted]) -> dict[tuple[int, int], "_Candidate"]:
        """Return the files to fetch and those beyond a limit, by message and position."""
        chosen: dict[tuple[int, int], _Candidate] = {}
        for message in messages:
            of_this = 0
            for place, part in enumerate(message.parts):
                if not isinstance(part, Media) or not _is_open(message, part):
                    continue
                of_this += 1
                problem = ""
                if of_this > self.limits.max_files_per_message:
                    problem = f"{TOO_MANY} {self.limits.max_files_per_message} files of one message are taken"
                elif len(chosen) >= self.limits.max_files_per_turn:
                    problem = f"{TOO_MANY} {self.limits.max_files_per_turn} files are taken at once"
                chosen[message.id, place] = _Candidate(message.key.account_name, part, problem)
        return chosen

    async def _settle(
        self, chosen: Iterable["_Candidate"], model: Model | None = None, vision: Model | None = None
    ) -> list[Media]:
        """Return the files fetched and read, and pictures described by `vision` if there is one."""
        settled: list[Media] = []
        left = self.limits.max_turn_text_chars
        for one in await asyncio.gather(*(self._fetch_and_identify(given, model) for given in chosen)):
            part = one.part
            if part.kind == "audio" and not part.problem and self.speech.hears:
                part = await self._transcribe(part)
            elif one.form.read_as and not part.problem:
                part = await self._read(part, one.form, left)
                left -= len(part.text)
            settled.append(part)
        return list(await asyncio.gather(*(_describe(part, vision) for part in settled))) if vision else settled

    async def _fetch_and_identify(self, given: "_Candidate", model: Model | None) -> "_Result":
        """Fetch, identify and store a file. Raises nothing."""
        account, part, problem = given.account, given.part, given.problem
        if problem:
            return _Result(replace(part, problem=problem))
        try:
            if part.sticker and self.stickers is not None:
                return _Result(await self._describe_sticker(self.stickers, account, part, model))
            return await self._take(account, part)
        except TimeoutError:
            problem = "fetching it took too long"
        except (GatewayError, OSError) as error:
            problem = str(error) or "it could not be fetched"
        except Exception:  # contained: one file must not cost the whole message
            log.exception("attachment failed")
            problem = "an unexpected error occurred while storing it"
        log.warning("attachment could not be fetched", kind=part.kind, problem=problem)
        return _Result(replace(part, problem=problem))

    async def _take(self, account: str, part: Media) -> "_Result":
        async with self._places[account]:  # until it is stored: with a slow disk, files must not pile up in memory
            if part.sha256:  # a web page uploads before it sends
                stored = await asyncio.to_thread(self.files.load, part)
                if stored is None:
                    raise MediaUnavailable("the file is no longer stored here; please send it again")
                content = stored
            else:
                async with asyncio.timeout(self.limits.fetch_timeout_seconds):
                    content = await self.fetch(account, part)
            form = await asyncio.to_thread(kinds.detect_format, content)
            seen = self._describe_content(part, form, content)
            if not content:
                return _Result(seen)
            sha256 = await asyncio.to_thread(self.files.save, seen.kind, content)
        return _Result(replace(seen, sha256=sha256), form)

    def _describe_content(self, part: Media, form: FileFormat, content: bytes) -> Media:
        """Return the part described by its bytes, whatever its name and its sender say."""
        kind = part.kind if form.may_be_audio and part.kind == "audio" else form.kind
        keeps_mime = form is kinds.TEXT and part.mime.startswith("text/")
        seen = replace(
            part,
            kind=kind,
            mime=part.mime if keeps_mime else form.mime,
            size_bytes=len(content),
            form=form.title,
            problem=form.problem,
        )
        if form.kind != "image" or form.problem:
            return seen
        # A plain file is never shown to a model, whatever later becomes of `problem`.
        problem = find_picture_problem(form, content, self.limits.max_image_pixels)
        return replace(seen, kind="file", problem=problem) if problem else seen

    async def _describe_sticker(self, book: StickerBook, account: str, part: Media, model: Model | None) -> Media:
        async def bring() -> Media | None:
            try:
                picture = (await self._take(account, part)).part
            except (GatewayError, OSError, TimeoutError) as error:
                log.info("sticker could not be fetched", problem=str(error))
                return None
            return picture if picture.kind == "image" and not picture.problem else None

        return replace(part, form="sticker", text=await book.describe(part.sticker, bring, model))

    async def _transcribe(self, part: Media) -> Media:
        content = await asyncio.to_thread(self.files.load, part)
        try:
            found = await self.speech.transcribe(content or b"", part.name or "the recording")
        except ToolFailed as error:
            return replace(part, problem=str(error).rstrip("."))
        return replace(part, text=found.text, form=f"{part.form}, transcribed by {found.engine}")

    async def _read(self, part: Media, form: FileFormat, max_chars: int) -> Media:
        if max_chars <= 0:
            return replace(part, problem="the files before it already hold the most text that can be read at once")
        found = await self.reader.read(self.files.path(part.kind, part.sha256), form.read_as)
        if found.problem:
            log.info("attachment could not be read", form=part.form, problem=found.problem)
        return replace(
            part,
            form=found.title or part.form,
            text=found.text[:max_chars],
            partial=found.partial or len(found.text) > max_chars,
            problem=found.problem if found.problem or found.text else "it contains only blank space",
        )


async def _describe(part: Media, vision: Model) -> Media:
    if part.kind != "image" or part.problem or part.sticker:
        return part
    return replace(part, text=await describe_picture(vision, part))


@dataclass(frozen=True, slots=True)
class _Candidate:
    account: str
    part: Media
    problem: str  # why it is not fetched


@dataclass(frozen=True, slots=True)
class _Result:
    part: Media
    form: FileFormat = kinds.UNKNOWN  # nothing is read from this format


def has_outside_files(messages: Iterable[Accepted]) -> bool:
    """Return whether a message has a file that was not fetched yet."""
    return any(_is_open(message, part) for message in messages for part in message.parts)


def _is_open(message: Accepted, part: Part) -> bool:
    # The files of an edited message came with the original.
    return message.kind == "message" and isinstance(part, Media) and not part.form and not part.problem
