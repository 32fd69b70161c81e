"""Only the commands on the list are run, word by word, and for real."""

from pathlib import Path
from typing import Any

import pytest

from playground.page.terminal import OwnerTerminal
from tests.playground.page.scene import Scene

TERMINAL = OwnerTerminal(command=(), environment={}, cwd=Path())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"command": "status"}, "status"),
        ({"command": "trace last"}, "trace last"),
        ({"command": "pairing list"}, "pairing list"),
        ({"command": "sessions list"}, "sessions list"),
        ({"command": "approvals list"}, "approvals list"),
        ({"command": "doctor --security"}, "doctor --security"),
        ({"command": "pairing approve", "platform": "slack", "code": "ABCD2345"}, "pairing approve slack ABCD2345"),
        ({"command": "pairing revoke", "platform": "slack", "user": "U0ADA00001"}, "pairing revoke slack U0ADA00001"),
    ],
)
def test_a_command_on_the_list_is_known(asked: dict[str, str], words: str) -> None:
    assert TERMINAL.arguments(asked) == words.split()


async def test_a_command_is_run_for_real(on: Scene) -> None:
    told = await on.post("api/terminal", {"command": "pairing approve", "platform": "telegram", "code": "ABCD2345"})
    line = "hermes pairing approve telegram ABCD2345"
    assert (told["line"], told["code"], told["output"]) == (line, 0, line + "\n")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"command": "gateway run"},
        {"command": "config set model.name evil"},
        {"command": "status; rm -rf /"},
        {"command": ["status"]},
        {"command": "status --json"},
        {"command": "doctor --live"},
        {"command": "approvals approve k7m2qx"},
        {"command": "pairing approve", "platform": "telegram", "code": "ABCD2345; id"},
        {"command": "pairing approve", "platform": "telegram", "code": "--help"},
        {"command": "pairing approve", "platform": "telegram", "code": "ABCD2345\n"},
        {"command": "pairing approve", "platform": "telegram", "code": ["ABCD2345"]},
        {"command": "pairing approve", "platform": "--role", "code": "ABCD2345"},
        {"command": "pairing revoke", "platform": "discord", "user": "$(id)"},
        {"command": "pairing revoke", "platform": "discord", "user": "--all"},
    ],
)
def test_anything_else_is_no_command(asked: Any) -> None:
    with pytest.raises(ValueError, match="The page may not run this command"):
        TERMINAL.arguments(asked)


async def test_what_is_refused_starts_nothing(on: Scene) -> None:
    told = await on.post("api/terminal", {"command": "status; id"}, status=400)
    assert told["problem"] == "The page may not run this command."
    await on.post("api/terminal", {"command": "status"})
    assert [call["arguments"] for call in on.calls() if call["arguments"] != ["gateway", "run"]] == [["status"]]


async def test_what_is_copied_works_in_a_shell_of_ones_own(on: Scene) -> None:
    async with on.session.get(f"{on.address}api/about") as answer:
        assert (await answer.json())["prefix"] == f"HERMES_HOME={on.on.home.root}"
