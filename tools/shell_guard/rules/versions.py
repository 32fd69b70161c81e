"""git and its like: what overwrites, throws away, publishes, or runs something by its options."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.names import names
from tools.shell_guard.options import read
from tools.shell_guard.rules.plain import Rule, all_of, when

BEFORE = "-C -c --git-dir --work-tree --namespace --config-env --super-prefix"  # options before the subcommand
# Settings whose value is run, by their first name and their last: `diff.<any>.textconv`. `*` is every last name.
_RUNS = {
    "core": "pager editor sshcommand fsmonitor hookspath gitproxy askpass attributesfile alternaterefscommand",
    "sequence": "editor",
    "credential": "helper",
    "diff": "command textconv external",
    "pager": "*",
    "gpg": "program defaultkeycommand",
    "filter": "*",
    "merge": "driver",
    "uploadpack": "*",
    "remote": "uploadpack receivepack vcs",
    "protocol": "allow",
    "url": "*",
    "include": "*",
    "includeif": "*",
    "http": "proxy",
    "mergetool": "*",
    "difftool": "*",
    "interactive": "difffilter",
    "browser": "*",
    "tar": "command",
    "trailer": "cmd command",
    "man": "cmd path",
    "guitool": "cmd",
    "init": "templatedir",
    "gc": "recentobjectshook",
    "imap": "tunnel",
    "sendemail": "*",
}
_HARMLESS_VALUES = names("cat less more true false store cache manager osxkeychain ssh vi vim nano emacs never user")
# Settings that may be made for every project without a question.
_TASTE = names(
    "user color column pull push fetch rebase rerere log status advice help branch stash init.defaultbranch "
    "core.autocrlf core.editor core.pager core.filemode core.quotepath core.ignorecase merge.conflictstyle merge.ff "
    "merge.tool diff.tool diff.algorithm diff.colormoved commit.gpgsign commit.verbose tag.gpgsign tag.sort gpg.format"
)
# What throws away, over the words behind the subcommand, one a line.
_LOST = {
    action: re.compile(pattern, re.MULTILINE)
    for action, pattern in {
        "clean": r"^(?:-\w*f|--f)",
        "reset": r"^--(?:ha|m)",
        "checkout": r"^(?:-\w*[fB]|--forc|--$|\./?$|:/|:\(|\*$)",
        "checkout-index": r"^(?:-\w*f|--f)",
        "read-tree": r"^(?:-\w*u|--reset)",
        "switch": r"^(?:-\w*[fC]|--forc|--disc)",
        "branch": r"^(?:-\w*[DMCf]|--forc)",
        "tag": r"^(?:-\w*[df]|--de|--fo)",
        "stash": r"\A(?:drop|clear)",
        "reflog": r"\A(?:expire|delete)",
        "gc": r"^--(?:prune=(?:now|all)|aggressive)",
        "worktree": r"\Aremove$[\s\S]*^(?:-f|--forc)",
        "rm": r"^-\w*[rf]",
        "remote": r"\A(?:remove|rm|set-url)",
        "submodule": r"\Adeinit$[\s\S]*^(?:-f|--forc)",
        "symbolic-ref": r"^(?:-d|--delete)",
        **dict.fromkeys(("update-ref", "filter-branch", "filter-repo", "prune"), r"."),
    }.items()
}
_PUSH = re.compile(r"(?m)^(?:--fo(?!l)|-[a-zA-Z]*[fd]|--mi|--de|--pru|\+\S|:\S)")
# Options whose value is run, by subcommand.
_RUNNING = {
    "clone": "-u --upload-pack --template",
    "init": "--template",
    "fetch": "--upload-pack",
    "pull": "--upload-pack",
    "ls-remote": "--upload-pack --exec",
    "fetch-pack": "--upload-pack --exec",
    "push": "--receive-pack --exec",
    "send-pack": "--receive-pack --exec",
    "archive": "--exec",
    "rebase": "-x --exec",
    "difftool": "-x --extcmd",
    "grep": "-O --open-files-in-pager",
    "filter-branch": "--tree-filter --index-filter --msg-filter --env-filter",
}


def _git(run: Run) -> Iterator[CommandRisk]:
    before = read(run.words, BEFORE, stops_at_first=True)
    for setting in before.values("-c", "--config-env"):
        yield from _setting(setting, run)
    if any(before.values("--exec-path")):
        yield ask("option-runs", "git's own programs come from another folder")
    if not before.rest:
        return
    action, *words = before.rest
    yield from _loses(action, words)
    yield from _runs(action, words)
    if action == "clean" and any("clean.requireforce" in one.lower() for one in before.values("-c", "--config-env")):
        yield _discards(action)
    if action == "config":
        yield from _config(words, run)
    if action == "clone":
        for setting in read(words, "-c --config -b -o --depth").values("-c", "--config"):
            yield from _setting(setting, run)


def _loses(action: str, words: list[str]) -> Iterator[CommandRisk]:
    text = "\n".join(words)
    if action in ("push", "send-pack", "http-push") and _PUSH.search(text):
        yield ask("force-push", "it overwrites or deletes what others may have fetched")
    elif action == "restore":
        options = read(words, "-s --source")
        if not options.has("-S", "--staged") or options.has("-W", "--worktree"):
            yield _discards(action)
    elif action == "rm" and "--cached" in words:
        return
    elif action in _LOST and _LOST[action].search(text):
        yield _discards(action)
    elif UNKNOWN in action or (UNKNOWN in text and action in ("push", "clean", "reset", "restore", "rm")):
        yield ask("run-time-git", "what git pushes or throws away is decided only when it runs")


def _discards(action: str) -> CommandRisk:
    return ask("git-discard", f"git {action} throws away what may be nowhere else")


def _runs(action: str, words: list[str]) -> Iterator[CommandRisk]:
    if action.startswith(("credential", "daemon", "instaweb", "send-email", "imap-send")):
        yield ask("git-credentials", "git gives out what it should keep")
    if any(_run_by_options(action, words)) or any("ext::" in word for word in words):
        yield ask("option-runs", f"an option of git {action} runs something")


def _run_by_options(action: str, words: list[str]) -> Iterator[str]:
    """The values of such options, which may be written in short."""
    running = _RUNNING.get(action, "").split()
    for option, value in read(words, " ".join(running)).given:
        if option in running or (len(option) > 4 and any(name.startswith(option) for name in running)):
            yield value or UNKNOWN


def _config(words: list[str], run: Run) -> Iterator[CommandRisk]:
    options = read(words, "-f --file --blob --default --type")
    if options.has("-e", "--edit"):
        yield ask("git-settings", "it opens git's settings in an editor")
    if len(options.rest) > 1 and options.rest[0] not in ("get", "list"):
        key, value = options.rest[-2:]
        yield from _setting(f"{key}={value}", run)
        is_taste = key.lower() in _TASTE or key.lower().partition(".")[0] in _TASTE
        if options.has("--global", "--system", "-f", "--file") and not is_taste:
            yield ask("git-settings", "it changes git's settings for every project")


def _setting(setting: str, run: Run) -> Iterator[CommandRisk]:
    key, _, value = setting.partition("=")
    if UNKNOWN in setting or (_runs_value(key, value) and value not in _HARMLESS_VALUES | {""}):
        yield ask("option-runs", "a setting of git runs something")
    elif key.lower().startswith("alias."):
        yield from _alias(value, run)


def _runs_value(key: str, value: str) -> bool:
    first, _, rest = key.lower().partition(".")
    last = rest.rpartition(".")[2]
    if first == "alias" or (first == "submodule" and last == "update"):
        return value.lstrip().startswith("!")
    wanted = _RUNS.get(first, "").split()
    return "*" in wanted or last in wanted or "ext::" in value


def _alias(value: str, run: Run) -> Iterator[CommandRisk]:
    """Stands for another git command."""
    try:
        words = tuple(shlex.split(value))
    except ValueError:
        words = (UNKNOWN,)
    if any("alias." in word for word in words):  # one in another, which could go on and on
        yield ask("option-runs", "a setting of git runs something")
    else:
        yield from _git(replace(run, words=words))


_GITHUB = "it changes or gives out something at GitHub"

RULES: dict[str, Rule] = {
    "git": _git,
    "hg": all_of(
        when(
            "git-discard",
            "it throws away what may be nowhere else",
            r"\b(?:strip|purge|update -C|push -f|push --force)",
        ),
        when("option-runs", "an option of hg runs something", r"--(?:config|ssh|remotecmd)"),
    ),
    "svn": when("git-discard", "it throws away what may be nowhere else", r"\b(?:revert|delete|rm)\b"),
    "gh": all_of(
        when(
            "remote-change",
            _GITHUB,
            r"^(?:repo|release|secret|ssh-key|gpg-key|variable|run|cache|issue|label|project|codespace) "
            r"(?:delete|remove|archive|set)",
            r"^(?:ssh-key|gpg-key) add\b|^repo (?:edit|rename)\b|^pr merge\b.*--(?:admin|delete)",
            r"^auth (?:token|logout|refresh)|^auth status\b.*(?:-t|--show-token)",
            r"^api\b.*(?:(?:-X ?|--method[ =])(?:DELETE|PUT|PATCH|POST)|mutation)",
        ),
        when(
            "option-runs", "it makes gh run something", r"^(?:alias|config) (?:set|import)|^extension (?:install|exec)"
        ),
        when("upload", "it sends files to GitHub", r"^(?:gist create|release upload)\b"),
    ),
}


def commands_of(run: Run) -> Iterator[str]:
    """The scripts that git runs for a subcommand, written out."""
    before = read(run.words, BEFORE, stops_at_first=True)
    match before.rest:
        case ["submodule", *rest]:
            yield from _for_each(rest)
        case ["bisect", "run", *rest]:
            yield " ".join(rest)
        case [action, *rest]:
            yield from (value for value in _run_by_options(action, rest) if UNKNOWN not in value)
    for setting in before.values("-c"):
        key, _, value = setting.partition("=")
        if value and _runs_value(key, value):
            yield value.lstrip().removeprefix("!")


def _for_each(words: list[str]) -> Iterator[str]:
    match read(words, stops_at_first=True).rest:
        case ["foreach", *rest]:
            yield " ".join(read(rest, stops_at_first=True).rest)
