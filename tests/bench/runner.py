"""Runs the benchmarks that were asked for and prints one table."""

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway import logs
from tests.bench import (
    accepts,
    aged_store,
    background,
    batch,
    boxed,
    elsewhere,
    guard,
    hooked,
    hostile_webhooks,
    long_chat,
    long_session,
    looking,
    memory,
    relay,
    searching,
    soak,
    starting,
    telegram_relay,
    three,
    turns,
)
from tests.bench.rows import Row, Size, table

Benchmark = Callable[[Size, Path], list[Row]]
"""Takes how much to do, and an empty folder on the disk to do it in."""

BENCHMARKS: dict[str, Benchmark] = {
    "accepts": accepts.measure,
    "turns": turns.measure,
    "aged": aged_store.measure,
    "soak": soak.measure,
    "memory": memory.measure,
    "start": starting.measure,
    "looking": looking.measure,
    "session": long_session.measure,
    "chat": long_chat.measure,
    "search": searching.measure,
    "relay": relay.measure,
    "telegram": telegram_relay.measure,
    "three": three.measure,
    "background": background.measure,
    "guard": guard.measure,
    "boxed": boxed.measure,
    "elsewhere": elsewhere.measure,
    "hooks": hooked.measure,
    "webhooks": hostile_webhooks.measure,
    "batch": batch.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Hermes on this machine.")
    # Not `choices`: with nargs="*" argparse holds the empty default against them too.
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; all when none is given")
    parser.add_argument("--quick", action="store_true", help="smaller numbers: ten seconds each, ninety for background")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}; there are {', '.join(BENCHMARKS)}")
    logs.configure(level="error", style="auto", secrets=())
    rows: list[Row] = []
    for name in asked.names or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        rows += run(name, "quick" if asked.quick else "full")
    print(_machine())
    print(table(rows))


def run(name: str, size: Size) -> list[Row]:
    # Set TMPDIR to measure another disk; on one in memory a commit costs nothing and the figures say little.
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        return BENCHMARKS[name](size, Path(folder))


def _machine() -> str:
    load = os.getloadavg()[0]
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} CPUs, "
        f"load {load:.1f} over the last minute (our own included)"
    )
