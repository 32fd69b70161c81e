"""Commands that are known to do no harm by themselves, for the policy that asks about all others."""

import re

from tools.shell_guard.findings import Run
from tools.shell_guard.names import names
from tools.shell_guard.options import read

_HARMLESS = names(
    "[ [[ : arch awk basename bc bat cal cat cd cksum cmp column comm command cut date df diff dirname du echo "
    "egrep env eval exec exit expr factor false fd fdfind fgrep file find fmt fold free getconf getent grep "
    "groups head hexdump host hostname iconv id jobs jq join last less let ls lsblk lscpu lsof man md5sum more "
    "nice nl nohup nproc numfmt od paste pgrep pidof printenv printf ps pstree pwd read readlink realpath return "
    "rev rg sed seq sha1sum sha256sum sha512sum shift shopt sleep sort stat strings sum tac tail test time "
    "timeout top tr trap tree true tsort tty type uname uniq unset uptime users vmstat w wait wc whereis which "
    "who whoami xargs xxd yq zcat zgrep export declare local set"
)
_LOOKING = {
    "git": r"(?:status|log|diff|show|branch|remote|rev-parse|ls-files|blame|describe|shortlog|tag|stash list|grep)\b",
    "docker": r"(?:ps|images|logs|inspect|version|info|stats|top|port|compose (?:ps|logs))\b",
    "kubectl": r"(?:get|describe|logs|version|top|explain)\b",
    "npm": r"(?:ls|list|view|outdated|audit|version)\b",
    "pip": r"(?:list|show|freeze|check)\b",
    "systemctl": r"(?:status|list-\w+|show|cat|is-\w+)\b",
    "cargo": r"(?:tree|metadata|--version)\b",
    "go": r"(?:version|list|env|vet|doc)\b",
    "ip": r"(?:a|addr|route|link|neigh)\b",
}


def is_known_harmless(run: Run) -> bool:
    if run.name in _HARMLESS:
        return True
    words = " ".join(read(run.words, "-C -c", stops_at_first=True).rest)
    return run.name in _LOOKING and re.match(_LOOKING[run.name], words) is not None
