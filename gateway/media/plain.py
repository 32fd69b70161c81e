"""Read a text file in any encoding. Runs in the child process."""

import codecs
from typing import BinaryIO

from gateway.media.kinds import looks_like_utf16
from gateway.media.reading import Reading

_MARKED = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(file: BinaryIO, max_chars: int) -> Reading:
    content = file.read(4 * max_chars + 4)
    text = decode(content, whole=len(content) < 4 * max_chars + 4)
    partial = len(text) > max_chars or bool(file.read(1))
    return Reading(text=text[:max_chars].strip(), partial=partial)


def decode(content: bytes, *, whole: bool = True) -> str:
    """Decode text in an unknown encoding. Never fails: undecodable bytes are replaced."""
    encoding = next((name for mark, name in _MARKED if content.startswith(mark)), "") or looks_like_utf16(content)
    if encoding:
        return codecs.getincrementaldecoder(encoding)("replace").decode(content, final=whole)
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=whole)
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
