"""Run one hook: a handler in a thread and loop of its own, or a command in a process group of its own.

A thread that blocks in the system cannot be stopped, only left behind: it is a daemon, so that it never keeps the
process alive.
"""

import asyncio
import contextlib
import importlib.util
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from hermes_config import environment
from hooks.loader import Hook

MAX_OUTPUT_BYTES = 64_000
_GRACE_SECONDS = 0.5  # for a coroutine that is being cancelled
# How long a handler that computes may keep the interpreter to itself. With Python's own 5 ms, a chat waits that long at
# each of its steps: a turn beside an endless loop took 80 ms instead of 7; with this it takes 20.
_SWITCH_SECONDS = 0.0001
_BUSY_SHARE = 0.05  # of its timeout: a handler that used more of a processor loops, another one waits for something
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "HERMES_HOME")

Answer = Any
"""Whatever a handler returns, or a command prints as JSON; None when that is nothing."""


class HookFailed(Exception):
    """A hook did not do its work. The text says why."""


Run = Callable[[str, dict[str, Any]], Coroutine[Any, Any, Answer]]
"""Runs a hook once with an event and a context of its own; raises HookFailed."""


def open_hook(hook: Hook) -> Run:
    return partial(_run_command, hook) if hook.command else _Handler(hook).run


class _Handler:
    """Runs `handle` of a handler.py. It is imported in its thread, at the first event."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._worker: _Worker | None = None

    async def run(self, event: str, context: dict[str, Any]) -> Answer:
        if self._worker is None:
            sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
            self._worker = _Worker(self._hook)
            self._worker.start()
        worker, timeout = self._worker, self._hook.timeout_seconds
        waiting = asyncio.wrap_future(worker.submit(event, context))
        done, _ = await asyncio.wait([waiting], timeout=timeout)
        if not done and worker.is_awaiting:
            done, _ = await asyncio.wait([waiting], timeout=_GRACE_SECONDS)
        if not done:
            waiting.cancel()
            worker.abandon()
            if self._worker is worker:  # another call of this hook may have left it before
                self._worker = None
            raise HookFailed(f"took longer than {timeout:g} s")
        return waiting.result()


class _Worker(threading.Thread):
    def __init__(self, hook: Hook) -> None:
        super().__init__(name=f"hook {hook.name}", daemon=True)
        self.is_awaiting = False  # a coroutine, which ends by itself at its timeout
        self._hook = hook
        self._handle: Callable[..., Any] | None = None
        self._is_abandoned = False
        self._idle_cpu_seconds = 0.0  # used by the thread before the job at hand
        self._jobs: SimpleQueue[tuple[str, dict[str, Any], Future[Answer]]] = SimpleQueue()

    def submit(self, event: str, context: dict[str, Any]) -> "Future[Answer]":
        future: Future[Answer] = Future()
        self._jobs.put((event, context, future))
        return future

    def abandon(self) -> None:
        """Leave it behind: it may never come back. A loop in Python is broken off, or it would slow down every chat."""
        if self._is_abandoned:  # by another call; its thread may have ended
            return
        is_busy = self._used_cpu_seconds() > _BUSY_SHARE * self._hook.timeout_seconds
        self._is_abandoned = True
        if not is_busy:
            # Until such a thread comes back it cannot be broken off, and all threads of the process would look for
            # the exception at each call meanwhile: slow, and for ever where a profiler runs.
            return
        import ctypes  # a megabyte

        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), ctypes.py_object(SystemExit))

    def _used_cpu_seconds(self) -> float:
        """Return what the job at hand has used so far. The thread must not have ended."""
        if self.ident is None or not hasattr(time, "pthread_getcpuclockid"):
            return 0.0
        return time.clock_gettime(time.pthread_getcpuclockid(self.ident)) - self._idle_cpu_seconds

    def run(self) -> None:
        while not self._is_abandoned:
            with asyncio.Runner() as runner:
                while self._run_next(runner):
                    pass

    def _run_next(self, runner: asyncio.Runner) -> bool:
        """Run the next job; return False when the loop may be broken and another is needed."""
        event, context, future = self._jobs.get()
        if not future.set_running_or_notify_cancel():
            return True
        self._idle_cpu_seconds = time.thread_time()
        try:
            if self._handle is None:
                self._handle = _import_handler(self._hook.folder / "handler.py", self._hook.name)
            answer = self._handle(event, context)
            if inspect.isawaitable(answer):
                self.is_awaiting = True
                answer = runner.run(_await(answer, self._hook.timeout_seconds))
            future.set_result(answer)
        except TimeoutError:
            future.set_exception(HookFailed(f"took longer than {self._hook.timeout_seconds:g} s"))
        except Exception as error:  # noqa: BLE001  # contained: a user's code may do anything
            future.set_exception(HookFailed(_describe(error)))
        except BaseException as error:  # noqa: BLE001  # sys.exit, too
            future.set_exception(HookFailed(_describe(error)))
            return False
        finally:
            self.is_awaiting = False
        return True


async def _await(answer: Any, timeout_seconds: float) -> Answer:
    async with asyncio.timeout(timeout_seconds):
        return await answer


def _import_handler(file: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"hermes_hooks.{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handle: Callable[..., Any] = module.handle
    return handle


def _describe(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" ({Path(last.tb_frame.f_code.co_filename).name} line {last.tb_lineno})" if last is not None else ""
    return f"{type(error).__name__}: {error}"[:300] + where


async def _run_command(hook: Hook, event: str, context: dict[str, Any]) -> Answer:
    """Run the command of a hook with the event as JSON on its standard input."""
    try:
        process = await asyncio.create_subprocess_exec(
            *hook.command,
            cwd=hook.folder,
            env=_child_environment(event),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise HookFailed(f"{hook.command[0]}: {(error.strerror or str(error)).lower()}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    reading = [asyncio.ensure_future(_read(stream)) for stream in (process.stdout, process.stderr)]
    try:
        async with asyncio.timeout(hook.timeout_seconds):
            await _write(process, json.dumps({"event": event, "context": context}, ensure_ascii=False).encode())
            printed, complaint = await asyncio.gather(*map(asyncio.shield, reading))
            await process.wait()
    except TimeoutError:
        raise HookFailed(f"took longer than {hook.timeout_seconds:g} s") from None
    finally:
        await _end(process, reading)
    if process.returncode:
        words = complaint.decode(errors="replace").strip().splitlines()[-1:]
        raise HookFailed(f"ended with exit code {process.returncode}{f': {words[0][:200]}' if words else ''}")
    try:
        return json.loads(printed) if printed.strip().startswith(b"{") else None
    except ValueError:
        return None


async def _write(process: asyncio.subprocess.Process, given: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a command need not read it
        process.stdin.write(given)
        await process.stdin.drain()
        process.stdin.close()


async def _end(process: asyncio.subprocess.Process, reading: "Sequence[asyncio.Future[bytes]]") -> None:
    """Kill what is left of the process group, and close the pipes even if somebody outside of it holds them."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await asyncio.wait(reading, timeout=_GRACE_SECONDS)  # to their ends: asyncio waits for pipes that nobody reads
    for one in reading:
        one.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    process._transport.close()  # type: ignore[attr-defined]


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Return what a command prints. A flood raises HookFailed: reading it costs every chat its share of the CPU."""
    printed = b""
    while part := await stream.read(MAX_OUTPUT_BYTES):
        printed += part
        if len(printed) > MAX_OUTPUT_BYTES:
            raise HookFailed(f"printed more than {MAX_OUTPUT_BYTES:,} bytes")
    return printed


def _child_environment(event: str) -> dict[str, str]:
    known = {name: environment.get(name) for name in _PASSED_ON if environment.has(name)}
    return known | {"HERMES_EVENT": event}
