"""All events and their contexts: the public contract with hooks. docs/hooks.md describes each field.

A context is plain data (it survives JSON). Fields may be added; none is renamed or removed. Texts are cut at
MAX_TEXT_CHARS and secrets in them are hidden.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

MAX_TEXT_CHARS = 500
TOOL_BEFORE = "tool:before"


_SESSION = ("platform", "session_key", "session_id", "user_id")
_AGENT = (*_SESSION, "message")
_PAIRING = ("platform", "user_id", "chat", "role")
# What each event says, and the fields of its context.
EVENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gateway:startup": ("The gateway serves.", ("home", "pid", "accounts")),
    "gateway:shutdown": ("The gateway begins to stop.", ("home", "pid", "accounts")),
    "session:start": ("A conversation begins.", _SESSION),
    "session:end": ("A conversation ended.", (*_SESSION, "reason")),
    "session:reset": ("A conversation ended and the next message begins another.", (*_SESSION, "reason")),
    "session:compress": ("A conversation was summarised.", (*_SESSION, "tokens_before", "tokens_after")),
    "agent:start": ("A turn begins.", _AGENT),
    "agent:step": ("All tools of one model call have run.", (*_AGENT, "iteration", "tool_names", "results")),
    "agent:end": ("A turn ended.", (*_AGENT, "response", "outcome")),
    TOOL_BEFORE: ("A tool is about to be called. A hook may object.", (*_SESSION, "tool", "arguments")),
    "command:*": (
        "A slash command was carried out; the event has its name, as in command:new.",
        (*_AGENT, "command", "args"),
    ),
    "process:exit": ("A background process ended.", (*_SESSION, "process_id", "command", "exit_code")),
    "cron:run": ("A scheduled job ran.", (*_SESSION, "job", "outcome")),
    "pairing:request": ("A stranger asked for access.", _PAIRING),
    "pairing:approved": ("Somebody was given access.", _PAIRING),
}
_EXAMPLES: Mapping[str, Any] = {
    "home": "",
    "pid": 4242,
    "accounts": ["telegram"],
    "platform": "telegram",
    "session_key": "telegram:dm:123456",
    "session_id": "20260322_124359_6b542f4e",
    "user_id": "123456",
    "message": "hello",
    "reason": "new",
    "tokens_before": 90_000,
    "tokens_after": 12_000,
    "iteration": 1,
    "tool_names": ["terminal"],
    "results": ['{"output": "notes.txt", "exit_code": 0}'],
    "response": "Hello! How can I help?",
    "outcome": "answered",
    "tool": "terminal",
    "arguments": '{"command": "ls"}',
    "command": "new",
    "args": "",
    "process_id": "p1",
    "exit_code": 0,
    "job": "Daily",
    "chat": "123456",
    "role": "member",
}


def is_event(pattern: str) -> bool:
    """Return whether a pattern of a hook can match any event."""
    return any(fnmatchcase(event, pattern) or fnmatchcase(pattern, event) for event in EVENTS)


def matches(pattern: str, event: str) -> bool:
    return fnmatchcase(event, pattern)


def cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def make_example(pattern: str) -> tuple[str, dict[str, Any]]:
    """Return an event that a pattern matches, and a context for it; raises KeyError when there is none."""
    known = next((event for event in EVENTS if fnmatchcase(event, pattern) or fnmatchcase(pattern, event)), None)
    if known is None:
        raise KeyError(pattern)
    event = (pattern if "*" not in pattern else known).replace("*", "new")
    return event, {name: _EXAMPLES[name] for name in EVENTS[known][1]}
