"""Values as they were given: in the environment and in .env. (`config_file` reads config.yaml.)

A variable that is set to nothing restores the default, so that it can undo what a weaker source says.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream

from hermes_config.errors import ConfigError
from hermes_config.keys import catalogue, explain_unknown, variables
from hermes_config.secrets import find_of_account
from hermes_config.types import VARIABLE

MAX_FILE_BYTES = 1_000_000
GUARDED = ("access", "approvals")  # sections in which an unknown key is an error, not a warning
_GENERAL = re.compile(r"HERMES_[A-Z0-9]+__[A-Z0-9_]+")
# Settings of backends, some of which other versions of Hermes have.
_OTHER_BACKEND = re.compile(r"TERMINAL_(SSH|DOCKER|SINGULARITY|MODAL|DAYTONA)_[A-Z0-9_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value from one source. None restores the default; `typed` tells that the source knows numbers from text."""

    key: str
    value: object
    source: str
    where: str
    fix: str
    typed: bool = False


@dataclass(slots=True)
class Findings:
    """Problems, collected so that a person can fix all of them at once."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EnvLine:
    """A line of .env. A comment has no name; a line that cannot be read has the value None."""

    text: str
    name: str = ""
    value: str | None = ""


def read_text(path: Path) -> str | None:
    """Return the text of a file, None when there is no such file; raise ConfigError when it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory, but must be a file; move it away.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path} cannot be read: {reason}; fix its owner and mode (chmod 600 {path}).") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes, too large for settings; is it another file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: not UTF-8 text; save the file as UTF-8.") from None


def parse_env(text: str) -> list[EnvLine]:
    """Parse each line by itself: a quote that is never closed must not swallow the lines below it."""
    lines = []
    for line in text.removesuffix("\n").split("\n") if text else ():
        bindings = list(parse_stream(StringIO(_adapt_quotes(line))))
        name, value = (bindings[0].key, bindings[0].value) if bindings else (None, None)
        if any(binding.error for binding in bindings) or len(bindings) > 1:
            lines.append(EnvLine(line, value=None))
        elif name is None:
            lines.append(EnvLine(line))
        else:
            lines.append(EnvLine(line, name, value) if VARIABLE.fullmatch(name) else EnvLine(line, value=None))
    return lines


def _adapt_quotes(line: str) -> str:
    """Keep the shell's rules: a backslash is plain in single quotes, and `\\$` is `$` in double quotes."""
    quoted = re.match(r"""[^='"]*=\s*(['"])""", line)
    if not quoted:
        return line
    if quoted[1] == "'":
        return line.replace("\\", "\\\\")
    return re.sub(r"\\(.)", lambda escape: escape[1] if escape[1] in "$`" else escape[0], line)


def read_env_file(path: Path, findings: Findings) -> list[Given]:
    text = read_text(path)
    if text is None:
        return []
    if path.stat().st_mode & 0o077:
        findings.warnings.append(
            f"{path} contains secrets, but others on this machine can read it; run: chmod 600 {path}"
        )
    given: list[Given] = []
    lines = parse_env(text)
    _warn_of_other_backends([line.name for line in lines if line.value], str(path), findings)
    for number, line in enumerate(lines, 1):
        where = f"{path} line {number}"
        if line.value is None:
            findings.warnings.append(f"{where}: not understood and ignored; a line looks like NAME=value or NAME='…'")
        elif line.name:
            found = _read_variable(
                line.name,
                line.value,
                source=f"{path.name} line {number}",
                where=f"{where} ({line.name})",
                fix="correct or delete that line",
                findings=findings,
            )
            given += found
            if not found:
                _warn_of_typo(line.name, where, findings)
    return given


def read_environment(environ: Mapping[str, str], findings: Findings) -> list[Given]:
    _warn_of_other_backends([name for name in environ if environ[name]], "environment", findings)
    return [
        given
        for name in sorted(environ, key=lambda name: _GENERAL.fullmatch(name) is None)  # well-known names win
        for given in _read_variable(
            name,
            environ[name],
            source=f"environment {name}",
            where=f"environment {name}",
            fix=f"correct or unset {name}",
            findings=findings,
        )
    ]


def _read_variable(name: str, value: str, *, source: str, where: str, fix: str, findings: Findings) -> list[Given]:
    if key := variables().get(name):
        text = value.strip()
        return [Given(key=key, value=text or None, source=source if text else f"{source}, empty", where=where, fix=fix)]
    if _GENERAL.fullmatch(name):
        dotted = name.removeprefix("HERMES_").replace("__", ".").lower()
        if dotted.split(".")[0] in GUARDED:
            findings.errors.append(f"{where}: {explain_unknown(dotted)} Correct or unset {name}.")
        else:
            findings.warnings.append(f"{where}: {explain_unknown(dotted)} It has no effect.")
    return []


def _warn_of_other_backends(names: Iterable[str], where: str, findings: Findings) -> None:
    """Point out settings of backends that this version lacks: their owner believes that they have an effect."""
    by_backend: dict[str, list[str]] = {}
    for name in names:
        if (found := _OTHER_BACKEND.fullmatch(name)) and name not in variables():
            by_backend.setdefault(found[1].lower(), []).append(name)
    for backend, members in by_backend.items():
        findings.warnings.append(
            f"{where}: {', '.join(members)} {'has' if len(members) == 1 else 'have'} no effect; the settings of the "
            f"{backend} backend are: {', '.join(sorted(key for key in catalogue() if f'.{backend}.' in key))}."
        )


def _warn_of_typo(name: str, where: str, findings: Findings) -> None:
    well_known = [known for known in variables() if not _GENERAL.fullmatch(known)]
    close = difflib.get_close_matches(name, well_known, n=1, cutoff=0.88)
    if close and not _GENERAL.fullmatch(name) and find_of_account(name) is None:
        findings.warnings.append(f"{where}: {name} is unknown and has no effect; did you mean {close[0]}?")
