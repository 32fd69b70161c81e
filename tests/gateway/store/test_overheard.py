"""What was said in a chat, but not to us: the last few, once."""

from gateway.messages import SessionKey
from gateway.store import chats
from gateway.store.db.connection import Transaction
from tests.gateway.store.rows import inbound

GROUP = SessionKey(platform="telegram", kind="group", chat="-7")
OTHER = SessionKey(platform="telegram", kind="group", chat="-8")


def hear(tx: Transaction, *texts: str, key: SessionKey = GROUP, keep: int = 3) -> None:
    for text in texts:
        chats.add_overheard(tx, inbound(text, key=key), keep=keep)


def test_the_last_few_are_given_once_the_oldest_first(tx: Transaction) -> None:
    hear(tx, "one", "two", "three", "four")
    assert chats.take_overheard(tx, str(GROUP)) == "Ann: two\nAnn: three\nAnn: four"
    assert chats.take_overheard(tx, str(GROUP)) == ""


def test_a_loud_group_does_not_drive_out_what_was_said_in_another(tx: Transaction) -> None:
    hear(tx, "quiet", key=OTHER)
    hear(tx, *map(str, range(50)))
    assert chats.take_overheard(tx, str(OTHER)) == "Ann: quiet"
    assert tx.count("SELECT COUNT(*) FROM overheard") == 3


def test_the_platforms_order_counts_and_a_second_copy_does_not(tx: Transaction) -> None:
    for text, message_id, sent_ms in (("second", "2", 20), ("first", "1", 10), ("second", "2", 20)):
        chats.add_overheard(tx, inbound(text, key=GROUP, message_id=message_id, sent_ms=sent_ms), keep=5)
    assert chats.take_overheard(tx, str(GROUP)) == "Ann: first\nAnn: second"


def test_a_wall_of_text_is_cut(tx: Transaction) -> None:
    hear(tx, "x" * 1_000_000)
    assert len(chats.take_overheard(tx, str(GROUP))) < 2_100
