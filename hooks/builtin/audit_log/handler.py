"""Append every event as a line of JSON to logs/audit.jsonl of the home."""

import json
import os
from datetime import UTC, datetime
from typing import Any

from hermes_config.places import Home, make_private

_MAX_BYTES = 10_000_000  # then it becomes audit.jsonl.1


def handle(event_type: str, context: dict[str, Any]) -> None:
    """Write the event, its time and its context."""
    file = Home.locate().logs / "audit.jsonl"
    make_private(file.parent)
    row = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event_type, "context": context}
    with open(file, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
        opened.write(json.dumps(row, ensure_ascii=False) + "\n")
        is_full = opened.tell() > _MAX_BYTES
    if is_full:
        file.replace(file.with_suffix(".jsonl.1"))
