"""`hermes approvals explain`: what a command would really run, and whether it is asked about."""

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
    """What the operator of the home has settled."""

    policy: str = "risky"
    allowlist: tuple[str, ...] = ()
    granted: "tuple[Granted, ...]" = ()


@click.command()
@click.argument("command")
@click.option(
    "--policy", type=click.Choice(["risky", "unknown"]), help="What is asked about.  [default: approvals.policy]"
)
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def explain(command: str, policy: str | None, as_json: bool) -> None:
    """Read COMMAND as the guard does, and run nothing: the verdict, the reasons, and what would really run."""
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
    asks = judgement.verdict == "ask"  # nothing overrides a block, and what is safe needs no leave
    patterns = _patterns(settled.allowlist, command) if asks else []
    granted = _covering(judgement, settled.granted) if asks else []
    if as_json:
        facts = {"verdict": judgement.verdict, "reasons": judgement.reasons, "argv": judgement.argv}
        more = {"rules": judgement.rules, "allowlist": patterns, "granted": [one.granted.rule for one in granted]}
        click.echo(json.dumps(facts | more, ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_lines(judgement, patterns, granted)))


def _settled() -> _Home:
    """Nothing where there is no home: a question makes none."""
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
    """The lasting rules of those for whom all that the command needs has been granted."""
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
        *(f"  because {reason}" for reason in judgement.reasons),
        *(f"  runs: {' '.join(argv)}" for argv in judgement.argv),
        *(f"  covered by command_allowlist: {pattern}" for pattern in patterns),
        *(f"  granted for good: {one.granted.rule}, for {one.holder}" for one in granted),
        *(_could_grant(judgement) if judgement.verdict == "ask" and not (patterns or granted) else ()),
    ]


def _could_grant(judgement: "Judgement") -> list[str]:
    once_only = [rule for rule in judgement.rules if not rule.is_grantable]
    if once_only:
        return [f"  a yes is good for once only: {', '.join(once_only)} cannot be granted for longer"]
    return [f"  a lasting yes would grant: {rule}" for rule in judgement.rules]
