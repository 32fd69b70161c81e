"""A command among the words of a program that nobody here knows: it may be there to be run.

Programs that run another one are too many to be listed (`gosu`, `poetry run`, `hyperfine '…'`). So whatever is named
like something that destroys or runs is judged from there on, unless the words of the program are known to be text.
What only the run decides is no reason to ask here: the words may be names after all.
"""

import re
from collections.abc import Iterator

from tools.shell_guard.expansion import shown
from tools.shell_guard.findings import Run
from tools.shell_guard.interpreters import interpret, is_interpreter
from tools.shell_guard.names import names
from tools.shell_guard.wrappers import Argv, ScriptFile, ShellText, unwrap

_MOST_WORDS = 10  # of the program that are looked at
_SUSPECTS = names(
    "rm unlink shred srm mkfs wipefs dd truncate rimraf del-cli find xargs sh bash zsh dash ash ksh fish csh tcsh "
    "python pypy perl ruby node php lua deno bun tsx ts-node ipython psql "
    "mysql sqlite dropdb mongosh redis-cli git chmod chown chattr "
    "kill pkill killall curl wget scp rsync ssh nc ncat socat env sudo su doas eval docker kubectl systemctl crontab"
)
_TEXT = names(
    # what they print, look for or send is text
    "echo printf print say espeak cowsay figlet banner notify-send logger wall write grep egrep fgrep zgrep rg ag ack "
    "git hg svn jj gh glab man info tldr cheat apropos whatis type which whereis command hash help history test [ [[ "
    "expr let awk gawk mawk sed gsed jq yq tr claude codex llm aider hermes todo task jira bd curl wget http https xh "
    "psql mysql mariadb sqlite3 sqlite mongosh mongo redis-cli duckdb clickhouse-client pytest jest vitest mocha rspec "
    "phpunit pgrep pkill killall kill ps last journalctl systemctl dig host ping "
    # names of files
    "ls cat bat head tail less more wc file stat du df tree cp mv ln rm rmdir mkdir touch chmod chown tar zip unzip "
    "gzip find locate cd pushd diff cmp comm sort uniq cut paste tee basename dirname realpath readlink md5sum "
    "sha1sum sha256sum code vi vim nvim view nano open xdg-open scp rsync rclone install patch "
    # names of variables
    "export declare typeset local readonly unset read alias unalias set shift return exit for dpkg dpkg-query rpm"
)
# Subcommands of whatever deals with packages: what follows are names.
_ABOUT_PACKAGES = names(
    "install i add remove uninstall un info view show search why upgrade update up list ls outdated download policy "
    "depends rdepends use global create init help build pull images tag plugin"
)
_MESSAGES = names("-m --message --title --body --description --comment --notes --subject --text --prompt")
_NAMED = "|".join(sorted(map(re.escape, _SUSPECTS), key=len, reverse=True))
_SCRIPT = re.compile(rf"(?:^|[;&|(\n])[ \t]*(?:[\w./-]*/)?(?:{_NAMED})[\d.]*[ \t]")
_NAME = re.compile(r"-{0,2}[\w.-]+=")  # of an option or a variable, before its value
_VERSION = "0123456789."


def suspected(run: Run) -> Iterator[Argv | ShellText]:
    """Yield commands that may run among the words of another, unless they are seen by other means."""
    if run.name in _TEXT or _ABOUT_PACKAGES.intersection(run.words[:2]):
        return
    words = run.words[:_MOST_WORDS]
    if not any(_is_suspect(word) or " " in word for word in words) or _is_understood(run):
        return
    if not is_interpreter(run.name):  # whose texts are code or their program's business
        yield from map(ShellText, _scripts(words))
    yield from _commands(run.words)


def _is_understood(run: Run) -> bool:
    return any(not isinstance(inner, ScriptFile) for inner in (*unwrap(run), *interpret(run)))


def _is_suspect(word: str) -> bool:
    name = word.rpartition("/")[2]
    return name in _SUSPECTS or name.rstrip(_VERSION) in _SUSPECTS or name.startswith("mkfs.")


def _commands(words: tuple[str, ...]) -> Iterator[Argv]:
    for place, word in enumerate(words[:_MOST_WORDS]):
        if _is_suspect(word):
            yield Argv((word, *map(shown, words[place + 1 :])))
            if word.rpartition("/")[2] not in _TEXT:
                return  # its own words are looked at in their turn


def _scripts(words: tuple[str, ...]) -> Iterator[str]:
    for place, word in enumerate(words):
        if " " in word and not (place and words[place - 1] in _MESSAGES):
            text = word[named.end() :] if (named := _NAME.match(word)) else word
            if _SCRIPT.search(f"{text} "):
                yield shown(text)
