"""One policy for a sandbox: what its commands see and change is what the file tools read and write there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import structlog

from hermes_config.places import make_private
from tools.backends.base import BackendFailed
from tools.backends.search import BackendFolder

log = structlog.get_logger()

Network = Literal["on", "off", "ask"]

SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_ETC = (
    *("alternatives", "bash.bashrc", "ca-certificates", "crypto-policies", "debian_version", "fonts", "gai.conf"),
    *("host.conf", "inputrc", "java-17-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic"),
    *("mime.types", "nsswitch.conf", "os-release", "perl", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs"),
    *("pki/tls/openssl.cnf", "profile.d", "protocols", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf"),
    *("terminfo", "timezone"),
)
# Of the dot-folders in the owner's home: programs they have installed, without the credentials beside them.
_TOOLCHAINS = (
    *(".asdf", ".bun/bin", ".cargo/bin", ".deno/bin", ".local/bin", ".local/lib", ".local/share/mise"),
    *(".local/share/uv", ".nvm", ".pyenv", ".rbenv", ".rustup", ".sdkman", ".volta"),
)
# Folders that programs insist on writing to: in the sandbox they are its own.
_OWN_FOLDERS = (".cache", ".cargo", ".config", ".gradle", ".local", ".m2", ".npm")
# Files that programs outside the sandbox would run by themselves.
_PROTECTED = (".git/hooks", ".git/config", ".envrc")
_MAX_GIT_VALUE_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """The files and the network of one sandbox. `state` is our folder for it; its commands see only parts of it."""

    workspace: Path
    state: Path
    outputs: Path
    user_home: Path | None = None  # the owner's, whose ordinary files can be read; None for everybody else
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: Network = "off"

    @classmethod
    def of(
        cls,
        *,
        workspace: Path,
        private: Path,
        name: str = "box",
        user_home: Path | None = None,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        ours: Sequence[Path] = (),
        network: Network = "off",
    ) -> "SandboxPolicy":
        """Resolve the folders. `ours` are those of Hermes itself, hidden like `hidden`.

        Raises BackendFailed when a folder that can be written contains one of them.
        """
        own = (*map(_real, ours), _real(private))
        for folder in map(_real, (workspace, *writable)):
            if folder == Path("/") or any(path.is_relative_to(folder) for path in own):
                raise BackendFailed(f"{folder} cannot be writable in a sandbox: it contains files of Hermes itself.")
        return cls(
            workspace=_real(workspace),
            state=own[-1] / "boxes" / name,
            outputs=own[-1] / "outputs",
            user_home=_real(user_home) if user_home else None,
            readable=tuple(map(_real, readable)),
            writable=tuple(map(_real, writable)),
            hidden=(*own, *map(_real, hidden)),
            network=network,
        )

    @property
    def home(self) -> Path:
        """Return the folder that `~` means to commands."""
        return self.user_home or self.workspace

    @property
    def scratch(self) -> Path:
        return self.state / "tmp"

    @property
    def own_home(self) -> Path:
        """Return where the folders of the home are that programs insist on writing to; all sandboxes share them."""
        return self.state.parent.parent / "home"

    def folders(self) -> list[BackendFolder]:
        """Return the folders and files that are there, the general before the specific."""
        system = [_shared(Path(name)) for name in _SYSTEM if os.path.isdir(name) and not os.path.islink(name)]
        system += [_shared(Path("/etc", name)) for name in _ETC if os.path.exists(f"/etc/{name}")]
        found = [*system, *_interpreter(), *self._home_folders()]
        found += [_shared(path) for path in self.readable if path.exists()]
        for path in (*filter(Path.exists, self.writable), self.workspace):
            # Mounts of their own, so that they cannot be renamed and made anew.
            fixed = [path / ".git", *(parent for hidden in self.hidden for parent in hidden.parents)]
            inside = [one for one in fixed if path in one.parents and one.is_dir()]
            found += [BackendFolder(spelled=one, real=one) for one in dict.fromkeys((path, *inside))]
            found += [_shared(path / name) for name in _PROTECTED if (path / name).exists()]
        found.append(BackendFolder(spelled=Path("/tmp"), real=self.scratch))  # noqa: S108  # the sandbox's own
        found.append(_shared(self.outputs))
        return sorted(found, key=lambda folder: (len(folder.spelled.parts), folder.writable))

    def _home_folders(self) -> Iterator[BackendFolder]:
        if home := self.user_home:
            yield _shared(home)
            yield BackendFolder(spelled=home / ".gitconfig", real=self.state / "gitconfig", writable=False)
            for name in _OWN_FOLDERS:
                yield BackendFolder(spelled=home / name, real=self.own_home / name)
            yield from (_shared(home / name) for name in _TOOLCHAINS if (home / name).is_dir())

    def closed(self) -> list[Path]:
        """Return what is hidden inside of those folders."""
        dotted = [path for path in self._entries() if path.name.startswith(".")]
        return [*self.hidden, *dotted]

    def hides(self, path: Path) -> bool:
        """Return whether this path of the machine exists there but not in the sandbox."""
        real = _real(path)
        if not real.exists():
            return False
        inside = [folder.real for folder in self.folders() if real.is_relative_to(folder.real)]
        return not inside or any(
            real.is_relative_to(closed) and closed.is_relative_to(inside[-1]) for closed in self.closed()
        )

    def _entries(self) -> list[Path]:
        if self.user_home is None:
            return []
        try:
            return sorted(self.user_home.iterdir())
        except OSError:
            return []

    # For bubblewrap.

    def make_folders(self) -> None:
        """Make the folders that commands and file tools may write to. Raises OSError."""
        if self.user_home and not self.workspace.exists():
            log.info("commands work in a folder of their own, which was created", folder=str(self.workspace))
        own = [self.own_home / name for name in _OWN_FOLDERS] if self.user_home else []
        for folder in (self.workspace, self.scratch, self.outputs, self.state / "net", *own):
            make_private(folder)
        for repository in (path / ".git" for path in (self.workspace, *self.writable) if (path / ".git").is_dir()):
            (repository / "hooks").mkdir(exist_ok=True)  # what is not there cannot be protected

    def prepare(self) -> None:
        """Make all of our own that is mounted. Raises OSError."""
        self.make_folders()
        contents = {
            "passwd": f"agent:x:1000:1000:agent:{self.home}:/bin/sh\n",
            "group": "agent:x:1000:\n",
            "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
            "gitconfig": _git_identity() if self.user_home else "",
        }
        for name, content in contents.items():
            (self.state / name).touch(mode=0o600)
            (self.state / name).write_text(content, encoding="utf-8")

    def mounts(self) -> list[str]:
        """Return the arguments of `bwrap` that make this view of the files."""
        arguments: list[str] = []
        for name in _SYSTEM:
            if os.path.islink(name):
                arguments += ["--symlink", os.readlink(name), name]
        for name in ("passwd", "group", "hosts"):
            arguments += ["--ro-bind", str(self.state / name), f"/etc/{name}"]
        arguments += ["--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]  # noqa: S108
        arguments += ["--ro-bind", str(self.state / "net"), "/run/hermes/net"]
        folders = self.folders()
        # An ordinary entry of the home may also be the workspace: that comes later, and wins.
        steps = [(len(path.parts), 0, step) for path in self._entries() if (step := self._show_entry(path))]
        steps += [(len(one.spelled.parts), 1, _bind(one)) for one in folders if one.spelled != self.user_home]
        if self.user_home:
            steps.append((len(self.user_home.parts), 0, ["--tmpfs", str(self.user_home)]))
        covered = self._covered(folders)
        steps += [(len(path.parts), 2, _cover(path)) for path in covered]
        for _, _, step in sorted(steps, key=lambda step: step[:2]):
            arguments += step
        # Not before: folders inside may have been mounted meanwhile.
        fixed = [path for path in (*covered, self.user_home) if path and path.is_dir()]
        return arguments + [part for path in fixed for part in ("--remount-ro", str(path))]

    def _covered(self, folders: Sequence[BackendFolder]) -> list[Path]:
        """Return what is hidden inside of what is shown."""
        shown = [one.spelled for one in folders if one.spelled == one.real and one.spelled != self.user_home]
        shown += [path for path in self._entries() if not path.name.startswith(".")]
        inside = [path for path in self.hidden if path.exists() and any(path.is_relative_to(one) for one in shown)]
        return [path for path in inside if not any(path != one and path.is_relative_to(one) for one in inside)]

    def _show_entry(self, path: Path) -> list[str]:
        """Show an ordinary entry of the owner's home; of a link only the link, since it may lead to a hidden file."""
        if path.name.startswith(".") or path in self.hidden:
            return []
        if path.is_symlink():
            return ["--symlink", os.readlink(path), str(path)]
        # Not by Path, which raises where a file system does not answer.
        return ["--ro-bind-try", str(path), str(path)] if os.path.isdir(path) or os.path.isfile(path) else []


def _shared(path: Path) -> BackendFolder:
    return BackendFolder(spelled=path, real=path, writable=False)


def _interpreter() -> list[BackendFolder]:
    """Return the folder of the Python that starts the commands, unless the system has it anyway."""
    prefix = _real(Path(sys.base_prefix))
    return [] if any(prefix.is_relative_to(name) for name in _SYSTEM) else [_shared(prefix)]


def _bind(folder: BackendFolder) -> list[str]:
    return ["--bind" if folder.writable else "--ro-bind", str(folder.real), str(folder.spelled)]


def _cover(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path)]
    return ["--ro-bind", "/dev/null", str(path)]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _git_identity() -> str:
    """Return a configuration of git with the owner's name and e-mail: theirs may contain credentials."""
    git = shutil.which("git")
    lines = ["[user]"]
    for key in ("name", "email") if git else ():
        told = subprocess.run(
            [str(git), "config", "--global", f"user.{key}"], capture_output=True, text=True, timeout=20, check=False
        )
        value = re.sub(r"[\\\"\x00-\x1f]", "", told.stdout)[:_MAX_GIT_VALUE_CHARS]
        if value:
            lines.append(f'\t{key} = "{value}"')
    return "\n".join(lines) + "\n"
