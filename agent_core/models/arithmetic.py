"""Evaluate arithmetic as people type it, exactly and within bounds. Runs no code."""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

MAX_CHARS = 200
MAX_BITS = 900  # of a numerator or denominator: some 270 digits, and still a float
_TOO_LARGE = "That number is too large for me."


class NoAnswer(Exception):
    """The expression cannot be evaluated. The text says why, for people."""


_QUESTION = re.compile(r"^(?:please\s+)?(?:what\s+is|what['’]?s|how\s+much\s+is|calculate|compute|evaluate)\s+", re.I)
_WORDS = {
    r"\bplus\b": "+",
    r"\bminus\b|−": "-",
    r"\b(?:times|multiplied\s+by)\b|(?<=[\d)\s])[x×·](?=[\d(\s])": "*",
    r"\b(?:divided\s+by|over)\b|÷": "/",
    r"\bto\s+the\s+power\s+of\b|\^": "**",
    r"(?<=\d),(?=\d{3}(?!\d))": "",  # 1,000
}
_SUM = re.compile(r"[\d\s.+\-*/%()]+")
_OPERATOR_BETWEEN = re.compile(r"[\d).]\s*[-+*/%]+\s*[\d(.+-]")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}")

_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: operator.mod,
}


def find_expression(text: str) -> str:
    """Return the expression that the text asks for, in plain notation; empty when it asks for something else."""
    if len(text) > 5 * MAX_CHARS:
        return ""
    found = _QUESTION.sub("", text.strip()).rstrip("?=.! \t\n")
    for pattern, plain in _WORDS.items():
        found = re.sub(pattern, plain, found, flags=re.I)
    found = " ".join(found.split())
    is_sum = _SUM.fullmatch(found) and _OPERATOR_BETWEEN.search(found) and not _DATE.fullmatch(found)
    return found if is_sum else ""


def evaluate(question: str) -> str:
    """Return the result in digits, as "about …" when it is rounded. Raises NoAnswer."""
    if len(question) > MAX_CHARS:
        raise NoAnswer("That expression is too long for me.")
    try:
        value = _evaluate_node(ast.parse(question, mode="eval").body)
    except ZeroDivisionError as error:
        raise NoAnswer("Dividing by zero has no answer.") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoAnswer("I cannot read that expression.") from error
    if value.denominator == 1:
        return str(value.numerator)
    digits = f"{float(value):.10g}"
    return digits if Fraction(digits) == value else f"about {digits}"


def _evaluate_node(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return _check_size(Fraction(str(number)))
        case ast.UnaryOp(op=ast.USub()):
            return -_evaluate_node(node.operand)
        case ast.UnaryOp(op=ast.UAdd()):
            return _evaluate_node(node.operand)
        case ast.BinOp(op=ast.Pow()):
            base, exponent = _evaluate_node(node.left), _evaluate_node(node.right)
            if exponent.denominator != 1:
                raise NoAnswer("I can only raise to whole powers.")
            # Checked before it is worked out: 9**9**9 would keep the process busy for good.
            if _bits(base) * abs(exponent) > MAX_BITS and abs(base) not in (0, 1):
                raise NoAnswer(_TOO_LARGE)
            return _check_size(Fraction(base ** int(exponent)))
        case ast.BinOp() if type(node.op) in _OPERATORS:
            return _check_size(_OPERATORS[type(node.op)](_evaluate_node(node.left), _evaluate_node(node.right)))
    raise NoAnswer("I cannot read that expression.")


def _check_size(value: Fraction) -> Fraction:
    if _bits(value) > MAX_BITS:
        raise NoAnswer(_TOO_LARGE)
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
