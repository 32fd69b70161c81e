"""What was said while nobody listened is read afterwards: after a restart, a broken line, a full disk."""

import asyncio
import time
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from gateway.errors import StoreUnavailable
from gateway.platforms.slack import backfill, listener
from gateway.platforms.slack.channels import SlackChannel, SlackChannels, just_before
from playground.slack.server import SlackServer
from playground.slack.sockets import EVERYTHING
from tests.gateway.platforms.slack.scene import Gate, bot_of, listening, outbound


@pytest.fixture(autouse=True)
def _no_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "_OVERLAP_SECONDS", 0)


@pytest.fixture
def silence(server: SlackServer) -> Callable[[], None]:
    """From now on Slack tells us nothing by itself."""
    return lambda: setattr(server.sockets, "subscribed", frozenset())


async def test_messages_of_a_pause_are_read_in_order(
    server: SlackServer, gate: Gate, ada: str, dm: str, general: str, silence: Callable[[], None]
) -> None:
    async with listening(bot_of(server), gate, server):
        for channel in (dm, general):
            server.people.send_text(channel, ada, f"before {channel}")
        await gate.next_texts(2)
    silence()
    for number in range(3):
        server.people.send_text(dm, ada, f"{number}")
    last = server.people.send_text(general, ada, "there")
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: len(gate.distinct) == 6)
        await gate.until(lambda: gate.seen(general) == last["ts"])
    assert [text for text in gate.distinct if text.isdigit()] == ["0", "1", "2"]


async def test_a_channel_that_was_never_heard_of_is_not_read_back(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    server.sockets.subscribed = frozenset()
    server.people.send_text(dm, ada, "long ago")
    server.sockets.subscribed = frozenset(["message.im"])
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
    assert gate.seen(dm) == said["ts"]
    assert server.called("conversations.history") == []


async def test_somebody_who_wrote_for_the_first_time_meanwhile_is_heard(
    server: SlackServer, gate: Gate, ada: str, dm: str, me: str, silence: Callable[[], None]
) -> None:
    bea = server.people.make_user("bea")["id"]
    both = server.people.make_group_dm([ada, bea])["id"]
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: "listening since" in gate.cursors)
    assert server.called("users.conversations") == []
    silence()
    first = server.people.send_text(dm, ada, "one")
    server.people.send_text(dm, ada, "two")
    server.people.send_text(both, bea, f"{me} three")
    server.people.send_text(both, bea, "to each other")
    server.faults.add("fail", "users.conversations", retry_after=1)
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: len(gate.distinct) == 4)
        await gate.until(lambda: gate.seen(dm) > first["ts"])
    in_dm = [(str(message.key), message.text) for message in gate.taken if message.key.kind == "dm"]
    assert in_dm == [(f"slack:dm:{dm}", "one"), (f"slack:dm:{dm}", "two")]
    in_group = {message.text: message.addressed for message in gate.taken if message.key.kind == "group"}
    assert in_group == {"three": True, "to each other": False}


async def test_first_words_that_come_live_do_not_hide_those_that_were_missed(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    gate.cursors["listening since"] = f"{time.time() - 60:.6f}"
    server.sockets.subscribed = frozenset()
    server.people.send_text(dm, ada, "one")
    server.sockets.subscribed = frozenset(["message.im"])
    server.faults.add("hang", "users.conversations")  # Slack has not told us yet that she is there
    async with listening(bot_of(server), gate, server):
        await server.wait_for(lambda: server.called("users.conversations"))
        server.people.send_text(dm, ada, "two")
        await gate.until(lambda: len(gate.distinct) == 2)
    assert gate.distinct == ["one", "two"]


async def test_a_first_mention_in_a_channel_is_heard_but_nothing_that_was_said_before_we_were_invited(
    server: SlackServer, gate: Gate, ada: str, general: str, me: str, silence: Callable[[], None]
) -> None:
    other = server.people.make_channel("other", members=[ada], with_bot=False, private=True)["id"]
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: "listening since" in gate.cursors)
    silence()
    server.people.send_text(general, ada, f"{me} here")
    server.people.send_text(other, ada, f"shall we invite {me}?")
    server.people.invite_bot(other, ada)
    server.people.send_text(other, ada, f"{me} welcome")
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: gate.seen(general) and gate.seen(other))
    assert sorted(gate.distinct) == ["here", "welcome"]


async def test_of_conversations_without_a_word_the_youngest_are_looked_at_and_not_for_ever(
    server: SlackServer, gate: Gate, dm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "_MAX_UNHEARD", 2)
    gate.cursors["listening since"] = f"{time.time() - 60:.6f}"
    server.world.channels[dm].created += 5
    young = [str(server.people.make_dm(server.people.make_user(name)["id"])["id"]) for name in ("bea", "cleo", "dan")]
    for channel in young:
        server.world.channels[channel].created += 10
    server.world.scopes -= {"mpim:read"}
    with capture_logs() as logs:
        async with listening(bot_of(server), gate, server):
            await server.wait_for(lambda: len(server.called("conversations.history")) == 2)
    assert {call.params["channel"] for call in server.called("conversations.history")} <= set(young)
    assert [line["kind"] for line in logs if line["event"] == "new conversations not listed"] == ["mpim"]


async def test_answers_in_our_threads_are_read(
    server: SlackServer, gate: Gate, ada: str, dm: str, general: str, me: str, silence: Callable[[], None]
) -> None:
    async with listening(bot_of(server), gate, server):
        ours = server.people.send_text(general, ada, f"{me} hello")["ts"]
        other = server.people.send_text(general, ada, "not to us")["ts"]
        direct = server.people.send_text(dm, ada, "direct")["ts"]
        await gate.until(lambda: len(gate.distinct) == 3)
    silence()
    server.people.send_text(general, ada, "in ours", thread=ours)
    server.people.send_text(general, ada, "in another", thread=other)
    server.people.send_text(dm, ada, "in a thread", thread=direct)
    new = server.people.send_text(general, ada, f"{me} a new one")["ts"]
    server.people.send_text(general, ada, "and more", thread=new)
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: len(gate.distinct) == 7)
    keys = {message.text: (str(message.key), message.addressed) for message in gate.taken}
    assert keys["in ours"] == (f"slack:channel:{general}:{ours}", True)
    assert keys["in a thread"] == (f"slack:dm:{dm}:{direct}", True)
    assert keys["and more"] == (f"slack:channel:{general}:{new}", True)
    assert "in another" not in keys


async def test_what_comes_live_does_not_overtake_what_was_missed(
    server: SlackServer, gate: Gate, ada: str, dm: str, silence: Callable[[], None]
) -> None:
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "one")
        await gate.next_texts(1)
    silence()
    server.people.send_text(dm, ada, "two")
    server.sockets.subscribed = EVERYTHING
    server.faults.add("slow", "conversations.history", seconds=0.5)
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "three")
        await gate.until(lambda: len(gate.distinct) == 3)
    assert gate.distinct == ["one", "two", "three"]


async def test_what_is_left_for_the_history_is_read_though_it_came_after_that_was_asked_for(
    server: SlackServer, gate: Gate, ada: str, dm: str, silence: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_PATIENCE_SECONDS", 0.05)
    server.sockets.retry_seconds = (600.0,)  # Slack does not bring it again soon
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "one")
        await gate.next_texts(1)
    silence()
    server.people.send_text(dm, ada, "two")
    server.sockets.subscribed = EVERYTHING
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        if server.called("conversations.history"):
            asked.set()
            await go_on.wait()

    gate.before_accept = hold
    async with listening(bot_of(server), gate, server):
        await asyncio.wait_for(asked.wait(), 30)
        server.people.send_text(dm, ada, "three")
        await asyncio.sleep(0.3)  # nothing tells that it was left, but that
        go_on.set()
        await gate.until(lambda: len(gate.distinct) == 3)
    assert gate.distinct == ["one", "two", "three"]


def test_the_thread_that_has_been_quiet_for_longest_is_forgotten_first() -> None:
    room = SlackChannel("C1")
    for number in range(20):
        room.join_thread(f"1.{number:06d}", f"2.{number:06d}")
    room.join_thread("1.000000", "3.000000")
    for number in range(2, 12):
        room.join_thread(f"1.{number:06d}", f"2.{number:06d}")  # read once more
    room.join_thread("1.999999", "4.000000")
    assert "1.000000" in room.threads
    assert "1.000001" not in room.threads


async def test_until_it_is_done_what_comes_meanwhile_moves_no_cursor(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    gate.cursors[f"seen:{dm}"] = before = f"{time.time() - 60:.6f}"
    server.faults.add("fail", "conversations.history", count=None)
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(dm, ada, "hello")
        await gate.next_texts(1)
        assert gate.seen(dm) == before
        server.faults.clear()
        await gate.until(lambda: gate.seen(dm) == said["ts"])
    assert [message.text for message in gate.taken] == ["hello"]


async def test_a_line_that_broke_may_have_swallowed_something(
    server: SlackServer, gate: Gate, ada: str, dm: str, silence: Callable[[], None]
) -> None:
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "one")
        await gate.next_texts(1)
        silence()
        server.people.send_text(dm, ada, "two")
        server.sockets.cut(number=1)
        assert await gate.next_texts(2) == ["one", "two"]


async def test_when_all_lines_are_renewed_at_once_the_gap_is_read(
    server: SlackServer, gate: Gate, ada: str, dm: str, silence: Callable[[], None]
) -> None:
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "one")
        await gate.next_texts(1)
        silence()
        server.sockets.disconnect("refresh_requested")
        server.people.send_text(dm, ada, "two")
        assert await gate.next_texts(2) == ["one", "two"]


async def test_a_full_disk_is_outlived(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    server.sockets.retry_seconds = (30.0,)  # so it is us who look again
    gate.refuse_with += [StoreUnavailable("the disk is full")] * 3
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
        await gate.until(lambda: gate.seen(dm) == said["ts"])
    assert gate.refused == 3


async def test_a_wish_to_wait_is_granted(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    gate.cursors[f"seen:{dm}"] = f"{time.time() - 60:.6f}"
    server.sockets.subscribed = frozenset()
    server.people.send_text(dm, ada, "hello")
    server.faults.add("fail", "conversations.history", retry_after=1)
    async with listening(bot_of(server), gate, server):
        assert await gate.next_texts(1) == ["hello"]
    assert [call.status for call in server.called("conversations.history")] == [429, 200]


@pytest.mark.parametrize("why", ["left", "scope"])
async def test_a_channel_that_cannot_be_read_holds_up_nothing(
    server: SlackServer, gate: Gate, ada: str, dm: str, general: str, why: str
) -> None:
    began = f"{time.time() - 60:.6f}"
    gate.cursors |= {f"seen:{general}": began, f"seen:{dm}": f"{time.time() - 90:.6f}"}
    server.sockets.subscribed = frozenset(["message.channels"])
    server.people.send_text(dm, ada, "hello")
    if why == "left":
        server.people.remove_bot(general)
    else:
        server.world.scopes -= {"channels:history"}
    with capture_logs() as logs:
        async with listening(bot_of(server), gate, server):
            assert await gate.next_texts(1) == ["hello"]
            await gate.until(lambda: gate.seen(dm) == gate.taken[0].message_id)
            if why == "scope":
                server.people.send_text(general, ada, "there")
                await gate.next_texts(2)
    [unread] = [line for line in logs if line["event"].endswith("cannot be read")]
    assert why == "left" or "channels:history" in unread["problem"]
    assert (gate.seen(general) == "") == (why == "left")


async def test_many_messages_come_in_pages(
    server: SlackServer, gate: Gate, ada: str, dm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "_PAGE", 3)
    monkeypatch.setattr(backfill, "_TAKEN_AT_ONCE", 4)
    gate.cursors[f"seen:{dm}"] = f"{time.time() - 60:.6f}"
    server.sockets.subscribed = frozenset()
    for number in range(20):
        server.people.send_text(dm, ada, f"{number}")
    async with listening(bot_of(server), gate, server):
        texts = await gate.next_texts(15)
    assert texts == [f"{number}" for number in range(5, 20)]  # the newest, as far as we look back


async def test_yesterday_is_not_read(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    gate.cursors[f"seen:{dm}"] = f"{time.time() - 40 * 3600:.6f}"
    server.sockets.subscribed = frozenset()
    now, server.world.now = server.world.now, lambda: time.time() - 30 * 3600
    server.people.send_text(dm, ada, "old")
    server.world.now = now
    server.people.send_text(dm, ada, "new")
    async with listening(bot_of(server), gate, server):
        assert await gate.next_texts(1) == ["new"]


async def test_a_late_envelope_is_found_after_a_restart(
    server: SlackServer, gate: Gate, ada: str, dm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "_OVERLAP_SECONDS", 60)
    server.faults.add("missed", "message")
    server.sockets.retry_seconds = (30.0,)
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "late")
        server.people.send_text(dm, ada, "in time")
        assert await gate.next_texts(1) == ["in time"]
    async with listening(bot_of(server), gate, server):
        await gate.until(lambda: "late" in gate.distinct)


async def test_a_cursor_that_says_nothing_is_ignored(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    gate.cursors |= {f"seen:{dm}": "nonsense x=y", "seen:C9": "", "other": "1.2"}
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(dm, ada, "hello")
        await gate.next_texts(1)
    assert gate.seen(dm) == said["ts"]


async def test_stopping_ends_it(server: SlackServer, gate: Gate, ada: str, dm: str, general: str) -> None:
    platform = bot_of(server)
    gate.cursors[f"seen:{dm}"] = f"{time.time() - 60:.6f}"
    server.faults.add("hang", "conversations.history")
    async with listening(platform, gate, server) as task:
        await platform.send(outbound(chat=general))  # speaking does not wait for it
        await server.wait_for(lambda: server.called("conversations.history"))
    assert task.cancelled()
    assert not [other for other in asyncio.all_tasks() if "slack" in other.get_name()]


def test_threads_are_remembered_within_bounds() -> None:
    room = SlackChannel("C1")
    for number in range(30):
        room.join_thread(f"{number}.0", f"{number}.5")
    room.join_thread("10.0", "99.0")
    assert len(room.threads) == 20
    rooms = SlackChannels()
    cursor = room.cursor("100.0")
    rooms.load({cursor.channel: cursor.value})
    assert rooms.get("C1").threads == room.threads
    assert [behind.id for behind in rooms.list_behind()] == ["C1"]


@pytest.mark.parametrize(
    ("ts", "seconds", "before"),
    [
        ("1700000000.000001", 0, "1700000000.000000"),
        ("1700000000.000000", 0, "1699999999.999999"),
        ("1700000000.500000", 60, "1699999940.499999"),
    ],
)
def test_a_moment_before(ts: str, seconds: int, before: str) -> None:
    assert just_before(ts, seconds) == before
