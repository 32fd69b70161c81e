"""`hermes approvals explain`: show whether a shell command would need approval, and why."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.store import approvals
from gateway.store.approvals import GrantedRule
from gateway.store.inspect import peek
from hermes_cli.opening import open_home

if TYPE_CHECKING:
    from tools.shell_guard.guard import Judgement

_VERDICTS = {
    "safe": "It would run without asking.",
    "ask": "It would need approval.",
    "block": "It would never run.",
}
_ALLOWED = "It needs approval, which was given before."


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
    from tools.approval.allowlist import allows
    from tools.shell_guard.guard import judge

    home = Path.home()

    def is_there(path: str) -> bool:
        return Path(path.replace("~", str(home), 1) if path.startswith("~") else path).exists()

    opened = open_home(make=False)
    settings = opened.settings
    judgement = judge(
        command,
        cwd=str(Path.cwd()),
        home=str(home),
        policy="unknown" if (policy or settings.approvals.policy) == "unknown" else "risky",
        is_there=is_there,
        guarded=(str(opened.home.root),),
    )
    asks = judgement.verdict == "ask"  # a blocked command stays blocked, and a safe one needs no approval
    patterns = [pattern for pattern in settings.command_allowlist if asks and allows([pattern], command)]
    granted = _covering(judgement, peek(opened.home.database, approvals.rules, [])) if asks else []
    if as_json:
        facts = {"verdict": judgement.verdict, "reasons": judgement.reasons, "argv": judgement.argv}
        more = {"rules": judgement.rules, "allowlist": patterns, "granted": [one.rule for one in granted]}
        click.echo(json.dumps(facts | more, ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_lines(judgement, patterns, granted)))


def _covering(judgement: "Judgement", granted: list[GrantedRule]) -> list[GrantedRule]:
    """Return the permanent rules of each holder whose rules cover the whole command."""
    from tools.shell_guard.granting import Rule, covers

    def fits(one: GrantedRule, wanted: Rule) -> bool:
        try:
            return covers(Rule.parse(one.rule), wanted)
        except ValueError:  # written by another version
            return False

    found: list[GrantedRule] = []
    lasting = [one for one in granted if one.is_lasting]
    for holder in dict.fromkeys(one.holder for one in lasting):
        theirs = [one for one in lasting if one.holder == holder]
        if all(any(fits(one, wanted) for one in theirs) for wanted in judgement.rules):
            found += [one for one in theirs if any(fits(one, wanted) for wanted in judgement.rules)]
    return found


def _lines(judgement: "Judgement", patterns: list[str], granted: list[GrantedRule]) -> list[str]:
    verdict = _ALLOWED if patterns or granted else _VERDICTS[judgement.verdict]
    return [
        f"{judgement.verdict}: {verdict}",
        *(f"  reason: {reason}" for reason in judgement.reasons),
        *(f"  runs: {' '.join(argv)}" for argv in judgement.argv),
        *(f"  allowed by command_allowlist: {pattern}" for pattern in patterns),
        *(f"  allowed by a permanent rule: {one.rule}, for {one.holder_name}" for one in granted),
        *(_could_grant(judgement) if judgement.verdict == "ask" and not (patterns or granted) else ()),
    ]


def _could_grant(judgement: "Judgement") -> list[str]:
    once_only = [rule for rule in judgement.rules if not rule.is_grantable]
    if once_only:
        return [f"  needs approval each time: {', '.join(once_only)} cannot become a rule"]
    return [f"  can be allowed permanently as: {rule}" for rule in judgement.rules]
