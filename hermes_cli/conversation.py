"""The terminal's side of a conversation."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import TextIO

import click

from agent_core.events import Emit, ignore
from agent_core.model import Model, ModelError
from gateway.approvals.terminal import LocalGates
from gateway.commands.registry import parse
from gateway.errors import CommandRefused
from gateway.store.db.database import Database
from gateway.store.processes import AT_TERMINAL
from gateway.terminal_chat import LocalChat, new_key
from gateway.turns.workplaces import workplace_here
from gateway.wiring.app import build_commands
from gateway.wiring.basics import build_redactor
from gateway.wiring.policies import build_budgets
from gateway.wiring.tools import build_model, build_prompts, build_tools
from hermes_cli.opening import OpenedStore, open_store
from hermes_cli.piped import read_piped
from hermes_cli.prompting import Screen, wait_for_line
from hermes_config.redaction import NOTE
from tools.content import one_line
from tools.workplaces import process_backends

_LEAVE = {"/quit", "/exit"}


async def ask_once(opened: OpenedStore, question: str, lines: TextIO) -> None:
    """Print the answer. Raises CommandRefused, ModelError, and KeyboardInterrupt when Ctrl-C has ended the turn."""
    piped = "" if parse(question) else read_piped(lines, max_chars=opened.settings.media.max_turn_text_chars)
    screen = _screen(opened, lines)
    async with open_store(opened) as db, aclosing(build_model(opened.settings, opened.home, paced=False)) as model:
        answer = await _turn(_chat(opened, db, model, screen), question, screen, ignore, piped=piped)
    if answer is None:
        raise KeyboardInterrupt
    click.echo(_redact(opened, answer))


async def converse(opened: OpenedStore, lines: TextIO) -> None:
    """Answer one message per line until the end of input. Answers go to stdout, everything else to stderr."""
    interactive = lines.isatty()
    if interactive:
        click.echo(f"Hermes, model {opened.settings.model.name}. /help lists commands, Ctrl-D exits.", err=True)
    async with open_store(opened) as db, aclosing(build_model(opened.settings, opened.home, paced=False)) as model:
        screen = _screen(opened, lines)
        chat = _chat(opened, db, model, screen)
        while line := await _next_line(lines, interactive):
            text = line.strip()
            if text in _LEAVE:
                return
            if text:
                await _answer(opened, chat, text, screen)
    if interactive:
        click.echo(err=True)


async def _answer(opened: OpenedStore, chat: LocalChat, text: str, screen: Screen) -> None:
    try:
        answer = await _turn(chat, text, screen, screen.show)
    except CommandRefused as refused:
        click.echo(f"{refused}")
    except ModelError as error:
        click.echo(_redact(opened, f"{error}"), err=True)
    else:
        click.echo("Stopped." if answer is None else _redact(opened, answer), err=answer is None)


def _redact(opened: OpenedStore, answer: str) -> str:
    """Hide secrets: output may go to pipes and files."""
    redactor = build_redactor(opened.settings)
    cleaned = redactor.clean(answer)
    return answer if cleaned is answer else f"{cleaned}\n\n{redactor.clean(NOTE)}"


async def _turn(chat: LocalChat, text: str, screen: Screen, emit: Emit, *, piped: str = "") -> str | None:
    """Return the answer; None when Ctrl-C at a question has ended the turn."""
    turn = asyncio.create_task(chat.say(text, emit, piped=piped))
    screen.stop, screen.was_stopped = turn.cancel, False
    try:
        return await turn
    except asyncio.CancelledError:
        if not screen.was_stopped:
            raise
        return None


async def _next_line(lines: TextIO, interactive: bool) -> str:
    if interactive:
        click.echo("> ", nl=False, err=True)
        await wait_for_line(lines)
        return lines.readline()
    return await asyncio.to_thread(lines.readline)


def _screen(opened: OpenedStore, lines: TextIO) -> Screen:
    return Screen(lines=lines, wait_seconds=opened.settings.approvals.terminal_wait_seconds)


def _chat(opened: OpenedStore, db: Database, model: Model, screen: Screen) -> LocalChat:
    settings = opened.settings
    tools = build_tools(settings, opened.home, db, on_broken=lambda file, reason: _report_broken(opened, file, reason))
    hints = {"cli": "Your answers are shown in a terminal: write plain text or simple Markdown."}
    return LocalChat(
        db=db,
        model=model,
        tools=tools,
        timezone=settings.user.timezone,
        max_tool_result_chars=settings.agent.max_tool_result_chars,
        prompts=build_prompts(settings, opened.home, db, hints=hints, project=Path.cwd()),
        workplace=workplace_here(opened.settings.terminal, opened.home, AT_TERMINAL),
        backends=process_backends(),
        commands=build_commands(settings),
        gate=LocalGates(db=db, mode=settings.approvals.mode, prompt=screen.ask).gate,
        budgets=build_budgets(settings),
        max_iterations=settings.agent.max_iterations,
        history_messages=settings.agent.history_messages,
        key=new_key(),
    )


def _report_broken(opened: OpenedStore, file: str, reason: str) -> None:
    reason = one_line(build_redactor(opened.settings).clean(reason)).rstrip(".")
    click.echo(
        f"Tool file {file} could not be loaded: {reason}. Fix or remove it; details: {opened.home.log_file}", err=True
    )
