"""The operator's settings for commands."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalRules:
    timeout_seconds: float = 180
    max_timeout_seconds: float = 600
    min_check_interval_seconds: int = 30
    policy: Literal["risky", "unknown"] = "risky"  # the commands that need approval where nothing isolates
    allowlist: tuple[str, ...] = ()  # commands that need no approval
    sudo_password: str = field(default="", repr=False)  # for the owner's commands on this machine itself

    @property
    def longest_seconds(self) -> float:
        return max(self.timeout_seconds, self.max_timeout_seconds)
