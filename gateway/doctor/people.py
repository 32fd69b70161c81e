"""Who was let in, and who could be."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gateway.approvals.wording import plainly
from gateway.clock import for_people
from gateway.doctor.facts import Facts, Finding, bad, counted, ok, some, warn
from gateway.store.approvals import GrantedRule
from tools.shell_guard.granting import Rule as Read

PEOPLE = "people"


def owners(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.access.owner_users
    paired = [f"{one.account}:{one.user_id}" for one in facts.access.people if one.role == "owner"]
    everyone = sorted({*listed, *paired})
    if everyone:
        text = f"{counted(len(everyone), 'owner', 'owners')} on chat platforms, who may do everything: "
        yield ok(PEOPLE, text + some(everyone))
    else:
        yield ok(PEOPLE, "Nobody on a chat platform is an owner")


def others(facts: Facts) -> Iterator[Finding]:
    settings = facts.settings
    roles = Counter(one.role for one in facts.access.people)
    sections = (getattr(section, "allowed_users", ()) for _, section in settings.platforms)
    listed = len(settings.access.allowed_users) + sum(map(len, sections))
    members, guests = counted(roles["member"], "member", "members"), counted(roles["guest"], "guest", "guests")
    yield ok(PEOPLE, f"{members}, {guests} and {listed} on lists may talk to the bot (hermes pairing list)")


def invites(facts: Facts) -> Iterator[Finding]:
    for invite in facts.access.invites:
        until = for_people(invite.expires_ms)
        text = f"An invite to {invite.platform} is open until {until}: whoever uses it is {invite.role}"
        yield warn(PEOPLE, text, f"to void it: hermes pairing clear-pending {invite.platform}")


def locks(facts: Facts) -> Iterator[Finding]:
    for lock in facts.access.locks:
        text = (
            f"Approval on {lock.platform} is locked until {for_people(lock.until_ms)}: too many wrong codes were typed"
        )
        yield warn(PEOPLE, text, f"if it was you: hermes pairing unlock {lock.platform}")


RIGHTS = "rights"

_SOUNDS_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.I)
_BROAD = ("/", "/etc", "/home", "/root", "/var")


def root(facts: Facts) -> Iterator[Finding]:
    pid = (facts.gateway or {}).get("pid")
    running_as = _owner_of_process(pid) if pid else None
    fix = "run it as a user of its own; deploy/hermes-gateway.system.service does"
    if running_as == 0:
        yield bad(RIGHTS, "The gateway runs as root: whatever goes wrong in it goes wrong for the whole machine", fix)
    elif running_as is None and facts.user_id == 0:
        yield warn(RIGHTS, "You are root: a gateway that you start has all rights on this machine", fix)
    else:
        yield ok(RIGHTS, "Hermes does not run as root")


def backend(facts: Facts) -> Iterator[Finding]:
    if facts.settings.terminal.backend == "local":
        text = "The owner's commands and files are on this machine itself, with all that this user may do"
        yield warn(RIGHTS, f"{text} (terminal.backend is local)", "hermes config set terminal.backend bubblewrap")
    else:
        yield ok(RIGHTS, "The owner's commands run in a sandbox")


def sandbox(facts: Facts) -> Iterator[Finding]:
    if facts.sandbox_problem:
        text = f"There is no sandbox, so nobody but the owner is given tools that need one. {facts.sandbox_problem}"
        yield warn(RIGHTS, text, "apt install bubblewrap")
    elif facts.settings.terminal.bubblewrap.network:
        text = "Commands in the sandbox reach the network, and can send away whatever they were given"
        yield warn(RIGHTS, text, "hermes config set terminal.bubblewrap.network false")
    else:
        yield ok(RIGHTS, "Everybody else's commands run in a sandbox without a network")


def passed_on(facts: Facts) -> Iterator[Finding]:
    names = facts.settings.terminal.env_passthrough
    ours = [name for name in names if name in facts.secrets]
    others = [name for name in names if name not in ours and _SOUNDS_SECRET.search(name)]
    fix = "take it out: hermes config set terminal.env_passthrough …"
    if ours:
        yield bad(RIGHTS, f"Commands are given secrets of Hermes itself: {some(ours)} (terminal.env_passthrough)", fix)
    if others:
        yield warn(
            RIGHTS, f"Commands are given what looks like a secret: {some(others)} (terminal.env_passthrough)", fix
        )
    if not ours and not others:
        yield ok(RIGHTS, "No secret is passed on to commands")


def sudo(facts: Facts) -> Iterator[Finding]:
    if "SUDO_PASSWORD" in facts.secrets:
        text = "SUDO_PASSWORD is set: the agent's commands can become root on this machine"
        yield warn(RIGHTS, text, f"delete its line in {facts.home.env_file}")


def files_sent(facts: Facts) -> Iterator[Finding]:
    """Folders from which files are sent into chats."""
    for name in facts.settings.media.allowed_dirs:
        folder = Path(name).expanduser()
        if str(folder) in _BROAD or folder == Path.home() or facts.home.root.is_relative_to(folder):
            text = f"media.allowed_dirs holds {name}, which has more in it than is meant to be sent"
            yield bad(RIGHTS, text, "name narrower folders: hermes config set media.allowed_dirs …")


def _owner_of_process(pid: object) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()  # the folder is root's for who hides its memory, as we do
    except OSError:  # it has just ended, or this is no Linux
        return None
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.M)
    return int(found[1]) if found else None


APPROVALS = "approvals"


def mode(facts: Facts) -> Iterator[Finding]:
    match facts.settings.approvals.mode:
        case "off":
            text = "Nobody is asked before a risky call is made: approvals.mode is off"
            yield bad(APPROVALS, text, "hermes config set approvals.mode ask")
        case "deny":
            yield ok(APPROVALS, "Risky calls are refused where nothing isolates them")
        case "ask":
            yield ok(APPROVALS, "A human is asked before a risky call is made where nothing isolates it")


def rules(facts: Facts) -> Iterator[Finding]:
    """Those of one conversation end with it."""
    lasting = [one for one in facts.look.rules if one.is_lasting] if facts.look else []
    wide = [one for one in lasting if _is_wide(one)]
    narrow = [one for one in lasting if one not in wide]
    if wide:
        text = f"{counted(len(wide), 'rule is', 'rules are')} granted for good, and wider than can be granted now: "
        ids = " ".join(str(one.granted.id) for one in wide)
        yield warn(APPROVALS, text + some([_told(one) for one in wide]), f"hermes approvals revoke {ids}")
    if narrow:
        text = f"{counted(len(narrow), 'rule is', 'rules are')} granted for good, and not asked about: "
        yield ok(
            APPROVALS, f"{text}{some([_told(one) for one in narrow])} (to take one back: hermes approvals revoke ID)"
        )
    if facts.look and not lasting:
        yield ok(APPROVALS, "No rule is granted for good")


def allowlist(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.command_allowlist
    wide = [pattern for pattern in listed if pattern.split()[-1] == "*"]
    narrow = [pattern for pattern in listed if pattern not in wide]
    if wide:
        text = f"command_allowlist allows whatever follows in {some([plainly(one) for one in wide])}"
        yield warn(APPROVALS, text, "name what is meant, or take it out: hermes config set command_allowlist …")
    if narrow:
        text = f"{counted(len(narrow), 'command is', 'commands are')} run without asking by command_allowlist: "
        taking_back = "(to take one back: hermes config set command_allowlist …)"
        yield ok(APPROVALS, f"{text}{some([plainly(one) for one in narrow])} {taking_back}")


def _is_wide(one: GrantedRule) -> bool:
    """Whether it could not be granted today; another version may have been more generous."""
    try:
        return not Read.parse(one.granted.rule).is_grantable
    except ValueError:
        return True


def _told(one: GrantedRule) -> str:
    return f"{one.granted.id}: {plainly(one.granted.rule)}, for {plainly(one.holder)}"
