"""Nothing gets out of the owner's sandbox, whatever an agent tries in it, and nobody is asked about it."""

import asyncio
import http.server
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.programs import needs
from tests.tools.backends.escapes import CANARY, HIDDEN, SYSTEM_CALLS, commands, script
from tests.tools.backends.watching import is_there, nap, until
from tools.approval.command import about_terminal
from tools.backends import background
from tools.backends.base import Command, FileRefused, Workplace
from tools.backends.bubblewrap import BubblewrapBackend
from tools.base import ToolContext
from tools.terminal_rules import TerminalRules
from tools.workplaces import build_workplace

pytestmark = needs("bubblewrap")

ORDINARY = ("notes.txt", "bin/tool", "other/Makefile")
ROUNDS = 3


@pytest.fixture
def owner_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "owner"
    for name in (*HIDDEN, ".bashrc", ".profile", ".ssh/authorized_keys"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"[{name}] {CANARY}\n")
    for name in (*ORDINARY, "work/.git/hooks/pre-commit", "work/.git/config", "work/.envrc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("ordinary\n")
    (home / "way-in").symlink_to(home / ".ssh")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    return home


@pytest.fixture
async def place(owner_home: Path) -> AsyncIterator[Workplace]:
    home = Home(owner_home / ".hermes")
    settings = TerminalSettings.model_validate(
        {"backend": "sandbox", "sandbox": {"hidden": ["~/taxes"], "owner_max_processes": 200, "min_free_mb": 100}}
    )
    made = build_workplace(
        settings, owner_home / "work", home=home, private=home.private / "me", is_owner=True, holder="me"
    )
    yield made
    await made.backend.close()


@pytest.fixture
def neighbour() -> Iterator[int]:
    """A server on this machine's loopback, which no sandbox may reach."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CANARY.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def snapshot(home: Path) -> dict[str, str]:
    """Everything outside of what the sandbox may write."""
    files = [*home.rglob("*"), Path("/etc/passwd")]
    own = (home / ".hermes" / "private" / "me", home / "work")
    kept = [
        *(file for file in files if not any(file.is_relative_to(one) for one in own)),
        *(home / "work/.git").rglob("*"),
    ]
    return {str(file): file.read_text() for file in [*kept, home / "work/.envrc"] if file.is_file()}


async def test_no_escape_succeeds_and_none_is_asked_about(place: Workplace, owner_home: Path, neighbour: int) -> None:
    before = snapshot(owner_home)
    escapes = list(
        commands(owner_home, owner_home / "work", port=neighbour, gateway=os.getpid(), outputs=Path(place.kept_outputs))
    )
    told, tried = "", 0
    for first in range(ROUNDS):
        finished = await place.backend.run(Command(text=script(escapes[first::ROUNDS]), timeout_seconds=500))
        told += finished.output
    finished = await place.backend.run(Command(text=f"python3 - <<'E'\n{SYSTEM_CALLS}\nE", timeout_seconds=60))
    told += finished.output
    tried = sum(map(int, re.findall(r"^TRIED (\d+)$", told, re.MULTILINE)))
    assert [line for line in told.splitlines() if "ESCAPED" in line] == []
    assert tried >= 300 + 30
    assert snapshot(owner_home) == before
    for path in ("/usr/bin/new", "/usr/local/bin/new", "/etc/new", "/etc/cron.d/new", "/opt/new", "/run/new", "/new"):
        assert not Path(path).exists()
    about = about_terminal(TerminalRules())
    context = ToolContext(task_id="one", workplace=place)
    assert [name for name, text in escapes if await about({"command": text}, context) is not None] == []


@pytest.mark.parametrize("path", [*HIDDEN, "way-in/id_ed25519"])
async def test_the_file_tools_see_no_more(place: Workplace, owner_home: Path, path: str) -> None:
    if path == ".gitconfig":
        await place.backend.run(Command(text="true"))  # makes it
        assert CANARY not in (await place.backend.files.read(str(owner_home / path), max_bytes=999)).content.decode()
        return
    with pytest.raises(FileRefused) as refused:
        await place.backend.files.read(str(owner_home / path), max_bytes=999)
    assert CANARY not in str(refused.value)


async def test_what_commands_may_read_and_write_the_file_tools_may_too(place: Workplace, owner_home: Path) -> None:
    files = place.backend.files
    for path in (*ORDINARY, "work/.git/config"):
        assert (await files.read(str(owner_home / path), max_bytes=99)).content == b"ordinary\n"
        with pytest.raises(FileRefused, match="read-only"):
            await files.write(str(owner_home / path), b"evil")
    for path in (f"{owner_home}/work/new.txt", "/tmp/new.txt", f"{owner_home}/.cache/new.txt"):
        await files.write(path, b"mine")
        assert (await place.backend.run(Command(text=f"cat {path}; echo too >> {path}"))).output == "mine"
        assert (await files.read(path, max_bytes=99)).content == b"minetoo\n"


async def test_settings_of_git_are_protected_from_the_file_tools_whenever_they_came(owner_home: Path) -> None:
    home, folder = Home(owner_home / ".hermes"), owner_home / "other"
    place = build_workplace(
        TerminalSettings(backend="sandbox"), folder, home=home, private=home.private, is_owner=True, holder="me"
    )
    (folder / ".git").mkdir()  # without hooks, as some programs clone
    (folder / ".git/config").write_text("ordinary\n")
    for path in (".git/hooks/pre-commit", ".git/config"):
        with pytest.raises(FileRefused, match="read-only"):
            await place.backend.files.write(str(folder / path), b"evil")


async def test_what_is_hidden_in_a_folder_that_can_be_written_stays_hidden(owner_home: Path) -> None:
    home, secret = Home(owner_home / ".hermes"), owner_home / "work/deep/er/taxes"
    secret.mkdir(parents=True)
    (secret / "2025.txt").write_text(CANARY)
    settings = TerminalSettings.model_validate({"backend": "sandbox", "sandbox": {"hidden": [str(secret)]}})
    place = build_workplace(settings, owner_home / "work", home=home, private=home.private, is_owner=True, holder="me")
    moving = "mv deep elsewhere; mv deep/er deep/elsewhere; rm -rf deep; cat */*/taxes/* */*/*/taxes/*; echo x > deep/y"
    finished = await place.backend.run(Command(text=moving))
    assert CANARY not in finished.output
    assert (secret / "2025.txt").read_text() == CANARY
    assert (owner_home / "work/deep/y").exists()
    with pytest.raises(FileRefused, match="hidden"):
        await place.backend.files.read(str(secret / "2025.txt"), max_bytes=99)
    await place.backend.close()


async def test_nothing_survives_the_end_of_its_process_even_if_it_kills_who_watches_it(place: Workplace) -> None:
    """As after `/stop all`, which kills every background process."""
    left, deaf = nap(), nap()
    text = (
        f"(setsid {left} &); (trap '' TERM HUP; setsid nohup {deaf} &); sleep 0.3; kill -9 $PPID; kill -9 -1; {nap()}"
    )
    handle = await place.backend.spawn(Command(text=text))
    await until(lambda: not is_there(left) and not is_there(deaf))
    await place.backend.kill(handle)
    assert not (await place.backend.statuses([handle]))[handle.id].is_running
    assert (await place.backend.run(Command(text="ps -eo args | grep -c '[s]leep'"))).output == "0\n"


@pytest.mark.parametrize("stop", ["kill -STOP $PPID", "kill -STOP -1"])
async def test_nothing_survives_by_stopping_who_watches_it(place: Workplace, stop: str) -> None:
    left = nap()
    handle = await place.backend.spawn(Command(text=f"trap '' TERM; sleep 0.3; {stop}; {left}; {nap()}"))
    await until(lambda: not background.status(handle).is_running and not is_there(left))
    assert (await place.backend.run(Command(text="ps -eo args | grep -c '[s]leep'"))).output == "0\n"


async def test_a_fork_bomb_ends_with_its_command_and_the_next_one_runs(place: Workplace) -> None:
    bomb = "python3 -c 'import os\nfor _ in range(3000):\n  try: os.fork()\n  except OSError: pass\nos.read(0, 1)'"
    await place.backend.run(Command(text=f"({bomb} &) ; sleep 1", timeout_seconds=60))
    assert (await place.backend.run(Command(text="echo fine"))).output == "fine\n"


async def test_no_file_is_larger_than_the_disk_has_room_for(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.backends.usage.DiskUse.room_bytes", lambda self: 1_000_000)
    await place.backend.run(Command(text="fallocate -l 50M big; head -c 50000000 /dev/zero > big2"))
    assert (
        sum(
            (Path(place.workspace) / name).stat().st_size
            for name in ("big", "big2")
            if (Path(place.workspace) / name).exists()
        )
        <= 2_000_000
    )


async def test_whoever_fills_the_disk_with_many_files_is_ended(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit just below what is free, so that a few megabytes are too many."""
    spared = shutil.disk_usage(place.workspace).free - 3_000_000
    monkeypatch.setattr(BubblewrapBackend, "_spared_disks", lambda self: {place.workspace: spared})
    filling = "for n in $(seq 400); do head -c 1000000 /dev/zero > part$n; sleep 0.05; done; " + nap()
    finished = await place.backend.run(Command(text=filling, timeout_seconds=60))
    assert "the disk is nearly full" in finished.note
    handle = await place.backend.spawn(Command(text=filling))
    await until(lambda: not background.status(handle).is_running)
    assert "the disk is nearly full" in background.status(handle).note


async def test_an_idle_sandbox_ends_but_not_while_something_runs_in_it(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.backends.box.IDLE_SECONDS", 0.3)
    running = nap()
    handle = await place.backend.spawn(Command(text=running))
    await until(lambda: is_there(running))
    await asyncio.sleep(1)
    assert (await place.backend.statuses([handle]))[handle.id].is_running
    await place.backend.kill(handle)
    mark = str(place.backend.policy.state)  # type: ignore[attr-defined]
    await until(lambda: not is_there(mark))
    assert (await place.backend.run(Command(text="echo again"))).output == "again\n"


async def test_what_a_conversation_left_long_ago_is_deleted_unless_it_still_runs(
    place: Workplace, owner_home: Path
) -> None:
    await place.backend.run(Command(text="true"))
    mine = place.backend.policy.state  # type: ignore[attr-defined]
    gone = mine.with_name("gone")
    (gone / "tmp").mkdir(parents=True)
    for state in (mine, gone):
        (state / "passwd").touch()
        os.utime(state / "passwd", (0, 0))
    other = build_workplace(
        TerminalSettings(),
        owner_home / "work",
        home=Home(owner_home / ".hermes"),
        private=mine.parents[1],
        is_owner=True,
    )
    await other.backend.run(Command(text="true"))
    assert mine.exists()
    assert not gone.exists()
    await other.backend.close()
