"""Commands that delete, overwrite or open up files, and those that write below them, to disks."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from tools.guard.expansion import UNKNOWN, shown
from tools.guard.findings import Finding, Run, ask, block
from tools.guard.names import names
from tools.guard.options import read
from tools.guard.paths import is_disk, is_everything, is_system, located, scoped

Rule = Callable[[Run], Iterator[Finding]]

RUN_TIME_DELETE = "what it deletes is decided only when it runs"
_OPEN_MODE = re.compile(r"0?[0-7]?[0-7]?[0-7][2367]|[ugoa]*[ao][ugoa]*[+=][rxXst]*w[rwxXst]*|\+[rx]*w[rx]*")
_SETS_ID = re.compile(r"0?[2-7][0-7]{3}|[ugoa]*[+=][rwxXt]*s[rwxXst]*")


def _rm(run: Run) -> Iterator[Finding]:
    options = read(run.words)
    if any(UNKNOWN in word for word in run.words):
        yield ask("run-time-delete", RUN_TIME_DELETE)
    is_recursive = options.has("-r", "-R", "--recursive") or any(
        len(option) > 4 and "--recursive".startswith(option) for option, _ in options.given
    )
    for word in options.rest:
        path, scope = located(word, run.folder, run.home), scoped(word, run.folder, run.home)
        if is_everything(path, run.home):
            yield block("delete-everything", f"it deletes {shown(path)}, which the system or a home consists of")
        elif is_recursive:
            yield ask("recursive-delete", f"it deletes {shown(path)} with all that is in it", scope)
        elif re.search(r"(?:^|/)\.?\*$", word):
            yield ask("delete-all-files", f"it deletes every file that fits {shown(path)}", scope)
        elif is_system(path):
            yield ask("change-system", f"it deletes {shown(path)}, a file of the system", scope)
    if is_recursive and not options.rest:
        yield ask("recursive-delete", "it deletes folders with all that is in them")


def _always(rule: str, reason: str) -> Rule:
    def found(run: Run) -> Iterator[Finding]:
        yield ask(rule, reason)

    return found


def _with(rule: str, reason: str, *options: str) -> Rule:
    """Asks when one of these options or words is given."""

    def found(run: Run) -> Iterator[Finding]:
        given = {option for option, _ in read(run.words).given} | set(run.words)
        if given & set(options) or UNKNOWN in "".join(run.words):
            yield ask(rule, reason)

    return found


def _find(run: Run) -> Iterator[Finding]:
    if "-delete" in run.words:
        yield ask("delete-found", "it deletes whatever it finds")
    unsure = [word for before, word in pairwise(run.words) if word == UNKNOWN and not before.startswith("-")]
    if unsure:
        yield ask("run-time-delete", "what it does with what it finds is decided only when it runs")
    if {"-fprint", "-fprintf", "-fls", "-fprint0"} & set(run.words):
        yield ask("overwrite-file", "it overwrites a file with what it finds")


def _rights(run: Run) -> Iterator[Finding]:
    options = read(run.words, "--reference --from")
    mode = next((word for word in run.words if not re.match(r"-(?![rwxst]+$)", word)), "")  # chmod -x has one too
    is_recursive = options.has("-R", "--recursive")
    paths = [located(word, run.folder, run.home) for word in options.rest[1:]]
    if is_recursive and any(is_everything(path, run.home) for path in paths):
        yield block("rights-of-everything", "it changes who may do what with all of the system or a home")
    if UNKNOWN in mode or (is_recursive and UNKNOWN in "".join(run.words)):
        yield ask("run-time-rights", "whose rights it changes is decided only when it runs")
    elif run.name == "chmod" and _OPEN_MODE.fullmatch(mode):
        yield ask("open-rights", "it lets everybody change files")
    elif run.name == "chmod" and _SETS_ID.fullmatch(mode):
        yield ask("set-id", "it makes a file run with its owner's rights")
    elif any(map(is_system, paths)):
        yield ask("change-system", "it changes who may do what with files of the system")


def _dd(run: Run) -> Iterator[Finding]:
    for word in run.words:
        if UNKNOWN in word and not word.startswith(("if=", "bs=", "count=", "skip=", "seek=")):
            yield ask("run-time-write", "where it writes is decided only when it runs")


def _disk_tool(run: Run) -> Iterator[Finding]:
    options = read(run.words)
    looks = {"-l", "--list", "-V", "--version", "-h", "--help", "-n", "--no-act", "-J", "-p", "--print"}
    if (
        options.has(*looks)
        or not run.words
        or "print" in run.words
        or (run.name == "wipefs" and not options.has("-a", "--all"))
    ):
        return
    if any(is_disk(located(word, run.folder, run.home)) for word in run.words):
        yield block("write-disk", "it writes to a disk below its files")
    else:
        yield ask("write-disk", "it writes to a disk or its image below the files")


def _mv(run: Run) -> Iterator[Finding]:
    options = read(run.words, "-t --target-directory -S --suffix")
    paths = [located(word, run.folder, run.home) for word in options.rest]
    if any(is_everything(path, run.home) for path in paths[:-1]):
        yield block("move-everything", "it moves away what the system or a home consists of")
    elif paths and paths[-1] == "/dev/null":
        yield ask("recursive-delete", "it throws files away")
    elif any(map(is_system, paths[:-1])):
        yield ask("change-system", "it moves files of the system away")


def _cp(run: Run) -> Iterator[Finding]:
    options = read(run.words, "-t --target-directory -S --suffix")
    if options.rest[:1] == ("/dev/null",):
        yield ask("overwrite-file", "it empties a file")


RULES: dict[str, Rule] = {
    "rm": _rm,
    "grm": _rm,
    "srm": _rm,
    "rmdir": _rm,
    "unlink": _rm,
    "shred": _always("delete-for-good", "it destroys files for good"),
    "wipe": _always("delete-for-good", "it destroys files for good"),
    "truncate": _always("overwrite-file", "it cuts off a file"),
    "rimraf": _always("recursive-delete", "it deletes folders with all that is in them"),
    "find": _find,
    "gfind": _find,
    "rsync": _with(
        "delete-found",
        "it deletes what the source does not have",
        "--delete",
        "--del",
        "--delete-after",
        "--delete-before",
        "--delete-during",
        "--delete-excluded",
        "--remove-source-files",
    ),
    "tar": _with("delete-found", "it deletes the files that it has packed", "--remove-files"),
    "zip": _with("delete-found", "it deletes the files that it has packed", "-m", "--move"),
    "chmod": _rights,
    "chown": _rights,
    "chgrp": _rights,
    "setfacl": _with(
        "open-rights", "it changes who may do what with whole folders", "-R", "--recursive", "-b", "--restore"
    ),
    "chattr": _always("change-rights", "it changes what can be done with files"),
    "setcap": _always("set-id", "it gives a program rights of the system"),
    "dd": _dd,
    "mv": _mv,
    "cp": _cp,
    **dict.fromkeys(
        names(
            "mkfs mkswap wipefs fdisk sfdisk sgdisk gdisk cfdisk parted blkdiscard pvcreate pvremove vgremove "
            "lvremove mdadm cryptsetup zpool hdparm badblocks diskutil mke2fs newfs flashrom nvme partprobe "
            "tune2fs e2fsck fsck"
        ),
        _disk_tool,
    ),
}
