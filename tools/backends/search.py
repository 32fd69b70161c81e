"""Search files: with ripgrep where the backend has it, else with our own walk in a child process.

Both skip hidden files, folders of version control, and files named by .gitignore and .ignore.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.backends.base import Command, Finished, Found, Match, Search
from tools.backends.globs import name_matches

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
    helper: Run  # a program of ours, on this machine

    async def search(
        self, wanted: Search, *, spelled: Path, where: Path, inside: BackendFolder, closed: Sequence[Path]
    ) -> Found:
        """Search a folder: `spelled` as the backend sees it, `where` as we do; nothing `closed` is entered.

        Raises BadSearch, BackendFailed.
        """
        if self.ripgrep:
            return await self._by_ripgrep(wanted, spelled, closed)
        return await self._by_walking(wanted, spelled, where, inside, closed)

    async def _by_ripgrep(self, wanted: Search, spelled: Path, closed: Sequence[Path]) -> Found:
        kind = (*_RIPGREP_CONTENT, "-e", wanted.pattern) if wanted.target == "content" else ("--files",)
        left_out = (_exclude(path) for path in closed if path.is_relative_to(spelled))
        finished = await self.run(search_command((self.ripgrep, *_RIPGREP, *kind, *left_out, "--", str(spelled))))
        _check_time(finished)
        if wanted.target == "content":
            matches = [match for line in finished.output.split("\n") if (match := _match(line))]
            if finished.exit_code == 2 and not matches and finished.output.strip():
                raise BadSearch(_bad_pattern(finished.output))
        else:
            names = finished.output.split("\0")[:-1]
            matches = [Match(path=name) for name in names if is_wanted(wanted.pattern, name, spelled)]
        matches = [match for match in matches if not any(Path(match.path).is_relative_to(path) for path in closed)]
        most_in_a_file = max(Counter(match.path for match in matches if match.line_number).values(), default=0)
        whole = len(finished.output) < _MAX_ANSWER_CHARS and most_in_a_file < MAX_MATCHES_PER_FILE
        return Found(
            matches=tuple(matches[: wanted.limit]), more=max(0, len(matches) - wanted.limit), counted_all=whole
        )

    async def _by_walking(
        self, wanted: Search, spelled: Path, where: Path, inside: BackendFolder, closed: Sequence[Path]
    ) -> Found:
        query = {
            "pattern": wanted.pattern,
            "target": wanted.target,
            "limit": wanted.limit,
            "spelled": str(spelled),
            "where": str(where),
            "inside": str(inside.real),
            "closed": [str(path) for path in closed],
        }
        # In a child: some regular expressions take for ever, and would block the whole process.
        argv = (sys.executable, "-I", "-m", "tools.backends.walk")
        finished = await self.helper(search_command(argv, stdin=json.dumps(query).encode()))
        _check_time(finished)
        try:
            answer = json.loads(finished.output)
        except ValueError as error:
            raise BadSearch("The search failed; use a narrower path or a simpler pattern.") from error
        if "problem" in answer:
            raise BadSearch(answer["problem"])
        return Found(
            matches=tuple(Match(**match) for match in answer["matches"]),
            more=answer["more"],
            counted_all=answer["counted_all"],
        )


def search_command(argv: tuple[str, ...] = (), *, text: str = "", stdin: bytes = b"") -> Command:
    return Command(
        argv=argv,
        text=text,
        workdir="/",
        stdin=stdin,
        timeout_seconds=SEARCH_SECONDS,
        max_output_chars=_MAX_ANSWER_CHARS,
        keeps_output=False,
    )


def _exclude(path: Path) -> str:
    """Return the glob that excludes a path. It is anchored, since the command runs in /."""
    return "--glob=!" + re.sub(r"([*?\[\]{}\\])", r"\\\1", str(path))


def _check_time(finished: Finished) -> None:
    if finished.timed_out:
        raise BadSearch(f"The search took longer than {SEARCH_SECONDS:.0f} seconds; use a narrower path.")


def _match(line: str) -> Match | None:
    path, _, rest = line.partition("\0")
    number, _, text = rest.partition(":")
    if not rest or not number.isdigit():
        return None
    return Match(path=path, line_number=int(number), text=text.rstrip("\r")[: MAX_SHOWN_LINE_CHARS + 60])


def is_wanted(pattern: str, path: str, root: Path) -> bool:
    inside = Path(path).relative_to(root) if Path(path) != root else Path(Path(path).name)
    return name_matches(pattern, str(inside))


def _bad_pattern(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if line.startswith("error:")), lines[-1] if lines else "")
    told = told.removeprefix("error:").strip()[:200]
    return f"The pattern is not a valid regular expression: {told}. Escape characters that are meant literally."
