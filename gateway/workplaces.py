"""Who works where: the owner, alone with us, as the settings say; everybody else in a sandbox of their own.

A conversation has a workplace for each person in it, since the current folder and what was exported are theirs. In a
group even the owner works in a sandbox: others write there too, and what they write is read along.
"""

import asyncio
import hashlib
import shutil
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from gateway.store.people import OWNER
from gateway.store.turns import Turn
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import BackendFailed, Workplace
from tools.backends.sandbox import SandboxProblem, find_features
from tools.workplaces import build_workplace

log = structlog.get_logger()

_MAX_KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplaces:
    home: Home
    terminal: TerminalSettings
    _kept: OrderedDict[str, Workplace] = field(default_factory=OrderedDict)

    async def of(self, turn: Turn) -> Workplace | None:
        """The same for each turn of one person in a conversation; None where there can be none."""
        person = _who(turn)
        holder = f"{turn.session_key}/{person}{'' if turn.is_with_owner else '/sandbox'}"
        place = self._kept.get(holder)
        if place is None:
            try:
                built = await asyncio.to_thread(self._build, turn, person)
            except BackendFailed as error:
                log.warning("no workplace", problem=str(error))
                return None
            place = self._kept.setdefault(holder, replace(built, holder=holder))
        self._kept.move_to_end(holder)
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return place

    def workspace(self, turn: Turn) -> Path:
        """The folder that is shared with the person who asks, and with nobody else."""
        return self.home.workspaces / _who(turn)

    def _build(self, turn: Turn, person: str) -> Workplace:
        is_local = turn.is_with_owner and self.terminal.backend == "local"
        folder = Path(self.terminal.cwd).expanduser() if turn.is_with_owner else self.workspace(turn)
        if not is_local:
            _check_sandboxes()
            if self.home.root.is_relative_to(folder):
                folder = self.workspace(turn)  # no sandbox may hold our own home
        return build_workplace(
            self.terminal, folder, home=self.home, private=self.home.private / person, is_owner=turn.is_with_owner
        )


def workplace_here(terminal: TerminalSettings, home: Home, holder: str) -> Workplace:
    """For whoever sits at the terminal: the folder they are in. Raises BackendFailed."""
    built = build_workplace(terminal, Path.cwd(), home=home, private=home.private / OWNER, is_owner=True)
    return replace(built, holder=holder)


def delete_folders(home: Home, person_ids: Iterable[str]) -> list[Path]:
    """All that these people have made in their sandboxes; gives what could not be deleted. Blocks."""
    folders = [parent / person for person in person_ids for parent in (home.workspaces, home.private)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder for folder in folders if folder.exists()]


def _check_sandboxes() -> None:
    try:
        find_features()
    except SandboxProblem as error:
        raise BackendFailed(str(error)) from error


def _who(turn: Turn) -> str:
    """The person who asks, as the name of a folder. What several have asked together is nobody's own: the chat's."""
    people = {message.person_id for message in turn.asked}
    if len(people) == 1 and (person := people.pop()):
        return person
    return f"chat-{hashlib.sha256(turn.session_key.encode()).hexdigest()[:16]}"
