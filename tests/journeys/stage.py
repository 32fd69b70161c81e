"""What every story is played with: a home set up as an operator does it, a gateway process, a model one can watch."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from aiohttp import web

from gateway.lock import read_state
from playground.model_script import Step, say
from playground.model_server import ModelServer
from tests.journeys.gateway_process import ROOT
from tests.warm.process import WarmProcess, start_warm

T = TypeVar("T")

PATIENCE_SECONDS = 60.0  # for anything; on an idle machine it takes milliseconds
CODE = re.compile(r"\b[A-HJ-NP-Z2-9]{8}\b")


class WatchedModel(ModelServer):
    """A model server that can be waited for, and that keeps its answers back while `may_answer` is not set."""

    def __init__(self, *, otherwise: Step | None = None) -> None:
        super().__init__(otherwise=otherwise or say("Noted."))
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._stirred = asyncio.Event()

    async def until_asked(self, times: int, *, seconds: float = PATIENCE_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while len(self.requests) < times:
                stirred = self._stirred
                await stirred.wait()

    def words(self, request: int = -1) -> str:
        """All that the model was shown in one request."""
        return "\n".join(_words(message) for message in self.bodies[request]["messages"])

    def newest_words(self, request: int = -1) -> str:
        """The last thing it was shown: what people said since its last answer."""
        return _words(self.bodies[request]["messages"][-1])

    def _remember(self, request: web.Request, body: object, refused: str) -> None:
        super()._remember(request, body, refused)
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def _play(self, step: Step, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        await self.may_answer.wait()
        return await super()._play(step, request, body)


class RunningGateway:
    """A `hermes gateway run`. What it prints goes to a file: a full pipe would hold it up."""

    def __init__(self, process: asyncio.subprocess.Process | WarmProcess, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def printed(self) -> str:
        return self._log.read_text()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    async def stop(self) -> None:
        """In order, so that what it does by itself is done; nothing but that may have ended it."""
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await self._process.wait() == 0, self.printed[-3000:]

    async def kill(self) -> None:
        """kill -9."""
        if self.is_running:
            self._process.kill()
        async with asyncio.timeout(30):
            await self._process.wait()


@dataclass(kw_only=True)
class Home:
    """A home with its settings, and what can be asked of it from outside."""

    path: Path

    @asynccontextmanager
    async def gateway(self, *, module: str = "hermes_cli", warm: bool = True) -> AsyncIterator[RunningGateway]:
        """`warm` is the usual way here, since loading takes a second; without it, as the operator's shell does it."""
        log = self.path.with_name(f"{self.path.name}.log")
        start = self._start_warm if warm else self._start_cold
        with log.open("ab") as output:
            process = await start(module, output)
        running = RunningGateway(process, log)
        try:
            yield running
        finally:
            await running.kill()

    async def hermes(self, *arguments: str, code: int = 0) -> str:
        """What a `hermes` command prints; it must end with this code."""
        process = await start_warm("hermes_cli", *arguments, warnings="error", environment=self._environment)
        async with asyncio.timeout(30):
            printed, _ = await process.communicate()
        assert process.returncode == code, printed.decode()
        return printed.decode()

    async def _start_warm(self, module: str, output: IO[bytes]) -> WarmProcess:
        environment = self._environment
        return await start_warm(module, "gateway", "run", warnings="error", stdout=output, environment=environment)

    async def _start_cold(self, module: str, output: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", module, "gateway", "run"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
            env=self._environment,
        )

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HERMES_HOME": str(self.path)}

    async def until_platform(
        self, state: str, *, account: str = "telegram", words: str = "", seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Until the gateway says so of a platform, where `hermes status` looks as well."""

        def is_so() -> bool:
            platform = ((read_state(self.path / "gateway.lock") or {}).get("platforms") or {}).get(account, {})
            return bool(platform.get("state") == state and words in platform.get("problem", ""))

        await until(is_so, seconds=seconds)

    async def until_idle(self, *, seconds: float = 30.0) -> None:
        """Until every message that was taken is answered, and every answer delivered."""
        open_ones = """SELECT 1 FROM inbox WHERE state <> 'done' AND kind IN ('message', 'command', 'button')
                       UNION ALL SELECT 1 FROM outbox WHERE state IN ('ready', 'sending', 'unsure')"""
        await until(lambda: not self.rows(open_ones), seconds=seconds)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path / "state.db")) as database:
            return database.execute(query, values).fetchall()

    def holds(self, words: str) -> list[str]:
        """Every place of the home, of a dump of its database and of the log in which the words stand."""
        needle = words.encode()
        beside = self.path.with_name(f"{self.path.name}.log")
        files = [path for path in (beside, *self.path.rglob("*")) if path.is_file()]
        found = [str(path) for path in files if needle in path.read_bytes()]
        with closing(sqlite3.connect(self.path / "state.db")) as database:
            found += [line[:80] for line in database.iterdump() if words in line]
        return found


def make_home(path: Path, config: Mapping[str, Any], variables: Mapping[str, str]) -> Home:
    """Make a home in which no model is asked for facts to remember: most models here follow a script."""
    path.mkdir(mode=0o700, parents=True)
    config = merged({"memory": {"nudge_turns": 0}}, config)
    (path / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    secrets = path / ".env"
    secrets.touch(mode=0o600)
    secrets.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return Home(path=path)


async def until(condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS) -> T:
    """For what only another process knows and nobody announces: looked at again and again."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.02)
        return value


def code_in(text: str) -> str:
    found = CODE.search(text)
    assert found is not None, text
    return found[0]


def tokens_in(bodies: Collection[Any], pattern: str) -> set[str]:
    """Which marked texts reached the model, in whatever request."""
    return {found for body in bodies for message in body["messages"] for found in re.findall(pattern, _words(message))}


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `above` on top of those of `below`, section by section."""
    both = dict(below)
    for key, value in above.items():
        known = both.get(key)
        is_section = isinstance(known, Mapping) and isinstance(value, Mapping)
        both[key] = merged(known, value) if is_section else value  # type: ignore[arg-type]
    return both
