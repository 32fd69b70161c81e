"""Replacing a piece of a text: what is found, what is kept, what is refused."""

import pytest

from tools.builtin.patching import MAX_DIFF_LINES, PatchRefused, patch, unified_diff

CODE = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a b c\n", "b", "x", "a x c\n"),
        ("no end", "end", "newline", "no newline"),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\ny\r\nc\r\n"),
        ("a\nb", "\nb", "", "a"),
        ("\ufeffa\n", "a", "b", "\ufeffb\n"),
        ("caf\udce9 x\n", "x", "y", "caf\udce9 y\n"),
    ],
)
def test_what_stands_there_exactly_is_replaced_and_nothing_else(text: str, old: str, new: str, result: str) -> None:
    patched = patch(text, old, new)
    assert (patched.text, patched.replacements, patched.tolerant) == (result, 1, False)


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        (CODE, "def f(self):\n    return 1", "def f(self):\n    return 3", CODE.replace("return 1", "return 3")),
        (CODE, "  def f(self):\n      return 1\n", "  def h(self):\n      if x:\n          pass\n", None),
        ("\tif x:\n\t\ty\n", "if x:\n    y", "if z:\n    y", "\tif z:\n\t\ty\n"),
        ("a  \nb\t\nc\n", "a\nb\n", "x\ny\n", "x\ny\nc\n"),
        ("  a\r\n  b\r\n", "a\nb", "x\ny\nz", "  x\r\n  y\r\n  z\r\n"),
        ("  a\r\n  b", "a\nb", "x\ny", "  x\r\n  y"),
        ("  a\n  b", "a \nb ", "x\ny", "  x\n  y"),
        ("  a\n\n  b\n", "\na\n\nb\n\n", "x\n\ny\n", "  x\n\n  y\n"),
        ("  a\n  b\nc\n", "a \nb", "", "c\n"),
    ],
)
def test_white_space_around_lines_is_overlooked_and_the_files_own_kept(
    text: str, old: str, new: str, result: str | None
) -> None:
    patched = patch(text, old, new)
    if result is None:
        result = CODE.replace("    def f(self):\n        return 1", "    def h(self):\n        if x:\n            pass")
    assert (patched.text, patched.tolerant) == (result, True)


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        ("a", "", "b", "old_string is empty"),
        ("a", "a", "a", "are equal"),
        ("a\nb\n", "c", "d", "is not in the file. Read the file again"),
        ("a\nb\n", "b\nc", "d", "first line is at line 2"),
        ("a\nb\na\n", "a", "x", "occurs 2 times, at lines 1, 3"),
        ("  a\nb\n    a\n", "a \n", "x\n", "occurs 2 times, at lines 1, 3"),
        ("x\n" * 30, "x", "y", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more"),
        ("  a\n", "a ", "a", "Nothing would change"),
        ("if x:\n    a\n    b\n", "if x:\n    a\nb ", "c", "not in the file"),
        ("if x:\n    a\nb\n", "if x:\n    a\n    b ", "c", "not in the file"),
    ],
)
def test_what_is_not_clear_is_refused_with_a_way_out(text: str, old: str, new: str, words: str) -> None:
    with pytest.raises(PatchRefused) as refused:
        patch(text, old, new)
    assert words in str(refused.value)


def test_all_of_several_places_are_replaced_when_that_is_meant() -> None:
    assert patch("a b a\na", "a", "x", replace_all=True).replacements == 3
    tolerant = patch("  a\nb\n\ta\n", "a ", "x", replace_all=True)
    assert (tolerant.text, tolerant.replacements) == ("  x\nb\n\tx\n", 2)


def test_the_diff_is_unified_and_tells_of_a_missing_last_newline() -> None:
    diff = unified_diff("a\nb\nc", "a\nx\nc", "notes.txt").splitlines()
    assert diff[:3] == ["--- a/notes.txt", "+++ b/notes.txt", "@@ -1,3 +1,3 @@"]
    assert diff[3:] == [" a", "-b", "+x", " c", "\\ No newline at end of file"]


def test_a_diff_without_end_is_cut() -> None:
    diff = unified_diff("a\n" * 5_000, "b\n" * 5_000, "x")
    assert diff.count("\n") == MAX_DIFF_LINES
    assert "more lines of the diff omitted" in diff
