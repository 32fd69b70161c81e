"""The faults that can be put into a module. Pure: a tree goes in, changed trees come out, no file is touched.

Left out: text for people, docstrings, log lines, asserts (they narrow types), annotations and decorators.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

_PAIRS: list[tuple[type[Any], type[Any]]] = [
    *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.BitAnd, ast.BitOr)),
]
_SWAPS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_TYPE_FIELDS = {"annotation", "returns", "decorator_list"}
_RETURNED: dict[str, tuple[Any, ...]] = {"bool": (True, False), "int": (0,), "str": ("",)}
_SHOWN_CHARS = 100


class _Spot(NamedTuple):
    """A place in a tree where one node stands and another could."""

    node: ast.AST
    parent: ast.AST
    field: str
    position: int | None
    returns: str  # the annotation of the function around it


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    module: str
    line: int
    source: str  # the line as it stands
    change: str
    spot: int
    choice: int

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, self.source, self.change


def mutants_of(module: str, source: str) -> list[Mutant]:
    lines, found = source.splitlines(), []
    seen: Counter[tuple[int, str]] = Counter()
    for number, spot in enumerate(_spots(ast.parse(source))):
        for choice, other in enumerate(_others(spot)):
            line = getattr(spot.node, "lineno", 1)
            change = f"{_short(spot.node)} => {_short(other)}"
            seen[line, change] += 1
            if seen[line, change] > 1:  # the same words twice in a line
                change += f" #{seen[line, change]}"
            text = lines[line - 1].strip()
            found.append(Mutant(module=module, line=line, source=text, change=change, spot=number, choice=choice))
    return found


def mutated(source: str, mutant: Mutant) -> ast.Module:
    tree = ast.parse(source)
    spot = list(_spots(tree))[mutant.spot]
    other = ast.copy_location(_others(spot)[mutant.choice], spot.node)
    if spot.position is None:
        setattr(spot.parent, spot.field, other)
    else:
        getattr(spot.parent, spot.field)[spot.position] = other
    return ast.fix_missing_locations(tree)


def _spots(parent: ast.AST, returns: str = "") -> Iterator[_Spot]:
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = ast.unparse(parent.returns) if parent.returns else ""
    for field, value in ast.iter_fields(parent):
        for position, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and field not in _TYPE_FIELDS and not _is_left_out(node):
                yield _Spot(node, parent, field, position, returns)
                yield from _spots(node, returns)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case (
            ast.JoinedStr()
            | ast.Assert()
            | ast.Expr(value=ast.Constant())
            | ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log"))))
            | ast.Subscript(value=ast.Name(id="Literal" | "Callable" | "Annotated"))
            | ast.If(test=ast.Name(id="TYPE_CHECKING"))
        ):
            return True
    return False


def _others(spot: _Spot) -> list[ast.AST]:
    """What could stand there instead, each once."""
    found = [*_conditions(spot), *_defaults(spot), *_swapped(spot.node), *_statements(spot)]
    if isinstance(spot.node, ast.Constant):
        found += _constants(spot.node.value, spot)
    return list({ast.unparse(other): other for other in found if ast.unparse(other) != ast.unparse(spot.node)}.values())


def _conditions(spot: _Spot) -> list[ast.AST]:
    """One that always or never holds; a loop that never ends would only hang."""
    if spot.field == "ifs" or (spot.field == "test" and isinstance(spot.parent, ast.If | ast.IfExp)):
        return [ast.Constant(True), ast.Constant(False)]
    return [ast.Constant(False)] if spot.field == "test" else []


def _defaults(spot: _Spot) -> list[ast.AST]:
    """Of arguments and fields; numbers and truths are changed as everywhere."""
    is_argument = spot.field in ("defaults", "kw_defaults")
    match spot.node:
        case ast.Constant(value=str() as text) if is_argument or isinstance(spot.parent, ast.AnnAssign):
            return [ast.Constant("" if text else "mutant")]
        case ast.Constant(value=None) if is_argument:
            return [ast.Constant(...)]
        case ast.Name() | ast.Attribute() if is_argument:
            return [ast.Constant(None)]
    return []


def _swapped(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _SWAPS:
            return [ast.Compare(node.left, [_SWAPS[type(op)]()], node.comparators)]
        case ast.BoolOp():
            return [ast.BoolOp(_SWAPS[type(node.op)](), node.values)]
        case ast.BinOp() if type(node.op) in _SWAPS:
            return [ast.BinOp(node.left, _SWAPS[type(node.op)](), node.right)]
        case ast.AugAssign() if type(node.op) in _SWAPS:
            return [ast.AugAssign(node.target, _SWAPS[type(node.op)](), node.value)]
        case ast.UnaryOp(op=ast.Not()):
            return [node.operand]
    return []


def _constants(value: object, spot: _Spot) -> list[ast.AST]:
    match value:
        case bool():
            return [ast.Constant(not value)]
        case int() | float():
            return [ast.Constant(value + 1), ast.Constant(value - 1)]
        case str() if value and (
            isinstance(spot.parent, ast.Compare | ast.Subscript | ast.Tuple | ast.Set | ast.List)
            or (isinstance(spot.parent, ast.Dict) and spot.field == "keys")
        ):
            return [ast.Constant("")]
    return []


def _statements(spot: _Spot) -> list[ast.AST]:
    match spot.node:
        case ast.Return(value=ast.JoinedStr() | ast.Constant(value=None) | None):
            return []  # text for people, or nothing
        case ast.Return():  # None in place of a truth or a number would be the same, or crash
            return [ast.Return(ast.Constant(value)) for value in _RETURNED.get(spot.returns, (None,))]
        case (ast.Expr(value=ast.Call() | ast.Await()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])) | (
            ast.Raise() | ast.AugAssign() | ast.Delete()
        ):
            return [ast.Pass()]
    return []


def _short(node: ast.AST) -> str:
    words = " ".join(ast.unparse(node).split())
    return words if len(words) <= _SHOWN_CHARS else f"{words[: _SHOWN_CHARS - 1]}…"
