"""Extract text from Office and OpenDocument files, which are zip archives; members are streamed with limits.

Runs in the child process. Names inside an archive are never used as paths.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, NoReturn
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
_DAMAGED = "it is damaged"
Start = Callable[[str, dict[str, str]], None]
Collect = Callable[[str], None]


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

    def parse(self, name: str, *, start: Start, end: Collect | None = None, text: Collect | None = None) -> None:
        """Feed a member to a parser that refuses entities declared by the document. Tags come without their prefix."""
        parser = expat.ParserCreate()
        parser.EntityDeclHandler = parser.ExternalEntityRefHandler = _refuse
        parser.StartElementHandler = lambda tag, attributes: start(tag.rpartition(":")[2], attributes)
        if end is not None:
            parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
        parser.CharacterDataHandler = text
        try:
            fed = 0
            for chunk in self.chunks(name):
                parser.Parse(chunk, False)
                fed += len(chunk)
                # The parser rescans an incomplete tag from its start with every chunk.
                if fed - parser.CurrentByteIndex > MAX_TAG_BYTES:
                    raise UnreadableFile(SWELLS)
            parser.Parse(b"", True)
        except (expat.ExpatError, ValueError) as error:  # ValueError: an invalid encoding
            raise UnreadableFile(_DAMAGED) from error


def _refuse(*_declared: object) -> NoReturn:
    raise UnreadableFile("it declares XML entities, which normal documents do not")


_MAX_COLUMNS = 200  # gaps beyond this are not kept
_MAX_SHEETS = 1_000
_MAX_RELATIONS = 10_000
_MAX_STRINGS = 500_000
_MAX_STRING_CHARS = 20_000_000
_TOO_MANY_STRINGS = "the workbook is too large to be read"


def _read_sheets(package: Package, words: WordCollector) -> None:
    strings = _read_shared_strings(package) if "xl/sharedStrings.xml" in package else []
    titles: list[tuple[str, str]] = []  # of the sheets in tab order, with the name of their relation
    targets: dict[str, str] = {}  # members by relation; looked up in the archive, never opened as paths

    def add_sheet(tag: str, attributes: dict[str, str]) -> None:
        if tag == "sheet" and len(titles) < _MAX_SHEETS:
            relation = next((value for name, value in attributes.items() if name.endswith(":id")), "")
            titles.append((attributes.get("name", ""), relation))

    def add_target(tag: str, attributes: dict[str, str]) -> None:
        if tag == "Relationship" and len(targets) < _MAX_RELATIONS:
            target = attributes.get("Target", "")
            targets[attributes.get("Id", "")] = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"

    package.parse("xl/workbook.xml", start=add_sheet)
    package.parse("xl/_rels/workbook.xml.rels", start=add_target)
    for title, relation in titles:
        name = targets.get(relation, "")
        if name in package:
            words.add(f"\nSheet {title}\n")
            sheet = _Sheet(strings, words)
            package.parse(name, start=sheet.start, end=sheet.end, text=sheet.add)


def _read_shared_strings(package: Package) -> list[str]:
    strings: list[str] = []
    pieces: list[str] = []
    chars = 0
    is_reading = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal is_reading
        is_reading = tag == "t"

    def end(tag: str) -> None:
        nonlocal is_reading
        is_reading = False
        if tag == "si":
            strings.append("".join(pieces))
            pieces.clear()
            if len(strings) > _MAX_STRINGS:
                raise UnreadableFile(_TOO_MANY_STRINGS)

    def add(text: str) -> None:
        nonlocal chars
        if is_reading:
            pieces.append(text)
            chars += len(text)
            if chars > _MAX_STRING_CHARS:
                raise UnreadableFile(_TOO_MANY_STRINGS)

    package.parse("xl/sharedStrings.xml", start=start, end=end, text=add)
    return strings


class _Sheet:
    """Reads the cells of one sheet, and looks up shared strings."""

    def __init__(self, strings: list[str], words: WordCollector) -> None:
        self._strings = strings
        self._words = words
        self._column = 0  # columns written in this row
        self._at = 0
        self._kind = ""
        self._value: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        match tag:
            case "row":
                self._column = self._at = 0
            case "c":
                self._kind = attributes.get("t", "")
                self._at = _read_column(attributes.get("r", "")) or self._at + 1
            case "v" | "t":
                self._value = []

    def end(self, tag: str) -> None:
        if tag == "row":
            self._words.check_time()
            self._words.add("\n")
        elif tag in ("v", "t") and self._value is not None:
            value, self._value = "".join(self._value), None
            if self._kind == "s":
                value = self._strings[int(value)] if value.isdecimal() and int(value) < len(self._strings) else ""
            gap = max(0, min(self._at - 1, _MAX_COLUMNS) - self._column)
            self._words.add("\t" * gap + " ".join(value.split()))
            self._column += gap

    def add(self, text: str) -> None:
        if self._value is not None:
            self._value.append(text)


def _read_column(cell: str) -> int:
    """Return the number of a cell's column, such as 3 for C5; 0 when it is not given."""
    number = 0
    for letter in cell[:3]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number


_MAX_LISTED = 50
_WORKBOOK = "Excel workbook"
_SLIDES = "ppt/slides/slide"
_BREAKS = {"p": "\n", "h": "\n", "tab": "\t", "br": "\n", "line-break": "\n", "s": " ", "tc": "\t", "tr": "\n"}
_CELLS = {"p": " ", "table-cell": "\t", "table-row": "\n"}
_WORD_PARTS = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml")
_MANIFEST = "META-INF/manifest.xml"


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

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += tag == within

    def end(tag: str) -> None:
        nonlocal depth
        depth -= tag == within
        if tag in breaks:
            words.check_time()
            words.add(breaks[tag])

    def add(text: str) -> None:
        if depth:
            words.add(text)

    package.parse(name, start=start, end=end, text=add)
