"""A disk that is full after a few megabytes."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CHUNK = b"\0" * 4096


class SmallDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, *, leave_bytes: int = 0) -> None:
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(_CHUNK)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            os.truncate(self._filler, max(0, file.tell() - leave_bytes))

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(root: Path, *, megabytes: int) -> Iterator[SmallDisk]:
    root.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "hermes-test", str(root)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs to mount a tmpfs: run as root")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)
