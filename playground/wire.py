"""What every platform server says to a client: JSON values, or a refusal."""

import json
from typing import Any

Wire = dict[str, Any]


class Refused(Exception):
    """A platform's answer when it does not do what it was asked; each platform has its own words."""


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
