"""How much one sender may say, and what becomes of the rest."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.clock import now_ms
from gateway.errors import StoreUnavailable
from gateway.inbound import rate_limit
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import InboundMessage
from gateway.policies.access import Rules
from gateway.store.db.database import Database
from tests.gateway import scene
from tests.gateway.inbound.test_intake import Door
from tests.gateway.scene import locked, reaction_to, rows
from tests.gateway.store.conftest import Clock

TWO = Rules(allowed_users=frozenset({"42", "43"}))


def inbound(text: str = "hello", **options: Any) -> InboundMessage:
    return replace(scene.inbound(text, **options), sent_ms=now_ms())


@dataclass
class Hand:
    """A clock that is moved by hand, for the limits and for the store."""

    wall: Clock
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def forward(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall.forward(seconds=seconds)


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    wall = Clock()
    monkeypatch.setattr("gateway.clock._process_clock", wall)
    return Hand(wall)


def test_a_minutes_worth_may_come_at_once_and_no_more(hand: Hand) -> None:
    limits = SenderLimits(per_minute=5, clock=hand)
    assert [limits.allow("pigeon", "42") for _ in range(8)] == [True] * 5 + [False] * 3


def test_room_comes_back_evenly(hand: Hand) -> None:
    limits = SenderLimits(per_minute=6, clock=hand)
    assert all(limits.allow("pigeon", "42") for _ in range(6))
    hand.forward(9.9)
    assert not limits.allow("pigeon", "42")
    hand.forward(0.1)
    assert [limits.allow("pigeon", "42") for _ in range(2)] == [True, False]


def test_what_was_said_over_hours_was_not_said_at_once(hand: Hand) -> None:
    limits = SenderLimits(per_minute=6, clock=hand)
    assert all(limits.allow("pigeon", "42", seconds_ago=3600 - 10 * n) for n in range(300))
    assert sum(limits.allow("pigeon", "42", seconds_ago=0) for _ in range(9)) == 6
    assert not limits.allow("pigeon", "42", seconds_ago=-3600)  # a clock that is ahead of ours opens nothing


def test_what_waited_in_one_chat_is_not_too_much_because_of_what_was_said_later_in_another(hand: Hand) -> None:
    limits = SenderLimits(per_minute=6, clock=hand)
    assert limits.allow("pigeon", "42")
    assert limits.allow("pigeon", "42", seconds_ago=300)
    assert [limits.allow("pigeon", "42", seconds_ago=3600) for _ in range(8)] == [True] * 6 + [False] * 2
    assert limits.allow("pigeon", "42", seconds_ago=300)
    assert sum(limits.allow("pigeon", "42") for _ in range(9)) == 5


def test_what_waited_and_was_not_taken_is_not_counted_either(hand: Hand) -> None:
    limits = SenderLimits(per_minute=2, clock=hand)
    for _ in range(5):
        assert limits.allow("pigeon", "42", seconds_ago=3600)
        limits.give_back("pigeon", "42", seconds_ago=3600)
    assert [limits.allow("pigeon", "42", seconds_ago=3600) for _ in range(3)] == [True, True, False]


def test_minutes_long_over_are_forgotten(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "_SENDERS_REMEMBERED", 3)
    limits = SenderLimits(per_minute=1, clock=hand)
    for ago in range(10):
        assert limits.allow("pigeon", "42", seconds_ago=3600 + 60 * ago)
    assert not any(limits.allow("pigeon", "42", seconds_ago=3600 + 60 * ago) for ago in (7, 8, 9))
    assert limits.allow("pigeon", "42", seconds_ago=3600)


def test_a_minute_that_is_over_is_known_by_when_it_was(hand: Hand) -> None:
    limits = SenderLimits(per_minute=1, clock=hand)
    hand.forward(600)
    said_at = (240, 299, 300)
    assert [limits.allow("pigeon", "42", seconds_ago=600 - at) for at in said_at] == [True, False, True]
    hand.forward(60)
    assert not any(limits.allow("pigeon", "42", seconds_ago=660 - at) for at in said_at)


def test_what_was_said_a_minute_ago_counts_with_what_is_said_now_and_before_that_by_itself(hand: Hand) -> None:
    limits = SenderLimits(per_minute=1, clock=hand)
    hand.forward(600)
    assert limits.allow("pigeon", "42")
    assert not limits.allow("pigeon", "42", seconds_ago=60)
    assert limits.allow("pigeon", "42", seconds_ago=60.5)
    limits.give_back("pigeon", "42", seconds_ago=60)
    assert [limits.allow("pigeon", "42", seconds_ago=ago) for ago in (60.5, 0)] == [False, True]


@pytest.mark.parametrize("per_minute", [1, 3, 7, 30, 60, 1_000])
def test_after_a_quiet_minute_all_of_it_is_there_again(hand: Hand, per_minute: int) -> None:
    limits = SenderLimits(per_minute=per_minute, clock=hand)
    for _ in range(3):
        assert sum(limits.allow("pigeon", "42") for _ in range(per_minute * 2)) == per_minute
        hand.forward(61)


def test_refused_tries_do_not_make_the_wait_longer(hand: Hand) -> None:
    limits = SenderLimits(per_minute=1, clock=hand)
    limits.allow("pigeon", "42")
    for _ in range(59):
        hand.forward(1)
        assert not limits.allow("pigeon", "42")
    hand.forward(1)
    assert limits.allow("pigeon", "42")


def test_others_and_other_accounts_are_not_affected(hand: Hand) -> None:
    limits = SenderLimits(per_minute=1, clock=hand)
    assert limits.allow("pigeon", "42")
    assert not limits.allow("pigeon", "42")
    assert limits.allow("pigeon", "43")
    assert limits.allow("pigeon@work", "42")


def test_what_was_not_taken_is_not_counted(hand: Hand) -> None:
    limits = SenderLimits(per_minute=1, clock=hand)
    for _ in range(5):
        assert limits.allow("pigeon", "42")
        limits.give_back("pigeon", "42")
    limits.give_back("pigeon", "nobody")
    assert limits.allow("pigeon", "42")
    assert not limits.allow("pigeon", "42")


@pytest.mark.parametrize("ago", [0, 3600])
def test_one_that_is_given_back_makes_room_for_one(hand: Hand, ago: float) -> None:
    limits = SenderLimits(per_minute=2, clock=hand)
    limits.give_back("pigeon", "42", seconds_ago=ago)  # never counted
    assert [limits.allow("pigeon", "42", seconds_ago=ago) for _ in range(3)] == [True, True, False]
    limits.give_back("pigeon", "42", seconds_ago=ago)
    assert [limits.allow("pigeon", "42", seconds_ago=ago) for _ in range(2)] == [True, False]


def test_room_that_was_given_back_does_not_come_back_sooner(hand: Hand) -> None:
    limits = SenderLimits(per_minute=2, clock=hand)
    assert all(limits.allow("pigeon", "42") for _ in range(2))
    limits.give_back("pigeon", "42")
    assert limits.allow("pigeon", "42")
    hand.forward(29.9)
    assert not limits.allow("pigeon", "42")
    hand.forward(0.1)
    assert limits.allow("pigeon", "42")


def test_no_limit_remembers_nobody(hand: Hand) -> None:
    limits = SenderLimits(per_minute=0, clock=hand)
    assert all(limits.allow("pigeon", "42") for _ in range(1_000))
    assert not limits._due


def test_memory_is_bounded_and_those_heard_last_are_remembered(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "_SENDERS_REMEMBERED", 100)
    limits = SenderLimits(per_minute=1, clock=hand)
    limits.allow("pigeon", "noisy")
    for number in range(1_000):
        limits.allow("pigeon", str(number))
        assert not limits.allow("pigeon", "noisy")
    assert len(limits._due) == 100
    assert not limits.allow("pigeon", "999")


async def test_too_much_is_refused_with_one_notice_and_others_go_on(db: Database, hand: Hand) -> None:
    door = Door(db, rules=TWO, limits=SenderLimits(per_minute=2, clock=hand))
    await door.accept(*(inbound("x", message_id=str(n)) for n in range(6)))
    await door.accept(inbound("y", message_id="9", sender="43", chat="office"))
    assert await rows(db, "SELECT outcome, COUNT(*) FROM inbox GROUP BY outcome ORDER BY outcome") == [
        ("", 3),
        ("too fast", 4),
    ]
    assert await rows(db, "SELECT chat, topic, notify FROM outbox") == [("home", "too fast", 0)]
    assert door.delivery_wakes == 1


async def test_a_steady_flood_is_not_answered_with_a_flood_of_notices(db: Database, hand: Hand) -> None:
    """Some of a flood get in, one every few seconds: that is no reason to say it again each time."""
    door = Door(db, max_waiting=1000, limits=SenderLimits(per_minute=30, clock=hand))
    for number in range(300):
        hand.forward(0.1)
        await door.accept(inbound("x", message_id=str(number)))
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(1,)]
    hand.forward(120)
    await door.accept(*(inbound("x", message_id=f"later {number}") for number in range(40)))
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(2,)]  # another day's flood is told again


async def test_each_of_two_in_a_group_is_told_for_themselves(db: Database, hand: Hand) -> None:
    door = Door(db, rules=TWO, limits=SenderLimits(per_minute=1, clock=hand))
    for sender in ("42", "43"):
        page = (inbound("x", message_id=f"{sender} {n}", sender=sender, kind="group") for n in range(3))
        await door.accept(*page)
    assert await rows(db, "SELECT reply_to FROM outbox") == [("42 1",), ("43 1",)]


async def test_the_second_copy_of_a_refused_message_is_known(db: Database, hand: Hand) -> None:
    door = Door(db, limits=SenderLimits(per_minute=1, clock=hand))
    await door.accept(inbound("x", message_id="1"), inbound("y", message_id="2"))
    hand.forward(120)
    await door.accept(inbound("y", message_id="2"))
    assert await rows(db, "SELECT state, outcome FROM inbox ORDER BY id") == [("ready", ""), ("done", "too fast")]


async def test_what_strangers_say_beyond_the_limit_leaves_no_rows(db: Database, hand: Hand) -> None:
    rules = Rules(pair_strangers=False)
    door = Door(db, rules=rules, limits=SenderLimits(per_minute=3, clock=hand))
    await door.accept(*(inbound("spam", message_id=str(n), sender="666") for n in range(100)))
    assert await rows(db, "SELECT COUNT(*) FROM trail") == [(3,)]
    for table in ("inbox", "outbox", "people", "identities", "overheard"):
        assert await rows(db, f"SELECT COUNT(*) FROM {table}") == [(0,)], table


async def test_the_owner_at_the_machine_has_no_limit(db: Database, hand: Hand) -> None:
    door = Door(db, max_waiting=1000, limits=SenderLimits(per_minute=1, clock=hand))
    page = [inbound("x", message_id=str(n)) for n in range(50)]
    await door.intake.accept(page, None, account="pigeon", local=True)
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == [(50,)]


async def test_a_page_that_a_full_disk_did_not_take_counts_once_when_it_comes_again(db: Database, hand: Hand) -> None:
    door = Door(db, limits=SenderLimits(per_minute=2, clock=hand))
    with locked(db.path):
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await door.accept(inbound("hello"))
    await door.accept(inbound("hello"))
    assert await rows(db, "SELECT state, outcome FROM inbox") == [("ready", "")]


def in_group(message_id: str, *, to_us: bool) -> InboundMessage:
    return replace(inbound("x", message_id=message_id, chat="group", kind="group"), addressed=to_us)


async def test_what_is_said_to_others_in_a_group_takes_nothing_from_what_is_said_to_us(
    db: Database, hand: Hand
) -> None:
    door = Door(db, limits=SenderLimits(per_minute=1, clock=hand))
    await door.accept(*(in_group(str(n), to_us=False) for n in range(20)))
    await door.accept(*(replace(reaction_to("1", chat="group"), addressed=False) for _ in range(20)))
    await door.accept(in_group("30", to_us=True))
    assert await rows(db, "SELECT message_id, outcome FROM inbox") == [("30", "")]


async def test_reactions_in_a_group_have_a_limit_of_their_own(db: Database, hand: Hand) -> None:
    door = Door(db, limits=SenderLimits(per_minute=2, clock=hand))
    await door.accept(in_group("1", to_us=True))
    for number in range(9):
        note = replace(in_group(f"1:{number}", to_us=False), kind="reaction", about="1")
        await door.accept(note)
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE kind = 'reaction'") == [(2,)]
    await door.accept(in_group("2", to_us=True))
    assert await rows(db, "SELECT outcome FROM inbox WHERE message_id = '2'") == [("",)]


def album(*message_ids: str) -> list[InboundMessage]:
    return [replace(inbound("x", message_id=message_id), more_follows=True) for message_id in message_ids]


async def test_an_album_counts_once_and_only_as_many_as_an_album_has(db: Database, hand: Hand) -> None:
    door = Door(db, max_waiting=100, limits=SenderLimits(per_minute=2, clock=hand))
    await door.accept(*album(*map(str, range(4))))
    await door.accept(*album(*map(str, range(4, 10))))  # in another page
    hand.forward(5)
    await door.accept(inbound("x", message_id="next"), inbound("x", message_id="too many"))
    assert await rows(db, "SELECT message_id FROM inbox WHERE outcome = 'too fast'") == [("too many",)]
    hand.forward(120)
    await door.accept(*album(*(f"flood {n}" for n in range(50))))
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE outcome = '' AND message_id LIKE 'flood%'") == [(20,)]


async def test_the_last_piece_of_a_cut_text_ends_it(db: Database, hand: Hand) -> None:
    door = Door(db, limits=SenderLimits(per_minute=1, clock=hand))
    await door.accept(*album("1"), inbound("rest", message_id="2"), inbound("another", message_id="3"))
    assert await rows(db, "SELECT message_id FROM inbox WHERE outcome = 'too fast'") == [("3",)]


async def test_an_album_that_a_full_disk_did_not_take_counts_once_when_it_comes_again(db: Database, hand: Hand) -> None:
    door = Door(db, limits=SenderLimits(per_minute=2, clock=hand))
    with locked(db.path):
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await door.accept(*album("1", "2", "3"))
    await door.accept(*album("1", "2", "3"))
    hand.forward(5)
    await door.accept(inbound("x", message_id="4"), inbound("x", message_id="5"))
    assert await rows(db, "SELECT message_id FROM inbox WHERE outcome = 'too fast'") == [("5",)]


def test_rests_that_never_come_are_forgotten(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "_SENDERS_REMEMBERED", 100)
    limits = SenderLimits(per_minute=1, clock=hand)
    for number in range(1_000):
        limits.expect_rest("pigeon", str(number))
    assert len(limits._rests) == 100


@pytest.mark.parametrize(("seconds", "belongs"), [(2.0, True), (2.1, False)])
def test_the_rest_comes_within_two_seconds(hand: Hand, seconds: float, belongs: bool) -> None:
    limits = SenderLimits(per_minute=1, clock=hand)
    limits.expect_rest("pigeon", "42")
    hand.forward(seconds)
    assert limits.is_rest("pigeon", "42", more_follows=False) is belongs


def test_the_rests_that_were_announced_last_are_remembered(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "_SENDERS_REMEMBERED", 2)
    limits = SenderLimits(per_minute=1, clock=hand)
    for sender in ("1", "2", "1", "3"):
        limits.expect_rest("pigeon", sender)
    assert [limits.is_rest("pigeon", sender, more_follows=False) for sender in ("1", "2", "3")] == [True, False, True]
