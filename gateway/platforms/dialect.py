"""Configure markdown-it for the Markdown that models write in chats. Import this only when there is something to parse.

Emphasis is stricter than CommonMark between ASCII letters and digits, where models write arithmetic and names, and
looser beside other scripts, which do without spaces. Formulas, bare addresses and HTML tags are literal text. Tables
keep every cell, since models miscount. A line break stays a line break.
"""

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote, fence, heading, list_block, paragraph
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.rules_inline.state_inline import Delimiter

BlockRule = Callable[[StateBlock, int, int, bool], bool]
InlineRule = Callable[[StateInline, bool], bool]

_MAX_DEPTH = 12  # of quotes and lists within each other; what is deeper is text
_MAX_HEADING_INDENT = 4
_MAX_LABEL_CHARS = 1_000  # of a link
_MAX_RUN = 8  # longer runs of * or _ are decoration
_MATH_LINES = 60  # longer than any formula; without a bound, openings that never close would cost the square
_AFTER_A_SENTENCE = ":.,;!?)]%\"'…"
_PAIRS = {ord("~"): "s", ord("|"): "spoiler"}

# Possessive quantifiers and classes that stop at the next opening keep all of these linear on hostile text.
# No possessive groups, only possessive classes: Python before 3.11.4 gets such groups wrong.
_SPECIAL = re.compile(r"[*_~`\\\[\]$<]|\|\||!\[|://")
_RUN = re.compile(r"\*+|_+|~+|\|+")
_LITERAL = re.compile(
    r"""\$\$[^$]++\$\$ | \$(?=[^\s$])(?=[^$\n]*[\\^_{])[^$\n]++(?<!\s)\$(?!\d)
      | \\\((?:[^\\\n]|\\(?![()]))*\\\) | (?P<square>\\\[(?:[^\\]|\\(?![\[\]]))*\\\])
      | (?P<tag></?[A-Za-z][^<>\n]*+>) | ://[^\s<>`*|\[\]()~"\\]*[^\s<>`*|\[\]()~"\\_]""",
    re.VERBOSE,
)
_FORMULA = re.compile(r"[\\^_{=]")
_AUTOLINK = re.compile(r"<((?:https?|ftp|tg|mailto|tel):[^\s<>]+)>$|<([\w.+-]+@[\w-]+(?:\.[\w-]+)+)>$")
_CELL = re.compile(r"(?:[^|`\\]|`[^`]*+`|\\.|[`\\])*")
_COLUMN = re.compile(r":?-+:?$")
_MATH = {"$$": "$$", "\\[": "\\]"}


def build_parser() -> MarkdownIt:
    parser = MarkdownIt("js-default", {"maxNesting": 30})
    parser.disable(["code", "lheading", "reference", "html_block", "newline", "entity", "autolink"])
    # Addresses stay as they were written; each platform decides which ones it can link.
    parser.normalizeLink = parser.normalizeLinkText = str  # type: ignore[method-assign, assignment]
    parser.validateLink = bool  # type: ignore[method-assign, assignment]
    block, inline = parser.block.ruler, parser.inline.ruler
    block.at("fence", _read_fence, {"alt": ["paragraph", "blockquote", "list"]})
    block.at("blockquote", _limit_depth(blockquote), {"alt": ["paragraph", "blockquote", "list"]})
    block.at("list", _limit_depth(list_block), {"alt": ["paragraph", "blockquote"]})
    block.at("table", _read_table, {"alt": ["paragraph"]})
    block.before("fence", "math", _read_math, {"alt": ["paragraph"]})
    block.at("heading", _read_heading, {"alt": ["paragraph", "blockquote"]})
    block.at("paragraph", _read_paragraph)
    # A quote ends with its last ">", as chats show it: the words below are the answer to it.
    block.before("paragraph", "end_quote", lambda _state, _start, _end, silent: silent, {"alt": ["blockquote"]})
    inline.at("text", _read_text)
    inline.after("text", "literal", _read_literal)
    inline.at("emphasis", _read_delimiters)
    inline.at("link", _expect_address(link))
    inline.at("image", _expect_address(image))
    inline.disable("strikethrough")
    parser.inline.ruler2.at("strikethrough", _pair_delimiters)
    return parser


# Blocks


def _limit_depth(rule: BlockRule) -> BlockRule:
    """Leave what is too deep to the paragraph rule: markdown-it itself drops it."""
    return lambda state, start, end, silent: state.level < _MAX_DEPTH and rule(state, start, end, silent)


def _read_fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read fenced code to its closing line even in a list whose code is not indented."""
    indent, state.blkIndent = state.blkIndent, 0
    try:
        return fence(state, start, end, silent)
    finally:
        state.blkIndent = indent


def _read_heading(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Leave the comments of indented code alone."""
    return state.sCount[start] - state.blkIndent < _MAX_HEADING_INDENT and heading(state, start, end, silent)


def _read_paragraph(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Keep the indentation of the first line, too: models rarely mean code by it, and people read it as it stands."""
    lead = " " * (state.sCount[start] - state.blkIndent)
    paragraph(state, start, end, silent)
    state.tokens[-2].content = lead + state.tokens[-2].content
    return True


def _read_math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    line = _line(state, start)
    closing = _MATH.get(line[:2])
    if not closing or closing in line[2:]:
        return False
    for after in range(start + 1, min(end, start + _MATH_LINES)):
        if closing in _line(state, after):
            if not silent:
                state.line = after + 1
                token = state.push("math", "", 0)
                token.content = state.getLines(start, state.line, state.blkIndent, False)
                token.map = [start, state.line]
            return True
    return False


def _read_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Push one token with the cells' sources in its `meta`; rows may be longer or shorter than the header."""
    if start + 1 >= end or "|" not in (line := _line(state, start)):
        return False
    under = _line(state, start + 1)
    if "|" not in under or not all(map(_COLUMN.match, columns := _split_cells(under))):
        return False
    if len(header := _split_cells(line)) < len(columns):
        return False
    if silent:
        return True
    state.line = start + 2
    rows = []
    while (
        state.line < end and "|" in (line := _line(state, state.line)) and state.sCount[state.line] >= state.blkIndent
    ):
        rows.append(_split_cells(line))
        state.line += 1
    token = state.push("table", "", 0)
    aligns = [("center" if column[0] == ":" else "right") if column[-1] == ":" else "left" for column in columns]
    token.meta = {"header": header, "aligns": aligns, "rows": rows}
    token.map = [start, state.line]
    return True


def _split_cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    cells, at = [], 0
    while at <= len(line):
        match = _CELL.match(line, at)
        end = match.end() if match else at
        cells.append(line[at:end].strip().replace("\\|", "|"))
        at = end + 1
    return cells[:-1] if len(cells) > 1 and not cells[-1] else cells


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


# Inside a line


def _read_text(state: StateInline, silent: bool) -> bool:
    special = _SPECIAL.search(state.src, state.pos, state.posMax)
    end = special.start() if special else state.posMax
    return _take(state, end, silent)


def _read_literal(state: StateInline, silent: bool) -> bool:
    found = _LITERAL.match(state.src, state.pos, state.posMax)
    if not found or (found["square"] and not _FORMULA.search(found[0], 2, len(found[0]) - 2)):
        return False
    address = _AUTOLINK.match(found[0]) if found["tag"] else None
    if not address:
        return _take(state, found.end(), silent)
    if not silent:
        state.push("link_open", "a", 1).attrs = {"href": address[1] or f"mailto:{address[2]}"}
        state.push("text", "", 0).content = address[1] or address[2]
        state.push("link_close", "a", -1)
    state.pos = found.end()
    return True


def _take(state: StateInline, end: int, silent: bool) -> bool:
    if end == state.pos:
        return False
    if not silent:
        state.pending += state.src[state.pos : end]
    state.pos = end
    return True


def _expect_address(rule: InlineRule) -> InlineRule:
    """Look for a link only near an address: markdown-it would read to the end for every open bracket."""
    return lambda state, silent: (
        state.src.startswith(("[", "!["), state.pos)
        and state.src.find("](", state.pos, min(state.pos + _MAX_LABEL_CHARS, state.posMax)) >= 0
        and rule(state, silent)
    )


def _read_delimiters(state: StateInline, silent: bool) -> bool:
    run = _RUN.match(state.src, state.pos, state.posMax)
    if silent or not run:
        return False
    start, end = run.span()
    char, length = run[0][0], end - start
    before = state.src[start - 1] if start else " "
    after = state.src[end] if end < state.posMax else " "
    if char == "_" and after in "(.":  # __init__.py and __init__() go on as names do
        after = "x" if after == "(" else state.src[end + 1 : end + 2] or "."
    opens = closes = False
    if length <= _MAX_RUN if char in "*_" else length == 2:
        opens, closes = _flank(char, before, after, length)
    if not opens and not closes:
        return _take(state, end, silent)
    for mark in run[0] if char in "*_" else [run[0]]:
        state.push("text", "", 0).content = mark
        state.delimiters.append(
            Delimiter(
                marker=ord(char),
                length=length if char in "*_" else 0,  # no rule of three for pairs
                token=len(state.tokens) - 1,
                end=-1,
                open=opens,
                close=closes,
            )
        )
    state.pos = end
    return True


def _pair_delimiters(state: StateInline) -> None:
    """Turn the pairs that markdown-it found among ~~ and || into tags."""
    nested = [meta["delimiters"] for meta in state.tokens_meta if meta and "delimiters" in meta]
    for delimiters in (state.delimiters, *nested):
        for opening in delimiters:
            if opening.end >= 0 and (kind := _PAIRS.get(opening.marker)):
                first, last = state.tokens[opening.token], state.tokens[delimiters[opening.end].token]
                first.type, first.nesting, first.content = f"{kind}_open", 1, ""
                last.type, last.nesting, last.content = f"{kind}_close", -1, ""


def _flank(char: str, before: str, after: str, length: int) -> tuple[bool, bool]:
    """Tell from its neighbours whether a run may open and whether it may close something."""
    is_word_before, is_word_after = (side.isascii() and side.isalnum() for side in (before, after))
    if char == "|":  # (a)||(b) is an expression
        opens = not (after.isspace() or is_word_before or before in ")]")
        return opens, not (before.isspace() or is_word_after or after in "([")
    opens = not (after.isspace() or after in ")],;")
    closes = not (before.isspace() or before in "([{")
    if char == "_":
        return opens and not before.isalnum(), closes and not after.isalnum()
    # 2*3*4 and x**2 + y**2 are arithmetic; but **API**s and **Note:**text close, though not for CommonMark.
    opens = opens and not (is_word_before and (is_word_after or not after.isalnum()))
    if is_word_after and (is_word_before or not before.isalnum()):
        closes = closes and length > 1 and (is_word_before or before in _AFTER_A_SENTENCE)
    return opens, closes
