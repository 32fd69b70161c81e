"""What sends files away, and what gives out secrets."""

import re
from collections.abc import Iterator

from tools.guard.expansion import UNKNOWN
from tools.guard.findings import Finding, Run, ask
from tools.guard.options import read, read_around_first
from tools.guard.rules.files import Rule
from tools.guard.rules.machine import always, unless, when
from tools.guard.wrappers import SSH_OPTIONS

_SENDS = "it sends files to another machine"
_CURL = (
    "-o --output -H --header -X --request -u --user -d --data --data-binary --data-raw --data-ascii "
    "--data-urlencode --json -F --form -T --upload-file -A --user-agent -e --referer -b --cookie -c --cookie-jar "
    "-x --proxy -m --max-time -K --config -E --cert --key --cacert -w --write-out -r --range -C --connect-timeout "
    "--retry -Y -y -z -Q --quote -P"
)
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]{2,}:(?!\\).*|(?:rsync|ssh|sftp|scp)://.*")


def _curl(run: Run) -> Iterator[Finding]:
    options = read(run.words, _CURL)
    data = options.values("-d", "--data", "--data-binary", "--data-ascii", "--json", "--data-urlencode")
    forms = options.values("-F", "--form")
    is_upload = (
        options.has("-T", "--upload-file")
        or any("@" in value.partition("=")[2] + value[:1] for value in data if value)
        or any(re.search(r"=[@<]", value) for value in forms)
    )
    if is_upload:
        yield ask("upload", _SENDS)
    elif any(value == UNKNOWN for value in options.rest + tuple(data)) and data:
        yield ask("upload", "what it sends is decided only when it runs")
    if options.has("-K", "--config"):
        yield ask("option-runs", "it reads its options from a file that nobody has read")
    if options.has("-Q", "--quote") or {"DELETE", "PUT", "PATCH"} & set(options.values("-X", "--request")):
        yield ask("remote-change", "it changes something on another machine")
    if any(word.startswith(("file:", "gopher:", "dict:")) for word in options.rest):
        yield ask("upload", "it reads a file through an address")


def _wget(run: Run) -> Iterator[Finding]:
    options = read(run.words)
    if options.has("--post-file", "--body-file") or any(
        word.startswith(("--post-f", "--body-f")) for word in run.words
    ):
        yield ask("upload", _SENDS)
    if options.has("--use-askpass", "--config", "-e", "--execute"):
        yield ask("option-runs", "an option of wget runs or sets something")


def _copy(run: Run) -> Iterator[Finding]:
    words = read(
        run.words, "-P -i -o -F -J -S -c -l -e --rsh --exclude --include --filter --log-file --files-from -f -T -B"
    ).rest
    if len(words) > 1 and (_REMOTE.fullmatch(words[-1]) or UNKNOWN in words[-1]):
        yield ask("upload", _SENDS)


def _cloud_copy(run: Run) -> Iterator[Finding]:
    words = [word for word in run.words if not word.startswith("-")]
    if {"cp", "sync", "copy", "copyto", "put", "mv", "move"} & set(words) and re.match(r"\w+:", words[-1]):
        yield ask("upload", _SENDS)


def _ssh(run: Run) -> Iterator[Finding]:
    if run.stdin is not None:
        yield ask("upload", "it sends what is piped into it to another machine")
    if read_around_first(run.words, SSH_OPTIONS).has("-R", "-D", "-L", "-w"):
        yield ask("tunnel", "it opens a way into or out of this machine")


_GIVES = "it gives out secrets"

RULES: dict[str, Rule] = {
    "curl": _curl,
    "wget": _wget,
    "scp": _copy,
    "rsync": _copy,
    "sftp": always("upload", _SENDS, "sftp")["sftp"],
    **always(
        "upload", _SENDS, "ftp", "lftp", "tftp", "ncftpput", "rcp", "croc", "magic-wormhole", "wormhole", "transfer"
    ),
    **dict.fromkeys(("aws", "gsutil", "rclone", "s3cmd", "azcopy"), _cloud_copy),
    **dict.fromkeys(
        ("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"),
        unless(
            "raw-connection",
            "it sends or runs something over a bare connection",
            r"(?:.* )?-\w*z\w*(?: .*)?|-h|--help|--version",
        ),
    ),
    **always(
        "raw-connection",
        "it sends or runs something over a bare connection",
        "socat",
        "telnet",
        "chisel",
        "ngrok",
        "cloudflared",
    ),
    "ssh": _ssh,
    **dict.fromkeys(
        ("mail", "mailx", "sendmail", "mutt", "msmtp", "swaks"), always("upload", "it sends mail", "mail")["mail"]
    ),
    "gpg": when("secrets", _GIVES, r"--export-secret", r"--delete-secret", r"--armor --export-secret"),
    "security": when("secrets", _GIVES, r"find-\S+-password|dump-keychain|export"),
    **always(
        "secrets", _GIVES, "secret-tool", "pass", "bw", "op", "lpass", "vault", "keyctl", "mimipenguin", "sops", "age"
    ),
    "ssh-add": when("secrets", "it changes which keys are held ready", r"-D"),
    "ssh-keygen": when("secrets", "it overwrites or changes a key", r"(?:^|\s)-(?:p|R|y)(?:\s|$)"),
}
