"""git and its like: what overwrites, throws away, publishes, or runs something by its options."""

import re
from collections.abc import Iterator

from tools.guard.expansion import UNKNOWN
from tools.guard.findings import Finding, Run, ask
from tools.guard.names import names
from tools.guard.options import read
from tools.guard.rules.files import Rule
from tools.guard.rules.machine import when

_BEFORE = "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix"
_RUNS_SETTING = re.compile(
    r"(?i)alias\.[^=]*=\s*!|(?:core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|gitproxy|askpass|attributesfile)|"
    r"sequence\.editor|credential\.[^=]*helper|credential\.helper|diff\.[^=]*(?:command|textconv|external)|pager\.|"
    r"gpg\.[^=]*program|gpg\.program|filter\.|merge\.[^=]*driver|uploadpack\.|remote\.[^=]*\.(?:uploadpack|receivepack|vcs)|"
    r"protocol\.ext|url\.|include|http\.proxy|mergetool\.|difftool\.|interactive\.difffilter|browser\.)[^=]*="
)
_HARMLESS_VALUES = re.compile(r"=(?:cat|less|more|true|false|store|cache|manager|osxkeychain|ssh|vim?|nano|emacs)?$")
_LOST = {
    "clean": r"(?:^|\s)(?:-\w*f|--force)",
    "reset": r"--hard|--merge",
    "checkout": r"(?:^|\s)(?:-\w*f\w*|--force|--|\.)(?:\s|$)",
    "restore": r"^(?!.*--staged(?!.*--worktree))",
    "switch": r"(?:^|\s)(?:-f|--force|--discard-changes|-C)(?:\s|$)",
    "branch": r"(?:^|\s)(?:-\w*D|--delete --force|-f|--force|-M)",
    "tag": r"(?:^|\s)(?:-d|--delete|-f|--force)",
    "stash": r"^(?:drop|clear)",
    "reflog": r"^(?:expire|delete)",
    "gc": r"--prune=(?:now|all)|--aggressive",
    "update-ref": r".",
    "filter-branch": r".",
    "filter-repo": r".",
    "worktree": r"^remove.*(?:-f|--force)",
    "rm": r"^(?!.*--cached).*(?:^|\s)-\w*[rf]",
    "remote": r"^(?:remove|rm|set-url)",
    "prune": r".",
    "submodule": r"^deinit.*(?:-f|--force)",
}
_PUSH = re.compile(
    r"(?:^|\s)(?:--force\S*|-[a-zA-Z]*[fd][a-zA-Z]*|--mirror|--delete|--prune|\+\S|:\S|\S+ \+\S+|\S+ :\S+)(?=\s|$)"
)
_RUNNING_ACTIONS = names("rebase fetch pull clone ls-remote difftool grep archive")
_HOOK = re.compile(r"(?:^|\s)(?:--(?:exec|upload-pack|receive-pack|tree-filter|index-filter|extcmd)\b|-x\s|-O)")


def _git(run: Run) -> Iterator[Finding]:
    before = read(run.words, _BEFORE, stops_at_first=True)
    for setting in before.values("-c", "--config-env", "--exec-path"):
        yield from _setting(setting)
    if not before.rest:
        return
    action, *words = before.rest
    yield from _loses(action, " ".join(words))
    yield from _runs(action, " ".join(words))
    if action == "config":
        yield from _config(words)
    if action == "clone":
        for setting in read(words, "-c --config -b -o --depth").values("-c", "--config"):
            yield from _setting(setting)


def _loses(action: str, text: str) -> Iterator[Finding]:
    if action == "push" and _PUSH.search(f" {text}"):
        yield ask("force-push", "it overwrites or deletes what others may have fetched")
    elif action in _LOST and re.search(_LOST[action], text):
        yield ask("git-discard", f"git {action} throws away what may be nowhere else")
    elif UNKNOWN in action or (UNKNOWN in text and action in ("push", "clean", "reset", "restore", "rm")):
        yield ask("run-time-git", "what git pushes or throws away is decided only when it runs")


def _runs(action: str, text: str) -> Iterator[Finding]:
    if action in ("credential", "credential-store", "credential-cache", "daemon", "instaweb", "send-email"):
        yield ask("git-credentials", "git gives out what it should keep")
    if action in _RUNNING_ACTIONS and (_HOOK.search(f" {text}") or "ext::" in text):
        yield ask("option-runs", f"an option of git {action} runs something")


def _config(words: list[str]) -> Iterator[Finding]:
    options = read(words, "-f --file --blob --default --type")
    if len(options.rest) > 1 and options.rest[0] not in ("get", "list"):
        key, value = options.rest[-2:]
        yield from _setting(f"{key}={value}")
        if options.has("--global", "--system", "-f", "--file"):
            yield ask("git-settings", "it changes git's settings for every project")


def _setting(setting: str) -> Iterator[Finding]:
    if UNKNOWN in setting or (_RUNS_SETTING.search(setting) and not _HARMLESS_VALUES.search(setting)):
        yield ask("option-runs", "a setting of git runs something")


RULES: dict[str, Rule] = {
    "git": _git,
    "hg": when(
        "git-discard", "it throws away what may be nowhere else", r"\b(?:strip|purge|update -C|push -f|push --force)"
    ),
    "svn": when("git-discard", "it throws away what may be nowhere else", r"\b(?:revert|delete|rm)\b"),
    "gh": when(
        "remote-change",
        "it changes or gives out something at GitHub",
        r"^(?:repo|release|secret|ssh-key|gpg-key|variable|run|cache) (?:delete|remove|archive|set)",
        r"^auth (?:token|logout|refresh)",
        r"^api\b.*(?:-X ?|--method[ =])(?:DELETE|PUT|PATCH|POST)",
    ),
}


def commands_of(run: Run) -> Iterator[str]:
    """The scripts that git runs for a subcommand, written out."""
    words = read(run.words, _BEFORE, stops_at_first=True).rest
    match words:
        case ["submodule", "foreach", *rest] | ["bisect", "run", *rest]:
            yield " ".join(word for word in rest if word != "--recursive")
        case ["rebase", *rest]:
            yield from read(rest, "-x --exec --onto -s -X").values("-x", "--exec")
    for setting in read(run.words, _BEFORE, stops_at_first=True).values("-c"):
        value = setting.partition("=")[2]
        if _RUNS_SETTING.search(setting):
            yield value.lstrip().removeprefix("!")
