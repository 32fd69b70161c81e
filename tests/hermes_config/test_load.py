"""Where settings come from, who wins, and how one finds out."""

import subprocess
import sys
from operator import attrgetter

import pytest

from hermes_config.errors import ConfigError
from hermes_config.keys import catalogue, find, variables
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.settings import Settings


def test_nothing_given_means_defaults(home: Home) -> None:
    loaded = load(home)
    assert loaded.settings == Settings()
    assert loaded.settings.agent.max_iterations == 60
    assert loaded.settings.agent.enabled_toolsets == ("core",)
    assert (loaded.warnings, loaded.sources) == ((), {})


def test_each_source_overrules_the_one_before(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "agent.max_iterations"

    def now(**flags: object) -> tuple[int, str]:
        loaded = load(home, {name.replace("__", "."): value for name, value in flags.items()})
        return loaded.settings.agent.max_iterations, loaded.sources.get(key, "default")

    assert now() == (60, "default")
    home.config_file.write_text("agent:\n  max_iterations: 61\n")
    assert now() == (61, "config.yaml line 2")
    home.env_file.touch(mode=0o600)
    home.env_file.write_text("# switches\nHERMES_MAX_ITERATIONS=62\n")
    assert now() == (62, ".env line 2")
    monkeypatch.setenv("HERMES_MAX_ITERATIONS", "63")
    assert now() == (63, "environment HERMES_MAX_ITERATIONS")
    assert now(agent__max_iterations=64) == (64, "flag")
    assert now(agent__max_iterations=None) == (63, "environment HERMES_MAX_ITERATIONS")


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("HERMES_MODEL", "gpt-x", "model.name", "gpt-x"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1", "model.base_url", "http://127.0.0.1:1/v1"),
        ("HERMES_GATEWAY__MAX_TURNS", " 12 ", "gateway.max_turns", 12),
        ("HERMES_PLATFORMS__SOCKET__ENABLED", "yes", "platforms.socket.enabled", True),
        ("HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS", "1.5", "gateway.drain_timeout_seconds", 1.5),
        ("HERMES_AGENT__ENABLED_TOOLSETS", "todo, web ,", "agent.enabled_toolsets", ("todo", "web")),
        (
            "GATEWAY_ALLOWED_USERS",
            "telegram:12,U024BE7LH, 5",
            "access.allowed_users",
            ("telegram:12", "U024BE7LH", "5"),
        ),
        ("HERMES_ACCESS__OWNER_USERS", "telegram@work:7", "access.owner_users", ("telegram@work:7",)),
        (
            "TELEGRAM_ALLOWED_USERS",
            "7,telegram:8,telegram@work:9",
            "platforms.telegram.allowed_users",
            ("7", "telegram:8", "telegram@work:9"),
        ),
        ("GATEWAY_ALLOW_ALL_USERS", "true", "access.allow_all_users", True),
        ("HERMES_USER__TIMEZONE", "Europe/Berlin", "user.timezone", "Europe/Berlin"),
    ],
)
def test_variables_set_their_key(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, text: str, key: str, value: object
) -> None:
    monkeypatch.setenv(name, text)
    loaded = load(home)
    assert attrgetter(key)(loaded.settings) == value
    assert loaded.sources == {key: f"environment {name}"}


def test_every_key_can_be_set_by_a_variable() -> None:
    assert set(variables().values()) == set(catalogue())
    assert variables()["HERMES_STORE__BACKUPS_KEPT"] == "store.backups_kept"


def test_every_key_is_described() -> None:
    assert [dotted for dotted, key in catalogue().items() if not key.is_secret and not key.info.description] == []


def test_an_empty_variable_takes_away_what_a_weaker_source_gave(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config_file.write_text("access:\n  allow_all_users: true\n  allowed_users: [1]\n")
    monkeypatch.setenv("GATEWAY_ALLOW_ALL_USERS", "")
    monkeypatch.setenv("GATEWAY_ALLOWED_USERS", "")
    loaded = load(home)
    assert loaded.settings.access == Settings().access
    assert loaded.sources["access.allow_all_users"] == "environment GATEWAY_ALLOW_ALL_USERS, empty"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "---\n",
        "gateway:\n# everything below is commented out\n",
        "gateway:\n  max_turns:\n",
        "_config_version: 1\n",
        "\ufeffgateway: {max_turns: 512}\n",
        "gateway:\r\n  max_turns: 512\r\n",
    ],
)
def test_files_that_say_little_are_fine(home: Home, text: str) -> None:
    home.config_file.write_text(text, encoding="utf-8", newline="")
    loaded = load(home)
    assert (loaded.settings, loaded.warnings) == (Settings(), ())


def test_lists_of_users_may_hold_bare_numbers(home: Home) -> None:
    home.config_file.write_text("access:\n  allowed_users:\n    - 123\n    - telegram:5\n  owner_users: telegram:7\n")
    access = load(home).settings.access
    assert (access.allowed_users, access.owner_users) == (("123", "telegram:5"), ("telegram:7",))


def test_commands_that_are_allowed_stand_at_the_top(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config_file.write_text("command_allowlist:\n  - git push origin *\n  - make a, b\n")
    loaded = load(home)
    assert loaded.settings.command_allowlist == ("git push origin *", "make a, b")
    assert loaded.sources == {"command_allowlist": "config.yaml line 1"}
    monkeypatch.setenv("HERMES_COMMAND_ALLOWLIST", "make a, b")  # one that stands alone is one
    assert load(home).settings.command_allowlist == ("make a, b",)


def test_a_wrong_value_that_is_overruled_only_warns(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config_file.write_text("gateway:\n  max_turns: many\n")
    monkeypatch.setenv("HERMES_GATEWAY__MAX_TURNS", "5")
    loaded = load(home)
    assert loaded.settings.gateway.max_turns == 5
    assert "config.yaml line 2" in loaded.warnings[0]
    assert "environment HERMES_GATEWAY__MAX_TURNS overrides it" in loaded.warnings[0]


def test_all_problems_come_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config_file.write_text("gateway:\n  max_turns: 0\nlogs:\n  level: loud\naccess:\n  alowed_users: []\n")
    home.env_file.mkdir()
    monkeypatch.setenv("HERMES_MAX_ITERATIONS", "many")
    with pytest.raises(ConfigError) as caught:
        load(home, {"gateway.max_turn": 1})
    assert len(str(caught.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gateway:\n  max_turn: 5\n", ["config.yaml line 2", "gateway.max_turn", "did you mean gateway.max_turns?"]),
        ("\nlgs: {level: info}\n", ["config.yaml line 2", "lgs", "did you mean logs?"]),
        ("HERMES_MODEL: x\n", ["config.yaml line 1", "write it as model.name"]),
        ("max_turns: 5\n", ["did you mean gateway.max_turns?"]),
        ("42: 5\n", ["There is no setting 42."]),
        ("model: {default: x}\n", ["config.yaml line 1", "did you mean model.name?"]),
        ("model: {provider: x}\n", ["did you mean model.name?"]),
        ("gatway: {max_turns: 5}\n", ["did you mean gateway?"]),
        ("telegram: {enabled: true}\n", ["did you mean platforms.telegram?"]),
        ("platforms: {telegram: {token: x}}\n", ["did you mean TELEGRAM_BOT_TOKEN?"]),
        ("what: {is: this}\n", ["There is no setting what. All settings: hermes config show."]),
        ("logs: {timezone: UTC}\n", ["did you mean user.timezone?"]),
        ("logs: {enabled: true}\n", ["There is no setting logs.enabled. In logs there are: level, format."]),
    ],
)
def test_an_unknown_key_warns_with_the_nearest_name(home: Home, text: str, parts: list[str]) -> None:
    home.config_file.write_text(text)
    loaded = load(home)
    assert loaded.settings == Settings()
    (warning,) = loaded.warnings
    for part in parts:
        assert part in warning


def test_a_model_may_be_given_by_its_name_alone(home: Home) -> None:
    home.config_file.write_text("model: gpt-5\n")
    loaded = load(home)
    assert (loaded.settings.model.name, loaded.warnings) == ("gpt-5", ())
    assert loaded.sources["model.name"] == "config.yaml line 1"


def test_variables_that_a_backend_does_not_have_are_pointed_out(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_SSH_PASSWORD", "x")
    home.env_file.write_text("TERMINAL_SSH_HOST=example.org\nTERMINAL_SSH_AGENT=ada\nTERMINAL_SSH_CIPHER=x\n")
    home.env_file.chmod(0o600)
    in_file, outside = load(home).warnings
    assert in_file.startswith(f"{home.env_file}: TERMINAL_SSH_AGENT, TERMINAL_SSH_CIPHER have no effect")
    assert outside.startswith("environment: TERMINAL_SSH_PASSWORD has no effect")
    for warning in (in_file, outside):
        assert "settings of the ssh backend are: terminal.ssh.host, " in warning


def test_an_unknown_variable_of_ours_warns(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_GATEWAY__MAX_TURN", "5")
    (warning,) = load(home).warnings
    assert "environment HERMES_GATEWAY__MAX_TURN" in warning
    assert "did you mean gateway.max_turns?" in warning


def test_no_config_file_means_no_yaml_parser() -> None:
    code = (
        "import sys; from hermes_config.places import Home; assert 'pydantic' not in sys.modules;"
        "from hermes_config.load import load; load(Home.locate());"
        "print([name for name in sys.modules if name.startswith('ruamel')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_settings_of_a_backend_may_be_written_flat(home: Home) -> None:
    home.config_file.write_text("terminal:\n  sandbox_network: ask\n  sandbox:\n    memory_mb: 300\n")
    loaded = load(home)
    assert (loaded.settings.terminal.sandbox.network, loaded.settings.terminal.sandbox.memory_mb) == ("ask", 300)
    assert loaded.warnings == ()
    assert find("terminal.sandbox_network") is catalogue()["terminal.sandbox.network"]


def test_the_older_name_of_the_sandbox_is_understood(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.config_file.write_text(
        "terminal:\n  backend: bubblewrap\n  bubblewrap_network: true\n  bubblewrap:\n    memory_mb: 300\n"
    )
    monkeypatch.setenv("HERMES_TERMINAL__BUBBLEWRAP__MAX_PROCESSES", "77")
    loaded = load(home)
    terminal = loaded.settings.terminal
    assert (terminal.backend, terminal.sandbox.network, terminal.sandbox.memory_mb) == ("sandbox", "on", 300)
    assert terminal.sandbox.max_processes == 77
    assert loaded.warnings == ()
    assert find("terminal.bubblewrap.network") is catalogue()["terminal.sandbox.network"]


@pytest.mark.parametrize("address", ["10.0.0.0/99", "nas.local:http", "fd00::zz", "a b"])
def test_an_address_that_makes_no_sense_is_an_error(home: Home, address: str) -> None:
    home.config_file.write_text(f"network:\n  allowed_addresses: ['10.0.0.0/8', '{address}']\n")
    with pytest.raises(ConfigError, match="is not an address"):
        load(home)


def test_a_variable_to_pass_on_must_look_like_one(home: Home) -> None:
    home.config_file.write_text("terminal:\n  env_passthrough: [GITHUB_TOKEN, 'A=b']\n")
    with pytest.raises(ConfigError, match="'A=b' is not a variable name"):
        load(home)
