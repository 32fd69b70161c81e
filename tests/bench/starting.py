"""How long one waits for a command, from its start to what one wanted of it.

In a development environment structlog finds `rich` and imports it, which users do not have: some 50 ms less there.
"""

import sys
from pathlib import Path

from tests.bench.rows import Row, Size
from tests.bench.scratch import HERMES, running_gateway, seconds_to_run, with_socket

_REPEATS: dict[Size, int] = {"full": 7, "quick": 1, "tiny": 1}
_READY_AIM, _HELP_AIM, _CHAT_AIM = 0.8, 0.15, 2.0


def measure(size: Size, folder: Path) -> list[Row]:
    first, again, web, bare, help_, chat = zip(
        *(_round(folder / f"home-{n}") for n in range(_REPEATS[size])), strict=True
    )
    floor = Row(what="floor: python -c pass", samples=bare, unit="s")
    return [
        Row(what="gateway run to Ready, socket, new home", samples=first, unit="s", aim=_READY_AIM, floor=floor),
        Row(what="gateway run to Ready, socket, again", samples=again, unit="s", aim=_READY_AIM, floor=floor),
        Row(what="gateway run to Ready, socket and web page", samples=web, unit="s", aim=_READY_AIM, floor=floor),
        Row(what="hermes --help", samples=help_, unit="s", aim=_HELP_AIM, floor=floor),
        Row(what="hermes chat -q", samples=chat, unit="s", aim=_CHAT_AIM, floor=floor),
        floor,
    ]


def _round(home: Path) -> tuple[float, ...]:
    """One of each: side by side, so that whatever else the machine does weighs on all of them alike."""
    return (
        _seconds_to_ready(home, web=False),
        _seconds_to_ready(home, web=False),
        _seconds_to_ready(home, web=True),
        seconds_to_run((sys.executable, "-c", "pass"), home),
        seconds_to_run((*HERMES, "--help"), home),
        seconds_to_run((*HERMES, "chat", "-q", "what is 17 * 23?"), home),
    )


def _seconds_to_ready(home: Path, *, web: bool) -> float:
    with running_gateway(home, with_socket(web=web)) as (_, seconds, _):
        return seconds
