"""One contact of a program, and what reads the words of a program for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.shell_guard.addresses import address_of
from tools.shell_guard.findings import Run


@dataclass(frozen=True, slots=True)
class Contact:
    host: str  # empty when it cannot be known
    url: str
    carries: bool
    sends: bool = False
    adds: bool = False  # something that is told besides the address: a header, a cookie


Reader = Callable[[Run], Iterator[Contact]]


def contact(word: str, *, carries: bool = False, sends: bool = False, adds: bool = False) -> Contact:
    address = address_of(word)
    return Contact(address.host, word, carries or sends or adds or address.has_more, sends, adds)


def unknown(word: str = "", *, sends: bool = False) -> Contact:
    return Contact("", word, carries=True, sends=sends)
