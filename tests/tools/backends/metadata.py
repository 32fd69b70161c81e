"""Try to reach a cloud's metadata and a private network from a sandbox, as a program in a network namespace of its own.

In that namespace these addresses are this machine's, with a stand-in behind them, so that nothing is sent elsewhere.
Prints a line for each address that answered.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import Command
from tools.url_guard import UrlGuard
from tools.workplaces import build_workplace

ADDRESSES = ("169.254.169.254", "100.100.100.200", "10.1.2.3", "172.16.0.9", "192.168.1.1", "168.63.129.16")
SIX = ("fd00:ec2::254", "fe80::a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1")
PUBLIC = "93.184.216.34"  # public, but in this namespace our own
SPELLINGS = ("2852039166", "0xa9fea9fe", "169.254.43518", "[::ffff:169.254.169.254]", "0.0.0.0", "[::ffff:127.0.0.1]")
WAYS = ("", "--proxytunnel", "--socks5-hostname 127.0.0.1:19080", "--noproxy '*'")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(b"HTTP/1.0 200 OK\r\n\r\nsecret-credentials\n")
    await writer.drain()
    writer.close()


async def main() -> None:
    for address in (*ADDRESSES, PUBLIC):
        subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
    for address in SIX:
        subprocess.run(["ip", "addr", "add", f"{address}/128", "dev", "lo", "nodad"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    server = await asyncio.start_server(answer, ("0.0.0.0", "::"), 80)
    home = Home(Path(sys.argv[1]) / ".hermes")
    allowed = sys.argv[2:]
    place = build_workplace(
        TerminalSettings(),
        Path(sys.argv[1]) / "work",
        home=home,
        private=home.private,
        is_owner=True,
        holder="me",
        guard=UrlGuard.of(allowed),
    )
    hosts = (*ADDRESSES, *(f"[{address}]" for address in SIX), PUBLIC, *SPELLINGS)
    lines = [
        f"curl -sg -m 5 {way} http://{host}/ | grep -q secret && echo '{host} {way}'" for way in WAYS for host in hosts
    ]
    finished = await place.backend.run(Command(text="\n".join(lines), timeout_seconds=300))
    print(finished.output)
    print(f"TRIED {len(lines)}")
    await place.backend.close()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
