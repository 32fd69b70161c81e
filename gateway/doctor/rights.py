"""Who was let in, what commands may do, and what runs without asking."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gateway.approvals.wording import escape_invisible
from gateway.clock import for_people
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from gateway.store.approvals import GrantedRule
from gateway.wording import count, list_some
from tools.backends.remote.places import has_network
from tools.shell_guard.granting import Rule

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.I)
_BROAD = ("/", "/etc", "/home", "/root", "/var")


def count_people(facts: Facts) -> Iterator[Finding]:
    settings, paired = facts.settings, facts.access.people
    owners = {*settings.access.owner_users, *(f"{one.account}:{one.user_id}" for one in paired if one.role == "owner")}
    if owners:
        yield ok(f"{count(len(owners), 'owner')} with all rights: {list_some(sorted(owners))}")
    else:
        yield ok("No owner on any chat platform")
    roles = Counter(person.role for person in paired)
    sections = (getattr(section, "allowed_users", ()) for _, section in settings.platforms)
    listed = len(settings.access.allowed_users) + sum(map(len, sections))
    others = f"{count(roles['member'], 'member')}, {count(roles['guest'], 'guest')}, {listed} on allowlists"
    yield ok(f"Others who can talk to the bot: {others} (hermes pairing list)")


def list_invites(facts: Facts) -> Iterator[Finding]:
    for invite in facts.access.invites:
        text = f"Open invite to {invite.platform} until {for_people(invite.expires_ms)}, with the role {invite.role}"
        yield warn(text, f"to cancel it: hermes pairing clear-pending {invite.platform}")


def list_locks(facts: Facts) -> Iterator[Finding]:
    for lock in facts.access.locks:
        text = f"Pairing on {lock.platform} is locked until {for_people(lock.until_ms)}: too many wrong codes"
        yield warn(text, f"if it was you: hermes pairing unlock {lock.platform}")


def check_mode(facts: Facts) -> Iterator[Finding]:
    match facts.settings.approvals.mode:
        case "off":
            text = "Risky commands run without asking: approvals.mode is off"
            yield bad(text, "hermes config set approvals.mode ask")
        case "deny":
            yield ok("Risky commands outside a sandbox are refused")
        case "ask":
            yield ok("Risky commands outside a sandbox need approval")


def list_rules(facts: Facts) -> Iterator[Finding]:
    """List permanent rules; those of one conversation end with it."""
    rules = facts.store.rules if facts.store else ()
    if forged := [rule for rule in rules if not rule.is_signed]:
        ids = " ".join(str(rule.id) for rule in forged)
        text = f"{count(len(forged), 'approval rule')} that Hermes did not write, without effect: {_list_rules(forged)}"
        yield bad(text, f"hermes approvals revoke {ids}, and look for who wrote them")
    lasting = [rule for rule in rules if rule.is_lasting and rule.is_signed]
    wide = [rule for rule in lasting if _is_wide(rule)]
    if wide:
        ids = " ".join(str(rule.id) for rule in wide)
        text = f"{count(len(wide), 'permanent approval rule')} too broad to be granted today: {_list_rules(wide)}"
        yield warn(text, f"hermes approvals revoke {ids}")
    if narrow := [rule for rule in lasting if rule not in wide]:
        text = f"{count(len(narrow), 'permanent approval rule')}: {_list_rules(narrow)}"
        yield ok(f"{text} (to revoke one: hermes approvals revoke ID)")
    if facts.store and not lasting:
        yield ok("No permanent approval rules")


def check_allowlist(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.command_allowlist
    wide = [pattern for pattern in listed if pattern.split()[-1] == "*"]
    if wide:
        text = f"command_allowlist allows any arguments: {list_some([escape_invisible(pattern) for pattern in wide])}"
        yield warn(text, "use narrower patterns: hermes config set command_allowlist …")
    if narrow := [escape_invisible(pattern) for pattern in listed if pattern not in wide]:
        text = f"{count(len(narrow), 'command')} run without asking (command_allowlist): {list_some(narrow)}"
        yield ok(f"{text} (to change: hermes config set command_allowlist …)")


def check_root(facts: Facts) -> Iterator[Finding]:
    pid = (facts.gateway or {}).get("pid")
    running_as = _read_user_of_process(pid) if pid else None
    fix = "run it as a user of its own, as deploy/hermes-gateway.system.service does"
    if running_as == 0:
        yield bad("The gateway runs as root: any mistake in it affects the whole machine", fix)
    elif running_as is None and facts.user_id == 0:
        yield warn("You are root: a gateway that you start has all rights on this machine", fix)
    else:
        yield ok("Hermes does not run as root")


def check_backend(facts: Facts) -> Iterator[Finding]:
    chosen = facts.settings.terminal.backend
    if chosen == "local":
        text = "The owner's commands run on this machine without a sandbox (terminal.backend is local)"
        yield warn(text, "hermes config set terminal.backend auto")
    elif chosen == "ssh":
        yield ok(f"The owner's commands run on {facts.settings.terminal.ssh.host} (ssh); risky ones are asked about")
    elif not facts.settings.terminal.works_here:
        yield ok(f"The owner's commands run isolated (terminal.backend is {chosen})")
    elif chosen == "auto" and facts.sandbox_problem:
        text = f"The owner's commands run on this machine without a sandbox. {facts.sandbox_problem}"
        yield warn(text, facts.sandbox_fix)
    elif facts.settings.terminal.sandbox.network == "on":
        yield ok("The owner's commands run in a sandbox; it reaches public addresses (terminal.sandbox.network)")
    else:
        yield ok("The owner's commands run in a sandbox")


def check_sandbox(facts: Facts) -> Iterator[Finding]:
    terminal = facts.settings.terminal
    if terminal.members_backend != "sandbox":
        if has_network(terminal, terminal.members_backend, is_owner=False):
            text = "Everyone else's commands can use the network, and so send away any data they see"
            yield warn(text, f"hermes config set terminal.{terminal.members_backend}.members_network false")
        else:
            yield ok(f"Everyone else's commands run isolated ({terminal.members_backend}), without network access")
    elif facts.sandbox_problem:
        text = f"No sandbox, so only the owner gets tools that need one. {facts.sandbox_problem}"
        yield warn(text, facts.sandbox_fix)
    elif facts.settings.terminal.sandbox.members_network:
        text = "Everyone else's commands can use the network, and so send away any data they see"
        yield warn(text, "hermes config set terminal.sandbox.members_network false")
    else:
        yield ok("Everyone else's commands run in a sandbox without network access")


def check_passthrough(facts: Facts) -> Iterator[Finding]:
    names = facts.settings.terminal.env_passthrough
    own = [name for name in names if name in facts.secrets]
    other = [name for name in names if name not in own and _SECRET_NAME.search(name)]
    fix = "to remove it: hermes config set terminal.env_passthrough …"
    if own:
        yield bad(f"Commands can read secrets of Hermes: {list_some(own)} (terminal.env_passthrough)", fix)
    if other:
        yield warn(f"Commands can read what looks like a secret: {list_some(other)} (terminal.env_passthrough)", fix)
    if not own and not other:
        yield ok("Commands get no secrets in their environment")


def check_sudo(facts: Facts) -> Iterator[Finding]:
    if "SUDO_PASSWORD" in facts.secrets:
        text = "SUDO_PASSWORD is set: the agent's commands can become root on this machine"
        yield warn(text, "hermes config unset SUDO_PASSWORD")


def check_media_folders(facts: Facts) -> Iterator[Finding]:
    for name in facts.settings.media.allowed_dirs:
        folder = Path(name).expanduser()
        if str(folder) in _BROAD or folder == Path.home() or facts.home.root.is_relative_to(folder):
            text = f"Any file in {name} can be sent to a chat (media.allowed_dirs)"
            yield bad(text, "use narrower folders: hermes config set media.allowed_dirs …")


def _read_user_of_process(pid: object) -> int | None:
    try:
        # Not the owner of the folder: that is root for a process that hides its memory, as ours does.
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has just ended, or this is not Linux
        return None
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.M)
    return int(found[1]) if found else None


def _is_wide(rule: GrantedRule) -> bool:
    """Whether this version would not grant it; an older one may have."""
    try:
        return not Rule.parse(rule.rule).is_grantable
    except ValueError:
        return True


def _list_rules(rules: list[GrantedRule]) -> str:
    return list_some(
        [f"{one.id}: {escape_invisible(one.rule)}, for {escape_invisible(one.holder_name)}" for one in rules]
    )
