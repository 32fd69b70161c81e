"""`hermes trajectories`: check, count and shorten files of trajectories; and save conversations as such."""

import json
from pathlib import Path

import click

from agent_core.trajectory import InputRefused, Row, make_row, read_rows, save, to_sharegpt, training_prompt
from agent_core.trajectory_checks import find_problems, open_counter, sum_up
from agent_core.trajectory_compressor import Limits, compress_file
from gateway.messages import SessionKey
from gateway.store import sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from hermes_cli.opening import OpenedStore
from tools.loading import load_builtin, load_folder
from tools.toolsets import choose_tools

_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
_TOKENIZER = click.option("--tokenizer", default="", help="Folder with a tokenizer.json; without it, an estimate.")
_MOST_SHOWN = 20
_ALL = 10_000_000  # messages


@click.group()
def trajectories() -> None:
    """Check, count and shorten files of trajectories (docs/trajectories.md)."""


@trajectories.command()
@_FILES
def check(files: tuple[Path, ...]) -> None:
    """Check each row against the format. Exit code 1 when one is broken."""
    rows = broken = 0
    for file in files:
        for number, row in read_rows(file):
            rows += 1
            problems = find_problems(row)
            broken += bool(problems)
            if problems and broken <= _MOST_SHOWN:
                click.echo(f"{file}:{number}: {'; '.join(problems)}")
    if broken > _MOST_SHOWN:
        click.echo(f"… and {broken - _MOST_SHOWN:,} more")
    click.echo(f"{rows:,} rows, {broken:,} broken.")
    if broken:
        raise SystemExit(1)


@trajectories.command()
@_FILES
@_TOKENIZER
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def stats(files: tuple[Path, ...], tokenizer: str, as_json: bool) -> None:
    """Count rows, turns, tokens and tool calls."""
    try:
        sums = sum_up((row for file in files for _, row in read_rows(file)), open_counter(tokenizer))
    except InputRefused as refused:
        raise click.UsageError(str(refused)) from refused
    if as_json:
        click.echo(json.dumps(sums, ensure_ascii=False, indent=2))
        return
    rows = max(sums["rows"], 1)
    click.echo(
        f"{sums['rows']:,} rows, {sums['completed']:,} of them completed; {sums['broken']:,} broken rows left out"
    )
    click.echo(f"{sums['turns'] / rows:.1f} turns and {sums['tokens'] / rows:,.0f} tokens a row on average")
    click.echo(f"{sums['longest_tokens']:,} tokens in the longest ({sums['tokens_by']})")
    click.echo(f"Models: {', '.join(f'{name} {count:,}' for name, count in sums['models'].items()) or 'none'}")
    for tool in sums["tools"]:
        click.echo(f"  {tool['tool']}: {tool['calls']:,} calls, {tool['failures']:,} failed")


@trajectories.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--max-tokens", required=True, type=click.IntRange(100), help="Most tokens that a trajectory may have.")
@click.option("--first", default=3, show_default=True, type=click.IntRange(1), help="Turns kept at the beginning.")
@click.option("--last", default=4, show_default=True, type=click.IntRange(1), help="Turns kept at the end.")
@_TOKENIZER
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def compress(source: Path, target: Path, max_tokens: int, first: int, last: int, tokenizer: str, as_json: bool) -> None:
    """Write SOURCE to TARGET, its long trajectories shortened to fit."""
    try:
        limits = Limits(max_tokens=max_tokens, first_turns=first, last_turns=last)
        report = compress_file(source, target, limits, open_counter(tokenizer))
    except InputRefused as refused:
        raise click.UsageError(str(refused)) from refused
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    before, after = report["tokens_before"], report["tokens_after"]
    saved = 1 - after / before if before else 0
    click.echo(
        f"{target}: {report['rows']:,} trajectories, {report['shortened']:,} of them shortened; "
        f"{report['turns_removed']:,} turns removed.\n{before:,} tokens before, {after:,} after "
        f"({saved:.0%} less; {report['tokens_by']})."
    )
    if report["still_too_long"]:
        click.echo(f"{report['still_too_long']:,} are still too long: their protected turns alone exceed the limit.")
    if report["broken"]:
        click.echo(f"{report['broken']:,} broken rows were left out: `hermes trajectories check` explains them.")


def session_row(tx: Transaction, session: sessions.Session, opened: OpenedStore) -> Row:
    """Return a whole stored conversation, without what its user took back, as a row.

    Its tools are those that such a conversation is offered now; the model is the one in use where it has chosen none.
    """
    registry = load_builtin()
    load_folder(opened.home.root / "tools")
    chosen = sessions.read_settings(tx, session.id)
    tools = choose_tools(registry, opened.settings.agent).select(session.platform, chosen.toolsets)
    entries = transcripts.entries(tx, session.id, limit=_ALL)
    messages = [entry.message for entry in entries if not entry.is_undone]
    conversations = to_sharegpt(messages, tools, system=training_prompt(tools), redactor=opened.redactor)
    model = chosen.model or opened.settings.model.name
    return make_row(conversations, messages, model=model, completed=turns.is_answered(tx, session.id))


async def save_session(opened: OpenedStore, db: Database, key: SessionKey) -> None:
    """Add the current conversation to the home's trajectories."""

    def query(tx: Transaction) -> Row | None:
        session = sessions.find_current(tx, str(key))
        return session_row(tx, session, opened) if session is not None else None

    if (row := await db.read(query)) is None:
        click.echo("There is no conversation to save as a trajectory.", err=True)
        return
    try:
        file = save(opened.home.root / "trajectories", row, succeeded=row["completed"])
    except OSError as error:
        click.echo(f"The trajectory could not be saved: {error.strerror}.", err=True)
    else:
        click.echo(f"Trajectory added to {file}.", err=True)
