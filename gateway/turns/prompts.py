"""Builds the system prompt of a session when it begins and stores it, so that it never changes by a byte."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_core.prompt import MAX_LAYER_CHARS, PERSONALITIES, Layers, build_prompt
from gateway.store import sessions
from gateway.store.db.database import Database
from tools.base import Tool
from tools.content import Part

log = structlog.get_logger()


async def _recall_nothing(session_id: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    db: Database
    soul: Path  # SOUL.md in the home: how the agent should be
    project: Path  # the folder whose AGENTS.md is read
    hints: Mapping[str, str]  # by account: describes the platform to the agent
    user_name: str = ""
    user_timezone: str = ""
    recall: Callable[[str], Awaitable[str]] = _recall_nothing  # what is remembered, for the prompt of a session
    list_skills: Callable[[], str] = lambda: ""

    async def fix(
        self,
        session_id: str,
        account: str,
        tools: Sequence[Tool],
        *,
        with_owner: bool = True,
        personality: str = "",
    ) -> tuple[Part, ...]:
        """Build and store the prompt of a session. The profile in the settings goes only to the owner's sessions.

        Without a chosen personality, SOUL.md says how the agent should be.
        """
        # Without the tool the model could neither search for the rest nor change anything.
        known = await self.recall(session_id) if any(tool.name == "memory" for tool in tools) else ""
        built = await asyncio.to_thread(self._build, account, tools, with_owner, personality, known)
        return await self.db.write_when_possible(lambda tx: sessions.fix_prompt(tx, session_id, built))

    def _build(
        self, account: str, tools: Sequence[Tool], with_owner: bool, personality: str, memory: str
    ) -> tuple[Part, ...]:
        return build_prompt(
            Layers(
                personality=PERSONALITIES.get(personality) or read_text(self.soul),
                tools=tuple(tool.name for tool in tools),
                user_name=self.user_name if with_owner else "",
                user_timezone=self.user_timezone if with_owner else "",
                memory=memory,
                skills=self.list_skills() if any(tool.name == "skill_view" for tool in tools) else "",
                platform_hint=self.hints.get(account, ""),
                project=read_text(self.project / "AGENTS.md"),
            )
        )


def read_text(file: Path) -> str:
    """Return a file of the prompt, as much of it as a layer takes; empty when there is none."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MAX_LAYER_CHARS + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        log.warning("prompt file not read", file=file.name, problem=error.strerror)
        return ""
