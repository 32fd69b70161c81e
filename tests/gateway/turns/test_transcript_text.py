"""How what happened in a chat is put to the model."""

from dataclasses import replace

import pytest

from gateway.messages import Kind, Media, Quote, SessionKey, Text
from gateway.store.inbox import Accepted
from gateway.turns.transcript_text import render_for_model, render_joining
from tools.content import text_of, words_of
from tools.provenance import HERMES

ALONE = SessionKey(platform="telegram", kind="dm", chat="42")
SAID = Accepted(
    id=1,
    key=ALONE,
    kind="message",
    message_id="1",
    sender_id="42",
    sender_name="Ada",
    person_id=None,
    role="member",
    parts=(Text(text="hello"),),
)


def test_alone_with_us_nobody_needs_a_name() -> None:
    assert render_for_model(SAID) == (Text(text="hello"),)


@pytest.mark.parametrize("kind", ["group", "channel", "thread"])
def test_in_a_shared_conversation_the_name_stands_before_the_text(kind: str) -> None:
    photo = Media(kind="image", name="cat.png")
    said = replace(SAID, key=replace(ALONE, kind=kind), parts=(photo,))
    assert render_for_model(said) == (Text(text="Ada:", origin=HERMES), photo)
    assert text_of(render_for_model(replace(said, sender_name=""))).startswith("42:")


def test_in_a_conversation_of_ones_own_in_a_group_it_does_not() -> None:
    assert render_for_model(replace(SAID, key=replace(ALONE, kind="group", user="42"))) == (Text(text="hello"),)


@pytest.mark.parametrize("kind", ["process", "wake"])
def test_news_of_a_process_are_nobodys_words(kind: Kind) -> None:
    said = replace(SAID, kind=kind, key=replace(ALONE, kind="group"))
    assert (text_of(render_for_model(said)), words_of(render_for_model(said))) == ("hello", "")


def test_what_was_overheard_is_not_the_speakers() -> None:
    parts = render_for_model(SAID, "Eve: run rm")
    assert "> Eve: run rm" in text_of(parts)
    assert words_of(parts) == "hello"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("edit", "[Ada has edited an earlier message; it now reads: hello]"),
        ("deletion", "[Ada has deleted an earlier message]"),
        ("reaction", "[Ada reacted to an earlier message: hello]"),
    ],
)
def test_a_note_is_told_as_such(kind: Kind, words: str) -> None:
    assert text_of(render_for_model(replace(SAID, kind=kind))) == words


def test_an_edited_message_without_own_words_is_not_the_speakers() -> None:
    quote = Quote(text="run rm", author="Eve", how="forwarded from")
    edit = replace(SAID, kind="edit")
    parts = render_for_model(replace(edit, parts=(quote,)))
    assert "run rm" in text_of(parts)
    assert words_of(parts) == ""
    assert "hello" in words_of(render_for_model(edit))


def test_an_edit_is_told_by_its_words_and_without_them_by_its_files() -> None:
    photo = Media(kind="image", name="cat.png")
    edit = replace(SAID, kind="edit")
    assert "[image" not in text_of(render_for_model(replace(edit, parts=(Text(text="a cat"), photo))))
    assert "it now reads: [image cat.png]" in text_of(render_for_model(replace(edit, parts=(photo,))))


@pytest.mark.parametrize("kind", ["message", "edit"])
def test_what_was_overheard_comes_first_line_by_line(kind: Kind) -> None:
    before, *rest = render_for_model(replace(SAID, kind=kind), "Bo: one\nCy: two\nthree")
    lines = text_of([before]).splitlines()
    assert lines[1:] == ["> Bo: one", "> Cy: two", "> three", "[End of what was said meanwhile.]"]
    assert tuple(rest) == render_for_model(replace(SAID, kind=kind))


def test_what_joins_a_turn_is_marked_and_a_note_says_itself_what_it_is() -> None:
    mark, *rest = render_joining(SAID)
    assert mark == Text(text="[This came while you were working.]", origin=HERMES)
    assert tuple(rest) == render_for_model(SAID)
    edit = replace(SAID, kind="edit")
    assert render_joining(edit) == render_for_model(edit)
