"""A command that goes on in the background, on every platform: news of it, a crash in between, its end.

Slow, since each story starts a real gateway twice.
"""

import json
from pathlib import Path

import pytest

from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from tests.journeys.live_stage import Chat, Kind, chat
from tests.journeys.stage import until
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

DIRECT: tuple[Kind, ...] = ("telegram dm", "discord dm", "slack dm")
LINES = 200


def in_background(command: str, **arguments: object) -> ModelAnswer:
    return ask_for(
        ScriptedCall(name="terminal", arguments=json.dumps({"command": command, "background": True, **arguments}))
    )


def counting(folder: Path) -> str:
    """Writes its lines in three stretches, each when a file is there."""
    third = LINES // 3
    stretches = [(1, third), (third + 1, 2 * third), (2 * third + 1, LINES)]
    return "; ".join(
        f"while [ ! -e {folder}/go{number} ]; do sleep 0.05; done; seq -f 'line %g' {first} {last}"
        for number, (first, last) in enumerate(stretches)
    )


def lines_told(on: Chat) -> list[str]:
    return [line for text in on.texts() for line in text.splitlines() if line.startswith("line ")]


@pytest.mark.parametrize("kind", a_few_of(DIRECT, 1))
async def test_its_output_and_its_end_are_told_though_the_gateway_is_killed_in_between(
    kind: Kind, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    config = {"terminal": {"cwd": str(work), "min_check_interval_seconds": 1}}
    async with chat(tmp_path, kind, config=config, otherwise=say("ok")) as on:
        on.model.script(in_background(f"{counting(work)}; exit 3", check_interval=1), say("It runs."))
        async with on.gateway() as gateway:
            on.ask("count in the background and tell me")
            await on.sees("It runs.")
            (work / "go0").touch()
            await on.sees(f"line {LINES // 3}")
            await on.at_rest()  # what is cut while it is sent may come twice on Telegram
            (work / "go1").touch()
            await gateway.kill()
        (work / "go2").touch()
        async with on.gateway():
            await on.sees("ended while I was away with exit code 3")
            await on.at_rest()
        assert lines_told(on) == [f"line {number}" for number in range(1, LINES + 1)]
        assert sum("exit code 3" in text for text in on.texts()) == 1


@pytest.mark.parametrize("kind", a_few_of(DIRECT, 1))
async def test_the_agent_is_woken_by_the_end_and_a_stop_ends_all(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    config = {"terminal": {"cwd": str(tmp_path / "work")}}
    async with chat(tmp_path, kind, config=config) as on, on.gateway():
        on.model.script(
            in_background("echo all is built; exit 7", notify_on_complete=True),
            say("It runs."),
            say("The build failed."),
        )
        on.ask("build it and tell me how it went")
        await on.sees("The build failed.")
        heard = json.dumps(on.model.requests[-1].body)
        assert "ended with exit code 7" in heard
        assert "> all is built" in heard
        on.model.script(in_background("sleep 1000"), say("It sleeps."))
        on.ask("sleep")
        await on.sees("It sleeps.")
        [(keeper,)] = on.home.rows("SELECT handle ->> 'supervisor_pid' FROM processes WHERE state = 'running'")
        on.ask("/stop all")
        await on.sees("Stopped: 1 background process has ended.")
        await until(lambda: not Path(f"/proc/{keeper}").exists())
