"""Files below a few places, and their text, within limits."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

_MOST_FILES = 20_000
_MOST_BYTES = 4_000_000


def files_below(places: Iterable[Path]) -> Iterator[Path]:
    """The places that are there, and everything in them, folders too; links are not followed. So many at most."""
    return islice(_walk(places), _MOST_FILES)


def end_of(file: Path) -> bytes:
    """The last of a file: of a long log that is the news. Nothing of what is no ordinary file."""
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _MOST_BYTES))
        return opened.read(_MOST_BYTES)


def _walk(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if not place.exists() and not place.is_symlink():
            continue
        yield place
        if place.is_dir() and not place.is_symlink():
            for folder, folders, files in os.walk(place):
                yield from (Path(folder, name) for name in sorted((*folders, *files)))
