"""`hermes trajectories`, and conversations that are saved as trajectories."""

import json
from pathlib import Path

from agent_core.trajectory import append, dump, from_sharegpt, read_rows
from agent_core.trajectory_checks import find_problems
from tests.hermes_cli.running import hermes

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def test_a_conversation_is_saved_and_exported_without_what_holds_for_one_person_only(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("user:\n  name: Ada Lovelace\n")
    assert hermes("memory", "set", "pet", "a tortoise").returncode == 0
    run = hermes("chat", "--save-trajectory", "-q", f"todo: milk {SECRET}")
    assert run.returncode == 0, run.stderr
    file = home / "trajectories" / "trajectories.jsonl"
    assert f"Trajectory added to {file}." in run.stderr
    [(_, saved)] = read_rows(file)
    [session, *_] = hermes("sessions", "list").stdout.split()
    told = hermes("sessions", "export", session, "--format", "sharegpt")
    exported = json.loads(told.stdout)
    assert saved is not None
    assert find_problems(saved) == find_problems(exported) == []
    assert saved["conversations"] == exported["conversations"]
    assert [turn["from"] for turn in saved["conversations"]] == ["system", "human", "gpt", "tool", "gpt"]
    assert saved["tool_stats"] == [{"tool": "todo", "calls": 1, "failures": 0}]
    text = file.read_text()
    assert not any(words in text for words in ("Lovelace", "tortoise", SECRET))
    offered = [tool["name"] for tool in from_sharegpt(saved["conversations"]).tools]
    assert "todo" in offered


def test_a_conversation_that_ended_with_a_failure_goes_to_the_failed_ones(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("model:\n  name: gpt-5\n")  # without a key
    run = hermes("chat", "--save-trajectory", "-q", "hello")
    assert run.returncode == 1
    assert "failed_trajectories.jsonl" in run.stderr
    [(_, row)] = read_rows(home / "trajectories" / "failed_trajectories.jsonl")
    assert row is not None
    assert row["completed"] is False
    assert find_problems(row) == []


def test_files_are_checked_counted_and_shortened(home: Path, tmp_path: Path) -> None:
    assert hermes("chat", "--save-trajectory", "-q", "add milk to my todo list").returncode == 0
    good, bad = home / "trajectories" / "trajectories.jsonl", tmp_path / "bad.jsonl"
    [(_, row)] = read_rows(good)
    assert row is not None
    append(bad, [dump(row), dump(row | {"conversations": []}), b"{torn"])
    assert hermes("trajectories", "check", str(good)).stdout == "1 rows, 0 broken.\n"
    checked = hermes("trajectories", "check", str(good), str(bad))
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        f"{bad}:2: `conversations` is missing or empty",
        f"{bad}:3: the line is no JSON object",
        "4 rows, 2 broken.",
    ]
    counted = json.loads(hermes("trajectories", "stats", str(bad), "--json").stdout)
    assert (counted["rows"], counted["broken"], counted["models"]) == (1, 2, {"demo": 1})
    assert "1 rows, 1 of them completed; 2 broken" in hermes("trajectories", "stats", str(bad)).stdout
    target = tmp_path / "short.jsonl"
    told = hermes("trajectories", "compress", str(bad), str(target), "--max-tokens", "100").stdout
    assert f"{target}: 1 trajectories, 0 of them shortened" in told
    assert "estimated, 4 bytes a token" in told
    assert "still too long: their protected turns alone exceed the limit" in told


def test_wrong_input_is_refused_in_a_sentence(home: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()
    (tmp_path / "there.jsonl").touch()
    given = ("trajectories", "compress", str(tmp_path / "in.jsonl"))
    for more, told in (
        ((str(tmp_path / "there.jsonl"), "--max-tokens=500"), "exists already"),
        ((str(tmp_path / "new.jsonl"), "--max-tokens=500", "--tokenizer", str(tmp_path)), "There is no tokenizer at"),
    ):
        refused = hermes(*given, *more)
        assert refused.returncode == 2
        assert told in " ".join(refused.stderr.split())
    assert not (tmp_path / "new.jsonl").exists()
