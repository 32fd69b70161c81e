"""What a file is, by its bytes."""

import gzip
import io
import random
import tarfile

import pytest

from gateway.media import kinds
from gateway.media.kinds import detect_format
from tests.gateway.media import samples


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../etc/passwd"))
    return file.getvalue()


KINDS: dict[str, tuple[bytes, str]] = {
    "png": (samples.png(), "PNG picture"),
    "jpeg": (samples.jpeg(), "JPEG picture"),
    "gif": (samples.gif(), "GIF picture"),
    "webp": (samples.webp(), "WebP picture"),
    "bmp": (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + b"\x01\0\0\0" * 8, "BMP picture"),
    "tiff": (b"II*\0\x08\0\0\0", "TIFF picture"),
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC picture"),
    "avif": (b"\0\0\0\x1cftypavif\0\0\0\0", "AVIF picture"),
    "pdf": (samples.pdf_of("hello"), "PDF document"),
    "pdf behind rubbish": (b"\0\x01\x02" + samples.pdf_of("hello"), "PDF document"),
    "docx": (samples.docx("hello"), "ZIP archive"),
    "empty zip": (samples.packed({}), "ZIP archive"),
    "old word": (samples.OLD_WORD, "old Office document"),
    "locked word": (samples.LOCKED_WORD, "locked Office document"),
    "rtf": (b"{\\rtf1\\ansi hello}", "RTF document"),
    "ogg": (samples.OGG, "Ogg audio"),
    "ogg film": (b"OggS\0\x02" + b"\0" * 22 + b"\x80theora", "Ogg video"),
    "mp3 with a label": (b"ID3\x04\0\0\0\0\0\0", "MP3 audio"),
    "mp3": (b"\xff\xfb\x90\x64" + b"\0" * 100, "MP3 audio"),
    "aac": (b"\xff\xf1\x50\x80" + b"\0" * 100, "AAC audio"),
    "wav": (b"RIFF\x24\0\0\0WAVEfmt ", "WAV audio"),
    "flac": (b"fLaC\0\0\0\x22", "FLAC audio"),
    "m4a": (b"\0\0\0\x20ftypM4A \0\0\0\0", "M4A audio"),
    "mp4": (samples.MP4, "MP4 video"),
    "webm": (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81", "WebM video"),
    "gzip": (gzip.compress(b"hello"), "gzip archive"),
    "tar": (tar(), "tar archive"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\x04", "archive"),
    "bzip2": (b"BZh91AY&SY\0\0", "archive"),
    "utf-8": ("Grüße, 世界".encode(), "text"),
    "utf-8 cut in a letter": (("x" * (kinds.HEAD_BYTES - 1) + "ü").encode(), "text"),
    "utf-16 with a mark": ("Grüße".encode("utf-16"), "text"),
    "utf-16 without one": ("Hello there, you".encode("utf-16-le"), "text"),
    "latin": ("Grüße aus München".encode("latin-1"), "text"),
    "html": (b"<!DOCTYPE html><p>hi", "text"),
    "json": (b'{"a": 1}', "text"),
    "one letter": (b"a", "text"),
    "one byte": (b"\xff", "unknown format"),
    "nul": (b"\0", "unknown format"),
    "nothing": (b"", "empty file"),
    "a program": (b"\x7fELF\x02\x01\x01" + b"\0" * 50, "unknown format"),
    "random": (random.Random(1).randbytes(1000), "unknown format"),
    "a text that begins like a label": (b"ID3 tags are fine. BZh too. BM as well. RIFF", "text"),
    "a text about pdf": (b"A file begins with %PDF-1.4, mostly.", "text"),
}


@pytest.mark.parametrize(("content", "title"), KINDS.values(), ids=KINDS)
def test_a_file_is_what_its_bytes_say_and_has_words_if_it_cannot_be_read(content: bytes, title: str) -> None:
    form = detect_format(content)
    assert form.title == title
    assert form.read_as or form.kind != "file" or form.problem
