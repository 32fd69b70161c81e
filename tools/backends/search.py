"""Search files in a backend: with ripgrep where it has it, else with find and grep, which know no ignore files.

Both skip hidden files and folders.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote

from tools.backends.base import Command, Finished, Found, Match, Search

Run = Callable[[Command], Awaitable[Finished]]

SEARCH_SECONDS = 60.0
MAX_SHOWN_LINE_CHARS = 300
MAX_SEARCHED_FILE_BYTES = 10_000_000
MAX_MATCHES_PER_FILE = 200
_MAX_ANSWER_CHARS = 2_000_000
_RIPGREP = (
    *("--no-config", "--no-messages", "--color=never", "--null", "--sort=path"),
    *("--no-require-git", "--no-ignore-global", "--no-ignore-exclude"),
)
_RIPGREP_CONTENT = (
    *("--line-number", "--with-filename", "--no-heading", f"--max-columns={MAX_SHOWN_LINE_CHARS}"),
    *("--max-columns-preview", f"--max-count={MAX_MATCHES_PER_FILE}", f"--max-filesize={MAX_SEARCHED_FILE_BYTES}"),
)
_SKIPPED = r"\( -name '.?*' -o -name node_modules -o -name __pycache__ \) ! -path {path} -prune"
# Perl's expressions where grep has them. A first run tells a bad expression by its exit code: busybox needs a line for
# that.
_GREP = f"""\
kind=E; grep -qP . /dev/null 2> /dev/null; [ $? -gt 1 ] || kind=P
echo | grep -q$kind -e {{pattern}}; [ $? -le 1 ] || exit 2
{{find}} -size -{MAX_SEARCHED_FILE_BYTES // 512} \
-exec grep -nH$kind -m {MAX_MATCHES_PER_FILE} -e {{pattern}} {{{{}}}} + \
2> /dev/null | cut -b 1-{8 * MAX_SHOWN_LINE_CHARS}
"""
_LINE = re.compile(r"(?:([^\0]*)\0|(.*?):)([0-9]+):(.*)")
_WILDCARDS = frozenset("*?[")


class BadSearch(Exception):
    """The text is a sentence for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFolder:
    """A folder that a backend has."""

    spelled: Path  # as its commands see it
    real: Path  # where it is for us, without links
    writable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    ripgrep: str  # its path as the backend's commands see it; empty when missing
    run: Run  # in the backend

    async def search(self, wanted: Search, where: Path, closed: Sequence[Path] = ()) -> Found:
        """Search a folder, by its path as the backend's commands see it; nothing `closed` is entered.

        Raises BadSearch, BackendFailed.
        """
        closed = [path for path in closed if path.is_relative_to(where)]
        finished = await self.run(
            self._by_ripgrep(wanted, where, closed) if self.ripgrep else _by_find(wanted, where, closed)
        )
        if finished.timed_out:
            raise BadSearch(f"The search took longer than {SEARCH_SECONDS:.0f} seconds; use a narrower path.")
        if wanted.target == "content":
            matches = [match for line in finished.output.split("\n") if (match := _match(line))]
            if finished.exit_code == 2 and not matches and finished.output.strip():
                raise BadSearch(_bad_pattern(finished.output))
        else:
            names = finished.output.split("\0")[:-1]
            matches = [Match(path=name) for name in names if _is_wanted(wanted.pattern, name, where)]
        matches = [match for match in matches if not any(Path(match.path).is_relative_to(path) for path in closed)]
        matches.sort(key=lambda match: (match.path, match.line_number))
        most_in_a_file = max(Counter(match.path for match in matches if match.line_number).values(), default=0)
        whole = len(finished.output) < _MAX_ANSWER_CHARS and most_in_a_file < MAX_MATCHES_PER_FILE
        return Found(
            matches=tuple(matches[: wanted.limit]), more=max(0, len(matches) - wanted.limit), counted_all=whole
        )

    def _by_ripgrep(self, wanted: Search, where: Path, closed: Sequence[Path]) -> Command:
        kind = (*_RIPGREP_CONTENT, "-e", wanted.pattern) if wanted.target == "content" else ("--files",)
        # The globs are anchored, since the command runs in /.
        left_out = (f"--glob=!{_escape_glob(path)}" for path in closed)
        return search_command((self.ripgrep, *_RIPGREP, *kind, *left_out, "--", str(where)))


def _by_find(wanted: Search, where: Path, closed: Sequence[Path]) -> Command:
    left_out = [f"-path {quote(_escape_glob(path))} -prune" for path in closed]
    skipped = _SKIPPED.format(path=quote(_escape_glob(where)))
    find = " ".join(["find", quote(str(where)), " -o ".join([*left_out, skipped, "-type f"])])
    if wanted.target == "files":
        return search_command(text=f"{find} -print0 2> /dev/null")
    return search_command(text=_GREP.format(find=find, pattern=quote(wanted.pattern)))


def search_command(argv: tuple[str, ...] = (), *, text: str = "") -> Command:
    return Command(
        argv=argv,
        text=text,
        workdir="/",
        timeout_seconds=SEARCH_SECONDS,
        max_output_chars=_MAX_ANSWER_CHARS,
        keeps_output=False,
    )


def _escape_glob(path: Path) -> str:
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", str(path))


def _match(line: str) -> Match | None:
    found = _LINE.fullmatch(line)
    if found is None or not line.startswith("/"):
        return None
    text = found[4].rstrip("\r")[: MAX_SHOWN_LINE_CHARS + 60]
    return Match(path=found[1] or found[2], line_number=int(found[3]), text=text)


def _is_wanted(pattern: str, path: str, root: Path) -> bool:
    inside = Path(path).relative_to(root) if Path(path) != root else Path(Path(path).name)
    return name_matches(pattern, str(inside))


def _bad_pattern(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if line.startswith(("error:", "grep:"))), lines[-1])
    told = told.removeprefix("error:").removeprefix("grep:").strip()[:200]
    return f"The pattern is not a valid regular expression: {told}. Escape characters that are meant literally."


def name_matches(pattern: str, path: str) -> bool:
    """Match a glob with the name, or with the path if it has a slash; without wildcards, match any part."""
    name = path.rpartition("/")[2]
    if not _WILDCARDS.intersection(pattern):
        return pattern.casefold() in (path if "/" in pattern else name).casefold()
    if "/" not in pattern:
        return fnmatchcase(name, pattern)
    return segments_match([part for part in pattern.split("/") if part], path.split("/"))


def segments_match(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Match a path, where `**` stands for any number of folders. Takes linear time in both, whatever the pattern."""
    reached = {0}  # how many parts of the pattern may have matched before the next name
    for name in path:
        reached = _with_nothing(reached, pattern)
        reached = {
            position if pattern[position] == "**" else position + 1
            for position in reached
            if position < len(pattern) and (pattern[position] == "**" or fnmatchcase(name, pattern[position]))
        }
    return len(pattern) in _with_nothing(reached, pattern)


def _with_nothing(reached: Iterable[int], pattern: Sequence[str]) -> set[int]:
    more = set(reached)
    for position in sorted(more):
        while position < len(pattern) and pattern[position] == "**":
            position += 1
            more.add(position)
    return more
