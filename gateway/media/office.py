"""Extract text from Office and OpenDocument files, which are zip archives; members are streamed with limits.

Runs in the child process. Names inside an archive are never used as paths.
"""

import contextlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Literal, NoReturn
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from gateway.media.reading import LOCKED, Enough, Reading, UnreadableFile, WordCollector, decode
from tools.content import in_bytes, one_line

MAX_UNPACKED_BYTES = 64_000_000  # over all members of one file
MAX_RATIO = 250  # document text compresses to a tenth of its size, rarely to a fiftieth
RATIO_COUNTS_FROM_BYTES = 2_000_000
MAX_TAG_BYTES = 1_000_000
SWELLS = "it unpacks to far more data than a document of its size"
_CHUNK_BYTES = 65_536
_MAX_COLUMNS = 200  # gaps beyond this are not kept
_MAX_SHEETS = 1_000
_MAX_RELATIONS = 10_000
_MAX_STRINGS = 500_000
_MAX_STRING_CHARS = 20_000_000
_MAX_LISTED = 50
_WORKBOOK = "Excel workbook"
_SLIDES = "ppt/slides/slide"
_BREAKS = {"p": "\n", "h": "\n", "tab": "\t", "br": "\n", "line-break": "\n", "s": " ", "tc": "\t", "tr": "\n"}
_CELLS = {"p": " ", "table-cell": "\t", "table-row": "\n"}
_WORD_PARTS = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml")
_MANIFEST = "META-INF/manifest.xml"
_DAMAGED = "it is damaged"
Event = tuple[Literal["start", "end", "text"], str, dict[str, str]]
"""The start or end of an element with its name, without a prefix, and its attributes; or text."""


class Package:
    """A zip archive. Raises UnreadableFile when it is damaged, locked or unpacks to far too much."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._zip = ZipFile(file)
        except (BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise UnreadableFile(_DAMAGED) from error
        self._members = {member.filename: member for member in self._zip.infolist()}
        self._unpacked_bytes = 0

    @property
    def members(self) -> list[ZipInfo]:
        return self._zip.infolist()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def names(self, beginning: str, ending: str) -> list[str]:
        """Return the members that begin and end so, sorted by the number in their name."""
        found = (name for name in self._members if name.startswith(beginning) and name.endswith(ending))
        return sorted(found, key=lambda name: (len(name), name))

    def chunks(self, name: str) -> Iterator[bytes]:
        member = self._members.get(name)
        if member is None:
            raise UnreadableFile(_DAMAGED)
        if member.flag_bits & 1:
            raise UnreadableFile(LOCKED)
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            # With other methods one small read may unpack to any size; no office program uses them.
            raise UnreadableFile("it uses an unusual compression method")
        unpacked = 0
        try:
            with self._zip.open(member) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    unpacked += len(chunk)
                    self._unpacked_bytes += len(chunk)
                    swells = unpacked > RATIO_COUNTS_FROM_BYTES and unpacked > MAX_RATIO * member.compress_size
                    if swells or self._unpacked_bytes > MAX_UNPACKED_BYTES:
                        raise UnreadableFile(SWELLS)
                    yield chunk
        except (BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
            raise UnreadableFile(_DAMAGED) from error

    def beginning(self, name: str, max_bytes: int) -> bytes:
        content = b""
        for chunk in self.chunks(name):
            content += chunk
            if len(content) >= max_bytes:
                break
        return content[:max_bytes]

    def events(self, name: str) -> Iterator[Event]:
        """Yield the parts of an XML member; a document that declares entities of its own is refused."""
        found: list[Event] = []
        parser = expat.ParserCreate()
        parser.EntityDeclHandler = parser.ExternalEntityRefHandler = _refuse
        parser.StartElementHandler = lambda tag, given: found.append(("start", tag.rpartition(":")[2], given))
        parser.EndElementHandler = lambda tag: found.append(("end", tag.rpartition(":")[2], {}))
        parser.CharacterDataHandler = lambda text: found.append(("text", text, {}))
        try:
            fed = 0
            for chunk in self.chunks(name):
                parser.Parse(chunk, False)
                fed += len(chunk)
                # The parser rescans an incomplete tag from its start with every chunk.
                if fed - parser.CurrentByteIndex > MAX_TAG_BYTES:
                    raise UnreadableFile(SWELLS)
                yield from found
                found.clear()
            parser.Parse(b"", True)
        except (expat.ExpatError, ValueError) as error:  # ValueError: an invalid encoding
            raise UnreadableFile(_DAMAGED) from error
        yield from found


def _refuse(*_declared: object) -> NoReturn:
    raise UnreadableFile("it declares XML entities, which normal documents do not")


def _read_sheets(package: Package, words: WordCollector) -> None:
    strings = _read_shared_strings(package) if "xl/sharedStrings.xml" in package else []
    sheets: list[tuple[str, str]] = []  # titles in tab order, with the name of their relation
    for kind, tag, given in package.events("xl/workbook.xml"):
        if kind == "start" and tag == "sheet" and len(sheets) < _MAX_SHEETS:
            relation = next((value for name, value in given.items() if name.endswith(":id")), "")
            sheets.append((given.get("name", ""), relation))
    targets: dict[str, str] = {}  # members by relation; looked up in the archive, never opened as paths
    for kind, tag, given in package.events("xl/_rels/workbook.xml.rels"):
        if kind == "start" and tag == "Relationship" and len(targets) < _MAX_RELATIONS:
            target = given.get("Target", "")
            targets[given.get("Id", "")] = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    for title, relation in sheets:
        name = targets.get(relation, "")
        if name in package:
            words.add(f"\nSheet {title}\n")
            _read_sheet(package, name, strings, words)


def _read_shared_strings(package: Package) -> list[str]:
    strings: list[str] = []
    pieces: list[str] = []
    chars = 0
    is_reading = False
    for kind, text, _ in package.events("xl/sharedStrings.xml"):
        if kind != "text":
            is_reading = (kind, text) == ("start", "t")
        elif is_reading:
            pieces.append(text)
            chars += len(text)
        if (kind, text) == ("end", "si"):
            strings.append("".join(pieces))
            pieces.clear()
        if len(strings) > _MAX_STRINGS or chars > _MAX_STRING_CHARS:
            raise UnreadableFile("the workbook is too large to be read")
    return strings


def _read_sheet(package: Package, name: str, strings: list[str], words: WordCollector) -> None:
    written = at = 0  # columns of this row: those that were written, and the current one
    cell = ""  # its type
    value: list[str] | None = None
    for kind, text, given in package.events(name):
        if kind == "text":
            if value is not None:
                value.append(text)
        elif text == "row":
            written = at = 0
            if kind == "end":
                words.check_time()
                words.add("\n")
        elif text == "c" and kind == "start":
            cell = given.get("t", "")
            at = _read_column(given.get("r", "")) or at + 1
        elif text in ("v", "t") and kind == "start":
            value = []
        elif text in ("v", "t") and value is not None:
            found, value = "".join(value), None
            if cell == "s":
                found = strings[int(found)] if found.isdecimal() and int(found) < len(strings) else ""
            gap = max(0, min(at - 1, _MAX_COLUMNS) - written)
            words.add("\t" * gap + " ".join(found.split()))
            written += gap


def _read_column(cell: str) -> int:
    """Return the number of a cell's column, such as 3 for C5; 0 when it is not given."""
    number = 0
    for letter in cell[:3]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number


def read_zip(file: BinaryIO, words: WordCollector) -> Reading:
    package = Package(file)
    title, names, within, breaks = _identify(package)
    if not title:
        members = package.members
        lines = [f"{one_line(member.filename)} ({in_bytes(member.file_size)})" for member in members[:_MAX_LISTED]]
        more = [f"and {len(members) - _MAX_LISTED} more"] if len(members) > _MAX_LISTED else []
        return Reading(
            text="\n".join(["Files in it:", *lines, *more]),
            problem="it is an archive, and only its list of names was read; please send the files themselves",
        )
    with contextlib.suppress(Enough):
        if title == _WORKBOOK:
            _read_sheets(package, words)
        for number, name in enumerate(names, 1):
            if name.startswith(_SLIDES):
                words.add(f"\nSlide {number}\n")
            _read_part(package, name, words, within, breaks)
    if not words.text:
        raise UnreadableFile("there is no text in it")
    return Reading(text=words.text, partial=words.partial, title=title)


def _identify(package: Package) -> tuple[str, Sequence[str], str, Mapping[str, str]]:
    """Return the title of the format, empty for another; the members with text, its elements, and what breaks it."""
    if "word/document.xml" in package:
        return "Word document", [name for name in _WORD_PARTS if name in package], "t", _BREAKS
    if "xl/workbook.xml" in package:
        return _WORKBOOK, (), "", {}
    if "ppt/presentation.xml" in package:
        return "PowerPoint presentation", package.names(_SLIDES, ".xml"), "t", _BREAKS
    mime = decode(package.beginning("mimetype", 100)).strip() if "mimetype" in package else ""
    if mime.startswith("application/vnd.oasis.opendocument."):
        if _MANIFEST in package and b"encryption-data" in package.beginning(_MANIFEST, 1_000_000):
            raise UnreadableFile(LOCKED)
        return "OpenDocument file", ["content.xml"], "body", _CELLS if "spreadsheet" in mime else _BREAKS
    return "", (), "", {}


def _read_part(package: Package, name: str, words: WordCollector, within: str, breaks: Mapping[str, str]) -> None:
    """Collect the text inside elements named `within`, with a break after each paragraph, cell and row."""
    depth = 0
    for kind, text, _ in package.events(name):
        if kind == "start":
            depth += text == within
        elif kind == "end":
            depth -= text == within
            if text in breaks:
                words.check_time()
                words.add(breaks[text])
        elif depth:
            words.add(text)
