"""How much of its room a workspace uses. There are no quotas for folders, so it is counted."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_COUNTED = 300_000
_ENTRY_BYTES = 512  # an empty file is not free either


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceUse:
    folders: tuple[Path, ...]
    max_bytes: int

    def room_bytes(self) -> int:
        return max(0, self.max_bytes - self.used_bytes())

    def used_bytes(self) -> int:
        """On the disk, without following links; too many files to count are taken for too much."""
        used = counted = 0
        waiting = [str(folder) for folder in self.folders]
        while waiting:
            with suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    counted += 1
                    if counted > MAX_COUNTED:
                        return self.max_bytes + 1
                    with suppress(OSError):
                        used += entry.stat(follow_symlinks=False).st_blocks * 512 + _ENTRY_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        return used
