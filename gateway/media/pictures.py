"""How large a picture is, by its header: no pixel is ever unpacked here. Pure."""

import struct
from collections.abc import Iterator

_MAX_SEGMENTS = 2_000
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the JPEG segments that tell it
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))


def pixels_of(mime: str, content: bytes) -> int:
    """Its pixels, of the largest picture that it says to hold; 0 when the header is cut or makes no sense."""
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
        if content[place] == 0x2C:  # the first frame, which may be larger than the screen it is for
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
        if marker == 0xFF:  # filled up with them
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
