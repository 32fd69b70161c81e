"""Ways in which a file goes bad."""

import sqlite3
from pathlib import Path

PAGE_BYTES = 4096


def scribble(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * 600)


def empty_an_index(database: Path) -> None:
    """Then a table and its index disagree, which only the thorough check sees."""
    connection = sqlite3.connect(database)
    connection.execute("INSERT INTO cursors VALUES ('a', 'b', 'c')")
    connection.commit()
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_cursors_1'")
    page = int(root.fetchone()[0])
    connection.close()
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES + 3)
        file.write(b"\0\0\x10\0")  # a leaf with no cells
