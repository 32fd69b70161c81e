"""`hermes approvals`."""

import json

import pytest

from hermes_cli.approvals import approvals
from tests.hermes_cli.running import hermes


def test_a_command_is_explained_and_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    approvals.main(["explain", "x=rm; sudo $x -rf /srv/data"], standalone_mode=False)
    assert capsys.readouterr().out.splitlines() == [
        "ask: It would be asked about.",
        "  because it deletes /srv/data with all that is in it",
        "  runs: sudo rm -rf /srv/data",
        "  runs: rm -rf /srv/data",
        "  a lasting yes would grant: recursive-delete /srv/data",
    ]


def test_scripts_get_json() -> None:
    run = hermes("approvals", "explain", "--json", "sh -c 'rm -rf /'")
    assert (run.returncode, run.stderr) == (0, "")
    told = json.loads(run.stdout)
    assert told["verdict"] == "block"
    assert told["reasons"] == ["it deletes /, which the system or a home consists of"]
    assert told["argv"] == [["sh", "-c", "rm -rf /"], ["rm", "-rf", "/"]]


def test_the_policy_can_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    approvals.main(["explain", "--policy", "unknown", "make"], standalone_mode=False)
    assert "because make is not known to be harmless" in capsys.readouterr().out
