"""Whether a process was started by a command of the agent."""

import asyncio
import os
import socket
from pathlib import Path

from tests.tools.places import place_in
from tools.backends.ancestry import is_our_command, peer_pid
from tools.backends.base import Command

_READY = "while [ ! -s pid ]; do sleep 0.05; done; cat pid"


async def test_what_a_command_starts_is_ours_even_when_it_was_left_behind(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    handle = await place.backend.spawn(
        Command(text="(setsid sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 300' &)\nsleep 300")
    )
    try:
        pid = int((await place.backend.run(Command(text=_READY, timeout_seconds=60))).output)
        assert await asyncio.to_thread(is_our_command, pid)
        assert handle.pid is None or is_our_command(handle.pid)
    finally:
        await place.backend.kill(handle)
    assert is_our_command(pid)  # nobody can say any more


def test_others_are_not_and_children_of_the_gateway_are() -> None:
    assert not is_our_command(os.getpid())
    assert is_our_command(os.getpid(), gateway_pid=os.getppid())
    assert not is_our_command(1)


def test_the_peer_of_a_socket_is_told() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert peer_pid(here) == os.getpid()
