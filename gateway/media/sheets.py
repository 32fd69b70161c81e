"""The cells of an Excel workbook, row by row. Runs in the child process."""

from xml.parsers import expat

from gateway.media.package import Package
from gateway.media.reading import Unreadable, Words

_MAX_COLUMNS = 200  # gaps beyond this are not kept
_MAX_SHEETS = 1_000
_MAX_RELATIONS = 10_000
_MAX_STRINGS = 500_000
_MAX_STRING_CHARS = 20_000_000


def read_sheets(package: Package, words: Words) -> None:
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
                raise Unreadable("it is too large a workbook to be read")

    def characters(text: str) -> None:
        nonlocal chars
        if reading:
            pieces.append(text)
            chars += len(text)
            if chars > _MAX_STRING_CHARS:
                raise Unreadable("it is too large a workbook to be read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    package.parse("xl/sharedStrings.xml", parser)
    return strings


def _titles(package: Package) -> list[tuple[str, str]]:
    """Each sheet's title and the name of its relation, in the order of the tabs."""
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
    """Relation to member: only looked up among the members, never opened as a path."""
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
    """Follows one sheet's cells; a value that is a number of a shared string is looked up."""

    def __init__(self, strings: list[str], words: Words) -> None:
        self._strings = strings
        self._words = words
        self._column = 0  # how many were written in this row
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
    """The number of a cell's column, such as 3 for C5; 0 when it is not told."""
    number = 0
    for letter in cell[:3]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number


def _local(name: str) -> str:
    return name.rpartition(":")[2]
