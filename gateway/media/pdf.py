"""Extract the text of a PDF document, page by page. Runs in the child process."""

from contextlib import suppress
from typing import BinaryIO

from pypdf import PageObject, PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from gateway.media.reading import LOCKED, Enough, Reading, UnreadableFile, WordCollector


def read_pdf(file: BinaryIO, words: WordCollector) -> Reading:
    try:
        with suppress(Enough):  # the limit is reached
            _read(PdfReader(file), words)
    except (FileNotDecryptedError, DependencyError) as error:  # DependencyError: unsupported ciphers
        raise UnreadableFile(LOCKED) from error
    if not words.text:
        raise UnreadableFile("it contains no text: its pages may be scanned pictures")
    return Reading(text=words.text, partial=words.partial)


def _read(reader: PdfReader, words: WordCollector) -> None:
    if reader.is_encrypted and not reader.decrypt(""):  # many only forbid changes, with an empty password
        raise UnreadableFile(LOCKED)
    damaged = pages = 0
    for page in reader.pages:
        words.check_time()
        text = _text_of(page)
        pages += 1
        damaged += text is None
        words.add(f"{text or ''}\n")
    if damaged and damaged == pages:
        raise UnreadableFile("it is damaged")
    words.partial = damaged > 0


def _text_of(page: PageObject) -> str | None:
    """Return the text of a page; None when it is damaged, since the others may be sound."""
    try:
        return page.extract_text()
    except (FileNotDecryptedError, DependencyError, RecursionError, MemoryError):
        raise
    except (PyPdfError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError):
        return None
