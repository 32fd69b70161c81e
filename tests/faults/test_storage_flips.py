"""Flipped bytes: whatever a dying disk does to the file, it is either whole or the operator is told."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.errors import StoreTooNew
from gateway.store.db.backup import make_backup
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.store.rows import notes_in
from tests.gateway.store.sample import Contents, converse, read_all

FLIPS = 50
# Parts of the header that SQLite believes without asking: formats, sizes, encoding, our schema number.
HEADER = (0, 16, 18, 19, 20, 24, 28, 31, 44, 47, 52, 56, 59, 68, 92, 100, 105)
SCHEMA_NUMBER = range(60, 64)


@dataclass
class Sample:
    """A home with a database and a backup that has half of its rows."""

    home: Path
    whole: Contents
    in_backup: Contents


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    home = tmp_path_factory.mktemp("sample")
    database, care = home / "state.db", BackupPolicy(backups=home / "backups")
    prepare(database, care, repair=True)
    converse(database, range(20))
    make_backup(database, care.backups, keep=1)
    in_backup = _contents(database)
    converse(database, range(20, 40))
    prepare(database, care, repair=True)  # moves the mark on
    return Sample(home, _contents(database), in_backup)


@pytest.fixture
def damaged_home(sample: Sample, tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "damaged"
    shutil.copytree(sample.home, home)
    yield home
    shutil.rmtree(home)


def flips() -> list[tuple[float, int]]:
    """Where, as a share of the file's length for those behind the header, and which bits."""
    chance = random.Random(20260322)
    header = [(offset, chance.randrange(1, 256)) for offset in HEADER]
    return [*header, *((chance.random(), chance.randrange(1, 256)) for _ in range(FLIPS - len(header)))]


@pytest.mark.parametrize(("place", "bits"), flips())
def test_no_flipped_byte_goes_unnoticed(sample: Sample, damaged_home: Path, place: float, bits: int) -> None:
    """Every row can be read by table and by index, or the file is kept aside and the operator told.

    What cannot be noticed without checksums, and is let pass here, is a byte inside a value that changes
    this one value and nothing else: the row is there, and says something else.
    """
    database = damaged_home / "state.db"
    flip(database, place, bits)

    told = prepare(database, BackupPolicy(backups=damaged_home / "backups"), repair=True)

    found = _contents(database)
    kept = list((damaged_home / "backups").glob("damaged-*/state.db"))
    expected = sample.in_backup if kept else sample.whole
    assert found.ids == expected.ids
    assert found.by_index == expected.by_index
    assert found.different_from(expected) <= (0 if kept else 1)
    assert len(kept) <= 1
    assert told or not kept
    assert notes_in(database) == told
    assert prepare(database, BackupPolicy(backups=damaged_home / "backups"), repair=True) == []  # and all is well again


@pytest.mark.parametrize("offset", SCHEMA_NUMBER)
def test_a_flipped_schema_number_is_damage_or_stops_the_start(sample: Sample, damaged_home: Path, offset: int) -> None:
    """A larger number may as well be a newer Hermes's: then nothing may be touched, and the start says so."""
    database = damaged_home / "state.db"
    flip(database, offset, 0x40)
    before = database.read_bytes()
    with pytest.raises(StoreTooNew):
        prepare(database, BackupPolicy(backups=damaged_home / "backups"), repair=True)
    assert database.read_bytes() == before
    flip(database, offset, 0x40)
    assert prepare(database, BackupPolicy(backups=damaged_home / "backups"), repair=True) == []
    assert _contents(database) == sample.whole


def flip(database: Path, place: float, bits: int) -> None:
    content = bytearray(database.read_bytes())
    offset = int(place * len(content)) if isinstance(place, float) else place
    content[offset] ^= bits
    database.write_bytes(content)


def _contents(database: Path) -> Contents:
    """Without what a restore itself writes down."""
    contents = read_all(database)
    del contents.rows["notices"]
    written = {id_ for id_, row in contents.rows["meta"].items() if row[0] in (b"went_back_ms", b"went_back_unclosed")}
    contents.rows["meta"] = {id_: row for id_, row in contents.rows["meta"].items() if id_ not in written}
    contents.by_index["sqlite_autoindex_meta_1"] -= written
    return contents
