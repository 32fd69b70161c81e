"""What settings make of files that go out: from where they may come, where they may go, and what the agent is told."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.commands.registry import Commands
from gateway.media.outgoing import Enclosures
from gateway.messages import Media
from gateway.platforms.base import Platform
from gateway.store.db.database import Database
from gateway.turns.workplaces import Workplaces
from gateway.wiring.platforms import build_platforms, platform_hints
from gateway.wiring.tools import build_enclosures, build_media_files, loader
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.media import MediaRefused, open_media


def settings(tmp_path: Path, *, cwd: str, allowed_dirs: object = ()) -> Settings:
    return Settings.model_validate(
        {
            "terminal": {"cwd": cwd},
            "media": {"allowed_dirs": allowed_dirs},
            "platforms": {"socket": {"enabled": True}, "web": {"enabled": True}},
            "secrets": {
                "telegram_bot_token": "1:token",
                "discord_bot_token": "token",
                "slack_bot_token": "xoxb-1",
                "slack_app_token": "xapp-1",
            },
        }
    )


def built(chosen: Settings, home: Home, db: Database, platforms: Mapping[str, Platform] | None = None) -> Enclosures:
    workplaces = Workplaces(home=home, terminal=chosen.terminal)
    return build_enclosures(chosen, home, db, platforms or {}, build_media_files(home), workplaces)


@pytest.mark.parametrize("workspace", ["", "home"], ids=["around the home", "the home itself"])
def test_of_our_own_home_nothing_but_the_caches_goes_out(tmp_path: Path, db: Database, workspace: str) -> None:
    home = Home(tmp_path / "home")
    for file in (home.env_file, home.config_file, home.logs / "log", home.image_cache / "cat", tmp_path / "notes.txt"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("words")
    roots = built(settings(tmp_path, cwd=str(tmp_path / workspace)), home, db).for_owner
    for closed in (home.env_file, home.config_file, home.logs / "log"):
        with pytest.raises(MediaRefused), open_media(str(closed), roots, max_bytes=100):
            pass
    with open_media(str(home.image_cache / "cat"), roots, max_bytes=100) as opened:
        assert opened.read() == b"words"


def test_allowed_folders_are_added_to_the_workspace(
    tmp_path: Path, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("work/a.txt", "pictures/b.txt", "elsewhere/c.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    chosen = settings(tmp_path, cwd="~/work", allowed_dirs=f"~/pictures, {tmp_path}/missing")
    home = Home(tmp_path / "home")
    roots = built(chosen, home, db).for_owner
    for path in ("a.txt", f"{tmp_path}/pictures/b.txt"):
        with open_media(path, roots, max_bytes=100) as opened:
            assert opened.read().decode().endswith(Path(path).name)
    with pytest.raises(MediaRefused), open_media(f"{tmp_path}/elsewhere/c.txt", roots, max_bytes=100):
        pass


@pytest.mark.parametrize("folder", ["pictures", "/", "//", "./x", "~", "/a\nb"])
def test_a_folder_must_be_named_in_full(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ValidationError, match="is not a folder"):
        settings(tmp_path, cwd="~", allowed_dirs=[folder])


def test_the_agent_is_told_how_to_send_files_where_it_can(tmp_path: Path, db: Database) -> None:
    chosen = settings(tmp_path, cwd="~")
    home = Home(tmp_path / "home")
    platforms = {one.account: one for one in build_platforms(chosen, home, Commands(()))}
    told = {account for account, hint in platform_hints(platforms).items() if "MEDIA:" in hint}
    assert told == platforms.keys() - {"socket"} == {"telegram", "discord", "slack", "web"}
    assert built(chosen, home, db, platforms).accounts == told


async def test_platforms_are_handed_the_bytes_of_our_caches(tmp_path: Path) -> None:
    files = build_media_files(Home(tmp_path / "home"))
    sha256 = files.save("image", b"a cat")
    load = loader(files)
    assert await load(Media(kind="image", sha256=sha256)) == b"a cat"
    assert await load(Media(kind="image", sha256="0" * 64)) is None
