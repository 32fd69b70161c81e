"""`hermes backup` and `hermes restore`: the whole home as one file."""

import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from gateway.clock import for_people, now_ms
from gateway.lock import hold_home
from gateway.store.db.backup import find_restore_problem, make_backup, stamp, sync
from gateway.store.db.commit_counter import check_not_lost
from gateway.store.db.restore import restore as put_back
from gateway.wiring.basics import build_backup_policy
from hermes_cli.opening import confirm, open_home
from hermes_config.places import Home
from tools.content import in_bytes

_MANIFEST = "hermes-backup.json"
_FORMAT = 1
_DATABASE = "state.db"
_SECRETS = (".env", "approvals.key", "mcp_logins")
# Created again, kept by systemd, or not needed elsewhere; the database is copied, since its file may be in use.
_LEFT_OUT = ("backups", "logs", "private", "gateway.lock", "lost+found", ".DS_Store")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--without-secrets", is_flag=True, help="Leave out .env, logins and the key that signs approvals.")
def backup(file: Path | None, without_secrets: bool) -> None:
    """Write settings, secrets, conversations, skills, memories, hooks and workspaces into one file.

    The gateway may run meanwhile. FILE is hermes-backup-DATE.tar.gz in this folder unless you name one. To go back, or
    to move to another machine: hermes restore FILE
    """
    home = open_home(make=False).home
    target = (file or Path(f"hermes-backup-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")).absolute()
    if not home.root.is_dir():
        raise click.ClickException(f"There is nothing to back up: {home.root} does not exist.")
    if target.exists():
        raise click.ClickException(f"{target} exists already. Name another file.")
    if target.is_relative_to(home.root):
        raise click.ClickException(f"{target} is inside the home, which may be lost as a whole. Name a file elsewhere.")
    check_not_lost(home.database)
    try:
        skipped = _write_archive(home, target, without_secrets=without_secrets)
    except OSError as error:
        raise click.ClickException(f"{target} could not be written: {error.strerror or error}.") from error
    click.echo(f"{target} ({in_bytes(target.stat().st_size)}) holds everything of {home.root}.")
    if not without_secrets:
        click.echo("It contains your tokens and keys: keep it where only you can read it.")
    for name in skipped:
        click.echo(f"Left out: {name} (a link out of the home, or no file)")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(file: Path, yes: bool) -> None:
    """Replace the home with what `hermes backup` has written to FILE.

    The gateway must be stopped. What is there now is kept in backups/. Messages that came in after the backup are not
    answered again.
    """
    opened = open_home()
    home = opened.home
    policy = build_backup_policy(opened.settings, home.backups)
    with hold_home(home.lock_file) as lock, tempfile.TemporaryDirectory(dir=home.root, prefix="backups.") as folder:
        lock.tell({"state": "restoring a backup"})
        manifest = _unpack(file, Path(folder))
        copy = Path(folder) / _DATABASE
        if copy.exists() and (problem := find_restore_problem(copy)):
            raise click.ClickException(
                f"The database in {file.name} cannot be restored: {problem}. Nothing was changed."
            )
        click.echo(f"{file.name} was made on {for_people(manifest['made_ms'])} by Hermes {manifest['version']}.")
        confirm(f"Replace what is in {home.root}?", yes=yes, command=f"hermes restore {file} --yes")
        aside = home.backups / f"replaced-{stamp()}"
        _exchange(home, Path(folder), aside)
        if copy.exists():
            put_back(home.database, copy, policy)
    click.echo("Restored." + (f" What was there before is in {aside}." if aside.exists() else ""))
    if manifest["without_secrets"]:
        click.echo("The backup has no secrets: set keys and tokens with `hermes setup`.")
    click.echo("To check everything: hermes doctor")


def _write_archive(home: Home, target: Path, *, without_secrets: bool) -> list[str]:
    """Write the archive, or none at all; return the names that were left out."""
    partial = target.with_name(f"{target.name}.partial")
    skipped: list[str] = []
    about = {"format": _FORMAT, "version": version("hermes-gateway"), "made_ms": now_ms()}
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as archive:
            text = json.dumps(about | {"without_secrets": without_secrets}).encode()
            entry = tarfile.TarInfo(_MANIFEST)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
            if home.database.exists():
                with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                    archive.add(make_backup(home.database, Path(folder), keep=1), _DATABASE)
            for path in _entries(home):
                if not (without_secrets and path.name in _SECRETS):
                    _add(archive, path, home.root, skipped)
        sync(partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    return skipped


def _entries(home: Home) -> Iterator[Path]:
    """Yield what a backup holds of a home, besides its database."""
    for path in sorted(home.root.iterdir()):
        is_ours = path.name.startswith((_DATABASE, home.mark_file.name, "backups."))
        if path.name not in _LEFT_OUT and not is_ours and not path.is_socket():
            yield path


def _add(archive: tarfile.TarFile, path: Path, root: Path, skipped: list[str]) -> None:
    """Add a file or a folder with everything in it; what vanishes meanwhile was not needed."""
    name = str(path.relative_to(root))
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        is_inside = path.is_symlink() and not os.path.isabs(os.readlink(path)) and path.resolve().is_relative_to(root)
        if not is_inside:
            skipped.append(name)
            return
    try:
        archive.add(path, name, recursive=False)
        for below in sorted(path.iterdir()) if path.is_dir() and not path.is_symlink() else ():
            _add(archive, below, root, skipped)
    except FileNotFoundError:
        return


def _unpack(file: Path, folder: Path) -> dict[str, Any]:
    """Unpack an archive and return its manifest. Raises ClickException for any other file; nothing was changed then."""
    try:
        with tarfile.open(file) as archive:
            first = archive.next()
            if first is None or first.name != _MANIFEST:
                raise ValueError("its first entry is not ours")
            _extract(archive, folder.resolve())
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_text())
        (folder / _MANIFEST).unlink()
    except (tarfile.TarError, ValueError, EOFError, OSError) as error:
        raise click.ClickException(
            f"{file.name} is not a whole backup made by `hermes backup` ({error}). Nothing was changed. "
            "A copy of the database alone is restored by `hermes state restore`."
        ) from error
    if manifest["format"] > _FORMAT:
        raise click.ClickException(f"A newer Hermes ({manifest['version']}) made {file.name}. Update first.")
    return manifest


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive, but nothing that would land outside the folder; raises ValueError for that."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    for member in archive:  # Python before 3.11.4, such as that of Debian 12
        target = folder / member.name
        paths = (target, target.parent / member.linkname) if member.issym() else (target,)
        is_usual = member.isfile() or member.isdir() or member.issym()
        if not is_usual or not all(path.resolve().is_relative_to(folder) for path in paths):
            raise ValueError(f"{member.name} does not belong into a home")
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        archive.extract(member, folder)


def _exchange(home: Home, unpacked: Path, aside: Path) -> None:
    """Move what is in the home aside, and everything but the database into the home."""
    for path in list(_entries(home)):
        aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.move(path, aside / path.name)
    for path in unpacked.iterdir():
        if path.name != _DATABASE:
            path.rename(home.root / path.name)
