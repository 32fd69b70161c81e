"""Check one command, one redirection or one variable: by the table of programs, and by the paths that it names."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools.shell_guard.expansion import UNKNOWN, render
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.interpreters import is_interpreter
from tools.shell_guard.options import Options, read, read_leading
from tools.shell_guard.paths import (
    find_filled,
    find_paths,
    holds_secrets,
    is_disk,
    is_everything,
    is_home,
    is_nothing,
    is_settings,
    is_system,
    is_temporary,
    may_be_below,
    runs_by_itself,
    secret_in,
)
from tools.shell_guard.programs import dangers_of, has_dangers, is_known_harmless, listed, names, value_of
from tools.shell_guard.wrappers import is_wrapper

_MENTIONING = listed("mentioning")
_TEXT_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "jq", "zgrep"})
# What they are given to read they do not write to.
_ONLY_READING = names("source . zip tar view git")  # besides those that are harmless anyway
_LOOKING_AT_DISKS = names("lsblk blkid smartctl df findmnt udevadm iostat lsof fuser mount umount dumpe2fs e2label")
_COPYING = names("cp mv ln install rsync scp")
_UNPACKING = ("tar", "unzip")
_ALL_INSIDE = re.compile(r"/\.?$|(?:^|/)\.?\*$")  # all that is in a folder
_GIT_NAMING = re.compile(r"(?:commit|tag|add|rm|status|log(?!.* (?:-\w*p|--patch|-u|-L)))\b")  # opens no file
_WRITING = names("tee sponge touch mkdir truncate patch ed ex unzip mkfifo mknod")
_BUILDS = re.compile(r"(?:[\w.-]*-)?(?:gcc|g\+\+|cc|c\+\+|clang(?:\+\+)?|ld|rustc|go|tsc|ghc|javac)(?:-[\d.]+)?")
_NEVER = frozenset({"kill-everything", "approve-itself"})  # rules of the table that nothing overrides
_TRUNCATING = frozenset({">", ">|", "&>", ">&"})
_DELETING = names("rm grm srm rmdir unlink")
_BEFORE_ACTION = "-C -c --git-dir --work-tree --namespace --config-env --super-prefix"  # options of git itself
_LETS_READ = re.compile(r"(?:^|\s)[0-7]*(?:[4-7]\d|[4-7])\s|[+=]\w*r")
_OF_A_REPOSITORY = re.compile(r"(?:^|/)\.git/(?!.*\.(?:lock|orig|swp)$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    home: str = "~"
    is_there: Callable[[str], bool] = lambda path: True
    guarded: tuple[str, ...] = ()  # folders of Hermes itself, located
    open_folders: tuple[str, ...] = ()  # inside them, but for anybody

    def command(self, run: Run, *, is_module: bool = False) -> Iterator[CommandRisk]:
        for danger in dangers_of(run.name, run.words, run.stdin):
            is_disks = danger.rule == "write-disk" and any(is_disk(run.at(word)) for word in run.words)
            yield (block if is_disks or danger.rule in _NEVER else ask)(danger.rule, danger.reason)
        if special := SPECIAL.get(run.name):
            yield from special(run)
        if run.name in _DELETING:
            yield from self._check_deletes(run)
        if is_module:
            return
        yield from self._check_reads(run)
        yield from self._check_writes(run)

    def redirect(self, operator: str, target: str, run: Run) -> Iterator[CommandRisk]:
        path = run.at(target)
        if not target or target == "-" or (target.isdigit() and "&" in operator):
            return
        if re.match(r"/dev/(?:tcp|udp|\x00)", path):
            yield ask("raw-connection", "it opens a bare connection to another machine")
        elif operator == "<":
            yield from self._check_read(target, run)
            if run.name in ("ssh", "openssl") and not is_nothing(path):
                yield ask("upload", f"it sends {render(path)} to another machine")
        else:
            yield from self._check_written(target, run, truncates=operator in _TRUNCATING)

    def variable(self, name: str, value: str) -> Iterator[CommandRisk]:
        if dangers_of("=", (f"{name}={value}",)):
            yield ask("loading-variable", f"{name} makes programs load or run something else", name)

    def is_guarded(self, path: str) -> bool:
        """Return whether a located path, which may hold patterns, is in a folder of Hermes itself."""
        if not any(may_be_below(path, root) for root in self.guarded):
            return False
        return ".." in path or not any(f"{path}/".startswith(f"{folder}/") for folder in self.open_folders)

    def _check_deletes(self, run: Run) -> Iterator[CommandRisk]:
        options = read(run.words)
        if any(UNKNOWN in word for word in run.words):
            yield ask("run-time-delete", "what it deletes is decided only when it runs")
        is_recursive = options.has("-r", "-R", "--recursive")
        for word in options.rest:
            path, scope = run.at(word), run.scope(word)
            if is_everything(path, run.home):
                yield block("delete-everything", f"it deletes {render(path)}, which the system or a home consists of")
            elif is_recursive:
                yield ask("recursive-delete", f"it deletes {render(path)} and everything in it", scope)
            elif re.search(r"(?:^|/)\.?\*$", word):
                yield ask("delete-all-files", f"it deletes every file that fits {render(path)}", scope)
            elif is_system(path):
                yield ask("change-system", f"it deletes {render(path)}, a file of the system", scope)
            elif runs_by_itself(path) or secret_in(path) or self.is_guarded(path):
                yield ask("write-start-up", f"it deletes {render(path)}, which is read or run by itself", scope)
            elif _OF_A_REPOSITORY.search(path):
                yield ask("delete-for-good", f"it deletes {render(path)}, by which git finds everything else")
        if is_recursive and not options.rest:
            yield ask("recursive-delete", "it deletes folders with all that is in them")

    # Reading.

    def _check_reads(self, run: Run) -> Iterator[CommandRisk]:
        for word in _find_opened(run) if run.name not in _MENTIONING else ():
            for part in find_paths(word):
                yield from self._check_read(part, run)
        wanted = value_of("reads-folders", run.name)
        if wanted is None or (wanted and not read(run.words).has(*wanted.split())) or not _does(run, "cru"):
            return
        for word in _find_opened(run):
            path = run.at(word)
            if not word.startswith("-") and holds_secrets(path) and not secret_in(path):
                yield ask("read-secret", f"it reads all of {render(path)}, secrets included", run.scope(word))

    def _check_read(self, word: str, run: Run) -> Iterator[CommandRisk]:
        path = run.at(word)
        if self.is_guarded(path):
            yield ask("read-own-home", f"it reads {render(path)}, which belongs to Hermes itself")
        elif secret_in(path):
            yield ask("read-secret", f"it reads {render(path)}, which holds secrets", run.scope(word))

    # Writing.

    def _check_writes(self, run: Run) -> Iterator[CommandRisk]:
        options = read(run.words, value_of("output-options", run.name) or "")
        is_appending = run.name == "tee" and options.has("-a", "--append")
        truncates = run.name in ("dd", "sed", "gsed", "sponge", "tee") and not is_appending
        if run.name in _COPYING:
            yield from self._check_copies(run)
        for target in self._find_targets(run, options):
            yield from self._check_written(target, run, truncates=truncates)
        is_build = bool(_BUILDS.fullmatch(run.name)) or run.name in _UNPACKING
        for target in _find_outputs(run, options):
            yield from self._check_written(target, run, truncates=not is_build)

    def _find_targets(self, run: Run, options: Options) -> list[str]:
        """Return the words that name files it writes; of an unknown program those that would matter."""
        if run.name == "mkdir":  # an empty folder runs nothing
            return [word for word in options.rest if is_system(run.at(word))]
        if run.name in _WRITING:
            return list(options.rest)
        if run.name in ("dd", "dcfldd", "dc3dd"):
            return [word.partition("=")[2] for word in run.words if word.startswith(("of=", "wipe="))]
        if options.has("-i", "--in-place") and run.name in ("sed", "gsed", "perl", "ruby"):
            return list(options.rest[1:] if "-e" not in run.words else options.rest)
        is_otherwise = run.name in _ONLY_READING | _MENTIONING | _COPYING or is_known_harmless(run.name, run.words)
        if is_otherwise or is_interpreter(run.name) or is_wrapper(run.name):
            return []
        is_known = has_dangers(run.name) or run.name in _LOOKING_AT_DISKS
        parts = [run.at(part) for word in run.words for part in find_paths(word)]
        return [
            path for path in parts if runs_by_itself(path) or self.is_guarded(path) or (is_disk(path) and not is_known)
        ]

    def _check_copies(self, run: Run) -> Iterator[CommandRisk]:
        options = read(run.words, "-t --target-directory -S --suffix -m --mode -o -g -e --rsh --exclude --include")
        aims = options.values("-t", "--target-directory")
        *sources, last = options.rest or ("",)
        target, sources = (aims[0], [*sources, last]) if aims else (last, sources)
        if not target:
            return
        is_for_home = is_home(run.at(target))
        yield from self._check_written(target, run, truncates=False)
        for place in find_filled(target, sources, is_for_home=is_for_home):
            if runs_by_itself(run.at(place)):
                yield from self._check_written(place, run, truncates=False)
        for source in sources if run.name == "mv" else ():
            yield from self._check_written(source, run, truncates=False)
        is_all = options.has("-T", "--no-target-directory") or any(map(_ALL_INSIDE.search, sources))
        if is_all and is_for_home:
            yield ask("write-start-up", "it fills a home, where some files are run by themselves", run.scope(target))

    def _check_written(self, target: str, run: Run, *, truncates: bool) -> Iterator[CommandRisk]:
        path = run.at(target)
        seen, scope = render(path), run.scope(target)
        if is_nothing(path):
            return
        if is_disk(path):
            yield block("write-disk", "it writes to a disk below its files")
        elif self.is_guarded(path):
            yield ask("write-start-up", f"it writes to {seen}, which controls Hermes itself", scope)
        elif runs_by_itself(path) or (secret_in(path) and not is_settings(path)):
            yield ask("write-start-up", f"it writes to {seen}, which is read or run by itself later", scope)
        elif is_system(path) or path == "/":
            yield ask("change-system", f"it writes to {seen}, which belongs to the system", scope)
        elif truncates and UNKNOWN in path and not is_temporary(path):
            yield ask("overwrite-file", "which file it overwrites is decided only when it runs")
        elif truncates and not is_temporary(path) and self.is_there(path):
            yield ask("overwrite-file", f"it overwrites {seen}", scope)


def _find_outputs(run: Run, options: Options) -> Iterator[str]:
    """Yield the files that options such as `-o` name, of programs that are known to write them, and of unknown ones."""
    if taken := value_of("output-options", run.name):
        for value in options.values(*taken.split()) if _does(run, "xcru") else ():
            path = run.at(value)
            if run.name in (*_UNPACKING, "wget") and is_home(path):
                yield f"{value}/.profile"  # it may bring anything that a home runs
            elif is_everything(path) or not value.startswith("-"):
                yield f"{value}/{UNKNOWN}" if run.name in _UNPACKING and not is_everything(path) else value
    elif not is_known_harmless(run.name, run.words) and not is_interpreter(run.name):
        for option, value in zip(run.words, run.words[1:], strict=False):
            if option in ("-o", "--output", "--out", "-out", "--outfile") and "=" not in value:
                yield value
        yield from (word.partition("=")[2] for word in run.words if re.match(r"--out(?:put|file)?=", word))


def _find_opened(run: Run) -> Sequence[str]:
    """Return those of its words that may name a file that it reads."""
    words = run.words
    if run.name == "git" and _GIT_NAMING.match(" ".join(words)):
        return read(words, "-F --file").values("-F", "--file")
    if run.name in _TEXT_FIRST and not {"-e", "-f"} & set(words):
        first = next((place for place, word in enumerate(words) if not word.startswith("-")), len(words))
        return words[:first] + words[first + 1 :]
    has_target = run.name in _COPYING and len(words) > 1 and not words[-1].startswith("-")
    return words[:-1] if has_target and not read(words).has("-t", "--target-directory") else words


def _does(run: Run, actions: str) -> bool:
    """Return whether tar does one of these; its first word may be without a dash. Other programs do."""
    words = (f"-{word}" if not place and not word.startswith("-") else word for place, word in enumerate(run.words))
    return run.name != "tar" or any(re.match(rf"-\w*[{actions}]|--(?:cr|app|upd|[ge]\w+)", word) for word in words)


# Programs that a pattern over their words cannot judge: their danger depends on paths, or on a part of a word.


def _table(name: str, *words: str) -> Iterator[CommandRisk]:
    """Look up a part of a command under a name of its own."""
    yield from (ask(danger.rule, danger.reason) for danger in dangers_of(name, words))


def _moves(run: Run) -> Iterator[CommandRisk]:
    """Find whole systems and homes, and files of the system, that are moved away or given other rights."""
    options = read(run.words, "-t --target-directory -S --suffix --reference --from")
    has_aim = run.name == "mv" and not options.has("-t", "--target-directory")
    words = options.rest[:-1] if has_aim else options.rest
    paths = [run.at(word) for word in words]
    if (run.name == "mv" or options.has("-R", "--recursive")) and any(is_everything(path, run.home) for path in paths):
        yield block("change-everything", "it moves or gives other rights to what the system or a home consists of")
    elif any(map(is_system, paths)):
        yield ask("change-system", "it moves files of the system, or changes who may do what with them")
    elif run.name == "chmod" and any(map(secret_in, paths)) and _LETS_READ.search(" ".join(run.words)):
        yield ask("show-secret", "it lets others read what holds secrets")


def _container(run: Run) -> Iterator[CommandRisk]:
    """Check the files and folders of this machine that a container is given."""
    options = read(run.words, "-v --volume --mount --secret -H --host -c --context")
    values = options.values("-v", "--volume", "--mount", "--secret")
    places = [source for value in values for source in re.findall(r"(?:source|src)=([^,]*)|^([^:,=]+):", value)]
    given = [one or other for one, other in places]
    if "cp" in options.rest[:2]:
        given += [word for word in options.rest[1:-1] if ":" not in word]
    for place in given:
        path = run.at(place)
        if is_everything(path, run.home) or is_system(path) or re.match(r"/var(?:/|$)", path):
            yield ask("open-container", "its container can reach the machine around it")
        if secret_in(path):
            yield ask("read-secret", f"it gives away {path}, which holds secrets", run.scope(place))


def _sed(run: Run) -> Iterator[CommandRisk]:
    """Ask about a script that does more than print, delete and replace lines."""
    options = read(run.words, "-e --expression -f --file -l --line-length -i?")
    files, scripts = options.values("-f", "--file"), options.values("-e", "--expression")
    if not files and not scripts:
        scripts = [*filter(None, options.rest)][:1]
    yield from _table("sed-script", "\n".join(scripts).replace(UNKNOWN, "1"))
    if any(re.match(r"-$|/(?:dev|proc)/", path) for path in files):
        yield ask("unread-code", "it runs its input, which nobody has read")


def _line_editor(run: Run) -> Iterator[CommandRisk]:
    if run.stdin is not None:
        yield ask("interpreter-code", f"{run.name} changes files as its input says, which nobody reads here", run.name)


def _git(run: Run) -> Iterator[CommandRisk]:
    """Look up the subcommand, which has rows of its own such as `git-push`, and each setting that is made."""
    before = read_leading(run.words, _BEFORE_ACTION)
    action, *words = before.rest or ("",)
    settings = before.values("-c", "--config-env")
    if action == "clone":
        settings += read(words, "-c --config -b -o --depth").values("-c", "--config")
    elif action == "config":
        rest = read(words, "-f --file --blob --default --type").rest
        rest = rest[1:] if rest[:1] == ("set",) else rest
        settings += [f"{rest[-2]}={rest[-1]}"] if len(rest) > 1 and rest[0] not in ("get", "list", "unset") else []
    for setting in settings:
        yield from _table("git-setting", setting)
    yield from _table("git-before", *(option for option, value in before.given if value or option != "--exec-path"))
    yield from _table(f"git-{action}", *words)


SPECIAL: dict[str, Callable[[Run], Iterator[CommandRisk]]] = {
    **dict.fromkeys(("chmod", "chown", "chgrp", "mv"), _moves),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _container),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("ed", "ex"), _line_editor),
    "git": _git,
}
