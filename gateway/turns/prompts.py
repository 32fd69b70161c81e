"""Builds the system prompt of a session when it begins and stores it, so that it never changes by a byte."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_core.prompt import MAX_LAYER_CHARS, Layers, build_prompt
from gateway.store import sessions
from gateway.store.db.database import Database
from tools.base import Tool
from tools.content import Part

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    db: Database
    soul: Path  # SOUL.md in the home: how the agent should be
    project: Path  # the folder whose AGENTS.md is read
    hints: Mapping[str, str]  # by account: describes the platform to the agent
    user_name: str = ""
    user_timezone: str = ""

    async def fix(
        self, session_id: str, account: str, tools: Sequence[Tool], *, with_owner: bool = True
    ) -> tuple[Part, ...]:
        """Build and store the prompt of a session. The profile in the settings goes only to the owner's sessions."""
        built = await asyncio.to_thread(self._build, account, tools, with_owner)
        return await self.db.write_when_possible(lambda tx: sessions.fix_prompt(tx, session_id, built))

    def _build(self, account: str, tools: Sequence[Tool], with_owner: bool) -> tuple[Part, ...]:
        return build_prompt(
            Layers(
                personality=_read_text(self.soul),
                tools=tuple(tool.name for tool in tools),
                user_name=self.user_name if with_owner else "",
                user_timezone=self.user_timezone if with_owner else "",
                platform_hint=self.hints.get(account, ""),
                project=_read_text(self.project / "AGENTS.md"),
            )
        )


def _read_text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MAX_LAYER_CHARS + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        log.warning("prompt file not read", file=file.name, problem=error.strerror)
        return ""
