"""Long messages, page by page."""

from dataclasses import replace

import pytest

from gateway.errors import DeliveryRejected
from gateway.messages import Address, Media, OutboundMessage, Text
from gateway.platforms import outgoing
from gateway.platforms.outgoing import PageCache, choose_piece

PLOT = Media(kind="image", name="plot.png", sha256="0" * 64)


class Words:
    """Cuts at spaces, and counts how often."""

    def __init__(self) -> None:
        self.cuts = 0

    def __call__(self, markdown: str, files: tuple[Media, ...], *, needs_words: bool) -> tuple[str, ...]:
        self.cuts += 1
        return (*markdown.split(), *(media.name for media in files), *(("!",) if needs_words else ()))


def message(text: str, key: str = "k") -> OutboundMessage:
    return OutboundMessage(key=key, address=Address(account="telegram", chat="1"), parts=(Text(text=text),))


def test_a_long_message_is_cut_once_for_all_its_pieces() -> None:
    words = Words()
    known = PageCache[str](words)
    for piece in range(3):
        assert known.get_pages(replace(message("a b c"), piece=piece), needs_words=False) == ("a", "b", "c")
    assert words.cuts == 1


@pytest.mark.parametrize(
    ("changed", "needs_words", "expected"),
    [
        (message("a b"), False, ("a", "b")),
        (replace(message("a b c"), parts=(Text(text="a b c"), PLOT)), False, ("a", "b", "c", "plot.png")),
        (message("a b c"), True, ("a", "b", "c", "!")),
    ],
    ids=["other words", "another file", "in the place of a message"],
)
def test_the_same_key_with_something_else_in_it_is_cut_anew(
    changed: OutboundMessage, needs_words: bool, expected: tuple[str, ...]
) -> None:
    known = PageCache[str](Words())
    known.get_pages(message("a b c"), needs_words=False)
    assert known.get_pages(changed, needs_words=needs_words) == expected


def test_only_the_last_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "_REMEMBERED_MESSAGES", 2)
    words = Words()
    known = PageCache[str](words)
    for key in ("first", "second", "first", "third"):  # the first was asked for again, so the second goes
        known.get_pages(message("a b", key), needs_words=False)
    assert words.cuts == 3
    known.get_pages(message("a b", "first"), needs_words=False)
    assert words.cuts == 3
    known.get_pages(message("a b", "second"), needs_words=False)
    assert words.cuts == 4


def test_a_piece_beyond_the_last_is_the_last() -> None:
    assert choose_piece(message("a b"), ("a", "b")) == 0
    assert choose_piece(replace(message("a b"), piece=1), ("a", "b")) == 1
    assert choose_piece(replace(message("a b"), piece=7), ("a", "b")) == 1


def test_a_message_without_pages_cannot_be_delivered() -> None:
    with pytest.raises(DeliveryRejected, match="no text"):
        choose_piece(message(""), ())
