"""Commands that switch off, end, lock out or change the machine, its services and its users."""

import re
from collections.abc import Iterator

from tools.guard.expansion import UNKNOWN
from tools.guard.findings import Finding, Run, ask, block
from tools.guard.names import names
from tools.guard.options import read
from tools.guard.rules.files import Rule

_OURS = re.compile(r"hermes|python|keeper|bash|^sh$|^\.$|^\.\*$|systemd|sshd")
_OFF = "it turns the machine off"
_ENDS = "it can end the gateway in which you run"


def always(rule: str, reason: str, *names: str) -> dict[str, Rule]:
    def found(run: Run) -> Iterator[Finding]:
        if not {"--help", "--version"} & set(run.words):
            yield ask(rule, reason)

    return dict.fromkeys(names, found)


def when(rule: str, reason: str, *patterns: str) -> Rule:
    """Asks when a pattern fits the words, options included, joined by blanks."""
    compiled = re.compile("|".join(patterns))

    def found(run: Run) -> Iterator[Finding]:
        if compiled.search(" ".join(run.words)):
            yield ask(rule, reason)

    return found


def unless(rule: str, reason: str, harmless: str) -> Rule:
    """Asks when the words do not fit."""
    compiled = re.compile(harmless)

    def found(run: Run) -> Iterator[Finding]:
        if not compiled.fullmatch(" ".join(run.words)):
            yield ask(rule, reason)

    return found


def _kill(run: Run) -> Iterator[Finding]:
    words = list(run.words)
    if {"-l", "-L", "--list", "--table"} & set(words):
        return
    if words[:1] in (["-s"], ["-n"], ["--signal"]):
        words = words[2:]
    elif words and re.match(r"-(?:\d|[A-Z])", words[0]) and len(words) > 1:
        words = words[1:]
    targets = [word for word in words if word != "--"]
    if "-1" in targets:
        yield block("kill-everything", "it ends every process")
    elif UNKNOWN in "".join(targets):
        yield ask("run-time-kill", "which process it ends is decided only when it runs")
    elif {"1", "0"} & set(targets):
        yield ask("kill-service", _ENDS)


def _kill_by_name(run: Run) -> Iterator[Finding]:
    options = read(run.words, "-s --signal -u -U --user --euid --uid -G -g -P -t")
    if UNKNOWN in "".join(run.words) or not options.rest or options.has("-u", "-U", "-v", "--inverse", "--user"):
        yield ask("run-time-kill", "which processes it ends is decided only when it runs")
    elif any(_OURS.search(word) for word in options.rest):
        yield ask("kill-service", _ENDS)


def _systemctl(run: Run) -> Iterator[Finding]:
    words = read(run.words, "-H -M -t -p -n -o -s --signal --kill-who -P").rest
    action, units = (words[0], words[1:]) if words else ("", ())
    if action in (
        "poweroff",
        "reboot",
        "halt",
        "suspend",
        "hibernate",
        "rescue",
        "emergency",
        "isolate",
        "kexec",
        "exit",
    ):
        yield ask("power", _OFF)
    elif action in ("stop", "kill", "disable", "mask", "edit", "revert", "set-default", "link", "set-property"):
        yield ask("stop-service", "it stops or changes a service")
    elif action in ("restart", "try-restart", "reload-or-restart") and (not units or any(map(_OURS.search, units))):
        yield ask("kill-service", _ENDS)
    elif UNKNOWN in "".join(words):
        yield ask("stop-service", "what it does to which service is decided only when it runs")


def _crontab(run: Run) -> Iterator[Finding]:
    if run.words != ("-l",):
        yield ask("cron", "it changes what is run at set times")


_PACKAGES = when(
    "remove-packages",
    "it removes programs from the machine",
    r"(?:^|\s)(?:remove|purge|autoremove|autopurge|erase|uninstall|dist-upgrade|-R\w*|-e)(?:\s|$)",
)
_USERS = "it changes who may use the machine"
_FIREWALL = "it changes who can reach the machine"

RULES: dict[str, Rule] = {
    **always("power", _OFF, "shutdown", "reboot", "halt", "poweroff", "telinit", "kexec"),
    "init": when("power", _OFF, r"^[0-6sS]\b"),
    "kill": _kill,
    "pkill": _kill_by_name,
    "killall": _kill_by_name,
    "skill": _kill_by_name,
    **always("kill-everything", "it ends every process", "killall5"),
    "systemctl": _systemctl,
    "service": when("stop-service", "it stops a service", r"\b(?:stop|--full-restart)\b", r"hermes.* restart"),
    "launchctl": when(
        "stop-service", "it stops or changes a service", r"^(?:unload|remove|kill|bootout|disable|load|bootstrap)"
    ),
    "supervisorctl": when("stop-service", "it stops a service", r"\b(?:stop|shutdown|remove)\b"),
    "hermes": when(
        "kill-service",
        "it changes Hermes itself",
        r"^(?:gateway (?:stop|restart)|forget|state (?:undo|restore)|config set|pairing (?!list))",
    ),
    **always(
        "users",
        _USERS,
        "userdel",
        "usermod",
        "useradd",
        "adduser",
        "deluser",
        "groupdel",
        "groupmod",
        "groupadd",
        "passwd",
        "chpasswd",
        "visudo",
        "vipw",
        "chsh",
        "gpasswd",
        "dscl",
    ),
    "iptables": when("firewall", _FIREWALL, r"(?:^|\s)-(?:[FXPADIRZ]|-(?:flush|policy|append|delete|insert))"),
    "ip6tables": when("firewall", _FIREWALL, r"(?:^|\s)-(?:[FXPADIRZ]|-(?:flush|policy|append|delete|insert))"),
    "nft": unless("firewall", _FIREWALL, r"(?:-\w+ )*list\b.*"),
    "ufw": unless("firewall", _FIREWALL, r"status.*|show.*|version"),
    "firewall-cmd": unless("firewall", _FIREWALL, r"--(?:list|get|query|state).*"),
    **always("kernel", "it changes the kernel", "insmod", "modprobe", "rmmod", "depmod"),
    "sysctl": when("kernel", "it changes the kernel", r"(?:^|\s)(?:-w|-p|--system|--write)", r"="),
    "mount": when("mount", "it changes which disks are there", r"\S+ \S+", r"(?:^|\s)-a"),
    **always("mount", "it changes which disks are there", "umount", "swapoff", "losetup", "pivot_root"),
    "crontab": _crontab,
    "at": unless("cron", "it runs something later", r"-l.*|-c .*"),
    **always("cron", "it runs something later", "batch", "anacron"),
    **always(
        "security",
        "it switches off what protects the machine",
        "setenforce",
        "aa-teardown",
        "aa-disable",
        "auditctl",
        "update-alternatives",
        "ldconfig",
        "spctl",
        "csrutil",
    ),
    **dict.fromkeys(names("apt apt-get aptitude dnf yum zypper pacman apk brew snap flatpak dpkg rpm"), _PACKAGES),
    "ip": when("network-setup", "it changes the machine's network", r"\b(?:del|delete|flush|add|set|down)\b"),
    "ifconfig": when("network-setup", "it changes the machine's network", r"\b(?:down|up|add|delete)\b"),
}
