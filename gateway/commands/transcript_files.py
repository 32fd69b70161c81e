"""Conversations as files for people and programs: Markdown or JSON."""

import json
from collections.abc import Sequence
from typing import Literal, get_args

from gateway.clock import for_people
from gateway.store.sessions import Session
from gateway.store.transcripts import TranscriptEntry

TranscriptFormat = Literal["md", "json"]
FORMATS: tuple[TranscriptFormat, ...] = get_args(TranscriptFormat)


def render_transcript(session: Session, entries: Sequence[TranscriptEntry], form: TranscriptFormat) -> str:
    """Return the whole file."""
    if form == "json":
        return json.dumps(_to_json(session, entries), ensure_ascii=False, indent=2) + "\n"
    lines = [f"# {session.title or session.id}", "", f"{session.key}, begun {for_people(session.created_ms)}"]
    for entry in entries:
        lines += ["", *_to_markdown(entry)]
    return "\n".join(lines) + "\n"


def _to_json(session: Session, entries: Sequence[TranscriptEntry]) -> dict[str, object]:
    from agent_core.openai_format import message_to_openai  # loads what lists of conversations do not need

    return {
        "id": session.id,
        "key": session.key,
        "title": session.title,
        "created_ms": session.created_ms,
        "messages": [
            {"created_ms": entry.created_ms, "undone": entry.is_undone}
            | message_to_openai(entry.message, with_reasoning=True)
            for entry in entries
        ],
    }


def _to_markdown(entry: TranscriptEntry) -> list[str]:
    message = entry.message
    names = {"user": "You", "assistant": "Hermes", "tool": f"Result of {message.tool_name}"}
    undone = ", undone" if entry.is_undone else ""
    lines = [f"**{names.get(message.role, message.role)}** ({for_people(entry.created_ms)}{undone})", ""]
    if message.role == "tool":
        return [*lines, *(f"    {line}" for line in message.text.splitlines())]  # a code block that nothing can close
    lines += [message.text] if message.text else []
    return [*lines, *(f"`{call.name}` {call.arguments}" for call in message.tool_calls)]
