"""Takes in what came attached to accepted messages, before their turn. A failure is told, never fatal.

Fetched, looked at and kept; then what can be read is read, one file of a turn after the other, so that one chat
never holds all the places in which files are read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from agent_core.model import Model
from gateway.errors import GatewayError, MediaUnavailable
from gateway.media import kinds
from gateway.media.kinds import TOO_MANY, FileFormat, notice, pixels_of
from gateway.media.reader import DocumentReader
from gateway.media.stickers import StickerBook
from gateway.messages import Media, Part
from gateway.store import inbox, media
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.media import MediaFiles

log = structlog.get_logger()

Fetch = Callable[[str, Media], Awaitable[bytes]]
"""Account and part to bytes; raises MediaUnavailable."""
Tell = Callable[[Transaction, str], None]
"""Puts a notice for the chat into the same transaction."""
MAX_SHOWN_BYTES = 5_000_000  # more than that no provider takes as a picture


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeLimits:
    files_per_message: int = 10
    files_per_turn: int = 20
    fetch_seconds: float = 60.0
    fetches_at_once: int = 4
    turn_text_chars: int = 150_000
    image_pixels: int = 50_000_000


@dataclass(slots=True, kw_only=True)
class Attachments:
    db: Database
    files: MediaFiles
    fetch: Fetch
    limits: IntakeLimits = field(default_factory=IntakeLimits)
    reader: DocumentReader = field(default_factory=DocumentReader)
    stickers: StickerBook | None = None
    sees: bool = True  # whether the model is shown pictures
    _places: dict[str, asyncio.Semaphore] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        at_once = self.limits.fetches_at_once  # an account each: one that hangs must not hold up the others
        self._places = defaultdict(lambda: asyncio.Semaphore(at_once))

    async def bring_in(self, messages: Sequence[Accepted], tell: Tell, model: Model | None = None) -> list[Accepted]:
        """The messages with their files in our caches and read, or with the reason why not.

        `model` is asked what stickers show, if the book may ask at all: whoever sent them pays for it.

        Kept in one commit with what the chat is told of it, so a resume fetches, reads and tells nothing again.
        """
        chosen = self._choose(messages)
        if not chosen:
            return list(messages)
        settling = [self._settle(given, model) for given in chosen.values()]
        looked_at = dict(zip(chosen, await asyncio.gather(*settling), strict=True))
        settled = await self._read_each(looked_at)
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
            if words := notice(list(settled.values()), sees=self.sees):
                tell(tx, words)

        await self.db.write_when_possible(unit)
        return brought

    def _choose(self, messages: Sequence[Accepted]) -> dict[tuple[int, int], "_Given"]:
        """By message and place: what is to be taken in, and what is too much."""
        chosen: dict[tuple[int, int], _Given] = {}
        for message in messages:
            of_this = 0
            for place, part in enumerate(message.parts):
                if not isinstance(part, Media) or not _is_open(message, part):
                    continue
                of_this += 1
                problem = ""
                if of_this > self.limits.files_per_message:
                    problem = f"{TOO_MANY} {self.limits.files_per_message} files of one message are taken"
                elif len(chosen) >= self.limits.files_per_turn:
                    problem = f"{TOO_MANY} {self.limits.files_per_turn} files are taken at once"
                chosen[message.id, place] = _Given(message.key.account_name, part, problem)
        return chosen

    async def _settle(self, given: "_Given", model: Model | None) -> "_Settled":
        """Fetched, looked at and kept; raises nothing."""
        account, part, problem = given.account, given.part, given.problem
        if problem:
            return _Settled(replace(part, problem=problem))
        try:
            if part.sticker and self.stickers is not None:
                return _Settled(await self._describe_sticker(self.stickers, account, part, model))
            return await self._take(account, part)
        except TimeoutError:
            problem = "fetching it took too long"
        except (GatewayError, OSError) as error:
            problem = str(error) or "it could not be fetched"
        except Exception:  # contained: one file must not cost the whole message
            log.exception("attachment failed")
            problem = "something went wrong while it was taken in"
        log.warning("attachment could not be fetched", kind=part.kind, problem=problem)
        return _Settled(replace(part, problem=problem))

    async def _take(self, account: str, part: Media) -> "_Settled":
        async with self._places[account]:  # until it is kept: a slow disk must not fill the memory with the others
            content = await self._bytes(account, part)
            form = await asyncio.to_thread(kinds.look, content)
            seen = self._as_seen(part, form, content)
            if not content:
                return _Settled(seen)
            sha256 = await asyncio.to_thread(self.files.save, seen.kind, content)
        return _Settled(replace(seen, sha256=sha256), form)

    async def _bytes(self, account: str, part: Media) -> bytes:
        if part.sha256:  # a page uploads before it sends
            content = await asyncio.to_thread(self.files.load, part)
            if content is None:
                raise MediaUnavailable("the file is not here any more; please send it again")
            return content
        async with asyncio.timeout(self.limits.fetch_seconds):
            return await self.fetch(account, part)

    def _as_seen(self, part: Media, form: FileFormat, content: bytes) -> Media:
        """What its bytes say, whatever its name and its sender say."""
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
        # As a file it is never shown to a model, whatever is later made of its problem.
        problem = self._why_not_shown(form, content)
        return replace(seen, kind="file", problem=problem) if problem else seen

    def _why_not_shown(self, form: FileFormat, content: bytes) -> str:
        pixels = pixels_of(form.mime, content)
        if not pixels:
            return "the picture is damaged"
        if pixels > self.limits.image_pixels:
            return f"the picture has {pixels / 1_000_000:,.0f} million pixels; please send a smaller one"
        if len(content) > MAX_SHOWN_BYTES:
            return f"the picture is larger than {MAX_SHOWN_BYTES // 1_000_000} MB; please send a smaller one"
        return ""

    async def _describe_sticker(self, book: StickerBook, account: str, part: Media, model: Model | None) -> Media:
        async def bring() -> Media | None:
            try:
                picture = (await self._take(account, part)).part
            except (GatewayError, OSError, TimeoutError) as error:
                log.info("sticker could not be fetched", problem=str(error))
                return None
            return picture if picture.kind == "image" and not picture.problem else None

        return replace(part, form="sticker", text=await book.describe(part.sticker, bring, model))

    async def _read_each(self, looked_at: dict[tuple[int, int], "_Settled"]) -> dict[tuple[int, int], Media]:
        left = self.limits.turn_text_chars
        settled: dict[tuple[int, int], Media] = {}
        for place, one in looked_at.items():
            part = one.part
            if one.form.read_as and not part.problem:
                part = await self._read(part, one.form, left)
                left -= len(part.text)
            settled[place] = part
        return settled

    async def _read(self, part: Media, form: FileFormat, max_chars: int) -> Media:
        if max_chars <= 0:
            return replace(part, problem="the files before it hold as much text as is taken in at once")
        found = await self.reader.read(self.files.path(part.kind, part.sha256), form.read_as)
        if found.problem:
            log.info("attachment could not be read", form=part.form, problem=found.problem)
        return replace(
            part,
            form=found.title or part.form,
            text=found.text[:max_chars],
            partial=found.partial or len(found.text) > max_chars,
            problem=found.problem if found.problem or found.text else "it holds nothing but blank space",
        )


@dataclass(frozen=True, slots=True)
class _Given:
    account: str
    part: Media
    problem: str  # why it is not even fetched


@dataclass(frozen=True, slots=True)
class _Settled:
    part: Media
    form: FileFormat = kinds.UNKNOWN  # from which nothing is read


def has_outside_files(messages: Iterable[Accepted]) -> bool:
    """Whether there is anything that nobody has looked at yet."""
    return any(_is_open(message, part) for message in messages for part in message.parts)


def _is_open(message: Accepted, part: Part) -> bool:
    # The files of an edited message came with the message itself.
    return message.kind == "message" and isinstance(part, Media) and not part.form and not part.problem
