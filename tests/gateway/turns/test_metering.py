"""Each model call is held against the budgets before it and written down after it, however it ends."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent_core.conversation import Message, assistant, user
from agent_core.events import Emit, Event, Restarted, TextDelta, Usage, ignore
from agent_core.model import Model, ModelError
from gateway.daemon import _take_over
from gateway.policies.budgets import Amount, Budgets, Price
from gateway.store import chats, spending
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inspect import read_counts
from gateway.store.spending import Payer
from gateway.turns.metering import OUTPUT_TOKENS, BudgetSpent, Meter, MeteredModel
from gateway.turns.responder import Responder
from tests.agent_core.scripted import ScriptedModel, answering, asks, call
from tests.gateway.scene import ACCOUNT, PacedModel, begin, inbound, make_responder, make_small, rows, running, soon
from tools.base import Tool

ADA = Payer(chat="pigeon:home", people=("ada",), session_id="")


def user_limit(tokens: int) -> Budgets:
    return Budgets(limits={"user": Amount(tokens=tokens)})


def metered(db: Database, model: Model, budgets: Budgets | None = None, payer: Payer = ADA) -> MeteredModel:
    return MeteredModel(model, db, budgets or Budgets(), who_pays=lambda tx: payer, tell=lambda tx, scope, text: None)


def responder(db: Database, model: Model, budgets: Budgets, *, tools: Sequence[Tool] = ()) -> Responder:
    meter = Meter(budgets=budgets, owner_accounts=(ACCOUNT,))
    return make_responder(db, model, tools=tools, meter=meter)


async def spent(db: Database) -> list[tuple[object, ...]]:
    return await rows(db, "SELECT input_tokens, output_tokens, settled FROM spending ORDER BY id")


async def texts(db: Database, kind: str) -> list[str]:
    found = await rows(db, "SELECT parts FROM outbox WHERE kind = ? ORDER BY id", kind)
    return [json.loads(parts)[0]["text"] for (parts,) in found]


@dataclass
class Telling:
    """Emits what the test says, then answers or fails as it says."""

    events: Sequence[Event] = ()
    end: BaseException | None = None
    name: str = "telling"
    asked: int = 0
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.asked += 1
        for event in self.events:
            emit(event)
        if self.end is not None:
            self.waits.set()
            if isinstance(self.end, asyncio.CancelledError):
                await asyncio.Event().wait()
            raise self.end
        return assistant("x" * 400)


REPORTED = Usage(input_tokens=10, output_tokens=1)
QUESTION = user("?" * 40)  # ten tokens


@pytest.mark.parametrize(
    ("events", "end", "used"),
    [
        ([REPORTED], None, (10, 1)),
        ([], None, (10, 100)),  # a server that does not count
        ([Usage()], None, (10, 100)),  # and one that counts nothing
        ([TextDelta(text="y" * 80), Restarted(), TextDelta(text="z"), REPORTED], None, (20, 21)),
        ([REPORTED, REPORTED], None, (20, 2)),
        ([], ModelError("refused"), None),
        ([TextDelta(text="y" * 80)], ModelError("cut"), (10, 20)),
        ([TextDelta(text="y" * 80), REPORTED], ModelError("filtered"), (10, 1)),
        ([], asyncio.CancelledError(), (10, 0)),
        ([TextDelta(text="語" * 20)], asyncio.CancelledError(), (10, 15)),
    ],
)
async def test_a_call_is_settled_with_what_is_known_of_it(
    db: Database, events: list[Event], end: BaseException | None, used: tuple[int, int] | None
) -> None:
    """Whether it was reserved or not."""
    for budgets in (Budgets(), user_limit(100_000)):
        inner = Telling(events=events, end=end)
        model = metered(db, inner, budgets)
        asking = asyncio.create_task(model.reply([QUESTION], (), ignore))
        if isinstance(end, asyncio.CancelledError):
            await soon(inner.waits.wait())
            asking.cancel()
        await asyncio.wait([asking])
        await db.write(model.settle)
        await db.write(model.settle)
    assert await spent(db) == ([(*used, 1)] * 2 if used else [])


async def test_the_reservation_is_durable_before_the_model_is_asked(db: Database) -> None:
    model = PacedModel()
    question = user("?" * 40)
    asking = asyncio.create_task(metered(db, model, user_limit(10_000)).reply([question], (), ignore))
    await soon(model.asked.get())
    assert await spent(db) == [(10, OUTPUT_TOKENS, 0)]
    model.let(question.text)
    await soon(asking)


async def test_the_next_estimate_builds_on_what_was_counted(db: Database) -> None:
    inner = Telling(events=[Usage(input_tokens=3000, output_tokens=1)])
    model = metered(db, inner, user_limit(100_000))
    await model.reply([QUESTION], (), ignore)
    inner.end = asyncio.CancelledError()
    asking = asyncio.create_task(model.reply([QUESTION, QUESTION], (), ignore))
    await soon(inner.waits.wait())
    assert await rows(db, "SELECT input_tokens FROM spending ORDER BY id") == [(10,), (3010,)]
    asking.cancel()
    await asyncio.wait([asking])


async def test_twenty_at_once_cannot_pass_the_limit_together(db: Database) -> None:
    model = PacedModel()
    model.let("hello")
    budgets = user_limit(5 * (OUTPUT_TOKENS + 2))  # what five of them reserve
    several = [metered(db, model, budgets) for _ in range(20)]
    outcomes = await asyncio.gather(
        *(one.reply([user("hello")], (), ignore) for one in several), return_exceptions=True
    )
    assert model.asked.qsize() == 5
    assert sum(isinstance(outcome, BudgetSpent) for outcome in outcomes) == 15
    assert (await db.read(lambda tx: spending.used(tx, "2000-01-01"))).tokens <= budgets.limit("user").tokens


async def test_money_is_reserved_at_the_price_in_the_settings(db: Database) -> None:
    price = Price(model="telling", input=1, cached=1, output=1)
    budgets = Budgets(limits={"day": Amount(cost_micros=OUTPUT_TOKENS + 50)}, prices=[price])
    await metered(db, Telling(), budgets).reply([QUESTION], (), ignore)
    with pytest.raises(BudgetSpent, match="everybody together has too little left"):
        await metered(db, Telling(), budgets).reply([QUESTION], (), ignore)


async def test_money_is_reserved_at_what_the_provider_charged_last(db: Database) -> None:
    budgets = Budgets(limits={"day": Amount(cost_micros=10_000)})
    model = metered(db, Telling(events=[replace(REPORTED, cost_micros=55)]), budgets)
    await model.reply([QUESTION], (), ignore)
    await db.write(model.settle)
    with pytest.raises(BudgetSpent):  # 5 micros a token, and more than 2,000 tokens
        await model.reply([QUESTION], (), ignore)


async def test_each_model_of_a_chain_has_its_own_price(db: Database) -> None:
    prices = [Price(model=name, input=micros, cached=0, output=0) for name, micros in (("a", 1), ("b", 2))]
    uses = [Usage(input_tokens=100, model="a"), Usage(input_tokens=100, model="b")]
    model = metered(db, Telling(events=uses), Budgets(prices=prices))
    await model.reply([QUESTION], (), ignore)
    await db.write(model.settle)
    assert await rows(db, "SELECT model, input_tokens, cost_micros, priced FROM spending") == [("b", 200, 300, 1)]


async def test_whoever_is_over_budget_gets_no_token_of_the_models_time(db: Database) -> None:
    model = ScriptedModel([assistant("hi")])
    await responder(db, model, user_limit(1000)).respond(await begin(db, inbound("hello")))
    assert model.asked == []
    [said] = await texts(db, "answer")
    assert said.startswith("Your budget for today has too little left for this (0 of 1,000 tokens)")
    assert await rows(db, "SELECT outcome FROM turns") == [("failed",)]
    assert await spent(db) == []


async def test_a_turn_that_runs_out_in_the_middle_says_so_and_has_paid_for_what_it_did(db: Database) -> None:
    model = ScriptedModel([asks(call("dig")), assistant("found")])
    budgets = user_limit(OUTPUT_TOKENS + 20)
    work = responder(db, model, budgets, tools=[answering("dig", "gold" * 100)])
    await work.respond(await begin(db, inbound("dig")))
    assert len(model.asked) == 1
    assert (await texts(db, "answer"))[0].startswith("Your budget for today has too little left")
    assert await spent(db) == [(10, 1, 1)]
    assert await rows(db, "SELECT total_tokens FROM sessions") == [(11,)]


async def test_a_failed_turn_counts(db: Database) -> None:
    class CutShort(ScriptedModel):
        async def reply(
            self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
        ) -> Message:
            emit(TextDelta(text="half an answer, and then"))
            return await super().reply(messages, tools, emit, may_call=may_call)

    await make_responder(db, CutShort([ModelError("no more")])).respond(await begin(db, inbound("hello")))
    assert await spent(db) == [(2, 6, 1)]
    assert await rows(db, "SELECT total_tokens FROM sessions") == [(8,)]


async def test_a_stopped_turn_counts(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig for gold"))
        await soon(model.asked.get())
        await small.say(inbound("/stop", message_id="2"))
        assert await small.answer() == "Stopped."
        async with asyncio.timeout(10):
            while (await db.read(read_counts))["running"]:
                await asyncio.sleep(0)
    assert await rows(db, "SELECT outcome FROM turns") == [("stopped",)]
    assert await spent(db) == [(3, 0, 1)]


async def commits(db: Database) -> int:
    [(count,)] = await rows(db, "SELECT value FROM meta WHERE name = 'commits'")
    return int(count)


@pytest.mark.parametrize(("budgets", "more"), [(Budgets(), 0), (user_limit(10**6), 2)], ids=["free", "limited"])
async def test_without_a_limit_a_message_costs_no_commit_more(db: Database, budgets: Budgets, more: int) -> None:
    model = ScriptedModel([asks(call("dig")), assistant("found")])
    work = responder(db, model, budgets, tools=[answering("dig")])
    turn = await begin(db, inbound("dig"))
    opened = await db.write(lambda tx: work.open(tx, turn))
    before = await commits(db)
    await work.respond(turn, opened)
    # The model's request, the tool's start, its result, the answer: those are written anyway.
    assert await commits(db) - before == 4 + more
    assert len(await spent(db)) == 2


async def test_the_warning_comes_once_silently_and_behind_the_answer(db: Database) -> None:
    budgets = replace(user_limit(OUTPUT_TOKENS + 100), warn_at=0.005)  # the first of these calls crosses it
    for number in range(4):
        model = ScriptedModel([assistant("hi")])
        await responder(db, model, budgets).respond(await begin(db, inbound("hello", message_id=str(number))))
    [warning] = await texts(db, "notice")
    assert warning.startswith(f"Your budget for today is 1% used: 11 of {OUTPUT_TOKENS + 100:,} tokens. It resets")
    sent = await rows(db, "SELECT kind, notify, topic FROM outbox ORDER BY id LIMIT 2")
    assert sent == [("answer", 1, ""), ("notice", 0, "budget")]


async def test_the_owner_is_told_of_the_days_budget(db: Database) -> None:
    await db.write(lambda tx: chats.set_home(tx, ACCOUNT, "owners-chat"))
    budgets = Budgets(limits={"day": Amount(tokens=OUTPUT_TOKENS + 100)}, warn_at=0.005)
    await responder(db, ScriptedModel([assistant("hi")]), budgets).respond(await begin(db, inbound("hello")))
    [(chat, parts)] = await rows(db, "SELECT chat, parts FROM outbox WHERE kind = 'notice'")
    assert chat == "owners-chat"
    assert "Today's budget for everybody together is 1% used" in parts


async def test_in_a_group_whoever_asked_pays(db: Database) -> None:
    work = responder(db, ScriptedModel([assistant("hi")]), Budgets())
    await work.respond(await begin(db, inbound("hello", kind="group", chat="-7")))
    [(person, chat)] = await rows(db, "SELECT person_id, chat FROM spending")
    assert chat == f"{ACCOUNT}:-7"
    assert await rows(db, "SELECT person_id FROM identities") == [(person,)]


async def test_where_several_asked_the_chat_pays_and_each_is_checked(db: Database) -> None:
    first = inbound("hello", kind="group", chat="-7", sender="42", message_id="1")
    second = inbound("and I", kind="group", chat="-7", sender="43", message_id="2")
    await responder(db, ScriptedModel([assistant("hi")]), Budgets()).respond(await begin(db, first, second))
    assert await rows(db, "SELECT person_id FROM spending") == [("",)]
    spender = await db.read(lambda tx: tx.one("SELECT person_id FROM identities WHERE user_id = '43'"))
    assert spender is not None
    await db.write(lambda tx: tx.execute("UPDATE spending SET person_id = ?, input_tokens = 9000", spender[0]))
    third = replace(first, message_id="3")
    fourth = replace(second, message_id="4")
    model = ScriptedModel([assistant("hi")])
    await responder(db, model, user_limit(9000)).respond(await begin(db, third, fourth))
    assert model.asked == []
    assert (await texts(db, "answer"))[-1].startswith("Today's budget of one of the people who asked is used up")


async def test_a_row_that_a_crash_left_is_settled_at_the_next_start(db: Database) -> None:
    model = PacedModel()
    asking = asyncio.create_task(metered(db, model, user_limit(10_000)).reply([QUESTION], (), ignore))
    await soon(model.asked.get())
    asking.cancel()  # and nobody is left to settle it
    await asyncio.wait([asking])
    assert await spent(db) == [(10, OUTPUT_TOKENS, 0)]
    next_process = await _take_over(db.path, 1.0)
    await next_process.close()
    assert await spent(db) == [(10, OUTPUT_TOKENS, 1)]


async def test_a_transaction_that_comes_to_nothing_loses_no_call(db: Database) -> None:
    model = metered(db, Telling(events=[REPORTED]))
    await model.reply([QUESTION], (), ignore)

    def broken(tx: Transaction) -> None:
        model.settle(tx)
        raise KeyError("the power went")

    with pytest.raises(KeyError):
        await db.write(broken)
    assert await spent(db) == []
    await db.write(model.settle)
    assert await spent(db) == [(10, 1, 1)]


async def test_a_crash_does_not_make_a_price_known(db: Database) -> None:
    budgets = Budgets(limits={"day": Amount(cost_micros=10_000)})
    model = PacedModel()
    asking = asyncio.create_task(metered(db, model, budgets).reply([QUESTION], (), ignore))
    await soon(model.asked.get())
    asking.cancel()
    await asyncio.wait([asking])
    await db.write(spending.after_crash)
    assert await rows(db, "SELECT cost_micros, priced FROM spending") == [(0, 0)]
