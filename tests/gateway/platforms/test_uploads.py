"""What platforms share that send files."""

import pytest

from gateway.errors import PlatformUnavailable
from gateway.messages import Address, Media, OutboundMessage, Text
from gateway.platforms.outgoing import Uploads, clean_file_name, explain_not_sent, list_files, read_text

KEPT = Media(kind="image", name="plot.png", sha256="0" * 64)


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
    assert clean_file_name(Media(kind="image", name=name)) == sent_as
    assert explain_not_sent(Media(kind="image", name=name), "why") == f"{sent_as} could not be sent: why."


def test_files_are_what_has_bytes_and_the_rest_is_words() -> None:
    lost = Media(kind="file", name="a.txt", problem="it is gone")
    parts = (Text(text="see"), KEPT, lost)
    message = OutboundMessage(key="k", address=Address(account="a", chat="c"), parts=parts)
    assert list_files(message) == (KEPT,)
    assert read_text(message) == "see\n[file a.txt could not be read: it is gone]"


async def test_a_place_is_free_again_whatever_happened() -> None:
    async def load(media: Media) -> bytes | None:
        return b"x"

    uploads = Uploads(load, at_once=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="midway"):
            async with uploads.load(KEPT):
                raise ValueError("midway")
    async with uploads.load(KEPT) as content, uploads.load(None) as nothing:
        assert (content, nothing) == (b"x", None)
        with pytest.raises(PlatformUnavailable):
            async with uploads.load(KEPT):
                pass
