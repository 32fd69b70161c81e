"""/restart: in order, with a word afterwards, and never against somebody who wants an end."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

from playground.model_script import say
from tests.journeys.stage import RunningGateway, until
from tests.journeys.telegram_stage import OWNER, Stage, stage

BACK = "I am back."


async def test_it_goes_on_in_the_same_process_and_says_that_it_is_back(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        on.person(id=OWNER)
        async with on.home.gateway(warm=False) as running:
            await on.ask(OWNER, "what is 6 * 7?", "6 * 7 = 42")
            await on.ask(OWNER, "/restart", "Restarting now. I will write here once I run again.")
            await on.hear(OWNER, BACK)
            await on.ask(OWNER, "what is 6 * 8?", "6 * 8 = 48")
            await on.home.until_idle()
            assert running.is_running
            assert running.printed.count("Ready.") == 2
            await running.stop()
        assert on.telegram.texts(OWNER).count(BACK) == 1
        assert _requests(on) == []


async def test_a_running_turn_may_finish_first(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.person(id=OWNER)
        async with on.home.gateway(warm=False):
            on.model.script(say("Roses need water."))
            on.model.may_answer.clear()
            on.say(OWNER, "about roses")
            await on.model.until_asked(1)
            await on.ask(OWNER, "/restart", "Restarting once 1 running turn ended")
            on.model.may_answer.set()
            await on.hear(OWNER, "Roses need water.")
            await on.hear(OWNER, BACK)
        texts = on.telegram.texts(OWNER)
        assert texts.index("Roses need water.") < texts.index(BACK)


async def test_under_systemd_it_ends_so_that_it_is_started_again(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            async with stage(tmp_path, demo=True) as on:
                on.person(id=OWNER)
                async with on.home.gateway(warm=False) as running:
                    await on.ask(OWNER, "/restart", "Restarting now.")
                    assert await _exit_code(running) == 75
                async with on.home.gateway(warm=False):
                    await on.hear(OWNER, BACK)
        finally:
            del os.environ["NOTIFY_SOCKET"]


async def test_a_signal_meanwhile_means_an_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.person(id=OWNER)
        async with on.home.gateway(warm=False) as running:
            on.model.may_answer.clear()
            on.say(OWNER, "about roses")
            await on.model.until_asked(1)
            await on.ask(OWNER, "/restart", "Restarting once")
            await until(lambda: "restart requested" in running.printed)
            os.kill(running.pid, signal.SIGTERM)
            on.model.may_answer.set()
            assert await _exit_code(running) == 0
        assert running.printed.count("Ready.") == 1


async def test_killed_before_it_restarts_the_next_start_is_the_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.person(id=OWNER)
        async with on.home.gateway() as running:
            on.model.may_answer.clear()
            on.say(OWNER, "about roses")
            await on.model.until_asked(1)
            await on.ask(OWNER, "/restart", "Restarting once")
            await running.kill()
        on.model.may_answer.set()
        async with on.home.gateway() as again:
            await on.hear(OWNER, BACK)
            await on.hear(OWNER, "Noted.")
            await on.home.until_idle()
            assert again.is_running  # the request is closed: no second restart
        assert on.telegram.texts(OWNER).count(BACK) == 1
        assert _requests(on) == []


def _requests(on: Stage) -> list[Any]:
    return on.home.rows("SELECT * FROM meta WHERE name LIKE 'restart%'")


async def _exit_code(running: RunningGateway) -> int | None:
    await until(lambda: not running.is_running)
    return running.exit_code
