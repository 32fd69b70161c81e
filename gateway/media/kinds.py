"""Detect a file's format from its bytes alone, ignoring its name and what its sender says. Pure."""

import codecs
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.messages import Media
from tools.content import MediaKind, one_line

HEAD_BYTES = 65_536  # the only bytes examined, except for the lock mark of an old Office file
Way = Literal["", "text", "pdf", "zip"]
"""How to extract its text; empty when that is not possible."""


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
PDF = FileFormat(title="PDF document", mime="application/pdf", read_as="pdf")
ZIP = FileFormat(title="ZIP archive", mime="application/zip", read_as="zip")
OLD_OFFICE = FileFormat(
    title="old Office document",
    mime="application/x-ole-storage",
    problem=f"it is in an old Office format that cannot be read; {_NEWER}",
)
LOCKED_OFFICE = FileFormat(
    title="locked Office document",
    mime="application/x-ole-storage",
    problem="it is locked with a password; please send it without one",
)
RTF = FileFormat(title="RTF document", mime="application/rtf", problem=f"RTF cannot be read; {_NEWER}")
PNG = FileFormat(title="PNG picture", kind="image", mime="image/png")
JPEG = FileFormat(title="JPEG picture", kind="image", mime="image/jpeg")
GIF = FileFormat(title="GIF picture", kind="image", mime="image/gif")
WEBP = FileFormat(title="WebP picture", kind="image", mime="image/webp")
BMP = FileFormat(title="BMP picture", kind="image", mime="image/bmp", problem=_OTHER_PICTURE)
TIFF = FileFormat(title="TIFF picture", kind="image", mime="image/tiff", problem=_OTHER_PICTURE)
HEIC = FileFormat(title="HEIC picture", kind="image", mime="image/heic", problem=_OTHER_PICTURE)
AVIF = FileFormat(title="AVIF picture", kind="image", mime="image/avif", problem=_OTHER_PICTURE)
OGG = FileFormat(title="Ogg audio", kind="audio", mime="audio/ogg")
OGG_VIDEO = FileFormat(title="Ogg video", kind="video", mime="video/ogg")
MP3 = FileFormat(title="MP3 audio", kind="audio", mime="audio/mpeg")
AAC = FileFormat(title="AAC audio", kind="audio", mime="audio/aac")
WAV = FileFormat(title="WAV audio", kind="audio", mime="audio/wav")
FLAC = FileFormat(title="FLAC audio", kind="audio", mime="audio/flac")
AMR = FileFormat(title="AMR audio", kind="audio", mime="audio/amr")
M4A = FileFormat(title="M4A audio", kind="audio", mime="audio/mp4")
MP4 = FileFormat(title="MP4 video", kind="video", mime="video/mp4", may_be_audio=True)
WEBM = FileFormat(title="WebM video", kind="video", mime="video/webm", may_be_audio=True)
AVI = FileFormat(title="AVI video", kind="video", mime="video/x-msvideo")
GZIP = FileFormat(title="gzip archive", mime="application/gzip", problem=_PACKED)
TAR = FileFormat(title="tar archive", mime="application/x-tar", problem=_PACKED)
PACKED = FileFormat(title="archive", mime="application/octet-stream", problem=_PACKED)

_BEGINNINGS: tuple[tuple[bytes, FileFormat], ...] = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\0", TIFF),
    (b"MM\0*", TIFF),
    (b"%PDF-", PDF),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"{\\rtf", RTF),
    (b"ID3\x02", MP3),
    (b"ID3\x03", MP3),
    (b"ID3\x04", MP3),
    (b"fLaC", FLAC),
    (b"#!AMR", AMR),
    (b"\x1a\x45\xdf\xa3", WEBM),
    (b"\x1f\x8b", GZIP),
    (b"7z\xbc\xaf\x27\x1c", PACKED),
    (b"Rar!\x1a\x07", PACKED),
    (b"\xfd7zXZ\0", PACKED),
    (b"\x28\xb5\x2f\xfd", PACKED),
)
_RIFF = {b"WEBP": WEBP, b"WAVE": WAV, b"AVI ": AVI}
_BRANDS = {b"heic": HEIC, b"heix": HEIC, b"mif1": HEIC, b"msf1": HEIC, b"hevc": HEIC, b"avif": AVIF, b"avis": AVIF}
_AUDIO_BRANDS = (b"M4A ", b"M4B ", b"M4P ")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LOCKED = "EncryptedPackage".encode("utf-16-le")
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\r\f\x1b")) + b"\x7f"


def look(content: bytes) -> FileFormat:
    if not content:
        return EMPTY
    head = content[:HEAD_BYTES]
    if head.startswith(_OLE):
        return LOCKED_OFFICE if _LOCKED in content else OLD_OFFICE
    known = _by_beginning(head) or _by_container(head)
    if known is not None:
        return known
    if is_text(head):
        return TEXT
    if b"%PDF-" in head[:1024]:  # some programs write a few bytes before it
        return PDF
    return _by_frames(head) or UNKNOWN


def is_text(head: bytes) -> bool:
    if head.startswith(_BOMS):
        return True
    if looks_like_utf16(head):
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


def _by_beginning(head: bytes) -> FileFormat | None:
    return next((form for beginning, form in _BEGINNINGS if head.startswith(beginning)), None)


def _by_container(head: bytes) -> FileFormat | None:
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp" and head[0] == 0:
        brand = head[8:12]
        return _BRANDS.get(brand) or (M4A if brand in _AUDIO_BRANDS else MP4)
    if head.startswith(b"OggS\0"):
        return OGG_VIDEO if b"theora" in head[:512] else OGG
    if head[257:262] == b"ustar":
        return TAR
    if head.startswith(b"BZh") and head[4:10] == b"1AY&SY":
        return PACKED
    if head.startswith(b"BM") and len(head) >= 26 and head[6:10] == b"\0\0\0\0":
        return BMP
    return None


def _by_frames(head: bytes) -> FileFormat | None:
    """Detect MPEG audio without a header, by its frames."""
    if len(head) < 4 or head[0] != 0xFF:
        return None
    if head[1] & 0xF6 == 0xF0:
        return AAC
    layer, rate = head[1] >> 1 & 3, head[2] >> 4
    return MP3 if head[1] & 0xE0 == 0xE0 and layer and rate not in (0, 15) else None


_MAX_SEGMENTS = 2_000
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the JPEG segments that contain the size
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))


def pixels_of(mime: str, content: bytes) -> int:
    """Return the pixels of the largest picture in a file; 0 when its header is cut off or invalid."""
    sizes = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}[mime]
    try:
        found = [width * height for width, height in sizes(content)]
    except (struct.error, IndexError):
        return 0
    return max(found) if found and min(found) > 0 else 0


def _png(content: bytes) -> Iterator[tuple[int, int]]:
    if content[12:16] == b"IHDR":
        yield struct.unpack_from(">II", content, 16)


def _gif(content: bytes) -> Iterator[tuple[int, int]]:
    yield struct.unpack_from("<HH", content, 6)
    place = 13 + (3 << ((content[10] & 7) + 1) if content[10] & 0x80 else 0)
    for _ in range(_MAX_SEGMENTS):
        if content[place] == 0x2C:  # the first frame, which may be larger than the stated screen
            yield struct.unpack_from("<HH", content, place + 5)
            return
        if content[place] == 0x21:
            place += 2
        place += 1 + content[place]  # blocks of up to 255 bytes, the last of them empty


def _webp(content: bytes) -> Iterator[tuple[int, int]]:
    place = 12
    for _ in range(_MAX_SEGMENTS):
        name, size = content[place : place + 4], struct.unpack_from("<I", content, place + 4)[0]
        body = place + 8
        if name == b"VP8X":
            yield _three(content, body + 4) + 1, _three(content, body + 7) + 1
        elif name == b"ANMF":
            yield _three(content, body + 6) + 1, _three(content, body + 9) + 1
        elif name == b"VP8L":
            bits = struct.unpack_from("<I", content, body + 1)[0]
            yield (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        elif name == b"VP8 ":
            width, height = struct.unpack_from("<HH", content, body + 6)
            yield width & 0x3FFF, height & 0x3FFF
        place = body + size + (size & 1)
        if place + 8 > len(content):
            return


def _jpeg(content: bytes) -> Iterator[tuple[int, int]]:
    place = 2
    for _ in range(_MAX_SEGMENTS):
        if content[place] != 0xFF or (marker := content[place + 1]) == 0xDA:
            return
        if marker == 0xFF:  # padding
            place += 1
            continue
        if marker in _WITHOUT_LENGTH:
            place += 2
            continue
        if marker in _SIZES:
            height, width = struct.unpack_from(">HH", content, place + 5)
            yield width, height
        place += 2 + struct.unpack_from(">H", content, place + 2)[0]


def _three(content: bytes, place: int) -> int:
    return int.from_bytes(content[place : place + 3], "little")


TOO_MANY = "no more than"
"""Start of the problem text of files beyond a limit, which is reported once for all of them."""
_MAX_NAMES = 5
_UNSUPPORTED = {"audio": "I cannot listen to audio yet", "video": "I cannot watch videos yet"}
_NO_VISION = "The current model cannot see pictures"
_NAMES_PLACEHOLDER = "\0"  # placeholder for the names; never occurs in text


def notice(files: Sequence[Media], *, sees: bool) -> str:
    """Return one line for each reason, naming the files; empty when all could be read."""
    named: dict[str, list[str]] = {}
    for file in files:
        if why := _describe_problem(file, sees=sees):
            named.setdefault(why, []).append(_name(file))
    return "\n".join(_line(why, names) for why, names in named.items())


def _describe_problem(file: Media, *, sees: bool) -> str:
    if file.sticker:
        return ""
    if file.problem:
        who = (
            _NAMES_PLACEHOLDER if file.problem.startswith(TOO_MANY) else _name(file)
        )  # the text says "it", so one file each
        return f"I could not read {who}: {one_line(file.problem, 300)}."
    if file.partial:
        return f"I read only the beginning of {_NAMES_PLACEHOLDER}: it is longer than I can read at once."
    if file.kind in _UNSUPPORTED:
        return f"{_UNSUPPORTED[file.kind]}: I know of {_NAMES_PLACEHOLDER} only by name."
    return f"{_NO_VISION}: it knows of {_NAMES_PLACEHOLDER} only by name." if file.kind == "image" and not sees else ""


def _name(file: Media) -> str:
    return one_line(file.name, 100) or f"the {file.kind}"


def _line(why: str, names: Sequence[str]) -> str:
    more = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    shown = [*names[:_MAX_NAMES], *more]
    return why.replace(_NAMES_PLACEHOLDER, " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))))
