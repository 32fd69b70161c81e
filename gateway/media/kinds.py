"""Detect a file's format from its bytes alone, ignoring its name and what its sender says. Pure."""

import codecs
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gateway.messages import Media
from tools.content import MediaKind, one_line

HEAD_BYTES = 65_536  # the only bytes examined, except for the lock mark of an old Office file
Way = Literal["", "text", "pdf", "zip", "html"]
"""How to extract its text; empty when that is not possible."""
_MAX_SEGMENTS = 2_000
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the JPEG segments that contain the size
# Larger pictures are refused by some providers, and so would be every later request of the conversation.
MAX_SHOWN_BYTES = 5_000_000
MAX_SIDE_PIXELS = 8_000
TOO_MANY = "no more than"
"""Start of the problem text of files beyond a limit, which is reported once for all of them."""
_MAX_NAMES = 5
_UNSUPPORTED = {"audio": "I cannot listen to audio yet", "video": "I cannot watch videos yet"}
_OFFLINE = "pocketsphinx"
_NO_VISION = "The current model cannot see pictures"
_NAMES_PLACEHOLDER = "\0"  # placeholder for the names; never occurs in text


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    title: str  # for people and models
    kind: MediaKind = "file"
    mime: str = "application/octet-stream"
    read_as: Way = ""
    may_be_audio: bool = False  # the container holds video or audio
    problem: str = ""  # why it cannot be read


_OTHER_PICTURE = "this kind of picture cannot be shown to the model; JPEG, PNG, GIF and WebP can"
_PACKED = "archives of this kind are not unpacked here; please send the files themselves"
_NEWER = "please send it as .docx, .xlsx, .pptx or PDF"

EMPTY = FileFormat(title="empty file", problem="it is empty")
UNKNOWN = FileFormat(title="unknown format", problem="its format is unknown; text, PDF and Office files can be read")
TEXT = FileFormat(title="text", mime="text/plain", read_as="text")
_PDF = FileFormat(title="PDF document", mime="application/pdf", read_as="pdf")
_OLD_OFFICE = FileFormat(
    title="old Office document",
    mime="application/x-ole-storage",
    problem=f"it is in an old Office format that cannot be read; {_NEWER}",
)
_LOCKED_OFFICE = replace(
    _OLD_OFFICE, title="locked Office document", problem="it is locked with a password; please send it without one"
)
_MP3 = FileFormat(title="MP3 audio", kind="audio", mime="audio/mpeg")
_ARCHIVE = FileFormat(title="archive", problem=_PACKED)


def _picture(name: str, problem: str = "") -> FileFormat:
    return FileFormat(title=f"{name} picture", kind="image", mime=f"image/{name.lower()}", problem=problem)


def _audio(name: str, mime: str) -> FileFormat:
    return FileFormat(title=f"{name} audio", kind="audio", mime=f"audio/{mime}")


def _video(name: str, mime: str, *, may_be_audio: bool = False) -> FileFormat:
    return FileFormat(title=f"{name} video", kind="video", mime=f"video/{mime}", may_be_audio=may_be_audio)


# The first pattern that matches the beginning of a file tells its format.
_FORMATS = tuple(
    (re.compile(pattern, re.DOTALL), form)
    for pattern, form in (
        (rb"\x89PNG\r\n\x1a\n", _picture("PNG")),
        (rb"\xff\xd8\xff", _picture("JPEG")),
        (rb"GIF8[79]a", _picture("GIF")),
        (rb"RIFF.{4}WEBP", _picture("WebP")),
        (rb"II\*\0|MM\0\*", _picture("TIFF", _OTHER_PICTURE)),
        (rb"BM.{4}\0{4}.{16}", _picture("BMP", _OTHER_PICTURE)),
        (rb"\0.{3}ftyp(hei[cx]|mif1|msf1|hevc)", _picture("HEIC", _OTHER_PICTURE)),
        (rb"\0.{3}ftypavi[fs]", _picture("AVIF", _OTHER_PICTURE)),
        (rb"%PDF-", _PDF),
        (rb"PK(\x03\x04|\x05\x06)", FileFormat(title="ZIP archive", mime="application/zip", read_as="zip")),
        (
            rb"\{\\rtf",
            FileFormat(title="RTF document", mime="application/rtf", problem=f"RTF cannot be read; {_NEWER}"),
        ),
        (rb"ID3[\x02-\x04]", _MP3),
        (rb"fLaC", _audio("FLAC", "flac")),
        (rb"#!AMR", _audio("AMR", "amr")),
        (rb"RIFF.{4}WAVE", _audio("WAV", "wav")),
        (rb"\0.{3}ftypM4[ABP] ", _audio("M4A", "mp4")),
        (rb"\0.{3}ftyp", _video("MP4", "mp4", may_be_audio=True)),
        (rb"\x1a\x45\xdf\xa3", _video("WebM", "webm", may_be_audio=True)),
        (rb"RIFF.{4}AVI ", _video("AVI", "x-msvideo")),
        (rb"OggS\0.{0,500}theora", _video("Ogg", "ogg")),
        (rb"OggS\0", _audio("Ogg", "ogg")),
        (rb"\x1f\x8b", FileFormat(title="gzip archive", mime="application/gzip", problem=_PACKED)),
        (rb".{257}ustar", FileFormat(title="tar archive", mime="application/x-tar", problem=_PACKED)),
        (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\xfd7zXZ\0|\x28\xb5\x2f\xfd|BZh.1AY&SY", _ARCHIVE),
    )
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LOCKED = "EncryptedPackage".encode("utf-16-le")
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\r\f\x1b")) + b"\x7f"


def detect_format(content: bytes) -> FileFormat:
    if not content:
        return EMPTY
    head = content[:HEAD_BYTES]
    if head.startswith(_OLE):
        return _LOCKED_OFFICE if _LOCKED in content else _OLD_OFFICE
    known = next((form for pattern, form in _FORMATS if pattern.match(head)), None)
    if known is not None:
        return known
    if is_text(head):
        return TEXT
    if b"%PDF-" in head[:1024]:  # some programs write a few bytes before it
        return _PDF
    return _by_frames(head) or UNKNOWN


def is_text(head: bytes) -> bool:
    if head.startswith(_BOMS) or looks_like_utf16(head):
        return True
    controls = len(head) - len(head.translate(None, _CONTROLS))
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut off
    except UnicodeDecodeError:
        strange = sum(byte > 127 for byte in head[:4096])
        return not controls and strange * 10 <= 3 * len(head[:4096])  # text in an old western European encoding
    return controls * 100 <= len(head) and head.count(0) == 0


def looks_like_utf16(head: bytes) -> str:
    """Return the codec of UTF-16 text without a byte order mark, recognised by its zero bytes; empty for other text."""
    some = head[:1024]
    if len(some) < 4:
        return ""
    empty = (some[::2].count(0) * 2, some[1::2].count(0) * 2)
    if min(empty) * 20 > len(some) or max(empty) * 10 < 7 * len(some):
        return ""
    return "utf-16-be" if empty[0] > empty[1] else "utf-16-le"


def _by_frames(head: bytes) -> FileFormat | None:
    """Detect MPEG audio without a header, by its frames."""
    if len(head) < 4 or head[0] != 0xFF:
        return None
    if head[1] & 0xF6 == 0xF0:
        return _audio("AAC", "aac")
    layer, rate = head[1] >> 1 & 3, head[2] >> 4
    return _MP3 if head[1] & 0xE0 == 0xE0 and layer and rate not in (0, 15) else None


def measure_picture(mime: str, content: bytes) -> tuple[int, int]:
    """Return the width and height that a picture's header states; zeros when that is cut off or invalid."""
    try:
        match mime:
            case "image/png":
                width, height = struct.unpack_from(">II", content, 16) if content[12:16] == b"IHDR" else (0, 0)
            case "image/gif":
                width, height = struct.unpack_from("<HH", content, 6)
            case "image/webp":
                width, height = _measure_webp(content)
            case _:
                width, height = _measure_jpeg(content)
    except (struct.error, IndexError):
        return 0, 0
    return width, height


def _measure_webp(content: bytes) -> tuple[int, int]:
    """Return the size in the first chunk: that of the canvas, if there is one."""
    match content[12:16]:
        case b"VP8X":
            width, height = struct.unpack_from("<I", content, 24)[0], struct.unpack_from("<I", content, 26)[0]
            return (width & 0xFFFFFF) + 1, (height >> 8) + 1
        case b"VP8L":
            bits = struct.unpack_from("<I", content, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", content, 26)
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _measure_jpeg(content: bytes) -> tuple[int, int]:
    place = 2
    for _ in range(_MAX_SEGMENTS):
        marker = content[place + 1]
        if content[place] != 0xFF or marker == 0xDA:
            break
        if marker in _SIZES:
            height, width = struct.unpack_from(">HH", content, place + 5)
            return width, height
        place += 1 if marker == 0xFF else 2 + struct.unpack_from(">H", content, place + 2)[0]  # 0xFF: padding
    return 0, 0


def find_picture_problem(form: FileFormat, content: bytes, max_pixels: int) -> str:
    """Return why no model can be shown a picture; empty when one can."""
    width, height = measure_picture(form.mime, content)
    too_large = ""
    if not width * height:
        return "the picture is damaged"
    if width * height > max_pixels:
        too_large = f"has {width * height / 1_000_000:,.0f} million pixels"
    elif max(width, height) > MAX_SIDE_PIXELS:
        too_large = f"is wider or taller than {MAX_SIDE_PIXELS:,} pixels"
    elif len(content) > MAX_SHOWN_BYTES:
        too_large = f"is larger than {MAX_SHOWN_BYTES // 1_000_000} MB"
    return f"the picture {too_large}; please send a smaller one" if too_large else ""


def notice(files: Sequence[Media], *, sees: bool) -> str:
    """Return one line for each reason, naming the files; empty when all could be read."""
    named: dict[str, list[str]] = {}
    for file in files:
        if why := _describe_problem(file, sees=sees):
            named.setdefault(why, []).append(_name(file))
    lines = []
    for why, names in named.items():
        more = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
        *shown, last = [*names[:_MAX_NAMES], *more]
        lines.append(why.replace(_NAMES_PLACEHOLDER, f"{', '.join(shown)} and {last}" if shown else last))
    return "\n".join(lines)


def _describe_problem(file: Media, *, sees: bool) -> str:
    if file.sticker:
        return ""
    if file.problem:
        # Each file by itself, since the text says "it".
        who = _NAMES_PLACEHOLDER if file.problem.startswith(TOO_MANY) else _name(file)
        return f"I could not read {who}: {one_line(file.problem, 300)}."
    if file.partial:
        return f"I read only the beginning of {_NAMES_PLACEHOLDER}: it is longer than I can read at once."
    if file.is_voice and _OFFLINE in file.form:
        return (
            f"I have only the offline recogniser ({_OFFLINE}), which often errs. I heard: “{one_line(file.text, 300)}”"
        )
    if file.kind in _UNSUPPORTED and not file.text:
        return f"{_UNSUPPORTED[file.kind]}: I know of {_NAMES_PLACEHOLDER} only by name."
    if file.kind == "image" and not sees and not file.text:
        return f"{_NO_VISION}: it knows of {_NAMES_PLACEHOLDER} only by name."
    return ""


def _name(file: Media) -> str:
    return one_line(file.name, 100) or f"the {file.kind}"
