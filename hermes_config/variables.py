"""Settings from variables: the lines of .env and the environment of the process.

A variable set to nothing puts the default back, so that it can take away what a weaker source gave.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_config.given import Findings, Given, read_text
from hermes_config.keys import catalogue, describe_expected, explain_unknown, variables
from hermes_config.secrets import find_of_account

GENERAL = re.compile(r"HERMES_[A-Z0-9]+__[A-Z0-9_]+")
# Settings of a backend that other versions of Hermes have.
OTHER_BACKEND = re.compile(r"TERMINAL_(SSH|DOCKER|SINGULARITY|MODAL|DAYTONA)_[A-Z0-9_]+")
ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
SINGLE_QUOTED = re.compile(r"'([^']*)'(?:\s*|\s+#.*)")
DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*|\s+#.*)')


@dataclass(frozen=True, slots=True)
class Line:
    """A line of .env; `name` is empty for a comment, `value` None for a line that makes no sense."""

    text: str
    name: str = ""
    value: str | None = ""


def lines_of(text: str) -> list[Line]:
    return [_line(raw) for raw in text.removesuffix("\n").split("\n")] if text else []


def from_env_file(path: Path, findings: Findings) -> list[Given]:
    text = read_text(path)
    if text is None:
        return []
    if path.stat().st_mode & 0o077:
        findings.warnings.append(
            f"{path} holds secrets and can be read by others on this machine; run: chmod 600 {path}"
        )
    given: list[Given] = []
    lines = lines_of(text)
    _warn_of_other_backends([line.name for line in lines if line.value], str(path), findings)
    for number, line in enumerate(lines, 1):
        where = f"{path} line {number}"
        if line.value is None:
            findings.warnings.append(f"{where}: not understood and left out; a line looks like NAME=value or NAME='…'")
        elif line.name:
            found = _given(line.name, line.value, f"{path.name} line {number}", f"{where} ({line.name})", findings)
            given += found
            if not found:
                _hint_at_typo(line.name, where, findings)
    return given


def from_environment(environ: Mapping[str, str], findings: Findings) -> list[Given]:
    _warn_of_other_backends([name for name in environ if environ[name]], "environment", findings)
    names = sorted(environ, key=lambda name: GENERAL.fullmatch(name) is None)
    return [
        given
        for name in names
        for given in _given(name, environ[name], f"environment {name}", f"environment {name}", findings)
    ]


def _given(name: str, value: str, source: str, where: str, findings: Findings) -> list[Given]:
    key = variables().get(name)
    if key is None:
        if GENERAL.fullmatch(name):
            _unknown(name, where, findings)
        return []
    empty = not value.strip()
    return [
        Given(
            key=key,
            value=None if empty else value.strip(),
            source=f"{source}, empty" if empty else source,
            where=where,
            mend=f"correct or unset {name}" if source.startswith("environment") else "correct or delete that line",
        )
    ]


def _unknown(name: str, where: str, findings: Findings) -> None:
    dotted = name.removeprefix("HERMES_").replace("__", ".").lower()
    if dotted.startswith(("access.", "approvals.")):
        findings.errors.append(f"{where}: {explain_unknown(dotted)} Correct or unset {name}.")
    else:
        findings.warnings.append(f"{where}: {explain_unknown(dotted)} It has no effect.")


def _warn_of_other_backends(names: Iterable[str], where: str, findings: Findings) -> None:
    """Point out settings of backends that this version lacks: their owner believes that commands run elsewhere."""
    by_backend: dict[str, list[str]] = {}
    for name in names:
        if (found := OTHER_BACKEND.fullmatch(name)) and name not in variables():
            by_backend.setdefault(found[1].lower(), []).append(name)
    for backend, set_here in by_backend.items():
        findings.warnings.append(
            f"{where}: {', '.join(set_here)} {'has' if len(set_here) == 1 else 'have'} no effect: this version has "
            f"no {backend} backend. terminal.backend is {describe_expected(catalogue()['terminal.backend'].info)}."
        )


def _hint_at_typo(name: str, where: str, findings: Findings) -> None:
    well_known = [known for known in variables() if not GENERAL.fullmatch(known)]
    close = difflib.get_close_matches(name, well_known, n=1, cutoff=0.88)
    if close and not GENERAL.fullmatch(name) and find_of_account(name) is None:
        findings.warnings.append(f"{where}: {name} is not known, so it has no effect; did you mean {close[0]}?")


def _line(raw: str) -> Line:
    text = raw.removesuffix("\r")
    if not text.strip() or text.lstrip().startswith("#"):
        return Line(raw)
    match = ASSIGNMENT.fullmatch(text)
    if match is None:
        return Line(raw, value=None)
    name, value = match.groups()
    return Line(raw, name, _unquoted(value))


def _unquoted(value: str) -> str | None:
    if value.startswith("'"):
        match = SINGLE_QUOTED.fullmatch(value)
        return match[1] if match else None
    if value.startswith('"'):
        match = DOUBLE_QUOTED.fullmatch(value)
        return re.sub(r"\\(.)", r"\1", match[1]) if match else None
    value = re.sub(r"(^|\s+)#.*", "", value)
    return value if value.isprintable() else None
