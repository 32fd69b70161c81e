"""Commands that switch off, end, lock out or change the machine, its services, its users and Hermes itself."""

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import replace

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.names import names
from tools.shell_guard.options import read
from tools.shell_guard.rules.plain import Rule, always, unless, when

_OFF = "it turns the machine off"
_ENDS = "it can end the gateway in which you run"

# What we are run by, as `ps` shows it: by name, and by the whole command line.
_NAMES = (
    "hermes",
    "hermes-gateway",
    "python",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "bash",
    "sh",
    "systemd",
    "sshd",
)
_LINES = (
    "/opt/hermes/.venv/bin/python3 /opt/hermes/.venv/bin/hermes gateway run",
    "python3 -m hermes_cli gateway run",
    "python /opt/hermes/tools/backends/supervisor_child.py",
    "/lib/systemd/systemd --user",
    "-bash",
    "sshd: me [priv]",
)
_UNITS = names("hermes hermes-gateway hermes-gateway.service user@1000.service user.slice systemd-logind ssh sshd dbus")
_TAKING = "-s --signal -u -U --user --euid --uid -G -g -P -t"
_MAX_PATTERN_CHARS = 200
_MAX_REPEATS = 3


def _kill(run: Run) -> Iterator[CommandRisk]:
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
    elif {"1", "0", "-0"} & set(targets):
        yield ask("kill-service", _ENDS)


def _kill_by_name(run: Run) -> Iterator[CommandRisk]:
    words = [word for word in run.words if not re.fullmatch(r"-(?:\d+|[A-Z][A-Z0-9]{2,9})", word)]  # signals
    options = read(words, _TAKING + (" -o -y" if run.name == "killall" else ""))
    if UNKNOWN in "".join(words) or not options.rest or options.has("-u", "-U", "-v", "--inverse", "--user"):
        yield ask("run-time-kill", "which processes it ends is decided only when it runs")
    elif run.name == "killall" and not options.has("-r", "--regexp"):
        if {word.lower() for word in options.rest} & set(_NAMES):
            yield ask("kill-service", _ENDS)
    elif any(_fits_ours(word, *(_LINES if options.has("-f", "--full") else ())) for word in options.rest):
        yield ask("kill-service", _ENDS)


def _fits_ours(pattern: str, *lines: str) -> bool:
    """A pattern that could take long to try, or that reads otherwise here than there, counts as fitting."""
    repeats = len(re.findall(r"[*+?]", pattern))
    if len(pattern) > _MAX_PATTERN_CHARS or repeats > _MAX_REPEATS or re.search(r"[({]|\[[:.=]", pattern):
        return True
    try:
        wanted = re.compile(pattern, re.IGNORECASE)
    except re.error:
        return True
    return any(wanted.search(line) for line in (*_NAMES, *lines))


def _systemctl(run: Run) -> Iterator[CommandRisk]:
    words = read(run.words, "-H -M -t -p -n -o -s --signal --kill-who -P").rest
    action, units = (words[0], words[1:]) if words else ("", ())
    is_ours = any(map(_is_our_unit, units))
    if action in _TURNS_OFF or (action == "start" and any(map(_OFF_TARGET.match, units))):
        yield ask("power", _OFF)
    elif is_ours and action in _STOPS | _RESTARTS:
        yield ask("kill-service", _ENDS)
    elif action in _STOPS:
        yield ask("stop-service", "it stops or changes a service")
    elif action in _RESTARTS and not units:
        yield ask("kill-service", _ENDS)
    elif action in ("set-environment", "import-environment"):
        yield ask("loading-variable", "it sets variables for every service")
    elif action in ("enable", "reenable") and any("/" in unit for unit in units):
        yield ask("write-start-up", "it has a file run as a service from now on")
    elif UNKNOWN in "".join(words):
        yield ask("stop-service", "what it does to which service is decided only when it runs")


_TURNS_OFF = names(
    "poweroff reboot halt suspend hibernate hybrid-sleep suspend-then-hibernate sleep soft-reboot rescue emergency "
    "isolate kexec exit switch-root default"
)
_OFF_TARGET = re.compile(
    r"(?:poweroff|reboot|halt|shutdown|suspend|sleep|hibernate|hybrid-sleep|rescue|emergency|kexec|exit|soft-reboot|"
    r"ctrl-alt-del)\.target|systemd-(?:poweroff|reboot|halt|suspend|hibernate|kexec)"
)
_STOPS = names("stop kill disable mask edit revert set-default link set-property freeze clean preset-all")
_RESTARTS = names(
    "restart try-restart reload-or-restart condrestart force-reload try-reload-or-restart reload-or-try-restart reload"
)


def _is_our_unit(unit: str) -> bool:
    """Units may be patterns."""
    return "hermes" in unit or unit.startswith("user@") or any(fnmatch.fnmatchcase(name, unit) for name in _UNITS)


def _hermes(run: Run) -> Iterator[CommandRisk]:
    """Find commands of Hermes that decide for its owner, or end it."""
    words = [word for word in run.words if not word.startswith("-")]
    text = "\n".join(words)  # one per line, so that no text that is only a word of it is taken for the action
    if re.search(r"(?m)^approvals\n(?:approve$|.*\x00)", text):
        yield block("approve-itself", "nothing may approve itself")
    elif re.search(r"(?m)^web$", text):
        yield ask("secrets", "it gives out a link by which whoever has it is taken for you")
    elif _CHANGES_HERMES.search(text) or UNKNOWN in "".join(words[:2]):
        yield ask("kill-service", "it changes or ends Hermes itself")


def _hermes_of_a_project(run: Run) -> Iterator[CommandRisk]:
    """As `uv run hermes …`."""
    if run.words[:1] == ("run",) and "hermes" in run.words:
        yield from _hermes(replace(run, words=run.words[run.words.index("hermes") + 1 :]))


_CHANGES_HERMES = re.compile(
    r"(?m)^(?:approvals\n(?:revoke|deny)|gateway\n(?:stop|restart)|pairing\n(?!list$)|config\n(?!show$|get$|path$|check$)|"
    r"state\n(?!check$|backups$)|(?:forget|stop|restart|update|upgrade|uninstall|reset)$)"
)


def _crontab(run: Run) -> Iterator[CommandRisk]:
    if run.words != ("-l",):
        yield ask("cron", "it changes what is run at set times")


_REMOVES = ("remove-packages", "it removes programs from the machine")
_PACKAGES = when(
    *_REMOVES,
    r"(?:^|\s)(?:remove|purge|autoremove|autopurge|erase|uninstall|dist-upgrade|del|rm|-R\w*|--remove|-e)(?:\s|$)",
)
_STOP = "it stops or changes a service"
_USERS = "it changes who may use the machine"
_FIREWALL = "it changes who can reach the machine"
_NETWORK = ("network-setup", "it changes the machine's network")
_TABLES = when("firewall", _FIREWALL, r"(?:^|\s)-(?:[FXPADIRZ]|-(?:flush|policy|append|delete|insert))")

RULES: dict[str, Rule] = {
    **always("power", _OFF, "shutdown reboot halt poweroff telinit kexec pm-suspend pm-hibernate"),
    "init": when("power", _OFF, r"^[0-6sS]\b"),
    "rtcwake": when("power", _OFF, r"-m|--mode"),
    "ipmitool": when("power", _OFF, r"\bpower (?!status)"),
    **dict.fromkeys(
        ("busctl", "dbus-send", "gdbus"), when("power", "it tells the system's services what to do", r"login1|systemd1")
    ),
    "kill": _kill,
    **dict.fromkeys(("pkill", "killall", "skill", "snice"), _kill_by_name),
    **always("kill-everything", "it ends every process", "killall5"),
    "fuser": when(
        "run-time-kill",
        "which processes it ends is decided only when it runs",
        r"\A(?!.* \d+/(?:tcp|udp)\Z).*?(?:^|\s)(?:-\w*k|--kill)",
    ),
    "systemctl": _systemctl,
    "loginctl": when("kill-service", _ENDS, r"\b(?:terminate|kill|lock)-|disable-linger|poweroff|reboot|suspend"),
    "machinectl": when("stop-service", _STOP, r"\b(?:poweroff|reboot|terminate|kill|remove)\b"),
    "tmux": when("kill-service", _ENDS, r"\bkill-(?:ser|ses)"),
    "screen": when("kill-service", _ENDS, r"\A(?=.*-X\b).*\b(?:quit|kill)\b"),
    "service": when("stop-service", "it stops a service", r"\b(?:stop|--full-restart)\b", r"\A(?=.*hermes).* restart"),
    **dict.fromkeys(
        ("rc-service", "sv", "initctl", "pm2", "monit", "circusctl"),
        when("stop-service", _STOP, r"\b(?:stop|stopall|down|exit|kill|delete|quit)\b", r"\A(?=.*restart).*hermes"),
    ),
    "launchctl": when(
        "stop-service",
        _STOP,
        r"^(?:unload|remove|kill|bootout|disable|load|bootstrap|stop|reboot|submit|kickstart -\w*k)",
    ),
    "supervisorctl": when(
        "stop-service",
        "it stops a service",
        r"\b(?:stop|shutdown|remove|reload)\b",
        r"\A(?=.*\brestart\b).*(?:\ball\b|hermes)",
    ),
    **dict.fromkeys(("hermes", "hermes_cli"), _hermes),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipx", "rye"), _hermes_of_a_project),
    **always(
        "users",
        _USERS,
        "userdel usermod useradd adduser deluser groupdel groupmod groupadd passwd chpasswd newusers visudo vipw vigr "
        "chsh chfn chage gpasswd dscl smbpasswd",
    ),
    "iptables": _TABLES,
    "ip6tables": _TABLES,
    "ebtables": _TABLES,
    "arptables": _TABLES,
    **always("firewall", _FIREWALL, "iptables-restore ip6tables-restore pfctl"),
    "ipset": when("firewall", _FIREWALL, r"\b(?:destroy|flush|del|add|swap)\b"),
    "nft": unless("firewall", _FIREWALL, r"(?:-\w+ )*list\b.*"),
    "ufw": unless("firewall", _FIREWALL, r"status.*|show.*|version"),
    "firewall-cmd": unless("firewall", _FIREWALL, r"--(?:list|get|query|state).*"),
    **always("kernel", "it changes the kernel", "insmod modprobe rmmod depmod update-initramfs"),
    "sysctl": when("kernel", "it changes the kernel", r"(?:^|\s)(?:-w|-p|--system|--write)", r"="),
    "mount": when("mount", "it changes which disks are there", r"\S+ \S+", r"(?:^|\s)-a"),
    **always("mount", "it changes which disks are there", "umount fusermount swapoff losetup pivot_root"),
    "crontab": _crontab,
    "at": unless("cron", "it runs something later", r"-l.*|-c .*"),
    **always("cron", "it runs something later", "batch anacron fcrontab"),
    **always(
        "security",
        "it switches off what protects the machine",
        "setenforce setsebool aa-teardown aa-disable aa-complain apparmor_parser auditctl update-alternatives ldconfig "
        "spctl csrutil",
    ),
    **dict.fromkeys(
        names("apt apt-get aptitude dnf yum zypper pacman apk brew snap flatpak rpm conda mamba"),
        _PACKAGES,
    ),
    "dpkg": when(*_REMOVES, r"(?:^|\s)(?:-\w*[rP]|--purge|--remove)(?:\s|$)"),
    "pip": when(*_REMOVES, r"^(?:-\S+ )*uninstall\b"),
    "pip3": when(*_REMOVES, r"^(?:-\S+ )*uninstall\b"),
    "ip": when(*_NETWORK, r"\b(?:del|delete|flush|add|set|down)\b"),
    "ifconfig": when(*_NETWORK, r"\b(?:down|up|add|delete)\b"),
    "nmcli": when(*_NETWORK, r"\b(?:delete|down|off|disconnect|modify)\b"),
    "route": when(*_NETWORK, r"\b(?:del|add|flush)\b"),
    "rfkill": when(*_NETWORK, r"\bblock\b"),
    **always(*_NETWORK, "ifdown ifup netplan"),
    "journalctl": when("change-system", "it deletes what the machine has written down", r"--vacuum"),
    **dict.fromkeys(
        ("date", "timedatectl", "hwclock"),
        when("change-system", "it changes the machine's clock", r"(?:^|\s)(?:-s|--set|set-|-w|--systohc)"),
    ),
}
