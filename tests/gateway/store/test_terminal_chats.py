"""The conversations at the terminal, as editors list them."""

from gateway.messages import SessionKey
from gateway.store import sessions
from gateway.store.db.connection import Transaction


def test_each_conversation_is_listed_once_by_page_and_folder(tx: Transaction) -> None:
    for number in range(5):
        key = SessionKey(platform="cli", chat=f"c{number}")
        for title in ("old", f"title {number}"):
            session = sessions.open_current(tx, key)
            sessions.set_title(tx, session.id, title)
            sessions.set_folder(tx, session.id, "/a" if number % 2 else "/b")
            used_ms = number + (500 if title == "old" else 1_000)
            tx.execute("UPDATE sessions SET updated_ms = ? WHERE id = ?", used_ms, session.id)
            if title == "old":
                sessions.end_current(tx, str(key), reason="new")
    sessions.open_current(tx, SessionKey(platform="cli", chat="of an older version"))
    sessions.open_current(tx, SessionKey(platform="telegram", chat="7"))

    def page(first: int, folder: str = "") -> list[str]:
        return [one.title for one in sessions.list_terminal_chats(tx, folder=folder, first=first, limit=2)]

    assert [page(0), page(2), page(4)] == [["title 4", "title 3"], ["title 2", "title 1"], ["title 0"]]
    assert [page(0, "/a"), page(2, "/a"), page(0, "/nowhere")] == [["title 3", "title 1"], [], []]
