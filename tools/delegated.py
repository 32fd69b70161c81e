"""Types for work that a tool hands to other models: delegated tasks, and a panel of models."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.base import Tool, ToolContext

TaskStatus = Literal["completed", "partial", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedTask:
    goal: str
    context: str = ""
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedResult:
    """The end of a task; only this returns to the agent that gave it."""

    status: TaskStatus
    summary: str
    problem: str = ""  # why it is partial or failed
    files_written: tuple[str, ...] = ()
    tools_used: int = 0
    tokens: int = 0


Delegate = Callable[[Sequence[DelegatedTask], ToolContext], Awaitable[Sequence[DelegatedResult]]]
"""Has the tasks of a call done, at once as far as there is room; returns the results in their order."""

Ask = Callable[[str], Awaitable[str]]
"""Asks a model a question; raises an exception whose text is for people when it cannot answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Models that are asked the same question, and one that makes an answer of theirs."""

    models: Mapping[str, Ask]
    aggregator: Ask
