"""One draft a turn: it grows, gives way, and is gone when the turn is over, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from agent_core.events import TextDelta, ToolWaiting
from gateway.clock import now_ms
from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, PlatformUnavailable
from gateway.messages import Address
from gateway.outbound import drafts as drafts_module
from gateway.outbound.drafts import Drafts, DraftState
from gateway.outbound.progress import DraftContent
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.store import drafts as rows
from gateway.store.db.database import Database
from gateway.store.drafts import Draft
from tests.gateway.easel import STYLE, Easel
from tests.gateway.scene import ACCOUNT, soon

HOME = Address(account=ACCOUNT, chat="home", reply_to="1")


def growing_in(easel: Easel, *, turn: str = "turn", address: Address = HOME) -> DraftState:
    assert easel.style is not None
    return DraftState(turn_id=turn, address=address, style=easel.style, content=DraftContent("new"))


def drafts_on(db: Database, easel: Easel) -> Drafts:
    return Drafts(db=db, platforms={ACCOUNT: easel}, shown_on={ACCOUNT})


def says(state: DraftState, text: str) -> None:
    state.content.take(TextDelta(text=text))


@asynccontextmanager
async def shown(drafts: Drafts, state: DraftState) -> AsyncIterator[None]:
    """While the block runs; after it the turn has ended."""
    async with asyncio.TaskGroup() as group:
        group.create_task(drafts.show_until_end(state))
        yield
        state.ended.set()
        await soon(state.is_settled.wait())


@asynccontextmanager
async def tidied(drafts: Drafts) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(drafts.tidy())
        yield
        task.cancel()


async def stored(db: Database) -> list[Draft]:
    return await db.read(lambda tx: rows.list_orphans(tx, [ACCOUNT]))


async def nothing_stored(db: Database) -> None:
    while await stored(db):
        await asyncio.sleep(0.01)


async def leave(db: Database, *, message_id: str = "", turn: str = "turn") -> Draft:
    """What an earlier process has left."""
    draft = rows.new(turn, HOME)
    await db.write(lambda tx: rows.begin(tx, draft))
    if message_id:
        await db.write(lambda tx: rows.mark_shown(tx, turn, message_id))
    return draft


def failing(error: Exception, *, at: str, times: int = 1) -> Callable[[str], Awaitable[None]]:
    left = [times]

    async def fail(what: str) -> None:
        if what == at and left[0]:
            left[0] -= 1
            raise error

    return fail


async def test_a_draft_appears_and_grows_in_place(db: Database) -> None:
    easel = Easel()
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown == {"draft 1": "💭 Thinking…"})
        says(state, "The")
        await easel.until(lambda: easel.shown["draft 1"].endswith("The"))
        says(state, " answer")
        await easel.until(lambda: easel.shown["draft 1"].endswith("answer"))
        assert easel.shown == {"draft 1": "✍️ Writing…\n\nThe answer"}
        assert [draft.message_id for draft in await stored(db)] == ["draft 1"]


async def test_what_has_not_changed_is_not_shown_again(db: Database) -> None:
    easel = Easel()
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown)
        for _ in range(20):
            await asyncio.sleep(STYLE.interval_seconds)
        assert easel.did == ["show"]


async def test_what_fades_is_shown_again_and_leaves_no_row(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "_REFRESH_SECONDS", 0.0)
    easel = Easel(style=replace(STYLE, fades=True))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.did == ["show"] * 3)
        assert await stored(db) == []


async def test_nothing_is_shown_while_a_person_is_waited_for(db: Database) -> None:
    easel = Easel(style=replace(STYLE, fades=True))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    state.content.take(ToolWaiting(waits=True))
    async with shown(drafts, state):
        for _ in range(20):
            await asyncio.sleep(STYLE.interval_seconds)
        assert easel.did == []
        state.content.take(ToolWaiting(waits=False))
        await easel.until(lambda: easel.did == ["show"])


async def test_a_turn_that_is_over_shows_nothing(db: Database) -> None:
    easel = Easel()
    drafts, state = drafts_on(db, easel), growing_in(easel)
    state.ended.set()
    await soon(drafts.show_until_end(state))
    assert easel.did == []
    assert not state.is_begun


async def test_a_draft_gives_way_to_answers(db: Database) -> None:
    easel = Easel(rate_limits=RateLimits(per_chat=Rate(count=2, seconds=1000)))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    easel.rate_limits.record_send("home")
    async with shown(drafts, state):
        for _ in range(20):
            await asyncio.sleep(STYLE.interval_seconds)
        assert easel.did == []
        assert easel.rate_limits.remaining("home") == 1
        assert await stored(db) == []  # what was never tried needs no looking for


async def test_each_change_counts_towards_what_may_be_said(db: Database) -> None:
    easel = Easel(rate_limits=RateLimits(per_chat=Rate(count=3, seconds=1000)))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown)
        says(state, "more")
        await easel.until(lambda: easel.did == ["show", "edit"])
        says(state, "still more")
        for _ in range(20):
            await asyncio.sleep(STYLE.interval_seconds)
        assert easel.did == ["show", "edit"]


async def test_many_drafts_on_an_account_are_changed_less_often(db: Database) -> None:
    easel = Easel(style=replace(STYLE, interval_seconds=2.0, account_seconds=1.5))
    drafts = drafts_on(db, easel)
    one, two = growing_in(easel, turn="1"), growing_in(easel, turn="2")
    async with shown(drafts, one):
        await easel.until(lambda: len(easel.shown) == 1)
        assert drafts._interval(one) == 2.0
        async with shown(drafts, two):
            await easel.until(lambda: len(easel.shown) == 2)
            assert drafts._interval(one) == 3.0


@pytest.mark.parametrize("error", [PlatformUnavailable("down"), PlatformUnavailable("wait", retry_after=0.001)])
async def test_a_first_try_that_was_never_sent_is_made_again_and_leaves_no_row(
    error: GatewayError, db: Database
) -> None:
    easel = Easel(before=failing(error, at="show"))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.did == ["show", "show"])
        await easel.until(lambda: easel.shown)
    easel.before = failing(error, at="show", times=1000)
    async with shown(drafts, again := growing_in(easel, turn="again")):
        await easel.until(lambda: len(easel.did) > 4)
    assert again.is_settled.is_set()
    assert [draft.turn_id for draft in await stored(db)] == ["turn"]


async def test_a_change_that_fails_is_made_again(db: Database) -> None:
    easel = Easel(before=failing(PlatformUnavailable("down"), at="edit", times=3))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown)
        says(state, "more")
        await easel.until(lambda: "more" in easel.shown["draft 1"])
        await easel.until(lambda: not state.is_in_doubt)


async def test_a_draft_that_is_refused_is_given_up_and_leaves_no_row(db: Database) -> None:
    easel = Easel(before=failing(DeliveryRejected("no rights"), at="show"))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await soon(state.is_settled.wait())
    assert easel.did == ["show"]
    assert await stored(db) == []


async def test_a_draft_that_somebody_has_deleted_does_not_come_back(db: Database) -> None:
    easel = Easel()
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown)
        easel.shown.clear()
        says(state, "more")
        await soon(state.is_settled.wait())
    assert easel.did == ["show", "edit"]
    assert easel.shown == {}
    assert not state.is_in_doubt


async def test_one_that_may_have_been_sent_is_looked_for_when_the_turn_is_over(db: Database) -> None:
    easel = Easel(behind=failing(DeliveryInDoubt("cut"), at="show"))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await soon(state.is_settled.wait())
    assert list(easel.shown) == ["draft 1"]
    async with tidied(drafts):
        await soon(nothing_stored(db))
    assert easel.shown == {}


async def test_a_change_without_an_answer_is_in_doubt(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(what: str) -> None:
        if what == "edit":
            await asyncio.Event().wait()

    monkeypatch.setattr(drafts_module, "_CALL_SECONDS", 0.02)
    easel = Easel(before=hang)
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown)
        says(state, "more")
        await easel.until(lambda: easel.did.count("edit") == 2)
    assert state.is_in_doubt


async def test_a_bug_of_an_adapter_ends_that_draft_alone(db: Database) -> None:
    easel = Easel(before=failing(ZeroDivisionError(), at="show"))
    drafts = drafts_on(db, easel)
    async with shown(drafts, growing_in(easel, turn="broken")), shown(drafts, growing_in(easel, turn="sound")):
        await easel.until(lambda: easel.shown)


async def test_the_draft_of_an_earlier_process_is_taken_up(db: Database) -> None:
    easel = Easel(shown={"old": "💭 Thinking…"})
    await leave(db, message_id="old")
    drafts, state = drafts_on(db, easel), growing_in(easel)
    says(state, "again")
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown == {"old": "✍️ Writing…\n\nagain"})
    assert easel.did[0] == "edit"


async def test_the_draft_of_an_earlier_process_is_found_where_its_id_is_not_known(db: Database) -> None:
    draft = await leave(db)
    easel = Easel(shown={"old": "💭 Thinking…"}, keys={"old": draft.key})
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.did == ["find", "edit"])
        assert [one.message_id for one in await stored(db)] == ["old"]


async def test_a_draft_that_an_earlier_process_did_not_live_to_send_is_sent_under_its_key(db: Database) -> None:
    draft = await leave(db)
    easel = Easel()
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await easel.until(lambda: easel.shown)
    assert easel.did == ["find", "show"]
    assert easel.keys == {"draft 1": draft.key}


async def test_while_it_cannot_be_told_which_is_the_draft_none_is_shown(db: Database) -> None:
    await leave(db)
    easel = Easel(before=failing(PlatformUnavailable("not yet"), at="find"))
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await soon(state.is_settled.wait())
    assert easel.did == ["find"]
    assert len(await stored(db)) == 1  # it is looked for later


async def test_what_turns_that_are_over_have_left_is_taken_away(db: Database) -> None:
    unknown = await leave(db, turn="unknown")
    await leave(db, turn="known", message_id="a")
    await leave(db, turn="never sent")
    easel = Easel(shown={"a": "…", "b": "…", "answer": "!"}, keys={"b": unknown.key})
    drafts = drafts_on(db, easel)
    async with tidied(drafts):
        await soon(nothing_stored(db))
    assert easel.shown == {"answer": "!"}


async def test_taking_away_is_tried_until_it_works(db: Database) -> None:
    await leave(db, message_id="a")
    easel = Easel(shown={"a": "…"}, before=failing(PlatformUnavailable("down"), at="take away", times=3))
    async with tidied(drafts_on(db, easel)):
        await soon(nothing_stored(db))
    assert easel.did == ["take away"] * 4
    assert easel.shown == {}


async def test_one_that_may_not_be_taken_away_is_let_be(db: Database) -> None:
    await leave(db, message_id="a")
    easel = Easel(shown={"a": "…"}, before=failing(DeliveryRejected("no rights"), at="take away"))
    async with tidied(drafts_on(db, easel)):
        await soon(nothing_stored(db))
    assert easel.did == ["take away"]


async def test_one_that_an_adapter_chokes_on_does_not_keep_the_others(db: Database) -> None:
    await leave(db, message_id="a", turn="1")
    await leave(db, message_id="b", turn="2")
    easel = Easel(shown={"a": "…", "b": "…"}, before=failing(ZeroDivisionError(), at="take away"))
    async with tidied(drafts_on(db, easel)):
        await soon(nothing_stored(db))
    assert easel.shown == {}


async def test_the_draft_that_is_being_shown_is_left_alone(db: Database) -> None:
    easel = Easel()
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with tidied(drafts):
        async with shown(drafts, state):  # of a turn that the store does not know, and so takes to be over
            await easel.until(lambda: easel.shown)
            drafts.tidy_soon()
            says(state, "more")
            await easel.until(lambda: "more" in easel.shown["draft 1"])
        await soon(nothing_stored(db))
    assert easel.did == ["show", "edit", "take away"]


async def test_one_that_was_forgotten_while_it_was_sent_is_taken_away_at_once(db: Database) -> None:
    async def forget(what: str) -> None:
        if what == "show":
            await db.write(lambda tx: rows.forget(tx, "turn"))

    easel = Easel(behind=forget)
    drafts, state = drafts_on(db, easel), growing_in(easel)
    async with shown(drafts, state):
        await soon(state.is_settled.wait())
    assert easel.did == ["show", "take away"]
    assert easel.shown == {}


async def test_drafts_of_accounts_that_are_switched_off_wait_and_old_ones_are_dropped(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leave(db, message_id="a", turn="1")
    easel = Easel(account="another")
    drafts = Drafts(db=db, platforms={"another": easel}, shown_on=())
    async with tidied(drafts):
        assert not await soon(drafts._delete_left_behind())  # nothing to come back for
    assert easel.did == []
    assert len(await stored(db)) == 1
    monkeypatch.setattr(drafts_module, "now_ms", lambda: now_ms() + 48 * 3_600_000)
    async with tidied(drafts):
        await soon(nothing_stored(db))


async def test_where_streaming_is_off_there_is_no_draft(db: Database) -> None:
    easel = Easel()
    assert Drafts(db=db, platforms={ACCOUNT: easel}, shown_on=()).style(HOME) is None
    assert drafts_on(db, easel).style(HOME) == STYLE
    assert drafts_on(db, easel).style(Address(account="cli", chat="x")) is None


async def test_what_an_earlier_process_was_sending_is_settled_by_now(db: Database) -> None:
    await leave(db)
    easel = Easel()
    drafts = drafts_on(db, easel)
    async with tidied(drafts):
        await soon(nothing_stored(db))
    [known] = easel.known
    assert not known.is_all  # nothing was said since: a platform that needs that has to wait
