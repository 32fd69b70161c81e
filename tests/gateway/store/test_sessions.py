"""Sessions: one current per key, named so that people can find them again."""

import re

import pytest

from agent_core.conversation import user
from agent_core.events import Usage
from gateway.messages import SessionKey
from gateway.policies.resets import Policy, Resets
from gateway.store import sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from tests.gateway.store.conftest import Clock
from tests.gateway.store.rows import KEY, inbound, take

OTHER = SessionKey(platform="discord", kind="channel", chat="9")


def find(tx: Transaction, name: str) -> sessions.Session:
    found = sessions.find(tx, name)
    assert found is not None
    return found


def test_an_id_is_a_time_and_random_hex(tx: Transaction, clock: Clock) -> None:
    clock.ms = 1_774_183_439_000  # 2026-03-22 12:43:59 UTC
    session = sessions.open_current(tx, KEY)
    assert re.fullmatch(r"20260322_124359_[0-9a-f]{8}", session.id)


def test_a_key_has_one_current_session(tx: Transaction) -> None:
    first = sessions.open_current(tx, KEY, display_name="Ann")
    assert sessions.open_current(tx, KEY, display_name="Somebody else") == first
    assert sessions.open_current(tx, OTHER).id != first.id


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (KEY, "telegram:dm:42"),
        (SessionKey(platform="telegram", kind="group", chat="-100", thread="77"), "telegram:group:-100:77"),
        (SessionKey(platform="telegram", account="work", kind="dm", chat="1"), "telegram@work:dm:1"),
        (SessionKey(platform="telegram", kind="group", chat="-1", user="5"), "telegram:group:-1:u5"),
        (SessionKey(platform="web", chat="abc"), "web:abc"),
    ],
)
def test_the_parts_are_columns_and_the_string_is_for_people(tx: Transaction, key: SessionKey, written: str) -> None:
    session = sessions.open_current(tx, key)
    assert session.key == written
    [row] = tx.all("SELECT platform, account, kind, chat, thread, user_id FROM sessions WHERE id = ?", session.id)
    assert SessionKey(**{("user" if name == "user_id" else name): row[name] for name in row.keys()}) == key  # noqa: SIM118


def test_an_ended_session_makes_room_for_the_next_and_stays_readable(tx: Transaction, clock: Clock) -> None:
    first = sessions.open_current(tx, KEY)
    clock.forward(seconds=5)
    assert sessions.end_current(tx, str(KEY), reason="/new")
    assert not sessions.end_current(tx, str(KEY), reason="/new")
    assert sessions.find_current(tx, str(KEY)) is None
    second = sessions.open_current(tx, KEY)
    assert second.id != first.id
    ended = find(tx, first.id)
    assert (ended.ended_ms, ended.end_reason) == (clock.ms, "/new")


def test_found_by_id_by_its_beginning_and_by_key(tx: Transaction, clock: Clock) -> None:
    old = sessions.open_current(tx, KEY)
    sessions.end_current(tx, str(KEY), reason="/new")
    clock.forward(hours=48)
    new = sessions.open_current(tx, KEY)
    other = sessions.open_current(tx, OTHER)
    for name, found in [
        (old.id, old),
        (old.id[:10], old),
        (str(KEY), new),
        (str(OTHER), other),
        (new.id[:-1], new),
        (new.id[:10], None),  # two begin so
        ("nothing", None),
        ("%", None),
        ("_" * len(old.id), None),
    ]:
        result = sessions.find(tx, name)
        assert (result.id if result else None) == (found.id if found else None), name


def test_an_id_that_begins_another_is_found_itself(tx: Transaction) -> None:
    first, second = sessions.open_current(tx, KEY), sessions.open_current(tx, OTHER)
    tx.execute("UPDATE sessions SET id = 'abc' WHERE id = ?", first.id)
    tx.execute("UPDATE sessions SET id = 'abcdef' WHERE id = ?", second.id)
    assert find(tx, "abc").id == "abc"


def test_recent_ones_first_with_their_size(tx: Transaction, clock: Clock) -> None:
    first = sessions.open_current(tx, KEY)
    clock.forward(seconds=1)
    second = sessions.open_current(tx, OTHER)
    clock.forward(seconds=1)
    transcripts.append(tx, first.id, user("hello"))
    sessions.add_usage(tx, first.id, Usage(input_tokens=10, output_tokens=2, cached_tokens=3))
    assert [(session.id, session.messages) for session in sessions.recent(tx)] == [(first.id, 1), (second.id, 0)]
    assert [session.id for session in sessions.recent(tx, platform="discord")] == [second.id]
    assert [session.id for session in sessions.recent(tx, limit=1)] == [first.id]


def test_usage_adds_up(tx: Transaction) -> None:
    session = sessions.open_current(tx, KEY)
    for _ in range(2):
        sessions.add_usage(tx, session.id, Usage(input_tokens=10, output_tokens=2, cached_tokens=3))
    found = find(tx, session.id)
    assert (found.input_tokens, found.output_tokens, found.cached_tokens, found.total_tokens) == (20, 4, 6, 24)


def test_a_title_is_given_once(tx: Transaction) -> None:
    session = sessions.open_current(tx, KEY)
    sessions.set_title(tx, session.id, "First words")
    sessions.set_title(tx, session.id, "Later words")
    assert find(tx, session.id).title == "First words"


DAY_OF_SILENCE = Resets(usual=Policy(idle_minutes=1_440))


def end_by_itself(tx: Transaction, clock: Clock) -> tuple[sessions.Session, sessions.Session]:
    """The session that ended and the one after it."""
    first = sessions.open_current(tx, KEY)
    transcripts.append(tx, first.id, user("hello"))
    clock.forward(hours=24)
    return first, sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE)


def test_a_session_whose_time_has_come_is_followed_by_another(tx: Transaction, clock: Clock) -> None:
    first = sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE)
    clock.forward(hours=23.9)
    assert sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE).id == first.id
    clock.forward(hours=23.9)
    assert sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE).id == first.id
    clock.forward(hours=24)
    second = sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE)
    ended = find(tx, first.id)
    assert (ended.ended_ms, ended.end_reason) == (clock.ms, "idle")
    assert tx.value("SELECT parent_id FROM sessions WHERE id = ?", second.id) == first.id


def test_what_counts_is_when_the_message_came(tx: Transaction, clock: Clock) -> None:
    first = sessions.open_current(tx, KEY)
    came_ms = clock.ms + 60_000
    clock.forward(hours=100)
    assert sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE, at_ms=came_ms).id == first.id


def test_the_end_is_told_once(tx: Transaction, clock: Clock) -> None:
    first, second = end_by_itself(tx, clock)
    told = sessions.find_unannounced_end(tx, second.id)
    assert told is not None
    assert (told.id, told.reason, told.platform, told.kind) == (first.id, "idle", "telegram", "dm")
    sessions.mark_announced(tx, first.id)
    assert sessions.find_unannounced_end(tx, second.id) is None
    assert sessions.find_unannounced_end(tx, first.id) is None


def test_an_end_on_purpose_is_not_told_and_begins_no_line(tx: Transaction, clock: Clock) -> None:
    sessions.open_current(tx, KEY)
    sessions.end_current(tx, str(KEY), reason="new")
    second = sessions.open_current(tx, KEY)
    assert sessions.find_unannounced_end(tx, second.id) is None
    assert tx.count("SELECT COUNT(*) FROM sessions WHERE parent_id IS NOT NULL") == 0


def test_an_end_that_was_dismissed_is_not_told(tx: Transaction, clock: Clock) -> None:
    sessions.open_current(tx, KEY)
    clock.forward(hours=24)
    assert sessions.end_due(tx, sessions.list_due(tx, DAY_OF_SILENCE), DAY_OF_SILENCE) == 1
    sessions.dismiss_end(tx, str(KEY))
    assert sessions.find_unannounced_end(tx, sessions.open_current(tx, KEY).id) is None


def test_the_sweep_leaves_what_is_at_work_or_young(tx: Transaction, clock: Clock) -> None:
    keys = {name: SessionKey(platform="telegram", kind="dm", chat=name) for name in ("quiet", "running", "waiting")}
    for key in keys.values():
        sessions.open_current(tx, key)
    take(tx, inbound("work", key=keys["running"]))
    assert turns.begin(tx)
    clock.forward(hours=24)
    take(tx, inbound("soon", key=keys["waiting"]))
    young = sessions.open_current(tx, OTHER)
    assert young.id not in sessions.list_due(tx, DAY_OF_SILENCE)
    everyone = [session.id for session in sessions.recent(tx)]
    assert sessions.end_due(tx, everyone, DAY_OF_SILENCE) == 1
    assert sessions.find_current(tx, str(keys["quiet"])) is None
    assert sessions.find_current(tx, str(OTHER)) == young
    [row] = tx.all("SELECT key, end_reason FROM sessions WHERE ended_ms IS NOT NULL")
    assert tuple(row) == (str(keys["quiet"]), "idle")


def test_one_that_was_used_again_since_the_look_is_not_ended(tx: Transaction, clock: Clock) -> None:
    sessions.open_current(tx, KEY)
    clock.forward(hours=24)
    due = sessions.list_due(tx, DAY_OF_SILENCE)
    sessions.open_current(tx, KEY)
    assert sessions.end_due(tx, due, DAY_OF_SILENCE) == 0


def test_the_message_after_a_sweep_follows_the_ended_session_too(tx: Transaction, clock: Clock) -> None:
    first = sessions.open_current(tx, KEY)
    clock.forward(hours=24)
    sessions.end_due(tx, sessions.list_due(tx, DAY_OF_SILENCE), DAY_OF_SILENCE)
    second = sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE)
    assert (told := sessions.find_unannounced_end(tx, second.id)) is not None
    assert told.id == first.id


def test_an_old_session_can_be_taken_up_again(tx: Transaction, clock: Clock) -> None:
    first, second = end_by_itself(tx, clock)
    assert sessions.resume(tx, str(KEY), first.id)
    current = sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE)
    assert (current.id, current.ended_ms, current.end_reason) == (first.id, None, None)
    assert find(tx, second.id).end_reason == "resumed other"
    clock.forward(hours=24)
    third = sessions.open_current(tx, KEY, resets=DAY_OF_SILENCE)
    assert (told := sessions.find_unannounced_end(tx, third.id)) is not None
    assert told.id == first.id


def test_only_ended_sessions_of_the_same_chat_can_be_taken_up(tx: Transaction, clock: Clock) -> None:
    first, second = end_by_itself(tx, clock)
    for key, session_id in [(str(OTHER), first.id), (str(KEY), second.id), (str(KEY), "nothing"), (str(KEY), "")]:
        assert not sessions.resume(tx, key, session_id)
    assert sessions.find_current(tx, str(KEY)) is not None
    assert [session.id for session in sessions.list_ended(tx, str(KEY), limit=5)] == [first.id]
    assert sessions.list_ended(tx, str(OTHER), limit=5) == []
