"""How far each platform's stream was read."""

from gateway.messages import Cursor
from gateway.store import cursors
from gateway.store.connection import Transaction


def test_cursors_are_kept_by_account_and_channel(tx: Transaction) -> None:
    assert cursors.get(tx, "telegram", "updates") == ""
    cursors.move(tx, "telegram", Cursor(channel="updates", value="7"))
    cursors.move(tx, "telegram@work", Cursor(channel="updates", value="8"))
    cursors.move(tx, "telegram", Cursor(channel="updates", value="9"))
    assert cursors.get(tx, "telegram", "updates") == "9"
    assert cursors.get(tx, "telegram@work", "updates") == "8"
    assert cursors.get(tx, "telegram", "other") == ""
    assert cursors.all_of(tx, "telegram") == {"updates": "9"}
