"""`hermes memory`: read and change what the agent remembers about the owner, or shares with everybody."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

import click

from gateway.commands.memory import explain_source
from gateway.memory.checks import explain_refusal
from gateway.memory.files import MemoryFiles
from gateway.store import memories as store
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.memories import OWNERS, SHARED, Memory, MemoryAccess, Source
from hermes_cli.opening import OpenedStore, open_home, read_store, with_store

T = TypeVar("T")

_BY_OWNER = Source(writer="person")
_shared = click.option("--shared", is_flag=True, help="Of what everybody's private chats know.")


@click.group()
def memory() -> None:
    """Read and change what the agent remembers about you."""


@memory.command("list")
@_shared
@click.option("--json", "as_json", is_flag=True, help="For scripts, with sources and times.")
def list_memories(shared: bool, as_json: bool) -> None:
    """List what is remembered."""
    opened = open_home(make=False)
    access = _access(shared)
    found = read_store(opened, lambda tx: store.list_all(tx, access)) or []
    _print(opened, found, as_json, "Nothing is remembered yet.")
    for file, reason in _files(opened).find_unusable(access):
        click.echo(f"{file} is not used: {reason}", err=True)


@memory.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def search(words: tuple[str, ...], as_json: bool) -> None:
    """Find memories by words or a plain question, best first."""
    opened = open_home()
    found = with_store(opened, lambda db: db.write(lambda tx: store.search(tx, OWNERS, " ".join(words))))
    _print(opened, found, as_json, "Nothing found.")


@memory.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--pin", is_flag=True, help="Show it first in every conversation, and never change it unasked.")
@_shared
def set_memory(key: str, value: str, pin: bool, shared: bool) -> None:
    """Remember VALUE under KEY."""
    opened = open_home()
    if refusal := explain_refusal(key, value, opened.redactor):
        raise click.ClickException(refusal)
    name = store.normalise_key(key)
    _change(opened, shared, lambda tx, access: store.put(tx, access, name, value.strip(), _BY_OWNER, pinned=pin))
    click.echo(f"Saved: {name}. New conversations know it.")


@memory.command()
@click.argument("key")
@_shared
def forget(key: str, shared: bool) -> None:
    """Forget KEY; `hermes memory undo` brings it back."""
    gone = _change(open_home(), shared, lambda tx, access: store.delete(tx, access, key, _BY_OWNER))
    if gone is None:
        raise click.ClickException(f"There is no memory {key!r}. `hermes memory list` shows them.")
    click.echo(f"Forgotten: {gone.key}.")


@memory.command()
@_shared
def undo(shared: bool) -> None:
    """Undo the last change."""
    undone = _change(open_home(), shared, store.undo)
    click.echo(f"Undone: {undone[1].key} was {undone[0]}." if undone else "There is no change to undo.")


@memory.command()
@click.argument("key")
@_shared
def why(key: str, shared: bool) -> None:
    """Show where a memory came from."""
    opened = open_home(make=False)
    told = read_store(opened, lambda tx: explain_source(tx, _access(shared), key))
    opened.print_text(told or "Nothing is remembered yet.")


def _access(shared: bool) -> MemoryAccess:
    return SHARED if shared else OWNERS


def _files(opened: OpenedStore) -> MemoryFiles:
    return MemoryFiles(root=opened.home.memories, redactor=opened.redactor)


def _change(opened: OpenedStore, shared: bool, unit: Callable[[Transaction, MemoryAccess], T]) -> T:
    files = _files(opened)

    async def change(db: Database) -> T:
        access = _access(shared)
        await files.import_edits(db, access)
        changed = await db.write(lambda tx: unit(tx, access))
        await files.write_pending(db)
        return changed

    return with_store(opened, change)


def _print(opened: OpenedStore, found: list[Memory], as_json: bool, nothing: str) -> None:
    def line(one: Memory) -> str:
        return f"{one.key}: {one.value}{' (shared)' * (one.scope == 'shared')}"

    opened.print_list(found, as_json=as_json, data=asdict, line=line, nothing=nothing)
