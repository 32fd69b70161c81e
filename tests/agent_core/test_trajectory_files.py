"""Trajectory files are checked, counted and shortened."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from agent_core.trajectory import InputRefused, Row, append, dump, make_row, read_rows, to_sharegpt
from agent_core.trajectory_checks import ESTIMATE, find_problems, open_counter, sum_up
from agent_core.trajectory_compressor import Limits, compress, compress_file
from tests.agent_core.scripted import answering
from tests.programs import needs


def _conversation(rounds: int, output_chars: int = 4_000) -> list[Message]:
    messages = [user("count the files")]
    for number in range(rounds):
        call = ToolCall(id=f"c{number}", name="terminal", arguments='{"command": "ls"}')
        messages += [assistant(tool_calls=(call,), reasoning="look"), tool_result(call, "x" * output_chars)]
    return [*messages, assistant("done")]


def _row(rounds: int = 2, *, completed: bool = True) -> Row:
    messages = _conversation(rounds)
    turns = to_sharegpt(messages, [answering("terminal")], system="Be brief.")
    return make_row(turns, messages, model="demo", completed=completed)


def _turns(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"conversations": [{"from": speaker, "value": value} for speaker, value in turns]}


_CALL = '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>'
_RESULT = '<tool_response>\n{"tool_call_id": "1", "name": "b", "content": 1}\n</tool_response>'


def test_a_row_as_we_write_it_has_no_problems() -> None:
    assert find_problems(_row()) == []
    unanswered = _row() | {"conversations": _row()["conversations"][:3], "completed": False}
    assert find_problems(unanswered) == []  # a failed run may end anywhere


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"conversations": []}, "missing or empty"),
        ({"conversations": [{"from": "human"}]}, "`from` and `value`"),
        ({"model": None}, "`model` must be"),
        ({"timestamp": "yesterday"}, "ISO"),
        ({"tool_stats": {}}, "`tool_stats`"),
        (_turns(("human", "hi"), ("robot", "")), "neither"),
        (_turns(("gpt", "hi")), "begins with"),
        (_turns(("human", "hi"), ("system", "")), "first or not at all"),
        (_turns(("system", "<tools>\n{}\n</tools>"), ("human", ""), ("gpt", "")), "not a list of tools"),
        (_turns(("human", "hi"), ("gpt", "<tool_call>\n{}")), "not a whole region"),
        (_turns(("human", "hi"), ("gpt", _CALL), ("gpt", "")), "have no results"),
        (
            _turns(("human", "hi"), ("gpt", _CALL), ("tool", _RESULT), ("gpt", "")),
            "results of ['b'] for calls of ['a']",
        ),
        (_turns(("human", "hi"), ("gpt", ""), ("tool", "x")), "row of <tool_response>"),
        (_turns(("human", "hi"), ("gpt", _CALL)), "does not end with an answer"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(changes: Row, problem: str) -> None:
    assert any(problem in one for one in find_problems(_row() | changes)), find_problems(_row() | changes)


def test_rows_are_summed_up() -> None:
    told = sum_up([_row(), _row(completed=False), None], ESTIMATE)
    assert (told["rows"], told["completed"], told["broken"], told["turns"]) == (2, 1, 1, 14)
    assert told["tools"] == [{"tool": "terminal", "calls": 4, "failures": 0}]
    assert told["tokens_by"].startswith("estimated")


@settings(max_examples=40)
@given(rounds=st.integers(0, 8), most=st.integers(100, 9_000), first=st.integers(1, 5), last=st.integers(1, 5))
def test_a_shortened_trajectory_is_valid_and_keeps_its_ends(rounds: int, most: int, first: int, last: int) -> None:
    row = _row(rounds)
    turns = row["conversations"]
    shorter = compress(turns, Limits(max_tokens=most, first_turns=first, last_turns=last), ESTIMATE)
    assert find_problems(row | {"conversations": shorter}) == []
    assert shorter[: 1 + first] == turns[: 1 + first]
    assert shorter[-last:] == turns[-last:]
    before, after = (sum(ESTIMATE.count(turn["value"]) for turn in one) for one in (turns, shorter))
    assert after <= before or after <= most
    if before <= most:
        assert shorter == turns


def test_long_results_give_way_before_whole_turns_do() -> None:
    turns = _row(8)["conversations"]
    shorter = compress(turns, Limits(max_tokens=6_000), ESTIMATE)
    assert len(shorter) == len(turns)
    assert any("omitted" in turn["value"] for turn in shorter)
    tokens = sum(ESTIMATE.count(turn["value"]) for turn in shorter)
    fewer = compress(turns, Limits(max_tokens=tokens - 1), ESTIMATE)
    assert len(fewer) < len(turns)
    assert any("turns of this conversation were left out here" in turn["value"] for turn in fewer)


def test_a_file_is_shortened_into_a_new_one(tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    append(source, [dump(_row(1)), dump(_row(9)), b"{torn"])
    report = compress_file(source, target, Limits(max_tokens=5_000), ESTIMATE)
    assert [report[name] for name in ("rows", "shortened", "broken", "still_too_long")] == [2, 1, 1, 0]
    assert report["tokens_after"] < report["tokens_before"]
    rows = [row for _, row in read_rows(target)]
    assert [find_problems(row) for row in rows] == [[], []]
    with pytest.raises(InputRefused, match="exists already"):
        compress_file(source, target, Limits(max_tokens=5_000), ESTIMATE)
    with pytest.raises(InputRefused, match="no file"):
        compress_file(tmp_path / "none", tmp_path / "new", Limits(max_tokens=5_000), ESTIMATE)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_tokenizer_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"no tokenizer at .*tokenizer\.json"):
        open_counter(str(tmp_path))


@needs("research")
def test_tokens_are_counted_by_a_tokenizer_that_is_named(tmp_path: Path) -> None:
    tokenizer = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer | {"pre_tokenizer": {"type": "Whitespace"}}))
    counter = open_counter(str(tmp_path))
    assert counter.count("a b a") == 3
    assert counter.name == str(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputRefused, match="no tokenizer that can be read"):
        open_counter(str(tmp_path))
