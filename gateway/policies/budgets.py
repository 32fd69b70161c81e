"""Apply the daily budgets of people, chats and jobs, and write the messages about them. Pure; the store sums up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Literal
from zoneinfo import ZoneInfo

from agent_core.events import Usage
from hermes_config.settings import BudgetsSettings
from hermes_config.types import OWN_BUDGET, PRICE

Scope = Literal["user", "chat", "job", "day"]

_FREE = "demo"  # the built-in model
_WHOSE: dict[Scope, str] = {
    "user": "Your budget for today",
    "chat": "The budget of this chat for today",
    "job": "The budget of this job for today",
    "day": "Today's budget for everybody together",
}
_ONE_OF_SEVERAL = "Today's budget of one of the people who asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Tokens and money. As a limit, 0 means none."""

    tokens: int = 0
    cost_micros: int = 0

    def __bool__(self) -> bool:
        return bool(self.tokens or self.cost_micros)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pot:
    """One budget, and how much of it is used, including reservations."""

    scope: Scope
    limit: Amount
    used: Amount

    def is_passed_by(self, more: Amount) -> bool:
        """Return whether this exceeds the budget. Once all is used, even 0 does: no call is known to be free."""
        return any(limit and (used >= limit or used + added > limit) for used, added, limit in self._pairs(more))

    def share(self, less: Amount | None = None) -> float:
        """Return the used share, 1 being all, without the amount `less`."""
        less = less or Amount()
        return max((used - taken) / limit for used, taken, limit in self._pairs(less) if limit)

    def unit(self, more: Amount | None = None) -> Literal["tokens", "usd"]:
        """Return which of the two limits is tighter with that much more."""
        pairs = self._pairs(more or Amount())
        tokens, money = ((used + added) / limit if limit else -1.0 for used, added, limit in pairs)
        return "usd" if money > tokens else "tokens"

    def in_words(self, more: Amount | None = None) -> str:
        """Describe the use, such as: 199,700 of 200,000 tokens."""
        if self.unit(more) == "usd":
            return f"{dollars(self.used.cost_micros)} of {dollars(self.limit.cost_micros)}"
        return f"{self.used.tokens:,} of {self.limit.tokens:,} tokens"

    def _pairs(self, other: Amount) -> list[tuple[int, int, int]]:
        return [
            (self.used.tokens, other.tokens, self.limit.tokens),
            (self.used.cost_micros, other.cost_micros, self.limit.cost_micros),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens, which equals micros per token."""

    model: str  # a name, or a pattern such as claude-*
    input: float
    cached: float
    output: float

    def fits(self, model: str) -> bool:
        """Match the whole name of a model, or the part after its maker."""
        return any(fnmatchcase(name, self.model.lower()) for name in {model, model.rpartition("/")[2]})

    def of(self, usage: Usage) -> int:
        cached = min(usage.cached_tokens, usage.input_tokens)  # some servers count them separately
        fresh = usage.input_tokens - cached
        return round(fresh * self.input + cached * self.cached + usage.output_tokens * self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The budgets of the settings. Days are those of the owner's time zone; None means the machine's."""

    limits: Mapping[Scope, Amount] = field(default_factory=dict)
    own: Mapping[str, Amount] = field(default_factory=dict)  # by identity, such as telegram:123
    prices: Sequence[Price] = ()
    warn_at: float = 0.8
    timezone: tzinfo | None = None

    @property
    def bind(self) -> bool:
        """Return whether there is any limit to check before a call."""
        return any(self.limits.values()) or any(self.own.values())

    @property
    def limit_money(self) -> bool:
        return any(limit.cost_micros for limit in (*self.limits.values(), *self.own.values()))

    def limit(self, scope: Scope) -> Amount:
        return self.limits.get(scope, Amount())

    def limit_of_person(self, identities: Iterable[str]) -> Amount:
        """Return a person's own limit, under any of their identities; else the one for everybody."""
        return next((self.own[one] for one in identities if one in self.own), self.limit("user"))

    def cost(self, usage: Usage, model: str) -> int | None:
        """Return the cost in micros, as the provider states it if it does; None when the price is unknown."""
        if usage.cost_micros is not None:
            return usage.cost_micros
        price = self.price(usage.model or model)
        return price.of(usage) if price else None

    def price(self, model: str) -> Price | None:
        if model == _FREE:
            return Price(model=_FREE, input=0, cached=0, output=0)
        return next((price for price in self.prices if price.fits(model.lower())), None)

    def day(self, at_ms: int) -> str:
        return f"{self._moment(at_ms):%Y-%m-%d}"

    def days_back(self, at_ms: int, days: int) -> str:
        """Return the date so many calendar days ago: a day may have 23 or 25 hours."""
        return f"{self._moment(at_ms).date() - timedelta(days=days)}"

    def month(self, at_ms: int) -> str:
        """Return the first day of the month."""
        return f"{self._moment(at_ms):%Y-%m}-01"

    def anew(self, at_ms: int) -> str:
        return f"It resets at 00:00 ({self._moment(at_ms):%Z})."

    def refusal(
        self, pots: Iterable[Pot], asked: Amount, *, at_ms: int, several: bool = False, owner: bool = False
    ) -> str:
        """Return why the call must not be made and what to do; empty when it may be."""
        pot = next((pot for pot in pots if pot.is_passed_by(asked)), None)
        if pot is None:
            return ""
        # Do not reveal how much other people have used.
        of_others = pot.scope == "day" or (several and pot.scope == "user")
        used = f" ({pot.in_words(asked)})" if owner or not of_others else ""
        if pot.share() >= 1:
            what = f"{_whose(pot, several)} is used up{used}."
        else:
            what = f"{_whose(pot, several)} has too little left for this{used}; a new conversation (/new) needs less."
        more = f"Change it: hermes config set {self._key(pot, asked)} …" if owner else "Ask the owner if you need more."
        return f"{what} {self.anew(at_ms)} {more}"

    def warning(self, pot: Pot, last: Amount, *, at_ms: int) -> str:
        """Return a warning if the last call has crossed the warning threshold; else empty."""
        if not pot.share(last) < self.warn_at <= pot.share():
            return ""
        return f"{_whose(pot)} is {pot.share():.0%} used: {pot.in_words()}. {self.anew(at_ms)}"

    def _key(self, pot: Pot, asked: Amount) -> str:
        """Return the name of the setting behind a budget."""
        is_own = pot.scope == "user" and pot.limit in self.own.values()
        return "budgets.people" if is_own else f"budgets.{pot.scope}_{pot.unit(asked)}"

    def _moment(self, at_ms: int) -> datetime:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.timezone)


def budgets_for(settings: BudgetsSettings, timezone: str) -> Budgets:
    scopes: tuple[Scope, ...] = ("user", "chat", "job", "day")
    return Budgets(
        limits={
            scope: _amount(getattr(settings, f"{scope}_tokens"), getattr(settings, f"{scope}_usd")) for scope in scopes
        },
        own=dict(map(_own, settings.people)),
        prices=tuple(map(_price, settings.prices)),
        warn_at=settings.warn_at,
        timezone=ZoneInfo(timezone) if timezone else None,
    )


def no_price(model: str) -> str:
    return f"The price of {model} is not known, so limits in money do not apply to it."


def how_to_price(model: str) -> str:
    return f"hermes config set budgets.prices {model}=input:cached:output"


def against(used: Amount, limit: Amount) -> str:
    """Describe the use, with the limits if there are any: 1,200 of 5,000 tokens, $0.30."""
    tokens = f"{used.tokens:,} of {limit.tokens:,} tokens" if limit.tokens else f"{used.tokens:,} tokens"
    if limit.cost_micros:
        return f"{tokens}, {dollars(used.cost_micros)} of {dollars(limit.cost_micros)}"
    return f"{tokens}, {dollars(used.cost_micros)}" if used.cost_micros else tokens


def dollars(micros: int) -> str:
    """Format an amount to the cent, small ones more precisely."""
    amount = micros / 1_000_000
    return f"${amount:,.2f}" if not micros or amount >= 0.1 else f"${amount:.4f}"


def _whose(pot: Pot, several: bool = False) -> str:
    return _ONE_OF_SEVERAL if several and pot.scope == "user" else _WHOSE[pot.scope]


def _amount(tokens: int, usd: float) -> Amount:
    return Amount(tokens=tokens, cost_micros=round(usd * 1_000_000))


def _own(entry: str) -> tuple[str, Amount]:
    found = OWN_BUDGET.fullmatch(entry)
    assert found is not None  # settings have checked it
    return found["person"], _amount(int(found["tokens"]), float(found["usd"] or 0))


def _price(entry: str) -> Price:
    found = PRICE.fullmatch(entry)
    assert found is not None  # settings have checked it
    return Price(
        model=found["model"],
        input=float(found["input"]),
        cached=float(found["cached"]),
        output=float(found["output"]),
    )
