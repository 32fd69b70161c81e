"""Workers as actors on Ray: on a cluster that exists, or on one of this machine alone.

Every machine needs the same Hermes. Keys travel with the settings, to the workers only; workplaces are in the temporary
folder of the machine that runs the task.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agent_core.batch.tasks import BatchTask
from agent_core.batch.worker import BatchOptions, BatchWorker, WorkerLost
from agent_core.trajectory import InputRefused, Row
from hermes_config import environment
from hermes_config.extras import install_line
from hermes_config.settings import Settings

_CLOSE_SECONDS = 20.0
_STORE = 80 * 1024 * 1024  # bytes


class RayLink:
    """Our side of an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor

    async def run(self, task: BatchTask) -> Row:
        try:
            row: Row = await self._actor.run.remote(task)
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(str(error).partition("\n")[0]) from error
        return row

    async def close(self) -> None:
        with suppress(TimeoutError, self._ray.exceptions.RayError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._actor.aclose.remote()
        self._ray.kill(self._actor)


@contextmanager
def ray_workers(settings: Settings, options: BatchOptions) -> Iterator[Callable[[], RayLink]]:
    """Connect to the cluster of the options, or start one here without; yield a function that starts a worker there.

    Raises InputRefused when Ray is not installed, or nothing answers.
    """
    environment.set_default("RAY_USAGE_STATS_ENABLED", "0")
    environment.set_default("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a warning about a future default
    if not options.address:
        # A cluster of one machine listens on loopback alone, which the address given to `init` does not do.
        environment.set_default("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise InputRefused(f"Ray is not installed: {install_line('batch')}") from error
    # Alone on this machine as little as possible: one spare worker, the smallest store.
    here = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": 1, "object_store_memory": _STORE}
    where: dict[str, Any] = {"address": options.address} if options.address else here
    try:
        with _without_dashboard(ray):
            ray.init(**where, log_to_driver=False, logging_level="error")
    except Exception as error:  # Ray raises bare ones
        reason = str(error).partition("\n")[0]
        raise InputRefused(f"Ray could not be reached or started: {reason}") from error
    # Workers wait for models: they need no processor of their own, and are spread over the machines.
    remote = ray.remote(BatchWorker).options(
        max_concurrency=options.batch_size, num_cpus=0, scheduling_strategy="SPREAD"
    )
    try:
        yield lambda: RayLink(ray, remote.remote(settings, options))
    finally:
        ray.shutdown()


@contextmanager
def _without_dashboard(ray: Any) -> Iterator[None]:
    """Start a cluster without the dashboard's process.

    Told to leave the dashboard out, Ray starts it all the same, to ask the metadata addresses of clouds which of them
    this is; there is no setting for that.
    """
    services = ray._private.services
    start, services.start_api_server = services.start_api_server, lambda *_, **__: ("", None)
    try:
        yield
    finally:
        services.start_api_server = start
