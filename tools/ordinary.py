"""Commands that only run what a project holds already: its tests, its build, its own history. Pure.

A README names them and the agent runs them, as was asked of it; a text from outside gains nothing by naming one.
Words that choose what is run (another makefile, a plug-in, an index of packages) make it any command again.
"""

import posixpath
import re
from collections.abc import Sequence


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOOLS = _names(
    "pytest py.test tox nox ruff mypy pyright black isort flake8 pylint unittest rspec rake jest vitest eslint "
    "prettier tsc ctest mkdir touch"
)
_SUBCOMMANDS = {
    "cargo": _names("build test check clippy fmt doc bench"),
    "go": _names("build test vet fmt"),
    "dotnet": _names("build test"),
    "coverage": _names("report html xml"),
    "git": _names("add checkout switch stash merge restore mv init cherry-pick commit"),
}
_TARGET = re.compile(
    r"(?:test|tests|check|lint|format|fmt|build|all|docs?|clean|typecheck|type-check|coverage|unit|ci|bench|dist|"
    r"compile|verify|package|assemble)(?:[:_-][\w:-]+)?"
)
_BY_TARGET = _names("make gmake npm pnpm yarn bun mvn mvnw gradle gradlew just")
_OPTION = re.compile(
    r"-[qvxslhkmnjaABbpu]+\d*|--(?:verbose|quiet|help|version|check|diff|fix|all|release|strict|no-color|lf|ff|sw|tb=\w+|silent|"
    r"maxfail=\d+|durations=\d+|locked|offline|workspace|all-targets|all-features|no-run|race|short|staged|continue|abort|"
    r"ff-only|no-ff|no-edit|cached|patch|parents|noEmit|write|run|watch=false|cov(?:=[\w./-]+)?|jobs=\d+)"
)
_INSIDE = re.compile(r"(?![/~-])(?!.*(?:^|/)\.\.(?:/|$))[\w@%+=:,./\[\] -]+")  # of the project
_COMMIT_OPTION = re.compile(r"-[amqvs]+|--(?:message|all|quiet|signoff|amend|no-edit)(?:=.*)?", re.DOTALL)
_BY_FILES = {  # fetches just what the project's own files name
    "npm": _names("ci install i"),
    "pnpm": _names("install i"),
    "yarn": _names("install"),
    "bun": _names("install"),
    "poetry": _names("install"),
    "pdm": _names("install"),
    "bundle": _names("install"),
    "composer": _names("install"),
    "uv": _names("sync"),
    "go": _names("mod build test"),
    "cargo": _names("fetch build test check"),
}
_BY_NAME = {
    "pip": _names("install"),
    "pip3": _names("install"),
    "npm": _names("install i add"),
    "pnpm": _names("install i add"),
    "yarn": _names("add"),
    "bun": _names("add"),
    "poetry": _names("add"),
    "uv": _names("add"),
    "cargo": _names("add install"),
    "gem": _names("install"),
    "apt": _names("install"),
    "apt-get": _names("install"),
    "dnf": _names("install"),
    "brew": _names("install"),
    "apk": _names("add"),
}
_INSTALL_OPTION = re.compile(
    r"-[qyUDdSEg]+|--(?:quiet|yes|global|upgrade|user|dev|save-dev|save|exact|frozen-lockfile|no-install-recommends|"
    r"no-cache-dir|silent|legacy-peer-deps)"
)
_PACKAGE = re.compile(r"(@?[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?)(?:\[[\w,-]+\])?(?:(?:[=~<>!]=?|@)=?[\w.*^~,<>=-]+)?")


def is_ordinary(argv: Sequence[str]) -> bool:
    """Whether it runs nothing but what the project holds already, and changes nothing outside of it."""
    name, rest = _program(argv)
    if name == "git" and rest[:1] == ["commit"]:  # its message may be any text
        return all(_COMMIT_OPTION.fullmatch(word) for word in rest[1:] if word.startswith("-"))
    options = [word for word in rest if word.startswith("-")]
    operands = [word for word in rest if not word.startswith("-")]
    if not all(_OPTION.fullmatch(word) for word in options) or (name == "pytest" and "-p" in options):
        return False
    if name in _BY_TARGET:
        targets = operands[1:] if operands[:1] == ["run"] else operands
        return all(_TARGET.fullmatch(word) for word in targets) and (bool(targets) or name in ("make", "gmake"))
    if name in _SUBCOMMANDS:
        return bool(operands) and operands[0] in _SUBCOMMANDS[name] and _are_inside(operands[1:])
    return name in _TOOLS and _are_inside(operands)


def manifests_used(argv: Sequence[str]) -> list[str] | None:
    """The project's files that say what is fetched, when it fetches just that from the usual place; None otherwise."""
    name, rest = _program(argv)
    if name in ("pip", "pip3") and rest[:1] == ["install"]:
        return _requirements(rest[1:])
    operands = [word for word in rest if not word.startswith("-")]
    is_usual = all(_INSTALL_OPTION.fullmatch(word) or _OPTION.fullmatch(word) for word in rest if word.startswith("-"))
    known = operands[:1] and operands[0] in _BY_FILES.get(name, ())
    is_alone = len(operands) == 1 or (name == "go" and operands[:2] in (["mod", "tidy"], ["mod", "download"]))
    return [] if known and is_usual and is_alone else None


def packages_named(argv: Sequence[str]) -> list[str]:
    """The packages that an installer is told to get by name from its usual place; empty when it is anything else."""
    name, rest = _program(argv)
    if not rest or rest[0] not in _BY_NAME.get(name, ()):
        return []
    wanted = [_PACKAGE.fullmatch(word) for word in rest[1:] if not word.startswith("-")]
    is_usual = all(_INSTALL_OPTION.fullmatch(word) for word in rest[1:] if word.startswith("-"))
    return [one[1] for one in wanted if one] if is_usual and all(wanted) else []


def _program(argv: Sequence[str]) -> tuple[str, list[str]]:
    """`python -m pytest` is pytest; a program that the project brings itself is none that we know."""
    name, *rest = argv
    base = posixpath.basename(name)
    if re.fullmatch(r"python[\d.]*", base) and rest[:1] == ["-m"] and rest[1:]:
        return rest[1], rest[2:]
    if base == "uv" and rest[:1] == ["pip"]:
        return "pip", rest[1:]
    is_known_place = "/" not in name or re.fullmatch(r"(?:\./)?(?:\.?venv/bin/[\w.]+|mvnw|gradlew)", name)
    return (base if is_known_place else name), rest


def _requirements(words: list[str]) -> list[str] | None:
    """Of `pip install -r requirements.txt -e .`"""
    files: list[str] = []
    waiting = ""
    for word in words:
        if waiting:
            if not _INSIDE.fullmatch(word) or ":" in word:
                return None
            files.append(word)
            waiting = ""
        elif word in ("-r", "--requirement", "-c", "--constraint", "-e", "--editable"):
            waiting = word
        elif re.fullmatch(r"\.(?:\[[\w,-]+\])?", word):
            files.append(word)
        elif not _INSTALL_OPTION.fullmatch(word):
            return None
    return files if files and not waiting else None


def _are_inside(operands: Sequence[str]) -> bool:
    return all(_INSIDE.fullmatch(word) for word in operands)
