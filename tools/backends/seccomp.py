"""A fixed filter of system calls for sandboxes, as a program of the kernel's packet filter (seccomp).

It refuses what no command needs and what kernels were broken with: new namespaces, mounts, keys, BPF, io_uring, and
sockets other than Unix, IP and netlink. What it does not know, it allows: namespaces and missing rights do the rest.
"""

import errno
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets of what a filter sees; little endian
_NEW_NAMESPACES = 0x7E020000
_FAMILIES = (1, 2, 10, 16)  # Unix, IPv4, IPv6, netlink
_TYPE_INTO_TERMINAL, _TYPE_INTO_CONSOLE = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX
# The same numbers on all machines.
_NEW_CALLS = (
    *(425, 426, 427),  # io_uring_setup, io_uring_enter, io_uring_register
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
)
_CLONE3 = 435


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    architecture: int
    clone: int
    socket: int
    ioctl: int
    refused: tuple[int, ...]


# unshare setns mount umount2 pivot_root add_key request_key keyctl bpf perf_event_open userfaultfd kexec_load
# kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl open_by_handle_at syslog
_X86_64 = _Machine(
    architecture=0xC000003E,
    clone=56,
    socket=41,
    ioctl=16,
    refused=(
        *(272, 308, 165, 166, 155, 248, 249, 250, 321, 298, 323, 246),
        *(320, 175, 313, 176, 169, 167, 168, 163, 179, 304, 103),
    ),
)
_AARCH64 = _Machine(
    architecture=0xC00000B7,
    clone=220,
    socket=198,
    ioctl=29,
    refused=(
        *(97, 268, 40, 39, 41, 217, 218, 219, 280, 241, 282, 104),
        *(294, 105, 273, 106, 142, 224, 225, 89, 60, 265, 116),
    ),
)
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def build_filter(machine: str = "") -> bytes:
    """Return the filter for this machine, empty where it has none."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return b""
    refuse = _ERRNO | errno.EPERM
    missing = _ERRNO | errno.ENOSYS
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, found.architecture),
        (_RETURN, 0, 0, missing),  # another instruction set, with other numbers
        (_LOAD, 0, 0, _NUMBER),
    ]
    if found is _X86_64:
        lines += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, missing)]  # the x32 numbers
    for number in (*found.refused, *_NEW_CALLS):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    # Its flags are in memory, which a filter cannot read: programs use the older call instead.
    lines += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, missing)]
    lines += _when(found.clone, [(_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), (_RETURN, 0, 0, refuse)])
    lines += _when(
        found.ioctl,
        [
            (_LOAD, 0, 0, _SECOND),
            *((_EQUAL, 0, 1, _TYPE_INTO_TERMINAL), (_RETURN, 0, 0, refuse)),
            *((_EQUAL, 0, 1, _TYPE_INTO_CONSOLE), (_RETURN, 0, 0, refuse)),
        ],
    )
    allowed = [line for family in _FAMILIES for line in ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))]
    unknown = (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT)
    lines += _when(found.socket, [(_LOAD, 0, 0, _FIRST), *allowed, unknown])
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _when(number: int, lines: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Return lines for one system call; afterwards the number is loaded again."""
    return [(_EQUAL, 0, len(lines) + 1, number), *lines, (_LOAD, 0, 0, _NUMBER)]
