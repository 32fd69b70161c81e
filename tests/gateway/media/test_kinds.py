"""What a file is, by its bytes."""

import gzip
import io
import random
import tarfile

import pytest

from gateway.media import kinds
from gateway.media.kinds import FileFormat, look
from tests.gateway.media import samples


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../etc/passwd"))
    return file.getvalue()


KINDS: dict[str, tuple[bytes, FileFormat]] = {
    "png": (samples.png(), kinds.PNG),
    "jpeg": (samples.jpeg(), kinds.JPEG),
    "gif": (samples.gif(), kinds.GIF),
    "webp": (samples.webp(), kinds.WEBP),
    "bmp": (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + b"\x01\0\0\0" * 8, kinds.BMP),
    "tiff": (b"II*\0\x08\0\0\0", kinds.TIFF),
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", kinds.HEIC),
    "avif": (b"\0\0\0\x1cftypavif\0\0\0\0", kinds.AVIF),
    "pdf": (samples.pdf_of("hello"), kinds.PDF),
    "pdf behind rubbish": (b"\0\x01\x02" + samples.pdf_of("hello"), kinds.PDF),
    "docx": (samples.docx("hello"), kinds.ZIP),
    "empty zip": (samples.packed({}), kinds.ZIP),
    "old word": (samples.OLD_WORD, kinds.OLD_OFFICE),
    "locked word": (samples.LOCKED_WORD, kinds.LOCKED_OFFICE),
    "rtf": (b"{\\rtf1\\ansi hello}", kinds.RTF),
    "ogg": (samples.OGG, kinds.OGG),
    "ogg film": (b"OggS\0\x02" + b"\0" * 22 + b"\x80theora", kinds.OGG_VIDEO),
    "mp3 with a label": (b"ID3\x04\0\0\0\0\0\0", kinds.MP3),
    "mp3": (b"\xff\xfb\x90\x64" + b"\0" * 100, kinds.MP3),
    "aac": (b"\xff\xf1\x50\x80" + b"\0" * 100, kinds.AAC),
    "wav": (b"RIFF\x24\0\0\0WAVEfmt ", kinds.WAV),
    "flac": (b"fLaC\0\0\0\x22", kinds.FLAC),
    "m4a": (b"\0\0\0\x20ftypM4A \0\0\0\0", kinds.M4A),
    "mp4": (samples.MP4, kinds.MP4),
    "webm": (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81", kinds.WEBM),
    "gzip": (gzip.compress(b"hello"), kinds.GZIP),
    "tar": (tar(), kinds.TAR),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\x04", kinds.PACKED),
    "bzip2": (b"BZh91AY&SY\0\0", kinds.PACKED),
    "utf-8": ("Grüße, 世界".encode(), kinds.TEXT),
    "utf-8 cut in a letter": (("x" * (kinds.HEAD_BYTES - 1) + "ü").encode(), kinds.TEXT),
    "utf-16 with a mark": ("Grüße".encode("utf-16"), kinds.TEXT),
    "utf-16 without one": ("Hello there, you".encode("utf-16-le"), kinds.TEXT),
    "latin": ("Grüße aus München".encode("latin-1"), kinds.TEXT),
    "html": (b"<!DOCTYPE html><p>hi", kinds.TEXT),
    "json": (b'{"a": 1}', kinds.TEXT),
    "one letter": (b"a", kinds.TEXT),
    "one byte": (b"\xff", kinds.UNKNOWN),
    "nul": (b"\0", kinds.UNKNOWN),
    "nothing": (b"", kinds.EMPTY),
    "a program": (b"\x7fELF\x02\x01\x01" + b"\0" * 50, kinds.UNKNOWN),
    "random": (random.Random(1).randbytes(1000), kinds.UNKNOWN),
    "a text that begins like a label": (b"ID3 tags are fine. BZh too. BM as well. RIFF", kinds.TEXT),
    "a text about pdf": (b"A file begins with %PDF-1.4, mostly.", kinds.TEXT),
}


@pytest.mark.parametrize(("content", "form"), KINDS.values(), ids=KINDS)
def test_a_file_is_what_its_bytes_say(content: bytes, form: FileFormat) -> None:
    assert look(content) == form


def test_what_cannot_be_read_has_words_for_it() -> None:
    forms = [value for value in vars(kinds).values() if isinstance(value, FileFormat)]
    assert len(forms) > 25
    for form in forms:
        readable = form.read_as or form.kind != "file" or form.problem
        assert readable, form
