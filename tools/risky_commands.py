"""Which commands are not run where nothing isolates: known patterns, each with its reason. Pure.

It keeps from accidents, not from somebody who tries: a pattern is easily talked around.
"""

import re

MAX_CHARS = 20_000  # a text made to be slow would hold up everybody else

_REST = r"[^;&|\n]{0,200}"  # of a simple command; bounded, or a long text would take for ever
_PATH = r"(?:[\w./-]{1,80}/)?"
_NAME = r"(?<![\w.$-])"  # what follows is a word by itself, such as a command's name
_END = r"""["']?(?=[\s;&|)]|$)"""
_DEVICE = r"/dev/(?:sd|nvme|vd|hd|xvd|mmcblk|disk|mapper|dm-|mem|kmem|mtd|loop)"
_SYSTEM = rf"""["']?(?:/(?:etc|boot|usr|bin|sbin|lib\w*|sys|proc)\b|{_DEVICE})"""
_EVERYTHING = rf"""["']?(?:/|~|\$HOME|\$\{{HOME\}}|/(?:home|etc|usr|var|boot|bin|lib|root|opt))(?:/?\*)?/?{_END}"""
_SHELL = rf"{_PATH}(?:ba|da|z|k|fi)?sh"
_INTERPRETER = rf"(?:python[\d.]*|perl|ruby|node|php|{_SHELL})"
_LOADER = r"(?:curl|wget|fetch)"
_RECURSIVE = r"\s(?:-[a-zA-Z]*[rR][a-zA-Z]*|--recursive)(?=\s|$)"

_RISKS: dict[str, tuple[str, ...]] = {
    "it deletes folders with all that is in them": (
        rf"(?<!git ){_NAME}rm(?:\s{_REST})?{_RECURSIVE}",
        r"\b(?:rmtree|remove_dir_all|rimraf|rm_rf?)\s*[\('\"]",
    ),
    "it deletes what the system or a home consists of": (rf"{_NAME}(?:rm|rmdir|unlink)\s(?:{_REST}\s)?{_EVERYTHING}",),
    "it deletes whatever is found": (rf"{_NAME}find\s{_REST}(?:-delete\b|-exec(?:dir)?\s+{_PATH}rm\b)",),
    "it deletes files that are nowhere else": (rf"{_NAME}git\s{_REST}\bclean\s{_REST}-\w*f", rf"{_NAME}shred\s"),
    "it writes to a disk below its files": (
        rf"{_NAME}(?:mkfs(?:\.\w+)?|mkswap|wipefs|fdisk|sfdisk|sgdisk|parted|blkdiscard)\s",
        rf"{_NAME}dd\s{_REST}\bof=[\"']?/dev/(?!null\b)",
        rf">\s{{0,20}}[\"']?{_DEVICE}",
    ),
    "it changes who may do what with everything": (
        rf"{_NAME}(?:chmod|chown|chgrp)(?:\s{_REST})?{_RECURSIVE}{_REST}\s{_EVERYTHING}",
        rf"{_NAME}chmod(?:\s{_REST})?{_RECURSIVE}{_REST}\s0?777\b",
        rf"{_NAME}chmod\s{_REST}0?777{_REST}{_RECURSIVE}",
    ),
    "it multiplies without end": (r"([\w:.]{1,40})\s?\(\s?\)\s?\{[^}]{0,80}?\1\s?\|\s?\1\s?&",),
    "it runs what nobody has read": (
        rf"\|\s{{0,20}}(?:sudo\s+(?:-\w+\s+)?)?(?:env\s+)?{_SHELL}(?:\s-\w*)?\s{{0,20}}(?:$|[;&|)\n<>])",
        rf"\b{_LOADER}\b{_REST}\|\s{{0,20}}(?:sudo\s+)?{_INTERPRETER}\b",
        rf"(?:{_NAME}{_INTERPRETER}\s+(?:-\w+\s+)?|\beval\s+|\bsource\s+|\.\s+)[\"']?(?:<\(|\$\(|`)\s{{0,20}}{_LOADER}\b",
    ),
    "it turns the machine off": (
        rf"(?:^|[;&|\n(`]|\bsudo\s)\s{{0,20}}{_PATH}(?:shutdown|reboot|halt|poweroff|telinit|init\s+[06]){_END}",
        rf"{_NAME}systemctl\s{_REST}\b(?:poweroff|reboot|halt|suspend|hibernate|rescue|emergency|isolate)\b",
    ),
    "it ends the gateway in which you run": (
        rf"{_NAME}systemctl\s{_REST}\b(?:stop|restart|try-restart|kill|disable|mask)\s{_REST}hermes",
        rf"{_NAME}(?:pkill|killall)\s{_REST}(?:hermes|python|keeper|bash)",
        rf"{_NAME}kill\s(?:{_REST}\s)?(?:-1|\$PPID|\$\{{PPID\}})\s{{0,20}}(?:$|[;&|\n])",
        rf"{_NAME}hermes\s+gateway\s+(?:stop|restart)\b",
    ),
    "it overwrites what others have pushed": (
        rf"{_NAME}git\s{_REST}\bpush\b{_REST}\s(?:--force(?:-with-lease)?|-\w*f\w*|--mirror|\+\S)",
    ),
    "it deletes tables of a database": (r"(?i:\b(?:drop\s+(?:table|database|schema)|truncate\s+table)\b)",),
    "it touches the secrets or the state of Hermes": (
        r"\.hermes/(?:\.env\b|state\.db|backups\b)",
        r"\bHERMES_HOME\b\S{0,3}/(?:\.env\b|state\.db|backups\b)",
    ),
    "it touches credentials": (
        r"\.ssh/(?:id_\w+|identity)(?![\w.])|\.ssh/\*|\bauthorized_keys\b",
        r"/etc/(?:shadow|gshadow|sudoers)\b",
        r"(?:^|[\s/\"'=~])\.(?:netrc|pgpass|git-credentials|gnupg)\b",
        r"\.aws/credentials\b|\.kube/config\b|\.docker/config\.json\b|\bgh/hosts\.yml\b|\bgcloud/\w{0,40}credentials",
        r"/proc/(?:\d+|\*|\$\w+|\$\{\w+\})/(?:environ|mem)\b",
    ),
    "it overwrites files of the system": (
        rf">\s{{0,20}}{_SYSTEM}",
        rf"{_NAME}tee\s(?:{_REST}\s)?{_SYSTEM}",
        rf"{_NAME}sed(?:\s{_REST})?\s(?:-\w*i|--in-place){_REST}\s{_SYSTEM}",
        rf"{_NAME}(?:cp|mv|ln|install|truncate)\s{_REST}\s{_SYSTEM}[^\s;&|]{{0,200}}\s{{0,20}}(?:$|[;&|\n])",
    ),
    "it changes who may use the machine": (
        rf"{_NAME}(?:userdel|usermod|useradd|groupdel|passwd|chpasswd|visudo)(?=\s|$)",
        rf"{_NAME}(?:iptables\s{_REST}(?:-F|--flush)|nft\s+flush|ufw\s+(?:disable|reset))\b",
    ),
    "it deletes all jobs of cron": (rf"{_NAME}crontab\s+{_REST}-r\b",),
}
_COMPILED = tuple((re.compile(pattern), reason) for reason, patterns in _RISKS.items() for pattern in patterns)


def risk_of(command: str) -> str:
    """Why it should not be run without a human's yes, as a clause; empty when no pattern says so."""
    if len(command) > MAX_CHARS:
        return f"it is longer than {MAX_CHARS:,} characters, which is too long to be looked at"
    text = command.replace("\\\n", " ")
    return next((reason for pattern, reason in _COMPILED if pattern.search(text)), "")
