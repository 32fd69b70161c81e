"""Wrong files and values: each message says what is wrong, where, and how to fix it."""

import pytest

from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.places import Home
from tests.privileges import bound_by_file_modes

SET = "hermes config set"

FILES: list[tuple[str | bytes, list[str]]] = [
    ("gateway:\n  max_turns: many\n", ["line 2", "gateway.max_turns is 'many'", "whole number from 1", SET]),
    ("gateway:\n  max_turns: '12'\n", ["line 2", "is '12'", "whole number", f"{SET} gateway.max_turns 512"]),
    ("gateway:\n  max_turns: 0\n", ["is 0", "from 1 to 100000"]),
    ("gateway:\n  max_turns: 1000000000000000000000000\n", ["from 1 to 100000"]),
    ("gateway:\n  max_turns: true\n", ["is true", "whole number"]),
    ("gateway:\n  max_turns: [1]\n", ["is a list", "whole number"]),
    ("gateway:\n  max_turns: {a: 1}\n", ["is a section", "whole number"]),
    ("gateway:\n  max_turns: 2020-01-01\n", ["is '2020-01-01'", "whole number"]),
    ("gateway:\n  drain_timeout_seconds: .inf\n", ["is inf", "a number from 0 to 3600"]),
    ("gateway:\n  send_timeout_seconds: 0\n", ["is 0", "a number above 0 and up to 600"]),
    ("gateway:\n  busy_mode: hurry\n", ["is 'hurry'", "must be steer, interrupt, queue or collect"]),
    ("platforms:\n  socket:\n    enabled: 1\n", ["line 3", "platforms.socket.enabled is 1", "true or false"]),
    ("platforms:\n  socket: yes\n", ["line 2", "platforms.socket is 'yes'", "must be a section"]),
    ("model:\n  name: 4\n", ["model.name is 4", "text"]),
    ("model:\n  name: ''\n", ["model.name is ''", "not empty"]),
    ('model:\n  name: "a\\nb"\n', ["single line"]),
    ("model:\n  base_url: openrouter.ai\n", ["is 'openrouter.ai'", "http:// or https://", f"{SET} model.base_url"]),
    ("model:\n  base_url: ftp://host/\n", ["http:// or https://"]),
    ("model:\n  base_url: https://me:pass1234@host/\n", ["must not contain a user name or password"]),
    ("user:\n  timezone: Berlin\n", ["is 'Berlin'", "Europe/Berlin"]),
    ("user:\n  timezone: ../../etc/passwd\n", ["time zone name"]),
    (
        "access:\n  allowed_users: ['@felix']\n",
        ["line 2", "'@felix'", "user name", "@userinfobot", "telegram:123456789"],
    ),
    ("access:\n  owner_users: [telegram:felix, 5]\n", ["'telegram:felix'", "user name"]),
    ("access:\n  allowed_users: ['*']\n", ["access.allow_all_users"]),
    ("access:\n  allowed_users:\n    - telegram: 5\n", ["access.allowed_users", "a list, such as"]),
    ("access:\n  allowed_users: [true]\n", ["access.allowed_users", "a list, such as"]),
    (
        "access:\n  alowed_users: [5]\n",
        ["line 2", "access.alowed_users", "did you mean access.allowed_users?", "guards"],
    ),
    ("budgets:\n  prices: [gpt-5=1.25]\n", ["'gpt-5=1.25'", "gpt-5=1.25:0.125:10"]),
    ("budgets:\n  prices: ['a=1:1:1', 'a=2:2:2']\n", ["has a twice"]),
    ("budgets:\n  people: ['telegram:123=lots']\n", ["'telegram:123=lots'", "telegram:123456789=500000"]),
    ("budgets:\n  people: ['felix=500']\n", ["'felix'", "user name"]),
    ("sessions:\n  reset_exceptions: [telegram=never]\n", ["'telegram=never'", "telegram:group=daily", "web=none"]),
    ("sessions:\n  reset_exceptions: [telegram:dm=idle:0]\n", ["'telegram:dm=idle:0'"]),
    ("sessions:\n  reset_exceptions: ['discord=daily:24']\n", ["'discord=daily:24'"]),
    ("sessions:\n  reset_exceptions: [web=none:5]\n", ["'web=none:5'"]),
    ("sessions:\n  reset_exceptions: [telegram:pub=idle]\n", ["'telegram:pub=idle'"]),
    ("sessions:\n  reset_exceptions: [telegram:dm=both:60]\n", ["'telegram:dm=both:60'", "both:120:6"]),
    ("sessions:\n  reset_exceptions: [web=none, web=idle]\n", ["has web twice", "keep one"]),
    ("retention:\n  inbox_days: 2\n", ["retention.inbox_days is 2", "0 (forever) or at least 3"]),
    ("approvals:\n  mode: never\n", ["line 2", "approvals.mode is 'never'", "ask, deny or off"]),
    ("approvals:\n  command_allowlist: [make]\n", ["line 2", "There is no setting approvals.command_allowlist"]),
    ("command_allowlist: ['*']\n", ["line 1", "'*' would allow every command", "approvals.mode"]),
    ("command_allowlist: [make, ' ']\n", ["line 1", "1 to 1,000 characters", "git push origin *"]),
    ("command_allowlist: {make: true}\n", ["line 1", "command_allowlist"]),
    ("approvals:\n  mod: off\n", ["line 2", "did you mean approvals.mode?", "guards"]),
    ("agent:\n  enabled_toolsets: ['no such name!']\n", ["'no such name!'", "todo or clock"]),
    ("gateway.max_turns: 5\n", ["line 1", "gateway.max_turns must be written as max_turns indented below `gateway:`"]),
    ("gateway: [max_turns]\n", ["gateway is a list", "must be a section"]),
    ("just words\n", ["line 1", "must contain sections", "'just words'"]),
    ("- a\n- b\n", ["line 1", "must contain sections", "a list"]),
    ("gateway:\n\tmax_turns: 5\n", ["line 2", "a tab", "spaces", "edit that line"]),
    ("gateway:\n  max_turns: 5\n  max_turns: 6\n", ["line 3", "max_turns is given twice"]),
    ("gateway:\n  max_turns: [1, 2\nlogs: {}\n", ["line 3", "not valid YAML: expected `,` or `]`, but got `:`"]),
    (
        "gateway:\n  max_turns: 5\n max_resumes: 6\n",
        ["line 3", "not valid YAML: expected <block end>, but found `<block mapping start>`", "indentation"],
    ),
    ("gateway: @hush\n", ["line 1", "not valid YAML: found character `@` that cannot start any token"]),
    ("a: b: c\n", ["line 1", "not valid YAML", "mapping values are not allowed"]),
    ("gateway: *nothing\n", ["line 1", "not valid YAML"]),
    ("gateway: {}\n---\nlogs: {}\n", ["line 2", "a second document"]),
    (b"gateway:\n  max_turns: 5 # gr\xfc\xdfe\n", ["line 2", "not UTF-8", "save the file as UTF-8"]),
    (b"gateway:\n  busy_mode: \x00\n", ["line 2", "does not allow"]),
    ("[" * 700, ["nested too deeply"]),
    ("a" * 1_000_001, ["larger than"]),
    ("_config_version: 2\n", ["line 1", "newer Hermes", "update Hermes"]),
    ("_config_version: one\n", ["line 1", "_config_version is 'one'", "whole number"]),
    ("_config_version: true\n", ["_config_version is true"]),
    ("secrets:\n  fal_key: hush-hush\n", ["line 1", "secrets is a secret", ".env"]),
    ("TELEGRAM_BOT_TOKEN: hush-hush\n", ["line 1", f"{SET} TELEGRAM_BOT_TOKEN …", ".env"]),
    ("model:\n  openai_api_key: hush-hush\n", ["line 2", f"{SET} OPENAI_API_KEY …"]),
    ("OPENAI_API_KEY: hush-hush\nOPENAI_API_KEY: hush-hush\n", ["line 2", "OPENAI_API_KEY is given twice"]),
    ("FAL_KEY: *hush-hush\n", ["line 1", "not valid YAML"]),
    ("FAL_KEY: 'hush-hush\n", ["not valid YAML"]),
]


@pytest.mark.parametrize(("content", "parts"), FILES, ids=[repr(content[:40]) for content, _ in FILES])
def test_a_wrong_file_is_explained(home: Home, content: str | bytes, parts: list[str]) -> None:
    home.config_file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        load(home)
    message = str(caught.value)
    for part in [str(home.config_file), *parts]:
        assert part in message
    for leak in ["hush", "pass1234", "Traceback", "pydantic", "Input should", "validation"]:
        assert leak not in message


VARIABLES = [
    ("HERMES_MAX_ITERATIONS", "many", ["agent.max_iterations is 'many'", "whole number from 1 to 1000"]),
    ("HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS", "inf", ["a number from 0 to 3600"]),
    ("HERMES_GATEWAY__MAX_TURNS", "true", ["gateway.max_turns is 'true'", "whole number"]),
    ("GATEWAY_ALLOW_ALL_USERS", "perhaps", ["access.allow_all_users is 'perhaps'", "true or false"]),
    ("GATEWAY_ALLOWED_USERS", "telegram:1,@felix", ["'@felix'", "user name", "Copy member ID"]),
    ("TELEGRAM_ALLOWED_USERS", "7,discord:12", ["'discord:12' is an id of another platform", "access.allowed_users"]),
    ("DISCORD_ALLOWED_USERS", "telegram@work:12", ["another platform", "discord:12"]),
    ("OPENAI_BASE_URL", "localhost:8080", ["model.base_url is 'localhost:8080'", "http:// or https://"]),
    ("HERMES_MODEL", "a\x1bb", ["model.name", "single line"]),
    ("HERMES_MODEL", "a\udcffb", ["model.name"]),
    ("HERMES_ACCESS__ALLOW_EVERYBODY", "1", ["There is no setting access.allow_everybody"]),
    ("HERMES_APPROVALS__MODUS", "off", ["There is no setting approvals.modus"]),
]


@pytest.mark.parametrize(("name", "text", "parts"), VARIABLES)
def test_a_wrong_variable_is_explained(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str, text: str, parts: list[str]
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError) as caught:
        load(home)
    message = str(caught.value)
    for part in [f"environment {name}", "orrect or unset", *parts]:
        assert part in message
    message.encode()


def test_a_wrong_line_of_env_names_file_line_and_variable(home: Home) -> None:
    home.env_file.touch(mode=0o600)
    home.env_file.write_text("\nHERMES_MAX_ITERATIONS=many\n")
    with pytest.raises(ConfigError) as caught:
        load(home)
    for part in [f"{home.env_file} line 2 (HERMES_MAX_ITERATIONS)", "'many'", "correct or delete that line"]:
        assert part in str(caught.value)


def test_two_wrong_users_are_two_lines(home: Home) -> None:
    home.config_file.write_text("access:\n  allowed_users: [ann, 5, bob]\n")
    with pytest.raises(ConfigError) as caught:
        load(home)
    first, second = str(caught.value).splitlines()
    assert "'ann'" in first
    assert "'bob'" in second


def test_a_directory_in_place_of_the_file_is_explained(home: Home) -> None:
    home.config_file.mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        load(home)


def test_an_unreadable_file_is_explained(home: Home) -> None:
    home.config_file.touch(mode=0)
    with bound_by_file_modes(), pytest.raises(ConfigError, match="permission denied"):
        load(home)


def test_a_file_made_of_aliases_does_not_eat_the_memory(home: Home) -> None:
    layers = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    layers += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
    home.config_file.write_text("\n".join([*layers, "gateway: {max_turns: *i}", "access: {allowed_users: *i}"]))
    with pytest.raises(ConfigError, match=r"gateway\.max_turns is a list"):
        load(home)
