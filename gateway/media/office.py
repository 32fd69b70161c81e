"""The words of Office, OpenDocument and EPUB files, from the parts that hold them. Runs in the child process."""

import contextlib
from collections.abc import Callable
from html.parser import HTMLParser
from typing import BinaryIO
from xml.parsers import expat

from gateway.media.package import Package
from gateway.media.plain import decode
from gateway.media.reading import LOCKED, Enough, Reading, Unreadable, Words
from gateway.media.sheets import read_sheets
from tools.parts import in_bytes, one_line

_LISTED = 50
_BREAKS = {"p": "\n", "h": "\n", "tab": "\t", "br": "\n", "line-break": "\n", "s": " ", "tc": "\t", "tr": "\n"}
_CELLS = {"p": " ", "table-cell": "\t", "table-row": "\n"}
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_MANIFEST = "META-INF/manifest.xml"


def read_zip(file: BinaryIO, words: Words) -> Reading:
    package = Package(file)
    title, read = _what_is(package)
    if read is None:
        return _listing(package)
    with contextlib.suppress(Enough):
        read(package, words)
    if not words.text:
        raise Unreadable("there is no text in it")
    return Reading(text=words.text, partial=words.partial, title=title)


def _what_is(package: Package) -> tuple[str, Callable[[Package, Words], None] | None]:
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
            raise Unreadable(LOCKED)
        return "OpenDocument file", _read_cells if "spreadsheet" in mime else _read_open_text
    return "", None


def _listing(package: Package) -> Reading:
    members = package.members
    lines = [f"{one_line(member.filename)} ({in_bytes(member.file_size)})" for member in members[:_LISTED]]
    more = [f"and {len(members) - _LISTED} more"] if len(members) > _LISTED else []
    return Reading(
        text="\n".join(["The names in it:", *lines, *more]),
        problem="it is an archive, of which only the list of names is read; please send the files themselves",
    )


def _read_word(package: Package, words: Words) -> None:
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml"):
        if name in package:
            _read_part(package, name, words, within="t")


def _read_slides(package: Package, words: Words) -> None:
    for number, name in enumerate(package.names("ppt/slides/slide", ".xml"), 1):
        words.add(f"\nSlide {number}\n")
        _read_part(package, name, words, within="t")


def _read_open_text(package: Package, words: Words) -> None:
    _read_part(package, "content.xml", words, within="body")


def _read_cells(package: Package, words: Words) -> None:
    _read_part(package, "content.xml", words, within="body", breaks=_CELLS)


def _read_part(package: Package, name: str, words: Words, *, within: str, breaks: dict[str, str] | None = None) -> None:
    """The characters inside elements of that name, and a break where a paragraph, a cell or a row ends."""
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


def _read_book(package: Package, words: Words) -> None:
    for name in package.names("", "html"):
        parser = _Page(words)
        for chunk in package.chunks(name):
            parser.feed(decode(chunk, whole=False))
        words.add("\n")


class _Page(HTMLParser):
    def __init__(self, words: Words) -> None:
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
