"""A home, a gateway process in it, people who talk to it, and the ledger that watches them all."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL

from tests.faults import aftermath
from tests.faults.gateway_process import GatewayProcess
from tests.faults.ledger import Ledger, Sent, Verdict
from tests.faults.socket_client import SocketClient

CANARY = "sk-canary-5f0c2a9d71e84b36"
_LOOK_AGAIN_SECONDS = 0.03
_SETTINGS = {
    "HERMES_PLATFORMS__SOCKET__ENABLED": "true",
    "HERMES_PLATFORMS__WEB__ENABLED": "false",  # its port is one for all
    "HERMES_AGENT__ENABLED_TOOLSETS": "todo,clock,side_effect",
    "HERMES_MODEL__DEMO_PACE_MS": "0",
    "HERMES_LOGS__LEVEL": "debug",
    "HERMES_LOGS__FORMAT": "json",
}


class Stage:
    """What every platform's stage has; who talks, and how, is added by each."""

    def __init__(self, folder: Path, settings: Mapping[str, str], arguments: Sequence[str] = ()) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        env_file = self.home / ".env"
        env_file.touch(mode=0o600)
        env_file.write_text(f"OPENAI_API_KEY={CANARY}\n")
        self.database = self.home / "state.db"
        self.effects = folder / "effects"
        self.ledger = Ledger()
        self.process = GatewayProcess(
            self.home,
            effects=self.effects,
            log=folder / "gateway.log",
            settings={**_SETTINGS, **settings},
            arguments=arguments,
        )

    async def start(self) -> None:
        await self.process.start()
        assert await self.process.wait_ready(), self.process.last_lines()

    async def run_into(self, point: str, *, occurrence: int = 1) -> None:
        """Starts a process that is to end at the point, and waits until it has."""
        await self.process.start(kill_at=point, occurrence=occurrence)
        await self.dies(point)

    async def dies(self, point: str) -> None:
        try:
            code = await self.process.wait_end(seconds=40)
        except TimeoutError:
            raise AssertionError(f"{point} was never reached.\n{self.process.last_lines()}") from None
        assert code == -SIGKILL, self.process.last_lines()

    async def effect_of(self, message: Sent, *, seconds: float = 40.0) -> None:
        async with asyncio.timeout(seconds):
            while message.id not in aftermath.effects(self.effects):
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def release(self) -> None:
        """Lets go on what a call with `hold` is holding up."""
        self.effects.with_suffix(".released").touch()

    async def at_rest(self, *, seconds: float = 30.0) -> None:
        """Waits until all is accepted and nothing is left to do; if that never comes, the verdict says so."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.process.has_ended:
            if self._all_accepted() and self.database.exists() and aftermath.is_at_rest(self.database):
                return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def judge(self) -> Verdict:
        outcomes = {id_: outcome for (_, id_), outcome in aftermath.outcomes(self.database).items()}
        return self.ledger.judge(effects=aftermath.effects(self.effects), outcomes=outcomes)

    async def finish(self, *, seconds: float = 30.0) -> Verdict:
        """Lets all work be done, stops the gateway, and judges."""
        await self.at_rest(seconds=seconds)
        died = self.process.has_ended
        code = await self.process.terminate()
        verdict = self.judge()
        if died or code != 0:
            verdict.accuse("gateway ended badly", f"exit code {code}", *self.process.last_lines().splitlines())
        if not aftermath.is_at_rest(self.database):
            verdict.accuse("work left undone", "inbox, turns or outbox have open rows")
        verdict.accuse("orphans", *self.process.orphans())
        for database in (self.database, *(self.home / "backups").glob("*.db")):
            verdict.accuse("damage", *aftermath.damage(database))
        places = (self.home, self.process.log, self.effects)
        verdict.accuse("secret leaked", *aftermath.leaks(CANARY, places, allowed=self.home / ".env"))
        verdict.accuse("secret told", *(one.key for one in self.ledger.arrivals if CANARY in one.text))
        return verdict

    def _all_accepted(self) -> bool:
        return all(message.acked for message in self.ledger.messages.values())


class SocketStage(Stage):
    def __init__(self, folder: Path, clients: Sequence[Sequence[str]], settings: Mapping[str, str]) -> None:
        super().__init__(folder, settings)
        self.clients = [SocketClient(self.home / "hermes.sock", self.ledger, chats) for chats in clients]
        self._speaks_for = {chat: client for client, chats in zip(self.clients, clients, strict=True) for chat in chats}

    def say(self, chat: str, text: str, *, expect: str = "") -> Sent:
        return self._speaks_for[chat].say(chat, text, expect=expect)


@asynccontextmanager
async def on_stage(
    folder: Path, *clients: Sequence[str], settings: Mapping[str, str] | None = None
) -> AsyncIterator[SocketStage]:
    """One client for each list of chats given; the gateway is not started yet."""
    stage = SocketStage(folder, clients, settings or {})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.run()) for client in stage.clients]
        try:
            yield stage
        finally:
            if not stage.process.has_ended:
                await stage.process.kill()
            for task in tasks:
                task.cancel()
