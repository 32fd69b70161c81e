"""Options and arguments that make an ordinary command run another one."""

import posixpath
import re
from collections.abc import Callable, Iterator

from tools.guard.expansion import UNKNOWN
from tools.guard.findings import Run, ask
from tools.guard.names import names
from tools.guard.options import read, read_around_first
from tools.guard.rules.versions import commands_of
from tools.guard.suspects import suspected
from tools.guard.wrappers import SSH_OPTIONS, Inner, ShellText

_WORKERS = names(
    "gzip pigz bzip2 pbzip2 lbzip2 xz pixz zstd zstdmt lz4 lzip lzma lzop brotli ssh less more most cat bat vi vim nano"
)
_AWK = re.compile(r"system\s*\(|\|\s*getline|(?:print|printf)\b[^;}\n]{0,200}(?:\||>)|\|&|@load|-f\b|close\s*\(")
_SED = re.compile(
    r"(?:^|[;{}\n])\s*(?:\d+|\$|/(?:[^/\\]|\\.)*/)?(?:,\s*(?:\d+|\$|/(?:[^/\\]|\\.)*/))?\s*!?\s*[eWw](?:\s|$)|"
    r"s(.)(?:(?!\1)[^\\]|\\.)*\1(?:(?!\1)[^\\]|\\.)*\1[gipIMm0-9]*[ew]"
)
_EDITOR = re.compile(r"[!]|\bsystem\b|:?\b(?:shell|terminal|w(?:rite)?!?|python3?|py3?|lua|perl|ruby|call|source|so)\b")


def run_by_options(run: Run) -> Iterator[Inner]:
    """The commands that options name; and a reason to ask, when the options or the program's text can run something."""
    texts = list(found(run)) if (found := _RUNNING.get(run.name)) else []
    yield from (ShellText(text) for text in texts)
    is_program = _PROGRAMS.get(run.name, _never)(run)
    if is_program or any(_first_name(text) not in _WORKERS for text in texts):
        yield ask("option-runs", f"an option or program text of {run.name} runs or writes something else")
    yield from suspected(run)


def _never(run: Run) -> bool:
    return False


def _first_name(text: str) -> str:
    return posixpath.basename((text.split() or [""])[0])


def _options(with_value: str, *running: str) -> Callable[[Run], Iterator[str]]:
    """The values of these options are run."""
    return lambda run: iter(read(run.words, with_value).values(*running))


def _tar(run: Run) -> Iterator[str]:
    long = (
        "--checkpoint-action --to-command --use-compress-program --rsh-command --info-script --new-volume-script "
        "--rmt-command"
    )
    words = [word if place or word.startswith("-") else f"-{word}" for place, word in enumerate(run.words)]
    options = read(words, f"{long} -I -F -C -f --file --directory -T -X -b -g -H -K -L -N -V --exclude")
    for option, value in options.given:
        matched = [name for name in long.split() if len(option) > 4 and name.startswith(option)]
        if option in ("-I", "-F") or matched:
            if "checkpoint" in option and not value.startswith("exec="):
                continue
            yield value.removeprefix("exec=")


def _ssh(run: Run) -> Iterator[str]:
    options = (read_around_first if run.name == "ssh" else read)(run.words, SSH_OPTIONS)
    for value in options.values("-o"):
        if found := re.match(
            r"(?i)(?:proxycommand|localcommand|knownhostscommand|remotecommand|match\s+exec)\s*[= ]\s*(.*)", value
        ):
            yield found[1]
    if run.name != "ssh":
        yield from options.values("-S", "-D")
    yield from (f"./{path}" for path in options.values("-F") if path not in ("none", "/dev/null"))


def _awk(run: Run) -> bool:
    options = read(run.words, "-F -v -f --file --field-separator --assign -e --source -i -l", stops_at_first=True)
    programs = options.values("-e", "--source") or list(options.rest[:1] if not options.has("-f", "--file") else ())
    plain = [re.sub(r"/(?:[^/\\]|\\.)*/", "", program) for program in programs]  # without its patterns
    return options.has("-l") or UNKNOWN in programs or any(map(_AWK.search, plain))


def _sed(run: Run) -> bool:
    options = read(run.words, "-e --expression -f --file -l")
    scripts = options.values("-e", "--expression") or list(options.rest[:1] if not options.has("-f", "--file") else ())
    return UNKNOWN in scripts or any(map(_SED.search, scripts))


def _editor(run: Run) -> bool:
    commands = read(run.words, "-c -S -u --cmd").values("-c", "--cmd", "-S")
    commands += [word for word in run.words if word.startswith("+")]
    return any(map(_EDITOR.search, commands)) or (run.name in ("ed", "ex") and run.stdin is not None)


def _make(run: Run) -> Iterator[str]:
    yield from (word.partition("=")[2] for word in run.words if re.match(r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS)=", word))
    yield from read(run.words, "--eval -E -f -C -j").values("--eval", "-E")


def _gdb(run: Run) -> Iterator[str]:
    options = read(
        [word.replace("-ex", "--ex", 1) if word in ("-ex", "-iex") else word for word in run.words],
        "--ex --iex --eval-command -x",
    )
    yield from options.values("--ex", "-iex", "--iex", "--eval-command", "-x")


_RUNNING: dict[str, Callable[[Run], Iterator[str]]] = {
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    "rsync": _options("-e --rsh --rsync-path --exclude --include -f", "-e", "--rsh", "--rsync-path"),
    **dict.fromkeys(("ssh", "scp", "sftp"), _ssh),
    "git": commands_of,
    "sort": _options("--compress-program -o -k -t -S -T", "--compress-program"),
    "split": _options("--filter -b -l -n -a", "--filter"),
    "man": _options("-P --pager -H --html -M -S", "-P", "--pager", "-H", "--html"),
    "zip": _options("-TT --unzip-command -x -i", "-TT", "--unzip-command"),
    "tcpdump": _options("-z -w -r -i -c -C -G -W", "-z"),
    "nmap": _options("--script -p -o -oN -oX", "--script"),
    **dict.fromkeys(("make", "gmake"), _make),
    "gdb": _gdb,
    "mapfile": _options("-C -c -d -n -O -s -u", "-C"),
    "readarray": _options("-C -c -d -n -O -s -u", "-C"),
    "complete": _options("-C -F -W -A -G", "-C"),
    "npm": _options("-c --call --script-shell", "-c", "--call", "--script-shell"),
    "npx": _options("-c --call -p --package", "-c", "--call"),
    "rg": _options("--pre -e -g -t -f", "--pre"),
}
_PROGRAMS: dict[str, Callable[[Run], bool]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("vi", "vim", "nvim", "view", "vimdiff", "ex", "ed", "emacs"), _editor),
}
