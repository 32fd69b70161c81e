"""`hermes skills`: list, read, install and change skills, the agent's instructions for kinds of tasks."""

import asyncio

import click

from gateway.store.skill_proposals import list_waiting
from gateway.wiring.basics import build_library
from hermes_cli.opening import OpenedStore, confirm, open_home, read_store, refuse_agent
from skills import changes
from skills.format import FILE_NAME, Skill
from skills.installing import describe, quarantine, quarantine_update
from skills.installing import install as install_skill
from skills.library import NoSuchSkill, SkillLibrary
from tools.ansi import plain
from tools.errors import ToolFailed
from tools.url_guard import UrlGuard


@click.group()
def skills() -> None:
    """List, read, install and change skills: instructions for kinds of tasks."""


@skills.command("list")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def list_skills(as_json: bool) -> None:
    """List all skills, those that are not offered with the reason."""
    opened = open_home(make=False)
    _print(opened, _open(opened).find_all(), as_json)


@skills.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def search(words: tuple[str, ...], as_json: bool) -> None:
    """Find skills by words in name, tags and description."""
    opened = open_home(make=False)
    _print(opened, _open(opened).search(" ".join(words)), as_json)


@skills.command()
@click.argument("name")
@click.argument("file", default="")
def show(name: str, file: str) -> None:
    """Print a skill, or another FILE of it."""
    opened = open_home(make=False)
    library = _open(opened)
    try:
        skill = library.get(name)
        text = library.read_file(skill, file) if file else (skill.folder / FILE_NAME).read_text(encoding="utf-8")
    except NoSuchSkill as error:
        raise click.ClickException(f"{error} `hermes skills list` shows all skills.") from error
    opened.print_text(text)
    if not file and (files := library.list_files(skill)):
        click.echo(f"Other files: {', '.join(files)}", err=True)


@skills.command()
@click.argument("source")
@click.option("--yes", is_flag=True, help="Do not ask, whatever was found in it.")
def install(source: str, yes: bool) -> None:
    """Install a skill from SOURCE: a GitHub address, user/repo/path, a folder, a git repository or an archive.

    It is fetched into a quarantine and shown with everything that the scanner found; nothing is installed before you
    agree.
    """
    _take(source, yes=yes, is_update=False)


@skills.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask, whatever has changed.")
def update(name: str, yes: bool) -> None:
    """Fetch an installed skill again, show what has changed, and replace it when you agree."""
    _take(name, yes=yes, is_update=True)


@skills.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a skill; `hermes skills undo NAME` brings it back."""
    refuse_agent("propose it with skill_manage")
    opened = open_home()
    try:
        changes.remove(_open(opened), name, by="user")
    except NoSuchSkill as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Removed {name}. To bring it back: hermes skills undo {name}")


@skills.command()
@click.argument("name", default="")
def undo(name: str) -> None:
    """Take back the last change of a skill, or of any."""
    refuse_agent("propose it with skill_manage")
    try:
        undone = changes.undo(_open(open_home()), name)
    except NoSuchSkill as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Undone: {undone.action} of {undone.name} (by {undone.by}).")


@skills.command()
def proposals() -> None:
    """Show the changes that the agent has proposed, in full."""
    opened = open_home(make=False)
    waiting = read_store(opened, list_waiting) or []
    for one in waiting:
        click.echo(f"{one.id}: {one.action} {one.name}")
        for file, text in one.files.items():
            opened.print_text(f"--- {file}\n{text or '(deleted)'}")
    click.echo("Decide with /skills accept, edit or refuse in a chat." if waiting else "No proposal is waiting.")


def _take(given: str, *, yes: bool, is_update: bool) -> None:
    """Fetch, show, ask and install."""
    refuse_agent("propose it with skill_manage")
    opened = open_home()
    library, guard = _open(opened), UrlGuard.of(opened.settings.network.allowed_addresses)
    fetch = quarantine_update if is_update else quarantine
    try:
        fetched = asyncio.run(fetch(library, given, guard))
    except ToolFailed as error:
        raise click.ClickException(plain(str(error))) from error
    if fetched is None:
        click.echo(f"{given} is up to date.")
        return
    try:
        opened.print_text(describe(fetched))
        for finding in fetched.inspection.findings:
            click.echo(f"  {click.style('!', fg='yellow')} {plain(str(finding))}")
        found = len(fetched.inspection.findings)
        note = f" The scanner found {found} things, see above." if found else ""
        command = "update" if is_update else "install"
        confirm(f"{command.capitalize()} it?{note}", yes=yes, command=f"hermes skills {command} {given} --yes")
        install_skill(library, fetched)
    except ToolFailed as error:
        raise click.ClickException(str(error)) from error
    finally:
        fetched.discard()
    click.echo(f"{fetched.name} is installed. New conversations know it; /{fetched.name} uses it.")


def _open(opened: OpenedStore) -> SkillLibrary:
    return build_library(opened.settings, opened.home)


def _print(opened: OpenedStore, found: list[Skill], as_json: bool) -> None:
    nothing = "No skill fits. `hermes skills list` shows all."
    opened.print_list(found, as_json=as_json, data=_describe, line=_summarise, nothing=nothing)


def _summarise(skill: Skill) -> str:
    state = "broken" if skill.problem else "off" if skill.is_disabled else "on"
    return f"{state:<7} {skill.path}{' (bundled)' * skill.is_bundled}\n        {skill.problem or skill.description}"


def _describe(skill: Skill) -> dict[str, object]:
    return {
        "name": skill.name,
        "category": skill.category,
        "description": skill.description,
        "folder": str(skill.folder),
        "bundled": skill.is_bundled,
        "source": skill.source,
        "enabled": not skill.is_disabled,
        "problem": skill.problem,
        "metadata": dict(skill.metadata),
    }
