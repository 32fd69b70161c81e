"""The lists of checks, by the heading they are shown under, and how they are run.

To add a check, write a function from `Facts` to findings and name it here. `live`, the only one that uses the network,
is added by `hermes doctor --live`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import structlog

from gateway.doctor import exposure, files, rights, service, settings
from gateway.doctor.facts import Facts, Finding, Unknown, bad, describe_error
from hermes_config.redaction import Redactor

log = structlog.get_logger()

Check = Callable[[Facts], Iterable[Finding]]
Checks = Mapping[str, tuple[Check, ...]]

HEALTH: Checks = {
    "machine": (
        service.check_versions,
        service.check_disk,
        service.check_clock,
        service.check_packages,
        service.check_sandbox,
        service.check_backends,
        service.check_ripgrep,
        service.check_browser,
    ),
    "settings": (
        settings.check_home,
        settings.check_files,
        settings.check_model,
        settings.check_prices,
        settings.check_tokens,
        settings.check_toolsets,
        settings.check_fixed_cost,
    ),
    "permissions": (files.check_home,),
    "exposure": (exposure.check_allow_all, exposure.check_web_page),
    "store": (service.check_database, service.check_backups, service.list_notices),
    "gateway": (
        service.check_gateway,
        service.check_platforms,
        service.check_model,
        service.check_hooks,
        service.check_mcp_servers,
        service.check_jobs,
    ),
    "service": (service.check_units,),
}

SECURITY: Checks = {
    "exposure": (
        exposure.check_allow_all,
        exposure.check_groups,
        exposure.check_strangers,
        exposure.check_web_page,
        exposure.check_socket,
        exposure.check_encryption,
        exposure.check_proxies,
    ),
    "people": (rights.count_people, rights.list_invites, rights.list_locks),
    "permissions": (files.check_home, files.check_parent_folders, files.check_state_files, files.check_instructions),
    "secrets": (
        files.find_secrets_in_files,
        files.find_secrets_in_units,
        files.find_secrets_in_process_list,
        files.find_env_copies,
    ),
    "approvals": (rights.check_mode, rights.list_rules, rights.check_allowlist),
    "rights": (
        rights.check_root,
        rights.check_backend,
        rights.check_sandbox,
        rights.check_passthrough,
        rights.check_sudo,
        rights.check_media_folders,
    ),
    "code": (files.list_own_code, files.find_risky_code),
}


def run(checks: Checks, facts: Facts) -> list[Finding]:
    """Return all findings, with secrets hidden. Never raises: a check that does becomes a finding."""
    redactor = Redactor(facts.secrets.values())
    return [
        replace(finding, text=files.hide_secrets(finding.text, redactor), fix=files.hide_secrets(finding.fix, redactor))
        for finding in (*facts.failures, *_run(checks, facts))
    ]


def _run(checks: Checks, facts: Facts) -> Iterator[Finding]:
    for part, check in ((part, check) for part, group in checks.items() for check in group):
        try:
            yield from (replace(finding, part=part) for finding in check(facts))
        except Unknown:
            continue
        except Exception as error:  # contained: one check that breaks must not hide what the others found
            name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
            log.exception("check failed", check=name)
            yield replace(bad(f"The check {name} failed ({describe_error(error)}). This is a bug."), part="doctor")
