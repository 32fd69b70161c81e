"""`hermes approvals`: which commands are asked about, and why."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tools.guard.judging import Judgement

_VERDICTS = {
    "safe": "It would run without asking.",
    "ask": "It would be asked about.",
    "block": "It would never be run.",
}


@click.group()
def approvals() -> None:
    """Which commands are asked about, and why."""


@approvals.command()
@click.argument("command")
@click.option("--policy", type=click.Choice(["risky", "unknown"]), default="risky", help="What is asked about.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def explain(command: str, policy: str, as_json: bool) -> None:
    """Read COMMAND as the guard does, and run nothing: the verdict, the reasons, and what would really run."""
    from tools.guard.judging import judge

    home = Path.home()

    def is_there(path: str) -> bool:
        return Path(path.replace("~", str(home), 1) if path.startswith("~") else path).exists()

    judgement = judge(
        command,
        cwd=str(Path.cwd()),
        home=str(home),
        policy="unknown" if policy == "unknown" else "risky",
        is_there=is_there,
    )
    if as_json:
        facts = {"verdict": judgement.verdict, "reasons": judgement.reasons, "argv": judgement.argv}
        click.echo(json.dumps({**facts, "rules": judgement.rules}, ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_lines(judgement)))


def _lines(judgement: "Judgement") -> list[str]:
    reasons = [f"  because {reason}" for reason in judgement.reasons]
    commands = [f"  runs: {' '.join(argv)}" for argv in judgement.argv]
    granted = [f"  a lasting yes would grant: {rule}" for rule in judgement.rules] if judgement.verdict == "ask" else []
    return [f"{judgement.verdict}: {_VERDICTS[judgement.verdict]}", *reasons, *commands, *granted]
