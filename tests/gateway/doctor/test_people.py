"""Who was let in, and who could be."""

from pathlib import Path

import pytest

from gateway.doctor import rights
from gateway.doctor.facts import Unknown
from gateway.store.members import KnownPerson
from gateway.store.pairing import Lock, OpenInvite, Overview
from tests.gateway.doctor.scene import HOUR_MS, NOW_MS, facts_of, run_check, summary_of

ADA = KnownPerson(account="telegram", user_id="1", name="Ada", role="owner", since_ms=NOW_MS)
BO = KnownPerson(account="slack", user_id="U2", name="Bo", role="member", since_ms=NOW_MS)
ACCESS = Overview(
    pending=(),
    people=(ADA, BO),
    revoked=(),
    locks=(Lock(platform="telegram", until_ms=NOW_MS + HOUR_MS),),
    invites=(OpenInvite(platform="discord", role="owner", created_ms=NOW_MS, expires_ms=NOW_MS + HOUR_MS),),
)
SETTINGS = {"access": {"owner_users": "telegram:9"}, "platforms": {"slack": {"allowed_users": "U012AB3CD"}}}


def test_owners_and_the_others_are_counted_wherever_they_stand(root: Path) -> None:
    facts = facts_of(root, SETTINGS, store=summary_of(access=ACCESS))
    [(_, owners), (_, others)] = run_check(rights.count_people, facts)
    assert owners.endswith("telegram:1, telegram:9")
    assert "1 member, 0 guests, 1 on allowlists" in others


def test_open_invites_and_locks_are_worth_a_look(root: Path) -> None:
    facts = facts_of(root, store=summary_of(access=ACCESS))
    [invite] = rights.list_invites(facts)
    assert (invite.level, invite.fix) == ("warn", "to cancel it: hermes pairing clear-pending discord")
    assert "with the role owner" in invite.text
    [lock] = rights.list_locks(facts)
    assert (lock.level, lock.fix) == ("warn", "if it was you: hermes pairing unlock telegram")


def test_without_a_readable_database_nobody_is_counted(root: Path) -> None:
    with pytest.raises(Unknown):
        list(rights.count_people(facts_of(root)))
