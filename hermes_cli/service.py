"""The systemd service of the gateway: the text of its unit, and calls of systemctl."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

UNIT_NAME = "hermes-gateway"
SYSTEM_USER = "hermes"
SYSTEM_HOME = Path("/var/lib/hermes/home")
_HIDDEN_FROM_SYSTEM = (Path("/home"), Path("/root"), Path("/run/user"))  # by ProtectHome=

_SERVICE = """\
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
WatchdogSec=60
# Running turns may finish first: gateway.drain_timeout_seconds (60) and a little.
TimeoutStopSec=90
TimeoutStartSec=300
# Background processes go on while the gateway is restarted, and when it is stopped; it finds them again. Commands
# that were waited for end by themselves when it is gone.
KillMode=process
# For limits of sandboxes by control groups. They need DelegateSubgroup=gateway too, which systemd knows since version
# 254: `hermes gateway install` adds it there.
Delegate=cpu memory pids
"""
_SUBGROUP = "DelegateSubgroup=gateway\n"
_FIRST_WITH_SUBGROUPS = 254
_LIMITS = """\
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
"""
_USER = f"""\
# The gateway as a service of your own user. `hermes gateway install` writes and starts it.
# For a service of the whole machine see deploy/hermes-gateway.system.service.
[Unit]
Description=Hermes, an AI agent in your chats
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
{{start}}{_SERVICE}{{subgroup}}
UMask=0077
NoNewPrivileges=yes
{_LIMITS}LimitCORE=0

[Install]
WantedBy=default.target
"""
_SYSTEM = f"""\
# The gateway as a service of the machine, under a user of its own. As root, `hermes gateway install --system` makes
# that user, and writes and starts this.
[Unit]
Description=Hermes, an AI agent in your chats
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
User={SYSTEM_USER}
Group={SYSTEM_USER}
{{start}}{_SERVICE}{{subgroup}}
StateDirectory=hermes
StateDirectoryMode=0700
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectKernelModules=yes
# The sandbox sets up its own loopback by netlink.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
# Not set, since no sandbox could be made: RestrictNamespaces= forbids the namespaces it consists of; ProtectHostname=,
# ProtectKernelLogs= and ProtectKernelTunables= cover parts of /proc, and then the kernel lets nobody mount another.
# Commands in a sandbox get none of what these protect.
{_LIMITS}CapabilityBoundingSet=
LimitCORE=0

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """The unit of this user, or of the machine."""

    file: Path
    is_system: bool

    @property
    def manager(self) -> list[str]:
        return [] if self.is_system else ["--user"]

    def call(self, *arguments: str) -> None:
        """Run systemctl; raise ClickException with its reason."""
        run_program("systemctl", *self.manager, *arguments)

    def remove(self) -> None:
        """Stop and delete it."""
        self.call("disable", "--now", UNIT_NAME)
        self.file.unlink()
        self.call("daemon-reload")

    def ask(self, question: str) -> str:
        """Return the answer of `systemctl is-active` or `is-enabled`: one word, whatever the exit code."""
        try:
            done = subprocess.run(
                ["systemctl", *self.manager, question, UNIT_NAME], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            return "unknown"
        return done.stdout.strip() or "unknown"


def find_unit(*, is_system: bool) -> ServiceUnit:
    from gateway.doctor.facts import SYSTEM_UNITS, UNIT, find_user_units

    return ServiceUnit(file=(SYSTEM_UNITS if is_system else find_user_units()) / UNIT, is_system=is_system)


def find_installed(*, is_system: bool = False) -> ServiceUnit | None:
    """Return the unit of this user, else that of the machine; None when it is not installed."""
    units = [find_unit(is_system=True)] if is_system else [find_unit(is_system=False), find_unit(is_system=True)]
    return next((unit for unit in units if unit.file.exists()), None)


def find_program() -> list[str]:
    """Return the command that runs this very installation, with full paths."""
    for name in (sys.argv[0], "hermes"):
        found = shutil.which(name)
        if found and Path(found).name == "hermes":
            return [str(Path(found).absolute())]
    return [sys.executable, "-m", "hermes_cli"]


def render_unit(program: Sequence[str], home: Path | None, *, is_system: bool, has_subgroups: bool = False) -> str:
    """Return the text of a unit; `home` only where it is not the usual one."""
    start = f"Environment={_quote(f'HERMES_HOME={home}')}\n" if home else ""
    start += f"ExecStart={' '.join(map(_quote, program))} gateway run\n"
    return (_SYSTEM if is_system else _USER).format(start=start, subgroup=_SUBGROUP if has_subgroups else "")


def has_subgroups() -> bool:
    """Return whether this machine's systemd is new enough for the line that older ones warn about."""
    try:
        shown = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return False
    version = re.match(r"systemd (\d+)", shown)
    return version is not None and int(version[1]) >= _FIRST_WITH_SUBGROUPS


def find_obstacle(program: Sequence[str], *, is_system: bool) -> str:
    """Return why the unit could not work; empty when it can."""
    if is_system and any(Path(program[0]).is_relative_to(place) for place in _HIDDEN_FROM_SYSTEM):
        return (
            f"{program[0]} is in a folder that a service of the machine cannot see. Install Hermes below /opt or "
            "/usr/local, or install the service for your own user: hermes gateway install"
        )
    return ""


def run_program(*command: str) -> None:
    """Run a program; raise ClickException with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise click.ClickException(
            f"There is no {command[0]} here: this machine does not use systemd. Start the gateway yourself: "
            "hermes gateway run"
        ) from None
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        hint = ""
        if "bus" in said and "--user" in command:
            hint = "\nThis login has no systemd of its own (as after su); log in as that user, or use --system as root."
        raise click.ClickException(f"`{' '.join(command)}` failed: {said}{hint}")


def has_systemd() -> bool:
    """Return whether services of this user can be started here."""
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemctl") is None:
        return False
    asked = subprocess.run(["systemctl", "--user", "show-environment"], capture_output=True, check=False)
    return asked.returncode == 0


def _quote(word: str) -> str:
    """Quote a word for systemd, which reads % as the beginning of a specifier."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if re.search(r"[\s\"'\\;]", word) else escaped
