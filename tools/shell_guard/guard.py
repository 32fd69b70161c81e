"""Decide whether a shell command may run, needs approval or never runs, by the commands that it would execute.

For what runs without isolation: on this machine or over ssh. It reads the command and runs nothing. It protects against
accidents and disguises, not against a malicious program that the command starts; for that there is the sandbox.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tools.shell_guard.expansion import Scope, render
from tools.shell_guard.findings import CommandRisk, Verdict, ask
from tools.shell_guard.granting import Rule

Policy = Literal["risky", "unknown"]

MAX_CHARS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    verdict: Verdict
    reasons: tuple[str, ...] = ()  # clauses: "it deletes …"
    argv: tuple[tuple[str, ...], ...] = ()  # each command that would run; … for what only the run decides
    rules: tuple[Rule, ...] = ()  # what a yes would grant; all of them must be covered
    is_harmless: bool = False  # whether it is known to only look

    def including(self, other: "Judgement") -> "Judgement":
        """Return both as one: the stricter verdict, and all reasons and rules."""
        worst = max(self.verdict, other.verdict, key=("safe", "ask", "block").index)
        return Judgement(
            verdict=worst,
            reasons=tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            argv=self.argv or other.argv,
            rules=tuple(dict.fromkeys((*self.rules, *other.rules))),
        )


def judge(
    command: str,
    *,
    cwd: str = "",
    home: str = "",
    policy: Policy = "risky",
    is_there: Callable[[str], bool] = lambda path: True,
    written: Mapping[str, str] | None = None,
    guarded: Iterable[str] = (),
    open_folders: Iterable[str] = (),
) -> Judgement:
    """Judge a command without running it.

    `is_there` tells whether a file exists, so that writing a new one need not be asked about.

    `written` has the texts of files that were written before, by absolute path. `guarded` are the folders of Hermes
    itself: whatever reads or writes there asks, except below `open_folders`.
    """
    if len(command) > MAX_CHARS:
        too_long = ask("unreadable", f"it is longer than {MAX_CHARS:,} characters, which is too long to be read")
        return _sum_up([too_long], [])
    from tools.shell_guard.checks import Checks  # bring the parser with them, for whoever judges only
    from tools.shell_guard.paths import locate
    from tools.shell_guard.walking import Walk

    own, open_ = (tuple(locate(one, "", home or "~") for one in folders) for folders in (guarded, open_folders))
    checks = Checks(home=home or "~", is_there=is_there, guarded=own, open_folders=open_)
    walk = Walk(checks=checks, written=written)
    walk.text(command, Scope(home or "~", {"PWD": cwd}))
    findings = [*walk.findings, *(walk.unknown if policy == "unknown" else ())]
    return _sum_up(findings, walk.argvs, is_harmless=not walk.unknown and not walk.findings)


def _sum_up(findings: list[CommandRisk], argvs: list[tuple[str, ...]], *, is_harmless: bool = False) -> Judgement:
    verdicts = {finding.verdict for finding in findings}
    ranked = sorted(findings, key=lambda finding: finding.verdict != "block")
    return Judgement(
        verdict="block" if "block" in verdicts else "ask" if "ask" in verdicts else "safe",
        reasons=tuple(dict.fromkeys(finding.reason for finding in ranked)),
        argv=tuple(tuple(map(render, argv)) for argv in argvs),
        rules=tuple(dict.fromkeys(Rule(finding.rule, finding.scope) for finding in ranked)),
        is_harmless=is_harmless,
    )
