"""The terminal's side of a conversation."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from agent_core.events import Emit, Usage, ignore
from agent_core.model import ModelError
from agent_core.models.catalog import ModelCatalog
from agent_core.prompt import PERSONALITIES
from gateway.approvals.terminal import LocalGates, Prompt
from gateway.commands.history import TranscriptFiles
from gateway.commands.registry import parse
from gateway.errors import CommandRefused, MediaUnavailable
from gateway.media.incoming import Attachments
from gateway.messages import Media, SessionKey
from gateway.schedule.agent_jobs import AgentJobs
from gateway.store import sessions
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.processes import AT_TERMINAL
from gateway.store.sessions import Session
from gateway.terminal_chat import LocalChat, new_key, resume_key
from gateway.turns.metering import Meter, MonitoredModel
from gateway.turns.runner import TurnRunner
from gateway.turns.workplaces import workplace_here
from gateway.wiring.basics import build_library, build_redactor
from gateway.wiring.commands import build_commands
from gateway.wiring.network_tools import build_browsers
from gateway.wiring.policies import build_budgets
from gateway.wiring.tools import (
    ChosenModels,
    build_attachments,
    build_catalog,
    build_compacting,
    build_hooks,
    build_mcp,
    build_media_files,
    build_memory,
    build_model,
    build_prompts,
    build_tools,
    read_preferences,
)
from hermes_cli.cron import open_book
from hermes_cli.opening import OpenedStore, open_store
from hermes_cli.piped import read_piped
from hermes_cli.prompting import Screen, can_draw, wait_for_line
from hermes_config.environment import no_color
from hermes_config.overview import parts
from hermes_config.redaction import NOTE
from skills.format import Skill
from tools.ansi import plain
from tools.backends.ancestry import is_our_command
from tools.base import Tool
from tools.browser.browsers import Browsers
from tools.content import one_line
from tools.mcp.hub import McpHub
from tools.url_guard import UrlGuard
from tools.workplaces import process_backends

_LEAVE = {"/quit", "/exit"}
_SKILLS_NAMED = 3
_RECALLED = 4  # messages of an old conversation that are shown when it goes on


async def ask_once(
    opened: OpenedStore, question: str, lines: TextIO, *, resume: str | None = None, saves: bool = False
) -> None:
    """Print the answer. Raises CommandRefused, ModelError, and KeyboardInterrupt when Ctrl-C has ended the turn.

    `saves` adds the conversation to the trajectories, however it ends.
    """
    piped = "" if parse(question) else read_piped(lines, max_chars=opened.settings.media.max_turn_text_chars)
    screen = _screen(opened, lines)
    async with open_parts(opened) as parts:
        key = new_key() if resume is None else await parts.db.write(partial(resume_key, name=resume))
        async with _saving(opened, parts.db, key, saves=saves):
            chat = build_chat(opened, parts, screen.ask, key)
            answer = await _turn(chat, question, screen, ignore, piped=piped)
    if answer is None:
        raise KeyboardInterrupt
    click.echo(_redact(opened, answer))


async def converse(opened: OpenedStore, lines: TextIO, *, resume: str | None = None, saves: bool = False) -> None:
    """Talk until the end of input: at a terminal with an input line that stays, otherwise one message per line.

    `resume` names an old conversation to go on with; empty: the last one. Raises CommandRefused when there is none.
    `saves` adds the conversation to the trajectories at the end.
    """
    async with open_parts(opened) as parts:
        key = new_key() if resume is None else await parts.db.write(partial(resume_key, name=resume))
        async with _saving(opened, parts.db, key, saves=saves):
            if can_draw(lines):
                await _converse_at_terminal(opened, parts, key)
            else:
                await _converse_by_line(opened, parts, key, lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatParts:
    """The parts of a conversation that are open while it lasts."""

    db: Database
    model: MonitoredModel
    models: ChosenModels
    mcp: McpHub
    browsers: Browsers


@asynccontextmanager
async def open_parts(opened: OpenedStore) -> AsyncIterator[ChatParts]:
    """Open what conversations need, for as long as they last."""
    settings, home = opened.settings, opened.home
    async with (
        open_store(opened) as db,
        aclosing(build_model(settings, home, paced=False)) as model,
        aclosing(ChosenModels(settings, home, build_catalog(settings))) as models,
        build_mcp(settings, home, db, build_hooks(settings, home)).running() as mcp,
        aclosing(build_browsers(settings)) as browsers,
    ):
        yield ChatParts(db=db, model=model, models=models, mcp=mcp, browsers=browsers)


@asynccontextmanager
async def _saving(opened: OpenedStore, db: Database, key: SessionKey, *, saves: bool) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if saves:
            from hermes_cli.trajectories import save_session

            await save_session(opened, db, key)


async def _converse_by_line(opened: OpenedStore, parts: ChatParts, key: SessionKey, lines: TextIO) -> None:
    """Answers go to stdout, everything else to stderr."""
    screen = _screen(opened, lines)
    chat = build_chat(opened, parts, screen.ask, key)
    interactive = lines.isatty()
    while line := await _next_line(lines, interactive):
        text = line.strip()
        if text in _LEAVE:
            return
        if text:
            await _answer(opened, chat, text, screen)
    if interactive:
        click.echo(err=True)


async def _converse_at_terminal(opened: OpenedStore, parts: ChatParts, key: SessionKey) -> None:
    from hermes_cli.input_line import ChatCompleter
    from hermes_cli.interactive import InteractiveChat, terminal_size, write_stdout
    from hermes_cli.live_view import LiveView

    settings = opened.settings
    mine = settings.user.preferences.display.skin
    view = LiveView(
        write=write_stdout,
        width=lambda: terminal_size().columns,
        clean=build_redactor(settings).clean,
        skin=settings.display.skin if mine == "default" else mine,
        color=not no_color(),
    )
    db, model, catalog = parts.db, parts.model, parts.models.catalog
    attachments = _local_attachments(opened, db, model)

    usual = read_preferences(settings).model or model.name
    used = await db.read(partial(_find_chosen_model, key=key)) or usual

    async def say(text: str, emit: Emit, files: Sequence[Path]) -> str:
        nonlocal used
        named = [Media(kind="file", name=path.name, reference=str(path)) for path in files]
        attached = await attachments.take_files(named)
        for part in attached:
            if part.problem:
                view.note(f"{part.name}: {part.problem}", style="red")
        answer = await chat.say(text, emit, files=attached)
        used = await db.read(partial(_find_chosen_model, key=key)) or usual
        return answer

    screen = InteractiveChat(
        say=say,
        view=view,
        completer=ChatCompleter(
            commands=build_commands(settings, opened.home).available("owner", "cli"),
            arguments=partial(_list_arguments, catalog=catalog),
        ),
        history=opened.home.chat_history,
        status=lambda shown: _status_items(used, shown.usage),
        wait_seconds=settings.approvals.terminal_wait_seconds,
    )
    chat = build_chat(opened, parts, screen.ask, key)
    session = await db.read(lambda tx: sessions.find_current(tx, str(key)))
    skills = await asyncio.to_thread(build_library(settings, opened.home).list_usable)
    view.note(_banner(used, chat.tools, skills, session))
    if session is not None:
        view.note(view.clean(await chat.say(f"/history {_RECALLED}")) + "\n")
    listing = asyncio.create_task(catalog.run())
    try:
        await screen.run()
    finally:
        listing.cancel()


def _list_arguments(command: str, *, catalog: ModelCatalog) -> Sequence[str]:
    """Return the names that a command can be given, for the menu below the input line."""
    match command:
        case "model":
            catalog.request()  # in the menu from the next key on
            return catalog.names
        case "personality":
            return tuple(PERSONALITIES)
        case _:
            return ()


def _find_chosen_model(tx: Transaction, *, key: SessionKey) -> str:
    session = sessions.find_current(tx, str(key))
    return sessions.read_settings(tx, session.id).model if session is not None else ""


def _status_items(model: str, usage: Usage) -> list[str]:
    """Return the items of the line below the input, the most important first."""
    cost = f"${usage.cost_micros / 1_000_000:.4f}" if usage.cost_micros else ""
    folder = str(Path.cwd()).replace(str(Path.home()), "~", 1)
    return [item for item in (model, f"{usage.total_tokens:,} tokens", cost, folder, "/help") if item]


def _banner(model: str, tools: Sequence[Tool], skills: Sequence[Skill], session: Session | None) -> str:
    toolsets = ", ".join(sorted({tool.toolset for tool in tools}))
    lines = [f"Hermes · {model}", f"Tools: {toolsets} ({len(tools)})"]
    if skills:
        more = ", …" if len(skills) > _SKILLS_NAMED else ""
        lines.append(f"Skills: {', '.join(one.name for one in skills[:_SKILLS_NAMED])}{more} ({len(skills)})")
    if session is not None:
        lines.append(f"Back in: {session.title or session.id}")
    lines.append("Enter sends, Alt-Enter begins a line, @file attaches, / lists commands, Ctrl-D leaves.")
    return "\n".join(lines) + "\n"


def _local_attachments(opened: OpenedStore, db: Database, model: MonitoredModel) -> Attachments:
    max_bytes = opened.settings.media.max_file_bytes

    def read(path: Path) -> bytes:
        if path.stat().st_size > max_bytes:
            raise MediaUnavailable(f"it is larger than {max_bytes / 1_000_000:.0f} MB")
        return path.read_bytes()

    async def fetch(account: str, media: Media) -> bytes:
        return await asyncio.to_thread(read, Path(media.reference))

    built = build_attachments(opened.settings, opened.home, db, model, {}, build_media_files(opened.home))
    return replace(built, fetch=fetch)


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
    """Hide secrets, since output may go to pipes and files, and drop what a terminal would obey."""
    redactor = build_redactor(opened.settings)
    answer = plain(answer) if sys.stdout.isatty() else answer
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


def build_chat(
    opened: OpenedStore,
    parts: ChatParts,
    prompt: Prompt,
    key: SessionKey,
    *,
    folder: Path | None = None,
    hint: str = "Your answers are shown in a terminal: write plain text or simple Markdown.",
) -> LocalChat:
    """Build a conversation in a folder, by default the current one. Raises BackendFailed."""
    settings, db, model, models, mcp = opened.settings, parts.db, parts.model, parts.models, parts.mcp
    folder = folder or Path.cwd()
    memory = build_memory(settings, opened.home, db)
    tools = build_tools(
        settings,
        opened.home,
        db,
        memory=memory,
        browsers=parts.browsers,
        hooks=build_hooks(settings, opened.home),
        jobs=AgentJobs(db=db, book=open_book(opened)),
        mcp=mcp,
        on_broken=lambda file, reason: _report_broken(opened, file, reason),
    )
    is_agents = is_our_command(os.getpid())

    async def offer(platform: str, chosen: tuple[str, ...], session: str, _: bool, window: int) -> list[Tool]:
        return await tools.offer(platform, chosen, session, not is_agents, window)

    return LocalChat(
        runner=TurnRunner(
            db=db,
            settings=settings,
            model=model,
            choose_model=models.open,
            helpers=model.helpers,
            offer_tools=offer,
            compacting=build_compacting(settings, db, model),
            prompts=build_prompts(settings, opened.home, memory, hints={"cli": hint}, project=folder),
            memory=memory,
            # A command of the agent that begins a conversation must neither answer its questions nor decide for the
            # owner.
            gate=LocalGates(db=db, mode="deny" if is_agents else settings.approvals.mode, prompt=prompt).gate,
            meter=Meter(budgets=build_budgets(settings)),
            preferences=read_preferences(settings),
        ),
        workplace=workplace_here(
            opened.settings.terminal,
            opened.home,
            AT_TERMINAL,
            UrlGuard.of(opened.settings.network.allowed_addresses),
            folder=folder,
        ),
        backends=process_backends(opened.settings.terminal),
        commands=build_commands(
            settings,
            opened.home,
            models=models.catalog,
            model_in_use=lambda: model.in_use,
            files=TranscriptFiles(clean=build_redactor(settings).clean, store=partial(_save_in, folder)),
            describe_config=lambda: _describe_config(opened),
            mcp=mcp,
        ),
        role="member" if is_agents else "owner",
        key=key,
        tools=tools.select(key.platform),
        folder=str(folder),
    )


def _save_in(folder: Path, name: str, content: bytes) -> str:
    """Write the file into the folder, never over another one."""
    path = folder / name
    number = 1
    while True:
        try:
            with path.open("xb") as file:
                file.write(content)
            return str(path.absolute())
        except FileExistsError:
            number += 1
            path = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"


def _describe_config(opened: OpenedStore) -> str:
    lines = [f"Home: {opened.home.root}"]
    lines += [f"{'on ' if part.on else 'off'}  {part.name:<8} {part.text}" for part in parts(opened.settings)]
    return "\n".join([*lines, "`hermes config show` prints every setting, `hermes config set` changes one."])


def _report_broken(opened: OpenedStore, file: str, reason: str) -> None:
    reason = one_line(build_redactor(opened.settings).clean(reason)).rstrip(".")
    click.echo(
        f"Tool file {file} could not be loaded: {reason}. Fix or remove it; details: {opened.home.log_file}", err=True
    )
