"""What people make the agent run reaches neither each other, nor the gateway, nor its secrets.

Slow, since a real gateway is started for each story.
"""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from playground.model_script import ScriptedCall, ask_for, say
from tests.journeys.stage import until
from tests.journeys.telegram_stage import OWNER, Stage, stage
from tests.programs import needs
from tools.backends.bubblewrap import BubblewrapBackend
from tools.backends.policy import SandboxPolicy

pytestmark = pytest.mark.slow

ADA, BEN = 2001, 2002
SECRETS = {"SUDO_PASSWORD": "canary-sudo-4711", "OPENROUTER_API_KEY": "sk-or-canary-4712"}
NOTE = "the diary of ada 4713"
BOMB = ":(){ :|:& };:; exec sleep 600"  # not a new process, which it would have no room for
HOG = "while true; do tail /dev/zero; done"  # keeps all of a line without end


@asynccontextmanager
async def members(tmp_path: Path) -> AsyncIterator[Stage]:
    config = {
        "access": {"allowed_users": [f"telegram:{person}" for person in (ADA, BEN)]},
        "terminal": {"bubblewrap": {"memory_mb": 200, "max_processes": 60}},
    }
    async with stage(tmp_path, config=config, environment=SECRETS) as on:
        on.person("Ada", id=ADA)
        on.person("Ben", id=BEN)
        yield on


async def use(on: Stage, who: int, *calls: tuple[str, Mapping[str, object]]) -> list[Any]:
    """What the tools say, called in one reply of the model's."""
    asked = [
        ScriptedCall(name=name, arguments=json.dumps(arguments), id=f"call_{number}")
        for number, (name, arguments) in enumerate(calls)
    ]
    said = f"Done, {len(on.model.requests)}."
    on.model.script(ask_for(*asked), say(said))
    await on.ask(who, "do it", said)
    assert on.model.refusals == []
    return [message["content"] for message in on.model.bodies[-1]["messages"][-len(calls) :]]


async def run(on: Stage, who: int, *commands: str, **more: object) -> list[dict[str, Any]]:
    told = await use(on, who, *(("terminal", {"command": command, **more}) for command in commands))
    return [json.loads(one) for one in told]


def running_processes(on: Stage) -> list[tuple[str, int, str]]:
    return on.home.rows(
        """SELECT id, handle ->> 'supervisor_pid', handle ->> 'folder' FROM processes WHERE state = 'running'
            ORDER BY started_ms"""
    )


@needs("bubblewrap")
async def test_members_reach_neither_each_other_nor_the_gateway(tmp_path: Path) -> None:
    async with members(tmp_path) as on, on.gateway():
        [told] = await run(on, ADA, f"echo '{NOTE}' > diary.txt; pwd")
        hers = Path(told["output"].strip())
        await run(on, ADA, f"echo '{NOTE}'; sleep 123", background=True)
        [(process_id, keeper, folder)] = running_processes(on)
        await until(lambda: any(NOTE in file.read_text() for file in Path(folder).glob("output.*")))

        await _tries_by_commands(on, hers, Path(folder))
        about_hers = (("process", {"action": action, "session_id": process_id}) for action in ("poll", "log", "kill"))
        listed, *refused = await use(on, BEN, ("process", {"action": "list"}), *about_hers)
        assert json.loads(listed) == {"processes": []}
        assert all(f"There is no process {process_id}. You have no background processes." in told for told in refused)
        await _tries_by_file_tools(on, hers)

        assert Path(f"/proc/{keeper}").exists()
        assert (hers / "diary.txt").read_text() == f"{NOTE}\n"
        assert not any(NOTE in text for text in on.telegram.texts(BEN))
        keepers = [keeper for _, keeper, _ in running_processes(on)]
        for person in (ADA, BEN):
            on.say(person, "/stop all")
        await until(lambda: not any(Path(f"/proc/{keeper}").exists() for keeper in keepers))


async def _tries_by_commands(on: Stage, hers: Path, her_output: Path) -> None:
    home = on.home.path
    closed = (home / ".env", home / "state.db", hers, hers / "diary.txt", her_output)
    writable = ("/etc/x", "/usr/x", "/x", f"{hers}/x", f"{home}/x")
    looked, wrote, peeped, reached = await run(
        on,
        BEN,
        f"ls {' '.join(map(str, closed))}; cat {hers}/* {her_output}/* {home}/.env",
        f"for f in {' '.join(writable)}; do (echo x > $f) 2>&1 && echo wrote $f; done; echo tried",
        "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env",
        f"{_reach(on.telegram.url)}; echo tried",
    )
    assert looked["output"].count("No such file or directory") >= len(closed)
    assert "tried" in wrote["output"]
    assert not any(f"wrote {place}\n" in wrote["output"] for place in writable[:-1])
    assert not any(Path(place).exists() for place in writable)  # below /tmp, where we are, he has one of his own
    assert "PATH=" in peeped["output"]
    assert not any(hidden in peeped["output"] for hidden in (*SECRETS.values(), on.telegram.token, "sleep 123"))
    assert "tried" in reached["output"]
    assert "reached" not in reached["output"]


def _reach(url: str) -> str:
    host, port = url.removeprefix("http://").split(":")
    return f"(exec 3<>/dev/tcp/{host}/{port}) && echo reached"


async def _tries_by_file_tools(on: Stage, hers: Path) -> None:
    await run(on, BEN, f"mkdir real; ln -s {hers} link; ln -s {hers}/diary.txt file")
    await run(on, BEN, f"while true; do ln -sfn {hers} way; ln -sfn real way; done", background=True)
    ways = ("link/diary.txt", "file", f"../{hers.name}/diary.txt", f"{hers}/diary.txt", *["way/diary.txt"] * 3)
    told = await use(
        on,
        BEN,
        *(("file_read", {"path": path}) for path in ways),
        *(("file_write", {"path": path, "content": "his"}) for path in ways),
        ("file_search", {"pattern": "diary of", "path": str(hers)}),
    )
    assert len(told) == 2 * len(ways) + 1
    assert not any(NOTE in one for one in told)


@needs("bubblewrap")
async def test_a_bomb_and_a_hog_keep_nobody_from_being_answered(tmp_path: Path) -> None:
    async with members(tmp_path) as on, on.gateway() as running:
        if not BubblewrapBackend(SandboxPolicy.of(workspace=tmp_path / "any", private=tmp_path / "p")).bounds_processes:
            pytest.skip("nothing bounds the processes of root here")
        calls = [
            ScriptedCall(
                name="terminal", arguments=json.dumps({"command": command, "timeout": 60}), id=f"call_{number}"
            )
            for number, command in enumerate((BOMB, HOG))
        ]
        on.model.script(ask_for(*calls))
        on.say(ADA, "do your worst")
        await until(lambda: len(_children(running.pid)) == 2)
        await on.ask(BEN, "are you there?", "Noted.")
        assert on.telegram.texts(ADA) == []
        on.say(ADA, "/stop")
        await on.hear(ADA, "Stopped")
        await until(lambda: not _children(running.pid))
        await on.ask(ADA, "and now?", "Noted.")


def _children(pid: int) -> list[str]:
    """The kernel lists those of each thread by itself, and a thread may end while they are read."""
    found: list[str] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += file.read_text().split()
    return found


async def test_no_secret_is_shown_to_the_owners_commands_or_written_down(tmp_path: Path) -> None:
    """Of a gateway that is root, root can read the memory; what is in .env is not in its environment even then."""
    config = {"approvals": {"mode": "off"}, "terminal": {"backend": "local", "cwd": str(tmp_path)}}
    async with stage(tmp_path, config=config, environment=SECRETS) as on:
        on.person("Olga", id=OWNER)
        async with on.gateway() as running:
            environs = (f"/proc/{who}/environ" for who in ("self", "$PPID", running.pid))
            [told] = await run(on, OWNER, f"env; cat {' '.join(environs)}; {_reach(on.telegram.url)}")
            assert "PATH=" in told["output"]
            assert "reached" in told["output"]  # on this machine itself: what is not reached from a sandbox is there
            assert ("Permission denied" in told["output"]) == (os.geteuid() != 0)
            asked = "sudo() { true; }; echo would sudo; env; sleep 0.1; exit 3"
            await run(on, OWNER, asked)
            await run(on, OWNER, asked, background=True, check_interval=30)
            await on.hear(OWNER, "exit code 3")
            await on.home.until_idle()
            await running.stop()
        seen = json.dumps(on.model.bodies) + "".join(on.telegram.texts(OWNER))
        for secret in (*SECRETS.values(), on.telegram.token, on.model.api_key):
            assert secret not in seen
            assert on.home.holds(secret) == [str(on.home.path / ".env")]
