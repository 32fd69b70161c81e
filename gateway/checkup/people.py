"""Who was let in, and who could be."""

from collections import Counter
from collections.abc import Iterator

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, ok, warn
from gateway.checkup.words import counted, some
from gateway.clock import for_people

PART = "people"


def owners(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.access.owner_users
    paired = [f"{one.account}:{one.user_id}" for one in facts.access.people if one.role == "owner"]
    everyone = sorted({*listed, *paired})
    if everyone:
        text = f"{counted(len(everyone), 'owner', 'owners')} on chat platforms, who may do everything: "
        yield ok(PART, text + some(everyone))
    else:
        yield ok(PART, "Nobody on a chat platform is an owner")


def others(facts: Facts) -> Iterator[Finding]:
    settings = facts.settings
    roles = Counter(one.role for one in facts.access.people)
    sections = (getattr(section, "allowed_users", ()) for _, section in settings.platforms)
    listed = len(settings.access.allowed_users) + sum(map(len, sections))
    members, guests = counted(roles["member"], "member", "members"), counted(roles["guest"], "guest", "guests")
    yield ok(PART, f"{members}, {guests} and {listed} on lists may talk to the bot (hermes pairing list)")


def invites(facts: Facts) -> Iterator[Finding]:
    for invite in facts.access.invites:
        until = for_people(invite.expires_ms)
        text = f"An invite to {invite.platform} is open until {until}: whoever uses it is {invite.role}"
        yield warn(PART, text, f"to void it: hermes pairing clear-pending {invite.platform}")


def locks(facts: Facts) -> Iterator[Finding]:
    for lock in facts.access.locks:
        text = (
            f"Approval on {lock.platform} is locked until {for_people(lock.until_ms)}: too many wrong codes were typed"
        )
        yield warn(PART, text, f"if it was you: hermes pairing unlock {lock.platform}")
