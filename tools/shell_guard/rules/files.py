"""Commands that delete, overwrite or open up files, and those that write below them, to disks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tools.shell_guard.expansion import UNKNOWN, shown
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.names import names
from tools.shell_guard.options import read
from tools.shell_guard.paths import is_disk, is_everything, is_system, located, runs_by_itself, scoped, secret_in
from tools.shell_guard.rules.plain import Rule, always, when

RUN_TIME_DELETE = "what it deletes is decided only when it runs"
_OF_A_REPOSITORY = re.compile(r"(?:^|/)\.git/(?!.*\.(?:lock|orig|swp)$)")


def _rm(run: Run) -> Iterator[CommandRisk]:
    options = read(run.words)
    if any(UNKNOWN in word for word in run.words):
        yield ask("run-time-delete", RUN_TIME_DELETE)
    is_recursive = options.has("-r", "-R", "--recursive") or any(
        len(option) > 2 and "--recursive".startswith(option) for option, _ in options.given
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
        elif runs_by_itself(path) or secret_in(path):
            yield ask("write-start-up", f"it deletes {shown(path)}, which is read or run by itself", scope)
        elif _OF_A_REPOSITORY.search(path):
            yield ask("delete-for-good", f"it deletes {shown(path)}, by which git finds everything else")
    if is_recursive and not options.rest:
        yield ask("recursive-delete", "it deletes folders with all that is in them")


def _with(rule: str, reason: str, *options: str) -> Rule:
    """Asks when one of these options or words is given."""

    def found(run: Run) -> Iterator[CommandRisk]:
        given = {option for option, _ in read(run.words).given} | set(run.words)
        if given & set(options) or UNKNOWN in "".join(run.words):
            yield ask(rule, reason)

    return found


def _rsync(run: Run) -> Iterator[CommandRisk]:
    given = read(run.words, "-e --rsh -f --exclude --include --filter -B -M -T").given
    if any(option in ("-n", "--dry-run") for option, _ in given):
        return
    removes = any(option.startswith(("--del", "--remove-s")) for option, _ in given)
    if removes or UNKNOWN in "".join(run.words):
        yield ask("delete-found", "it deletes what the source does not have, or the source")


def _find(run: Run) -> Iterator[CommandRisk]:
    if "-delete" in run.words:
        yield ask("delete-found", "it deletes whatever it finds")
    unsure = [word for before, word in pairwise(run.words) if word == UNKNOWN and not before.startswith("-")]
    if unsure:
        yield ask("run-time-delete", "what it does with what it finds is decided only when it runs")
    if {"-fprint", "-fprintf", "-fls", "-fprint0"} & set(run.words):
        yield ask("overwrite-file", "it overwrites a file with what it finds")


def _rights(run: Run) -> Iterator[CommandRisk]:
    options = read(run.words, "--reference --from")
    mode, paths = _mode_and_paths(run)
    is_recursive = options.has("-R", "--recursive")
    unsure = "".join(run.words) if run.name == "chmod" else "".join(paths)  # whose a file becomes is no danger
    if is_recursive and any(is_everything(path, run.home) for path in paths):
        yield block("rights-of-everything", "it changes who may do what with all of the system or a home")
    elif run.name == "chmod":
        yield from _mode(_Mode.of(mode), paths, is_recursive=is_recursive)
    if (UNKNOWN in mode and run.name == "chmod") or (is_recursive and UNKNOWN in unsure):
        yield ask("run-time-rights", "whose rights it changes is decided only when it runs")
    elif any(map(is_system, paths)):
        yield ask("change-system", "it changes who may do what with files of the system")


def _mode_and_paths(run: Run) -> tuple[str, list[str]]:
    """`chmod -x f` takes away, which is no option."""
    words = [word for word in run.words if not re.match(r"-(?![rwxst]+$)", word)]
    paths = words if any(word.startswith("--reference") for word in run.words) else words[1:]
    return "".join(words[:1]), [located(word, run.folder, run.home) for word in paths]


def _mode(mode: "_Mode", paths: list[str], *, is_recursive: bool) -> Iterator[CommandRisk]:
    if mode.opens:
        yield ask("open-rights", "it lets everybody change files")
    if mode.sets_id:
        yield ask("set-id", "it makes a file run with its owner's rights")
    if mode.shows and any(map(secret_in, paths)):
        yield ask("show-secret", "it lets others read what holds secrets")
    if mode.locks and (is_recursive or any(map(is_everything, paths))):
        yield ask("lock-out", "it takes away from whole folders the right to read them")


@dataclass(frozen=True, slots=True)
class _Mode:
    """The effects of a chmod mode."""

    opens: bool = False  # to be written by everybody
    sets_id: bool = False
    shows: bool = False  # to be read by others
    locks: bool = False  # not even the owner can read

    @classmethod
    def of(cls, text: str) -> "_Mode":
        if re.fullmatch(r"[0-7]{1,5}", text):
            digits = [int(digit) for digit in text.rjust(4, "0")[-4:]]
            special, owner, group, others = digits
            return cls(bool(others & 2), special > 1, bool((group | others) & 4), not owner & 4)
        clauses = [found for clause in text.split(",") if (found := _CLAUSE.fullmatch(clause))]
        given = [(one[1], change) for one in clauses for change in _CHANGE.findall(one[2])]
        adding = [(who, change) for who, change in given if change[0] in "+="]
        return cls(
            any("w" in change and _is_for(who, "o") for who, change in adding),
            any("s" in change for _, change in adding),
            any("r" in change and (_is_for(who, "o") or "g" in who) for who, change in adding),
            any("r" in change and _is_for(who, "u") for who, change in given if change[0] == "-"),
        )


_CLAUSE = re.compile(r"([ugoa]*)((?:[-+=][rwxXstugo]*)+)")
_CHANGE = re.compile(r"[-+=][rwxXstugo]*")


def _is_for(who: str, one: str) -> bool:
    return not who or "a" in who or one in who


def _install(run: Run) -> Iterator[CommandRisk]:
    for mode in read(run.words, "-m --mode -o -g -t --owner --group --target-directory -S").values("-m", "--mode"):
        yield from _mode(_Mode.of(mode), [], is_recursive=False)


def _dd(run: Run) -> Iterator[CommandRisk]:
    for word in run.words:
        if UNKNOWN in word and not word.startswith(("if=", "bs=", "count=", "skip=", "seek=")):
            yield ask("run-time-write", "where it writes is decided only when it runs")


def _disk_tool(run: Run) -> Iterator[CommandRisk]:
    if not run.words or _only_looks(run):
        return
    if any(is_disk(located(word, run.folder, run.home)) for word in run.words):
        yield block("write-disk", "it writes to a disk below its files")
    else:
        yield ask("write-disk", _DISKS)


def _only_looks(run: Run) -> bool:
    """One letter is a look with one of them and a change with another, so each has its own."""
    options, actions = _LOOKS.get(run.name.partition(".")[0], ("", ""))
    words = read(run.words)
    given = {option for option, _ in words.given}
    if given & {"--help", "--version"} or (given & {"-n", "--no-act"} and run.name.startswith(_TRIES)):
        return True
    acting = [word for word in words.rest if not word.startswith(("/", "-"))]
    if actions and acting:
        return set(acting) <= set(actions.split()) if run.name == "parted" else acting[0] in actions.split()
    return given <= set(options.split()) and (bool(given) or run.name == "wipefs") and not acting


_TRIES = ("mkfs", "mke2fs", "fsck", "e2fsck", "wipefs", "sfdisk")
_LOOKS = {  # options that only look, or first words
    "fdisk": ("-l --list -x", ""),
    "sfdisk": ("-l --list -J --json -d --dump -V --verify", ""),
    "parted": ("-l --list -s --script -m", "print unit"),
    "gdisk": ("-l", ""),
    "sgdisk": ("-p --print -i --info -v --verify", ""),
    "wipefs": ("-J --json -i --noheadings -p --parsable", ""),
    "tune2fs": ("-l", ""),
    "hdparm": ("-I -i -t -T -g", ""),
    "mdadm": ("-D --detail -E --examine -Q --query -s --scan", ""),
    "zpool": ("", "status list get iostat history"),
    "cryptsetup": ("", "status luksDump isLuks benchmark"),
    "nvme": ("", "list smart-log id-ctrl id-ns list-subsys error-log"),
    "diskutil": ("", "list info"),
}


def _mv(run: Run) -> Iterator[CommandRisk]:
    options = read(run.words, "-t --target-directory -S --suffix")
    aims = options.values("-t", "--target-directory")
    paths = [located(word, run.folder, run.home) for word in (*options.rest, *aims)]
    if any(is_everything(path, run.home) for path in paths[:-1]):
        yield block("move-everything", "it moves away what the system or a home consists of")
    elif paths and paths[-1] == "/dev/null":
        yield ask("recursive-delete", "it throws files away")
    elif any(map(is_system, paths[:-1])):
        yield ask("change-system", "it moves files of the system away")


def _cp(run: Run) -> Iterator[CommandRisk]:
    options = read(run.words, "-t --target-directory -S --suffix")
    if options.rest[:1] == ("/dev/null",):
        yield ask("overwrite-file", "it empties a file")


_DISKS = "it writes to a disk or its image below the files"

RULES: dict[str, Rule] = {
    "rm": _rm,
    "grm": _rm,
    "srm": _rm,
    "rmdir": _rm,
    "unlink": _rm,
    **always("delete-for-good", "it destroys files for good", "shred wipe scrub nwipe sfill trash-empty"),
    **always("overwrite-file", "it cuts off a file", "truncate"),
    **always("recursive-delete", "it deletes folders with all that is in them", "rimraf"),
    "gio": when("delete-for-good", "it destroys files for good", r"^remove\b", r"^trash.*--empty"),
    "find": _find,
    "gfind": _find,
    "rsync": _rsync,
    "tar": _with("delete-found", "it deletes the files that it has packed", "--remove-files"),
    "zip": _with("delete-found", "it deletes the files that it has packed", "-m", "--move"),
    "chmod": _rights,
    "chown": _rights,
    "chgrp": _rights,
    "setfacl": _with(
        "open-rights", "it changes who may do what with whole folders", "-R", "--recursive", "-b", "--restore"
    ),
    "install": _install,
    **always("change-rights", "it changes what can be done with files", "chattr"),
    **always("set-id", "it gives a program rights of the system", "setcap"),
    "zfs": when("write-disk", _DISKS, r"\b(?:destroy|rollback|receive|recv|rename)\b"),
    "btrfs": when("write-disk", _DISKS, r"\bdel", r"\bremove\b", r"\b(?:replace|restore|rescue)\b"),
    "dmsetup": when("write-disk", _DISKS, r"\b(?:remove|wipe_table|create|reload|rename)"),
    **always("write-disk", _DISKS, "lvreduce lvresize pvmove efibootmgr growpart fwupdmgr"),
    **dict.fromkeys(("dd", "dcfldd", "dc3dd"), _dd),
    "mv": _mv,
    "cp": _cp,
    **dict.fromkeys(
        names(
            "mkfs mkswap wipefs fdisk sfdisk sgdisk gdisk cfdisk parted blkdiscard pvcreate pvremove vgremove "
            "lvremove mdadm cryptsetup zpool hdparm badblocks diskutil mke2fs newfs flashrom nvme partprobe "
            "tune2fs e2fsck fsck mkntfs mkdosfs mkexfatfs resize2fs xfs_repair ntfsfix debugfs "
            "grub-install"
        ),
        _disk_tool,
    ),
}
