"""Workers in processes of their own. Each ends when its connection does, so that none outlives a killed parent."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import aclosing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from agent_core.batch.tasks import BatchTask, Key
from agent_core.batch.worker import BatchOptions, BatchWorker, WorkerLost
from agent_core.trajectory import Row
from hermes_config.settings import Settings

_END_SECONDS = 10.0


class ProcessLink:
    """The parent's side. Tasks go one way, rows with the keys of their tasks the other."""

    def __init__(self, settings: Settings, options: BatchOptions, folder: Path) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what tools print is no result
                start_new_session=True,  # Ctrl-C is for the parent, which ends it in order
            )
        self._connection = Connection(ours.detach())
        self._waiting: dict[Key, asyncio.Future[Row]] = {}
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._read)
        with suppress(OSError):  # noticed by the first task
            self._connection.send((settings, options, folder))

    async def run(self, task: BatchTask) -> Row:
        future: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waiting[task.key] = future
        try:
            self._connection.send(task)
            return await future
        except OSError as error:
            raise WorkerLost("its connection is closed") from error
        finally:
            del self._waiting[task.key]

    def _read(self) -> None:
        try:
            key, row = self._connection.recv()
        except (EOFError, OSError):  # also in the middle of a row
            self._disconnect()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(WorkerLost(f"process {self._process.pid} has ended"))
        else:
            if (waiting := self._waiting.get(key)) and not waiting.done():
                waiting.set_result(row)

    def _disconnect(self) -> None:
        if not self._connection.closed:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.close()

    async def close(self) -> None:
        self._disconnect()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


async def _serve(connection: Connection) -> None:
    """Run the child's side."""
    loop, serving, writing = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Lock()
    async with aclosing(BatchWorker(*connection.recv())) as worker, asyncio.TaskGroup() as group:

        async def run(task: BatchTask) -> None:
            answer = task.key, await worker.run(task)
            async with writing:
                with suppress(OSError):  # the parent has gone, which ends us too
                    # In a thread: the parent may not read before it has sent us a task.
                    await asyncio.to_thread(connection.send, answer)

        def receive() -> None:
            try:
                group.create_task(run(connection.recv()))
            except (EOFError, OSError):
                # The parent wants no more, or was killed: ends what runs, and with it each task's workplace.
                loop.remove_reader(connection.fileno())
                assert serving is not None
                serving.cancel()

        loop.add_reader(connection.fileno(), receive)
        await loop.create_future()


if __name__ == "__main__":
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # a command of a tool must not hold it
    with suppress(asyncio.CancelledError, EOFError):
        asyncio.run(_serve(Connection(descriptor)))
