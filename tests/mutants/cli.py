"""What was asked for, run and printed."""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.mutants import accepted
from tests.mutants.making import Mutant, mutants_of
from tests.mutants.running import ROOMS, ROOT, Outcome, Runner, TestsFail
from tests.mutants.table import tests_of


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every fault was noticed or is explained."""
    asked, modules = _asked(arguments)
    sources = {module: (ROOT / f"{module.replace('.', '/')}.py").read_text() for module in modules}
    made = [mutant for module, source in sources.items() for mutant in mutants_of(module, source)]
    chosen = made
    if asked.sample:
        dice = random.Random(asked.seed)
        chosen = sorted(dice.sample(made, min(asked.sample, len(made))), key=made.index)
    if asked.line:
        chosen = [mutant for mutant in chosen if mutant.line in asked.line]
    known = accepted.read(accepted.FILE.read_text())
    outcomes: list[Outcome] = []
    stamps = _stamps()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the forks, too
    for module, source in sources.items():
        mine = [mutant for mutant in chosen if mutant.module == module]
        try:
            outcomes += _run(module, source, mine, asked.jobs)
        except TestsFail as failure:
            print(f"{module}: its tests cannot be relied on\n{failure}", file=sys.stderr)
            return 2
    status = _tell(made, outcomes, known, as_json=asked.json)
    if _stamps() != stamps:
        print("Files were changed while this ran: what was caught may not have been. Use a copy.", file=sys.stderr)
        return 2
    return status


def _asked(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="+", help="modules or packages that tests/mutants/table.py knows")
    parser.add_argument("--sample", type=int, help="only so many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--line", type=int, action="append", help="only faults in this line")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    modules = [module for name in asked.modules for module in _modules_in(name)]
    for module in modules or asked.modules:
        try:
            tests_of(module)
        except KeyError:
            parser.error(f"tests/mutants/table.py names no tests for {module}")
    return asked, modules


def _modules_in(name: str) -> list[str]:
    """Itself, or all modules of a package."""
    place = ROOT / name.replace(".", "/")
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found if path.name != "__init__.py"]


def _run(module: str, source: str, mutants: Sequence[Mutant], jobs: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    if not mutants:
        return outcomes
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        runner = Runner(module, source, tests_of(module), Path(folder), jobs)
        seconds = runner.warm_up()
        print(f"{module}: {len(mutants)} faults, tests take {seconds:.1f} s", file=sys.stderr)
        for outcome in runner.run(mutants):
            outcomes.append(outcome)
            print("." if outcome.caught_by else f" {outcome.mutant.line} ", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    return outcomes


def _stamps() -> list[tuple[str, int]]:
    """A file that somebody breaks meanwhile would make every fault look caught."""
    found = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return sorted((str(path), path.stat().st_mtime_ns) for path in found)


def _tell(made: Sequence[Mutant], outcomes: Sequence[Outcome], known: dict[accepted.Key, str], *, as_json: bool) -> int:
    caught = [outcome.mutant for outcome in outcomes if outcome.caught_by]
    survivors = [outcome.mutant for outcome in outcomes if not outcome.caught_by]
    new = [mutant for mutant in survivors if mutant.key not in known]
    stale = accepted.complaints(known, made, caught)
    summary = {
        "made": len(made),
        "run": len(outcomes),
        "caught": len(caught),
        "explained": len(survivors) - len(new),
        "survived": len(new),
        "seconds_each": round(sum(outcome.seconds for outcome in outcomes) / max(1, len(outcomes)), 2),
    }
    if as_json:
        ran = [{**asdict(outcome), "key": outcome.mutant.key} for outcome in outcomes]
        print(json.dumps({"summary": summary, "outcomes": ran, "stale": stale}, indent=1))
    else:
        for mutant in new:
            print(f"{mutant.module.replace('.', '/')}.py:{mutant.line}\n{accepted.written(mutant)}")
        print(*stale, sep="\n", end="\n" if stale else "")
        print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in summary.items()))
    return 1 if new or stale else 0
