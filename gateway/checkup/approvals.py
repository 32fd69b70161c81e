"""What is done without a human's yes."""

from collections.abc import Iterator

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.checkup.words import counted, some
from gateway.question_words import plainly
from gateway.store.approval_lists import Rule
from tools.guard.granting import Rule as Read

PART = "approvals"


def mode(facts: Facts) -> Iterator[Finding]:
    match facts.settings.approvals.mode:
        case "off":
            text = "Nobody is asked before a risky call is made: approvals.mode is off"
            yield bad(PART, text, "hermes config set approvals.mode ask")
        case "deny":
            yield ok(PART, "Risky calls are refused where nothing isolates them")
        case "ask":
            yield ok(PART, "A human is asked before a risky call is made where nothing isolates it")


def rules(facts: Facts) -> Iterator[Finding]:
    """Those of one conversation end with it."""
    lasting = [one for one in facts.look.rules if one.is_lasting] if facts.look else []
    wide = [one for one in lasting if _is_wide(one)]
    narrow = [one for one in lasting if one not in wide]
    if wide:
        text = f"{counted(len(wide), 'rule is', 'rules are')} granted for good, and wider than can be granted now: "
        ids = " ".join(str(one.granted.id) for one in wide)
        yield warn(PART, text + some([_told(one) for one in wide]), f"hermes approvals revoke {ids}")
    if narrow:
        text = f"{counted(len(narrow), 'rule is', 'rules are')} granted for good, and not asked about: "
        yield ok(PART, f"{text}{some([_told(one) for one in narrow])} (to take one back: hermes approvals revoke ID)")
    if facts.look and not lasting:
        yield ok(PART, "No rule is granted for good")


def allowlist(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.command_allowlist
    wide = [pattern for pattern in listed if pattern.split()[-1] == "*"]
    narrow = [pattern for pattern in listed if pattern not in wide]
    if wide:
        text = f"command_allowlist allows whatever follows in {some([plainly(one) for one in wide])}"
        yield warn(PART, text, "name what is meant, or take it out: hermes config set command_allowlist …")
    if narrow:
        text = f"{counted(len(narrow), 'command is', 'commands are')} run without asking by command_allowlist: "
        taking_back = "(to take one back: hermes config set command_allowlist …)"
        yield ok(PART, f"{text}{some([plainly(one) for one in narrow])} {taking_back}")


def _is_wide(one: Rule) -> bool:
    """Whether it could not be granted today; another version may have been more generous."""
    try:
        return not Read.parse(one.granted.rule).is_grantable
    except ValueError:
        return True


def _told(one: Rule) -> str:
    return f"{one.granted.id}: {plainly(one.granted.rule)}, for {plainly(one.holder)}"
