from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.models.arithmetic import NoAnswer, evaluate, find_expression


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("what is 17 * 23?", "391"),
        ("What's 17 x 23", "391"),
        ("how much is 1,000 plus 1?", "1001"),
        ("calculate (2 + 3) * 4", "20"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "about 0.3333333333"),
        ("7 divided by 2", "3.5"),
        ("2^10", "1024"),
        ("2 ** -2", "0.25"),
        ("17 % 5", "2"),
        ("17 // 5 =", "3"),
        ("-3 - -4", "1"),
        ("10 ÷ 4 × 2", "5"),
        ("1 ** 999999999999", "1"),
    ],
)
def test_sums_are_found_and_worked_out_exactly(text: str, answer: str) -> None:
    assert evaluate(find_expression(text)) == answer


@pytest.mark.parametrize(
    "text", ["", "hello", "what is love?", "what is 5?", "2024-01-31", "at 12:30", "-", "3.5", "x * y"]
)
def test_what_is_no_sum_is_left_alone(text: str) -> None:
    assert find_expression(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "zero"),
        ("0 ** -1", "zero"),
        ("9**9**9", "too large"),
        ("10 ** 100 ** 100", "too large"),
        ("2 ** 0.5", "whole powers"),
        ("2 + * 3", "cannot read"),
        ("007 + 1", "cannot read"),
        ("1(2 + 3)", "cannot read"),
        ("1 + " * 100 + "1", "too long"),
        ("(" * 150 + "1 + 1", "cannot read"),
    ],
)
def test_a_sum_without_an_answer_says_why(text: str, words: str) -> None:
    with pytest.raises(NoAnswer, match=words):
        evaluate(find_expression(text))


@given(st.text(alphabet="0123456789+-*/%(). ^x", max_size=60))
def test_any_line_of_signs_gives_an_answer_or_a_reason(text: str) -> None:
    with suppress(NoAnswer):
        assert evaluate(find_expression(text) or "0")
