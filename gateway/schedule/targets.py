"""Decide where the answers of a job go: when it is made, with the rights of whoever makes it, and when it runs."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gateway.messages import Address
from gateway.store import chats
from gateway.store.chats import ChatPlace
from gateway.store.cron import Job
from gateway.store.db.connection import Transaction

ORIGIN, HOME, LOCAL = "origin", "home", "local"
_SHOWN = 10


class JobRefused(Exception):
    """A job cannot be made, changed or run as asked. The text says why and what to do; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTarget:
    """Where a job delivers to. The place is fixed for a chat, and looked up at each run for a home."""

    deliver: str
    place: str = ""
    thread: str = ""


def choose_target(
    tx: Transaction,
    deliver: str,
    *,
    origin: Address | None,
    accounts: Collection[str],
    is_owner: bool,
    may_reach: Callable[[ChatPlace], bool],
) -> JobTarget:
    """Check a destination as it is written; raises JobRefused with those that there are.

    Where none is written, answers go to the chat, or from the terminal to the owner's home channel, or to a file as
    long as there is no chat at all.
    """
    wanted = deliver.strip() or (ORIGIN if origin is not None else HOME)
    if not deliver.strip() and origin is None and is_owner and _find_home(tx, HOME, accounts) is None:
        wanted = LOCAL
    name, _, rest = wanted.partition(":")
    name = name.lower()
    if name == ORIGIN and not rest:
        if origin is None:
            raise JobRefused("There is no chat here to deliver to: use home, a platform, platform:chat or local.")
        return JobTarget(deliver=ORIGIN, place=f"{origin.account}:{origin.chat}", thread=origin.thread)
    if name == LOCAL and not rest and is_owner:
        return JobTarget(deliver=LOCAL)
    if not rest and (name == HOME or name in {account.partition("@")[0] for account in accounts}):
        return _choose_home(tx, name, accounts, may_reach, is_owner)
    chat, _, thread = rest.partition(":")
    place = chats.find(tx, name, chat.strip(), thread.strip()) if name in accounts and chat.strip() else None
    if place is None or not may_reach(place):
        raise JobRefused(f"There is no chat {wanted[:80]!r} to deliver to. {_list_places(tx, accounts, may_reach)}")
    return JobTarget(deliver=wanted, place=f"{place.account}:{place.chat}", thread=place.thread)


def _choose_home(
    tx: Transaction, name: str, accounts: Collection[str], may_reach: Callable[[ChatPlace], bool], is_owner: bool
) -> JobTarget:
    address = _find_home(tx, name, accounts)
    known = chats.find(tx, address.account, address.chat) if address is not None else None
    if address is None or known is None or not may_reach(known):
        where = "anywhere" if name == HOME else f"on {name.capitalize()}"
        raise JobRefused(
            f"There is no home channel {where} yet. An owner sets one by sending /sethome in a chat. "
            f"{_list_places(tx, accounts, may_reach)}{' Or use local, for a file.' if is_owner else ''}"
        )
    return JobTarget(deliver=name)


def _list_places(tx: Transaction, accounts: Collection[str], may_reach: Callable[[ChatPlace], bool]) -> str:
    known = [place.id for place in chats.list_recent(tx, accounts, limit=4 * _SHOWN) if may_reach(place)][:_SHOWN]
    return f"Available: {', '.join(known)}." if known else "No other chat is known yet."


def find_address(tx: Transaction, job: Job, accounts: Collection[str]) -> Address | None:
    """Return the address for a run; None for a local file. Raises JobRefused when there is no such chat now."""
    if job.deliver == LOCAL:
        return None
    if job.place:
        account, _, chat = job.place.partition(":")
        if account not in accounts:
            raise JobRefused(f"{account} is switched off")
        return Address(account=account, chat=chat, thread=job.thread)
    address = _find_home(tx, job.deliver, accounts)
    if address is None:
        where = "" if job.deliver == HOME else f" on {job.deliver.capitalize()}"
        raise JobRefused(f"there is no home channel{where}; /sethome in a chat sets it")
    return address


def _find_home(tx: Transaction, name: str, accounts: Collection[str]) -> Address | None:
    if name == HOME:
        return chats.find_notice_address(tx, accounts)
    homes = [place for place in chats.list_homes(tx, accounts) if place.account.partition("@")[0] == name]
    return homes[0].address if homes else None
