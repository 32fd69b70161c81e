"""Which files matter: secrets, what a shell or the system runs by itself, and the system itself."""

import fnmatch
import functools
import posixpath
import re
from collections.abc import Iterator

from tools.guard.expansion import UNKNOWN
from tools.guard.names import names

# Shell patterns over whole paths, `~` for the home; `**` at the front means any folder.
_SECRETS = tuple(
    names(
        "**/.ssh/id_* **/id_rsa **/id_dsa **/id_ecdsa **/id_ed25519 **/.ssh/identity **/.ssh/*_rsa **/.ssh/*_key "
        "**/.ssh **/.gnupg **/.gnupg/* **/.aws/credentials **/.aws **/.azure **/.azure/* **/.config/gcloud "
        "**/.config/gcloud/* **/.kube/config **/.kube **/.docker/config.json **/.config/gh/hosts.yml **/.netrc "
        "**/_netrc **/.pgpass **/.my.cnf **/.git-credentials **/.npmrc **/.pypirc **/.vault-token "
        "**/.cargo/credentials* **/.password-store **/.password-store/* **/.env **/.env.local **/.env.prod* "
        "**/.env.dev* **/.bash_history **/.zsh_history **/.hermes/state.db* **/.hermes/backups "
        "**/.hermes/backups/* **/cookies.sqlite **/logins.json **/key4.db **/login.keychain* **/wallet.dat "
        "/etc/shadow* /etc/gshadow* /etc/sudoers /etc/sudoers.d /etc/sudoers.d/* /etc/ssh/ssh_host_*_key "
        "/proc/*/environ /proc/*/mem /var/lib/docker /root/.*"
    )
)
_HARMLESS = re.compile(
    r"\.pub$|/proc/self/(?:environ|mem)$|/\.ssh/(?:config|known_hosts)$|\.example$|\.sample$|\.template$"
)
_BY_ITSELF = tuple(
    names(
        "**/.bashrc **/.bash_profile **/.bash_login **/.bash_logout **/.bash_aliases **/.profile **/.zshrc "
        "**/.zshenv **/.zprofile **/.zlogin **/.kshrc **/.cshrc **/.inputrc **/.xinitrc **/.xprofile **/.xsession "
        "**/.pam_environment **/.config/fish/* **/.config/autostart/* **/.config/systemd/* "
        "**/.config/environment.d/* **/.ssh **/.ssh/* **/.gitconfig **/.config/git/* **/.git/hooks/* "
        "**/.git/config **/.vimrc **/.npmrc **/.pip/pip.conf **/.config/pip/* **/.local/share/systemd/* "
        "**/Library/LaunchAgents/* **/sitecustomize.py **/usercustomize.py /var/spool/cron/* /etc/cron* "
        "/etc/cron*/* /etc/profile* /etc/profile.d/* /etc/bash.bashrc /etc/rc.local **/.hermes/* **/.direnv/* "
        "**/.envrc"
    )
)
_SYSTEM = re.compile(r"/(?:etc|boot|usr|bin|sbin|lib\w*|sys|proc|root|dev|System|Library|Applications)(?:/|$)")
_HARMLESS_DEVICE = re.compile(r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty|ptmx|shm/.*|fd/.*)$")
_DISK = re.compile(
    r"/dev/(?:sd|nvme|vd|hd|xvd|mmcblk|disk|rdisk|mapper/|dm-|mem$|kmem$|port$|mtd|loop|md|nbd|ram|sg|sr|zd)"
)
_UNSURE = re.compile(r"[*?\[\x00]")
# One of these must be in a path before its patterns are compared with ours, which takes its time.
_HINT = re.compile(
    r"(?:^|/)\.[^./]|^/(?:etc|proc|root|var)/|id_|cookies|logins|key4|keychain|wallet|customize|_netrc|LaunchAgents"
)
_TEMPORARY = re.compile(r"/(?:tmp|var/tmp|dev/shm)/.")


def located(path: str, folder: str, home: str) -> str:
    """Absolute, or from `~`, as far as that is known; the home is `~`."""
    path = path if path.startswith(("/", "~", UNKNOWN)) else f"{folder or UNKNOWN}/{path}"
    path = _normal(path) if path else path
    known_home = home.rstrip("/")
    if known_home not in ("", "~") and (path == known_home or path.startswith(f"{known_home}/")):
        return "~" + path[len(known_home) :]
    return path


def scoped(word: str, folder: str, home: str) -> str:
    """The place that a yes would be for: absolute where that is known, `…` for what is not."""
    path = word if word.startswith(("/", "~", UNKNOWN)) else f"{folder or UNKNOWN}/{word}"
    if path.startswith("~") and home not in ("", "~"):
        path = UNKNOWN + path[1:]  # the home is written out by now: this is a file named so, or another's home
    return _normal(path).replace(UNKNOWN, "…")


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal  # which it leaves at the front, as POSIX has it


def secret_in(path: str) -> bool:
    """A located path, which may hold patterns."""
    return not _HARMLESS.search(path) and _fits(path, _SECRETS)


def runs_by_itself(path: str) -> bool:
    return _fits(path, _BY_ITSELF)


def is_system(path: str) -> bool:
    return bool(_SYSTEM.match(path)) and not _HARMLESS_DEVICE.match(path)


def is_disk(path: str) -> bool:
    return bool(_DISK.match(path))


def is_nothing(path: str) -> bool:
    """A device that takes everything and keeps nothing."""
    return bool(_HARMLESS_DEVICE.match(path))


def is_temporary(path: str) -> bool:
    return bool(_TEMPORARY.match(path)) and ".." not in path


def is_everything(path: str, home: str = "") -> bool:
    """What the system or a home consists of: nothing should ever delete or change it as a whole."""
    if home.startswith("/") and f"{home.rstrip('/')}/".startswith(f"{path.rstrip('/')}/"):
        return True  # the home is in it
    bare = re.sub(r"(?:/(?:\*|\.\*|\{.*\}|\.))+$", "", path) or "/"
    tops = "etc usr var boot bin sbin lib lib64 root opt home dev proc sys srv Users System Library"
    return (
        bare in ("/", "~")
        or bare in {f"/{name}" for name in tops.split()}
        or bool(re.fullmatch(r"/(?:home|Users)/[^/]+|~\w+", bare))
    )


def mentioned(word: str) -> Iterator[str]:
    """The paths that may be inside of a word: itself, and what follows `=`, `@`, `:` or an option's letter."""
    yield word
    yield from (part for part in re.split(r"[=@:,]", word)[1:] if part)
    if re.match(r"-\w[/~.]", word):
        yield word[2:]


def _fits(path: str, patterns: tuple[str, ...]) -> bool:
    if not _HINT.search(path):
        return False
    if not _UNSURE.search(path, 1):  # the folder in front may be unknown
        return _together(patterns).search(path) is not None
    return _fits_any(path, patterns)


@functools.lru_cache(maxsize=1024)
def _fits_any(path: str, patterns: tuple[str, ...]) -> bool:
    names = [name for name in path.split("/") if name not in ("", "~")]
    return bool(names) and any(_fits_one(path, names, pattern) for pattern in patterns)


@functools.cache
def _together(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """All of them as one expression, for paths without patterns of their own."""
    wanted = [re.escape(pattern).replace(r"\*\*/", "(?:^|/)").replace(r"\*", "[^/]*") for pattern in patterns]
    return re.compile("|".join(f"{'' if one.startswith('(') else '^'}{one}(?:/|$)" for one in wanted))


def _fits_one(path: str, names: list[str], pattern: str) -> bool:
    if not pattern.startswith("**/"):
        wanted = pattern.strip("/").split("/")
        return path.startswith("/") and len(names) >= len(wanted) and _all_fit(names[: len(wanted)], wanted)
    wanted = pattern[3:].split("/")
    spots = range(len(names) - len(wanted) + 1)
    return any(_all_fit(names[spot : spot + len(wanted)], wanted) for spot in spots)


def _all_fit(names: list[str], wanted: list[str]) -> bool:
    return all(map(_fits_name, names, wanted))


def _fits_name(name: str, wanted: str) -> bool:
    if not _UNSURE.search(name):
        return fnmatch.fnmatchcase(name, wanted)
    if wanted in ("*", "id_*"):
        return True
    # What is a pattern itself, or not known in part, must at least begin alike to be taken for it.
    known = re.match(r"[^*?\[\x00]*", name)
    return bool(known and len(known[0]) > 1) and fnmatch.fnmatchcase(wanted, name.replace(UNKNOWN, "*"))
