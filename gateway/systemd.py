"""Notify systemd of our state, where it asked for that."""

import asyncio
import socket

import structlog

from hermes_config import environment

log = structlog.get_logger()


def notify(*lines: str) -> None:
    """Send assignments such as READY=1; do nothing when systemd does not listen."""
    address = environment.notify_socket()
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
            peer.sendto("\n".join(lines).encode(), address)
    except OSError as error:
        log.warning("systemd not notified", problem=error.strerror)


async def feed_watchdog() -> None:
    """Show systemd that the event loop is alive, until cancelled."""
    period = environment.watchdog_seconds()
    while period:
        notify("WATCHDOG=1")
        await asyncio.sleep(period / 3)
