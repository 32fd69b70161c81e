"""The generated references agree with the code."""

import subprocess
import sys

import pytest

from tests.hermes_cli.running import ROOT


@pytest.mark.parametrize(
    ("name", "render", "sample"),
    [
        ("commands.md", "render_commands", "| `/new, /reset` | Start a new conversation | chat, terminal | everyone |"),
        ("cli.md", "render_cli", "## hermes pairing approve\n"),
    ],
)
def test_it_is_up_to_date(name: str, render: str, sample: str) -> None:
    # In a process of its own: click remembers the help option of a command as other tests have called it.
    program = f"from hermes_cli.reference import {render}; print({render}(), end='')"
    fresh = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert sample in fresh
    assert (ROOT / "docs" / name).read_text() == fresh, "run `make docs`"
