"""A plain handler: it may block, since it has a thread of its own."""

import json
from pathlib import Path

COUNTS = Path(__file__).parent / "counts.json"


def handle(event_type, context):
    counts = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    counts[context["command"]] = counts.get(context["command"], 0) + 1
    COUNTS.write_text(json.dumps(counts))
