"""What was given with a call, by name, whichever way it came."""

import json
from collections.abc import Mapping
from typing import Any


class Given:
    """Values arrive as strings or, from JSON, as themselves; servers do not mind which."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if isinstance(value, str):
            return value
        return "" if value is None else json.dumps(value)

    def integer(self, name: str, default: int = 0) -> int:
        try:
            return int(self.text(name))
        except ValueError:
            return default
