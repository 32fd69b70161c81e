"""Makes any connection beyond this machine fail, in the tests and in every Python process they start.

Python imports a module of this name by itself when it finds it on its path; `tests/conftest.py` puts it there.
"""

import ipaddress
import sys
from typing import Any

_LOCAL_NAMES = {"", "localhost", None}


class BeyondLoopback(RuntimeError):
    """Not an OSError, so that no retry loop swallows it."""


def _is_local(host: Any) -> bool:
    if isinstance(host, bytes):
        host = host.decode()
    if host in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        if isinstance(address, tuple) and not _is_local(address[0]):
            raise BeyondLoopback(f"a test tried to reach {address[0]}")
    elif event == "socket.getaddrinfo" and not _is_local(arguments[0]):
        raise BeyondLoopback(f"a test tried to look up {arguments[0]}")


sys.addaudithook(_guard)
