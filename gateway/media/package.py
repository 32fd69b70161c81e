"""A zip file from which little is wanted: members are read as a stream, and no more of them than they may hold.

Runs in the child process. Names inside an archive are never used as paths.
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO, NoReturn
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from gateway.media.reading import LOCKED, Unreadable

MAX_UNPACKED_BYTES = 64_000_000  # over all members of one file
MAX_RATIO = 250  # the text of a document packs to a tenth, seldom to a fiftieth of its size
RATIO_COUNTS_FROM_BYTES = 2_000_000
MAX_TAG_BYTES = 1_000_000
SWELLS = "it unpacks to far more than a document of its size holds"
_CHUNK_BYTES = 65_536
_DAMAGED = "it is damaged"


class Package:
    """Raises Unreadable for what is damaged, locked or unpacks to far more than it is."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._zip = ZipFile(file)
        except (BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise Unreadable(_DAMAGED) from error
        self._members = {member.filename: member for member in self._zip.infolist()}
        self._unpacked_bytes = 0

    @property
    def members(self) -> list[ZipInfo]:
        return self._zip.infolist()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def names(self, beginning: str, ending: str) -> list[str]:
        """Members by the number in their name."""
        found = (name for name in self._members if name.startswith(beginning) and name.endswith(ending))
        return sorted(found, key=lambda name: (len(name), name))

    def chunks(self, name: str) -> Iterator[bytes]:
        member = self._members.get(name)
        if member is None:
            raise Unreadable(_DAMAGED)
        if member.flag_bits & 1:
            raise Unreadable(LOCKED)
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            # Of the others one small read may unpack to anything; no office program uses them.
            raise Unreadable("it is packed in an unusual way")
        unpacked = 0
        try:
            with self._zip.open(member) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    unpacked += len(chunk)
                    self._check(member, unpacked, len(chunk))
                    yield chunk
        except (BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
            raise Unreadable(_DAMAGED) from error

    def beginning(self, name: str, max_bytes: int) -> bytes:
        content = b""
        for chunk in self.chunks(name):
            content += chunk
            if len(content) >= max_bytes:
                break
        return content[:max_bytes]

    def parse(self, name: str, parser: "expat.XMLParserType") -> None:
        """Feeds a member to a parser that refuses entities of the document's own making."""
        parser.EntityDeclHandler = _refuse
        parser.ExternalEntityRefHandler = _refuse
        try:
            fed = 0
            for chunk in self.chunks(name):
                parser.Parse(chunk, False)
                fed += len(chunk)
                # What is not complete is looked at from its beginning again with every chunk.
                if fed - parser.CurrentByteIndex > MAX_TAG_BYTES:
                    raise Unreadable(SWELLS)
            parser.Parse(b"", True)
        except (expat.ExpatError, ValueError) as error:  # the latter: an encoding that is none
            raise Unreadable(_DAMAGED) from error

    def _check(self, member: ZipInfo, unpacked: int, more: int) -> None:
        self._unpacked_bytes += more
        swells = unpacked > RATIO_COUNTS_FROM_BYTES and unpacked > MAX_RATIO * member.compress_size
        if swells or self._unpacked_bytes > MAX_UNPACKED_BYTES:
            raise Unreadable(SWELLS)


def _refuse(*_declared: object) -> NoReturn:
    raise Unreadable("it declares entities of its own, which harmless documents do not")
