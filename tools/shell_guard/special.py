"""Programs that a pattern over their words cannot judge: their danger depends on paths, or on a part of a word."""

import re
from collections.abc import Callable, Iterator

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.options import read, read_leading
from tools.shell_guard.paths import is_everything, is_system, secret_in
from tools.shell_guard.programs import dangers_of

_BEFORE_ACTION = "-C -c --git-dir --work-tree --namespace --config-env --super-prefix"  # options of git itself
_LETS_READ = re.compile(r"(?:^|\s)[0-7]*(?:[4-7]\d|[4-7])\s|[+=]\w*r")


def _table(name: str, *words: str) -> Iterator[CommandRisk]:
    """Look up a part of a command under a name of its own."""
    yield from (ask(danger.rule, danger.reason) for danger in dangers_of(name, words))


def _moves(run: Run) -> Iterator[CommandRisk]:
    """Of whole systems and homes, and of what belongs to the system: moved away, or given other rights."""
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
    """The files and folders of this machine that a container is given."""
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
    """A script is read as no more than lines printed, deleted and replaced."""
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
    """Each subcommand has rows of its own, as `git-push`, and so has each setting that is made."""
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
