"""Files made to harm whoever reads them: the answer is words, and neither memory nor time goes beyond the limits."""

import io
import json
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest

from gateway.media.kinds import Way, detect_format
from gateway.media.reader import DocumentReader
from gateway.media.reading import Reading
from tests.gateway.media import samples

READER = DocumentReader(max_text_chars=5_000, timeout_seconds=20, memory_mb=256)
DAMAGED = "it is damaged"
SWELLS = "it unpacks to far more data than a document of its size"
ENTITIES = "it declares XML entities, which normal documents do not"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    reading: Reading
    memory_bytes: int  # the most that the child ever held


# A small process in between: what its parent held before the child's program began counts as the child's, too.
WATCH = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL, env={}, cwd="/")
print(os.wait4(child.pid, 0)[2].ru_maxrss * 1024, file=sys.stderr)
child.returncode = 0
"""


def run_child(folder: Path, content: bytes, way: Way) -> Outcome:
    """The reader's own child, started by us so that its use of memory can be asked for."""
    file = folder / "file"
    file.write_bytes(content)
    with file.open("rb") as given:
        command = [sys.executable, "-I", "-c", WATCH, *READER.command(way)]
        done = subprocess.run(command, stdin=given, capture_output=True, timeout=60, check=True)
    return Outcome(reading=READER._parse_answer(done.stdout), memory_bytes=int(done.stderr))


def bomb(size: int = 100_000_000) -> bytes:
    """Packed spaces, a thousandth of their size."""
    packer = zlib.compressobj(9)
    block = b" " * 1_000_000
    return b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()


def zip_bomb(name: str, *, start: bytes = b"", size: int = 60_000_000, method: int = ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", method) as archive, archive.open(name, "w", force_zip64=True) as member:
        member.write(start)
        for _ in range(size // 1_000_000):
            member.write(b" " * 1_000_000)
    return file.getvalue()


def nested_zip(depth: int = 5, width: int = 10) -> bytes:
    """Like 42.zip: archives in archives, at the bottom a bomb."""
    inner = zip_bomb("0.dll", size=20_000_000)
    for _ in range(depth):
        inner = samples.packed({f"lib {number}.zip": inner for number in range(width)})
    return inner


def laughs() -> str:
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{number} "{f"&a{number - 1};" * 10}">' for number in range(1, 10)
    )
    return f"<!DOCTYPE w [{entities}]>"


def xlsx_with(members: dict[str, bytes | str]) -> bytes:
    file = io.BytesIO(samples.xlsx([["a"]]))
    with ZipFile(file, "a", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def pdf_with_content(content: bytes, more: bytes = b"/Filter /FlateDecode ") -> bytes:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R "
    return samples.pdf(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page + b"/Resources << /Font << /F1 5 0 R >> >> >>",
        samples.stream(content, more),
        samples.FONT,
    )


def pdf_with_pages(pages: bytes, *others: bytes) -> bytes:
    return samples.pdf(b"<< /Type /Catalog /Pages 2 0 R >>", pages, *others)


def pdf_of_deep_arrays() -> bytes:
    return pdf_with_pages(b"<< /Type /Pages /Kids " + b"[" * 200_000 + b"]" * 200_000 + b" /Count 1 >>")


def pdf_of_deep_pages(depth: int = 3_000) -> bytes:
    nodes = [b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (number + 3) for number in range(depth)]
    return pdf_with_pages(*nodes, b"<< /Type /Page /MediaBox [0 0 9 9] >>")


def many_names(count: int = 100_000) -> bytes:
    """An archive of empty members that costs its reader more than its writer."""
    entry = b"PK\x01\x02" + b"\0" * 24 + b"\x01\0" + b"\0" * 16 + b"x"
    directory = entry * count
    end = b"PK\x06\x06" + (44).to_bytes(8, "little") + b"\0" * 12 + count.to_bytes(8, "little") * 2
    end += len(directory).to_bytes(8, "little") + (4).to_bytes(8, "little")
    locator = b"PK\x06\x07\0\0\0\0" + (4 + len(directory)).to_bytes(8, "little") + b"\x01\0\0\0"
    return b"PK\x03\x04" + directory + end + locator + b"PK\x05\x06\0\0\0\0" + b"\xff" * 12 + b"\0\0"


EXTERNAL = '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
OUTSIDE = '<!DOCTYPE w SYSTEM "file:///etc/passwd">'

# What is made, and the words that come of it; None: some words, which depend on where its reader gives up.
HOSTILE: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "a flat zip bomb": (lambda: zip_bomb("big.txt"), "it is an archive, and only its list of names was read"),
    "a nested zip bomb": (lambda: nested_zip(), "it is an archive, and only its list of names was read"),
    "a docx bomb of blank space": (lambda: zip_bomb("word/document.xml", start=b"<w>"), SWELLS),
    "a docx bomb of one tag": (lambda: zip_bomb("word/document.xml", start=b"<w "), SWELLS),
    "a docx packed otherwise": (
        lambda: zip_bomb("word/document.xml", size=50_000_000, method=ZIP_BZIP2),
        "it uses an unusual compression method",
    ),
    "an xlsx bomb of strings": (
        lambda: samples.xlsx([["a"]], shared="<si><t>" + "ab " * 8_000_000 + "</t></si>"),
        None,
    ),
    "an xlsx bomb of empty strings": (lambda: samples.xlsx([["a"]], shared="<si/>" * 1_000_000), None),
    "billion laughs": (lambda: samples.docx("&a9;", before=laughs()), ENTITIES),
    "an entity from outside": (lambda: samples.docx("&x;", before=EXTERNAL), ENTITIES),
    "a document type from outside": (lambda: samples.docx("&x;", before=OUTSIDE), None),
    "an odt with entities": (
        lambda: samples.packed(
            {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": laughs() + "<body>&a9;</body>"}
        ),
        ENTITIES,
    ),
    "a docx nested a million deep": (lambda: samples.packed({"word/document.xml": "<w>" * 1_000_000}), None),
    "an archive of very many names": (lambda: many_names(), None),
    "a pdf bomb": (lambda: pdf_with_content(bomb()), None),
    "a pdf bomb in a bomb": (
        lambda: pdf_with_content(zlib.compress(bomb()), b"/Filter [/FlateDecode /FlateDecode] "),
        None,
    ),
    "a pdf whose pages are their own parents": (
        lambda: pdf_with_pages(b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"),
        None,
    ),
    "a pdf whose pages go round": (
        lambda: pdf_with_pages(
            b"<< /Type /Pages /Kids [3 0 R] /Count 9 >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"
        ),
        None,
    ),
    "a pdf nested deeply": (lambda: pdf_of_deep_arrays(), None),
    "a pdf with a deep tree of pages": (lambda: pdf_of_deep_pages(), None),
    "a pdf whose length lies": (
        lambda: samples.pdf_of("Hello").replace(b"/Length", b"/Length 99999999999 /L"),
        None,
    ),
    "a pdf that says to have a billion pages": (
        lambda: pdf_with_pages(b"<< /Type /Pages /Kids [] /Count 1000000000 >>"),
        None,
    ),
    "a pdf whose end points to itself": (lambda: b"%PDF-1.4\ntrailer << /Prev 9 >>\nstartxref\n9\n%%EOF", None),
    "a pdf that goes on without end": (lambda: b"%PDF-1.4\n" + b"(" * 2_000_000, None),
}


@pytest.mark.parametrize(("make", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_costs_no_more_than_the_limits_and_gets_words(
    tmp_path: Path, make: Callable[[], bytes], words: str | None
) -> None:
    content = make()
    way = detect_format(content).read_as
    assert way in ("pdf", "zip")
    outcome = run_child(tmp_path, content, way)
    assert outcome.memory_bytes < READER.memory_mb * 1_000_000
    found = outcome.reading
    assert found.problem or found.text
    assert len(found.text) <= READER.max_text_chars
    assert "root:" not in found.text
    if words is not None:
        assert words in found.problem
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_child_may_write_no_file_and_start_nothing() -> None:
    script = (
        "from gateway.media import child\n"
        "child.limit_self(5, 256000000)\n"
        "import resource, json\n"
        "names = ('AS', 'CPU', 'FSIZE', 'CORE', 'NPROC', 'NOFILE')\n"
        "print(json.dumps([resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in names]))\n"
    )
    command = [*READER.command("text")[:2], "-c", script]
    done = subprocess.run(command, capture_output=True, env={}, cwd="/", timeout=30, check=True)
    assert json.loads(done.stdout) == [[256_000_000] * 2, [5, 5], [0, 0], [0, 0], [0, 0], [32, 32]]


def mutations(count: int) -> list[bytes]:
    """Valid files with bytes changed, cut, doubled and mixed."""
    dice = random.Random(20)
    sound = [
        samples.pdf_of("Hello", "there"),
        samples.docx("Hello", "there"),
        samples.xlsx([["a", 1], ["b", 2]]),
        samples.pptx("one", "two"),
        samples.open_document("text", "<text:p>Hello</text:p>"),
    ]
    made = []
    for _ in range(count):
        content = bytearray(dice.choice(sound))
        for _ in range(dice.randint(1, 8)):
            place = dice.randrange(len(content) or 1)
            match dice.randrange(4):
                case 0:
                    content[place : place + 1] = dice.randbytes(1)
                case 1:
                    del content[place : place + dice.randint(1, 20)]
                case 2:
                    content[place:place] = content[place : place + dice.randint(1, 50)]
                case _:
                    content = content[: max(place, 10)]
        made.append(bytes(content))
    return made


def test_three_hundred_broken_files_break_nothing(tmp_path: Path) -> None:
    """In one process, with the same limits: starting a child for each would take minutes."""
    paths = []
    for number, content in enumerate(mutations(300)):
        path = tmp_path / f"{number}"
        path.write_bytes(content)
        if (way := detect_format(content).read_as) in ("pdf", "zip"):
            paths.append((str(path), way))
    assert len(paths) > 200  # of the others nothing is read
    script = (
        "import json, sys, time\n"
        "from gateway.media import child\n"
        "from gateway.media.reading import WordCollector\n"
        "import gateway.media.pdf, gateway.media.office\n"
        "child.limit_self(100, 256000000)\n"
        "told = []\n"
        "for path, way in json.load(sys.stdin):\n"
        "    with open(path, 'rb') as file:\n"
        "        found = child._read(file, way, WordCollector(max_chars=5000, until=time.monotonic() + 5))\n"
        "    told.append([found.text, found.problem])\n"
        "print(json.dumps(told))\n"
    )
    command = [*READER.command("text")[:2], "-c", script]
    done = subprocess.run(
        command, input=json.dumps(paths).encode(), capture_output=True, env={}, cwd="/", timeout=110, check=True
    )
    told = json.loads(done.stdout)
    assert len(told) == len(paths)
    assert all(text.strip() or problem for text, problem in told)
    assert {problem for _, problem in told} > {DAMAGED}
