"""Inside of a real sandbox."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from tests.tools.backends.watching import is_there, nap, until
from tools.backends import background, box, bubblewrap
from tools.backends.base import BackendFailed, Command, FileRefused, Search
from tools.backends.bubblewrap import BubblewrapBackend
from tools.backends.policy import SandboxPolicy
from tools.backends.sandbox import SandboxLimits
from tools.workplaces import process_backends

pytestmark = needs("bubblewrap")

LIMITS = SandboxLimits(memory_mb=200, max_processes=40, workspace_mb=20)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "home" / ".env"
    file.parent.mkdir()
    file.write_text("FAL_KEY=canary\n")
    return file


@pytest.fixture
async def backend(tmp_path: Path, secret: Path) -> AsyncIterator[BubblewrapBackend]:
    policy = SandboxPolicy.of(
        workspace=tmp_path / "home" / "workspaces" / "7", private=tmp_path / "home" / "private", ours=[secret.parent]
    )
    made = BubblewrapBackend(policy, limits=LIMITS)
    yield made
    await made.close()


async def said(backend: BubblewrapBackend, text: str) -> str:
    return (await backend.run(Command(text=text))).output.strip()


# What is there.


async def test_the_workspace_is_at_its_own_path_and_can_be_written(backend: BubblewrapBackend) -> None:
    assert await said(backend, "pwd; echo mine > file; cat file; echo $HOME") == f"{backend.home}\nmine\n{backend.home}"
    assert (Path(backend.home) / "file").read_text() == "mine\n"


async def test_what_is_in_tmp_stays_for_the_next_command_and_is_nobody_elses(backend: BubblewrapBackend) -> None:
    await said(backend, "echo kept > /tmp/note")
    assert await said(backend, "cat /tmp/note; cat /var/tmp/note") == "kept\nkept"
    assert not Path("/tmp/note").exists()
    assert (await backend.files.read("/tmp/note", max_bytes=10)).content == b"kept\n"


async def test_nothing_else_can_be_written(backend: BubblewrapBackend) -> None:
    for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/bin/x", "/home/x", "/root/x"):
        assert await said(backend, f"(echo x > {path}) 2>/dev/null || echo refused") == "refused", path


async def test_no_switch_of_the_kernel_can_be_turned(backend: BubblewrapBackend) -> None:
    """Where we are root they belong to our user, who needs no capability to write them."""
    assert await said(backend, "find /proc/sys /proc/sysrq-trigger -writable 2>/dev/null | wc -l") == "0"
    assert await said(backend, "v=$(cat /proc/sys/vm/swappiness); (echo $v > /proc/sys/vm/swappiness) || echo no") != ""


async def test_our_home_and_the_homes_of_others_are_not_there(backend: BubblewrapBackend, secret: Path) -> None:
    told = await said(
        backend, f"cat {secret}; ls /home /root /mnt /srv /run /sys; ls -A {secret.parent}; cat /etc/shadow"
    )
    assert "canary" not in told
    assert "workspaces" in told
    assert ".env" not in told.replace(str(secret), "")
    assert told.count("No such file or directory") >= 6  # our Python may be below /root, and /run is there


async def test_no_other_process_and_no_secret_can_be_seen(
    backend: BubblewrapBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    assert "canary" not in await said(backend, "env; cat /proc/*/environ")
    pids = await said(backend, "ls -d /proc/[0-9]*")
    assert all(int(Path(pid).name) < 50 for pid in pids.splitlines())
    assert await said(backend, f"kill -0 {os.getpid()} 2>/dev/null || echo nobody") == "nobody"


async def test_it_has_no_rights_and_can_gain_none(backend: BubblewrapBackend) -> None:
    told = await said(
        backend, "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; unshare -U true || echo no"
    )
    assert told.split()[:7] == ["1000", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    assert told.endswith("no")


async def test_its_loopback_is_its_own(backend: BubblewrapBackend) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = await said(backend, f"(: < /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo alone")
    assert told == "alone"


async def test_a_long_output_can_be_read_from_inside_but_not_changed(backend: BubblewrapBackend) -> None:
    finished = await backend.run(Command(text="seq 10000", max_output_chars=100))
    assert await said(backend, f"tail -n 1 {finished.full_output}") == "10000"
    assert await said(backend, f"(echo x > {finished.full_output}) 2>/dev/null || echo refused") == "refused"
    assert (await backend.files.read_lines(finished.full_output, first=10_000, count=1)).lines[0].text == "10000"
    with pytest.raises(FileRefused, match="is read-only"):
        await backend.files.write(finished.full_output, b"x")


async def test_what_was_exported_inside_stays_inside(backend: BubblewrapBackend) -> None:
    """A library of theirs must not be loaded by the program that makes the sandbox."""
    finished = await backend.run(Command(text="export MORE=1", variables={"LD_PRELOAD": "/no/such/library.so"}))
    assert (finished.output, finished.exit_code) == ("", 0)
    assert finished.shell is not None
    assert finished.shell.variables == {"LD_PRELOAD": "/no/such/library.so", "MORE": "1"}


async def test_a_shell_that_makes_up_its_end_is_not_believed(backend: BubblewrapBackend, secret: Path) -> None:
    find = "f=$(trap -p EXIT | grep -o '/tmp/.shell-[0-9a-f]*'); trap - EXIT; test -n $f && touch $f.2;"
    large = "head -c 1000000 /dev/zero > $f"
    for forge in (f"ln -s {secret} $f", "ln $f.2 $f", "mkfifo $f", "mkdir $f", large, "echo / > $f"):
        finished = await backend.run(Command(text=f"{find} {forge}", variables={}))
        assert (finished.output, finished.exit_code, finished.shell) == ("", 0, None), forge


async def test_two_windows_that_begin_at_once_share_one_sandbox(
    backend: BubblewrapBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[object] = []
    launch = box._launch

    def count(argv: Sequence[str], *given: Any) -> None:
        starts.append(argv)
        launch(argv, *given)

    monkeypatch.setattr(box, "_launch", count)
    windows = [backend, BubblewrapBackend(backend.policy, limits=LIMITS)]
    assert await asyncio.gather(*(said(window, "echo hi") for window in windows)) == ["hi", "hi"]
    assert len(starts) == 1


async def test_a_folder_that_is_not_there_is_said(backend: BubblewrapBackend) -> None:
    with pytest.raises(BackendFailed, match=r"no such file or directory \(/home\)"):
        await backend.run(Command(text="true", workdir="/home"))


# That it ends.


async def test_when_its_time_is_up_nothing_is_left(backend: BubblewrapBackend) -> None:
    for seconds in (2, 8, 32):  # where so much else runs that they do not begin in two
        if await have_begun_and_gone(backend, seconds):
            return
    raise AssertionError("they did not begin")


async def have_begun_and_gone(backend: BubblewrapBackend, seconds: float) -> bool:
    left, deaf = nap(), nap()
    text = f"(setsid {left} &); (trap '' TERM; setsid {deaf} &); {nap()}"
    running = asyncio.create_task(backend.run(Command(text=text, timeout_seconds=seconds)))
    await until(lambda: running.done() or (is_there(left) and is_there(deaf)), seconds=60)
    have_begun = not running.done()
    assert (await running).timed_out
    assert not is_there(left)
    assert not is_there(deaf)
    return have_begun


@pytest.mark.parametrize("pty", [False, True])
async def test_when_nobody_waits_any_longer_nothing_is_left(backend: BubblewrapBackend, pty: bool) -> None:
    left, deaf = nap(), nap()
    text = f"(setsid {left} | cat &); (trap '' TERM; nohup setsid {deaf} &); {nap()}"
    running = asyncio.create_task(backend.run(Command(text=text, pty=pty)))
    await until(lambda: is_there(left) and is_there(deaf))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_there(left)
    assert not is_there(deaf)


async def test_a_spawned_child_is_in_the_sandbox_too(backend: BubblewrapBackend, secret: Path) -> None:
    left = nap()
    handle = await backend.spawn(Command(text=f"read line; cat {secret}; echo $line; {left}", interactive=True))
    await backend.write(handle, b"hello\n")
    await until(lambda: is_there(left))
    assert b"canary" not in (await backend.read(handle)).content
    assert b"hello\n" in (await backend.read(handle)).content
    await backend.kill(handle)
    assert not is_there(left)
    assert not background.status(handle).is_running


@pytest.mark.parametrize("pty", [False, True])
async def test_one_that_is_ended_has_time_to_tidy_up(
    backend: BubblewrapBackend, pty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the lowest priority, or in a group with the smallest share, it may get no processor within its grace.
    monkeypatch.setattr(bubblewrap, "_LOWEST", 0)
    monkeypatch.setattr(bubblewrap, "find_cgroups", lambda limits: None)
    left, waited_for = nap(), nap()
    tidying = "trap 'echo tidy > tidied; exit 5' TERM"
    handle = await backend.spawn(Command(text=f"{tidying}; (setsid {left} &); {waited_for} & wait", pty=pty))
    await until(lambda: is_there(left) and is_there(waited_for))
    await backend.kill(handle)
    assert (Path(backend.home) / "tidied").read_text() == "tidy\n"
    assert background.status(handle).exit_code == 5
    assert not is_there(left)


async def test_a_spawned_child_may_have_a_terminal(backend: BubblewrapBackend) -> None:
    handle = await backend.spawn(Command(text="test -t 0 && read x && echo got:$x", interactive=True, pty=True))
    await backend.write(handle, b"yes\n")
    await until(lambda: not background.status(handle).is_running)
    assert b"got:yes\r\n" in (await backend.read(handle)).content


# That it does no harm.


async def test_a_fork_bomb_stays_small(backend: BubblewrapBackend) -> None:
    """A bomb of a thousand at most, in case that nothing holds it."""
    bomb = f"python3 - <<'E'\n{BOMB}\nE"
    if backend.bounds_processes:
        count = int((await backend.run(Command(text=bomb, timeout_seconds=60))).output.split()[-1])
        assert count <= LIMITS.max_processes
    else:
        assert "no limit to the number of processes" in backend.limits_in_force


BOMB = """
import os, time
born = 0
try:
    while born < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        born += 1
except OSError:
    pass
print(born, flush=True)
"""


async def test_a_hog_gets_no_more_memory_than_is_allowed(backend: BubblewrapBackend) -> None:
    hog = 'python3 -c \'block = b"x" * 1_000_000_000; print("too much")\''
    finished = await backend.run(Command(text=hog, timeout_seconds=60))
    assert "too much" not in finished.output
    assert finished.exit_code in (1, 128 + signal.SIGKILL)
    assert ("more memory than allowed" in finished.note) == ("control groups (version" in backend.limits_in_force)


async def test_it_gets_the_processors_that_nobody_else_wants(backend: BubblewrapBackend) -> None:
    assert await said(backend, "nice") == "19"
    if group := backend._box.group:
        shares = {"cpu.weight": "1", "cpu.shares": "2"}  # the least there is, where they are shared out by group
        told = {file.name: file.read_text().strip() for folder in group.folders for file in folder.glob("cpu.[ws]*")}
        assert all(told[name] == shares[name] for name in told.keys() & shares.keys())


async def test_a_single_file_cannot_be_larger_than_the_room_there_is(backend: BubblewrapBackend) -> None:
    with suppress(BackendFailed):  # the workspace is full then, and whoever watches that may see it first
        await said(backend, "head -c 50000000 /dev/zero > big")
    assert (Path(backend.home) / "big").stat().st_size <= 20_000_000


async def test_who_fills_the_disk_with_many_files_is_stopped(backend: BubblewrapBackend) -> None:
    text = "n=0; while :; do n=$((n+1)); head -c 1000000 /dev/zero > part$n; sleep 0.02; done"
    with pytest.raises(BackendFailed, match="larger than 20 MB"):
        await backend.run(Command(text=text, timeout_seconds=60))
    with pytest.raises(FileRefused, match="workspace is full"):
        await backend.files.write(f"{backend.home}/more", b"x")
    assert await said(backend, "rm part*; ls") == ""
    await backend.files.write(f"{backend.home}/more", b"x")


async def test_a_background_process_that_fills_the_disk_is_ended_and_the_reason_is_told(
    backend: BubblewrapBackend,
) -> None:
    handle = await backend.spawn(Command(text="head -c 9000000 /dev/zero | tee a b c > d; sleep 1000"))
    [watcher] = [one for name, one in process_backends().items() if name == backend.name]
    try:
        async with asyncio.timeout(60):
            while (status := (await watcher.statuses([handle]))[handle.id]).is_running:
                await asyncio.sleep(0.05)
        assert "larger than 20 MB" in status.note
    finally:
        await watcher.kill(handle)


# Its files, from our side.


async def test_files_are_those_that_commands_see(backend: BubblewrapBackend) -> None:
    await backend.files.write(f"{backend.home}/notes/a.txt", b"findme\n")
    assert await said(backend, "cat notes/a.txt") == "findme"
    found = await backend.files.search(Search(pattern="find.e", path=backend.home))
    assert [(match.path, match.line_number) for match in found.matches] == [(f"{backend.home}/notes/a.txt", 1)]


async def test_no_way_leads_to_what_is_outside(backend: BubblewrapBackend, secret: Path) -> None:
    await said(backend, f"ln -s {secret} link; ln -s {secret.parent} folder; ln -s {secret} /tmp/link")
    below = [f"{backend.home}/{way}" for way in ("link", "folder/.env", "../../.env")]
    ways = (str(secret), *below, "/etc/passwd", "/tmp/link")
    for path in ways:
        with pytest.raises(FileRefused) as read:
            await backend.files.read_lines(path, first=1, count=1)
        assert "canary" not in str(read.value)
    for path in ways:
        with suppress(FileRefused):  # below /tmp it is the sandbox's own file that is written
            await backend.files.write(path, b"overwritten")
        assert secret.read_text() == "FAL_KEY=canary\n", path


async def test_a_search_does_not_follow_links_out(backend: BubblewrapBackend, secret: Path) -> None:
    await said(backend, f"ln -s {secret} link; ln -s {secret.parent} folder; echo canary > own")
    found = await backend.files.search(Search(pattern="canary", path=backend.home))
    assert [Path(match.path).name for match in found.matches] == ["own"]
    assert "FAL_KEY" not in json.dumps([match.text for match in found.matches])
