"""`hermes status` beside a gateway, and without one."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.clock import now_ms
from gateway.lock import hold_home
from gateway.store import approvals, processes
from gateway.store.db.connection import Transaction, connect
from hermes_cli.main import hermes as command
from tests.gateway.store.rows import ADDRESS, a_process, a_question, an_asker
from tests.hermes_cli.running import hermes
from tools.backends.supervisor_child import started_ticks


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["status", *arguments])


def test_without_a_gateway_it_says_how_to_start_one_and_fails(home: Path) -> None:
    shown = hermes("status")
    assert shown.returncode == 1
    assert shown.stdout.splitlines() == [
        f"Home      {home}",
        "Gateway   not running (start it: hermes gateway run)",
        "Model     demo",
        "Messages  0 waiting, 0 running, 0 undelivered",
        "Access    0 on allowlists, 0 paired (hermes pairing list)",
    ]
    assert shown.stderr == ""


def test_it_says_whom_it_lets_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_ALLOWED_USERS", "123")
    assert "Access    1 on allowlists, 0 paired" in run().stdout
    monkeypatch.setenv("GATEWAY_ALLOW_ALL_USERS", "true")
    assert "ANYBODY can talk to the bot" in run().stdout


def test_background_processes_are_counted(home: Path, made: None) -> None:
    with closing(connect(home / "state.db", busy_timeout_seconds=1)) as connection:
        for name in ("a", "b", "ended"):
            process = a_process("20260322_124359_6b542f4e", name)
            if name != "ended":  # as if we kept it: only the other has ended, which nobody has noticed yet
                pid, started = os.getpid(), started_ticks(os.getpid())
                data = {**process.handle.data, "supervisor_pid": pid, "supervisor_started": started}
                process = replace(process, handle=replace(process.handle, data=data))
            processes.add(Transaction(connection), process)
    assert "Processes 2 running in the background" in run().stdout
    assert json.loads(run("--json").stdout)["processes"] == 2


def test_questions_that_wait_are_counted(home: Path, made: None) -> None:
    assert "Questions" not in run().stdout
    with closing(connect(home / "state.db", busy_timeout_seconds=1)) as connection:
        approvals.create(Transaction(connection), an_asker(), "c1", a_question(), ADDRESS, expires_ms=10**15)
    assert "Approvals 1 waiting for an answer: hermes approvals list\n" in run().stdout
    assert json.loads(run("--json").stdout)["questions"] == 1


def test_for_scripts_without_a_gateway(home: Path) -> None:
    shown = run("--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout) == {
        "home": str(home),
        "gateway": None,
        "waiting": 0,
        "running": 0,
        "undelivered": 0,
        "processes": 0,
        "questions": 0,
        "jobs": 0,
        "failing_jobs": 0,
        "people": 0,
        "asking": 0,
        "listed": 0,
        "model": "demo",
        "allow_all_users": False,
        "notices": [],
    }


STATE: dict[str, object] = {
    "state": "serving",
    "store": "",
    "platforms": {
        "socket": {"state": "connected", "problem": "", "last_heard_ms": 0},
        "telegram": {"state": "waiting", "problem": "no network", "last_heard_ms": 1},
    },
}


MODEL = {"name": "gpt-5", "answered_ms": 0, "problem": ""}
REFUSED = {"state": "needs operator", "problem": "The token was refused.", "last_heard_ms": 0}
TOLD: dict[str, tuple[dict[str, object], list[str], str]] = {
    "platforms": (
        {},
        ["Gateway   serving, pid ", "socket    connected\n", "telegram  waiting, last contact "],
        "Sandbox",
    ),
    "no sandbox": (
        {"sandbox_problem": "bubblewrap is not installed."},
        ["Sandbox   none, so the owner's commands run on this machine: bubblewrap is not"],
        "Page",
    ),
    "model and page": (
        {"model": MODEL, "web_port": 9000},
        ["Model     gpt-5\n", "Page      http://127.0.0.1:9000/ (sign in: hermes web)\n", " ago: no network\n"],
        "Store",
    ),
    "a model that fails": (
        {"model": MODEL | {"problem": "OpenAI does not accept the key."}, "web_port": 0},
        ["Model     gpt-5: OpenAI does not accept the key.\n"],
        "Page",
    ),
    "a refused token": (
        {"platforms": {"telegram": REFUSED}},
        ["telegram  stopped until you fix this: The token was refused.\n"],
        "needs operator",
    ),
    "a store that takes nothing": (
        {"store": "state.db cannot be used: the disk is full."},
        ["cannot accept messages: state.db cannot be used: the disk is full."],
        "Page",
    ),
}


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(("told", "parts", "absent"), TOLD.values(), ids=TOLD)
def test_beside_a_gateway_it_shows_what_that_tells(
    home: Path, told: dict[str, object], parts: list[str], absent: str
) -> None:
    with hold_home(home / "gateway.lock") as lock:
        lock.tell(STATE | told)
        shown, facts = run(), json.loads(run("--json").stdout)
    assert shown.exit_code == 0
    assert [part for part in parts if part not in shown.stdout] == []
    assert absent not in shown.stdout
    assert facts["gateway"]["platforms"] == (STATE | told)["platforms"]


@pytest.mark.usefixtures("made")
def test_a_gateway_that_has_told_nothing_yet(home: Path) -> None:
    with hold_home(home / "gateway.lock"):
        (home / "gateway.lock").write_bytes(b"")
        shown = run()
    assert shown.exit_code == 0
    assert "Gateway   unknown, pid None" in shown.stdout


@pytest.mark.usefixtures("made")
def test_a_damaged_store_is_said_and_the_rest_shown(home: Path) -> None:
    run()
    (home / "state.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    shown = run()
    assert shown.exit_code == 1
    assert "Store     state.db is damaged" in shown.stdout


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(("age_ms", "words"), [(5_000, "5 s"), (120_000, "2 min"), (7_200_000, "2 h"), (9e7, "1 d")])
def test_notices_are_shown_with_their_age(home: Path, age_ms: float, words: str) -> None:
    run()
    with closing(sqlite3.connect(home / "state.db")) as database, database:
        at_ms = now_ms() - int(age_ms)
        database.execute("INSERT INTO notices (at_ms, text) VALUES (?, 'The backup was restored.')", (at_ms,))
    assert f"Notice    {words} ago: The backup was restored." in run().stdout
