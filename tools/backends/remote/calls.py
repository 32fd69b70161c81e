"""Calls of the helper that runs in a remote place: how one is written, and how its answer is read."""

import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tools.backends.base import BackendFailed

HELPER = "HERMES_HELPER"
SHORT_CALL_SECONDS = 60.0
_CONNECTION_LOST = (
    "The connection to {place} was cut, so the outcome of the command is unknown. Check before you repeat it."
)


class PlaceFailed(BackendFailed):
    """The place cannot be used now; the text says why, and `fix` what the operator can do."""

    def __init__(self, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.fix = fix


class PlaceGone(PlaceFailed):
    """The place is not there, so nothing runs in it. It can be made again."""


class CallRefused(Exception):
    """The helper did not do what was asked; its text is one of the helper's words."""


@dataclass(slots=True, kw_only=True)
class Place:
    """Where the commands of a backend run, and how they get there. All methods raise PlaceFailed."""

    name: str = ""
    label: str = ""  # that all places of one home have
    title: str = ""  # for people
    network: bool = False
    is_owners: bool = True
    idle_seconds: int = 900

    state: ClassVar[str] = "/tmp/.hermes"  # noqa: S108  # the folder there for the helper's files
    notices_disconnect: ClassVar[bool] = True  # the input of a call ends when we do

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the values, for JSON, by which a later run of ours reaches the same place."""
        return {"name": self.name}

    async def call(self, call: bytes, seconds: float) -> bytes:
        """Run the helper with this input; return its output. Raises PlaceGone where there is nothing to run it in."""
        raise NotImplementedError

    async def make(self) -> None:
        """Make the place, or start it again, if it is not there. Another process may be doing that just now."""

    async def remove(self, *, with_files: bool = False) -> None:
        """Remove the place and what runs in it; with its files, if it keeps them apart."""

    async def remove_all(self, *, with_files: bool) -> int:
        """Remove all places of this home; return how many there were."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperAnswer:
    """An answer of the helper: facts by the first word of their line, and sections of bytes."""

    facts: Mapping[str, Sequence[str]]
    sections: Mapping[str, bytes]


@cache
def helper_argv() -> tuple[str, ...]:
    """Return the program that a place runs for each call. The helper is in a variable, so that `ps` does not show it,
    and on one line, since the login shell of another machine may be any."""
    text = Path(__file__).with_name("helper.sh").read_text(encoding="ascii")
    return ("env", f"{HELPER}={_escape(text).decode()}", "sh", "-c", f'eval "$(printf %b "${HELPER}")"')


async def ask(
    place: Place,
    op: str,
    values: Mapping[str, str | int],
    *,
    functions: str = "",
    data: bytes = b"",
    seconds: float = SHORT_CALL_SECONDS,
) -> HelperAnswer:
    """Have the helper do something. `functions` are definitions in sh, `data` follows the call, `seconds` is how long
    it may take. Raises CallRefused, PlaceFailed."""
    nonce = secrets.token_hex(16)
    given = {"op": op, "nonce": nonce, "S": place.state, "data": len(data), **values}
    text = "\n".join(f"{name}={shlex.quote(str(value))}" for name, value in given.items())
    output = await place.call(_escape(f"{text}\n{functions}") + b"\n" + data, seconds)
    return _read_answer(output, nonce, place)


def _escape(text: str) -> bytes:
    """Write a text for printf's %b on one line of ASCII: some shells cannot read other bytes."""
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise BackendFailed("The command was not run: it contains a NUL.")
    kept = {ord("\\"): b"\\\\", ord("\n"): b"\\n"}
    return b"".join(kept.get(byte) or (bytes([byte]) if byte < 128 else b"\\0%03o" % byte) for byte in raw)


def _read_answer(output: bytes, nonce: str, place: Place) -> HelperAnswer:
    _, *parts = output.split(f"\n{nonce} ".encode())  # before the first there may be a greeting of the machine
    sections: dict[str, bytes] = {}
    for part in parts:
        heading, _, content = part.partition(b"\n")
        name, _, rest = heading.decode("utf-8", "replace").partition(" ")
        if name == "fail":
            raise CallRefused(rest)
        if name == "end":
            lines = sections.pop("begin").decode("utf-8", "replace").splitlines()
            facts = {word: rest for word, *rest in map(str.split, filter(None, lines))}
            return HelperAnswer(facts=facts, sections=sections)
        sections[name] = content
    raise PlaceFailed(_CONNECTION_LOST.format(place=place.title))
