"""Who works where: the owner alone on this machine, everybody else apart in a sandbox."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway import workplaces as module
from gateway.store.inbox import Accepted
from gateway.store.turns import Turn
from gateway.workplaces import Workplaces, workplace_here
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.gateway.scene import inbound
from tools.backends.sandbox import SandboxProblem


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


@pytest.fixture
def places(tmp_path: Path) -> Workplaces:
    (tmp_path / "work").mkdir()
    return Workplaces(home=Home(tmp_path / "home"), terminal=TerminalSettings(cwd=str(tmp_path / "work")))


async def test_the_owner_alone_works_on_this_machine(tmp_path: Path, places: Workplaces) -> None:
    place = await places.of(OWNER)
    assert place is not None
    assert (place.backend.name, place.current_folder) == ("local", str(tmp_path / "work"))


@pytest.mark.parametrize(
    "turn", [OWNER_IN_GROUP, ADA, BOB, TOGETHER], ids=["owner in a group", "member", "guest", "several"]
)
async def test_everybody_else_works_in_a_sandbox(places: Workplaces, turn: Turn) -> None:
    place = await places.of(turn)
    assert place is not None
    assert place.backend.is_isolated
    assert Path(place.workspace) == places.workspace(turn)
    assert Path(place.workspace).parent == places.home.workspaces


async def test_nobody_has_anybody_elses_folder_or_name(places: Workplaces) -> None:
    turns = (OWNER, OWNER_IN_GROUP, ADA, BOB, TOGETHER)
    found = [place for turn in turns if (place := await places.of(turn)) is not None]
    for what in ("workspace", "holder", "backend"):
        assert len({getattr(place, what) for place in found}) == len(turns), what


async def test_a_conversation_finds_its_folder_where_it_left_it(places: Workplaces) -> None:
    place = await places.of(ADA)
    assert place is not None
    place.current_folder = "/tmp"
    again = await places.of(replace(ADA, id="t2"))
    assert again is place


async def test_in_the_sandbox_of_an_owner_our_home_is_not_the_workspace(tmp_path: Path) -> None:
    home = Home(tmp_path / ".hermes")
    places = Workplaces(home=home, terminal=TerminalSettings(cwd=str(tmp_path), backend="bubblewrap"))
    place = await places.of(OWNER)
    assert place is not None
    assert place.workspace == str(home.workspaces / "owner")


async def test_where_there_can_be_no_sandbox_only_the_owner_has_a_workplace(
    places: Workplaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise SandboxProblem("no user namespaces")

    monkeypatch.setattr(module, "find_features", none)
    assert await places.of(ADA) is None
    assert await places.of(OWNER) is not None


async def test_only_so_many_are_remembered(places: Workplaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT", 2)
    first = await places.of(OWNER)
    for key in ("a", "b"):
        await places.of(replace(OWNER, session_key=key))
    assert await places.of(OWNER) is not first


def test_at_the_terminal_it_works_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = workplace_here(TerminalSettings(cwd="~"), Home(tmp_path / "home"), "cli:1")
    assert (place.current_folder, place.holder) == (str(tmp_path), "cli:1")
