"""Remember the input of each background process, so that no command evades the check in pieces. In memory."""

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

MAX_CHARS = 20_000
_MAX_KEPT = 1_000
_ERASE = "\x7f\x08"
_CLEAR = "\x03\x15"  # Ctrl-C and Ctrl-U clear the line
_KEYS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\t]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sofar:
    text: str = ""
    is_whole: bool = True  # False after an approval or an overflow dropped earlier input


class Typed:
    def __init__(self) -> None:
        self._sofar: OrderedDict[str, Sofar] = OrderedDict()
        self._expected: OrderedDict[tuple[str, str], Sofar] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def sofar(self, process_id: str) -> Sofar:
        return self._sofar.get(process_id, Sofar())

    def expect(self, process_id: str, call_id: str, after: Sofar) -> None:
        """Store the input that a process will have received once this call has sent its text."""
        self._expected[process_id, call_id] = after
        while len(self._expected) > _MAX_KEPT:
            self._expected.popitem(last=False)

    def sent(self, process_id: str, call_id: str) -> None:
        if (after := self._expected.pop((process_id, call_id), None)) is not None:
            self._sofar[process_id] = after
            self._sofar.move_to_end(process_id)
        while len(self._sofar) > _MAX_KEPT:
            self._sofar.popitem(last=False)

    def turn_of(self, process_id: str) -> asyncio.Lock:
        """Return the lock to hold from check to send: two halves sent at once would each be checked alone."""
        lock = self._locks.get(process_id)
        if lock is None:
            lock = self._locks[process_id] = asyncio.Lock()
        return lock


def as_lines(keys: str) -> tuple[str, bool]:
    """Return the lines that keys produce in a terminal, and whether that is certain: with arrows or Tab it is not."""
    lines = [""]
    is_known = True
    for key in keys:
        if key in "\r\n":
            lines.append("")
        elif key in _ERASE:
            lines[-1] = lines[-1][:-1]
        elif key in _CLEAR:
            lines[-1] = ""
        elif _KEYS.match(key):
            is_known = is_known and key == "\x04"  # end of input types nothing
        else:
            lines[-1] += key
    return "\n".join(lines), is_known
