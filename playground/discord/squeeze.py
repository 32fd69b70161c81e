"""The two ways in which a gateway connection is compressed: one stream for all its messages."""

import importlib
import zlib
from collections.abc import Callable

Squeeze = Callable[[bytes], bytes]


def squeezer(kind: str) -> Squeeze | None:
    """None for a connection of plain text. Raises ValueError for what is not known here."""
    match kind:
        case "":
            return None
        case "zlib-stream":
            return _zlib()
        case "zstd-stream":
            return _zstd()
    raise ValueError(f"unknown compression {kind!r}")


def _zlib() -> Squeeze:
    stream = zlib.compressobj()
    return lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


def _zstd() -> Squeeze:
    """A bot asks for it only where Python has it (3.14 and later), or the package `zstandard`."""
    try:
        zstd = importlib.import_module("compression.zstd")
    except ImportError:
        try:
            package = importlib.import_module("zstandard")
        except ImportError as error:
            raise ValueError("zstd-stream is not available here") from error
        packed = package.ZstdCompressor().compressobj()
        block = package.COMPRESSOBJ_FLUSH_BLOCK
        return lambda data: bytes(packed.compress(data) + packed.flush(block))
    stream = zstd.ZstdCompressor()
    return lambda data: bytes(stream.compress(data, stream.FLUSH_BLOCK))
