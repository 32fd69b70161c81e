"""Choose where tools work: as the settings say for the owner in private, in their own sandbox for everybody else.

A conversation has one workplace per person, since the current folder and exported variables are theirs. In a group,
even the owner works in a sandbox, since the model reads what others write.
"""

import asyncio
import shutil
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from gateway.store.people import OWNER
from gateway.store.turns import Turn
from gateway.turns.shells import restore, save
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import BackendFailed, KeepShell, Workplace
from tools.workplaces import build_workplace, check_sandbox

log = structlog.get_logger()

_MAX_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplaces:
    home: Home
    terminal: TerminalSettings
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
        if not turn.is_with_owner:
            return self.workspace(turn)
        folder = Path(self.terminal.cwd).expanduser()
        if not self._is_local(turn) and self.home.root.is_relative_to(folder):
            return self.workspace(turn)  # no sandbox may contain our own home
        return folder

    def home_folder(self, turn: Turn) -> Path:
        """Return the folder that ~ means to their commands: in a sandbox, its own."""
        return Path.home() if self._is_local(turn) else self.folder(turn)

    async def _of(self, turn: Turn) -> Workplace:
        known = (turn.session_id, self._holder(turn))
        if known not in self._workplaces:
            self._workplaces[known] = await asyncio.to_thread(self._build, turn)
        self._workplaces.move_to_end(known)
        while len(self._workplaces) > _MAX_REMEMBERED:
            self._workplaces.popitem(last=False)
        return self._workplaces[known]

    def _build(self, turn: Turn) -> Workplace:
        if not self._is_local(turn):
            check_sandbox()
        folder, private = self.folder(turn), self._private(turn)
        built = build_workplace(self.terminal, folder, home=self.home, private=private, is_owner=turn.is_with_owner)
        file = self._shell(turn)
        return restore(replace(built, holder=self._holder(turn), keep_shell=_make_saver(file)), file)

    def _is_local(self, turn: Turn) -> bool:
        return turn.is_with_owner and self.terminal.backend == "local"

    def _private(self, turn: Turn) -> Path:
        # Separate: a command in the owner's sandbox of a group must not read their private files.
        return self.home.private / turn.holder / ("alone" if turn.is_with_owner else "box")

    def _shell(self, turn: Turn) -> Path:
        return self._private(turn) / "shells" / f"{turn.session_id}.json"

    def _holder(self, turn: Turn) -> str:
        """Return the owner of background processes, which stays the same after /new."""
        return f"{turn.session_key}/{turn.holder}{'' if turn.is_with_owner else '/box'}"


def workplace_here(terminal: TerminalSettings, home: Home, holder: str) -> Workplace:
    """Return a workplace for the terminal, in the current folder. Raises BackendFailed."""
    built = build_workplace(terminal, Path.cwd(), home=home, private=home.private / OWNER / "alone", is_owner=True)
    return replace(built, holder=holder)


def delete_folders(home: Home, person_ids: Iterable[str]) -> list[Path]:
    """Delete the workspaces of these people; return the folders that could not be deleted. Blocks."""
    folders = [parent / person for person in person_ids for parent in (home.workspaces, home.private)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder for folder in folders if folder.exists()]


def _make_saver(file: Path) -> KeepShell:
    """Return a function that saves the shell, one save at a time: the commands of a turn run side by side."""
    lock = asyncio.Lock()

    async def keep_shell(place: Workplace) -> None:
        async with lock:
            await asyncio.to_thread(save, replace(place, environment=dict(place.environment)), file)

    return keep_shell
