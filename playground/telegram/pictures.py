"""What the server makes of an upload that is to be a photo."""

import struct

from playground.telegram.rules import bad_request

_MAX_PHOTO_BYTES = 10 * 1024 * 1024
_MAX_SIDES = 10_000
_MAX_RATIO = 20
_PNG = b"\x89PNG\r\n\x1a\n"
_PICTURES = (_PNG, b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")


def check_photo(content: bytes) -> None:
    """Raises what is said of a file that is no picture, or too large or too long a one; of PNGs the size is known."""
    if len(content) > _MAX_PHOTO_BYTES:
        raise bad_request("too big for a photo")
    if not content.startswith(_PICTURES):
        raise bad_request("IMAGE_PROCESS_FAILED")
    if content.startswith(_PNG):
        try:
            width, height = struct.unpack_from(">II", content, 16)
        except struct.error:
            raise bad_request("IMAGE_PROCESS_FAILED") from None
        if not 0 < width + height <= _MAX_SIDES or max(width, height) > _MAX_RATIO * min(width, height):
            raise bad_request("PHOTO_INVALID_DIMENSIONS")
