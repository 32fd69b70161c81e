"""Find commands that text from outside may have brought about: they contact, send, install or run what only it names.

Ordinary commands of a project (its tests, its build, its own history) pass: a README names them, and a text from
outside gains nothing by it. Options that choose other code (another makefile, a plug-in, a package index) do not, and
nothing that runs the project passes once files were written in the same conversation.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.approval.gate import Question, bound_to
from tools.approval.reach import Reach, reach_of
from tools.provenance import SEARCH, SUMMARY, Provenance
from tools.shell_guard.guard import Judgement, judge
from tools.shell_guard.options import read
from tools.shell_guard.programs import is_known_harmless, listed, names, pattern_of, value_of

_TARGET = pattern_of("ordinary-words", "target")
_OPTION = pattern_of("ordinary-words", "option")
_INSIDE = re.compile(r"(?![/~-])(?!.*(?:^|/)\.\.(?:/|$))[\w@%+=:,./\[\] -]+")  # of the project
_COMMIT_OPTION = re.compile(r"-[amqvs]+|--(?:message|all|quiet|signoff|amend|no-edit)(?:=.*)?", re.DOTALL)
_LISTS = "-r --requirement -c --constraint -e --editable"  # options of pip
_INSTALL_OPTION = pattern_of("ordinary-words", "install-option")
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
    if name in listed("ordinary-by-target"):
        targets = operands[1:] if operands[:1] == ["run"] else operands
        return all(_TARGET.fullmatch(word) for word in targets) and (bool(targets) or name in ("make", "gmake"))
    if (subcommands := value_of("ordinary-subcommands", name)) is not None:
        return bool(operands) and operands[0] in subcommands.split() and _are_inside(operands[1:])
    return name in listed("ordinary") and _are_inside(operands)


def manifests_used(argv: Sequence[str]) -> list[str] | None:
    """Return the project's files that list the packages to fetch from the usual place; None for other commands."""
    name, rest = _program(argv)
    if name in ("pip", "pip3") and rest[:1] == ["install"]:
        return _requirements(rest[1:])
    operands = [word for word in rest if not word.startswith("-")]
    is_usual = all(_INSTALL_OPTION.fullmatch(word) or _OPTION.fullmatch(word) for word in rest if word.startswith("-"))
    known = operands[:1] and operands[0] in (value_of("installs-by-files", name) or "").split()
    is_alone = len(operands) == 1 or (name == "go" and operands[:2] in (["mod", "tidy"], ["mod", "download"]))
    return [] if known and is_usual and is_alone else None


def packages_named(argv: Sequence[str]) -> list[str]:
    """Return the packages that an installer fetches by name from its usual place; empty for other commands."""
    name, rest = _program(argv)
    if not rest or rest[0] not in (value_of("installs-by-name", name) or "").split():
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
    options = read(words, _LISTS)
    files = options.values(*_LISTS.split())
    is_usual = all(name in _LISTS.split() or _INSTALL_OPTION.fullmatch(name) for name, _ in options.given)
    are_here = all(re.fullmatch(r"\.(?:\[[\w,-]+\])?", word) for word in options.rest)
    is_known = is_usual and are_here and _are_inside(files) and ":" not in "".join(files)
    return [*files, *options.rest] or None if is_known else None


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
_SHORT_CHARS = 3
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_OPEN = names("curl wget git")  # show whom they contact
_FILTERS = names("cat cd cut echo grep head jq ls mkdir printf sleep sort tail tr true wc")  # contact nobody
_SETS = re.compile(r"(?:^|[\s;&|({])[A-Za-z_]\w*\+?=")  # variables, such as PATH and CURL_HOME
_SAVES = re.compile(r">(?!&|\s*/dev/null)|(?:^|\s)-\w*[oOP]|--(?:output|remote|directory|config)|\b(?:wget|git)\b")
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})  # data sent there stays on this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """The reasons why a human should look at a command, and the rules that a lasting yes would grant."""

    reasons: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    only_once: bool = False  # nothing of it can be granted for good

    def question(self, tool: str, action: str, *binding: object) -> Question | None:
        """Return the question to whoever the call is for, None without a doubt. `binding` is all that it is about."""
        if not self.reasons:
            return None
        return Question(
            tool=tool,
            action=action,
            reasons=self.reasons,
            rules=self.rules,
            binding=bound_to(*binding),
            decider="asker",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The surroundings of a command."""

    cwd: str
    has_network: bool = True
    is_isolated: bool = False  # what it does by itself can do no harm, and its network has a guard of its own
    written: frozenset[str] = frozenset()  # files that this conversation has changed, by absolute path


NO_DOUBT = Doubt()


def doubt_about(command: str, judged: Judgement, heard: Provenance, setting: Setting) -> Doubt:
    """Return the doubts about a command in a conversation with text from outside. `judged` is the guard's reading."""
    own = _Words(heard.own_words)
    if not heard.outside or judged.is_harmless or own.hold(command):
        return NO_DOUBT
    found = dict(_reaching(judged.argv, heard, own, setting)) if setting.has_network else {}
    if not setting.is_isolated:
        found |= dict(_running_what_was_written(judged.argv, setting))
        if any(rule.name == "interpreter-code" for rule in judged.rules):
            found["it runs code that nobody has read, after text from outside was read"] = ""
    origin = "" if setting.is_isolated else _said_by(command, judged.argv, heard, own)
    reasons = (*found, *([f"{origin} says to run it, and nobody here has written it"] if origin else ()))
    rules = tuple(dict.fromkeys(rule for rule in found.values() if rule))
    return Doubt(reasons=reasons, rules=rules, only_once=bool(origin) or "" in found.values())


def doubt_about_leaving(command: str, judged: Judgement, heard: Provenance, setting: Setting) -> Doubt:
    """Return the doubts about a command that leaves the sandbox: then it must be the person's own words."""
    if not heard.outside or _Words(heard.own_words).hold(command):
        return NO_DOUBT
    found = doubt_about(command, judged, heard, setting)
    return Doubt(reasons=(*found.reasons, "text from outside was read, and nobody here has written it"), only_once=True)


def is_new_address(host: str, heard: Provenance, command: str) -> bool:
    """Return whether a connection that a command makes in a sandbox asks, because text from outside was read.

    It does not where somebody here has written the host and the command, or the command is seen to do no more than
    fetch from there, and nothing ran before that may have changed what it does: whoever owns the page that was read
    gains nothing else.
    """
    if not heard.outside:
        return False
    if _bare(host) not in hosts_in(heard.own_words):
        return True
    own = _Words(heard.own_words)
    is_as_found = not heard.written and all(ran == command or own.hold(ran) or _only_looks(ran) for ran in heard.ran)
    is_known = is_as_found and all(passage.origin != SUMMARY for passage in heard.outside)
    return not (own.hold(command) or (is_known and _only_fetches(command, _bare(host))))


def _only_fetches(command: str, host: str) -> bool:
    """Return whether all of a command is seen: it contacts the host by an address, which was judged before."""
    contacting = [argv for argv in judge(command).argv if argv[0] not in _FILTERS]
    reaches = [reach_of(argv) if argv[0] in _OPEN else None for argv in contacting]
    is_there = all(reach is not None and host in map(_host_of, reach.addresses) for reach in reaches)
    return bool(reaches) and is_there and not _SETS.search(command)


def _only_looks(command: str) -> bool:
    """Return whether all of a command is seen, and it leaves nothing behind that a later one may obey."""
    return not (_SETS.search(command) or _SAVES.search(command)) and all(
        argv[0] in _FILTERS or argv[0] in _OPEN for argv in judge(command).argv
    )


def doubt_about_fetching(urls: Sequence[str], heard: Provenance) -> Doubt:
    """Return the doubts about reading web pages: an address can carry data to whoever has told us to read it.

    Those that a search has found pass. They are few, and their owners could not know what else was said here.
    """
    if not heard.outside:
        return NO_DOUBT
    own = _Words(heard.own_words)
    results = {line for passage in heard.outside if passage.origin == SEARCH for line in passage.text.splitlines()}
    found: dict[str, str] = {}
    for url in urls:
        if url not in results:
            found |= dict(_contacting(Reach(program="a web tool", addresses=(url,)), heard, own))
    return Doubt(reasons=tuple(found), rules=tuple(dict.fromkeys(filter(None, found.values()))))


def doubt_about_passing_on(texts: Sequence[str], to: str, heard: Provenance, *, besides: str) -> Doubt:
    """Return the doubt about texts that are handed to a service, such as an MCP server, which may act on them.

    Words of the people here pass, and so does everything until text from outside was read. Descriptions of tools are
    always there: they are compared, except those of the service's own tools, whose names begin with `besides`.
    """
    own = _Words(heard.own_words)
    foreign = [text for text in texts if any(map(str.isalnum, text)) and not own.hold(text)]
    for passage in heard.outside if foreign else ():
        if not passage.origin.startswith("description:"):
            return Doubt(
                reasons=(f"it hands text that nobody here has written to {to}, after {passage.source} was read",)
            )
        if passage.origin.startswith(f"description:{besides}"):
            continue
        words = _Words(passage.text)
        if any(len(text) > _SHORT_CHARS and words.hold(text) for text in foreign):
            return Doubt(reasons=(f"it hands to {to} what only {passage.source} says",))
    return NO_DOUBT


def doubt_about_entering(texts: Sequence[str], url: str, heard: Provenance) -> Doubt:
    """Return the doubts about giving these to a web page, by typing or submitting them: it was read, and may have asked
    for them. They pass where somebody here has written them, and the page's host."""
    own, host = _Words(heard.own_words), _host_of(url)
    if not heard.outside or (host in hosts_in(heard.own_words) and all(map(own.hold, filter(str.strip, texts)))):
        return NO_DOUBT
    reason = f"it sends something to {host or url}, and nobody here has written both what and where"
    return Doubt(reasons=(reason,), rules=(f"send-outside {host}",) if host else ())


# Reaching out. Each reason comes with the rule that a lasting yes would grant, empty when there is none.


def _reaching(
    argvs: Sequence[Sequence[str]], heard: Provenance, own: "_Words", setting: Setting
) -> Iterator[tuple[str, str]]:
    for argv in argvs:
        if own.hold(shlex.join(argv)) or (reach := reach_of(argv)) is None:
            continue
        if (files := manifests_used(argv)) is not None:
            if any(
                posixpath.normpath(posixpath.join(setting.cwd, file)) in setting.written
                for file in (*files, *_MANIFESTS)
            ):
                yield "it installs what a file names that was written in this conversation", ""
        elif packages := packages_named(argv):
            if not all(map(own.hold, packages)):
                yield f"it installs {', '.join(packages)}, which nobody here has named", ""
        elif not (is_ordinary(argv) and not reach.sends):
            yield from _contacting(reach, heard, own)


def _contacting(reach: Reach, heard: Provenance, own: "_Words") -> Iterator[tuple[str, str]]:
    known = hosts_in(heard.own_words)
    bare = [re.split(r"[?#]", address)[0] for address in reach.addresses]
    hosts = [_host_of(address) or _bare(address.rpartition("@")[2].partition(":")[0]) for address in bare]
    unknown = ["…" in address and host not in _HERE for host, address in zip(hosts, reach.addresses, strict=True)]
    if not all(hosts) or any(unknown) or not hosts:
        is_sent = f"it sends something away with {reach.program}"
        yield is_sent if reach.sends else "it contacts an address that cannot be known before it runs", ""
    for host, address in zip(hosts, reach.addresses, strict=True):
        if reach.sends and host not in _HERE:
            yield f"it sends something to {host}", f"send-outside {host}"
        elif host not in known and not ("." not in host and own.hold(host)):
            yield f"it contacts {host}, {_named_by(host, heard)}", f"contact-outside {host}"
        elif not _is_written(host, address, heard, own):
            yield f"it contacts {address}, an address that nobody here has written", f"contact-outside {host}"


def _is_written(host: str, address: str, heard: Provenance, own: "_Words") -> bool:
    """Return whether somebody here has written the whole address: its path can carry data to the host."""
    if host in _HERE or not ("/" in _plain_address(address) or "?" in address):
        return True
    return own.hold(address) or _plain_address(address) in map(_plain_address, _BETWEEN.split(heard.own_words))


def _plain_address(word: str) -> str:
    """Return an address for comparison: without scheme and fragment, the host in lower case."""
    bare = _SCHEME.sub("", word[:_MAX_WORD_CHARS].strip(_AROUND)).partition("#")[0].rstrip("/")
    host = re.split(r"[/?]", bare)[0]
    return f"{_bare(host)}{bare[len(host) :]}"


_MANIFESTS = ("package.json", "pyproject.toml", "setup.py", "setup.cfg", "Cargo.toml", "go.mod", "Gemfile", "Pipfile")


def _named_by(host: str, heard: Provenance) -> str:
    for passage in heard.outside:
        if host in passage.text.casefold() and host in hosts_in(passage.text):
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


# Running.


def runs_project(argv: Sequence[str]) -> bool:
    """Return whether it runs files of the project or a file by its path, and so perhaps one that was just written."""
    name, rest = _program(argv)
    if name in ("mkdir", "touch", "git") or (rest and rest[0] in ("--version", "--help")):
        return False
    lists = ("ordinary", "ordinary-by-target", "project-runners", "also-run-projects")
    is_listed = any(name in listed(section) for section in lists)
    return "/" in argv[0] or is_listed or value_of("ordinary-subcommands", name) is not None


def _running_what_was_written(argvs: Sequence[Sequence[str]], setting: Setting) -> Iterator[tuple[str, str]]:
    if setting.written and any(map(runs_project, argvs)):
        shown = ", ".join(sorted(map(posixpath.basename, setting.written))[:3])
        yield (
            f"it may run files that were written after text from outside was read: {shown}",
            f"run-written {setting.cwd}" if setting.cwd.startswith("/") else "",
        )


def _said_by(command: str, argvs: Sequence[Sequence[str]], heard: Provenance, own: "_Words") -> str:
    """Return whose text contains the command; empty when none does, or somebody here has written it too."""

    def may_run(argv: Sequence[str]) -> bool:
        is_known = (
            is_known_harmless(posixpath.basename(argv[0]), argv[1:])
            or is_ordinary(argv)
            or manifests_used(argv) is not None
        )
        named = packages_named(argv)
        return is_known or own.hold(shlex.join(argv)) or (bool(named) and all(map(own.hold, named)))

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
