"""Who works where: the owner alone on this machine, everybody else apart in a sandbox."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.inbox import Accepted
from gateway.store.turns import Turn
from gateway.turns import workplaces as module
from gateway.turns.workplaces import Workplaces, workplace_here
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.gateway.scene import inbound
from tests.programs import needs
from tests.tools.places import asking
from tools.backends.base import Workplace
from tools.backends.sandbox import SandboxProblem
from tools.builtin.processes import process_tools
from tools.process_book import ProcessesInMemory


def said_by(person: str, role: str, *, kind: str = "dm") -> Accepted:
    message = inbound(kind=kind)
    return Accepted(
        id=1,
        key=message.key,
        kind="message",
        message_id="1",
        sender_id=person,
        sender_name=person,
        person_id=person,
        role=role,
        parts=message.parts,
    )


def turn_of(*asked: Accepted) -> Turn:
    return Turn(id="t1", session_key=str(asked[0].key), session_id="s1", messages=asked)


OWNER = turn_of(said_by("owner", "owner"))
OWNER_IN_GROUP = turn_of(said_by("owner", "owner", kind="group"))
ADA = turn_of(said_by("ada", "member"))
BOB = turn_of(said_by("bob", "guest", kind="group"))
TOGETHER = turn_of(said_by("owner", "owner", kind="group"), said_by("bob", "guest", kind="group"))


async def of(places: Workplaces, turn: Turn) -> Workplace | None:
    return await places.at(turn)


@pytest.fixture
def places(tmp_path: Path) -> Workplaces:
    (tmp_path / "work").mkdir()
    return Workplaces(home=Home(tmp_path / "home"), terminal=TerminalSettings(cwd=str(tmp_path / "work")))


@needs("bubblewrap")
async def test_the_owner_works_in_a_sandbox_with_a_way_out(tmp_path: Path, places: Workplaces) -> None:
    place = await of(places, OWNER)
    assert place is not None
    assert (place.backend.name, place.current_folder) == ("sandbox", str(tmp_path / "work"))
    assert place.outside is not None
    assert (place.outside.backend.name, place.outside.current_folder) == ("local", str(tmp_path / "work"))
    for other in (OWNER_IN_GROUP, ADA, BOB, TOGETHER):
        theirs = await of(places, other)
        assert theirs is not None
        assert theirs.outside is None


async def test_on_wish_the_owner_alone_works_on_this_machine(tmp_path: Path) -> None:
    chosen = TerminalSettings(cwd=str(tmp_path), backend="local")
    place = await of(Workplaces(home=Home(tmp_path / "home"), terminal=chosen), OWNER)
    assert place is not None
    assert (place.backend.name, place.current_folder, place.outside) == ("local", str(tmp_path), None)


async def test_without_a_sandbox_the_owner_works_on_this_machine(
    places: Workplaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.workplaces.sandbox_problem", lambda: "no user namespaces")
    place = await of(places, OWNER)
    assert place is not None
    assert (place.backend.name, place.outside) == ("local", None)


@needs("bubblewrap")
@pytest.mark.parametrize(
    "turn", [OWNER_IN_GROUP, ADA, BOB, TOGETHER], ids=["owner in a group", "member", "guest", "several"]
)
async def test_everybody_else_works_in_a_sandbox(places: Workplaces, turn: Turn) -> None:
    place = await of(places, turn)
    assert place is not None
    assert place.backend.isolates
    assert Path(place.workspace) == places.workspace(turn)
    assert Path(place.workspace).parent == places.home.workspaces


@needs("bubblewrap")
@pytest.mark.parametrize("backend", ["local", "bubblewrap"])
async def test_what_a_path_means_is_told_as_commands_there_would_understand_it(tmp_path: Path, backend: str) -> None:
    chosen = TerminalSettings.model_validate({"cwd": str(tmp_path), "backend": backend})
    places = Workplaces(home=Home(tmp_path / ".hermes"), terminal=chosen)
    for turn in (OWNER, OWNER_IN_GROUP, ADA, BOB, TOGETHER):
        place = await of(places, turn)
        assert place is not None
        assert (str(places.folder(turn)), str(places.home_folder(turn))) == (place.workspace, place.backend.home)


@needs("bubblewrap")
async def test_nobody_has_anybody_elses_folder_or_name(places: Workplaces) -> None:
    turns = (OWNER, OWNER_IN_GROUP, ADA, BOB, TOGETHER)
    found = [place for turn in turns if (place := await of(places, turn)) is not None]
    for what in ("workspace", "holder", "backend"):
        assert len({getattr(place, what) for place in found}) == len(turns), what


@needs("bubblewrap")
async def test_a_conversation_finds_its_shell_as_it_left_it_and_a_new_one_begins_anew(places: Workplaces) -> None:
    place = await of(places, ADA)
    assert place is not None
    place.current_folder = "/usr"
    place.environment.update({"COLOUR": "blue", "EDITOR": None})
    await place.keep_shell(place)
    restarted = Workplaces(home=places.home, terminal=places.terminal)
    for known in (places, restarted):
        again = await of(known, replace(ADA, id="t2"))
        assert again is not None
        assert (again.current_folder, again.environment) == ("/usr", {"COLOUR": "blue", "EDITOR": None})
    for other in (replace(ADA, session_id="s2"), OWNER, BOB):
        anew = await of(restarted, other)
        assert anew is not None
        assert (anew.current_folder, anew.environment) == (anew.workspace, {})


async def test_killed_in_the_middle_of_a_turn_the_shell_goes_on_where_it_was(places: Workplaces) -> None:
    """What the resumed turn runs next must not be run in another folder."""
    place = await of(places, OWNER)
    terminal, _ = process_tools(ProcessesInMemory())
    await asyncio.gather(*(asking(terminal, place)(command=f"export N{number}=x") for number in range(4)))
    await asking(terminal, place)(command="mkdir inner && cd inner")
    resumed = await of(Workplaces(home=places.home, terminal=places.terminal), OWNER)
    assert resumed is not None
    assert resumed.current_folder == f"{places.terminal.cwd}/inner"
    assert {"N0", "N1", "N2", "N3"} <= resumed.environment.keys()


@needs("bubblewrap")
async def test_after_a_new_conversation_processes_have_the_same_holder(places: Workplaces) -> None:
    first, second = await of(places, ADA), await of(places, replace(ADA, session_id="s2"))
    assert first is not None
    assert second is not None
    assert first.holder == second.holder


@needs("bubblewrap")
async def test_what_was_exported_is_closed_to_others(places: Workplaces) -> None:
    place = await of(places, ADA)
    assert place is not None
    place.environment["TOKEN"] = "canary"
    await place.keep_shell(place)
    [file] = places.home.private.rglob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "box" in file.parts
    file.write_text("{")
    again = await of(Workplaces(home=places.home, terminal=places.terminal), ADA)
    assert again is not None
    assert again.environment == {}


@needs("bubblewrap")
@pytest.mark.parametrize("cwd", ["~", "{}", "{}/.."])
async def test_in_a_sandbox_the_owner_does_not_work_in_their_whole_home(
    tmp_path: Path, cwd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    terminal = TerminalSettings(cwd=cwd.format(tmp_path), backend="sandbox")
    places = Workplaces(home=Home(tmp_path / ".hermes"), terminal=terminal)
    place = await of(places, OWNER)
    assert place is not None
    assert place.workspace == str(tmp_path / "hermes-work")
    monkeypatch.chdir(tmp_path)
    assert workplace_here(terminal, places.home, "cli:1").workspace == place.workspace


async def test_where_there_can_be_no_sandbox_only_the_owner_has_a_workplace(
    places: Workplaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise SandboxProblem("no user namespaces", "allow them")

    monkeypatch.setattr(module, "check_sandbox", none)
    monkeypatch.setattr("tools.workplaces.sandbox_problem", lambda: "no user namespaces")
    assert await of(places, ADA) is None
    assert await of(places, OWNER) is not None


async def test_only_so_many_are_remembered(places: Workplaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 2)
    first = await of(places, OWNER)
    for key in ("a", "b"):
        await of(places, replace(OWNER, session_id=key))
    assert await of(places, OWNER) is not first


def test_at_the_terminal_it_works_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    place = workplace_here(TerminalSettings(cwd="~"), Home(tmp_path / "home"), "cli:1")
    assert (place.current_folder, place.holder) == (str(tmp_path / "here"), "cli:1")
