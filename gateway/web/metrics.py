"""Counts for a monitoring system, in the text format of Prometheus. docs/metrics.md describes each.

Counters are sums over the trail, so they cannot disagree with what was committed, and no turn waits for them. Labels
hold names from the settings and from our own enums only: never text of people, and no tool names, which a model writes.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.clock import now_ms
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inspect import read_counts
from gateway.store.trail import TrailEvent

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TURN_ENDS = (
    TrailEvent.ANSWERED,
    TrailEvent.STOPPED,
    TrailEvent.GIVEN_UP,
    TrailEvent.SUPERSEDED,
    TrailEvent.FAILED,
)
_DELIVERY_STEPS = (
    TrailEvent.SENT,
    TrailEvent.POSTPONED,
    TrailEvent.FAILED,
    TrailEvent.IN_DOUBT,
    TrailEvent.EXPIRED,
)
_SUMS = """SELECT event, inbox_id IS NOT NULL AS of_message, outbox_id IS NOT NULL AS of_reply, COUNT(*) AS steps,
                  COUNT(DISTINCT turn_id) AS turns, TOTAL(json_extract(detail, '$.error')) AS errors,
                  TOTAL(json_extract(detail, '$.input_tokens')) AS input_tokens,
                  TOTAL(json_extract(detail, '$.output_tokens')) AS output_tokens
             FROM trail WHERE id > ? AND id <= ? GROUP BY 1, 2, 3"""
_COUNTERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # name: help, label, its values
    "messages": ("Messages by outcome.", "outcome", ("accepted", "answered", "refused")),
    "turns": ("Turns that ended, by outcome.", "outcome", _TURN_ENDS),
    "model_calls": ("Replies of models.", "", ("",)),
    "tokens": ("Tokens that models read and wrote.", "direction", ("input", "output")),
    "tool_calls": ("Tool calls that ended.", "outcome", ("ok", "error")),
    "deliveries": ("Attempts to send a reply, by outcome.", "outcome", _DELIVERY_STEPS),
}
_GAUGES = {
    "running": ("turns_running", "Turns that run now."),
    "waiting": ("messages_waiting", "Messages that wait for a turn."),
    "undelivered": ("outbox_waiting", "Replies that are not sent yet."),
    "processes": ("processes_running", "Background processes that are being watched."),
}


@dataclass(slots=True)
class Metrics:
    """Sums up what has happened since `begin`."""

    db: Database
    _started_ms: int = 0
    _position: int | None = None  # in the trail
    _sums: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # two scrapes at once must not count a row twice

    async def begin(self) -> None:
        """Start to count; later calls do nothing."""
        if self._position is None:
            self._started_ms = now_ms()
            self._position = await self.db.read(_find_end)

    async def render(self, state: Mapping[str, Any]) -> str:
        """Return all values. `state` is the gateway's own. Raises StoreUnavailable."""
        await self.begin()
        async with self._lock:
            after = self._position or 0
            end, sums, gauges = await self.db.read(lambda tx: _read(tx, after))
            self._position = end
            self._sums.update(sums)
        lines = [*_render_counters(self._sums), *_render_gauges(gauges), *_render_platforms(state)]
        lines += _head("start_time_seconds", "gauge", "When the gateway began to count, in Unix time.")
        lines.append(f"hermes_start_time_seconds {self._started_ms / 1000:.3f}")
        return "\n".join(lines) + "\n"


def _find_end(tx: Transaction) -> int:
    return tx.count("SELECT COALESCE(MAX(id), 0) FROM trail")


def _read(tx: Transaction, after: int) -> tuple[int, Counter[tuple[str, str]], dict[str, int]]:
    """Return the end of the trail, the sums over what follows `after`, and the present values."""
    end = _find_end(tx)
    sums: Counter[tuple[str, str]] = Counter()
    for row in tx.all(_SUMS, after, end):
        event, steps = row["event"], row["steps"]
        if event in (TrailEvent.ACCEPTED, TrailEvent.REFUSED):
            sums["messages", event] += steps
        elif event == TrailEvent.MODEL_REPLIED:
            sums["model_calls", ""] += steps
            sums["tokens", "input"] += int(row["input_tokens"])
            sums["tokens", "output"] += int(row["output_tokens"])
        elif event == TrailEvent.TOOL_FINISHED:
            sums["tool_calls", "error"] += int(row["errors"])
            sums["tool_calls", "ok"] += steps - int(row["errors"])
        elif row["of_message"] and event in _TURN_ENDS:
            sums["messages", "answered"] += steps if event == TrailEvent.ANSWERED else 0
            sums["turns", event] += row["turns"]  # a command ends a message without a turn
        elif row["of_reply"] and event in _DELIVERY_STEPS:
            sums["deliveries", event] += steps
    counts = read_counts(tx)
    gauges = {_GAUGES[name][0]: counts[name] for name in _GAUGES}
    gauges["store_bytes"] = tx.count("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    return end, sums, gauges


def _render_counters(sums: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for name, (text, label, values) in _COUNTERS.items():
        yield from _head(f"{name}_total", "counter", text)
        for value in values:
            labels = f'{{{label}="{value}"}}' if label else ""
            yield f"hermes_{name}_total{labels} {sums.get((name, str(value)), 0)}"


def _render_gauges(gauges: Mapping[str, int]) -> Iterator[str]:
    helps = {**dict(_GAUGES.values()), "store_bytes": "Size of the database, without its log."}
    for name, value in gauges.items():
        yield from _head(name, "gauge", helps[name])
        yield f"hermes_{name} {value}"


def _render_platforms(state: Mapping[str, Any]) -> Iterator[str]:
    platforms = {_escape(account): platform for account, platform in state.get("platforms", {}).items()}
    yield from _head("platform_connected", "gauge", "1 while the platform is connected.")
    for account, platform in platforms.items():
        yield f'hermes_platform_connected{{account="{account}"}} {int(platform["state"] == "connected")}'
    yield from _head("platform_silent_seconds", "gauge", "Seconds since the platform was last heard of.")
    for account, platform in platforms.items():
        if heard_ms := platform["last_heard_ms"]:
            silent = max(now_ms() - heard_ms, 0) / 1000
            yield f'hermes_platform_silent_seconds{{account="{account}"}} {silent:.3f}'


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP hermes_{name} {text}", f"# TYPE hermes_{name} {kind}"]


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
