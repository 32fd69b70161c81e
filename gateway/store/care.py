"""How the database file is looked after."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    backups: Path
    backups_kept: int = 7
    upgrade_backups_kept: int = 2
    full_check_max_mb: int = 256  # a larger file gets the quick check alone
    busy_timeout_seconds: float = 5.0
