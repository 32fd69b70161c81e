"""Tell whether a process was started by a command of the agent, by its ancestors in /proc.

Every command runs below a supervisor, which adopts what a command leaves behind; so whatever a command starts has that
supervisor above it. A process that another service starts on its behalf (cron, `systemd-run`, sshd) has not.
"""

import socket
import struct
from pathlib import Path

# In the command line of whatever runs commands and MCP servers.
_SUPERVISORS = (b"supervisor_child", b"box_child", b"server_child")
_MOST_GENERATIONS = 1_000


def is_our_command(pid: int, *, gateway_pid: int = 0) -> bool:
    """Return whether a supervisor of commands, or the gateway, is above a process. One that is gone counts as such."""
    for _ in range(_MOST_GENERATIONS):
        try:
            command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
            # The name of a program may hold anything; what follows its last bracket are the state and the parent.
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return True
        if any(name in command_line for name in _SUPERVISORS):
            return True
        if parent == gateway_pid and gateway_pid:
            return True
        if parent <= 1:
            return False
        pid = parent
    return True


def peer_pid(connection: socket.socket) -> int:
    """Return the process at the other end of a Unix socket."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", packed)
    return int(pid)
