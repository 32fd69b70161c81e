"""Tells systemd how we are doing, where it asked to be told."""

import asyncio
import socket

import structlog

from hermes_config import environment

log = structlog.get_logger()


def notify(*lines: str) -> None:
    """Sends assignments such as READY=1; does nothing when no systemd listens."""
    address = environment.notify_socket()
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
            peer.sendto("\n".join(lines).encode(), address)
    except OSError as error:
        log.warning("systemd could not be told", problem=error.strerror)


async def feed_watchdog() -> None:
    """Shows that the event loop is alive, until cancelled."""
    period = environment.watchdog_seconds()
    while period:
        notify("WATCHDOG=1")
        await asyncio.sleep(period / 3)
