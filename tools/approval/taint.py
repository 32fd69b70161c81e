"""Find commands that text from outside may have brought about: they contact, send, install or run what only it names.

Ordinary commands of a project (its tests, its build, its own history) pass: a README names them, and a text from
outside gains nothing by it. Options that choose other code (another makefile, a plug-in, a package index) do not.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tools.provenance import Provenance
from tools.shell_guard.guard import judge

if TYPE_CHECKING:
    from tools.shell_guard.reaching import NetworkReach


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
    """Return whether it only runs code that the project has already, and changes nothing outside of it."""
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
    """Return the project's files that list the packages to fetch from the usual place; None for other commands."""
    name, rest = _program(argv)
    if name in ("pip", "pip3") and rest[:1] == ["install"]:
        return _requirements(rest[1:])
    operands = [word for word in rest if not word.startswith("-")]
    is_usual = all(_INSTALL_OPTION.fullmatch(word) or _OPTION.fullmatch(word) for word in rest if word.startswith("-"))
    known = operands[:1] and operands[0] in _BY_FILES.get(name, ())
    is_alone = len(operands) == 1 or (name == "go" and operands[:2] in (["mod", "tidy"], ["mod", "download"]))
    return [] if known and is_usual and is_alone else None


def packages_named(argv: Sequence[str]) -> list[str]:
    """Return the packages that an installer fetches by name from its usual place; empty for other commands."""
    name, rest = _program(argv)
    if not rest or rest[0] not in _BY_NAME.get(name, ()):
        return []
    wanted = [_PACKAGE.fullmatch(word) for word in rest[1:] if not word.startswith("-")]
    is_usual = all(_INSTALL_OPTION.fullmatch(word) for word in rest[1:] if word.startswith("-"))
    return [one[1] for one in wanted if one] if is_usual and all(wanted) else []


def _program(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return program and arguments. `python -m pytest` is pytest; a program of the project keeps its path."""
    name, *rest = argv
    base = posixpath.basename(name)
    if re.fullmatch(r"python[\d.]*", base) and rest[:1] == ["-m"] and rest[1:]:
        return rest[1], rest[2:]
    if base == "uv" and rest[:1] == ["pip"]:
        return "pip", rest[1:]
    is_known_place = "/" not in name or re.fullmatch(r"(?:\./)?(?:\.?venv/bin/[\w.]+|mvnw|gradlew)", name)
    return (base if is_known_place else name), rest


def _requirements(words: list[str]) -> list[str] | None:
    """Return the files of `pip install -r requirements.txt -e .`; None when it installs anything else."""
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


_MAX_COMPARED = 40  # commands in a command
_LINE_NUMBER = re.compile(r"^[ \t]*\d+\|", re.MULTILINE)  # as file_read puts before its lines
_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_QUOTES = str.maketrans(dict.fromkeys("\"'`\u2018\u2019\u201c\u201d", " "))
_AROUND = ".,;:!?()[]{}<>|&*_"  # around a word in a sentence, a list or Markdown
_AROUND_LINE = " \t\r>$#%*-+|.;"  # prompts, bullets, quotes of mail
_BETWEEN = re.compile(r"[\s\"'`<>|,;()]+")
_MAX_WORD_CHARS = 2_000
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})  # data sent there stays on this machine
_REMOTE_WORD = re.compile(r"(?!-)[\w./-]+|--(?:rebase|prune|all|tags|ff-only|quiet)|-[pqtv]")
_SETS_REMOTE = re.compile(
    r"^git (?:.* )?(?:remote (?:add|set-url)|submodule add|config (?:.* )?(?:remote|url|http|core|credential)\S*\.)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """The reasons why a human should look at a command, and the rules that a lasting yes would grant."""

    reasons: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    only_once: bool = False  # nothing of it can be granted for good


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The surroundings of a command."""

    cwd: str
    home: str
    has_network: bool = True
    written: Mapping[str, str] | None = None  # files that this conversation has changed, by absolute path


NO_DOUBT = Doubt()


def doubt_about(command: str, heard: Provenance, setting: Setting) -> Doubt:
    """Return the doubts about a command in a conversation with text from outside."""
    if not heard.outside:
        return NO_DOUBT
    judgement = judge(command, cwd=setting.cwd, home=setting.home, policy="unknown")
    own = _Words(heard.own_words)
    if own.hold(command):
        return NO_DOUBT
    found = dict[str, str]()
    if setting.has_network:
        found = dict(_reaching(command, judgement.argv, heard, own, setting))
    origin = _said_by(command, judgement.argv, heard, own, setting) if judgement.verdict != "safe" else ""
    reasons = (*found, *([f"{origin} says to run it, and nobody here has written it"] if origin else ()))
    rules = tuple(dict.fromkeys(rule for rule in found.values() if rule))
    return Doubt(reasons=reasons, rules=rules, only_once=bool(origin) or "" in found.values())


# Reaching out.


def _reaching(
    command: str, argvs: Sequence[Sequence[str]], heard: Provenance, own: "_Words", setting: Setting
) -> Iterator[tuple[str, str]]:
    """Yield reasons, each with the rule that a lasting yes would grant, empty when there is none."""
    known = hosts_in(heard.own_words)
    for host in _remotes_given(argvs):
        if host not in known:
            yield f"it lets git use {host}, {_named_by(host, heard)}", f"contact-outside {host}"
    # Only what an installer itself fetches, without the files that it runs.
    fetched = (
        _reaches(command, replace(setting, written=None)) if _installs_only_what_is_known(argvs, own, setting) else ()
    )
    for reach in _reaches(command, setting):
        if reach.sends or (reach.adds and reach.host and _bare(reach.host) not in _HERE):
            yield _sending(reach)
        elif not reach.host:
            if not (reach in fetched or _uses_own_remote(reach, argvs, setting)):
                yield _unknown_address(argvs), ""
        elif _bare(reach.host) not in known and not ("." not in reach.host and own.hold(reach.host)):
            yield f"it contacts {reach.host}, {_named_by(reach.host, heard)}", f"contact-outside {_bare(reach.host)}"
        elif not _is_written(reach, heard, own):
            yield (
                f"it contacts {reach.url}, an address that nobody here has written",
                f"contact-outside {_bare(reach.host)}",
            )


def _is_written(reach: "NetworkReach", heard: Provenance, own: "_Words") -> bool:
    """Return whether somebody here has written the whole address: its path can carry data to the host."""
    if _bare(reach.host) in _HERE or not _says_more_than_a_host(reach.url):
        return True
    return own.hold(reach.url) or _plain_address(reach.url) in map(_plain_address, _BETWEEN.split(heard.own_words))


def _says_more_than_a_host(url: str) -> bool:
    return "/" in _plain_address(url) or "?" in url


def _plain_address(word: str) -> str:
    """Return an address for comparison: without scheme and fragment, the host in lower case."""
    bare = _SCHEME.sub("", word[:_MAX_WORD_CHARS].strip(_AROUND)).partition("#")[0].rstrip("/")
    host = re.split(r"[/?]", bare)[0]
    return f"{_bare(host)}{bare[len(host) :]}"


def _reaches(command: str, setting: Setting) -> "tuple[NetworkReach, ...]":
    from tools.shell_guard.reaching import reaches  # brings the parser with it

    return reaches(command, cwd=setting.cwd, home=setting.home, written=setting.written)


def _unknown_address(argvs: Sequence[Sequence[str]]) -> str:
    if names := [name for argv in argvs for name in packages_named(argv)]:
        return f"it installs {', '.join(names)}, which nobody here has named"
    return "it contacts an address that cannot be known before it runs"


def _sending(reach: "NetworkReach") -> tuple[str, str]:
    if not reach.host:
        return f"it sends something away with {reach.program}", ""
    return f"it sends something to {reach.host}", f"send-outside {_bare(reach.host)}"


def _installs_only_what_is_known(argvs: Sequence[Sequence[str]], own: "_Words", setting: Setting) -> bool:
    """Return whether it installs only packages that somebody here, or files not written meanwhile, have named."""
    written = {posixpath.basename(path) for path in setting.written or ()}

    def is_known(argv: Sequence[str]) -> bool:
        files = manifests_used(argv)
        if files is not None:
            return not written & {*map(posixpath.basename, files), *_MANIFESTS}
        return _names_only(packages_named(argv), own)

    reaching = [argv for argv in argvs if _reaches(shlex.join(argv), setting)]
    return bool(reaching) and all(map(is_known, reaching))


def _names_only(packages: Sequence[str], own: "_Words") -> bool:
    return bool(packages) and all(own.hold(package) for package in packages)


_MANIFESTS = ("package.json", "pyproject.toml", "setup.py", "setup.cfg", "Cargo.toml", "go.mod", "Gemfile", "Pipfile")


def _uses_own_remote(reach: "NetworkReach", argvs: Sequence[Sequence[str]], setting: Setting) -> bool:
    """Return whether git only fetches from remotes that the repository knows by name."""
    if reach.program != "git":
        return False
    calls = [argv[1:] for argv in argvs if argv[0] == "git" and _reaches(shlex.join(argv), setting)]
    return bool(calls) and all(
        rest[:1] in (["fetch"], ["pull"]) and all(_REMOTE_WORD.fullmatch(word) for word in rest[1:])
        for rest in map(list, calls)
    )


def _remotes_given(argvs: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield hosts that git is told to use from then on, which later commands contact by a name."""
    for argv in argvs:
        if _SETS_REMOTE.search(" ".join(argv)):
            yield from sorted(hosts_in(" ".join(argv)))


def _named_by(host: str, heard: Provenance) -> str:
    wanted = _bare(host)
    for passage in heard.outside:
        if wanted in passage.text.casefold() and wanted in hosts_in(passage.text):
            return f"which only {passage.source} has named"
    return "which nobody here has named"


def hosts_in(text: str) -> frozenset[str]:
    """Return the hosts that a text names, in addresses or alone, each as a whole."""
    return frozenset(host for word in _BETWEEN.split(text) if (host := _host_of(word)))


def _host_of(word: str) -> str:
    before, is_address, after = word[:_MAX_WORD_CHARS].partition("://")
    # What stands before an @ is no host, however much it looks like one.
    authority = re.split(r"[/?#\\]", after if is_address else before.rpartition("=")[2])[0].rpartition("@")[2]
    if authority.startswith("["):
        return _bare(authority.partition("]")[0])
    host = _bare(authority.partition(":")[0].strip(_AROUND))
    is_host = host == "localhost" or ("." in host and re.fullmatch(r"[\w.-]+", host))
    return host if is_host else ""


def _bare(host: str) -> str:
    return host.strip("[]").rstrip(".").casefold()


# Running what was said.


def _said_by(command: str, argvs: Sequence[Sequence[str]], heard: Provenance, own: "_Words", setting: Setting) -> str:
    """Return whose text contains the command; empty when none does, or somebody here has written it too."""

    def may_run(argv: Sequence[str]) -> bool:
        judged = judge(shlex.join(argv), cwd=setting.cwd, home=setting.home, policy="unknown")
        is_known = is_ordinary(argv) or manifests_used(argv) is not None or own.hold(shlex.join(argv))
        return judged.verdict == "safe" or is_known or _names_only(packages_named(argv), own)

    doubtful = [argv for argv in argvs[:_MAX_COMPARED] if not may_run(argv)]
    if argvs and not doubtful and len(argvs) <= _MAX_COMPARED:
        return ""
    wanted = [command, *(shlex.join(argv) for argv in doubtful if "…" not in "".join(argv))]
    for passage in heard.outside:
        words = _Words(passage.text)
        if any(words.tell(one) for one in wanted):
            return passage.source
    return ""


class _Words:
    """A text as a row of words, without quotes and punctuation around them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._row: str | None = None

    def hold(self, command: str) -> bool:
        """Return whether the words of a command follow each other in the text."""
        words = _words(command)
        # The cheap test first: most texts have none of the words.
        if not words or not all(word in self._text for word in words):
            return False
        if self._row is None:
            self._row = f" {' '.join(_words(self._text))} "
        return f" {' '.join(words)} " in self._row

    def tell(self, command: str) -> bool:
        """Return whether the text tells to run it. A single word, such as `make`, must stand on a line of its own."""
        match _words(command):
            case [word] if "/" not in word:
                lines = (line.strip(_AROUND_LINE) for line in _plain(self._text).split("\n") if word in line)
                return any(re.sub(r"^\d+[.)]\s*", "", line).strip(_AROUND_LINE) == word for line in lines)
        return self.hold(command)


def _words(text: str) -> list[str]:
    return [bare for word in _plain(text).split() if (bare := word.strip(_AROUND))]


def _plain(text: str) -> str:
    return _CONTINUED.sub(" ", _LINE_NUMBER.sub("", text)).translate(_QUOTES)
