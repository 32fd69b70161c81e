"""Run a command in the owner's sandbox under the restrictions of a systemd unit, as a program: UNIT FOLDER.

There is no systemd here, so this does what it would do: mounts in a mount namespace, no capabilities, filters of system
calls. A restriction it does not know is an error: somebody has to find out whether a sandbox can be made under it.
"""

import asyncio
import ctypes
import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import Command
from tools.workplaces import build_workplace

COVERED = {
    "ProtectKernelTunables": ("/proc/sys", "/proc/irq", "/proc/bus"),
    "ProtectKernelLogs": ("/proc/kmsg",),
    "ProtectHostname": ("/proc/sys/kernel/hostname",),
}
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
# Without effect on a sandbox, and those that the steps below imply.
KNOWN = {
    *("Type", "NotifyAccess", "ExecStart", "ExecReload", "Restart", "RestartSec", "WatchdogSec"),
    *("TimeoutStopSec", "TimeoutStartSec"),
    *(
        "KillMode",
        "Delegate",
        "DelegateSubgroup",
        "User",
        "Group",
        "Environment",
        "StateDirectory",
        "StateDirectoryMode",
    ),
    *("UMask", "NoNewPrivileges", "CapabilityBoundingSet", "LimitCORE", "LockPersonality", "RestrictRealtime"),
    *("RestrictSUIDSGID", "SystemCallArchitectures", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices"),
    *("ProtectClock", "ProtectKernelModules", "RestrictAddressFamilies", "RestrictNamespaces", *COVERED),
}
ROOT = Path(__file__).parents[3]
USER = 54_321
PR_SET_SECCOMP, CLONE, UNSHARE, SOCKET, NEW_CGROUP = 22, 56, 272, 41, 0x02000000


def read_unit(unit: Path) -> dict[str, str]:
    service = unit.read_text().partition("[Service]")[2].partition("\n[")[0]
    lines = [line for line in service.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def hide_other_proc() -> None:
    """Unmount the /proc of any chroot, in our own mount namespace: one that is not covered is enough for bwrap."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, kind = line.split()[4], line.partition(" - ")[2].split()[0]
        if kind == "proc" and place != "/proc":
            subprocess.run(["umount", "--lazy", place], check=True, capture_output=True)


def show_what_we_run(stash: Path) -> None:
    """Let another user find our Python and this checkout, which may be inside of folders that only root can open."""
    shown: dict[Path, Path] = {}
    closed: set[Path] = set()
    for path in (Path(os.path.realpath(sys.base_prefix)), ROOT):
        covers = [parent for parent in path.parents if not parent.stat().st_mode & 0o001]
        if covers:
            closed.add(covers[-1])
            shown[path] = stash / str(len(shown))
            shown[path].mkdir(parents=True)
            mount("--bind", str(path), str(shown[path]))
    for folder in closed:
        mount("-t", "tmpfs", "-o", "mode=755", "none", str(folder))
    for path, copy in shown.items():
        path.mkdir(parents=True, exist_ok=True)
        mount("--move", str(copy), str(path))


def restrict_mounts(unit: dict[str, str], folder: Path) -> None:
    mount("--make-rprivate", "/")
    hide_other_proc()
    show_what_we_run(folder / "shown")
    for name, paths in COVERED.items():
        for path in paths if unit.get(name) == "yes" else ():
            mount("--bind", path if Path(path).is_dir() else "/dev/null", path)
            mount("-o", "remount,bind,ro", path)
    if unit.get("ProtectSystem") == "strict":
        mount("--bind", str(folder), str(folder))
        mount("-o", "remount,bind,ro", "/")


def filter_calls(unit: dict[str, str]) -> None:
    lines: list[tuple[int, int, int, int]] = []
    allow, refuse = (0x06, 0, 0, 0x7FFF0000), 0x00050000

    def when(number: int, check: list[tuple[int, int, int, int]]) -> None:
        lines.extend([(0x20, 0, 0, 0), (0x15, 0, len(check) + 1, number), (0x20, 0, 0, 16), *check])

    if families := unit.get("RestrictAddressFamilies"):
        passing = [line for name in families.split() for line in ((0x15, 0, 1, FAMILIES[name]), allow)]
        when(SOCKET, [*passing, (0x06, 0, 0, refuse | errno.EAFNOSUPPORT)])
    if unit.get("RestrictNamespaces") == "~cgroup":
        for number in (CLONE, UNSHARE):
            when(number, [(0x45, 0, 1, NEW_CGROUP), (0x06, 0, 0, refuse | errno.EPERM)])
    program = b"".join(struct.pack("=HBBI", *line) for line in [*lines, allow])
    block = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(block))
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(header), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")


async def run_boxed(folder: Path) -> None:
    home = Home(folder / "home")
    settings = TerminalSettings.model_validate({"backend": "sandbox"})
    work = folder / "work"
    place = build_workplace(settings, work, home=home, private=home.private, is_owner=True, holder="me")
    finished = await place.backend.run(Command(text="id -u; echo works > file && cat file; ls /proc/self/ns | wc -l"))
    print(finished.output)  # our answer
    await place.backend.close()


def main() -> None:
    unit, folder = read_unit(Path(sys.argv[1])), Path(sys.argv[2])
    if unknown := unit.keys() - KNOWN:
        sys.exit(f"unknown restrictions: {unknown}")
    if len(sys.argv) == 3:
        restrict_mounts(unit, folder)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(folder)], check=True)
        rights = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]
        rights += ["--inh-caps=-all", "--bounding-set=-all"]
        os.execvp(rights[0], [*rights, sys.executable, "-m", __spec__.name, *sys.argv[1:], "restricted"])
    os.environ["HOME"] = str(folder / "user")
    filter_calls(unit)
    asyncio.run(run_boxed(folder))


if __name__ == "__main__":
    main()
