"""Decide whether a shell command may run, needs approval or never runs, by what would really be executed.

It reads the command and runs nothing. It keeps from accidents and from disguises; a program that the command starts
can still do what it likes, and for that there is the sandbox.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tools.shell_guard.expansion import Scope, shown
from tools.shell_guard.findings import CommandRisk, Verdict, ask
from tools.shell_guard.granting import Rule
from tools.shell_guard.inspection import Inspection, Policy

MAX_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    verdict: Verdict
    reasons: tuple[str, ...] = ()  # clauses: "it deletes …"
    argv: tuple[tuple[str, ...], ...] = ()  # each command that would run; … for what only the run decides
    rules: tuple[Rule, ...] = ()  # what a yes would grant; all of them must be covered


def judge(
    command: str,
    *,
    cwd: str = "",
    home: str = "",
    policy: Policy = "risky",
    is_there: Callable[[str], bool] = lambda path: True,
    written: Mapping[str, str] | None = None,
) -> Judgement:
    """`is_there` tells whether a file exists, so that writing a new one need not be asked about.

    `written` has the texts of files that were written before, by absolute path: one that is run is read too.
    """
    if len(command) > MAX_CHARS:
        too_long = ask("unreadable", f"it is longer than {MAX_CHARS:,} characters, which is too long to be read")
        return _judgement([too_long], [])
    from tools.shell_guard.walking import Walk  # brings the parser with it, for whoever judges only

    walk = Walk(home=home or "~", inspection=Inspection(policy=policy, is_there=is_there), written=written)
    walk.text(command, Scope(home or "~", {"PWD": cwd}))
    return _judgement(list(walk.findings), walk.argvs)


def _judgement(findings: list[CommandRisk], argvs: list[tuple[str, ...]]) -> Judgement:
    verdicts = {finding.verdict for finding in findings}
    ranked = sorted(findings, key=lambda finding: finding.verdict != "block")
    return Judgement(
        verdict="block" if "block" in verdicts else "ask" if "ask" in verdicts else "safe",
        reasons=tuple(dict.fromkeys(finding.reason for finding in ranked)),
        argv=tuple(tuple(map(shown, argv)) for argv in argvs),
        rules=tuple(dict.fromkeys(Rule(finding.rule, finding.scope) for finding in ranked)),
    )
