"""Find the files that an answer names, as `MEDIA:/path` lines or Markdown images outside of code, and attach them."""

import asyncio
import mimetypes
import os.path
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from urllib.parse import unquote

import structlog

from gateway.media.kinds import detect_format
from gateway.messages import Media, MediaKind, Part, Text
from gateway.platforms.markdown import find_fences
from gateway.store import media, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.turns import Turn
from tools.backends.base import FileRefused
from tools.builtin.speech import NoSpeech, SpeechEngines
from tools.errors import ToolFailed
from tools.media import MediaRefused, MediaRoots, open_media

log = structlog.get_logger()

MAX_FILES = 10
Fetch = Callable[[Turn, str, int], Awaitable[bytes | None]]
"""Returns a file of the sender's workplace, up to a size, where that is not on this machine. Raises FileRefused."""
_MARK = "MEDIA:"
_MEDIA_LINE = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?(?:\*\*)?MEDIA:")
_IMAGE = re.compile(r"(?<!\\)!\[(?P<alt>[^\[\]\n]*+)\]\((?P<target><[^<>\n]*+>|(?:[^()\n]++|\([^()\n]*+\))*+)\)")
_TITLE = re.compile(r"""[ \t]+(?:"[^"]*"|'[^']*')[ \t]*$""")
_INLINE_CODE = re.compile(r"(?<!`)(`{1,10})(?!`)(?:(?!\n\s*\n).)*?(?<!`)\1(?!`)", re.DOTALL)
_NOT_A_LINE_BREAK = re.compile(r"[^\n]")
_REMOTE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+:|//|#|/media/[0-9a-f]{64}\b", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "`": "`", "<": ">"}
_MAX_NAME_CHARS, _MAX_TITLE_CHARS = 100, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """A place in a text that names a file."""

    start: int
    end: int
    path: str  # as written: the meaning of ~ depends on the turn
    is_line: bool = False  # nothing else is on its line
    alt: str = ""  # the alternative text of an image inside a link


def find_named_files(text: str) -> list[Naming]:
    """Return the local files named in a text, in order. Pictures on the web and the like are not included."""
    if _MARK not in text and "![" not in text:
        return []
    found: list[Naming] = []
    at = 0
    for line, outside_code in zip(text.split("\n"), _blank_code(text).split("\n"), strict=True):
        found += _find_in_line(line, outside_code, at)
        at += len(line) + 1
    return found


def replace_names(text: str, replaced: Sequence[tuple[Naming, str]]) -> str:
    """Replace the names of files by these words; drop a line that becomes empty."""
    parts: list[str] = []
    at = 0
    for naming, words in replaced:
        if naming.start > at:
            parts.append(text[at : naming.start])
        at = naming.end
        if words or not naming.is_line:
            parts.append(words or naming.alt)
            continue
        at += text.startswith("\n", at)
        if (not parts or parts[-1].endswith("\n\n")) and text.startswith("\n", at):
            at += 1  # keep one of the two blank lines around it
    return "".join((*parts, text[at:])).strip("\n")


def hide_paths(text: str) -> str:
    """Return an unfinished answer with the names of its files instead of their paths."""
    return replace_names(text, [(naming, f"📎 {os.path.basename(naming.path)}") for naming in find_named_files(text)])


def _blank_code(text: str) -> str:
    """Return the text with spaces or zeros instead of code, so that all else stays where it is."""
    at, pieces = 0, []
    for fence in find_fences(text):
        pieces += [text[at : fence.start], _NOT_A_LINE_BREAK.sub(" ", text[fence.start : fence.end])]
        at = fence.end
    # No spaces here: a line that begins with code does not begin with what follows.
    return _INLINE_CODE.sub(lambda code: _NOT_A_LINE_BREAK.sub("\0", code[0]), "".join((*pieces, text[at:])))


def _find_in_line(line: str, outside_code: str, at: int) -> Iterator[Naming]:
    if marked := _MEDIA_LINE.match(outside_code):
        if path := _read_path(line[marked.end() :].strip().removesuffix("**")):
            yield Naming(start=at, end=at + len(line), path=path, is_line=True)
        return
    for image in _IMAGE.finditer(outside_code):
        target = line[slice(*image.span("target"))].strip()
        titled = _TITLE.search(target, max(0, len(target) - _MAX_TITLE_CHARS))
        path = _read_path(target[: titled.start()] if titled else target, is_link=True)
        if path and line.strip() == line[slice(*image.span())]:
            yield Naming(start=at, end=at + len(line), path=path, is_line=True)
        elif path:
            alt = line[slice(*image.span("alt"))] if line[: image.start()].endswith("[") else ""
            yield Naming(start=at + image.start(), end=at + image.end(), path=path, alt=alt)


def _read_path(path: str, *, is_link: bool = False) -> str:
    """Return the bare path; empty when it is not a local file."""
    if len(path) > 1 and path[-1] == _QUOTES.get(path[0]):
        path = path[1:-1].strip()
    if _REMOTE.match(path):
        return ""
    if path[:5].lower() == "file:":
        path, is_link = re.sub(r"^file:(?://(?:localhost)?(?=/))?", "", path, flags=re.IGNORECASE), True
    return unquote(path) if is_link else path


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosures:
    db: Database
    files: MediaFiles
    accounts: frozenset[str]  # those that can send files; elsewhere the text stays unchanged
    for_owner: MediaRoots  # the folders for an owner in a private chat
    folder: Callable[[Turn], Path]  # the sender's working folder: start of relative paths, all of it may be sent
    home: Callable[[Turn], Path]  # what ~ means there
    max_bytes: int
    fetch: Fetch | None = None
    speech: SpeechEngines = field(default_factory=NoSpeech)
    timeout_seconds: float = 60.0  # for one file: the folder may be on another machine

    async def enclose(self, turn: Turn, parts: Sequence[Part], *, voice: str = "") -> tuple[Part, ...]:
        """Return the answer as sent: text, then files, last those that tools of this turn made for the chat. Says in
        the text what cannot be sent. `voice` is on, off or auto. Holds no transaction."""
        if turn.address.account not in self.accounts:
            return tuple(parts)
        made = await self.db.read(lambda tx: _find_made(tx, turn))
        named = await self._enclose_named(turn, parts)
        known = {part.sha256 for part in named if isinstance(part, Media)}
        made = [one for one in made if one.sha256 not in known]
        if _is_spoken(turn, voice) and not any(one.kind == "audio" for one in made):
            made += await self._read_aloud(named)
        return (*named, *made)

    async def _read_aloud(self, parts: Sequence[Part]) -> list[Media]:
        if not self.speech.speaks:
            return []
        try:
            return [await self.speech.speak("\n".join(part.text for part in parts if isinstance(part, Text)))]
        except ToolFailed as error:  # the text is there
            log.warning("answer not read aloud", problem=str(error))
            return []

    async def _enclose_named(self, turn: Turn, parts: Sequence[Part]) -> tuple[Part, ...]:
        named = [find_named_files(part.text) if isinstance(part, Text) else [] for part in parts]
        if not any(named):
            return tuple(parts)
        known = await self.db.read(lambda tx: media.list_files(tx, turn.session_id))
        packing = _Packing(self, turn, self._roots(turn), self.home(turn), known)
        words = [await packing.replace_in(part, namings) for part, namings in zip(parts, named, strict=True)]
        return (*(part for part in words if part != Text()), *packing.packed.values())

    def _roots(self, turn: Turn) -> MediaRoots:
        own = MediaRoots.of([self.folder(turn)])
        if not turn.is_with_owner:
            return own
        return replace(self.for_owner, folders=(*own.folders, *self.for_owner.folders))


def _is_spoken(turn: Turn, voice: str) -> bool:
    sent = (part for message in turn.asked for part in message.parts if isinstance(part, Media))
    return voice == "on" or (voice == "auto" and any(part.is_voice for part in sent))


def _find_made(tx: Transaction, turn: Turn) -> list[Media]:
    """Return the files that tools of a turn made for the chat, from the store: the turn may have been resumed."""
    messages = transcripts.turn(tx, turn.session_id, turn.id)
    made = (part for one in messages if one.role == "tool" for part in one.parts if isinstance(part, Media))
    return list({part.sha256: replace(part, to_chat=False) for part in made if part.to_chat}.values())[:MAX_FILES]


def detect_type(content: bytes, name: str) -> tuple[MediaKind, str]:
    """Return a file's kind and MIME type by its first bytes; the name only distinguishes kinds of text and archives."""
    form = detect_format(content)
    if form.kind != "file":
        return form.kind, form.mime
    guessed = mimetypes.guess_type(name)[0] or form.mime
    return "file", guessed if guessed.startswith(("text/", "application/")) else form.mime


@dataclass(slots=True, eq=False)
class _Packing:
    """The files of one answer, by path."""

    rules: Enclosures
    turn: Turn
    roots: MediaRoots
    home: Path
    known: Sequence[Media]
    packed: dict[str, Media] = field(default_factory=dict)

    async def replace_in(self, part: Part, namings: Sequence[Naming]) -> Part:
        """Return the part without the files that are sent, and with a sentence for each that is not."""
        if not isinstance(part, Text) or not namings:
            return part
        return Text(text=replace_names(part.text, [(naming, await self._pack(naming)) for naming in namings]))

    async def _pack(self, naming: Naming) -> str:
        if naming.path in self.packed:
            return ""
        try:
            if len(self.packed) >= MAX_FILES:
                raise MediaRefused(naming.path, f"an answer may have {MAX_FILES} files at most")
            try:
                async with asyncio.timeout(self.rules.timeout_seconds):
                    copied = await self._fetch(naming.path)
            except TimeoutError:
                raise MediaRefused(naming.path, "reading it took too long") from None
        except MediaRefused as refusal:
            log.info("file not sent", reason=refusal.reason)
            return str(refusal) if naming.is_line else f"({refusal})"
        # A short name, unique in this answer: some platforms identify files by name alone.
        path = PurePath(copied.name)
        stem, ending = path.stem[:_MAX_NAME_CHARS] or "file", path.suffix[: _MAX_NAME_CHARS // 5]
        taken = {one.name for one in self.packed.values()}
        names = (f"{stem}{f' ({number})' if number > 1 else ''}{ending}" for number in range(1, MAX_FILES + 2))
        self.packed[naming.path] = replace(copied, name=next(one for one in names if one not in taken))
        return ""

    async def _fetch(self, path: str) -> Media:
        """Copy a file into the cache: from the sender's workplace, else from this machine."""
        refused: FileRefused | None = None
        try:
            fetch = self.rules.fetch
            content = await fetch(self.turn, path, self.rules.max_bytes) if fetch else None
        except FileRefused as error:  # it may be one of ours, such as a picture that a tool has made
            content, refused = None, error
        try:
            return await asyncio.to_thread(self._copy, path, content)
        except MediaRefused:
            if refused is None:
                raise
            raise MediaRefused(path, refused.reason) from refused

    def _copy(self, path: str, content: bytes | None) -> Media:
        """Copy a file into the cache. Blocks."""
        name = os.path.basename(path)
        try:
            if content is None:
                content, name = self._read(f"{self.home}/{path[2:]}" if path.startswith("~/") else path)
        except MediaRefused as refusal:  # name it as the answer did: our own paths stay private
            raise MediaRefused(path, refusal.reason) from refusal
        kind, mime = detect_type(content, name)
        try:
            sha256 = self.rules.files.save(kind, content)
        except OSError as error:
            reason = (error.strerror or "no reason given").lower()
            raise MediaRefused(path, f"it could not be stored ({reason})") from error
        return Media(kind=kind, name=name, mime=mime, size_bytes=len(content), sha256=sha256)

    def _read(self, path: str) -> tuple[bytes, str]:
        """Return content and name of a file, or of the conversation's newest file with this name or path."""
        locate = self.rules.files.path
        try:
            return self._read_from(path, self.roots)
        except MediaRefused:
            known = (one for one in self.known if path in (one.name, one.sha256, str(locate(one.kind, one.sha256))))
            mine = next(known, None)
            if mine is None:
                raise
        kept = locate(mine.kind, mine.sha256)
        content, _ = self._read_from(str(kept), MediaRoots.of([kept.parent]))
        return content, mine.name or mine.kind

    def _read_from(self, path: str, roots: MediaRoots) -> tuple[bytes, str]:
        with open_media(path, roots, max_bytes=self.rules.max_bytes) as opened:
            return opened.read(), opened.name
