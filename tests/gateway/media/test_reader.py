"""What can be read in files, by a real child process."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, ClassVar

import pytest

from gateway.media.kinds import Way, detect_format
from gateway.media.reader import CHILDREN_AT_ONCE, DocumentReader
from gateway.media.reading import Reading
from tests.gateway.media import samples

LINES = "<text:h>Title</text:h><text:p>one<text:tab/>two</text:p><text:p>three<text:span>four</text:span></text:p>"
CELLS = (
    "<table:table-row><table:table-cell><text:p>name</text:p></table:table-cell>"
    "<table:table-cell><text:p>7</text:p></table:table-cell></table:table-row>"
)
LOCKED = "it is locked with a password; please send it without one"


async def read(folder: Path, content: bytes, reader: DocumentReader | None = None) -> Reading:
    """As the gateway does: by its bytes, from a file without a name worth anything."""
    file = folder / "0a1b"
    file.write_bytes(content)
    return await (reader or DocumentReader()).read(file, detect_format(content).read_as)


WORDS: dict[str, tuple[bytes, str, str]] = {
    "pdf": (samples.pdf_of("Hello PDF", "Page two"), "Hello PDF\nPage two", ""),
    "docx": (samples.docx("Hello", "Word &amp; more"), "Hello\nWord & more", "Word document"),
    "xlsx": (
        samples.xlsx([["item", "price"], ["tea", 2.5]]),
        "Sheet Prices\nitem\tprice\ntea\t2.5",
        "Excel workbook",
    ),
    "pptx": (samples.pptx("First", "Second"), "Slide 1\nFirst\n\nSlide 2\nSecond", "PowerPoint presentation"),
    "odt": (samples.open_document("text", LINES), "Title\none\ttwo\nthreefour", "OpenDocument file"),
    "odp": (samples.open_document("presentation", LINES), "Title\none\ttwo\nthreefour", "OpenDocument file"),
    "ods": (samples.open_document("spreadsheet", CELLS), "name \t7", "OpenDocument file"),
    "utf-8": ("Grüße".encode(), "Grüße", ""),
    "utf-8 with a mark": ("Grüße".encode("utf-8-sig"), "Grüße", ""),
    "utf-16": ("Grüße".encode("utf-16"), "Grüße", ""),
    "utf-16 without a mark": ("Hello there, you".encode("utf-16-be"), "Hello there, you", ""),
    "latin": ("Grüße aus München".encode("cp1252"), "Grüße aus München", ""),
    "csv": (b"a,b\r\n1,2\r\n", "a,b\n1,2", ""),
    "markdown": (b"# Title\n\n- one", "# Title\n\n- one", ""),
}


@pytest.mark.parametrize(("content", "text", "title"), WORDS.values(), ids=WORDS)
async def test_words_are_read(tmp_path: Path, content: bytes, text: str, title: str) -> None:
    found = await read(tmp_path, content)
    assert (found.text.replace("\r", ""), found.title) == (text, title)
    assert (found.partial, found.problem) == (False, "")


PROBLEMS: dict[str, tuple[bytes, str]] = {
    "locked pdf": (samples.locked_pdf(), LOCKED),
    "scanned pdf": (samples.pdf_of("", ""), "it contains no text: its pages may be scanned pictures"),
    "pdf cut short": (samples.pdf_of("Hello")[:150], "it is damaged"),
    "docx without words": (samples.docx(), "there is no text in it"),
    "docx cut short": (samples.docx("Hello")[:-40], "it is damaged"),
    "docx with broken xml": (samples.packed({"word/document.xml": "<w:document"}), "it is damaged"),
    "locked odt": (
        samples.open_document("text", LINES, **{"META-INF/manifest.xml": "<m><encryption-data/></m>"}),
        LOCKED,
    ),
}


@pytest.mark.parametrize(("content", "problem"), PROBLEMS.values(), ids=PROBLEMS)
async def test_what_cannot_be_read_is_told_in_words(tmp_path: Path, content: bytes, problem: str) -> None:
    assert await read(tmp_path, content) == Reading(problem=problem)


async def test_one_damaged_page_costs_only_itself(tmp_path: Path) -> None:
    content = samples.pdf_of("Sound", "Broken").replace(b"(Broken) Tj", b"(Broken Tj<")
    found = await read(tmp_path, content)
    assert "Sound" in found.text


async def test_an_archive_is_listed_and_not_unpacked(tmp_path: Path) -> None:
    names: dict[str, str | bytes] = {
        "../../etc/passwd": "x",
        "/etc/shadow": "x",
        "a]\n[b\0\u202e.txt": "x",
        "photo.jpg": b"y" * 2000,
    }
    found = await read(tmp_path, samples.packed(names))
    assert found.text.splitlines() == [
        "Files in it:",
        "../../etc/passwd (1 byte)",
        "/etc/shadow (1 byte)",
        "a) (b (1 byte)",
        "photo.jpg (2 KB)",
    ]
    assert "archive" in found.problem
    assert [path.name for path in tmp_path.iterdir()] == ["0a1b"]


async def test_of_a_long_archive_the_beginning_is_listed(tmp_path: Path) -> None:
    found = await read(tmp_path, samples.packed({f"{number}.txt": "" for number in range(60)}))
    assert found.text.splitlines()[-2:] == ["49.txt (0 bytes)", "and 10 more"]


LONG = {
    "text": b"word " * 10_000,
    "pdf": samples.pdf_of(*["word " * 100] * 30),
    "docx": samples.docx(*["word " * 10] * 1000),
    "xlsx": samples.xlsx([["word", "word"]] * 2000),
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG)
async def test_of_a_long_file_the_beginning_is_read(tmp_path: Path, content: bytes) -> None:
    found = await read(tmp_path, content, DocumentReader(max_text_chars=1000))
    assert 900 < len(found.text) <= 1000
    assert (found.partial, found.problem) == (True, "")


class CountingReader(DocumentReader):
    """Knows how many children there were at once."""

    counts: ClassVar[list[int]] = []

    async def _read(self, file: BinaryIO, way: Way) -> Reading:
        self.counts.append(CHILDREN_AT_ONCE - self.places._value)
        return await super()._read(file, way)


async def test_no_more_than_two_are_read_at_once_and_all_are_in_the_end(tmp_path: Path) -> None:
    file = tmp_path / "note"
    file.write_text("hello")
    reader = CountingReader()
    found = await asyncio.gather(*(reader.read(file, "text") for _ in range(6)))
    assert [one.text for one in found] == ["hello"] * 6
    assert max(reader.counts) == CHILDREN_AT_ONCE == 2


async def test_the_child_knows_nothing_of_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)  # the child waits for what never comes
    reader = DocumentReader(timeout_seconds=30)
    task = asyncio.create_task(reader.read(fifo, "text"))
    try:
        child = await _child_of(os.getpid())
        assert Path(f"/proc/{child}/environ").read_bytes() == b""
        assert os.getsid(child) == child
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.close(holder)
    assert not Path(f"/proc/{child}").exists()


async def _child_of(parent: int) -> int:
    async with asyncio.timeout(20):
        while True:
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                with suppress(OSError):  # a thread, or a child, that has ended meanwhile
                    for child in children.read_text().split():
                        if b"gateway.media.child" in Path(f"/proc/{child}/cmdline").read_bytes():
                            return int(child)
            await asyncio.sleep(0.01)


async def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    try:
        found = await DocumentReader(timeout_seconds=0.2).read(fifo, "text")
    finally:
        os.close(holder)
    assert found == Reading(problem="reading it took too long")


async def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    assert (await DocumentReader().read(tmp_path / "gone", "text")).problem


@pytest.mark.parametrize("answer", [b"", b"\n", b"{}\n", b"[" * 5000, b'{"title": 1, "problem": "", "partial": 0}\n'])
def test_a_child_that_answers_nonsense_is_not_believed(answer: bytes) -> None:
    assert DocumentReader()._parse_answer(answer).problem


def test_what_the_child_says_is_cut_and_cleaned() -> None:
    about = b'{"title": "", "problem": "", "partial": false}\n'
    found = DocumentReader(max_text_chars=100)._parse_answer(about + b"a\0b\x1b[31m\xff" + b"c" * 200)
    assert found.text.startswith("a b [31m")
    assert len(found.text) == 100
