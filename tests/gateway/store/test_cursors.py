"""How far each platform's stream was read."""

from gateway.messages import Cursor
from gateway.store import chats
from gateway.store.db.connection import Transaction


def test_cursors_are_kept_by_account_and_channel(tx: Transaction) -> None:
    assert chats.get(tx, "telegram", "updates") == ""
    chats.move_cursor(tx, "telegram", Cursor(channel="updates", value="7"))
    chats.move_cursor(tx, "telegram@work", Cursor(channel="updates", value="8"))
    chats.move_cursor(tx, "telegram", Cursor(channel="updates", value="9"))
    assert chats.get(tx, "telegram", "updates") == "9"
    assert chats.get(tx, "telegram@work", "updates") == "8"
    assert chats.get(tx, "telegram", "other") == ""
    assert chats.all_of(tx, "telegram") == {"updates": "9"}
