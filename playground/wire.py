"""JSON values as they travel between a platform server and a client, and the refusal of a call."""

import json
from typing import Any

Wire = dict[str, Any]


class ApiRefusal(Exception):
    """A call that the platform refuses; each platform has its own fields and wording."""


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def without(wire: Wire, *names: str) -> Wire:
    """Return a copy that lacks these fields."""
    return {key: value for key, value in wire.items() if key not in names}
