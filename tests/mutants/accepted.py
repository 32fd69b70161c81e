"""Faults that nobody can notice, or need not: `accepted.txt`, three lines each and an empty one after.

gateway.policies.access
if standing.revoked: || standing.revoked => True
why this is no gap
"""

from collections.abc import Collection
from pathlib import Path

from tests.mutants.making import Mutant

FILE = Path(__file__).with_name("accepted.txt")
Key = tuple[str, str, str]


def read(text: str) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for block in filter(None, (block.strip() for block in text.split("\n\n"))):
        if block.startswith("#"):
            continue
        module, fault, reason = block.split("\n", 2)
        source, _, change = fault.partition(" || ")
        found[module, source, change] = reason
    return found


def written(mutant: Mutant) -> str:
    return f"{mutant.module}\n{mutant.source} || {mutant.change}\n"


def complaints(accepted: dict[Key, str], made: Collection[Mutant], caught: Collection[Mutant]) -> list[str]:
    """Entries that say nothing any more, of the modules that were looked at."""
    modules, known = {mutant.module for mutant in made}, {mutant.key for mutant in made}
    noticed = {mutant.key for mutant in caught}
    return [
        f"{' | '.join(key)}: {'no longer exists' if key not in known else 'is caught by now'}"
        for key in accepted
        if key[0] in modules and (key not in known or key in noticed)
    ]
