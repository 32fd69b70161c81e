"""How other chats fare while the commands of one write without end, multiply and eat memory; and what that costs.

People write on Telegram at a steady pace, first while all is calm and then while somebody else's commands run, to the
same gateway. Output is told every two seconds, where 30 is the least that an operator would see. The commands use the
same processors as the people, their Telegram and the model: on a machine with few, what is left of them is felt.
"""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tests.bench.commanded_model import order
from tests.bench.relay_sides import cpu_seconds
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import at_model, environment, running, running_gateway
from tests.bench.three import Far, far_side
from tools.backends.bubblewrap import BubblewrapBackend
from tools.backends.policy import SandboxPolicy
from tools.backends.sandbox import SandboxLimits, SandboxProblem, find_features

_SECONDS: dict[Size, float] = {"full": 60.0, "quick": 10.0, "tiny": 0.2}
_EVERY_SECONDS = 0.08
_WARM_UP = 50
_MANY = 50
_STARTED_WITHIN_SECONDS = 60.0
_CHECK_SECONDS = 2
_LIMITS = SandboxLimits(memory_mb=512, max_processes=256)
_BOMB = ":(){ :|:& };:; exec sleep 600"  # not a new process, which it would have no room for
_HOG = "while true; do tail /dev/zero; done"  # keeps all of a line without end


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    what: str
    who: Literal["owner", "member"]
    commands: tuple[Mapping[str, Any], ...]
    times: int = 1

    @property
    def is_waited_for(self) -> bool:
        return not self.commands[0].get("background")


def _troubles(size: Size, box: BubblewrapBackend) -> Sequence[Trouble]:
    behind = {"background": True, "check_interval": _CHECK_SECONDS}
    drip = {"command": "while sleep 0.5; do date; done", **behind}
    told = [
        Trouble(what=f"{_MANY} processes in the background", who="owner", commands=(drip,), times=_MANY),
        Trouble(what="`yes` in the background", who="owner", commands=({"command": "yes", **behind},)),
        Trouble(what="`yes` that is waited for", who="owner", commands=({"command": "yes", "timeout": 600},)),
    ]
    if _can_be_bombed(box):
        bad = tuple({"command": command, "timeout": 600} for command in (_BOMB, _HOG))
        told.append(Trouble(what="fork bomb and memory hog in sandboxes", who="member", commands=bad))
    return told[1:2] if size == "tiny" else told


def _can_be_bombed(box: BubblewrapBackend) -> bool:
    try:
        return bool(find_features()) and box.bounds_processes
    except SandboxProblem:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Everybody has said what they had to say."""

    latencies: Sequence[float]  # in ms
    gateway_cpu: float  # these in seconds for each second
    keepers_cpu: float
    memory_mb: float
    outputs_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    pid: int
    home: Path
    side: Far
    chats: Mapping[str, str]  # of the owner and of a member

    async def talk(self, seconds: float) -> Phase:
        messages = max(round(seconds / _EVERY_SECONDS), 2)
        keepers = self.keepers()
        before = cpu_seconds(self.pid), _cpu_of(keepers)
        latencies = await self.side.do("talk", messages=messages, every_seconds=_EVERY_SECONDS, after_seconds=0.0)
        spent = messages * _EVERY_SECONDS
        return Phase(
            latencies=latencies,
            gateway_cpu=(cpu_seconds(self.pid) - before[0]) / spent,
            keepers_cpu=(_cpu_of(keepers) - before[1]) / spent,
            memory_mb=self.memory()["VmRSS"],
            outputs_mb=_size_mb(self.home / "private"),
        )

    def memory(self) -> dict[str, float]:
        """In MB; what anybody may read, as a gateway that runs commands closes the rest of /proc to its own user."""
        lines = [line.split() for line in Path(f"/proc/{self.pid}/status").read_text().splitlines()]
        return {fields[0].rstrip(":"): int(fields[1]) * 1024 / 1e6 for fields in lines if fields[2:3] == ["kB"]}

    def keepers(self) -> set[int]:
        """Of what is waited for they are its children; the others have left it, and are in the database."""
        with closing(sqlite3.connect(self.home / "state.db")) as database:
            left = database.execute(
                "SELECT handle ->> 'supervisor_pid' FROM processes WHERE state = 'running'"
            ).fetchall()
        children = [int(pid) for one in _children_files(self.pid) for pid in one.read_text().split()]
        return {pid for pid in (*children, *(pid for (pid,) in left)) if _is_keeper(pid)}

    @asynccontextmanager
    async def in_trouble(self, trouble: Trouble) -> AsyncIterator[None]:
        chat, said = self.chats[trouble.who], order(*trouble.commands, times=trouble.times)
        await self.side.do("tell" if trouble.is_waited_for else "ask", chat=chat, text=said)
        await self._until_kept(len(trouble.commands) * trouble.times)
        try:
            yield
        finally:
            await self.side.do("tell", chat=chat, text="/stop all")
            await self._until_kept(0)

    async def _until_kept(self, count: int) -> None:
        try:
            async with asyncio.timeout(_STARTED_WITHIN_SECONDS):
                while len(self.keepers()) != count:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not {count} commands run, but {len(self.keepers())}") from None


def measure(size: Size, folder: Path) -> list[Row]:
    with running((sys.executable, "-m", "tests.bench.commanded_model"), environment(folder)) as (_, lines):
        return asyncio.run(_measure(size, folder, next(lines).strip()))


async def _measure(size: Size, folder: Path, model: str) -> list[Row]:
    seconds, rows = _SECONDS[size], list[Row]()
    policy = SandboxPolicy.of(workspace=folder / "workspace", private=folder / "private")
    box = BubblewrapBackend(policy, limits=_LIMITS)
    async with _gateway(folder / "home", model) as gateway:
        await gateway.talk(min(_WARM_UP * _EVERY_SECONDS, seconds))
        for trouble in _troubles(size, box):
            before = await gateway.talk(seconds)
            async with gateway.in_trouble(trouble):
                during = await gateway.talk(seconds)
            rows += _rows(trouble.what, before, during)
            rows.append(_row(f"the gateway, resident after {trouble.what}", gateway.memory()["VmRSS"], "MB"))
        rows.append(_row("the gateway, resident at most in all of this", gateway.memory()["VmHWM"], "MB"))
    print(f"in the sandbox: {box.limits_in_force}", file=sys.stderr)
    return rows


def _rows(what: str, before: Phase, during: Phase) -> Iterator[Row]:
    for share in (0.5, 0.95):
        calm, rough = (percentile(phase.latencies, share) for phase in (before, during))
        yield from _pair(f"other chats, p{share * 100:.0f}", what, calm, rough, "ms")
    yield from _pair("the gateway", what, before.gateway_cpu, during.gateway_cpu, "CPU-s a second")
    yield _row(f"keepers, with {what}", during.keepers_cpu, "CPU-s a second")
    yield from _pair("the gateway, resident", what, before.memory_mb, during.memory_mb, "MB")
    yield _row(f"outputs on disk, with {what}", during.outputs_mb, "MB")


def _pair(who: str, what: str, calm: float, rough: float, unit: str) -> tuple[Row, Row]:
    floor = _row(f"floor: {who}, before {what}", calm, unit)
    return replace(_row(f"{who}, with {what}", rough, unit), floor=floor), floor


def _row(what: str, value: float, unit: str) -> Row:
    return Row(what=what, samples=[max(value, 0.001)], unit=unit)  # processors are counted in ticks


@asynccontextmanager
async def _gateway(home: Path, model: str) -> AsyncIterator[Gateway]:
    async with far_side("telegram", home.parent) as side:
        variables = at_model(model) | await side.hear()
        chats = {who: await side.do("open a chat") for who in ("owner", "member")}
        with running_gateway(home, _settings(chats), variables) as (pid, _, _):
            await side.do("connected")
            yield Gateway(pid=pid, home=home, side=side, chats=chats)


def _settings(chats: Mapping[str, str]) -> dict[str, Any]:
    return {
        "platforms": {
            "socket": {"enabled": False},
            "web": {"enabled": False},
            "telegram": {"sends_per_second": 0, "chat_sends_per_minute": 0, "group_sends_per_minute": 0},
        },
        "access": {
            "allow_all_users": True,
            "messages_per_minute": 0,
            "owner_users": [f"telegram:{chats['owner']}"],
            "allowed_users": [f"telegram:{chats['member']}"],
        },
        "terminal": {
            "min_check_interval_seconds": _CHECK_SECONDS,
            "bubblewrap": {"memory_mb": _LIMITS.memory_mb, "max_processes": _LIMITS.max_processes},
        },
    }


def _children_files(pid: int) -> Iterator[Path]:
    """The kernel lists the children of each thread by itself."""
    return Path(f"/proc/{pid}/task").glob("*/children")


def _is_keeper(pid: int) -> bool:
    with suppress(OSError):  # it has ended
        return b"supervisor_child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _cpu_of(pids: set[int]) -> float:
    total = 0.0
    for pid in pids:
        with suppress(OSError):  # it has ended
            total += cpu_seconds(pid)
    return total


def _size_mb(folder: Path) -> float:
    total = 0.0
    for file in folder.rglob("*"):
        with suppress(OSError):  # its keeper removes the oldest while we look
            total += file.stat().st_blocks * 512 / 1e6
    return total
