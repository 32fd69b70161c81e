"""Which files matter: secrets, what a shell or the system runs by itself, and the system itself."""

import fnmatch
import functools
import posixpath
import re
from collections.abc import Iterable, Iterator

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.names import names

# Shell patterns over whole paths, `~` for the home; `**` at the front means any folder.
_SECRETS = (
    *("**/Login Data", "**/Default/Cookies", "**/Profile*/Cookies", "**/Network/Cookies"),
    *names(
        "**/.ssh/id_* **/id_rsa **/id_dsa **/id_ecdsa **/id_ed25519 **/.ssh/identity **/.ssh/*_rsa **/.ssh/*_key "
        "**/.ssh **/.gnupg **/.gnupg/* **/.aws/credentials **/.aws **/.azure **/.azure/* **/.config/gcloud "
        "**/.config/gcloud/* **/.kube/config **/.kube **/.docker/config.json **/.config/gh/hosts.yml **/.netrc "
        "**/_netrc **/.pgpass **/.my.cnf **/.mylogin.cnf **/.git-credentials **/.npmrc **/.yarnrc.yml **/.pypirc "
        "**/.vault-token **/.cargo/credentials* **/.gem/credentials **/.terraform.d **/.terraformrc **/.s3cfg **/.boto "
        "**/.oci **/.authinfo* **/.m2/settings.xml **/.gradle/gradle.properties **/rclone.conf **/.rclone.conf "
        "**/.config/*/auth.json **/.config/*/auth.toml **/.composer/auth.json **/.config/hub **/.config/glab-cli "
        "**/.config/doctl **/.config/hcloud **/.config/ngrok **/.ngrok2 **/.config/sops **/.config/op "
        "**/.config/Bitwarden **/.config/solana **/.ethereum/keystore **/.electrum/wallets **/.fly/config.yml "
        "**/.huggingface/token **/.cache/huggingface/token **/.kaggle/kaggle.json **/.codex/auth.json "
        "**/.claude/.credentials.json **/.claude.json **/.password-store **/.password-store/* **/.local/share/keyrings "
        "**/.local/share/kwalletd **/.env **/.env.local **/.env.prod* **/.env.dev* **/.env.stag* **/.bash_history "
        "**/.zsh_history **/.psql_history **/.mysql_history **/.hermes/state.db* **/.hermes/backups "
        "**/.hermes/backups/* **/.hermes/auth.json **/cookies.sqlite **/logins.json **/key4.db "
        "**/login.keychain* **/wallet.dat **/*.kdbx /etc/shadow* /etc/gshadow* /etc/sudoers /etc/sudoers.d "
        "/etc/sudoers.d/* /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/letsencrypt /etc/wireguard /etc/krb5.keytab "
        "/etc/NetworkManager/system-connections /etc/kubernetes /etc/rancher /run/secrets /var/run/secrets "
        "/proc/*/environ /proc/*/mem /var/lib/docker /root/.*"
    ),
)
_HARMLESS = re.compile(
    r"\.pub$|/proc/self/(?:environ|mem)$|/\.ssh/(?:config|known_hosts)$|\.example$|\.sample$|\.template$"
)
_BY_ITSELF = tuple(
    names(
        "**/.bashrc **/.bash_profile **/.bash_login **/.bash_logout **/.bash_aliases **/.bash_completion **/.bashrc.d "
        "**/.profile **/.zshrc **/.zshenv **/.zprofile **/.zlogin **/.zlogout **/.oh-my-zsh/custom **/.kshrc "
        "**/.mkshrc **/.cshrc **/.tcshrc **/.login **/.inputrc **/.xinitrc **/.xprofile **/.xsession **/.xsessionrc "
        "**/.pam_environment **/.config/fish/* **/.config/autostart/* **/.config/systemd/* **/.config/direnv/* "
        "**/.config/environment.d/* **/.config/powershell/* **/.config/nushell/* **/.ssh **/.ssh/* **/.rhosts "
        "**/.shosts **/.forward **/.gitconfig **/.config/git/* **/.git/hooks/* **/.git/config **/.husky/* **/.vimrc "
        "**/.vim/plugin **/.config/nvim **/.emacs **/.emacs.d/* **/.tmux.conf **/.config/tmux/* **/.screenrc "
        "**/.gdbinit **/.psqlrc **/.sqliterc **/.curlrc **/.wgetrc **/.irbrc **/.pryrc **/.Rprofile **/.lesskey "
        "**/.pythonrc **/.ipython/profile_default/startup **/.cargo/config.toml **/.cargo/config **/.cargo/env "
        "**/.gradle/init.gradle **/.gradle/init.d **/.yarnrc **/.npmrc **/.pip/pip.conf **/.config/pip/* **/.config/i3 "
        "**/.config/sway **/.config/hypr **/.local/share/systemd/* **/.local/share/applications "
        "**/Library/LaunchAgents/* **/sitecustomize.py **/usercustomize.py **/site-packages/*.pth ~/bin/* "
        "~/.local/bin/* /var/spool/cron/* /var/spool/at/* /etc/cron* /etc/cron*/* /etc/profile* /etc/profile.d/* "
        "/etc/bash.bashrc /etc/rc.local **/.hermes/* **/.direnv/* **/.envrc"
    )
)
_SYSTEM = re.compile(r"/(?:etc|boot|usr|bin|sbin|lib\w*|sys|proc|root|dev|System|Library|Applications)(?:/|$)")
_HARMLESS_DEVICE = re.compile(r"/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty|ptmx|shm/.*|fd/.*)$")
_DISK = re.compile(
    r"/dev/(?:sd|nvme|vd|hd|xvd|mmcblk|disk|rdisk|mapper/|dm-|mem$|kmem$|port$|mtd|loop|md|nbd|ram|sg|sr|zd)"
)
_MAX_PARTS = 64
_MAX_NAME_CHARS = 255
_UNSURE = re.compile(r"[*?\[\x00]")
# One of these must be in a path before its patterns are compared with ours, which takes its time.
_HINT = re.compile(
    r"(?:^|/)\.[^./]|^/(?:etc|proc|root|var|run)/|^/[^/]*[*?\[\x00]|^~/bin/|id_|[Cc]ookies|Login Data|logins|"
    r"key4|keychain|wallet|customize|_netrc|LaunchAgents|\.kdbx|rclone|\.pth"
)
_HOME = re.compile(r"~\w*|/root|/(?:home|Users)/[^/]+")
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
    """Return whether a path is a whole system or home, which nothing should ever delete or change."""
    if home.startswith("/") and f"{home.rstrip('/')}/".startswith(f"{path.rstrip('/')}/"):
        return True  # the home is in it
    parts = path.split("/")
    while len(parts) > 1 and re.fullmatch(r"\*|\.\*|\{.*\}|\.", parts[-1]):
        parts.pop()
    bare = "/".join(parts) or "/"
    tops = "etc usr var boot bin sbin lib lib64 root opt home dev proc sys srv Users System Library"
    return (
        bare in ("/", "~")
        or bare in {f"/{name}" for name in tops.split()}
        or bool(re.fullmatch(r"/(?:home|Users)/[^/]+|~\w+", bare))
    )


def is_home(path: str) -> bool:
    return bool(_HOME.fullmatch(path))


def holds_secrets(path: str) -> bool:
    """A folder that is read with all that is in it."""
    return is_home(path) or path in ("/", "/home", "/Users", "~/.config", "~/.hermes") or secret_in(path)


def is_settings(path: str) -> bool:
    """`.env` and its like, which a project reads: secret, but nothing that runs."""
    return bool(re.search(r"/\.env(?:\.\w+)*$", path)) and not runs_by_itself(path)


def received(target: str, sources: Iterable[str], *, is_for_home: bool) -> Iterator[str]:
    """The places below a folder that files would get to, if that is where they are put."""
    yield f"{target}/{UNKNOWN}"
    for source in sources:
        name = posixpath.basename(source.rstrip("/"))
        # A copy of ~/.bashrc that is kept somewhere else is no start-up file.
        if name and (is_for_home or not runs_by_itself(f"/{UNKNOWN}/{name}")):
            yield from (f"{target}/{name}", f"{target}/{name}/{UNKNOWN}")


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
    return _fits_any(_SINGLE.sub(r"\1", path), patterns)


_SINGLE = re.compile(r"\[([^]!^\[])\]")  # [s]hadow is shadow


@functools.lru_cache(maxsize=1024)
def _fits_any(path: str, patterns: tuple[str, ...]) -> bool:
    parts = [part for part in path.split("/") if part not in ("", "~")]
    if len(parts) > _MAX_PARTS or any(len(part) > _MAX_NAME_CHARS for part in parts):
        return True  # no path looks like that, and comparing it would take long
    return any(
        _all_fit(parts[spot:], wanted)
        for spot, part in enumerate(parts)
        for front, wanted in _beginning(part, patterns)
        if not front or (not spot and path.startswith(front))
    )


@functools.lru_cache(maxsize=4096)
def _beginning(part: str, patterns: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Those that may begin with this part: their front, empty for any folder, and all of their parts."""
    return [(front, wanted) for front, wanted in _split(patterns) if _may_be(part, wanted[0])]


@functools.cache
def _split(patterns: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    fronts = (("" if pattern.startswith("**/") else pattern[0], pattern) for pattern in patterns)
    return [(front, pattern.removeprefix("**/").lstrip("~/").split("/")) for front, pattern in fronts]


@functools.cache
def _together(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """All of them as one expression, for paths without patterns of their own."""
    wanted = [re.escape(pattern).replace(r"\*\*/", "").replace(r"\*", "[^/]*") for pattern in patterns]
    anywhere = [one for one, pattern in zip(wanted, patterns, strict=True) if pattern.startswith("**/")]
    fixed = [one for one, pattern in zip(wanted, patterns, strict=True) if not pattern.startswith("**/")]
    return re.compile(f"(?:(?:^|/)(?:{'|'.join(anywhere)})|^(?:{'|'.join(fixed)}))(?:/|$)")


def _all_fit(parts: list[str], wanted: list[str]) -> bool:
    """Where the folders are named, a mere `*` for the file is enough, and where it is named, for the folders."""
    if len(parts) < len(wanted):
        return False
    *folders, last = zip(parts, wanted, strict=False)
    if not all(_may_be(part, one) for part, one in folders):
        return False
    is_named = bool(folders) and not any(map(_UNSURE.search, parts[: len(folders)]))
    return _may_be(*last) and (is_named or _is_telling(*last))


def _may_be(part: str, wanted: str) -> bool:
    if not _UNSURE.search(part):
        return fnmatch.fnmatchcase(part, wanted)
    if part[0] in "*?[" and wanted[0] == ".":  # a shell's pattern leaves out what begins with a dot
        return False
    likely = wanted.replace("id_*", "id_rsa").replace("*", "")
    return wanted == "*" or fnmatch.fnmatchcase(likely, part.replace(UNKNOWN, "*"))


def _is_telling(part: str, wanted: str) -> bool:
    """`*.json` may be anything; `.e*` and `*hadow` are most of a name that is wanted."""
    if not _UNSURE.search(part) or wanted == "*":
        return True
    begins = re.split(r"[*?\[\x00]", part, maxsplit=1)[0]
    begins_alike = len(begins) > 1 or begins == "."
    letters = len(re.sub(r"\[[^]]*\]|[*?\x00]", "", part))
    return begins_alike or (UNKNOWN not in part and letters * 2 > len(wanted))
