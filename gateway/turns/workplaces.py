"""Who works where: the owner, alone with us, as the settings say; everybody else in a sandbox of their own.

A conversation has a workplace for each person in it, since the current folder and what was exported are theirs. In a
group even the owner works in a sandbox: others write there too, and what they write is read along.
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
from gateway.turns.shells import keep, restored
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import BackendFailed, KeepShell, Workplace
from tools.backends.sandbox import SandboxProblem, find_features
from tools.workplaces import build_workplace

log = structlog.get_logger()

_MAX_KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplaces:
    home: Home
    terminal: TerminalSettings
    _kept: OrderedDict[tuple[str, str], Workplace] = field(default_factory=OrderedDict)

    async def at(self, turn: Turn) -> Workplace | None:
        """As the last command of that person in this conversation left it; None where there can be none."""
        try:
            return await self._of(turn)
        except BackendFailed as error:
            log.warning("no workplace", problem=str(error))
            return None

    def workspace(self, turn: Turn) -> Path:
        """The folder that is shared with the person who asks, and with nobody else."""
        return self.home.workspaces / turn.holder

    def folder(self, turn: Turn) -> Path:
        """Where whoever asks works, and their commands begin."""
        if not turn.is_with_owner:
            return self.workspace(turn)
        folder = Path(self.terminal.cwd).expanduser()
        if not self._is_local(turn) and self.home.root.is_relative_to(folder):
            return self.workspace(turn)  # no sandbox may hold our own home
        return folder

    def home_folder(self, turn: Turn) -> Path:
        """What ~ means to their commands: in a sandbox there is no other home than its folder."""
        return Path.home() if self._is_local(turn) else self.folder(turn)

    async def _of(self, turn: Turn) -> Workplace:
        known = (turn.session_id, self._holder(turn))
        if known not in self._kept:
            self._kept[known] = await asyncio.to_thread(self._build, turn)
        self._kept.move_to_end(known)
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return self._kept[known]

    def _build(self, turn: Turn) -> Workplace:
        if not self._is_local(turn):
            _check_sandboxes()
        folder, private = self.folder(turn), self._private(turn)
        built = build_workplace(self.terminal, folder, home=self.home, private=private, is_owner=turn.is_with_owner)
        file = self._shell(turn)
        return restored(replace(built, holder=self._holder(turn), keep_shell=_keeping(file)), file)

    def _is_local(self, turn: Turn) -> bool:
        return turn.is_with_owner and self.terminal.backend == "local"

    def _private(self, turn: Turn) -> Path:
        # Apart: whoever gets the owner's sandbox in a group to do something must not read what was done alone.
        return self.home.private / turn.holder / ("alone" if turn.is_with_owner else "box")

    def _shell(self, turn: Turn) -> Path:
        return self._private(turn) / "shells" / f"{turn.session_id}.json"

    def _holder(self, turn: Turn) -> str:
        """After `/new`, too, whoever started a process can look after it."""
        return f"{turn.session_key}/{turn.holder}{'' if turn.is_with_owner else '/box'}"


def workplace_here(terminal: TerminalSettings, home: Home, holder: str) -> Workplace:
    """For whoever sits at the terminal: the folder they are in. Raises BackendFailed."""
    built = build_workplace(terminal, Path.cwd(), home=home, private=home.private / OWNER / "alone", is_owner=True)
    return replace(built, holder=holder)


def delete_folders(home: Home, person_ids: Iterable[str]) -> list[Path]:
    """All that these people have made in their sandboxes; gives what could not be deleted. Blocks."""
    folders = [parent / person for person in person_ids for parent in (home.workspaces, home.private)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder for folder in folders if folder.exists()]


def _keeping(file: Path) -> KeepShell:
    """One after the other: commands of a turn run side by side."""
    lock = asyncio.Lock()

    async def keep_shell(place: Workplace) -> None:
        async with lock:
            await asyncio.to_thread(keep, replace(place, environment=dict(place.environment)), file)

    return keep_shell


def _check_sandboxes() -> None:
    try:
        find_features()
    except SandboxProblem as error:
        raise BackendFailed(str(error)) from error
