"""Files that an answer names, on their way out: taken out of its text and copied into our caches before the commit.

What is sent is the copy, so that it does not matter what becomes of the file later, nor how often we are killed.
Whoever is not alone with us as an owner is sent files of their own conversation and workspace, and nothing else.
"""

import asyncio
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import structlog

from gateway.media.kinds import look
from gateway.messages import Media, MediaKind, Part, Text
from gateway.named_files import Naming, named_in, with_words
from gateway.store import media
from gateway.store.database import Database
from gateway.store.media import MediaFiles
from gateway.store.turns import Turn
from tools.media import MediaRefused, MediaRoots, open_media

log = structlog.get_logger()

MAX_FILES = 10
_MAX_NAME_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosures:
    db: Database
    files: MediaFiles
    accounts: frozenset[str]  # those that can send files; the others keep the words that name them
    for_owner: MediaRoots  # what an owner who is alone with us may be sent
    folder: Callable[[Turn], Path]  # where whoever asks works: relative paths start there, all of it may be sent
    home: Callable[[Turn], Path]  # what ~ means there
    max_bytes: int
    timeout_seconds: float = 60.0  # for one file: the folder may be on another machine

    async def enclose(self, turn: Turn, parts: Sequence[Part]) -> tuple[Part, ...]:
        """The answer as it is sent: words, then files. Holds no transaction; what cannot be sent is told in words."""
        if turn.address.account not in self.accounts:
            return tuple(parts)
        named = [named_in(part.text) if isinstance(part, Text) else [] for part in parts]
        if not any(named):
            return tuple(parts)
        known = await self.db.read(lambda tx: media.of_session(tx, turn.session_id))
        packing = _Packing(self, self._roots(turn), self.home(turn), known)
        words = [await packing.words(part, namings) for part, namings in zip(parts, named, strict=True)]
        return (*(part for part in words if part != Text()), *packing.packed.values())

    def _roots(self, turn: Turn) -> MediaRoots:
        own = MediaRoots.of([self.folder(turn)])
        if not turn.is_with_owner:
            return own
        return replace(self.for_owner, folders=(*own.folders, *self.for_owner.folders))


def what_it_is(content: bytes, name: str) -> tuple[MediaKind, str]:
    """By its first bytes; the name only tells apart what is text or packed alike."""
    form = look(content)
    if form.kind != "file":
        return form.kind, form.mime
    guessed = mimetypes.guess_type(name)[0] or form.mime
    return "file", guessed if guessed.startswith(("text/", "application/")) else form.mime


class _Packing:
    """One answer's files, by their paths."""

    def __init__(self, rules: Enclosures, roots: MediaRoots, home: Path, known: Sequence[Media]) -> None:
        self.packed: dict[str, Media] = {}
        self._rules = rules
        self._roots = roots
        self._home = home
        self._known = known

    async def words(self, part: Part, namings: Sequence[Naming]) -> Part:
        """The part without what is sent, and with a sentence for what is not."""
        if not isinstance(part, Text) or not namings:
            return part
        return Text(text=with_words(part.text, [(naming, await self._pack(naming)) for naming in namings]))

    async def _pack(self, naming: Naming) -> str:
        if naming.path in self.packed:
            return ""
        try:
            if len(self.packed) >= MAX_FILES:
                raise MediaRefused(naming.path, f"one answer takes {MAX_FILES} files at most")
            copied = await self._copied(naming.path)
        except MediaRefused as refusal:
            log.info("file not sent", reason=refusal.reason)
            return str(refusal) if naming.is_line else f"({refusal})"
        self.packed[naming.path] = replace(copied, name=self._name(copied.name))
        return ""

    async def _copied(self, path: str) -> Media:
        try:
            async with asyncio.timeout(self._rules.timeout_seconds):
                return await asyncio.to_thread(self._copy, path)
        except TimeoutError:
            raise MediaRefused(path, "reading it took too long") from None

    def _copy(self, path: str) -> Media:
        """In a thread: reads and writes."""
        content, name = self._read(path)
        kind, mime = what_it_is(content, name)
        try:
            sha256 = self._rules.files.save(kind, content)
        except OSError as error:
            raise MediaRefused(
                path, f"it could not be kept ({(error.strerror or 'no reason given').lower()})"
            ) from error
        return Media(kind=kind, name=name, mime=mime, size_bytes=len(content), sha256=sha256)

    def _read(self, path: str) -> tuple[bytes, str]:
        try:
            return self._read_or_recall(f"{self._home}/{path[2:]}" if path.startswith("~/") else path)
        except MediaRefused as refusal:  # by the name that was given: where we keep things is nobody's business
            raise MediaRefused(path, refusal.reason) from refusal

    def _read_or_recall(self, path: str) -> tuple[bytes, str]:
        try:
            return self._read_from(path, self._roots)
        except MediaRefused:
            mine = self._of_conversation(path)
            if mine is None:
                raise
        kept = self._rules.files.path(mine.kind, mine.sha256)
        content, _ = self._read_from(str(kept), MediaRoots.of([kept.parent]))
        return content, mine.name or mine.kind

    def _read_from(self, path: str, roots: MediaRoots) -> tuple[bytes, str]:
        with open_media(path, roots, max_bytes=self._rules.max_bytes) as opened:
            return opened.read(), opened.name

    def _of_conversation(self, path: str) -> Media | None:
        """The newest that came by this name, or is kept at this path."""
        for one in self._known:
            if path in (one.name, one.sha256, str(self._rules.files.path(one.kind, one.sha256))):
                return one
        return None

    def _name(self, name: str) -> str:
        """Short, and no other file of this answer has it: some platforms know a file by nothing else."""
        stem, ending = PurePath(name).stem[:_MAX_NAME_CHARS] or "file", PurePath(name).suffix[: _MAX_NAME_CHARS // 5]
        taken = {one.name for one in self.packed.values()}
        numbers = (f"{stem}{f' ({number})' if number > 1 else ''}{ending}" for number in range(1, MAX_FILES + 2))
        return next(one for one in numbers if one not in taken)
