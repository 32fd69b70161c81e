"""The generated references agree with the code."""

from collections.abc import Callable

import pytest

from hermes_cli.reference import render_cli, render_commands
from tests.hermes_cli.running import ROOT


@pytest.mark.parametrize(("name", "render"), [("commands.md", render_commands), ("cli.md", render_cli)])
def test_it_is_up_to_date(name: str, render: Callable[[], str]) -> None:
    assert (ROOT / "docs" / name).read_text() == render(), "run `make docs`"


def test_every_command_is_in_it() -> None:
    assert "## hermes pairing approve\n" in render_cli()
    assert "| `/new, /reset` | Start a new conversation | chat, terminal | everyone |" in render_commands()
