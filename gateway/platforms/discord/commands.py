"""Our commands as Discord's slash commands. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.platforms.discord.parsing import OPTION

_NAME = re.compile(r"[a-z0-9_-]{1,32}")
_MAX_DESCRIPTION_CHARS = 100
_MAX_COMMANDS = 100
_CHAT_INPUT, _STRING = 1, 3
_COMPARED = ("name", "description")


def menu_of(commands: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Those that have a description; each takes whatever may stand behind its name."""
    option = {"type": _STRING, "name": OPTION, "description": "What to say with it", "required": False}
    return [
        {
            "type": _CHAT_INPUT,
            "name": name,
            "description": description[:_MAX_DESCRIPTION_CHARS],
            "options": [option],
        }
        for name, description in commands
        if description and _NAME.fullmatch(name)
    ][:_MAX_COMMANDS]


def is_shown(menu: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> bool:
    """Discord adds fields of its own, and leaves out what has its usual value."""
    return sorted(map(_essence, menu)) == sorted(map(_essence, shown))


def _essence(command: Mapping[str, Any]) -> tuple[str, ...]:
    options = [f"{each.get('type')} {each.get('name')} {bool(each.get('required'))}" for each in _options(command)]
    return (*(str(command.get(field)) for field in _COMPARED), *options)


def _options(command: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return command.get("options") or ()
