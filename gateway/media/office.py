"""Extract text from Office, OpenDocument and EPUB files, which are zip archives; members are streamed with limits.

Runs in the child process. Names inside an archive are never used as paths.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import BinaryIO, NoReturn
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from gateway.media.plain import decode
from gateway.media.reading import LOCKED, Enough, Reading, UnreadableFile, WordCollector
from tools.content import in_bytes, one_line

MAX_UNPACKED_BYTES = 64_000_000  # over all members of one file
MAX_RATIO = 250  # document text compresses to a tenth of its size, rarely to a fiftieth
RATIO_COUNTS_FROM_BYTES = 2_000_000
MAX_TAG_BYTES = 1_000_000
SWELLS = "it unpacks to far more data than a document of its size"
_CHUNK_BYTES = 65_536
_DAMAGED = "it is damaged"


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
                    self._check(member, unpacked, len(chunk))
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

    def parse(self, name: str, parser: "expat.XMLParserType") -> None:
        """Feed a member to a parser that refuses entities declared by the document."""
        parser.EntityDeclHandler = _refuse
        parser.ExternalEntityRefHandler = _refuse
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

    def _check(self, member: ZipInfo, unpacked: int, more: int) -> None:
        self._unpacked_bytes += more
        swells = unpacked > RATIO_COUNTS_FROM_BYTES and unpacked > MAX_RATIO * member.compress_size
        if swells or self._unpacked_bytes > MAX_UNPACKED_BYTES:
            raise UnreadableFile(SWELLS)


def _refuse(*_declared: object) -> NoReturn:
    raise UnreadableFile("it declares XML entities, which normal documents do not")


_MAX_COLUMNS = 200  # gaps beyond this are not kept
_MAX_SHEETS = 1_000
_MAX_RELATIONS = 10_000
_MAX_STRINGS = 500_000
_MAX_STRING_CHARS = 20_000_000


def read_sheets(package: Package, words: WordCollector) -> None:
    strings = _shared_strings(package) if "xl/sharedStrings.xml" in package else []
    targets = _targets(package)
    for title, relation in _titles(package):
        name = targets.get(relation, "")
        if name in package:
            words.add(f"\nSheet {title}\n")
            _Sheet(strings, words).read(package, name)


def _shared_strings(package: Package) -> list[str]:
    strings: list[str] = []
    pieces: list[str] = []
    chars = 0
    reading = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal reading
        reading = _local(tag) == "t"

    def end(tag: str) -> None:
        nonlocal reading
        reading = False
        if _local(tag) == "si":
            strings.append("".join(pieces))
            pieces.clear()
            if len(strings) > _MAX_STRINGS:
                raise UnreadableFile("the workbook is too large to be read")

    def characters(text: str) -> None:
        nonlocal chars
        if reading:
            pieces.append(text)
            chars += len(text)
            if chars > _MAX_STRING_CHARS:
                raise UnreadableFile("the workbook is too large to be read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    package.parse("xl/sharedStrings.xml", parser)
    return strings


def _titles(package: Package) -> list[tuple[str, str]]:
    """Return each sheet's title and the name of its relation, in tab order."""
    found: list[tuple[str, str]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if _local(tag) == "sheet" and len(found) < _MAX_SHEETS:
            relation = next((value for name, value in attributes.items() if _local(name) == "id" and ":" in name), "")
            found.append((attributes.get("name", ""), relation))

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    package.parse("xl/workbook.xml", parser)
    return found


def _targets(package: Package) -> dict[str, str]:
    """Return members by relation. They are looked up in the archive, never opened as paths."""
    found: dict[str, str] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if _local(tag) == "Relationship" and len(found) < _MAX_RELATIONS:
            target = attributes.get("Target", "")
            found[attributes.get("Id", "")] = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    package.parse("xl/_rels/workbook.xml.rels", parser)
    return found


class _Sheet:
    """Reads the cells of one sheet, and looks up shared strings."""

    def __init__(self, strings: list[str], words: WordCollector) -> None:
        self._strings = strings
        self._words = words
        self._column = 0  # columns written in this row
        self._at = 0
        self._kind = ""
        self._value: list[str] | None = None

    def read(self, package: Package, name: str) -> None:
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        package.parse(name, parser)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        match _local(tag):
            case "row":
                self._column = self._at = 0
            case "c":
                self._kind = attributes.get("t", "")
                self._at = _column(attributes.get("r", "")) or self._at + 1
            case "v" | "t":
                self._value = []

    def _end(self, tag: str) -> None:
        match _local(tag):
            case "row":
                self._words.check_time()
                self._words.add("\n")
            case "v" | "t" if self._value is not None:
                self._write("".join(self._value))
                self._value = None

    def _characters(self, text: str) -> None:
        if self._value is not None:
            self._value.append(text)

    def _write(self, value: str) -> None:
        if self._kind == "s":
            value = self._strings[int(value)] if value.isdecimal() and int(value) < len(self._strings) else ""
        gap = max(0, min(self._at - 1, _MAX_COLUMNS) - self._column)
        self._words.add("\t" * gap + " ".join(value.split()))
        self._column += gap


def _column(cell: str) -> int:
    """Return the number of a cell's column, such as 3 for C5; 0 when it is not given."""
    number = 0
    for letter in cell[:3]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number


def _local(name: str) -> str:
    return name.rpartition(":")[2]


_MAX_LISTED = 50
_BREAKS = {"p": "\n", "h": "\n", "tab": "\t", "br": "\n", "line-break": "\n", "s": " ", "tc": "\t", "tr": "\n"}
_CELLS = {"p": " ", "table-cell": "\t", "table-row": "\n"}
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_MANIFEST = "META-INF/manifest.xml"


def read_zip(file: BinaryIO, words: WordCollector) -> Reading:
    package = Package(file)
    title, read = _identify(package)
    if read is None:
        return _listing(package)
    with contextlib.suppress(Enough):
        read(package, words)
    if not words.text:
        raise UnreadableFile("there is no text in it")
    return Reading(text=words.text, partial=words.partial, title=title)


def _identify(package: Package) -> tuple[str, Callable[[Package, WordCollector], None] | None]:
    if "word/document.xml" in package:
        return "Word document", _read_word
    if "xl/workbook.xml" in package:
        return "Excel workbook", read_sheets
    if "ppt/presentation.xml" in package:
        return "PowerPoint presentation", _read_slides
    mime = decode(package.beginning("mimetype", 100)).strip() if "mimetype" in package else ""
    if mime == "application/epub+zip":
        return "EPUB book", _read_book
    if mime.startswith(_OPEN_DOCUMENT):
        if _MANIFEST in package and b"encryption-data" in package.beginning(_MANIFEST, 1_000_000):
            raise UnreadableFile(LOCKED)
        return "OpenDocument file", _read_cells if "spreadsheet" in mime else _read_open_text
    return "", None


def _listing(package: Package) -> Reading:
    members = package.members
    lines = [f"{one_line(member.filename)} ({in_bytes(member.file_size)})" for member in members[:_MAX_LISTED]]
    more = [f"and {len(members) - _MAX_LISTED} more"] if len(members) > _MAX_LISTED else []
    return Reading(
        text="\n".join(["Files in it:", *lines, *more]),
        problem="it is an archive, and only its list of names was read; please send the files themselves",
    )


def _read_word(package: Package, words: WordCollector) -> None:
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml"):
        if name in package:
            _read_part(package, name, words, within="t")


def _read_slides(package: Package, words: WordCollector) -> None:
    for number, name in enumerate(package.names("ppt/slides/slide", ".xml"), 1):
        words.add(f"\nSlide {number}\n")
        _read_part(package, name, words, within="t")


def _read_open_text(package: Package, words: WordCollector) -> None:
    _read_part(package, "content.xml", words, within="body")


def _read_cells(package: Package, words: WordCollector) -> None:
    _read_part(package, "content.xml", words, within="body", breaks=_CELLS)


def _read_part(
    package: Package, name: str, words: WordCollector, *, within: str, breaks: dict[str, str] | None = None
) -> None:
    """Collect the text inside elements named `within`, with a break after each paragraph, cell and row."""
    ends = _BREAKS if breaks is None else breaks
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += tag.rpartition(":")[2] == within

    def end(tag: str) -> None:
        nonlocal depth
        local = tag.rpartition(":")[2]
        depth -= local == within
        if local in ends:
            words.check_time()
            words.add(ends[local])

    def characters(text: str) -> None:
        if depth:
            words.add(text)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    package.parse(name, parser)


def _read_book(package: Package, words: WordCollector) -> None:
    for name in package.names("", "html"):
        parser = _Page(words)
        for chunk in package.chunks(name):
            parser.feed(decode(chunk, whole=False))
        words.add("\n")


class _Page(HTMLParser):
    def __init__(self, words: WordCollector) -> None:
        super().__init__()
        self._words = words
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style", "head")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "head") and self._silent > 0
        if tag in ("p", "div", "li", "h1", "h2", "h3", "tr"):
            self._words.check_time()
            self._words.add("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._words.add(data)
