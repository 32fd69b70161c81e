"""`hermes usage`: what was spent, by whatever one wants to know."""

import json

import pytest
from click.testing import CliRunner, Result

from hermes_cli.main import hermes


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hermes, arguments)


@pytest.fixture
def _a_question() -> None:
    assert run("chat", "-q", "what is 17 * 23?").exit_code == 0


def test_nothing_yet() -> None:
    shown = run("usage").stdout.splitlines()
    assert shown[0].startswith("Nothing was used since 20")
    assert shown[1:] == ["Today in total: 0 tokens"]


@pytest.mark.usefixtures("_a_question")
@pytest.mark.parametrize(("by", "name"), [("day", "20"), ("person", "owner"), ("chat", "cli"), ("model", "demo")])
def test_a_line_for_each(by: str, name: str) -> None:
    [line, today] = run("usage", "--by", by).stdout.splitlines()
    assert line.startswith(name)
    assert "     1 call " in line
    assert line.endswith("$0.00")
    assert today.startswith("Today in total: ")


@pytest.mark.usefixtures("_a_question")
def test_for_scripts_with_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_BUDGETS__DAY_TOKENS", "100000")
    monkeypatch.setenv("HERMES_BUDGETS__DAY_USD", "2")
    monkeypatch.setenv("HERMES_MODEL", "gpt-5")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    facts = json.loads(run("usage", "--days", "1", "--by", "model", "--json").stdout)
    assert facts["limit"] == {"tokens": 100_000, "cost_micros": 2_000_000}
    assert [row["name"] for row in facts["rows"]] == ["demo"]
    assert facts["today"]["tokens"] == facts["rows"][0]["input_tokens"] + facts["rows"][0]["output_tokens"] > 0
    [problem] = facts["problems"]
    assert problem.startswith("The price of gpt-5 is not known, so limits in money do not apply to it.")


def test_a_price_that_the_provider_tells_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_BUDGETS__DAY_USD", "2")
    monkeypatch.setenv("HERMES_MODEL", "anthropic/claude-sonnet-4.5")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-not-a-key")
    assert "price" not in run("usage").stdout
