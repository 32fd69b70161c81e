"""The tool itself: what it changes, what it leaves alone, and that it tells the tested line from the other."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import accepted
from tests.mutants.making import mutants_of, mutated
from tests.mutants.running import ROOT


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("x = a < b", ["a < b => a <= b"]),
        ("x = a is not None", ["a is not None => a is None"]),
        ("x = a and b", ["a and b => a or b"]),
        ("x = not a", ["not a => a"]),
        ("x = a + 5", ["a + 5 => a - 5", "5 => 6", "5 => 4"]),
        ("x = True", ["True => False"]),
        ("x = 1 if a else b", ["a => True", "a => False", "1 => 2", "1 => 0"]),
        ("x = [a for a in b if a]", ["a => True", "a => False"]),
        ("x = a == 'b'", ["a == 'b' => a != 'b'", "'b' => ''"]),
        ("x = {'a': 'b'}", ["'a' => ''"]),
        ("f(a)", ["f(a) => pass"]),
        ("a.b = c", ["a.b = c => pass"]),
        ("a -= b", ["a -= b => a += b", "a -= b => pass"]),
        ("raise a", ["raise a => pass"]),
        ("def f(a=None, *, b='c'): pass", ["'c' => ''", "None => ..."]),
        ("def f() -> bool: return a", ["return a => return True", "return a => return False"]),
        ("def f() -> str: return a", ["return a => return ''"]),
        ("def f() -> A: return a", ["return a => return None"]),
        ("x = f(1, 1)", ["1 => 2", "1 => 0", "1 => 2 #2", "1 => 0 #2"]),
        # Left alone
        ("'a docstring'", []),
        ("log.info('a', b=1)", []),
        ("x: Literal['a'] | None = a", []),
        ("X = Literal['a', 'b']", []),
        ("assert a is not None", []),
        ("def f() -> str: return f'{a + 1} for people'", []),
        ("@dataclass(frozen=True)\nclass A: pass", []),
        ("x = 'for people'", []),
    ],
)
def test_what_is_changed(code: str, changes: list[str]) -> None:
    found = mutants_of("m", code)
    assert [mutant.change for mutant in found] == changes
    trees = {ast.unparse(mutated(code, mutant)) for mutant in found}
    assert len(trees) == len(changes)
    assert ast.unparse(ast.parse(code)) not in trees


def test_an_explained_one_that_is_gone_or_caught_is_complained_about() -> None:
    one, other = mutants_of("m", "x = 1")
    known = accepted.read(
        f"# A heading\n\n{accepted.written(one)}why\n\nm\nx = 7 || 7 => 8\nwhy\n\nn\ny || 1 => 2\nwhy\n"
    )
    assert known[one.key] == "why"
    assert accepted.complaints(known, [one, other], [other]) == ["m | x = 7 | 7 => 8: no longer exists"]
    assert accepted.complaints(known, [one], [one])[0].endswith("is caught by now")


def test_the_untested_line_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy, where nobody changes a file meanwhile."""
    shutil.copytree(ROOT / "tests/mutants", tmp_path / "tests/mutants", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/__init__.py").touch()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # quicker
    command = [sys.executable, "-m", "tests.mutants", "tests.mutants.toy", "--json"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    outcomes = json.loads(run.stdout)["outcomes"]
    assert {(one["mutant"]["line"], one["caught_by"] is not None) for one in outcomes} == {(5, True), (9, False)}
