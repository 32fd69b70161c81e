"""Session keys as people read them, and where a reply goes."""

import pytest

from gateway.messages import Address, InboundMessage, Media, Sender, SessionKey, Text


@pytest.mark.parametrize(
    ("key", "string"),
    [
        (SessionKey(platform="telegram", kind="dm", chat="5490634439"), "telegram:dm:5490634439"),
        (SessionKey(platform="telegram", kind="group", chat="-1001234567890"), "telegram:group:-1001234567890"),
        (
            SessionKey(platform="telegram", kind="group", chat="-1001234567890", thread="77"),
            "telegram:group:-1001234567890:77",
        ),
        (SessionKey(platform="discord", kind="dm", chat="81"), "discord:dm:81"),
        (SessionKey(platform="discord", kind="channel", chat="81"), "discord:channel:81"),
        (SessionKey(platform="discord", kind="thread", chat="82"), "discord:thread:82"),
        (SessionKey(platform="slack", kind="dm", chat="D012"), "slack:dm:D012"),
        (
            SessionKey(platform="slack", kind="channel", chat="C012", thread="1742.0001"),
            "slack:channel:C012:1742.0001",
        ),
        (SessionKey(platform="web", chat="a1"), "web:a1"),
        (SessionKey(platform="cli", chat="a1"), "cli:a1"),
        (SessionKey(platform="cron", chat="daily", thread="7"), "cron:daily:7"),
        (SessionKey(platform="telegram", account="work", kind="dm", chat="5"), "telegram@work:dm:5"),
        (SessionKey(platform="telegram", kind="group", chat="-1", user="42"), "telegram:group:-1:u42"),
    ],
)
def test_a_key_reads_as_its_parts(key: SessionKey, string: str) -> None:
    assert str(key) == string


def test_the_reply_goes_where_the_message_came_from() -> None:
    message = InboundMessage(
        key=SessionKey(platform="telegram", account="work", kind="group", chat="-1", thread="77"),
        message_id="9",
        sender=Sender(id="42"),
        parts=(Text(text="look"), Media(kind="image", name="cat.png")),
        sent_ms=0,
    )
    assert message.address == Address(account="telegram@work", chat="-1", thread="77", reply_to="9")
    assert message.text == "look\n[image cat.png]"
