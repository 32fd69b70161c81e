"""What a provider wants back unchanged with a later request: signed thoughts and signed tool calls.

Kept in memory and bounded. After a restart the plain reasoning of the transcript has to do, which costs the
model some quality but never an error.
"""

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agent_core.conversation import Message

MAX_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepsake:
    reasoning_details: tuple[dict[str, Any], ...] = ()
    call_extras: tuple[dict[str, Any], ...] = ()  # one for each call


class Keepsakes:
    def __init__(self, limit: int = MAX_KEPT) -> None:
        self._limit = limit
        self._kept: OrderedDict[bytes, Keepsake] = OrderedDict()

    def keep(self, message: Message, keepsake: Keepsake) -> None:
        if not keepsake.reasoning_details and not any(keepsake.call_extras):
            return
        self._kept[_print_of(message)] = keepsake
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def of(self, message: Message) -> Keepsake:
        mark = _print_of(message)
        if mark not in self._kept:
            return Keepsake()
        self._kept.move_to_end(mark)
        return self._kept[mark]


def _print_of(message: Message) -> bytes:
    """By what was said: ids may have been made unique since."""
    said = [message.text.strip(), *(f"{call.name}\0{call.arguments}" for call in message.tool_calls)]
    return sha256("\0\0".join(said).encode("utf-8", "replace")).digest()
