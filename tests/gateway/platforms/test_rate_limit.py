"""How fast a platform may be spoken to."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.rate_limit import Rate, RateLimits


@dataclass
class Hand:
    """A clock that is moved by hand."""

    seconds: float = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def send_all(rate_limits: RateLimits, hand: Hand, chat: str, count: int) -> list[float]:
    """When each of so many messages goes, if each goes as soon as it may."""
    sent = []
    for _ in range(count):
        hand.seconds += rate_limits.wait_seconds(chat)
        assert rate_limits.wait_seconds(chat) == 0, "it waited, and may still not"
        rate_limits.record_send(chat)
        sent.append(hand.seconds)
    return sent


def most_in_any(seconds: float, times: list[float]) -> int:
    return max(sum(start <= at < start + seconds - 1e-6 for at in times) for start in times)


def test_no_limit_means_no_waiting() -> None:
    rate_limits = RateLimits(clock=Hand())
    for _ in range(1_000):
        rate_limits.record_send("home")
    assert (rate_limits.wait_seconds("home"), rate_limits.overall_wait_seconds, rate_limits.list_paused()) == (0, 0, {})
    assert rate_limits.remaining_overall > 1_000


def test_a_burst_goes_at_once_and_the_next_waits() -> None:
    hand = Hand()
    rate_limits = RateLimits(per_chat=Rate(count=3, seconds=3), clock=hand)
    assert send_all(rate_limits, hand, "home", 3) == [1_000.0] * 3
    assert 0 < rate_limits.wait_seconds("home") <= 3
    assert rate_limits.wait_seconds("office") == 0
    assert list(rate_limits.list_paused()) == ["home"]


@pytest.mark.parametrize(("count", "seconds"), [(1, 1.0), (3, 3.0), (20, 60.0), (30, 1.0), (7, 0.3)])
def test_no_stretch_of_time_sees_more_than_the_limit(count: int, seconds: float) -> None:
    hand = Hand()
    rate_limits = RateLimits(per_chat=Rate(count=count, seconds=seconds), clock=hand)
    times = send_all(rate_limits, hand, "home", count * 5)
    assert most_in_any(seconds, times) == count
    assert times[-1] - times[0] <= seconds * 5  # and no time is wasted


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 10), st.floats(0.1, 10))
def test_that_holds_whenever_one_speaks(pauses: list[float], count: int, seconds: float) -> None:
    hand = Hand()
    rate_limits = RateLimits(overall=Rate(count=count, seconds=seconds), clock=hand)
    times: list[float] = []
    for pause in pauses:
        hand.seconds += pause
        times += send_all(rate_limits, hand, "home", 1)
    if times:
        assert most_in_any(seconds, times) <= count


def test_groups_have_a_limit_of_their_own() -> None:
    hand = Hand()
    rate_limits = RateLimits(
        per_chat=Rate(count=1, seconds=1),
        per_group=Rate(count=2, seconds=60),
        is_group=lambda chat: chat.startswith("-"),
        clock=hand,
    )
    assert send_all(rate_limits, hand, "-7", 2) == [1_000.0] * 2
    assert rate_limits.wait_seconds("-7") == 60
    assert send_all(rate_limits, hand, "7", 2) == [1_000.0, 1_001.0]


def test_all_chats_together_have_a_limit() -> None:
    hand = Hand()
    rate_limits = RateLimits(overall=Rate(count=30), clock=hand)
    assert rate_limits.remaining_overall == 30
    for number in range(30):
        assert rate_limits.overall_wait_seconds == 0
        assert rate_limits.remaining_overall == 30 - number
        rate_limits.record_send(str(number))
    assert 0 < rate_limits.overall_wait_seconds <= 1
    assert rate_limits.wait_seconds("anybody") == rate_limits.overall_wait_seconds
    assert rate_limits.remaining_overall == 0
    hand.seconds += rate_limits.overall_wait_seconds
    assert (rate_limits.overall_wait_seconds, rate_limits.remaining_overall > 0) == (0, True)


def test_room_and_waiting_never_contradict_each_other() -> None:
    hand = Hand(0.1)
    rate_limits = RateLimits(overall=Rate(count=7, seconds=0.7), clock=hand)
    for _ in range(500):
        hand.seconds += 0.013
        assert (rate_limits.remaining_overall > 0) == (rate_limits.overall_wait_seconds == 0)
        if rate_limits.remaining_overall:
            rate_limits.record_send("home")


def test_a_chat_the_platform_wants_left_alone_waits_and_no_other() -> None:
    hand = Hand()
    rate_limits = RateLimits(clock=hand)
    rate_limits.pause("home", 30)
    rate_limits.pause("home", 5)  # the longer one holds
    assert rate_limits.wait_seconds("home") == 30
    assert rate_limits.wait_seconds("office") == 0
    assert rate_limits.list_paused() == {"home": 30}
    hand.seconds += 30
    assert (rate_limits.wait_seconds("home"), rate_limits.list_paused()) == (0, {})


def test_chats_that_need_not_wait_are_forgotten() -> None:
    hand = Hand()
    rate_limits = RateLimits(per_chat=Rate(count=2, seconds=1), clock=hand)
    for number in range(1_000):
        rate_limits.record_send(f"chat {number}")
        rate_limits.pause(f"rested {number}", 1)
    hand.seconds += 2
    assert rate_limits.list_paused() == {}
    assert not rate_limits._sent
    assert not rate_limits._paused_until


def test_what_was_sent_without_asking_is_counted_too() -> None:
    hand = Hand()
    rate_limits = RateLimits(per_chat=Rate(count=1, seconds=10), clock=hand)
    for _ in range(3):
        rate_limits.record_send("home")
        hand.seconds += 1
    assert rate_limits.wait_seconds("home") == 9


def test_the_room_in_a_chat_is_what_its_own_rate_and_all_together_leave() -> None:
    hand = Hand()
    rate_limits = RateLimits(
        per_chat=Rate(count=3, seconds=3),
        per_group=Rate(count=20, seconds=60),
        overall=Rate(count=5, seconds=1),
        is_group=lambda chat: chat.startswith("-"),
        clock=hand,
    )
    assert (rate_limits.remaining("home"), rate_limits.remaining("-1")) == (3, 5)
    for _ in range(2):
        rate_limits.record_send("home")
    assert (rate_limits.remaining("home"), rate_limits.remaining("away"), rate_limits.remaining("-1")) == (1, 3, 3)
    rate_limits.record_send("home")
    assert rate_limits.remaining("home") == 0
    hand.seconds += 3
    assert rate_limits.remaining("home") == 3


def test_a_chat_that_was_paused_until_has_no_room() -> None:
    hand = Hand()
    rate_limits = RateLimits(clock=hand)
    assert rate_limits.remaining("home") > 1_000
    rate_limits.pause("home", 5)
    assert (rate_limits.remaining("home"), rate_limits.remaining("away") > 1_000) == (0, True)
    hand.seconds += 5
    assert rate_limits.remaining("home") > 1_000


@given(st.lists(st.floats(min_value=0, max_value=3), max_size=40))
def test_there_is_room_exactly_when_there_is_no_wait(pauses: list[float]) -> None:
    hand = Hand()
    rate_limits = RateLimits(per_chat=Rate(count=3, seconds=3), overall=Rate(count=4, seconds=1), clock=hand)
    for pause in pauses:
        hand.seconds += pause
        assert (rate_limits.remaining("home") > 0) == (rate_limits.wait_seconds("home") == 0)
        if rate_limits.remaining("home"):
            rate_limits.record_send("home")
