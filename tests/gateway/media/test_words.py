"""What people are told about their files."""

from dataclasses import replace

import pytest

from gateway.media.kinds import notice
from gateway.messages import Media

FINE = Media(kind="file", name="a.pdf", form="PDF document", text="hello", sha256="ab")
PHOTO = Media(kind="image", name="cat.png", form="PNG picture", sha256="cd")
VOICE = Media(kind="audio", name="voice.ogg", form="Ogg audio", sha256="ef")


def test_nothing_is_said_when_all_is_well() -> None:
    assert notice([FINE, PHOTO], sees=True) == ""
    assert notice([replace(PHOTO, sticker="u", problem="it is gone")], sees=False) == ""


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (replace(FINE, problem="it is damaged"), "I could not read a.pdf: it is damaged."),
        (replace(FINE, partial=True), "I read only the beginning of a.pdf: it is longer than I can read at once."),
        (VOICE, "I cannot listen to audio yet: I know of voice.ogg only by name."),
        (replace(VOICE, kind="video", name=""), "I cannot watch videos yet: I know of the video only by name."),
        (PHOTO, "The current model cannot see pictures: it knows of cat.png only by name."),
    ],
)
def test_each_reason_has_its_words(file: Media, words: str) -> None:
    assert notice([file], sees=False) == words


def test_one_reason_is_one_line() -> None:
    files = [replace(VOICE, name=f"{number}.ogg") for number in range(1, 9)]
    problem = replace(FINE, problem="it is damaged {0} \n")
    assert notice([*files, problem, replace(problem, name="b.pdf")], sees=True).splitlines() == [
        "I cannot listen to audio yet: I know of 1.ogg, 2.ogg, 3.ogg, 4.ogg, 5.ogg and 3 more only by name.",
        "I could not read a.pdf: it is damaged {0}.",
        "I could not read b.pdf: it is damaged {0}.",
    ]
