"""`hermes doctor`: check each part of Hermes, and say how to fix it or fix it."""

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
@click.option("--security", is_flag=True, help="Check who can reach, read or change what, instead of general health.")
@click.option("--live", is_flag=True, help="Also ask each server whether it accepts our token (uses the network).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--fix", is_flag=True, help="Offer to run the commands that fix findings; asks before each.")
def doctor(*, security: bool, live: bool, as_json: bool, fix: bool) -> None:
    """Check each part of Hermes and say how to fix it.

    Changes nothing without --fix. Exits with 1 when a check fails (✗).
    """
    from gateway import logs
    from gateway.doctor.checks import HEALTH, SECURITY, run
    from gateway.doctor.facts import gather, read_secrets, worst
    from hermes_config.places import Home

    if fix and as_json:
        raise click.UsageError("--fix asks questions; leave --json out.")
    logs.configure(level="error", style="auto", secrets=read_secrets().values())
    checks = dict(SECURITY if security else HEALTH)
    if live:
        from gateway.doctor.live import check_tokens

        checks["live"] = (check_tokens,)
    findings = run(checks, gather(Home.locate()))
    if fix:
        from hermes_cli.doctor_fix import fix_all

        fix_all(findings)
        click.echo()
        findings = run(checks, gather(Home.locate()))
    level = worst(findings)
    if as_json:
        rows = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"findings": rows, "worst": level}, ensure_ascii=False, indent=2))
    else:
        _print(findings)
    if level == "bad":
        raise SystemExit(1)


def _print(findings: "Sequence[Finding]") -> None:
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
    click.echo(f"\n{counts['bad']} to fix, {counts['warn']} to look at, {counts['ok']} fine.")
