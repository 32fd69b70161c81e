"""Files replaced whole or not at all, readable by their owner alone."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hermes_config.errors import ConfigError


def replace_file(path: Path, text: str) -> None:
    """After a crash at any point the file is the old one or the new one; a link keeps pointing to its file."""
    target = Path(os.path.realpath(path))
    try:
        _replace(target, text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path} could not be written: {reason}. It is as it was.") from error


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Wait until no other process edits here: two at once would each drop what the other wrote."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f"{target.name}.tmp-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
