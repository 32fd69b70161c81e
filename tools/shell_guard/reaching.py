"""Which network addresses a command would contact or send to, by what would really run.

A program that is not known here reaches what its words name as an address; what it does besides cannot be seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tools.shell_guard.addresses import address_of, has_scheme
from tools.shell_guard.contacts import Contact
from tools.shell_guard.expansion import UNKNOWN, Scope, shown
from tools.shell_guard.findings import Run
from tools.shell_guard.harmless import is_known_harmless
from tools.shell_guard.inspection import Inspection
from tools.shell_guard.names import names
from tools.shell_guard.reaching_code import addresses_in
from tools.shell_guard.reaching_programs import PROGRAMS
from tools.shell_guard.walking import Walk
from tools.shell_guard.wrappers import Argv, ShellText, unwrap

MAX_CHARS = 20_000
# Findings that say: what runs is not known, and so neither is whom it contacts.
_UNSEEN = names("unreadable unread-code run-time-command run-time-script run-time-code start-up-file option-runs")
_PROXIES = names("http_proxy https_proxy ftp_proxy all_proxy")
# Their words are text, or names of files.
_MENTIONING = names(
    "cp mv ln rm mkdir rmdir touch tee chmod chown vi vim nano emacs ed alias export sed logger install"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReach:
    host: str  # empty when it cannot be known
    url: str  # as written, `…` for what only the run decides
    carries: bool  # whether something beyond the name of the host can leave by it
    sends: bool  # whether sending is what it is for: upload, push, mail
    program: str
    adds: bool = False  # whether something is told besides the address


_UNKNOWN = NetworkReach(host="", url="", carries=True, sends=False, program="")


def reaches(
    command: str, *, cwd: str = "", home: str = "", written: Mapping[str, str] | None = None
) -> tuple[NetworkReach, ...]:
    """`written` as in `judge`. What cannot be read counts as an address that is not known."""
    if len(command) > MAX_CHARS:
        return (_UNKNOWN,)
    inspection = Inspection(policy="risky", is_there=lambda path: False)
    walk = Walk(home=home or "~", inspection=inspection, written=written)
    walk.text(command, Scope(home or "~", {"PWD": cwd}))
    return tuple(dict.fromkeys(_all(walk)))


def _all(walk: Walk) -> Iterator[NetworkReach]:
    is_fed = any(operator == "<" and target != "/dev/null" for operator, target in walk.opened)
    found = [reach for run in walk.runs for reach in _of_run(run)]
    for reach in found:
        yield replace(reach, carries=True, adds=True) if is_fed else reach
    for operator, target in walk.opened:
        yield from _of_device(operator, target)
    for code in walk.codes:
        for url, sends in addresses_in(code):
            host = address_of(url).host if url else ""
            yield NetworkReach(host=host, url=shown(url), carries=True, sends=sends, program=code.language)
    if any(finding.rule in _UNSEEN for finding in walk.findings):
        yield _UNKNOWN
    if found:
        for name, value in walk.assigned:
            if name.lower() in _PROXIES and value:
                yield NetworkReach(
                    host=address_of(value).host, url=shown(value), carries=True, sends=False, program=name
                )


def _of_run(run: Run) -> Iterator[NetworkReach]:
    read = PROGRAMS.get(run.name)
    for contact in _by_words(run) if read is None else read(run):
        yield NetworkReach(
            host=contact.host,
            url=shown(contact.url),
            carries=contact.carries or not contact.host,
            sends=contact.sends,
            program=run.name,
            adds=contact.adds,
        )


def _by_words(run: Run) -> Iterator[Contact]:
    """Yield the addresses among the words of a program whose use of them is not known."""
    if (
        is_known_harmless(run)
        or run.name in _MENTIONING
        or any(isinstance(inner, Argv | ShellText) for inner in unwrap(run))
    ):
        return
    for word in run.words:
        value = word.partition("=")[2] if "=" in word.partition("://")[0] else word
        if has_scheme(value) and not value.startswith("file:") and not any(letter.isspace() for letter in value):
            yield Contact(address_of(value).host, value, carries=True)


def _of_device(operator: str, target: str) -> Iterator[NetworkReach]:
    """bash's own way: /dev/tcp/host/port."""
    kind, _, rest = target.removeprefix("/dev/").partition("/")
    if target.startswith("/dev/") and kind in ("tcp", "udp"):
        host = rest.partition("/")[0]
        known = "" if UNKNOWN in host else address_of(host).host
        yield NetworkReach(host=known, url=shown(target), carries=True, sends=">" in operator, program="bash")
    elif target.startswith("/dev/" + UNKNOWN):
        yield replace(_UNKNOWN, url=shown(target))
