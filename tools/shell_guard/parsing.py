"""From the text of a shell command to its syntax. The one file that knows tree-sitter.

The grammar is not bash itself: wherever the two are known to differ, or a node is not known, the text counts as
unreadable instead of being taken for something else.
"""

import functools
import re
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from tools.shell_guard.expansion import CHANNEL, ansi_c
from tools.shell_guard.syntax import (
    Assignment,
    Block,
    Kind,
    LiteralText,
    Opaque,
    Piece,
    Redirect,
    Script,
    Simple,
    Statement,
    Variable,
    Word,
    with_more,
)

MAX_DEPTH = 40
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# The grammar's scanner looks up what stands behind a brace in a table of 256 letters, and ends the whole process there.
_BREAKS_SCANNER = re.compile(r"\{[0-9.]*[^\x00-\xff]")
_SUBSTITUTION = re.compile(r"`|\$\((?!\()")
_CONTINUED = re.compile(rb"(?<!\\)((?:\\\\)*)\\\n")  # a backslash that is not escaped itself
_LITERAL = frozenset({"comment", "raw_string", "ansi_c_string", "heredoc_body"})
_BEFORE_COMMENT = b" \t\n;&|()`"
_PLAIN = frozenset({"word", "number", "extglob_pattern", "regex", "variable_name", "special_variable_name", "$"})
_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_IGNORED = frozenset({"comment", ";", "\n", ";;", "heredoc_start", "heredoc_end", "heredoc_body"})
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("compound_statement", "do_group"), "group"),
    **dict.fromkeys(("if_statement", "elif_clause", "else_clause"), "branch"),
    "while_statement": "loop",
    "subshell": "subshell",
}
_COMPUTED = frozenset({"arithmetic_expansion", "expansion", "brace_expression", "array", "translated_string"})


class UnparsableCommand(Exception):
    """Nobody can say what it would run; the text is the reason, as a clause."""


@functools.lru_cache(maxsize=16)  # a command is judged again when files that it runs have changed
def parse(text: str) -> Script:
    """Parse a shell command. Raises UnparsableCommand."""
    if _ODD.search(text):
        raise UnparsableCommand("it holds control characters, which can hide what runs")
    if _BREAKS_SCANNER.search(text):
        raise UnparsableCommand("it holds a letter behind a brace that cannot be read there")
    source = _join_lines(text.encode(errors="replace"))
    root = _parser().parse(source).root_node
    if root.has_error:
        raise UnparsableCommand("it cannot be read as a shell command")
    if b"#" in source:
        _check_comments(root, source)
    translation = _Translation(source)
    script = translation.script(root.children, 0)
    translation.check_whole(root)
    return script


def _check_comments(root: Node, source: bytes) -> None:
    """Check that no comment begins in the middle of a word, where `#` is a letter: the grammar does not always know."""
    for node in _nodes(root):
        if node.type != "comment":
            continue
        start = node.start_byte
        while source[max(0, start - 2) : start] == b"\\\n":
            start -= 2
        if source[max(0, start - 1) : start] not in _BEFORE_COMMENT:  # nothing is in everything
            raise UnparsableCommand("it cannot be said where a comment begins")


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _join_lines(source: bytes) -> bytes:
    """Join continued lines: the grammar ends a word there, and bash does not."""
    if not _CONTINUED.search(source):
        return source
    root = _parser().parse(source).root_node
    _check_comments(root, source)
    is_kept = bytearray(len(source))
    for node in _nodes(root):
        if node.type in _LITERAL:
            is_kept[node.start_byte : node.end_byte] = b"\1" * (node.end_byte - node.start_byte)
    return _CONTINUED.sub(lambda found: found[0] if is_kept[found.end() - 2] else found[1], source)


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


class _Translation:
    """Of one tree. Each method takes the depth it is at, which ends in Unreadable long before Python's own limit."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._translated: set[int] = set()  # commands, by the nodes' own numbers

    def check_whole(self, root: Node) -> None:
        """Check that no command was lost: the grammar puts some where nobody would look for them."""
        if any(node.type in _COMMANDS and node.id not in self._translated for node in _nodes(root)):
            raise UnparsableCommand("it holds a command in a place where it cannot be read")

    def script(self, nodes: list[Node], depth: int) -> Script:
        statements: list[Statement] = []
        for node in nodes:
            if node.type == "&":
                statements[-1:] = [Block("background", tuple(statements[-1:]))]
            elif node.type not in _IGNORED:
                statements.append(self._statement(node, depth + 1))
        return tuple(statements)

    def _statement(self, node: Node, depth: int) -> Statement:
        if depth > MAX_DEPTH:
            raise UnparsableCommand("it is nested too deep to be read")
        match node.type:
            case kind if kind in _COMMANDS:
                return self._simple(node, depth)
            case "variable_assignment" | "variable_assignments":
                found = [node] if node.type == "variable_assignment" else node.named_children
                return Simple((), tuple(self._assignment(one, depth) for one in found))
            case "test_command":
                return Simple(((LiteralText("test", is_quoted=True),), self._hide([node], depth)))
            case "redirected_statement":
                return self._read_redirected(node, depth)
            case "pipeline":
                return Block("pipeline", tuple(self._parts(node, {"|", "|&"}, depth)))
            case "list":
                return Block("chain", tuple(self._parts(node, {"&&", "||"}, depth)))
            case "negated_command":
                return self._statement(node.named_children[0], depth + 1)
            case _:
                return self._block(node, depth)

    def _parts(self, node: Node, operators: set[str], depth: int) -> Iterator[Statement]:
        """Return the parts of a row of commands, which the grammar nests to the left."""
        rest, parts = node, list[Node]()
        while rest.type == node.type:
            *_, last = rest.children
            inner = [child for child in rest.children[:-1] if child.type not in operators and child.type != "comment"]
            if not inner:
                break
            parts[:0] = [*inner[1:], last]
            rest = inner[0]
        parts.insert(0, rest)
        for part in parts:
            yield self._statement(part, depth + 1)

    def _block(self, node: Node, depth: int) -> Statement:
        inside = [child for child in node.children if child.is_named or child.type == "&"]
        match node.type:
            case "compound_statement" if node.children[0].type == "((":
                return Simple(((LiteralText("let", is_quoted=True),), self._hide([node], depth)))
            case kind if kind in _KINDS:
                return Block(_KINDS[kind], self.script(inside, depth))
            case "for_statement" | "c_style_for_statement" | "case_item":
                return self._read_loop(node, depth)
            case "case_statement":
                items = [child for child in node.named_children if child.type == "case_item"]
                words = [child for child in node.named_children if child.type not in ("case_item", "comment")]
                return Block("branch", self.script(items, depth), words=self._hide(words, depth))
            case "function_definition":
                return self._function(node, depth)
            case kind:
                raise UnparsableCommand(f"it holds a part of a kind that is not known ({kind})")

    def _read_loop(self, node: Node, depth: int) -> Block:
        """Read a loop over words, or one case: of what stands in front, only the commands inside matter."""
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        if body is None:
            inner = self.script([child for child in node.children if child.is_named and child not in values], depth)
            return Block("branch", inner, words=self._hide(values, depth))
        words = self._hide([child for child in node.named_children if child != body], depth)
        return Block("loop", self.script([body], depth), name=self._text(name) if name else "", words=words)

    def _function(self, node: Node, depth: int) -> Block:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        assert name is not None
        assert body is not None
        redirects = tuple(self._redirect(child, depth)[0] for child in node.children_by_field_name("redirect"))
        return Block("function", self.script([body], depth), name=self._text(name), redirects=redirects)

    def _simple(self, node: Node, depth: int) -> Simple:
        self._translated.add(node.id)
        words, assignments, redirects = list[Word](), list[Assignment](), list[Redirect]()
        end = -1  # of the last word
        for child in node.children:
            match child.type:
                case "variable_assignment":
                    self._check_ends(child)
                    assignments.append(self._assignment(child, depth))
                case "file_redirect" | "herestring_redirect":
                    self._check_ends(child)
                    redirect, behind = self._redirect(child, depth)
                    redirects.append(redirect)
                    words += behind
                case "comment":
                    continue
                case _ if self._is_descriptor(child):
                    continue
                case _ if self._start(child) == end:  # the grammar ends some words too early
                    words[-1] += self._word(child, depth)
                    end = child.end_byte
                case _:
                    words.append(self._word(child, depth))
                    end = child.end_byte
        return Simple(tuple(words), tuple(assignments), tuple(redirects))

    def _is_descriptor(self, node: Node) -> bool:
        """Return whether this is the number in `0<`, which the grammar takes for a word."""
        is_before = self._source[node.end_byte : node.end_byte + 1] in (b"<", b">")
        return is_before and self._source[node.start_byte : node.end_byte].strip().isdigit()

    def _check_ends(self, node: Node) -> None:
        """Check that a word ends here: the grammar may end something in the middle of one."""
        if self._source[node.end_byte : node.end_byte + 1].strip(b" \t\n;&|()<>`"):
            raise UnparsableCommand("it cannot be said where one of its words ends")

    def _start(self, node: Node) -> int:
        """Return where a word begins, without the blanks that the grammar counts to it."""
        start, end = node.start_byte, node.end_byte
        while start < end and self._source[start] in b" \t\n\v\f\r":
            start += 1
        return start

    def _assignment(self, node: Node, depth: int) -> Assignment:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        assert name is not None
        read = self._word(value, depth) if value is not None else ()
        if name.type != "variable_name" or any(child.type == "+=" for child in node.children):
            inner = self._scripts_in(node, depth)
            base = name.child_by_field_name("name") or name
            return Assignment(self._text(base), (Opaque(inner),))
        return Assignment(self._text(name), read)

    # Redirections.

    def _read_redirected(self, node: Node, depth: int) -> Statement:
        body = node.child_by_field_name("body")
        inner: Statement = self._statement(body, depth + 1) if body is not None else Simple(())
        after: list[Statement] = []
        for child in (child for child in node.children if child.type in _REDIRECTS):
            if child.type != "heredoc_redirect":
                redirect, behind = self._redirect(child, depth)
                inner = with_more(inner, (redirect,), behind)
                continue
            inner, more = self._heredoc(inner, child, depth)
            after += more
        return Block("chain", (inner, *after)) if after else inner

    def _heredoc(self, inner: Statement, node: Node, depth: int) -> tuple[Statement, list[Statement]]:
        """Read a here-document, and whatever else stands in the line of the `<<`: the grammar keeps it in this node."""
        after: list[Statement] = []
        redirects = [Redirect("<<", self._heredoc_text(node, depth))]
        piped: Node | None = None
        arguments = node.children_by_field_name("argument")
        words = [self._word(child, depth) for child in arguments]
        for child in node.children:
            if child in arguments:
                continue
            match child.type:
                case "file_redirect" | "herestring_redirect":
                    redirect, behind = self._redirect(child, depth)
                    redirects.append(redirect)
                    words += behind
                case "pipeline":
                    piped = child
                case "<<" | "<<-" | "&&" | "||" | "file_descriptor":
                    continue
                case kind if kind in _IGNORED:
                    continue
                case _:
                    after.append(self._statement(child, depth + 1))
        inner = with_more(inner, tuple(redirects), tuple(words))
        if piped is not None:
            rest = [self._statement(child, depth + 1) for child in piped.named_children]
            inner = Block("pipeline", (inner, *rest))
        return inner, after

    def _heredoc_text(self, node: Node, depth: int) -> Word:
        found = {child.type: child for child in node.children}
        start, body, end = (found.get(f"heredoc_{part}") for part in ("start", "body", "end"))
        if start is None or end is None:
            raise UnparsableCommand("it cannot be read as a shell command")
        self._check_ends(start)
        word = self._text(start)
        delimiter = re.sub(r"[\\'\"]", "", word)
        text = self._text(body) if body is not None else ""
        lines = [line.lstrip("\t") if "<<-" in found else line for line in text.split("\n")]
        if delimiter in lines or self._text(end).strip("\t" if "<<-" in found else "") != delimiter:
            raise UnparsableCommand("it is not clear where its here-document ends")
        if delimiter != word:
            return (LiteralText("\n".join(lines), is_quoted=True),)
        if "`" in text:
            raise UnparsableCommand("its here-document runs commands between backticks")
        return tuple(self._within(body, depth)) if body is not None else ()

    def _redirect(self, node: Node, depth: int) -> tuple[Redirect, tuple[Word, ...]]:
        """Return it, and the command's words behind it: the grammar takes them for files too."""
        if node.type == "herestring_redirect":
            return Redirect("<<", self._word(node.named_children[-1], depth)), ()
        operator = next(child.type for child in node.children if child.type[0] in "<>&")
        targets = node.children_by_field_name("destination")
        for target in targets:
            self._check_ends(target)
        words = tuple(self._word(target, depth) for target in targets)
        return Redirect(operator, words[0] if words else ()), words[1:]

    # Words.

    def _word(self, node: Node, depth: int) -> Word:
        if node.type == "command_name":
            return tuple(piece for child in node.children for piece in self._word(child, depth))
        if node.type == "concatenation":
            return tuple(piece for child in node.children for piece in self._pieces(child, depth))
        return tuple(self._pieces(node, depth))

    def _pieces(self, node: Node, depth: int) -> Iterator[Piece]:
        match node.type:
            case "string":
                yield LiteralText("", is_quoted=True)
                yield from self._within(node, depth)
            case "raw_string":
                yield LiteralText(self._text(node)[1:-1], is_quoted=True)
            case "ansi_c_string":
                yield LiteralText(ansi_c(self._text(node)[2:-1]), is_quoted=True)
            case "process_substitution":
                script = self.script(node.children[1:-1], depth + 1)
                yield Opaque(((Block("fed", script),) if node.children[0].type == ">(" else script,), CHANNEL)
            case "simple_expansion" | "expansion" | "command_substitution":
                yield self._expansion(node, depth, is_quoted=False)
            case kind if kind in _COMPUTED:
                yield Opaque(self._scripts_in(node, depth))
            case kind if kind in _PLAIN or not node.is_named:
                if self._start(node) != node.start_byte:  # it has taken the end of a line for part of a word
                    raise UnparsableCommand("it cannot be said where one of its words begins")
                is_before_quote = self._source[node.end_byte - 1 : node.end_byte + 1] == b'$"'  # $"…" is "…"
                text = self._text(node).removesuffix("$") if is_before_quote else self._text(node)
                yield LiteralText(_check_plain(text))
            case kind:
                raise UnparsableCommand(f"it holds a part of a kind that is not known ({kind})")

    def _within(self, node: Node, depth: int) -> Iterator[Piece]:
        """Parse the text between double quotes, or of a here-document."""
        place, end = node.start_byte, node.end_byte
        if node.type == "string":
            place, end = place + 1, end - 1
        for child in node.named_children:
            if child.type in ("string_content", "heredoc_content"):
                continue
            yield _read_quoted(self._source[place : self._start(child)])
            yield self._expansion(child, depth, is_quoted=True)
            place = child.end_byte
        yield _read_quoted(self._source[place:end])

    def _expansion(self, node: Node, depth: int, *, is_quoted: bool) -> Piece:
        text = self._text(node).strip()
        if node.type == "command_substitution":
            if text.startswith("`") and "\\" in text:
                self._translated |= {inner.id for inner in _nodes(node)}
                return Opaque((parse(re.sub(r"\\([`$\\])", r"\1", text[1:-1])),))
            return Opaque((self.script(node.children[1:-1], depth + 1),))
        if found := re.fullmatch(r"\$(?:(\w+)|\{(\w+)\})", text):
            return Variable(found[1] or found[2], is_quoted)
        if "@P}" in text:
            raise UnparsableCommand("it runs what the text of a variable says")
        return Opaque(self._scripts_in(node, depth))

    def _hide(self, nodes: list[Node], depth: int) -> Word:
        return tuple(Opaque(self._scripts_in(node, depth)) for node in nodes)

    def _scripts_in(self, node: Node, depth: int) -> tuple[Script, ...]:
        kinds = ("command_substitution", "process_substitution")
        found = [inner for inner in _nodes(node) if inner.type in kinds]
        rest = self._text(node)
        for inner in found:
            rest = rest.replace(self._text(inner), "")
        _check_plain(rest)
        return tuple(self.script(inner.children[1:-1], depth + 1) for inner in found)

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")


def _read_quoted(source: bytes) -> LiteralText:
    text = _check_plain(source.decode(errors="replace"))
    return LiteralText(re.sub(r'\\([$`"\\])', r"\1", text), is_quoted=True)


def _check_plain(text: str) -> str:
    """Return a plain text after checking that no substitution is in it, which the grammar may have missed."""
    if _SUBSTITUTION.search(re.sub(r"\\.", "", text, flags=re.DOTALL)):
        raise UnparsableCommand("it holds a command in a place where it cannot be read")
    return text
