"""Lines of .env: what they mean, and what happens to those that mean nothing."""

import pytest

from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.places import Home


def write_env(home: Home, content: str | bytes, mode: int = 0o600) -> None:
    home.env_file.write_bytes(content if isinstance(content, bytes) else content.encode())
    home.env_file.chmod(mode)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("HERMES_MODEL=a", "a"),
        ("  export HERMES_MODEL = a  ", "a"),
        ("HERMES_MODEL=a # why", "a"),
        ("HERMES_MODEL=a#b", "a#b"),
        ("HERMES_MODEL='a # b'", "a # b"),
        ("HERMES_MODEL='a\\b' # why", "a\\b"),
        ('HERMES_MODEL="a \\"b\\" \\\\ \\$c"', 'a "b" \\ $c'),
        ("HERMES_MODEL='a\\\\b\\'", "a\\\\b\\"),
        ("HERMES_MODEL=$HOME", "$HOME"),
        ("HERMES_MODEL=a=b", "a=b"),
        ("HERMES_MODEL=a\r", "a"),
        ("\ufeffHERMES_MODEL=a", "a"),
        ("HERMES_MODEL=", "demo"),
        ("HERMES_MODEL= # nothing", "demo"),
        ("HERMES_MODEL=a\nHERMES_MODEL=b", "b"),
    ],
)
def test_lines_are_read_as_people_mean_them(home: Home, line: str, value: str) -> None:
    write_env(home, line + "\n")
    loaded = load(home)
    assert loaded.settings.model.name == value
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    "line", ["sk-secret-token", "OPENAI_API_KEY='sk-secret-token", 'A="sk-secret-token" x', "1A=sk-secret-token", "=x"]
)
def test_a_broken_line_is_named_but_not_quoted(home: Home, line: str) -> None:
    write_env(home, f"# first\n{line}\nHERMES_MODEL=a\n")
    loaded = load(home)
    assert loaded.settings.model.name == "a"
    (warning,) = loaded.warnings
    assert f"{home.env_file} line 2" in warning
    assert "NAME=value" in warning
    assert "sk-secret" not in warning


def test_a_quote_that_is_never_closed_leaves_the_next_line_alone(home: Home) -> None:
    write_env(home, "OPENAI_API_KEY='sk-secret-token\nHERMES_MODEL='a'\n")
    loaded = load(home)
    assert loaded.settings.model.name == "a"
    (warning,) = loaded.warnings
    assert f"{home.env_file} line 1" in warning


def test_a_misspelt_name_is_pointed_out(home: Home) -> None:
    write_env(home, "TELEGRAM_BOT_TOKN=123:abc\nPATH_OF_SOMETHING=1\n")
    (warning,) = load(home).warnings
    assert "did you mean TELEGRAM_BOT_TOKEN?" in warning
    assert "123:abc" not in warning


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_others_can_read_warns_with_the_command(home: Home, mode: int) -> None:
    write_env(home, "FAL_KEY=x\n", mode)
    (warning,) = load(home).warnings
    assert f"chmod 600 {home.env_file}" in warning


def test_a_file_that_is_not_text_is_an_error(home: Home) -> None:
    write_env(home, b"A=1\nB=\xff\n")
    with pytest.raises(ConfigError, match=r"\.env line 2: not UTF-8"):
        load(home)


def test_a_token_in_the_wrong_variable_is_not_repeated(home: Home) -> None:
    write_env(home, "TELEGRAM_BOT_TOKEN=123456:secret-part\nGATEWAY_ALLOWED_USERS=123456:secret-part\n")
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert "secret-part" not in str(caught.value)
