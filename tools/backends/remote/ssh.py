"""Another machine, by OpenSSH's client. One connection is shared and kept for a while, so a command costs little."""

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar

from hermes_config.places import make_private
from hermes_config.settings import SshSettings
from tools.backends.remote.calls import PlaceFailed
from tools.backends.remote.programs import KnownErrors, ProgramPlace

_KEPT_SECONDS = 600
_CHANGED = "the host key of {host} has changed: it was reinstalled, or somebody intercepts the connection"
_COMPARE = "compare the fingerprint with that machine's; if it is right: ssh-keygen -R {known_as}, then {connect}"
_COPY = "ssh-copy-id {port}{user}@{host}, or hermes config set terminal.ssh.key …"
_KNOWN_ERRORS: KnownErrors = (
    ("identification has changed", _CHANGED, _COMPARE),
    ("host key verif", "the host key of {host} is not known yet", "{connect}, compare the fingerprint, and answer yes"),
    ("unprotected private key", "others can read the private key {key}", "chmod 600 {key}"),
    ("permission denied", "{host} refuses the key, or the user {user}", _COPY),
    ("could not resolve", "there is no machine {host}", "hermes config set terminal.ssh.host …"),
    ("connection refused", "nothing listens at {host}", "start sshd there, or hermes config set terminal.ssh.port …"),
    ("timed out|no route|unreachable", "{host} does not answer", "check that it is switched on and can be reached"),
)


@dataclass(slots=True, kw_only=True)
class SshPlace(ProgramPlace):
    settings: SshSettings

    state: ClassVar[str] = "/~/.cache/hermes-remote"

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the machine, not how to get there: keys may be moved."""
        return {name: getattr(self.settings, name) for name in ("host", "user", "port")}

    programs = ("ssh",)
    package = "openssh-client"
    error_prefix = "No command can be run on {host} (ssh)"
    known_errors = _KNOWN_ERRORS
    gone_pattern = "(?!)"  # it is there or not

    def exec_arguments(self, argv: Sequence[str]) -> Sequence[str]:
        if not self.settings.host:
            raise PlaceFailed("No machine to work on is set.", "hermes config set terminal.ssh.host …")
        return (*self.options(), "-T", self.settings.host, f"exec {shlex.join(argv)}")

    def options(self) -> list[str]:
        chosen = self.settings
        folder = Path(gettempdir()) / f"hermes-ssh-{os.geteuid()}"  # short: the path of a socket must be
        make_private(folder)
        if folder.lstat().st_uid != os.geteuid():
            raise PlaceFailed(f"{folder} belongs to another user.", f"rm -r {folder}")
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "accept-new" if chosen.trust_new_host else "yes",
            "ControlMaster": "auto",
            "ControlPath": f"{folder}/{hashlib.sha256(repr(chosen).encode()).hexdigest()[:20]}",
            "ControlPersist": _KEPT_SECONDS,
            "ConnectTimeout": 15,
            "ServerAliveInterval": 15,
            "ServerAliveCountMax": 3,
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
        }
        if chosen.known_hosts:
            options |= {"UserKnownHostsFile": _expand(chosen.known_hosts), "GlobalKnownHostsFile": "/dev/null"}
        arguments = [f"-o{name}={value}" for name, value in options.items()]
        arguments += [f"-p{chosen.port}"] if chosen.port else []
        arguments += [f"-l{chosen.user}"] if chosen.user else []
        arguments += [f"-i{_expand(chosen.key)}", "-oIdentitiesOnly=yes"] if chosen.key else []
        return [*arguments, f"-J{chosen.jump}"] if chosen.jump else arguments

    def error_values(self) -> Mapping[str, str]:
        host, number, user = self.settings.host, self.settings.port, self.settings.user or getuser()
        port = f"-p {number} " if number else ""
        return {
            "host": host,
            "user": user,
            "key": self.settings.key or "(see ~/.ssh)",
            "known_as": f"'[{host}]:{number}'" if number not in (0, 22) else host,
            "connect": f"ssh {port}{user}@{host}",
            "port": port,
        }


def _expand(path: str) -> str:
    return str(Path(path).expanduser())
