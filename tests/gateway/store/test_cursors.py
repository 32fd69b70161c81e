"""How far each platform's stream was read."""

from gateway.messages import Cursor
from gateway.store import chats
from gateway.store.db.connection import Transaction


def test_cursors_are_kept_by_account_and_channel(tx: Transaction) -> None:
    assert chats.read_cursor(tx, "telegram", "updates") == ""
    chats.move_cursor(tx, "telegram", Cursor(channel="updates", value="7"))
    chats.move_cursor(tx, "telegram@work", Cursor(channel="updates", value="8"))
    chats.move_cursor(tx, "telegram", Cursor(channel="updates", value="9"))
    assert chats.read_cursor(tx, "telegram", "updates") == "9"
    assert chats.read_cursor(tx, "telegram@work", "updates") == "8"
    assert chats.read_cursor(tx, "telegram", "other") == ""
    assert chats.read_cursors(tx, "telegram") == {"updates": "9"}
