"""`hermes sessions`: list, read and search."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_cli.main import hermes


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(hermes, arguments, input=typed)


@pytest.fixture(autouse=True)
def _two_conversations(tmp_path: Path) -> None:
    for question in ("what is 17 * 23?", "add a lighthouse to my todo list"):
        assert run("chat", "-q", question).exit_code == 0


def ids() -> list[str]:
    """The newest first."""
    return [session["id"] for session in json.loads(run("sessions", "list", "--json").stdout)]


def test_the_list_shows_the_newest_first() -> None:
    shown = run("sessions", "list")
    assert shown.exit_code == 0
    first, counted, second, _ = shown.stdout.splitlines()
    assert re.match(r"\d{8}_\d{6}_[0-9a-f]{8}  \d{4}-\d\d-\d\d \d\d:\d\d UTC  cli:[0-9a-f]{8}$", first)
    assert counted == "    4 messages  add a lighthouse to my todo list"
    assert first != second
    newest, oldest = json.loads(run("sessions", "list", "--json").stdout)
    assert (oldest["title"], oldest["platform"], oldest["messages"]) == ("what is 17 * 23?", "cli", 2)
    assert newest["ended_ms"] is None
    assert len(json.loads(run("sessions", "list", "--json", "--limit", "1").stdout)) == 1
    assert json.loads(run("sessions", "list", "--json", "--platform", "telegram").stdout) == []
    assert "Begin one" in run("sessions", "list", "--platform", "telegram").stdout


def test_every_line_of_a_hit_is_below_its_conversation() -> None:
    assert run("chat", "-q", "a tower\nby the sea\nwith a lantern").exit_code == 0
    first, *rest = run("sessions", "search", "--role", "user", "lantern").stdout.splitlines()
    assert first.endswith("  user")
    assert len(rest) > 1
    assert all(line.startswith("    ") for line in rest)


def test_a_conversation_can_be_read() -> None:
    shown = run("sessions", "show", ids()[0])
    assert shown.exit_code == 0
    lines = [line.partition("] ")[2] for line in shown.stdout.splitlines()]
    assert lines[0] == "user: add a lighthouse to my todo list"
    assert lines[1].startswith("assistant: → todo {")
    assert lines[2].startswith("tool: (todo) ")


def test_nothing_that_was_said_commands_the_terminal() -> None:
    run("chat", "-q", "what is \x1b]52;c;aGk=\x07\x1b[2J3 + 4?")
    for shown in (run("sessions", "show", ids()[0]), run("sessions", "list"), run("sessions", "search", "what")):
        assert "what is 3 + 4?" in shown.stdout
        assert "\x1b" not in shown.stdout


def test_a_conversation_for_scripts_is_in_the_words_of_the_api() -> None:
    rows = json.loads(run("sessions", "show", ids()[1], "--json").stdout)
    assert [(row["role"], row["content"]) for row in rows] == [
        ("user", "what is 17 * 23?"),
        ("assistant", "17 * 23 = 391"),
    ]
    assert all(row["created_ms"] > 0 for row in rows)
    assert len(json.loads(run("sessions", "show", ids()[1], "--json", "--limit", "1").stdout)) == 1


def test_a_conversation_is_named_by_its_key_and_by_nothing_that_fits_several() -> None:
    key = json.loads(run("sessions", "list", "--json").stdout)[1]["key"]
    assert "391" in run("sessions", "show", key).stdout
    for name in ("nobody", "2", "cli:", "%", "_", ""):
        shown = run("sessions", "show", name)
        assert (shown.exit_code, shown.stdout) == (1, ""), name
        assert "`hermes sessions list` shows them" in shown.stderr


@pytest.mark.parametrize("action", ["show", "export", "delete"])
def test_the_nearest_conversations_are_named(action: str) -> None:
    newest = ids()[0]
    misspelt = run("sessions", action, newest[:-1] + ("0" if newest[-1] != "0" else "1"))
    assert misspelt.exit_code == 1
    assert f"Did you mean {newest}" in misspelt.output
    assert all(one in run("sessions", action, newest[:8]).output for one in ids())
    assert "`hermes sessions list` shows them." in run("sessions", action, "zebra").output


def test_search_finds_what_was_said() -> None:
    found = run("sessions", "search", "lighthouse", "--role", "user")
    assert found.exit_code == 0
    assert ids()[0] in found.stdout
    hits = json.loads(run("sessions", "search", "light*", "--json").stdout)
    assert {hit["session_id"] for hit in hits} == {ids()[0]}
    for query in (("391",), ("17", "23"), ('"17 * 23"',), ("391", "NOT", "lighthouse")):
        hits = json.loads(run("sessions", "search", "--json", *query).stdout)
        assert {hit["session_id"] for hit in hits} == {ids()[1]}, query


def test_a_broken_query_is_searched_as_words() -> None:
    for query in ('"', "AND", "(((", "*", "a:b", "^", "-"):
        assert run("sessions", "search", "--", query).exit_code == 0, query


def test_search_can_be_narrowed() -> None:
    assert run("sessions", "search", "lighthouse", "--platform", "telegram").stdout == "Nothing found.\n"
    assert run("sessions", "search", "lighthouse", "--until", "2020-01-01").stdout == "Nothing found.\n"
    assert "lighthouse" in run("sessions", "search", "lighthouse", "--since", "2020-01-01").stdout


def test_wrong_usage() -> None:
    for arguments in (("search",), ("list", "--limit", "0"), ("search", "x", "--role", "boss")):
        assert run("sessions", *arguments).exit_code == 2, arguments


def test_other_people_are_searched_only_on_request() -> None:
    from gateway.messages import Sender, SessionKey
    from hermes_cli.opening import open_home, with_store
    from tests.gateway.store.exchange import exchange

    key = SessionKey(platform="telegram", kind="dm", chat="77")
    with_store(open_home(), lambda db: db.write(lambda tx: exchange(tx, "a canary", key=key, sender=Sender(id="77"))))
    for query in ("canary", '"a canary"', "can*", "canary OR lighthouse", "where is the canary?"):
        found = run("sessions", "search", query)
        assert "canary" not in found.stdout, query
    assert "--everyone" in run("sessions", "search", "canary").stderr
    [hit] = json.loads(run("sessions", "search", "canary", "--everyone", "--json").stdout)
    assert (hit["session_key"], hit["excerpt"]) == ("telegram:dm:77", "a canary")
    assert [(one["text"], one["match"]) for one in hit["window"]] == [("a canary", True), ("hi", False)]
    assert json.loads(run("sessions", "search", "canary", "--everyone", "--person", "nobody", "--json").stdout) == []
