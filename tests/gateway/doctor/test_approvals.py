"""What is done without a human's yes."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.doctor import rights
from gateway.store.approvals import GrantedRule
from tests.gateway.doctor.scene import NOW_MS, facts_of, run_check, summary_of


def rule(text: str, rule_id: int = 1, session_id: str = "") -> GrantedRule:
    return GrantedRule(
        id=rule_id,
        holder="owner",
        holder_name="the owner",
        session_id=session_id,
        rule=text,
        granted_by="telegram:1",
        granted_ms=NOW_MS,
    )


@pytest.mark.parametrize(("mode", "level"), [("ask", "ok"), ("deny", "ok"), ("off", "bad")])
def test_whether_anybody_is_asked(root: Path, mode: str, level: str) -> None:
    assert [found for found, _ in run_check(rights.check_mode, facts_of(root, {"approvals": {"mode": mode}}))] == [
        level
    ]


def test_lasting_rules_are_told_and_how_to_take_them_back(root: Path) -> None:
    narrow, wide = rule("recursive-delete /home/ann/proj"), rule("recursive-delete /home", 7)
    facts = facts_of(root, store=summary_of(rules=(narrow, wide, rule("force-push", 9, "a conversation"))))
    yellow, note = rights.list_rules(facts)
    assert (yellow.level, yellow.fix) == ("warn", "hermes approvals revoke 7")
    assert yellow.text.endswith("7: recursive-delete /home, for the owner")
    assert note.level == "ok"
    assert "1: recursive-delete /home/ann/proj, for the owner (to revoke one: hermes approvals revoke" in note.text
    assert "force-push" not in yellow.text + note.text


def test_a_rule_that_hermes_did_not_write_is_an_alarm(root: Path) -> None:
    forged = replace(rule("recursive-delete /home/ann/proj", 3), is_signed=False)
    red, *_ = rights.list_rules(facts_of(root, store=summary_of(rules=(forged,))))
    assert (red.level, red.fix) == ("bad", "hermes approvals revoke 3, and look for who wrote them")
    assert "without effect: 3: recursive-delete /home/ann/proj" in red.text


def test_a_rule_of_another_version_is_worth_a_look(root: Path) -> None:
    facts = facts_of(root, store=summary_of(rules=(rule("?what"),)))
    assert [level for level, _ in run_check(rights.list_rules, facts)] == ["warn"]


def test_without_a_database_nothing_is_said_of_rules(root: Path) -> None:
    assert run_check(rights.list_rules, facts_of(root)) == []
    assert [level for level, _ in run_check(rights.list_rules, facts_of(root, store=summary_of()))] == ["ok"]


@pytest.mark.parametrize(
    ("listed", "levels"),
    [
        ([], []),
        (["make test"], ["ok"]),
        (["git push origin *", "make *.o"], ["warn", "ok"]),
        (["rm -r *"], ["warn"]),
    ],
)
def test_commands_that_are_run_without_asking(root: Path, listed: list[str], levels: list[str]) -> None:
    found = run_check(rights.check_allowlist, facts_of(root, {"command_allowlist": listed}))
    assert [level for level, _ in found] == levels
