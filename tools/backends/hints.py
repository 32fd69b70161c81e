"""Tell from the output of a failed command that the sandbox was the reason, and what to do about it."""

import re
from pathlib import Path

from tools.backends.policy import SandboxPolicy

REFUSED_BY_PROXY = "Hermes does not connect the sandbox to"
_LOOKED_AT_CHARS = 20_000
_READ_ONLY = re.compile(r"read-only file system|EROFS|[Dd]evice or resource busy", re.IGNORECASE)
_NO_DOCKER = re.compile(r"docker daemon|docker\.sock|podman\.sock|containerd\.sock", re.IGNORECASE)
_NO_RIGHTS = re.compile(r"no new privileges|must be setuid root|sudo: ", re.IGNORECASE)
_REFUSED = re.compile(
    rf"{REFUSED_BY_PROXY} ([^\s:]+)|response 403|[Tt]unnel connection failed: 403|SOCKS5 connection to [^\s]+ \(2\)"
)
_NO_NETWORK = re.compile(
    r"could not resolve host|name resolution|name or service not known|network is unreachable|getaddrinfo|EAI_AGAIN"
    r"|ENETUNREACH",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(r"no such file|not found|cannot access|permission denied|ENOENT", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.:/])(~?/[^\s:;,|&<>()'\"`]+)")


def explain_failure(command: str, output: str, policy: SandboxPolicy) -> str:
    """Return a note for the model; empty when the sandbox seems not to be the reason."""
    shown = output[:_LOOKED_AT_CHARS] + output[-_LOOKED_AT_CHARS:]
    reason = _find_reason(command, shown, policy)
    if not reason or policy.user_home is None:
        return reason
    return f"{reason} If it must run outside the sandbox, call terminal again with outside=true and a reason."


def _find_reason(command: str, shown: str, policy: SandboxPolicy) -> str:
    if _NO_DOCKER.search(shown):
        return "Docker cannot be reached from the sandbox."
    if _NO_RIGHTS.search(shown):
        return "Nothing can get more rights in the sandbox, not even by sudo."
    if refused := _REFUSED.search(shown):
        return f"The sandbox may not connect to {refused[1] or 'that address'}."
    if _READ_ONLY.search(shown):
        writable = ", ".join([str(policy.workspace), *map(str, policy.writable), "/tmp"])  # noqa: S108  # its own
        return f"In the sandbox only {writable} can be written, and no settings or hooks of git there."
    if _NO_NETWORK.search(shown):
        if policy.network == "off":
            return "The sandbox has no network."
        return "The sandbox reaches the network only by the proxy in the variable HTTPS_PROXY; this program ignores it."
    if policy.user_home and _NOT_FOUND.search(shown) and (hidden := _find_hidden(f"{command} {shown}", policy)):
        return f"{hidden} is hidden in the sandbox."
    return ""


def _find_hidden(text: str, policy: SandboxPolicy) -> str:
    for named in dict.fromkeys(_PATH.findall(text)):
        path = Path(str(policy.home) + named[1:] if named.startswith("~") else named)
        try:
            if policy.hides(path):
                return str(named)
        except OSError:  # a name too long, for example
            continue
    return ""
