"""`hermes approvals explain`: show whether a shell command would need approval, and why."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gateway.store.approvals import GrantedRule as Granted
    from hermes_config.settings import Settings
    from tools.shell_guard.guard import Judgement

_VERDICTS = {
    "safe": "It would run without asking.",
    "ask": "It would need approval.",
    "block": "It would never run.",
}
_ALLOWED = "It needs approval, which was given before."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Home:
    """Settings and rules of the home that decide about a command."""

    policy: str = "risky"
    allowlist: tuple[str, ...] = ()
    granted: "tuple[Granted, ...]" = ()


@click.command()
@click.argument("command")
@click.option(
    "--policy",
    type=click.Choice(["risky", "unknown"]),
    help="Which commands need approval.  [default: approvals.policy]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(command: str, policy: str | None, as_json: bool) -> None:
    """Explain whether COMMAND would need approval, and why. Runs nothing."""
    from tools.shell_guard.guard import judge

    home = Path.home()

    def is_there(path: str) -> bool:
        return Path(path.replace("~", str(home), 1) if path.startswith("~") else path).exists()

    settled = _settled()
    judgement = judge(
        command,
        cwd=str(Path.cwd()),
        home=str(home),
        policy="unknown" if (policy or settled.policy) == "unknown" else "risky",
        is_there=is_there,
    )
    asks = judgement.verdict == "ask"  # a blocked command stays blocked, and a safe one needs no approval
    patterns = _patterns(settled.allowlist, command) if asks else []
    granted = _covering(judgement, settled.granted) if asks else []
    if as_json:
        facts = {"verdict": judgement.verdict, "reasons": judgement.reasons, "argv": judgement.argv}
        more = {"rules": judgement.rules, "allowlist": patterns, "granted": [one.granted.rule for one in granted]}
        click.echo(json.dumps(facts | more, ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_lines(judgement, patterns, granted)))


def _settled() -> _Home:
    """Read them; defaults where there is no home, which is not created."""
    from hermes_config.places import Home

    home = Home.locate()
    if not home.root.exists():
        return _Home()
    from gateway.store import approvals
    from gateway.store.inspect import peek
    from hermes_cli.opening import open_home

    opened = open_home(make=False)
    settings: Settings = opened.settings
    granted: tuple[Granted, ...] = peek(opened.home.database, approvals.list_rules, ())
    return _Home(policy=settings.approvals.policy, allowlist=settings.command_allowlist, granted=granted)


def _patterns(allowlist: tuple[str, ...], command: str) -> list[str]:
    from tools.approval.allowlist import allows

    return [pattern for pattern in allowlist if allows([pattern], command)]


def _covering(judgement: "Judgement", granted: "tuple[Granted, ...]") -> "list[Granted]":
    """Return the permanent rules of each holder whose rules cover the whole command."""
    from tools.shell_guard.granting import Rule, covers

    def fits(one: "Granted", wanted: Rule) -> bool:
        try:
            return covers(Rule.parse(one.granted.rule), wanted)
        except ValueError:  # written by another version
            return False

    found: list[Granted] = []
    lasting = [one for one in granted if one.is_lasting]
    for holder in dict.fromkeys(one.granted.holder for one in lasting):
        theirs = [one for one in lasting if one.granted.holder == holder]
        if all(any(fits(one, wanted) for one in theirs) for wanted in judgement.rules):
            found += [one for one in theirs if any(fits(one, wanted) for wanted in judgement.rules)]
    return found


def _lines(judgement: "Judgement", patterns: list[str], granted: "list[Granted]") -> list[str]:
    verdict = _ALLOWED if patterns or granted else _VERDICTS[judgement.verdict]
    return [
        f"{judgement.verdict}: {verdict}",
        *(f"  reason: {reason}" for reason in judgement.reasons),
        *(f"  runs: {' '.join(argv)}" for argv in judgement.argv),
        *(f"  allowed by command_allowlist: {pattern}" for pattern in patterns),
        *(f"  allowed by a permanent rule: {one.granted.rule}, for {one.holder}" for one in granted),
        *(_could_grant(judgement) if judgement.verdict == "ask" and not (patterns or granted) else ()),
    ]


def _could_grant(judgement: "Judgement") -> list[str]:
    once_only = [rule for rule in judgement.rules if not rule.is_grantable]
    if once_only:
        return [f"  can only be approved once: {', '.join(once_only)} cannot become a rule"]
    return [f"  can be allowed permanently as: {rule}" for rule in judgement.rules]
