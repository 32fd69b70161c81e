"""One contact of a program, and what reads the words of a program for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.guard.addresses import address_of
from tools.guard.findings import Run


@dataclass(frozen=True, slots=True)
class Contact:
    host: str  # empty when it cannot be known
    url: str
    carries: bool = False
    sends: bool = False


Reader = Callable[[Run], Iterator[Contact]]


def contact(word: str, *, carries: bool = False, sends: bool = False) -> Contact:
    address = address_of(word)
    return Contact(address.host, word, carries or sends or address.has_more, sends)


def unknown(word: str = "", *, sends: bool = False) -> Contact:
    return Contact("", word, carries=True, sends=sends)
