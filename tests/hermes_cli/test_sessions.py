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


def test_the_list_for_scripts() -> None:
    newest, oldest = json.loads(run("sessions", "list", "--json").stdout)
    assert (oldest["title"], oldest["platform"], oldest["messages"]) == ("what is 17 * 23?", "cli", 2)
    assert newest["ended_ms"] is None
    assert json.loads(run("sessions", "list", "--json", "--platform", "telegram").stdout) == []
    assert len(json.loads(run("sessions", "list", "--json", "--limit", "1").stdout)) == 1


def test_every_line_of_a_hit_is_below_its_conversation() -> None:
    assert run("chat", "-q", "a tower\nby the sea\nwith a lantern").exit_code == 0
    first, *rest = run("sessions", "search", "--role", "user", "lantern").stdout.splitlines()
    assert first.endswith("  user")
    assert len(rest) > 1
    assert all(line.startswith("    ") for line in rest)


def test_an_empty_list_says_how_to_begin() -> None:
    assert "Begin one" in run("sessions", "list", "--platform", "telegram").stdout


def test_a_conversation_can_be_read() -> None:
    shown = run("sessions", "show", ids()[0])
    assert shown.exit_code == 0
    lines = [line.partition("] ")[2] for line in shown.stdout.splitlines()]
    assert lines[0] == "user: add a lighthouse to my todo list"
    assert lines[1].startswith("assistant: → todo {")
    assert lines[2].startswith("tool: (todo) ")


def test_a_conversation_for_scripts_is_in_the_words_of_the_api() -> None:
    rows = json.loads(run("sessions", "show", ids()[1], "--json").stdout)
    assert [(row["role"], row["content"]) for row in rows] == [
        ("user", "what is 17 * 23?"),
        ("assistant", "17 * 23 = 391"),
    ]
    assert all(row["created_ms"] > 0 for row in rows)
    assert len(json.loads(run("sessions", "show", ids()[1], "--json", "--limit", "1").stdout)) == 1


def test_a_key_names_its_newest_session() -> None:
    key = json.loads(run("sessions", "list", "--json").stdout)[1]["key"]
    assert "391" in run("sessions", "show", key).stdout


@pytest.mark.parametrize("name", ["nobody", "2", "cli:", "%", "_", ""])
def test_a_name_that_fits_none_or_several_is_refused(name: str) -> None:
    shown = run("sessions", "show", name)
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert "`hermes sessions list` shows them" in shown.stderr


def test_search_finds_what_was_said() -> None:
    found = run("sessions", "search", "lighthouse", "--role", "user")
    assert found.exit_code == 0
    assert ids()[0] in found.stdout
    hits = json.loads(run("sessions", "search", "light*", "--json").stdout)
    assert {hit["session_id"] for hit in hits} == {ids()[0]}


@pytest.mark.parametrize("query", [("391",), ("17", "23"), ('"17 * 23"',), ("391", "NOT", "lighthouse")])
def test_search_takes_words_and_phrases(query: tuple[str, ...]) -> None:
    hits = json.loads(run("sessions", "search", "--json", *query).stdout)
    assert {hit["session_id"] for hit in hits} == {ids()[1]}


@pytest.mark.parametrize("query", ['"', "AND", "(((", "*", "a:b", "^", "-"])
def test_a_broken_query_is_searched_as_words(query: str) -> None:
    found = run("sessions", "search", "--", query)
    assert found.exit_code == 0, found.output


def test_search_can_be_narrowed() -> None:
    assert run("sessions", "search", "lighthouse", "--platform", "telegram").stdout == "Nothing found.\n"
    assert run("sessions", "search", "lighthouse", "--until", "2020-01-01").stdout == "Nothing found.\n"
    assert "lighthouse" in run("sessions", "search", "lighthouse", "--since", "2020-01-01").stdout


@pytest.mark.parametrize("arguments", [("search",), ("list", "--limit", "0"), ("search", "x", "--role", "boss")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run("sessions", *arguments).exit_code == 2
