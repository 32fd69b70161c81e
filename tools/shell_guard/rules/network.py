"""Rules about sending files away and giving out secrets."""

import re
from collections.abc import Iterator

from tools.shell_guard.addresses import address_of
from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.names import names
from tools.shell_guard.options import Options, read, read_around_first
from tools.shell_guard.rules.plain import Rule, always, when
from tools.shell_guard.wrappers import SSH_OPTIONS

_SENDS = "it sends files to another machine"
_CURL = (
    "-o --output -H --header -X --request -u --user -d --data --data-binary --data-raw --data-ascii "
    "--data-urlencode --json -F --form -T --upload-file -A --user-agent -e --referer -b --cookie -c --cookie-jar "
    "-x --proxy -m --max-time -K --config -E --cert --key --cacert -w --write-out -r --range -C --connect-timeout "
    "--retry -Y -y -z -Q --quote -P --url --url-query --unix-socket --connect-to --resolve --engine"
)
_LONG = tuple(option for option in _CURL.split() if option.startswith("--"))
_REMOTE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!\\).*|(?:rsync|ssh|sftp|scp)://.*")
_HERE = names("localhost 127.0.0.1 ::1")


def _curl(run: Run) -> Iterator[CommandRisk]:
    options = read(map(_whole, run.words), _CURL)
    data = options.values("-d", "--data", "--data-binary", "--data-ascii", "--json")
    named = options.values("--data-urlencode", "--url-query")  # text, =text, name=text, @file or name@file
    forms = options.values("-F", "--form")
    is_here = _is_for_this_machine(options)
    sends = [*data, *named, *forms, *options.values("--data-raw")]
    if (
        options.has("-T", "--upload-file")
        or any(value.startswith("@") for value in data)
        or any("@" in value.partition("=")[0] for value in named)
        or any(re.search(r"=[@<]", value) for value in forms)
    ):
        yield ask("upload", _SENDS)
    elif (not is_here and any(UNKNOWN in value for value in sends)) or (sends and UNKNOWN in options.rest):
        yield ask("upload", "what it sends is decided only when it runs")
    if options.has("-K", "--config", "--engine"):
        yield ask("option-runs", "it reads its options from a file that nobody has read")
    methods = {method.upper() for method in options.values("-X", "--request")}
    if options.has("-Q", "--quote") or ({"DELETE", "PUT", "PATCH"} & methods and not is_here):
        yield ask("remote-change", "it changes something on another machine")
    if any(word.startswith(("file:", "gopher:", "dict:")) for word in options.rest):
        yield ask("upload", "it reads a file through an address")
    if any("docker.sock" in path for path in options.values("--unix-socket")):
        yield ask("open-container", "it tells the machine's containers what to do")


def _whole(word: str) -> str:
    """curl takes the beginning of an option for it."""
    if not word.startswith("--") or word in _LONG or word == "--head" or len(word) < 5:
        return word
    return next((option for option in _LONG if option.startswith(word)), word)


def _is_for_this_machine(options: Options) -> bool:
    """For certain: no other address, and no way around."""
    addresses = [*options.rest, *options.values("--url")]
    is_led_away = options.has("-x", "--connect-to", "--resolve", "--unix-socket", "-K", "--config") or any(
        option.startswith(("--proxy", "--preproxy", "--socks")) for option, _ in options.given
    )
    return bool(addresses) and not is_led_away and all(address_of(word).host in _HERE for word in addresses)


def _wget(run: Run) -> Iterator[CommandRisk]:
    options = read(run.words)
    if options.has("--post-file", "--body-file") or any(
        word.startswith(("--post-f", "--body-f")) for word in run.words
    ):
        yield ask("upload", _SENDS)
    elif any(word.startswith(("--post-d", "--body-d")) and UNKNOWN in word for word in run.words):
        yield ask("upload", "what it sends is decided only when it runs")
    if options.has("--use-askpass", "--config", "-e", "--execute"):
        yield ask("option-runs", "an option of wget runs or sets something")


def _copy(run: Run) -> Iterator[CommandRisk]:
    words = read(
        run.words, "-P -i -o -F -J -S -c -l -e --rsh --exclude --include --filter --log-file --files-from -f -T -B"
    ).rest
    if len(words) > 1 and (_REMOTE.fullmatch(words[-1]) or UNKNOWN in words[-1]):
        yield ask("upload", _SENDS)


def _cloud_copy(run: Run) -> Iterator[CommandRisk]:
    words = [word for word in run.words if not word.startswith("-")]
    if {"cp", "sync", "copy", "copyto", "put", "mv", "move"} & set(words) and re.match(r"\w+:", words[-1]):
        yield ask("upload", _SENDS)


def _ssh(run: Run) -> Iterator[CommandRisk]:
    if run.stdin is not None:
        yield ask("upload", "it sends what is piped into it to another machine")
    options = read_around_first(run.words, SSH_OPTIONS)
    forwards = any(re.match(r"(?i)(?:remote|local|dynamic)forward", value) for value in options.values("-o"))
    if forwards or options.has("-R", "-D", "-L", "-w", "-W"):
        yield ask("tunnel", "it opens a way into or out of this machine")
    if options.has("-I") or any(re.match(r"(?i)(?:pkcs11|securitykey)provider", one) for one in options.values("-o")):
        yield ask("option-runs", "an option of ssh loads something")


def _nc(run: Run) -> Iterator[CommandRisk]:
    options = read(run.words, "-w -p -s -i -q -X -x -e -c")
    runs = options.has("-e", "-c", "--exec", "--sh-exec", "--lua-exec", "-l", "--listen")
    if runs or not options.has("-z", "-h", "--help", "--version"):
        yield ask("raw-connection", _BARE)


def _openssl(run: Run) -> Iterator[CommandRisk]:
    if run.words[:1] == ("s_client",) and (run.stdin or "").strip() not in ("", "Q"):
        yield ask("raw-connection", _BARE)
    if run.words[:1] == ("s_server",) or {"-engine", "-provider-path"} & set(run.words):
        yield ask("option-runs", "it loads something, or lets others in")


_BARE = "it sends or runs something over a bare connection"
_GIVES = "it gives out secrets"

RULES: dict[str, Rule] = {
    "curl": _curl,
    "wget": _wget,
    "scp": _copy,
    "rsync": _copy,
    **always(
        "upload", _SENDS, "sftp ftp lftp tftp ncftpput rcp croc magic-wormhole wormhole transfer sshfs ssh-copy-id"
    ),
    **dict.fromkeys(("aws", "gsutil", "rclone", "s3cmd", "azcopy"), _cloud_copy),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"), _nc),
    **always("raw-connection", _BARE, "socat telnet chisel ngrok cloudflared"),
    "openssl": _openssl,
    "ssh": _ssh,
    **always("upload", "it sends mail", "mail mailx sendmail mutt msmtp swaks"),
    "gpg": when("secrets", _GIVES, r"--export-secret", r"--delete-secret"),
    "security": when("secrets", _GIVES, r"find-\S+-password|dump-keychain|export"),
    **always("secrets", _GIVES, "secret-tool pass bw op lpass vault keyctl mimipenguin sops age kwallet-query"),
    "keyring": when("secrets", _GIVES, r"\bget\b"),
    "keepassxc-cli": when("secrets", _GIVES, r"^(?:show|clip|export|open)"),
    "getent": when("secrets", _GIVES, r"\bg?shadow\b"),
    "ssh-add": when("secrets", "it changes which keys are held ready", r"-D"),
    "ssh-keygen": when("secrets", "it overwrites or changes a key", r"(?:^|\s)-[a-z]*[pRy]"),
}
