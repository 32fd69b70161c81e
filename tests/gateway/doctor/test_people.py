"""Who was let in, and who could be."""

from pathlib import Path

import pytest

from gateway.doctor import people
from gateway.doctor.facts import Unknown
from gateway.store.members import KnownPerson
from gateway.store.pairing import Lock, OpenInvite, Overview
from tests.gateway.doctor.scene import HOUR_MS, NOW_MS, facts_of, look_of, told

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
    facts = facts_of(root, SETTINGS, look=look_of(access=ACCESS))
    [(_, owners)] = told(people.owners, facts)
    assert owners.endswith("telegram:1, telegram:9")
    [(_, others)] = told(people.others, facts)
    assert others.startswith("1 member, 0 guests and 1 on lists")


def test_open_invites_and_locks_are_worth_a_look(root: Path) -> None:
    facts = facts_of(root, look=look_of(access=ACCESS))
    [invite] = people.invites(facts)
    assert (invite.level, invite.fix) == ("warn", "to void it: hermes pairing clear-pending discord")
    assert "whoever uses it is owner" in invite.text
    [lock] = people.locks(facts)
    assert (lock.level, lock.fix) == ("warn", "if it was you: hermes pairing unlock telegram")


def test_without_a_readable_database_nobody_is_counted(root: Path) -> None:
    with pytest.raises(Unknown):
        list(people.owners(facts_of(root)))
