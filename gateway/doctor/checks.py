"""Every check there is, in the order in which they are told. A new one is a function and a line here.

`live`, which leaves this machine, stands apart.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import structlog

from gateway.doctor import exposure, files, people, service, settings
from gateway.doctor.facts import Facts, Finding, Unknown, bad, plain_reason

log = structlog.get_logger()

Check = Callable[[Facts], Iterable[Finding]]

HEALTH: tuple[Check, ...] = (
    service.versions,
    service.disk,
    service.clock,
    service.packages,
    settings.home,
    settings.files,
    settings.model,
    settings.prices,
    settings.tokens,
    settings.toolsets,
    files.home_itself,
    exposure.everybody,
    exposure.web_page,
    service.database,
    service.backups,
    service.notices,
    service.gateway,
    service.platforms,
    service.model,
    service.units,
    service.sandbox,
    service.search,
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
    files.home_itself,
    files.folders_above,
    files.kept_files,
    files.instructions,
    files.in_files,
    files.in_units,
    files.in_the_process_list,
    files.copies,
    people.mode,
    people.rules,
    people.allowlist,
    people.root,
    people.backend,
    people.sandbox,
    people.passed_on,
    people.sudo,
    people.files_sent,
    files.in_our_process,
    files.risky,
)


def run(checks: Sequence[Check], facts: Facts) -> list[Finding]:
    """What all of them found, without secrets. Never raises: a check that does is a finding itself."""
    found = (*facts.unseen, *(finding for check in checks for finding in _contained(check, facts)))
    return [replace(one, text=files.covered(one.text, facts), fix=files.covered(one.fix, facts)) for one in found]


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
