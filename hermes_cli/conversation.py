"""The terminal's side of a conversation."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import TextIO

import click

from agent_core.events import Event, ToolStarted
from agent_core.model import Model, ModelError
from gateway.local_chat import LocalChat, new_key
from gateway.store.database import Database
from gateway.wiring import build_commands, build_model, build_prompts, build_tools
from gateway.wiring_budgets import build_budgets
from gateway.workplaces import workplace_here
from hermes_cli.opening import Opened, open_store

_LEAVE = {"/quit", "/exit"}


async def ask_once(opened: Opened, question: str) -> None:
    async with open_store(opened) as db, aclosing(build_model(opened.settings, opened.home, paced=False)) as model:
        click.echo(await _chat(opened, db, model).say(question))


async def converse(opened: Opened, lines: TextIO) -> None:
    """Reads a message a line until the end of input. Answers go to stdout, all else to stderr."""
    interactive = lines.isatty()
    if interactive:
        click.echo(
            f"Hermes with the model {opened.settings.model.name}. /help for commands, Ctrl-D to leave.", err=True
        )
    async with open_store(opened) as db, aclosing(build_model(opened.settings, opened.home, paced=False)) as model:
        chat = _chat(opened, db, model)
        while line := await _next_line(lines, interactive):
            text = line.strip()
            if text in _LEAVE:
                return
            if text:
                await _answer(chat, text)
    if interactive:
        click.echo(err=True)


async def _answer(chat: LocalChat, text: str) -> None:
    try:
        click.echo(await chat.say(text, _show))
    except ModelError as error:
        click.echo(f"{error}", err=True)


async def _next_line(lines: TextIO, interactive: bool) -> str:
    if interactive:
        click.echo("> ", nl=False, err=True)
        await _typed(lines)
        return lines.readline()
    return await asyncio.to_thread(lines.readline)


async def _typed(lines: TextIO) -> None:
    """Until a line is there. Not in a thread: asyncio.run waits for its threads, so Ctrl-C would wait for Enter."""
    there = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(lines.fileno(), there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(lines.fileno())


def _show(event: Event) -> None:
    if isinstance(event, ToolStarted):
        click.echo(f"  … {event.call.name}", err=True)


def _chat(opened: Opened, db: Database, model: Model) -> LocalChat:
    settings = opened.settings
    tools = build_tools(settings, opened.home, db)
    key = new_key()
    hints = {"cli": "Your answers are shown in a terminal: write plain text or simple Markdown."}
    return LocalChat(
        db=db,
        model=model,
        tools=tools,
        timezone=settings.user.timezone,
        max_tool_result_chars=settings.agent.max_tool_result_chars,
        prompts=build_prompts(settings, opened.home, db, hints=hints, project=Path.cwd()),
        workplace=workplace_here(opened.settings.terminal, opened.home, str(key)),
        commands=build_commands(settings),
        budgets=build_budgets(settings),
        max_iterations=settings.agent.max_iterations,
        history_messages=settings.agent.history_messages,
        key=key,
    )
