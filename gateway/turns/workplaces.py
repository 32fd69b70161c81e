"""Choose where tools work: as the settings say for the owner in private, in a workspace of their own for all others.

A conversation has one workplace per person, since the current folder and exported variables are theirs. In a group,
even the owner works as others do, since the model reads what others write.
"""

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from gateway.store.people import OWNER
from gateway.store.turns import Turn
from hermes_config.places import Home, make_private
from hermes_config.settings import TerminalSettings
from tools.backends.base import BackendFailed, KeepShell, Workplace
from tools.backends.usage import delete_tree
from tools.url_guard import UrlGuard
from tools.workplaces import build_workplace, check_sandbox, choose_folder, needs_sandbox, works_elsewhere

log = structlog.get_logger()

_MAX_REMEMBERED = 1_000
_MAX_SHELLS = 200  # stored for each person; older conversations start with a fresh shell
_PROFILE = "browser"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplaces:
    home: Home
    terminal: TerminalSettings
    guard: UrlGuard = field(default_factory=UrlGuard)
    _workplaces: OrderedDict[tuple[str, str], Workplace] = field(default_factory=OrderedDict)

    async def at(self, turn: Turn) -> Workplace | None:
        """Return the workplace of a turn as the last command there left it; None when it cannot be built."""
        try:
            return await self._of(turn)
        except BackendFailed as error:
            log.warning("no workplace", problem=str(error))
            return None

    def workspace(self, turn: Turn) -> Path:
        """Return the private folder of the sender."""
        return self.home.workspaces / turn.holder

    def folder(self, turn: Turn) -> Path:
        """Return the folder in which the sender's commands start."""
        if not turn.is_with_owner or not self.terminal.works_here:
            return self.workspace(turn)
        return choose_folder(self.terminal, Path(self.terminal.cwd).expanduser(), self.home)

    def home_folder(self, turn: Turn) -> Path:
        """Return the folder that ~ means to their commands: for others than the owner, their own."""
        return Path.home() if turn.is_with_owner and self.terminal.works_here else self.folder(turn)

    async def _of(self, turn: Turn) -> Workplace:
        known = (turn.session_id, self._holder(turn))
        if known not in self._workplaces:
            self._workplaces[known] = await asyncio.to_thread(self._build, turn)
        self._workplaces.move_to_end(known)
        while len(self._workplaces) > _MAX_REMEMBERED:
            self._workplaces.popitem(last=False)
        return self._workplaces[known]

    def _build(self, turn: Turn) -> Workplace:
        if needs_sandbox(self.terminal, is_owner=turn.is_with_owner):
            check_sandbox()
        built = build_workplace(
            self.terminal,
            self.folder(turn),
            home=self.home,
            private=self._private(turn),
            is_owner=turn.is_with_owner,
            holder=self._holder(turn),
            guard=self.guard,
        )
        file = self._private(turn) / "shells" / f"{turn.session_id}.json"
        is_guest = any(message.role == "guest" for message in turn.asked)
        profile = None if is_guest else self._private(turn) / _PROFILE
        return restore_shell(replace(built, keep_shell=_make_saver(file), profile=profile), file)

    async def fetch(self, turn: Turn, path: str, max_bytes: int) -> bytes | None:
        """Return a file of the sender's workplace if that is not on this machine. Raises FileRefused."""
        if not works_elsewhere(self.terminal, is_owner=turn.is_with_owner):
            return None
        place = await self._of(turn)
        return (await place.backend.files.read(place.locate(path), max_bytes=max_bytes)).content

    def _private(self, turn: Turn) -> Path:
        # Separate: a command in the owner's sandbox of a group must not read their private files.
        return self.home.private / turn.holder / ("alone" if turn.is_with_owner else "box")

    def _holder(self, turn: Turn) -> str:
        """Return the owner of background processes, which stays the same after /new."""
        return f"{turn.asked[-1].key.of_chat}/{turn.holder}{'' if turn.is_with_owner else '/box'}"


def workplace_here(
    terminal: TerminalSettings, home: Home, holder: str, guard: UrlGuard | None = None, *, folder: Path | None = None
) -> Workplace:
    """Return a workplace for the terminal, by default in the current folder. Raises BackendFailed."""
    folder = choose_folder(terminal, folder or Path.cwd(), home)
    private = home.private / OWNER / "alone"
    built = build_workplace(terminal, folder, home=home, private=private, is_owner=True, holder=holder, guard=guard)
    return replace(built, profile=private / _PROFILE)


def delete_folders(home: Home, person_ids: Iterable[str]) -> None:
    """Delete the workspaces and memory files of these people. Blocks.

    Raises OSError with the name of one that cannot be deleted.
    """
    for folder in (
        parent / person for person in person_ids for parent in (home.workspaces, home.private, home.memories)
    ):
        try:
            delete_tree(folder)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from error


def _make_saver(file: Path) -> KeepShell:
    """Return a function that saves the shell, one at a time: the commands of a turn run side by side."""
    lock = asyncio.Lock()

    async def keep_shell(place: Workplace) -> None:
        async with lock:
            await asyncio.to_thread(save_shell, replace(place, environment=dict(place.environment)), file)

    return keep_shell


def restore_shell(place: Workplace, file: Path) -> Workplace:
    """Return the workplace as the last command left it; unchanged when nothing is stored. Blocks."""
    try:
        left = json.loads(file.read_text(encoding="utf-8"))
        folder, exported = left["folder"], left["exported"]
    except FileNotFoundError:
        return place
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("shell not restored", problem=type(error).__name__)
        return place
    return replace(place, current_folder=str(folder), environment=dict(exported))


def save_shell(place: Workplace, file: Path) -> None:
    """Store the state of the shell. Blocks. A full disk loses it and nothing else."""
    left = {"folder": place.current_folder, "exported": place.environment}
    try:
        make_private(file.parent)
        new = file.with_suffix(".new")
        with open(new, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            json.dump(left, opened)
        new.replace(file)
        oldest_first = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
        for old in oldest_first[:-_MAX_SHELLS]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: half a surrogate pair cannot be encoded
        log.warning("shell not saved", problem=type(error).__name__)
