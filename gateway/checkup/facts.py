"""All that the checks are told: gathered once, so that a check is a plain function of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.checkup.finding import Finding
from gateway.store.look import Look
from gateway.store.pairing import Overview
from hermes_config.load import Loaded
from hermes_config.places import Home
from hermes_config.settings import Settings


class Unknown(Exception):
    """A check asked for what could not be found out. Another check tells why, so this one is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    home: Home
    now_ms: int
    user_id: int = 1000  # of this process
    home_problem: str = ""
    config_problem: str = ""  # one a line
    loaded: Loaded | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # those that are set, by variable
    variables: frozenset[str] = frozenset()  # the names of what is set in the environment
    gateway: Mapping[str, Any] | None = None  # what the running one tells; None when there is none
    store_problem: str = ""
    look: Look | None = None
    backup_ms: tuple[int, ...] = ()  # when each was taken, the newest first
    units: tuple[Path, ...] = ()  # systemd's files about us
    lingers: bool = False  # whether services of this user go on without a login
    sandbox_problem: str = ""
    has_ripgrep: bool = True
    free_bytes: int | None = None  # on the disk of the home
    unseen: tuple[Finding, ...] = ()  # what could not be looked at

    @property
    def settings(self) -> Settings:
        if self.loaded is None:
            raise Unknown("settings")
        return self.loaded.settings

    @property
    def access(self) -> Overview:
        if self.look is None or self.look.access is None:
            raise Unknown("people")
        return self.look.access
