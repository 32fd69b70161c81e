"""`hermes doctor`: each part checked, and what to do about it."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.doctor.facts import Finding

_SIGNS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}


@click.command()
@click.option("--security", is_flag=True, help="Check who can reach, read or change what, instead of how it is going.")
@click.option("--live", is_flag=True, help="Also ask each server whether it takes our token; leaves this machine.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def doctor(security: bool, live: bool, as_json: bool) -> None:
    """Check each part and say how to mend it. Exits with 1 when something is bad. Changes nothing."""
    from gateway import logs
    from gateway.doctor.checks import HEALTH, SECURITY, run
    from gateway.doctor.facts import worst
    from gateway.doctor.gather import gather, known_secrets
    from hermes_config.places import Home

    logs.configure(level="error", style="auto", secrets=known_secrets().values())
    checks = list(SECURITY if security else HEALTH)
    if live:
        from gateway.doctor.live import ask

        checks.append(ask)
    findings = run(checks, gather(Home.locate()))
    level = worst(findings)
    if as_json:
        rows = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"findings": rows, "worst": level}, ensure_ascii=False, indent=2))
    else:
        _print(findings)
    if level == "bad":
        raise SystemExit(1)


def _print(findings: Sequence[Finding]) -> None:
    parts = list(dict.fromkeys(finding.part for finding in findings))
    ordered = sorted(findings, key=lambda finding: parts.index(finding.part))
    for part, members in groupby(ordered, key=lambda finding: finding.part):
        click.secho(part.capitalize(), bold=True)
        for finding in members:
            sign, colour = _SIGNS[finding.level]
            click.echo(f"  {click.style(sign, fg=colour)} {finding.text}")
            if finding.fix:
                click.echo(f"      {finding.fix}")
    counts = {level: sum(finding.level == level for finding in findings) for level in _SIGNS}
    click.echo(f"\n{counts['bad']} to mend, {counts['warn']} to look at, {counts['ok']} fine.")
