"""The home: found, made private, and never taken from another program."""

import os
import socket
import sqlite3
import stat
from pathlib import Path

import pytest

from hermes_config.errors import ConfigError
from hermes_config.places import APPLICATION_ID, MARK, ForeignHome, Home, _Entry, make_private
from tests.privileges import bound_by_file_modes


def make_database(path: Path, application_id: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {application_id}")
    connection.execute("CREATE TABLE messages (id INTEGER)")
    connection.commit()
    connection.close()


def test_home_is_where_the_variable_says(home: Home) -> None:
    assert Home.locate() == home


def test_home_is_in_the_users_directory_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setenv("HERMES_HOME", "")
    assert Home.locate().root == Path("/somewhere/.hermes")
    monkeypatch.delenv("HERMES_HOME")
    assert Home.locate().root == Path("/somewhere/.hermes")


def test_home_is_absolute_whatever_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERMES_HOME", "here/../there")
    assert Home.locate().root == tmp_path / "there"
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setenv("HERMES_HOME", "~/there")
    assert Home.locate().root == Path("/somewhere/there")


def test_home_of_an_unknown_user_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", "~nobody-of-this-name/x")
    with pytest.raises(ConfigError, match="HERMES_HOME is '~nobody-of-this-name/x'"):
        Home.locate()


def test_prepare_makes_a_private_directory(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    home.prepare()
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_prepare_closes_a_home_that_others_could_read(home: Home) -> None:
    home.root.chmod(0o755)
    home.prepare()
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_prepare_never_closes_a_directory_shared_by_many(home: Home) -> None:
    home.root.chmod(0o1777)
    with pytest.raises(ConfigError, match="shared by several"):
        home.prepare()
    assert home.root.stat().st_mode & 0o7777 == 0o1777


OURS = [
    [],
    ["config.yaml", ".env", "SOUL.md", "BOOT.md", "AGENTS.md"],
    ["state.db", "backups", "gateway.lock", "hermes.sock", "state.mark", "state.db-wal"],
    ["hooks", "skills", "memories", "tools", "workspaces", "cron", "trajectories", "logs"],
    ["image_cache", "audio_cache", "document_cache", "video_cache", "sticker_cache.json"],
    ["config.yaml.bak-1", "config.yaml.tmp-abcd", ".env.tmp-x", ".config.yaml.swp"],
    ["sticker_cache.json", ".sticker_cache.json-abcd"],
]


@pytest.mark.parametrize("names", OURS, ids=lambda names: ",".join(names) or "empty")
def test_a_home_of_known_names_is_ours(home: Home, names: list[str]) -> None:
    for name in names:
        (home.root / name).touch()
    home.check_ours()


def test_whatever_we_put_into_a_home_is_known_as_ours(home: Home) -> None:
    """Without its database, a home is told from another program's by the names in it."""
    entries = [getattr(home, name) for name, entry in vars(Home).items() if isinstance(entry, _Entry)]
    for path in entries:
        path.mkdir(exist_ok=True)
    home.database.rmdir()
    home.check_ours()


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["auth.json"], ["auth.json"]),
        (["config.yaml", ".env", "sessions"], ["sessions"]),
        (["a", "b", "c", "d", "e"], ["a, b, c and 2 more"]),
        (["state.db", "gateway_state.json"], ["gateway_state.json"]),
    ],
)
def test_a_home_with_strange_entries_is_foreign(home: Home, names: list[str], shown: list[str]) -> None:
    for name in names:
        (home.root / name).touch()
    home.root.chmod(0o755)
    with pytest.raises(ForeignHome) as caught:
        home.prepare()
    for part in [str(home.root), *shown, "Nothing in it was changed", "HERMES_HOME=~/.hermes-gateway hermes"]:
        assert part in str(caught.value)
    assert home.root.stat().st_mode & 0o777 == 0o755


def test_a_database_with_our_id_is_ours_whatever_lies_beside_it(home: Home) -> None:
    make_database(home.database, APPLICATION_ID)
    (home.root / "notes.txt").touch()
    home.check_ours()


@pytest.mark.parametrize("application_id", [0, 7])
def test_a_database_of_another_program_is_foreign_and_untouched(home: Home, application_id: int) -> None:
    make_database(home.database, application_id)
    before = home.database.read_bytes()
    with pytest.raises(ForeignHome, match=r"state\.db that Hermes did not create"):
        home.prepare()
    assert home.database.read_bytes() == before
    assert [entry.name for entry in home.root.iterdir()] == ["state.db"]


def test_our_damaged_database_is_still_ours_by_its_mark(home: Home) -> None:
    home.database.write_bytes(b"\0" * 4096)
    home.mark_file.write_bytes(MARK + b" 1\n")
    home.check_ours()


@pytest.mark.parametrize("content", [b"short", b"\0" * 4096])
def test_a_damaged_database_without_our_mark_is_foreign(home: Home, content: bytes) -> None:
    home.database.write_bytes(content)
    home.mark_file.write_bytes(b"something else")
    with pytest.raises(ForeignHome):
        home.check_ours()


def test_a_file_in_place_of_the_home_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"HERMES_HOME=…"):
            Home(root).prepare()
    assert (tmp_path / "file").read_text() == "precious"


def test_a_dangling_link_in_place_of_the_home_is_explained(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="Cannot use"):
        Home(tmp_path / "link").prepare()


def test_a_directory_in_place_of_the_database_is_explained(home: Home) -> None:
    home.database.mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        home.check_ours()


def test_an_unreadable_home_is_explained(home: Home) -> None:
    home.root.chmod(0)
    with bound_by_file_modes(), pytest.raises(ConfigError, match="permission denied"):
        home.check_ours()


def test_a_socket_left_behind_is_no_stranger(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("hermes.sock")
    home.check_ours()


def test_every_place_is_inside_the_home(home: Home) -> None:
    places = [home.config_file, home.env_file, home.database, home.mark_file, home.backups, home.lock_file]
    places += [home.socket, home.image_cache, home.audio_cache, home.document_cache, home.logs]
    assert {place.parent for place in places} == {home.root}
    assert len(set(places)) == len(places)


def test_a_private_folder_is_closed_with_all_that_is_made_for_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_private(tmp_path / "a" / "b" / "c")
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700] * 3


def test_a_home_of_another_user_is_refused_and_untouched(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.root.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: home.root.stat().st_uid + 1)
    for use in (home.check_ours, home.prepare):
        with pytest.raises(ConfigError, match="belongs to another user"):
            use()
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o755
