"""Every backend does the same: commands, files, background processes, workspaces apart.

local, sandbox, docker, podman and ssh are real. singularity is a stand-in for apptainer's command line, daytona a
server of its REST interface on loopback, modal a stand-in for its SDK; behind these three are real containers.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from tests.tools.backends.remote.conftest import Places
from tools.backends.base import (
    Backend,
    BackendFailed,
    Command,
    FileRefused,
    ProcessHandle,
    ProcessStatus,
    Search,
    Workplace,
)
from tools.base import ToolContext
from tools.loading import load_builtin
from tools.workplaces import process_backends

_PROGRAMS = {
    "local": (),
    "sandbox": ("bubblewrap",),
    "docker": ("docker.io", "busybox-static"),
    "podman": ("podman", "busybox-static"),
    "ssh": ("openssh-server", "openssh-client"),
    "singularity": ("docker.io", "busybox-static"),
    "daytona": ("docker.io", "busybox-static"),
    "modal": ("docker.io", "busybox-static"),
}


MOST = ("local", "sandbox", "docker", "ssh", "modal", "daytona")
SLOW = ("docker", "ssh")  # these two reach a helper in another way; the rest waits for --thorough
MANY = ("local", "sandbox", *SLOW, "daytona")  # and one without an input for the helper


def kinds(*left_out: str, usually: Sequence[str] = MOST) -> pytest.MarkDecorator:
    """Run a test on all kinds of places but these with --thorough, and `usually` on some."""
    chosen = []
    for kind, programs in _PROGRAMS.items():
        marks = [needs(program) for program in programs]
        marks += [] if kind in usually else [pytest.mark.thorough]
        chosen += [pytest.param(kind, marks=marks)] if kind not in left_out else []
    return pytest.mark.parametrize("places", chosen, indirect=True)


async def until(check: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.05)


async def count_sleeping(backend: Backend, seconds: str) -> int:
    """Count the processes `sleep` that wait so long."""
    text = f"grep -lzx '{seconds[:-1]}[{seconds[-1]}]' /proc/[0-9]*/cmdline 2>/dev/null"
    return (await backend.run(Command(text=text))).output.count("cmdline")


def unique_seconds() -> str:
    return f"6{secrets.randbelow(10**8):08d}"


@kinds(usually=tuple(_PROGRAMS))
async def test_commands(places: Places) -> None:
    backend = places.build()

    async def run(text: str, **more: object) -> tuple[str, int]:
        finished = await backend.run(Command(text=text, **more))  # type: ignore[arg-type]
        return finished.output, finished.exit_code

    assert await run("echo out; echo err >&2; exit 3") == ("out\nerr\n", 3)
    assert await run("kill -9 $$") == ("", 137)
    assert await run("cat", stdin="naïve ā €\n".encode()) == ("naïve ā €\n", 0)
    assert await run("printf '%s|' \"$ONE\" \"$HERMES_HOME\" '日本 ā'", environment={"ONE": "1 '2'"}) == (
        "1 '2'||日本 ā|",
        0,
    )
    assert await run("nosuchprogram 2>/dev/null") == ("", 127)
    assert (await backend.run(Command(argv=("printf", "%s", "a b")))).output == "a b"
    binary = await backend.run(Command(text=r"printf 'a\000b\377'"))
    assert (binary.output, binary.output_bytes) == ("a\0b\N{REPLACEMENT CHARACTER}", 4)
    with pytest.raises(BackendFailed, match=r"not run|not be started"):
        await run("true", workdir="/nosuch/folder")
    with pytest.raises(BackendFailed, match="no command"):
        await run("  ")


@kinds("podman")
async def test_a_shell_hands_its_state_to_the_next(places: Places) -> None:
    backend = places.build()
    first = await backend.run(Command(text="cd /tmp; export KEY='v 1\n2'; unset LANG; exit 5", variables={}))
    assert first.exit_code == 5
    assert first.shell is not None
    assert (first.shell.folder, (first.shell.variables or {})["KEY"]) == ("/tmp", "v 1\n2")
    kept = first.shell.variables
    second = await backend.run(Command(text='echo "$KEY"; pwd', workdir=first.shell.folder, variables=kept))
    assert second.output == "v 1\n2\n/tmp\n"
    assert second.shell is not None
    assert second.shell.variables == kept


@kinds(usually=SLOW)
async def test_big_output_is_cut_and_kept(places: Places) -> None:
    backend = places.build()
    command = Command(text="echo first; yes | head -c 3000000; echo last", max_output_chars=1_000)
    finished = await backend.run(command)
    assert finished.output_bytes == 3_000_011
    assert len(finished.output) < 1_200
    assert finished.output.startswith("first\ny\n")
    assert finished.output.endswith("last\n")
    assert (await backend.files.read_lines(finished.full_output, first=1, count=1)).lines[0].text == "first"
    small = await backend.run(Command(text="printf %01200d 0", max_output_chars=1_000, keeps_output=False))
    assert (small.full_output, "omitted" in small.output) == ("", True)


@kinds(usually=(*SLOW, "daytona"))  # where nothing tells the helper that we are gone
async def test_nothing_is_left_of_a_command(places: Places) -> None:
    backend, seconds = places.build(), unique_seconds()
    tree = f"sleep {seconds} & setsid sleep {seconds} & (trap '' TERM; sleep {seconds}) & env -i sleep {seconds} &"
    finished = await backend.run(Command(text=f"{tree} sleep 0.2; echo done"))
    assert (finished.output, finished.exit_code) == ("done\n", 0)
    assert "child processes" in finished.note
    ended = await backend.run(Command(text=f"echo before; {tree} wait", timeout_seconds=1))
    assert (ended.output, ended.timed_out) == ("before\n", True)
    running = asyncio.create_task(backend.run(Command(text=f"{tree} wait")))

    async def runs() -> bool:
        return await count_sleeping(backend, seconds) >= 4

    await until(runs)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    async def is_gone() -> bool:
        return await count_sleeping(backend, seconds) == 0

    await until(is_gone)


@kinds("local", "sandbox", usually=("docker", "daytona"))
async def test_conversations_that_begin_at_once_share_a_place(places: Places) -> None:
    backends = [places.build() for _ in range(2)]
    commands = [Command(text=f"sleep 1; echo {number}") for number in range(6)]
    ran = await asyncio.gather(*(backends[at % 2].run(command) for at, command in enumerate(commands)))
    assert [finished.output for finished in ran] == [f"{number}\n" for number in range(6)]


@kinds("local", "sandbox", usually=("ssh",))
async def test_the_clock_of_a_command_ends_with_it(places: Places) -> None:
    backend, seconds = places.build(), (700_001 + 2 * secrets.randbelow(40_000)) / 100  # as no other argument is
    command = Command(text="true", timeout_seconds=seconds)
    for _ in range(5):
        await asyncio.gather(*(backend.run(command) for _ in range(8)))

    async def is_gone() -> bool:
        return await count_sleeping(backend, f"{seconds:g}") == 0

    await until(is_gone)


@kinds(usually=MANY)
async def test_files(places: Places) -> None:
    backend = places.build()
    files, folder = backend.files, f"{places.workspace}/a b/ā'日"
    content = b"one\r\n'two' $HOME `x`\n" + "drei ä\n".encode() + b"x" * 5_000
    made = await files.write(f"{folder}/f\\n.txt", content)
    assert made.created
    read = await files.read(f"{folder}/f\\n.txt", max_bytes=10_000)
    assert (read.content, read.facts.kind, read.facts.size_bytes) == (content, "file", len(content))
    lines = await files.read_lines(f"{folder}/f\\n.txt", first=2, count=9)
    assert [line.text[:20] for line in lines.lines] == ["'two' $HOME `x`", "drei ä", "x" * 20]
    assert (lines.lines[2].left_out_bytes, lines.total_lines, lines.counted_all) == (1_000, 4, True)
    again = await files.write(f"{folder}/f\\n.txt", b"\0\1\xff", expected_version=read.facts.version)
    assert not again.created
    with pytest.raises(FileRefused, match="has changed"):
        await files.write(f"{folder}/f\\n.txt", b"", expected_version=read.facts.version)
    assert (await files.read(f"{folder}/f\\n.txt", max_bytes=3)).content == b"\0\1\xff"
    with pytest.raises(FileRefused, match="binary"):
        await files.read_lines(f"{folder}/f\\n.txt", first=1, count=1)
    await files.write(f"{places.workspace}/sub/note.md", b"nothing\nneedle here\n")
    names = {entry.name: entry.kind for entry in await files.list_folder(places.workspace, max_entries=50)}
    assert names.items() >= {"a b": "folder", "sub": "folder"}.items()
    [match] = (await files.search(Search(pattern="need[l]e", path=places.workspace))).matches
    assert (match.path.endswith("/sub/note.md"), match.line_number, match.text) == (True, 2, "needle here")
    found = await files.search(Search(pattern="*.md", path=places.workspace, target="files"))
    assert [match.path.rpartition("/")[2] for match in found.matches] == ["note.md"]
    with pytest.raises(FileRefused, match="regular expression"):
        await files.search(Search(pattern="(", path=places.workspace))
    assert await files.look(f"{places.workspace}/none") is None
    with pytest.raises(FileRefused, match="no such file"):
        await files.read(f"{places.workspace}/none", max_bytes=10)
    with pytest.raises(FileRefused, match="folder"):
        await files.read(places.workspace, max_bytes=10)
    with pytest.raises(FileRefused, match="large"):
        await files.read(f"{places.workspace}/sub/note.md", max_bytes=3)


@kinds("local", "sandbox", usually=SLOW)
async def test_the_file_tools_work_there(places: Places) -> None:
    backend = places.build()
    place = Workplace(backend=backend, workspace=places.workspace, current_folder=places.workspace)
    tools = {tool.name: tool for tool in load_builtin()}

    async def ask(name: str, **arguments: str) -> Any:
        return await tools[name].run(json.dumps(arguments), ToolContext(task_id="one", workplace=place))

    awkward = "one\n'two' $HOME `x`\nthree é\n"
    assert (await ask("file_write", path="a b/notes.txt", content=awkward))["created"]
    assert (await ask("file_patch", path="a b/notes.txt", old_string="three", new_string="3"))["replacements"] == 1
    assert (await ask("file_read", path="a b/notes.txt"))["content"].splitlines()[1:] == [
        "     2|'two' $HOME `x`",
        "     3|3 é",
    ]
    assert (await ask("file_search", pattern="two"))["matches"][0]["line"] == 2
    with pytest.raises(FileRefused, match=r"no such file\. Did you mean `notes.txt`"):
        await ask("file_read", path="a b/note.txt")


@kinds(usually=MANY)
async def test_a_background_process(places: Places) -> None:
    backend = places.build()
    recorded: list[ProcessHandle] = []

    async def record(handle: ProcessHandle) -> None:
        recorded.append(handle)

    text = "echo ready; read a; echo got $a; read b; echo $b; exit 4"
    handle = await backend.spawn(Command(text=text, interactive=True), record)
    assert recorded == [handle]
    assert handle.pid
    control = process_backends(places.settings)[handle.backend]  # by the stored handle alone
    handle = ProcessHandle(id=handle.id, backend=handle.backend, data=json.loads(json.dumps(dict(handle.data))))

    async def output() -> bytes:
        return (await control.read(handle)).content

    async def has(text: bytes) -> None:
        async def told() -> bool:
            return text in await output()

        await until(told)

    await has(b"ready\n")
    assert (await control.statuses([handle]))[handle.id].is_running
    await control.write(handle, "ä ā\n".encode())
    await has("got ä ā\n".encode())
    await control.write(handle, b"end\n")
    status = await ended(control_statuses(control, handle))
    assert (status.exit_code, status.output_bytes) == (4, len(await output()))
    assert status.ended_ms
    part = await control.read(handle, since=6, max_bytes=3)
    assert (part.content, part.start, part.end) == (b"got", 6, 9)
    with pytest.raises(BackendFailed, match="takes no input"):
        await control.write(handle, b"x")
    await control.forget(handle)
    assert await output() == b""


def control_statuses(control: object, handle: ProcessHandle) -> Callable[[], Awaitable[ProcessStatus]]:
    async def ask() -> ProcessStatus:
        found = await control.statuses([handle])  # type: ignore[attr-defined]
        return found[handle.id]  # type: ignore[no-any-return]

    return ask


async def ended(ask: Callable[[], Awaitable[ProcessStatus]]) -> ProcessStatus:
    async def is_over() -> bool:
        return not (await ask()).is_running

    await until(is_over)
    return await ask()


@kinds(usually=SLOW)
async def test_killing_a_background_process_ends_its_tree(places: Places) -> None:
    backend, seconds = places.build(), unique_seconds()
    tree = f"sleep {seconds} & setsid sleep {seconds} & (trap '' TERM; sleep {seconds}) & wait"
    first, second = [await backend.spawn(Command(text=tree)) for _ in range(2)]
    assert set(await backend.reattach([first, second])) == {first.id, second.id}
    await backend.kill(first)
    statuses = await backend.statuses([first, second])
    assert [statuses[one.id].is_running for one in (first, second)] == [False, True]
    await backend.kill(second)
    await backend.kill(second)  # it may have ended already
    assert await count_sleeping(backend, seconds) == 0

    async def refuse(handle: ProcessHandle) -> None:
        raise RuntimeError("the store is full")

    with pytest.raises(RuntimeError):
        await backend.spawn(Command(text=tree), refuse)
    assert await count_sleeping(backend, seconds) == 0


_OTHER_RUN = """
import asyncio, json, sys
from pathlib import Path
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import Command
from tools.workplaces import build_workplace

async def main():
    settings, folder, home, private, text = sys.argv[1:]
    place = build_workplace(TerminalSettings.model_validate_json(settings), Path(folder), home=Home(Path(home)),
                            private=Path(private), is_owner=True, holder="ann")
    handle = await place.backend.spawn(Command(text=text, interactive=True))
    print(json.dumps({"id": handle.id, "backend": handle.backend, "data": dict(handle.data)}), flush=True)
    await place.backend.run(Command(text="echo waited for; " + text))

asyncio.run(main())
"""


@kinds("modal", usually=SLOW)  # whose stand-in lives in this process
async def test_a_process_is_found_again_after_kill_nine(places: Places) -> None:
    """And the command that was waited for has ended with the gateway, or does so in its time."""
    backend, seconds = places.build(), unique_seconds()
    await backend.run(Command(text="true"))
    folder, private = places.home.root.parent / "project", places.home.private / "ann" / "alone"
    text = f"echo begun; read x; echo got $x; sleep {seconds}"
    arguments = [places.settings.model_dump_json(), folder, places.home.root, private, text]
    argv = [sys.executable, "-c", _OTHER_RUN, *map(str, arguments)]
    other = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert other.stdout
        async with asyncio.timeout(60):
            told = json.loads(await other.stdout.readline())
    finally:
        os.kill(other.pid, signal.SIGKILL)
        await other.wait()
    handle = ProcessHandle(**told)
    control = process_backends(places.settings)[handle.backend]
    assert await control.reattach([handle]) == {handle.id}
    await control.write(handle, b"hello\n")

    async def heard() -> bool:
        return b"begun\ngot hello\n" in (await control.read(handle)).content

    async def only_one_sleeps() -> bool:
        return await count_sleeping(backend, seconds) == 1

    await until(heard)
    if places.kind != "daytona":  # where nothing tells a command that we are gone; it ends in its time
        await until(only_one_sleeps)
    await control.kill(handle)
    assert not (await control.statuses([handle]))[handle.id].is_running


@kinds("podman", usually=SLOW)  # with an image that has no terminals
async def test_a_terminal(places: Places) -> None:
    backend = places.build()
    finished = await backend.run(Command(text="stty size; tty -s && echo yes; exit 6", pty=True))
    assert (finished.output.split(), finished.exit_code) == (["24", "80", "yes"], 6)
    handle = await backend.spawn(Command(text="echo up; read x; stty size; read x", pty=True, interactive=True))

    async def says(text: bytes) -> None:
        async def told() -> bool:
            return text in (await backend.read(handle)).content

        await until(told)

    await says(b"up")
    await backend.resize(handle, columns=100, rows=40)
    await backend.write(handle, b"\n")
    await says(b"40 100")
    await backend.kill(handle)


@kinds("local", "ssh")  # which do not isolate
async def test_people_and_the_gateway_are_apart(places: Places, tmp_path: Path) -> None:
    """A member's command cannot reach our home, another workspace, loopback services or the docker socket."""
    ann, bob = places.build("ann"), places.build("bob")
    (places.home.root).mkdir(exist_ok=True)
    (places.home.root / "secret").write_text("x")
    await ann.files.write(f"{places.workspace}/mine", b"ann's")
    await ann.run(Command(text="mkdir -p ~/x; echo secret > /tmp/for-ann; echo y > mine2"))
    server = await asyncio.start_server(lambda reader, writer: writer.write(b"hello"), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = os.environ.get("DOCKER_HOST", "unix:///none").removeprefix("unix://")
    text = (
        f"ls {places.home.root}/secret {places.home.workspaces}/ann {address} /var/run/docker.sock mine mine2 "
        f"/tmp/for-ann /proc/{os.getpid()}/root/etc 2>/dev/null; "
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached; "
        f"nc -w 1 127.0.0.1 {port} </dev/null 2>/dev/null; true"
    )
    assert (await bob.run(Command(text=text, workdir=""))).output == ""
    server.close()
    await server.wait_closed()
