"""`set`: keeps what people wrote, writes whole or not at all, and lets nothing wrong land."""

import os
import signal
import subprocess
import sys
import threading
from operator import attrgetter
from pathlib import Path

import pytest

from hermes_config.edit import set_value, unset_value
from hermes_config.errors import ConfigError
from hermes_config.keys import catalogue
from hermes_config.load import load
from hermes_config.places import Home

COMMENTED = """\
# My settings, written by hand.
_config_version: 1

gateway:   # the daemon
  # not too many
  max_turns: 12   # was 512
  max_resumes: 2

# Who may talk
access:
  allowed_users:
    - telegram:1   # me
    - telegram:2   # my sister
  # the end of the list

logs: {level: debug}
user:
  # name: Ada
"""


def test_a_first_set_makes_a_private_file_with_its_version(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    told = set_value(home, "gateway.max_turns", "12")
    assert told == f"gateway.max_turns is now 12 (in {home.config_file})."
    assert home.config_file.read_text() == "_config_version: 1\ngateway:\n  max_turns: 12\n"
    assert home.config_file.stat().st_mode & 0o777 == 0o600
    assert home.root.stat().st_mode & 0o777 == 0o700


EDITS = [
    ("gateway.max_turns", "7", "max_turns: 12   # was", "max_turns: 7   # was"),
    ("gateway.max_tool_runs", "7", "  max_resumes: 2\n", "  max_resumes: 2\n  max_tool_runs: 7\n"),
    (
        "access.allowed_users",
        "telegram:3,U024BE7LH",
        "allowed_users:\n    - telegram:1   # me\n    - telegram:2   # my",
        'allowed_users: ["telegram:3", U024BE7LH]   # my',
    ),
    ("access.allow_all_users", "yes", "# my sister\n", "# my sister\n  allow_all_users: true\n"),
    ("logs.level", "error", "{level: debug}", "{level: error}"),
    ("logs.format", "json", "{level: debug}", "{level: debug, format: json}"),
    ("user.name", "Ada: the first", "user:\n", 'user:\n  name: "Ada: the first"\n'),
    ("user.name", "true", "user:\n", 'user:\n  name: "true"\n'),
    (
        "command_allowlist",
        "make a, b",
        "  # name: Ada\n",
        '  # name: Ada\ncommand_allowlist: ["make a, b"]\n',
    ),
    (
        "command_allowlist",
        "[make test, 'git push origin *']",
        "  # name: Ada\n",
        '  # name: Ada\ncommand_allowlist: ["make test", "git push origin *"]\n',
    ),
    ("approvals.policy", "unknown", "  # name: Ada\n", "  # name: Ada\napprovals:\n  policy: unknown\n"),
    ("model.name", "'quoted'", "  # name: Ada\n", "  # name: Ada\nmodel:\n  name: quoted\n"),
    ("HERMES_MODEL", "4", "  # name: Ada\n", '  # name: Ada\nmodel:\n  name: "4"\n'),
    (
        "platforms.socket.enabled",
        "true",
        "  # name: Ada\n",
        "  # name: Ada\nplatforms:\n  socket:\n    enabled: true\n",
    ),
]


@pytest.mark.parametrize(("key", "text", "old", "new"), EDITS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_set_changes_its_value_and_nothing_else(
    home: Home, key: str, text: str, old: str, new: str, newline: str
) -> None:
    home.config_file.write_text(COMMENTED, newline=newline)
    set_value(home, key, text)
    assert COMMENTED.count(old) == 1
    assert home.config_file.read_bytes().decode() == COMMENTED.replace(old, new).replace("\n", newline)
    load(home)


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("gateway.max_turns", "  max_turns: 12   # was 512\n", ""),
        (
            "access.allowed_users",
            "access:\n  allowed_users:\n    - telegram:1   # me\n    - telegram:2   # my sister\n",
            "",
        ),
        ("logs.level", "logs: {level: debug}\n", ""),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_an_unset_takes_its_lines_and_nothing_else(home: Home, key: str, old: str, new: str, newline: str) -> None:
    home.config_file.write_text(COMMENTED, newline=newline)
    unset_value(home, key)
    assert COMMENTED.count(old) == 1
    assert home.config_file.read_bytes().decode() == COMMENTED.replace(old, new).replace("\n", newline)
    load(home)


@pytest.mark.parametrize(
    ("old", "key", "new"),
    [
        ("logs: {level: debug, format: json}", "logs.level", "logs: {format: json}"),
        ("logs: {level: debug, format: json}", "logs.format", "logs: {level: debug}"),
        ("{logs: {level: debug}, user: {name: Ada}}", "logs.level", "{user: {name: Ada}}"),
        ("{logs: {level: debug}}", "logs.level", "{}"),
        ("model: gpt-5 # mine\nlogs: {}", "model.name", "logs: {}"),
        (
            "terminal:\n  bubblewrap_network: true\n  cwd: /srv\n",
            "terminal.bubblewrap.network",
            "terminal:\n  cwd: /srv\n",
        ),
        ("logs:\n  level: debug", "logs.level", ""),
    ],
)
def test_an_unset_finds_each_way_of_writing(home: Home, old: str, key: str, new: str) -> None:
    home.config_file.write_text(old)
    unset_value(home, key)
    assert home.config_file.read_text() == new
    assert key not in load(home).sources


@pytest.mark.parametrize(
    "text", ["a: &x {level: debug}\nlogs: *x\n", "gateway: [\n", "_config_version: 2\nlogs: {level: info}\n"]
)
def test_what_cannot_be_unset_safely_stays_as_it_is(home: Home, text: str) -> None:
    home.config_file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        unset_value(home, "logs.level")
    assert home.config_file.read_text() == text


@pytest.mark.parametrize(
    ("old", "key", "text", "new"),
    [
        ("model: demo  # mine\n", "model.name", "gpt-5", "model:\n  name: gpt-5  # mine\n"),
        ("model: demo  # mine\n", "model.stream", "no", "model:\n  name: demo  # mine\n  stream: false\n"),
        ("{model: demo}\n", "model.stream", "no", "{model: {name: demo, stream: false}}\n"),
    ],
)
def test_a_model_given_by_its_name_alone_can_be_changed(home: Home, old: str, key: str, text: str, new: str) -> None:
    home.config_file.write_text(old)
    set_value(home, key, text)
    assert home.config_file.read_text() == new
    load(home)


def test_a_second_set_replaces_the_first(home: Home) -> None:
    for text in ["[todo, web]", "", "clock"]:
        set_value(home, "agent.enabled_toolsets", text)
    set_value(home, "agent.disabled_toolsets", "[web]")
    assert home.config_file.read_text().splitlines()[1:] == [
        "agent:",
        "  enabled_toolsets: [clock]",
        "  disabled_toolsets: [web]",
    ]


@pytest.mark.parametrize(
    ("key", "entries", "shown"),
    [
        ("command_allowlist", ("make test",), "make test"),
        ("command_allowlist", ("make a, b",), "make a, b"),
        ("command_allowlist", ("make", "ls"), '["make", "ls"]'),
        ("command_allowlist", ("[ -e x ]",), '["[ -e x ]"]'),
        ("command_allowlist", (), ""),
        ("agent.enabled_toolsets", ("core", "web"), "core,web"),
        ("media.allowed_dirs", ("~/a, b", "~/c"), '["~/a, b", "~/c"]'),
    ],
)
def test_what_is_shown_of_a_list_can_be_set_again(home: Home, key: str, entries: tuple[str, ...], shown: str) -> None:
    setting = catalogue()[key]
    assert setting.format(entries) == shown
    set_value(home, key, shown)
    assert attrgetter(key)(load(home).settings) == entries


def test_no_example_is_better_than_an_empty_one(home: Home) -> None:
    with pytest.raises(ConfigError) as caught:
        set_value(home, "model.fallbacks", "a\x1bb")
    assert "An example" not in str(caught.value)


def test_an_address_of_telegram_is_not_explained_by_a_model_server(home: Home) -> None:
    with pytest.raises(ConfigError) as caught:
        set_value(home, "TELEGRAM_API_URL", "nonsense")
    assert "openrouter" not in str(caught.value)
    assert str(caught.value).endswith("hermes config set platforms.telegram.api_url https://api.telegram.org")


def test_a_file_without_a_last_newline_is_fine(home: Home) -> None:
    home.config_file.write_text("gateway:\n  max_turns: 5")
    set_value(home, "gateway.max_resumes", "1")
    set_value(home, "logs.level", "error")
    assert home.config_file.read_text() == "gateway:\n  max_turns: 5\n  max_resumes: 1\nlogs:\n  level: error\n"


@pytest.mark.parametrize(
    ("key", "text", "parts"),
    [
        ("gateway.max_turns", "many", ["gateway.max_turns is 'many'", "whole number", "nothing was changed"]),
        ("gateway.max_turns", "true", ["whole number"]),
        ("gateway.max_turns", "", ["whole number"]),
        ("gateway.max_turn", "5", ["no setting gateway.max_turn", "did you mean gateway.max_turns?"]),
        ("gateway", "5", ["gateway is a section"]),
        ("_config_version", "9", ["no setting _config_version"]),
        ("access.allowed_users", "@felix", ["user name", "hermes config set access.allowed_users telegram:123456789"]),
        ("access.allowed_users", "[telegram: 5]", ["a list, such as"]),
        ("OPENAI_API_KEY", "  ", ["No value given for OPENAI_API_KEY"]),
        ("OPENAI_API_KEY", "hush\nhush", ["line break"]),
        ("OPENAI_API_KEY", "hush\x1b[0m", ["control character"]),
    ],
)
def test_a_wrong_value_never_lands(home: Home, key: str, text: str, parts: list[str]) -> None:
    home.config_file.write_text(COMMENTED)
    with pytest.raises(ConfigError) as caught:
        set_value(home, key, text)
    for part in parts:
        assert part in str(caught.value)
    assert "hush" not in str(caught.value)
    assert home.config_file.read_text() == COMMENTED
    assert [entry.name for entry in home.root.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        "gateway:\n\tmax_turns: 5\n",
        "- a\n",
        "gateway: 5\n",
        "_config_version: 2\n",
        "a: &x {max_turns: 5}\ngateway: *x\n",
        "gateway: {max_turns: &x 5, max_resumes: *x}\n",
    ],
)
def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(home: Home, text: str) -> None:
    home.config_file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        set_value(home, "gateway.max_turns", "6")
    assert home.config_file.read_text() == text


def test_other_wrong_values_do_not_keep_one_from_being_mended(home: Home) -> None:
    home.config_file.write_text("gateway:\n  max_turns: many\n  max_resumes: many\n")
    set_value(home, "gateway.max_turns", "6")
    set_value(home, "gateway.max_resumes", "1")
    assert load(home).settings.gateway.max_turns == 6


def test_a_linked_file_stays_linked(home: Home, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("# mine\n")
    home.config_file.symlink_to(real)
    set_value(home, "logs.level", "error")
    assert home.config_file.is_symlink()
    assert real.read_text().startswith("# mine\n")
    assert load(home).settings.logs.level == "error"


def test_an_overruled_set_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.env_file.write_text("HERMES_MODEL=x\n")
    assert f"HERMES_MODEL in {home.env_file} overrides it" in set_value(home, "model.name", "y")
    monkeypatch.setenv("HERMES_MODEL", "z")
    assert "the environment variable HERMES_MODEL overrides it" in set_value(home, "model.name", "y")


def test_a_foreign_home_is_not_written_to(home: Home) -> None:
    (home.root / "auth.json").touch()
    with pytest.raises(ConfigError, match="another program"):
        set_value(home, "model.name", "x")
    assert [entry.name for entry in home.root.iterdir()] == ["auth.json"]


VALUES = ["sk-plain_1.2:3/4+5=", "with space", "a#b # c", "it's", 'say "hi"', 'it\'s "$HOME" `x` \\n', "ü€", "''", "\\"]


@pytest.mark.parametrize("value", VALUES)
def test_a_secret_reads_back_identically(home: Home, value: str) -> None:
    set_value(home, "OPENAI_API_KEY", value)
    secret = load(home).settings.secrets.openai_api_key
    assert secret is not None
    assert secret.get_secret_value() == value
    assert home.env_file.stat().st_mode & 0o777 == 0o600
    assert not home.config_file.exists()


def test_a_secret_replaces_its_own_line_only(home: Home) -> None:
    home.env_file.write_text("# keys\nOPENAI_API_KEY=old\nA=1 # why\nexport OPENAI_API_KEY='older'\n\nbroken line\n")
    home.env_file.chmod(0o644)
    told = set_value(home, "secrets.openai_api_key", "sk-new-secret-12345678")
    assert home.env_file.read_text() == "# keys\nA=1 # why\nOPENAI_API_KEY=sk-new-secret-12345678\n\nbroken line\n"
    assert home.env_file.stat().st_mode & 0o777 == 0o600
    assert told == f"OPENAI_API_KEY is now …5678 (in {home.env_file})."


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(("key", "file"), [("model.name", "config.yaml"), ("FAL_KEY", ".env")])
def test_a_failing_write_leaves_the_old_file(
    home: Home, monkeypatch: pytest.MonkeyPatch, step: str, key: str, file: str
) -> None:
    (home.root / file).write_text("# precious\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(ConfigError, match=r"no space left on device\. It was not changed"):
        set_value(home, key, "x")
    assert (home.root / file).read_text() == "# precious\n"
    assert [entry.name for entry in home.root.iterdir()] == [file]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_kill_nine_mid_set_leaves_the_old_file_and_a_usable_home(home: Home, step: str) -> None:
    home.config_file.write_text("# precious\n")
    code = (
        "import os, signal\n"
        f"os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from hermes_config.edit import set_value\n"
        "from hermes_config.places import Home\n"
        "set_value(Home.locate(), 'model.name', 'x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert home.config_file.read_text() == "# precious\n"
    set_value(home, "model.name", "y")
    assert load(home).settings.model.name == "y"


def test_sets_at_the_same_time_all_land(home: Home) -> None:
    keys = ["max_turns", "max_tool_runs", "max_waiting_per_session", "max_resumes", "max_sends_per_account"]
    threads = [threading.Thread(target=set_value, args=(home, f"gateway.{key}", "9")) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gateway = load(home).settings.gateway
    assert [getattr(gateway, key) for key in keys] == [9] * len(keys)
