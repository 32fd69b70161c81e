"""`hermes config` as a person or a script uses it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from gateway.lock import hold_home
from hermes_cli.main import hermes
from hermes_config import environment
from hermes_config.keys import catalogue, variables
from hermes_config.places import Home
from tools.registry import registry
from tools.toolsets import TOOLSETS

TOKEN = "123456789:AAF-very-secret-token-wxyz"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in environment.everything():
        if name.startswith("HERMES_") or name in variables():
            monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(hermes, ("config", *arguments), input=typed)


def test_show_names_every_setting_and_its_source(home: Home) -> None:
    run("set", "gateway.max_turns", "12")
    shown = run("show")
    assert shown.exit_code == 0
    assert "gateway.max_turns = 12  (config.yaml line 3)" in shown.stdout
    assert "model.name = demo  (default)" in shown.stdout
    for dotted in catalogue():
        assert f"  {dotted} = " in shown.stdout


def test_show_for_scripts_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("HERMES_GATEWAY__MAX_TURN", "1")
    shown = json.loads(run("show", "--json").stdout)
    assert shown["settings"]["gateway.max_turns"] == {"value": 512, "source": "default"}
    assert shown["settings"]["agent.enabled_toolsets"]["value"] == ["core"]
    assert shown["settings"]["secrets.telegram_bot_token"]["value"] == "…wxyz"
    assert "did you mean gateway.max_turns?" in shown["warnings"][0]


def test_a_secret_is_never_printed_whole(home: Home) -> None:
    outputs = [run("set", "TELEGRAM_BOT_TOKEN", TOKEN), run("show"), run("show", "--json"), run("check")]
    outputs += [run("get", "TELEGRAM_BOT_TOKEN"), run("get", "secrets.telegram_bot_token")]
    for result in outputs:
        assert result.exit_code == 0
        assert "very-secret" not in result.output
    assert outputs[-1].stdout == "…wxyz\n"
    assert TOKEN in home.env_file.read_text()


def test_a_secret_can_be_typed_unseen(home: Home) -> None:
    result = run("set", "BROWSERBASE_API_KEY", typed="hush-hush-hush-hush\n")
    assert result.exit_code == 0
    assert "hush" not in result.output.replace("…hush", "")
    assert "hush-hush-hush-hush" in home.env_file.read_text()


def test_what_is_no_secret_is_shown(home: Home) -> None:
    run("set", "BROWSERBASE_PROJECT_ID", "project-1234")
    assert run("get", "BROWSERBASE_PROJECT_ID").stdout == "project-1234\n"


@pytest.mark.parametrize(
    ("key", "text", "got"),
    [
        ("gateway.max_turns", "12", "12"),
        ("HERMES_MODEL", "gpt-x", "gpt-x"),
        ("platforms.socket.enabled", "on", "true"),
        ("agent.enabled_toolsets", "[todo, clock]", "todo,clock"),
    ],
)
def test_get_gives_what_set_took(key: str, text: str, got: str) -> None:
    assert run("set", key, text).exit_code == 0
    assert run("get", key).stdout == got + "\n"


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["get", "gateway.max_turn"], 1, "did you mean gateway.max_turns?"),
        (["set", "gateway.max_turns", "many"], 1, "must be a whole number from 1"),
        (["set", "gateway.max_turns"], 2, "Give a value"),
        (["set"], 2, "Missing argument"),
    ],
)
def test_a_mistake_is_explained_on_stderr(arguments: list[str], code: int, part: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert part in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("key", ["agent.enabled_toolsets", "agent.disabled_toolsets"])
def test_an_unknown_toolset_is_refused_and_found(home: Home, key: str) -> None:
    refused = run("set", key, "core,webb")
    assert (refused.exit_code, refused.stdout) == (1, "")
    known = f"Did you mean 'web'? There are: {', '.join(sorted(TOOLSETS))}."
    assert f"{key}: There is no toolset named 'webb'. {known} Nothing was changed." in refused.stderr
    assert not home.config_file.exists()
    home.root.mkdir(exist_ok=True)
    home.config_file.write_text(f"agent:\n  {key.partition('.')[2]}: [core, webb]\n")
    checked = run("check")
    assert checked.exit_code == 1
    assert f"Error: {home.config_file} line 2: {key}: There is no toolset named 'webb'. {known}" in checked.stderr
    assert f"{home.config_file}: fine" not in checked.stdout


def test_a_toolset_of_a_dropped_in_tool_is_known(home: Home) -> None:
    (home.root / "tools").mkdir(parents=True)
    source = "from tools.registry import tool\n\n@tool(toolset='dice_of_config')\n"
    source += "async def roll_of_config() -> str:\n    'Roll a die.'\n    return '4'\n"
    (home.root / "tools" / "dice_of_config.py").write_text(source)
    with keeping_registry():
        assert run("set", "agent.enabled_toolsets", "core,dice_of_config").exit_code == 0
        assert run("check").exit_code == 0


@contextmanager
def keeping_registry() -> Iterator[None]:
    before = registry.snapshot()
    try:
        yield
    finally:
        registry.restore(before)
        sys.modules.pop("hermes_user_tools.dice_of_config", None)


FORMS = [
    ("TELEGRAM_BOT_TOKEN", "nonsense", ["123456:AA", "@BotFather"]),
    ("TELEGRAM_BOT_TOKEN_WORK", "xoxb-nonsense", ["TELEGRAM_BOT_TOKEN_WORK", "123456:AA", "@BotFather"]),
    ("DISCORD_BOT_TOKEN", "MTE.nonsense", ["three parts", "discord.com/developers"]),
    ("SLACK_BOT_TOKEN", "xapp-1-nonsense", ["xoxb-", "api.slack.com/apps"]),
    ("SLACK_APP_TOKEN", "xoxb-1-nonsense", ["xapp-", "api.slack.com/apps"]),
]


@pytest.mark.parametrize(("variable", "value", "parts"), FORMS)
def test_a_token_of_the_wrong_form_is_refused(home: Home, variable: str, value: str, parts: list[str]) -> None:
    refused = run("set", variable, value)
    assert (refused.exit_code, refused.stdout) == (1, "")
    for part in parts:
        assert part in refused.stderr
    assert "nonsense" not in refused.stderr
    assert not home.env_file.exists()


def test_check_points_at_a_token_of_the_wrong_form(home: Home) -> None:
    home.root.mkdir()
    home.env_file.write_text("TELEGRAM_BOT_TOKEN=nonsense\n")
    home.env_file.chmod(0o600)
    checked = run("check")
    assert checked.exit_code == 0
    assert "Warning: .env line 1: TELEGRAM_BOT_TOKEN does not look like" in checked.stderr
    assert "nonsense" not in checked.output


def test_get_prints_a_whole_section(home: Home) -> None:
    run("set", "agent.disabled_toolsets", "clock")
    run("set", "TELEGRAM_BOT_TOKEN", TOKEN)
    agent = run("get", "agent").stdout
    assert agent.startswith("agent:\n  max_iterations: 60\n")
    assert YAML(typ="safe").load(agent)["agent"]["disabled_toolsets"] == ["clock"]
    telegram = YAML(typ="safe").load(run("get", "platforms.telegram").stdout)["platforms"]["telegram"]
    assert (telegram["enabled"], telegram["poll_seconds"]) == (True, 25)
    secrets = run("get", "secrets").stdout
    assert YAML(typ="safe").load(secrets)["secrets"]["telegram_bot_token"] == "…wxyz"
    assert "very-secret" not in secrets


def test_unset_puts_the_default_back_and_keeps_comments(home: Home) -> None:
    home.root.mkdir()
    home.config_file.write_text("# mine\ngateway:\n  # few\n  max_turns: 12\n  max_resumes: 2  # two\n")
    done = run("unset", "gateway.max_turns")
    assert done.stdout == f"gateway.max_turns is back at its default, 512 (it was in {home.config_file}).\n"
    assert home.config_file.read_text() == "# mine\ngateway:\n  # few\n  max_resumes: 2  # two\n"
    again = run("unset", "gateway.max_turns")
    assert (again.exit_code, again.stdout) == (0, "gateway.max_turns is not set in your files; nothing was changed.\n")


def test_unset_forgets_a_secret(home: Home) -> None:
    home.root.mkdir()
    home.env_file.write_text(f"# keys\nTELEGRAM_BOT_TOKEN={TOKEN}\nHERMES_MODEL=x\n{WORK}={TOKEN}\n")
    done = run("unset", "TELEGRAM_BOT_TOKEN")
    assert done.stdout == f"TELEGRAM_BOT_TOKEN is no longer set (it was in {home.env_file}).\n"
    assert run("unset", WORK).exit_code == 0
    assert home.env_file.read_text() == "# keys\nHERMES_MODEL=x\n"
    run("unset", "model.name")
    assert home.env_file.read_text() == "# keys\n"


@pytest.mark.parametrize(
    ("name", "parts"), [("gateway.max_turn", ["did you mean gateway.max_turns?"]), ("gateway", ["is a section"])]
)
def test_unset_explains_a_wrong_name(name: str, parts: list[str]) -> None:
    result = run("unset", name)
    assert result.exit_code == 1
    for part in parts:
        assert part in result.stderr


def test_path_answers_even_for_a_foreign_home(home: Home) -> None:
    home.root.mkdir()
    (home.root / "auth.json").touch()
    assert run("path").stdout == f"{home.config_file}\n"
    for arguments in (["show"], ["get", "model.name"], ["set", "model.name", "x"], ["check"]):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "another program" in result.stderr
    assert [entry.name for entry in home.root.iterdir()] == ["auth.json"]


def test_check_of_nothing_is_fine_and_makes_nothing(home: Home) -> None:
    result = run("check")
    assert result.exit_code == 0
    assert "does not exist, which is fine" in result.stdout
    assert "TELEGRAM_BOT_TOKEN: not set" in result.stdout
    assert "enables telegram" in result.stdout
    assert not home.root.exists()


def test_check_tells_fine_files_from_others(home: Home) -> None:
    run("set", "gateway.max_turns", "12")
    run("set", "BROWSERBASE_API_KEY", "hush-hush-hush")
    home.env_file.chmod(0o644)
    result = run("check")
    assert result.exit_code == 0
    assert f"{home.config_file}: fine" in result.stdout
    assert f"{home.env_file}: fine" not in result.stdout
    assert "BROWSERBASE_API_KEY: set, from .env line 1; enables browser_navigate" in result.stdout
    assert f"chmod 600 {home.env_file}" in result.stderr


def test_check_fails_on_a_wrong_value(home: Home) -> None:
    home.root.mkdir()
    home.config_file.write_text("gateway:\n  max_turns: many\nlogs: {level: loud}\n")
    result = run("check")
    assert result.exit_code == 1
    assert "config.yaml line 2" in result.stderr
    assert "config.yaml line 3" in result.stderr


WORK = "TELEGRAM_BOT_TOKEN_WORK"


def test_a_further_bot_without_its_token_is_told_by_check_and_breaks_nothing_else(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WORK, raising=False)
    assert run("set", "platforms.telegram.accounts", "work").exit_code == 0
    missing = run("check")
    assert missing.exit_code == 1
    assert f"{WORK} is not set" in missing.stderr
    assert f"hermes config set {WORK}" in missing.stderr
    assert "TELEGRAM_BOT_TOKEN: not set" in missing.stdout
    assert CliRunner().invoke(hermes, ["pairing", "list"]).exit_code == 0
    assert run("set", WORK, TOKEN).exit_code == 0
    assert run("check").exit_code == 0
    assert f"{WORK}: set" in run("check").stdout


@pytest.mark.parametrize(
    ("variable", "token"),
    [
        (WORK, TOKEN),
        ("DISCORD_BOT_TOKEN_WORK", "MTE.very-secret.token-wxyz"),
        ("SLACK_BOT_TOKEN_MY_TEAM", "xoxb-very-secret-wxyz"),
        ("SLACK_APP_TOKEN_MY_TEAM", "xapp-very-secret-wxyz"),
    ],
)
def test_the_token_of_a_further_bot_is_asked_for_and_kept(home: Home, variable: str, token: str) -> None:
    done = run("set", variable, typed=f"{token}\n")
    assert done.exit_code == 0, done.output
    assert "very-secret" not in done.output
    assert f"{variable} is now …wxyz" in done.stdout
    assert ".accounts names that bot." in done.stdout
    assert f"{variable}={token}" in home.env_file.read_text()
    assert run("get", variable).stdout == "…wxyz\n"
    assert run("show").stderr == ""  # no hint at a typo


def test_a_running_gateway_is_to_be_restarted(home: Home) -> None:
    assert "restart" not in run("set", "gateway.max_turns", "12").stdout
    with hold_home(home.lock_file):
        assert "restart it" in run("set", "gateway.max_turns", "13").stdout


def test_an_id_that_begins_with_a_dash_is_no_option() -> None:
    wrong = run("set", "access.allowed_chats", "-100123")
    assert wrong.exit_code == 1
    assert "'-100123' is not a chat id" in wrong.stderr
    assert "An example: hermes config set access.allowed_chats telegram:-1001234567890" in wrong.stderr


def test_help_imports_no_yaml_parser() -> None:
    code = (
        "import sys; from hermes_cli.config import config; config(['--help'], standalone_mode=False);"
        "assert 'ruamel.yaml' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Show, change and check the settings." in done.stdout
