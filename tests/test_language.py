"""The worst of what makes a codebase hard to read, kept out: riddles, one name for two things, endless lines."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "hermes_cli",
    "gateway",
    "environments",
    "agent_core",
    "skills",
    "tools",
    "hooks",
    "hermes_config",
    "playground",
)
MAX_COLUMNS = 120

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text())


def test_no_docstring_begins_with_what() -> None:
    wrong = [
        f"{path}:{getattr(node, 'lineno', 1)}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, Documented) and (ast.get_docstring(node) or "").startswith("What")
    ]
    assert not wrong


def test_every_public_class_name_exists_once() -> None:
    places = defaultdict(list)
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_lines_of_the_docs_fit_a_screen() -> None:
    """Rows of tables and lines of code cannot be wrapped."""
    wrong = []
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]):
        in_code = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            in_code ^= line.lstrip().startswith("```")
            if len(line) > MAX_COLUMNS and not in_code and not line.startswith(("|", "<", "    ")):
                wrong.append(f"{path.relative_to(ROOT)}:{number}")
    assert not wrong
