"""Messages on their way out: pages, what becomes of a refused one, and files."""

from dataclasses import replace

import pytest

from gateway.errors import DeliveryRejected, PlatformUnavailable
from gateway.messages import Address, Choice, Media, OutboundMessage, Text
from gateway.platforms import outgoing
from gateway.platforms.outgoing import (
    Attachment,
    Document,
    Entity,
    Formatted,
    OutgoingPost,
    Page,
    Pages,
    Rejection,
    Uploads,
    build_post,
    clean_file_name,
    list_files,
    read_text,
)

PLOT = Media(kind="image", name="plot.png", mime="image/png", sha256="0" * 64)
BOLD = Formatted(text="a b", entities=(Entity(kind="bold", offset=0, length=1),))
YES = (Choice(label="Yes", action="yes"),)


class Words:
    """Cuts at spaces, and counts how often."""

    def __init__(self) -> None:
        self.cuts = 0
        self.pages = Pages(render=self.render, max_units=100, caption_units=lambda style: 3 if style == "photo" else 0,
                           styles={"image/png": "photo"}, name_mark="`")  # fmt: skip

    def render(self, markdown: str, limit: int) -> list[Formatted]:
        self.cuts += 1
        return [Formatted(text=word) for word in markdown.split()]

    def texts(self, message: OutboundMessage, *, needs_words: bool = False) -> list[str]:
        found = self.pages.get_pages(message, needs_words=needs_words)
        return [page.media.name if isinstance(page, Attachment) else page.text for page in found]


def message(text: str, *files: Media, key: str = "k") -> OutboundMessage:
    return OutboundMessage(key=key, address=Address(account="telegram", chat="1"), parts=(Text(text=text), *files))


def test_a_long_message_is_cut_once_for_all_its_pieces_and_anew_when_it_changed() -> None:
    words = Words()
    for piece in range(3):
        assert words.texts(replace(message("a b c"), piece=piece)) == ["a", "b", "c"]
    assert words.cuts == 1
    assert words.texts(message("a b")) == ["a", "b"]
    assert words.texts(message("a b c", PLOT)) == ["a", "b", "c", "plot.png"]
    assert words.texts(message("", PLOT), needs_words=True) == ["plot.png", "plot.png"]


def test_only_the_last_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "_REMEMBERED_MESSAGES", 2)
    words = Words()
    for key in ("first", "second", "first", "third"):  # the first was asked for again, so the second goes
        words.texts(message("a b", key=key))
    words.texts(message("a b", key="first"))
    assert words.cuts == 3
    words.texts(message("a b", key="second"))
    assert words.cuts == 4


def test_a_short_text_is_the_caption_of_a_single_picture() -> None:
    pages = Words().pages
    assert pages.paginate("one", (PLOT,)) == (
        Attachment(media=PLOT, style="photo", name_mark="`", caption=Formatted(text="one")),
    )
    for text, files in (
        ("long", (PLOT,)),
        ("one two", (PLOT,)),
        ("one", (PLOT, PLOT)),
        ("one", (replace(PLOT, mime=""),)),
    ):
        found = pages.paginate(text, files)
        assert [page.caption.text for page in found if isinstance(page, Attachment)] == [""] * len(files)
    assert isinstance(pages.paginate("one", (PLOT,), needs_words=True)[0], Formatted)


def test_a_very_long_text_is_a_head_and_a_document() -> None:
    text = "word " * 10
    head, document = Words().pages.paginate(text)
    assert head == Formatted(text="word\n\nThe whole text is attached as answer.md.")
    assert document == Document(text=text)


def test_a_message_without_pages_cannot_be_delivered() -> None:
    with pytest.raises(DeliveryRejected, match="no text"):
        Words().texts(message(""))


@pytest.mark.parametrize(
    ("piece", "text", "quotes", "edits", "choices", "silent", "more"),
    [(0, "a", "7", "8", (), False, True), (1, "b", "", "", YES, True, False), (7, "b", "", "", YES, True, False)],
)
def test_the_first_page_quotes_and_rings_and_the_last_has_the_buttons(
    piece: int, text: str, quotes: str, edits: str, choices: tuple[Choice, ...], silent: bool, more: bool
) -> None:
    pages = (Formatted(text="a"), Formatted(text="b"))
    post = build_post(replace(message("a b"), piece=piece, choices=YES), pages, chat="1", quotes="7", edits="8")
    assert post.page == Formatted(text=text)
    assert (post.quotes, post.edits, post.choices, post.silent, post.more) == (quotes, edits, choices, silent, more)


PHOTO = Attachment(media=PLOT, style="photo", caption=BOLD)
DOCUMENT = replace(PHOTO, style="document", caption=Formatted(text="a b"))


@pytest.mark.parametrize(
    ("problem", "page", "steps"),
    [
        (Rejection.WORDING, BOLD, [Formatted(text="a b")]),
        (Rejection.TOO_LONG, BOLD, [BOLD, Document(text="a b")]),
        (Rejection.BLOCKS, BOLD, [Formatted(text="a b"), Formatted(text="a b")]),
        (Rejection.BUTTONS, BOLD, [BOLD]),
        (Rejection.NOTHING_TO_EDIT, BOLD, [BOLD]),
        (Rejection.NOTHING_TO_QUOTE, BOLD, [BOLD]),
        (Rejection.NO_THREAD, BOLD, [BOLD]),
        (Rejection.CLOSED_TO_US, BOLD, []),
        (
            Rejection.WORDING,
            PHOTO,
            [
                replace(PHOTO, caption=Formatted(text="a b")),
                DOCUMENT,
                Formatted(text="a b\n\nplot.png could not be sent: X does not accept it here."),
            ],
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Rejection) else "",
)
def test_what_is_refused_is_dropped_step_by_step(problem: Rejection, page: Page, steps: list[Page]) -> None:
    post = OutgoingPost(chat="1", page=page, key="k", piece=0, thread="2", quotes="3", edits="4", choices=YES)
    seen, tried = [], [post]
    while (amended := tried[-1].amend(problem, lambda page: Formatted(text=page.text), "X")) is not None:
        assert amended not in tried  # so it ends
        tried.append(amended)
        seen.append(amended.page)
    assert seen == steps


@pytest.mark.parametrize(
    ("name", "sent_as"),
    [
        ("plot.png", "plot.png"),
        ("../../etc/passwd", "etcpasswd"),
        ("a\\b.txt", "ab.txt"),
        ("line\nbreak\x1b.txt", "linebreak.txt"),
        ('quo"ted`.txt', "quoted.txt"),
        (".hidden", "hidden"),
        ("", "image"),
        ("...", "image"),
        ("übersicht (2).pdf", "übersicht (2).pdf"),
    ],
)
def test_a_name_is_one_plain_line(name: str, sent_as: str) -> None:
    media = Media(kind="image", name=name)
    assert clean_file_name(media) == sent_as
    assert Attachment(media=media).explain("why").text == f"{sent_as} could not be sent: why."


def test_files_are_what_has_bytes_and_the_rest_is_words() -> None:
    lost = Media(kind="file", name="a.txt", problem="it is gone")
    found = message("see", PLOT, lost)
    assert list_files(found) == (PLOT,)
    assert read_text(found) == "see\n[file a.txt could not be read: it is gone]"


async def test_a_place_is_free_again_whatever_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(media: Media) -> bytes | None:
        return b"x"

    monkeypatch.setattr(outgoing, "_AT_ONCE", 1)
    uploads = Uploads(load)
    for _ in range(3):
        with pytest.raises(ValueError, match="midway"):
            async with uploads.load(PLOT):
                raise ValueError("midway")
    async with uploads.load(PLOT) as content, uploads.load(None) as nothing:
        assert (content, nothing) == (b"x", None)
        with pytest.raises(PlatformUnavailable):
            async with uploads.load(PLOT):
                pass
