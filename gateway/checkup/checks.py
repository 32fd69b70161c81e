"""Every check there is, in the order in which they are told. A new one is a function and a line here.

`live`, which leaves this machine, stands apart.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import structlog

from gateway.checkup import (
    approvals,
    dropped,
    exposure,
    leaks,
    machine,
    people,
    permissions,
    rights,
    service,
    settings,
    store,
)
from gateway.checkup.facts import Facts, Unknown
from gateway.checkup.finding import Finding, bad
from gateway.checkup.words import plain_reason

log = structlog.get_logger()

Check = Callable[[Facts], Iterable[Finding]]

HEALTH: tuple[Check, ...] = (
    machine.versions,
    machine.disk,
    machine.clock,
    machine.packages,
    settings.home,
    settings.files,
    settings.model,
    settings.prices,
    settings.tokens,
    settings.toolsets,
    permissions.home_itself,
    exposure.everybody,
    exposure.web_page,
    store.database,
    store.backups,
    store.notices,
    service.gateway,
    service.platforms,
    service.model,
    service.units,
    machine.sandbox,
    machine.search,
)

SECURITY: tuple[Check, ...] = (
    exposure.everybody,
    exposure.groups,
    exposure.strangers,
    exposure.web_page,
    exposure.socket,
    exposure.addresses,
    exposure.proxies,
    people.owners,
    people.others,
    people.invites,
    people.locks,
    permissions.home_itself,
    permissions.folders_above,
    permissions.kept_files,
    permissions.instructions,
    leaks.in_files,
    leaks.in_units,
    leaks.in_the_process_list,
    leaks.copies,
    approvals.mode,
    approvals.rules,
    approvals.allowlist,
    rights.root,
    rights.backend,
    rights.sandbox,
    rights.passed_on,
    rights.sudo,
    rights.files_sent,
    dropped.in_our_process,
    dropped.risky,
)


def run(checks: Sequence[Check], facts: Facts) -> list[Finding]:
    """What all of them found, without secrets. Never raises: a check that does is a finding itself."""
    found = (*facts.unseen, *(finding for check in checks for finding in _contained(check, facts)))
    return [replace(one, text=leaks.covered(one.text, facts), fix=leaks.covered(one.fix, facts)) for one in found]


def _contained(check: Check, facts: Facts) -> Iterator[Finding]:
    name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
    try:
        yield from check(facts)
    except Unknown:
        return
    except Exception as error:  # contained: one check that breaks must not hide what the others found
        log.exception("check failed", check=name)
        yield bad(
            "doctor", f"The check {name} broke ({plain_reason(error)}), so it is not known what it would have found."
        )
