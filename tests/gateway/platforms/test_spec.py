"""The list of platforms fits the settings, and reading it loads no SDK."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.platforms.all import PLATFORMS, find_spec
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck
from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings


def test_every_section_of_the_settings_is_a_platform() -> None:
    assert {name for name, _ in Settings().platforms} == {spec.name for spec in PLATFORMS}


@pytest.mark.parametrize("spec", PLATFORMS, ids=lambda spec: spec.name)
def test_every_platform_is_built_from_its_section(spec: PlatformSpec, tmp_path: Path) -> None:
    setup = AccountSetup(account=f"{spec.name}@work", socket_path=tmp_path / "s", tokens=["t"] * len(spec.token_checks))
    platform = spec.build(setup, **dict(getattr(Settings().platforms, spec.name)))
    assert platform.account in (f"{spec.name}@work", "web")


@pytest.mark.parametrize("name", [spec.name for spec in PLATFORMS])
def test_every_token_of_a_platform_can_be_checked(name: str) -> None:
    secrets = [secret for secret in SECRETS if secret.per_account and name in secret.enables]
    checks = find_spec(f"{name}@work").token_checks
    assert len(checks) == len(secrets)
    assert all("{token}" in check.path + check.authorization for check in checks)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ({"result": {"username": "hermes_bot"}}, "hermes_bot"),
        ({"result": {"username": 7}}, ""),
        ({"result": "no object"}, ""),
        ({}, ""),
    ],
)
def test_the_bots_name_is_found_where_the_platform_puts_it(answer: dict[str, object], name: str) -> None:
    assert TokenCheck(path="/getMe", bot_name=("result", "username")).find_bot_name(answer) == name
    assert TokenCheck(path="/getMe").find_bot_name(answer) == ""


def test_reading_the_list_loads_no_sdk() -> None:
    code = (
        "import sys, gateway.platforms.all as all\nprint([one.sdk for one in all.PLATFORMS if one.sdk in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
