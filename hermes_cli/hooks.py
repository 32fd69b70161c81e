"""`hermes hooks`: list, test, create and switch hooks."""

import asyncio
import json
import re
import time
from difflib import get_close_matches
from typing import Any

import click

from gateway.lock import read_state
from hermes_cli.opening import OpenedStore, open_home
from hermes_config.edit import set_value
from hermes_config.places import make_private
from hooks.events import is_event, make_example
from hooks.loader import Hook, find_hooks
from hooks.running import HookFailed, open_hook

_HANDLER = '''"""Called for the events in HOOK.yaml, in a thread of its own."""


async def handle(event_type, context):
    print(event_type, context)
'''
_COMMAND = """#!/bin/sh
# Gets {"event": ..., "context": {...}} as JSON on its standard input.
cat >> events.jsonl
echo >> events.jsonl
"""


@click.group()
def hooks() -> None:
    """List, test and switch hooks: your own programs, which run when something happens."""


@hooks.command("list")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def list_hooks(as_json: bool) -> None:
    """List all hooks, broken ones with file and line."""
    opened = open_home(make=False)  # a question changes nothing
    running = (read_state(opened.home.lock_file) or {}).get("hooks", {})
    rows = [_describe(hook, running.get(hook.name)) for hook in _find(opened)]
    opened.print_list(rows, as_json=as_json, data=dict, line=_summarise, nothing="There is no hook.")


@hooks.command()
@click.argument("name")
@click.argument("event", default="")
def test(name: str, event: str) -> None:
    """Run a hook once with an example of an event. EVENT is one of its events; by default the first."""
    opened = open_home(make=False)
    hook = _find_one(opened, name)
    if hook.problem:
        raise click.ClickException(hook.problem)
    began = time.monotonic()
    try:
        event, context = make_example(event or hook.events[0])
        context |= {"home": str(opened.home.root)} if "home" in context else {}
        answer = asyncio.run(open_hook(hook)(event, context))
    except KeyError:
        raise click.ClickException(f"There is no event {event!r}. {name} is for: {', '.join(hook.events)}.") from None
    except HookFailed as error:
        raise click.ClickException(f"{name} failed at {event}: {error}") from error
    shown = "" if answer is None else f" It answered {json.dumps(answer, ensure_ascii=False, default=str)}."
    click.echo(f"{name} handled {event} in {(time.monotonic() - began) * 1000:.0f} ms.{shown}")


@hooks.command()
@click.argument("name")
@click.option("--event", "events", multiple=True, help="Event to be told of; may be given several times.")
@click.option("--command", "as_command", is_flag=True, help="A shell script instead of Python.")
def new(name: str, events: tuple[str, ...], as_command: bool) -> None:
    """Create a hook to edit, in the folder hooks/NAME of the home."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise click.UsageError("A hook's name has letters, digits, _ and -, such as tell-me.")
    if wrong := [event for event in events if not is_event(event)]:
        raise click.UsageError(f"There is no event {wrong[0]!r}; docs/hooks.md lists them.")
    folder = open_home().home.root / "hooks" / name
    if folder.exists():
        raise click.ClickException(f"{folder} is there already; nothing was changed.")
    make_private(folder)
    settings = [f"name: {name}", "description: ", f"events: [{', '.join(events or ('agent:end',))}]", "timeout: 10"]
    if as_command:
        settings.append("command: ./run.sh")
        (folder / "run.sh").write_text(_COMMAND)
        (folder / "run.sh").chmod(0o700)
    else:
        (folder / "handler.py").write_text(_HANDLER)
    (folder / "HOOK.yaml").write_text("\n".join(settings) + "\n")
    click.echo(
        f"Created {folder}. Edit it, then: hermes hooks test {name}. It is used from the next start of the gateway."
    )


@hooks.command()
@click.argument("name")
def enable(name: str) -> None:
    """Switch a hook on, from the next start of the gateway."""
    _switch(name, on=True)


@hooks.command()
@click.argument("name")
def disable(name: str) -> None:
    """Switch a hook off, from the next start of the gateway."""
    _switch(name, on=False)


def _switch(name: str, *, on: bool) -> None:
    opened = open_home()
    hook = _find_one(opened, name)
    disabled = [one for one in opened.settings.hooks.disabled if one != name]
    word = "on" if on else "off"
    if hook.enabled == on:
        click.echo(f"{name} is {word} already.")
        return
    set_value(opened.home, "hooks.disabled", ",".join(disabled if on else [*disabled, name]))
    click.echo(f"{name} is {word} from the next start of the gateway.")


def _find(opened: OpenedStore) -> list[Hook]:
    return find_hooks(opened.home.root, opened.settings.hooks.disabled)


def _find_one(opened: OpenedStore, name: str) -> Hook:
    found = {hook.name: hook for hook in _find(opened)}
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "`hermes hooks list` shows them."
        raise click.ClickException(f"There is no hook named {name!r}. {hint}")
    return found[name]


def _summarise(row: dict[str, Any]) -> str:
    first = f"{row['state']:<8} {row['name']:<16} {' '.join(row['events'])}".rstrip()
    return "\n         ".join(filter(None, (first, row["description"], row["problem"])))


def _describe(hook: Hook, running: dict[str, Any] | None) -> dict[str, Any]:
    """Return a row of the list; `running` is the state in the running gateway."""
    state, problem = "on", ""
    if hook.problem:
        state, problem = "broken", hook.problem
    elif not hook.enabled:
        state = "off"
    elif running is not None and running["off"]:
        problem = (
            f"switched off after {running['failures']} failures in a row, until the next start: {running['problem']}"
        )
        state = "failed"
    elif running is not None and running["problem"]:
        problem = f"last failure: {running['problem']}"
    if running is not None and running["dropped"]:
        problem = f"{problem}{'; ' if problem else ''}{running['dropped']} events were dropped, since it is too slow"
    return {
        "name": hook.name,
        "state": state,
        "events": list(hook.events),
        "description": hook.description,
        "problem": problem,
        "folder": str(hook.folder),
        "bundled": hook.bundled,
        "runs": running["runs"] if running is not None else None,
    }
