"""Two processes at once: one code, one winner."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.store import pairing
from gateway.store.db.database import Database
from tests.gateway.store.strangers import LIMITS, asks
from tests.thorough import a_few_of

APPROVES = """
import asyncio, sys
from pathlib import Path
from gateway.store import pairing
from gateway.store.db.database import open_database
from tests.gateway.store.strangers import LIMITS, stranger

path, what, code, user = sys.argv[1:]

def unit(tx):
    if what == "approve":
        return isinstance(pairing.approve(tx, "telegram", code, "member", LIMITS, by=user), pairing.Approved)
    return pairing.redeem(tx, stranger(user, code), LIMITS) == "member"

async def main():
    db = await open_database(Path(path), busy_timeout_seconds=20)
    print("ready", flush=True)
    sys.stdin.readline()
    print("won" if await db.write(unit) else "lost", flush=True)
    await db.close()

asyncio.run(main())
"""
ROOT = Path(__file__).parents[3]


def _race(path: Path, what: str, code: str) -> list[str]:
    """Both are ready before either may begin."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", APPROVES, str(path), what, code, user],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for user in ("1", "2")
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    return sorted(said)


@pytest.mark.parametrize("_", a_few_of(range(3), 1))
async def test_two_who_approve_the_same_code_at_once_have_one_winner(db: Database, path: Path, _: int) -> None:
    code = await db.write(lambda tx: asks(tx, "42"))
    assert _race(path, "approve", code) == ["lost", "won"]
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM identities WHERE paired_ms IS NOT NULL")) == 1
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM outbox WHERE topic = 'paired'")) == 1
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM pairing_failures")) <= 1


@pytest.mark.parametrize("_", a_few_of(range(3), 1))
async def test_two_who_send_the_same_invite_at_once_have_one_winner(db: Database, path: Path, _: int) -> None:
    code = await db.write(lambda tx: pairing.invite(tx, "telegram", "member", LIMITS, by="test"))
    assert _race(path, "redeem", code) == ["lost", "won"]
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM identities WHERE paired_ms IS NOT NULL")) == 1
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM pairing_invites WHERE used_ms IS NULL")) == 0


async def test_the_same_code_twice_in_one_commit_has_one_winner(db: Database) -> None:
    import asyncio

    code = await db.write(lambda tx: asks(tx, "42"))
    done = await asyncio.gather(
        *(db.write(lambda tx: pairing.approve(tx, "telegram", code, "member", LIMITS, by="test")) for _ in range(4))
    )
    assert sum(isinstance(one, pairing.Approved) for one in done) == 1


async def test_a_failed_approval_is_counted_though_nothing_else_is_written(db: Database) -> None:
    for _ in range(5):
        await db.write(lambda tx: pairing.approve(tx, "telegram", "22222222", "member", LIMITS, by="test"))
    assert (await db.read(lambda tx: pairing.overview(tx, LIMITS))).locks
