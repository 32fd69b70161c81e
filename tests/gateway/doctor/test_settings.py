"""The home, the settings, and the keys for what is switched on."""

from pathlib import Path

import pytest

from gateway.doctor import settings
from gateway.doctor.facts import gather
from hermes_config.places import Home
from tests.gateway.doctor.scene import facts_of, run_check


def test_a_home_that_is_not_there_yet_is_fine(tmp_path: Path) -> None:
    [(level, text)] = run_check(settings.check_home, facts_of(tmp_path / "none"))
    assert (level, "the first start creates" in text) == ("ok", True)


def test_the_home_of_another_program_is_bad_and_nothing_in_it_is_read(root: Path) -> None:
    (root / "state.db").write_bytes(b"SQLite format 3\0" + b"\0" * 4080)
    (root / "config.yaml").write_text("gateway: [")
    facts = gather(Home(root))
    assert (facts.loaded, facts.store, facts.config_problem, facts.store_problem) == (None, None, "", "")
    [(level, text)] = run_check(settings.check_home, facts)
    assert (level, "belongs to another program" in text) == ("bad", True)
    assert run_check(settings.check_files, facts) == []


@pytest.mark.parametrize(
    ("yaml", "level", "words"),
    [
        ("gateway: [", "bad", "not valid YAML"),
        ("gateway:\n  max_turns: many\n", "bad", "line 2: gateway.max_turns"),
        ("access:\n  alow_all: true\n", "bad", "There is no setting access.alow_all"),
        ("gatway:\n  max_turns: 5\n", "warn", "did you mean gateway?"),
        ("_config_version: 999\n", "bad", "written for a newer Hermes"),
        ("gateway:\n  max_turns: 5\n", "ok", "config.yaml can be read"),
    ],
)
def test_the_settings(root: Path, yaml: str, level: str, words: str) -> None:
    (root / "config.yaml").write_text(yaml)
    [(found, text)] = run_check(settings.check_files, gather(Home(root)))
    assert found == level
    assert words in text


def test_the_demo_model_is_worth_a_word(root: Path) -> None:
    assert [level for level, _ in run_check(settings.check_model, facts_of(root))] == ["warn"]


def test_a_model_without_its_key_is_bad_and_so_is_a_fallback(root: Path) -> None:
    chosen = {"model": {"name": "gpt-5", "fallbacks": ("claude-opus",)}, "secrets": {"openai_api_key": "k" * 20}}
    found = run_check(settings.check_model, facts_of(root, chosen))
    assert sorted(level for level, _ in found) == ["bad", "ok"]
    assert any("no key for it is set" in text for _, text in found)


def test_half_of_slacks_tokens_is_not_enough(root: Path) -> None:
    facts = facts_of(root, {"secrets": {"slack_bot_token": "xoxb-1"}})
    [bad] = settings.check_tokens(facts)
    assert (bad.level, bad.fix) == ("bad", "hermes config set SLACK_APP_TOKEN")


def test_a_further_bot_without_its_token_is_bad(root: Path) -> None:
    facts = facts_of(root, {"platforms": {"telegram": {"accounts": ("work",)}}})
    [(level, text)] = run_check(settings.check_tokens, facts)
    assert (level, "TELEGRAM_BOT_TOKEN_WORK is not set" in text) == ("bad", True)
    both = facts_of(root, {"secrets": {"telegram_bot_token": "1:a"}})
    assert run_check(settings.check_tokens, both) == [("ok", "telegram has its token")]


def test_a_toolset_that_does_not_exist_would_keep_the_gateway_from_starting(root: Path) -> None:
    facts = facts_of(root, {"agent": {"enabled_toolsets": ("croe",)}})
    assert [level for level, _ in run_check(settings.check_toolsets, facts)] == ["bad"]
    assert run_check(settings.check_toolsets, facts_of(root)) == []
    (root / "tools").mkdir()
    (root / "tools" / "own.py").write_text("raise SystemExit('never run by the doctor')")
    assert run_check(settings.check_toolsets, facts) == []


def test_a_limit_in_money_for_a_model_without_a_price_is_worth_a_word(root: Path) -> None:
    (root / "config.yaml").write_text("model:\n  name: gpt-5\nbudgets:\n  day_usd: 2\n")
    (root / ".env").write_text("OPENAI_API_KEY=sk-not-a-key\n")
    [(level, text)] = run_check(settings.check_prices, gather(Home(root)))
    assert level == "warn"
    assert text.startswith("The price of gpt-5 is not known")
    (root / "config.yaml").write_text("model:\n  name: gpt-5\n")
    assert run_check(settings.check_prices, gather(Home(root))) == []


def test_the_fixed_cost_of_a_request_is_told_and_too_much_is_warned_about(root: Path) -> None:
    (root / "config.yaml").write_text(f"terminal:\n  cwd: {root}\n")
    [(level, text)] = run_check(settings.check_fixed_cost, gather(Home(root)))
    assert level == "ok"
    assert "Each request begins with about " in text
    (root / "AGENTS.md").write_text("Mind the gap. " * 1_400)
    [(level, text)] = run_check(settings.check_fixed_cost, gather(Home(root)))
    assert level == "warn"
    assert "more than 4,000" in text
