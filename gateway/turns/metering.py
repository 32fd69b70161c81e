"""Wraps the model of a turn: checks the budgets before each call and records what it used afterwards.

Without budgets a call needs no commit of its own: it is recorded with what the turn commits anyway.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from agent_core.conversation import Message
from agent_core.events import Emit, Event, ReasoningDelta, Restarted, TextDelta, Usage
from agent_core.model import HelperModels, Model, ModelError, with_effort
from agent_core.tokens import count_bytes, estimate_bytes, estimate_message, estimate_tools
from gateway.clock import new_id, now_ms
from gateway.policies.budgets import Amount, Budgets, Scope
from gateway.store import chats, outbox, spending, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.spending import Call, Payer
from gateway.store.turns import Turn
from tools.base import Tool

log = structlog.get_logger()

OUTPUT_TOKENS = 2_000  # reserved for an answer, whose length is unknown before

WhoPays = Callable[[Transaction], Payer]
Tell = Callable[[Transaction, Scope, str], None]
"""Reports that a budget is nearly used up, in the transaction that found it."""


class BudgetSpent(ModelError):
    """The call was not made: it would pass a limit."""


class MeteredModel:
    """Implements `Model` for one turn. `settle` records what it used, in a transaction of the caller."""

    def __init__(
        self, model: Model, db: Database, budgets: Budgets, *, who_pays: WhoPays, tell: Tell, with_owner: bool = False
    ) -> None:
        self.name = model.name
        self._model = model
        self._db = db
        self._budgets = budgets
        self._who_pays = who_pays
        self._tell = tell
        self._with_owner = with_owner
        self._calls: dict[str, Call] = {}  # by key; until they are known to be settled
        self._running: set[str] = set()  # of these; a tool may ask while results of others are stored
        self._last = (0, 0)  # how many messages the last call was shown, and the tokens they were

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        now = now_ms()
        call = Call(key=new_id(), at_ms=now, day=self._budgets.day(now), model=self.name)
        self._calls[call.key] = call  # first: the turn may be stopped while the reservation is written
        self._running.add(call.key)
        try:
            if self._budgets.bind:
                await self._reserve(call, self._prompt_tokens(messages, tools))
            return await self._ask(call, messages, tools, emit, may_call)
        finally:
            self._running.discard(call.key)

    async def _ask(
        self, call: Call, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, may_call: bool
    ) -> Message:
        usage = _UsageCounter(emit, prompt_tokens=partial(self._prompt_tokens, messages, tools))
        try:
            reply = await self._model.reply(messages, tools, usage, may_call=may_call)
            usage.end(reply)
            return reply
        except asyncio.CancelledError:
            usage.cancel()
            raise
        except Exception:
            usage.fail()
            raise
        finally:
            self._calls[call.key] = self._as_used(call, usage.uses)
            self._last = (len(messages), usage.uses[-1].input_tokens) if usage.uses else self._last

    def settle(self, tx: Transaction) -> None:
        """Record what the calls used that have ended. May be repeated, also after a failed transaction."""
        for call in [call for key, call in list(self._calls.items()) if key not in self._running]:
            payer = self._who_pays(tx)
            if spending.settle(tx, call, payer):
                self._warn(tx, call, payer)
            else:
                del self._calls[call.key]

    async def _reserve(self, call: Call, prompt_tokens: int) -> None:
        """Check the budgets and reserve in one transaction, so that no two calls take the same tokens.

        Raises BudgetSpent.
        """
        estimate = Usage(input_tokens=prompt_tokens, output_tokens=OUTPUT_TOKENS)

        def unit(tx: Transaction) -> str:
            payer = self._who_pays(tx)
            pots = spending.pots(tx, self._budgets, payer, call.day)
            if not pots:
                return ""
            cost = self._budgets.cost(estimate, self.name)
            priced = cost is not None
            if cost is None:
                cost = round(estimate.total_tokens * spending.micros_per_token(tx, self.name))
            asked = Amount(tokens=estimate.total_tokens, cost_micros=cost)
            refusal = self._budgets.refusal(
                pots, asked, at_ms=call.at_ms, several=len(payer.people) > 1, owner=self._with_owner
            )
            if not refusal:
                spending.reserve(tx, replace(call, usage=replace(estimate, cost_micros=cost), priced=priced), payer)
            return refusal

        if refusal := await self._db.write_when_possible(unit):
            raise BudgetSpent(refusal)

    def _as_used(self, call: Call, uses: Sequence[Usage]) -> Call:
        """Return the call with its usage and price; a chain may have asked several models for one answer."""
        costs = [self._budgets.cost(usage, self.name) for usage in uses]
        total = Usage()
        for usage, cost in zip(uses, costs, strict=True):
            total = total.plus(replace(usage, cost_micros=cost))
        return replace(call, model=total.model or self.name, usage=total, priced=None not in costs)

    def _warn(self, tx: Transaction, call: Call, payer: Payer) -> None:
        if not self._budgets.bind:
            return
        for pot in spending.pots(tx, self._budgets, payer, call.day, reserved=False):
            if pot.scope == "user" and not payer.person:
                continue  # the chat paid
            if text := self._budgets.warning(pot, call.amount, at_ms=call.at_ms):
                log.info("budget nearly used", scope=pot.scope, used=pot.in_words())
                self._tell(tx, pot.scope, text)

    def _prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Tool]) -> int:
        """Estimate the size of a prompt from the count of the last call and what was added since."""
        shown, counted = self._last
        added = sum(map(estimate_message, messages[shown:]))
        if counted:
            return max(counted + added, added + sum(map(estimate_message, messages[:shown])))
        return added + estimate_tools(tools)


@dataclass(slots=True, kw_only=True)
class Meter:
    """The metered models of the turns that run."""

    budgets: Budgets = field(default_factory=Budgets)
    owner_accounts: Collection[str] = ()  # where the owner may be told that the day's budget is nearly used
    say: Callable[[str], None] | None = None  # how whoever sits at the terminal is told, instead of in a chat
    _models: dict[str, dict[tuple[str, int], MeteredModel]] = field(default_factory=dict)  # by turn; session and model

    def model_for(self, turn: Turn, model: Model, db: Database, *, session_id: str = "") -> Model:
        """Return the model metered for a turn, the same for all its calls. A turn may ask several models.

        With a `session_id`, for a delegated task: the same people pay, and what it used is added to that session.
        """

        def who_pays(tx: Transaction) -> Payer:
            return spending.payer_of_turn(tx, turn.id, session_id or turn.session_id)

        def tell(tx: Transaction, scope: Scope, text: str) -> None:
            now = turns.reload(tx, turn)
            if self.say is not None:
                self.say(text)
            elif scope != "day" and (now.run is None or now.run.address is not None):
                outbox.add_notice(tx, now.address, text, topic="budget", turn_id=turn.id)
            elif where := chats.find_notice_address(tx, self.owner_accounts):
                outbox.add_notice(tx, where, text, topic="budget")

        budgets = self.budgets
        if turn.run is not None and turn.run.budget_tokens:
            budgets = replace(budgets, limits={**budgets.limits, "job": Amount(tokens=turn.run.budget_tokens)})
        metered = self._models.setdefault(turn.id, {})
        wanted = session_id, id(model)
        if wanted not in metered:
            metered[wanted] = MeteredModel(
                model, db, budgets, who_pays=who_pays, tell=tell, with_owner=turn.is_with_owner
            )
        return metered[wanted]

    def settle(self, tx: Transaction, turn: Turn) -> None:
        # A copy: this runs in the database's thread, while another task of the turn may begin to ask a model.
        for model in list(self._models.get(turn.id, {}).values()):
            model.settle(tx)

    def close(self, turn: Turn) -> None:
        """Forget the model of a turn that is over and settled."""
        self._models.pop(turn.id, None)


class _UsageCounter:
    """Passes events on and sums up their token counts. Estimates what the server did not count."""

    def __init__(self, emit: Emit, *, prompt_tokens: Callable[[], int]) -> None:
        self._emit = emit
        self._prompt_tokens = prompt_tokens
        self._bytes = 0  # received since the last count
        self._counted = False
        self.uses: list[Usage] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Usage() if event.total_tokens or event.cost_micros:  # a count of nothing is none
                self.uses.append(event)
                self._bytes, self._counted = 0, True
            case TextDelta() | ReasoningDelta():
                self._bytes += count_bytes(event.text)
            case Restarted():  # the attempt before this one is paid for as well
                self.fail()
                self._counted = False
            case _:
                pass
        self._emit(event)

    def end(self, reply: Message) -> None:
        if not self._counted:
            self._estimate(estimate_message(reply))

    def cancel(self) -> None:
        """Count a call that we cancelled: its prompt had been sent."""
        if not self._counted:
            self._estimate(estimate_bytes(self._bytes))

    def fail(self) -> None:
        """Count a failed attempt. One that was refused before it produced any text costs nothing."""
        if self._bytes:
            self._estimate(estimate_bytes(self._bytes))

    def _estimate(self, output_tokens: int) -> None:
        self.uses.append(Usage(input_tokens=self._prompt_tokens(), output_tokens=output_tokens))
        self._bytes = 0


@dataclass(slots=True)
class _Health:
    answered_ms: int = 0
    problem: str = ""


class MonitoredModel:
    """A model that remembers when it last answered and why it failed, for `hermes status`."""

    def __init__(self, model: Model, *, helpers: HelperModels | None = None) -> None:
        """The helpers are closed with it."""
        self.name = model.name
        self.helpers = helpers or HelperModels()
        self._model = model
        self._health = _Health()
        self._variants: dict[str, MonitoredModel] = {}  # by effort

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        try:
            message = await self._model.reply(messages, tools, emit, may_call=may_call)
        except ModelError as error:
            self._health.problem = str(error)
            raise
        self._health.answered_ms, self._health.problem = now_ms(), ""
        return message

    def with_effort(self, effort: str) -> Model:
        if effort not in self._variants:
            self._variants[effort] = MonitoredModel(with_effort(self._model, effort))
            self._variants[effort]._health = self._health
        return self._variants[effort]

    async def aclose(self) -> None:
        helpers = self.helpers
        for one in (helpers.auxiliary, helpers.vision, helpers.aggregator, *helpers.panel, self._model):
            if close := getattr(one, "aclose", None):
                await close()

    @property
    def in_use(self) -> str:
        """Return the name of the model that answers now, which may be a fallback."""
        return str(getattr(self._model, "in_use", self.name))

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "answered_ms": self._health.answered_ms, "problem": self._health.problem[:300]}
