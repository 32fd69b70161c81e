"""Hooks are found and checked without running them; a broken one is told with file and line."""

import os
from pathlib import Path

import pytest

from hooks.events import EVENTS, cut, is_event, make_example, matches
from hooks.loader import BUILTIN, find_hooks, load_hook
from tests.hooks.making import write_hook

HANDLER = "def handle(event_type, context): ..."


@pytest.mark.parametrize(
    ("yaml", "handler", "problem"),
    [
        ("events: [agent:end\nname: x", HANDLER, "HOOK.yaml line 2: "),
        ("events: [agent:end]\n\t- x", HANDLER, "HOOK.yaml line 2: "),
        ("- a\n- b", HANDLER, "HOOK.yaml line 1: "),
        ("", HANDLER, "HOOK.yaml: `events` must list at least one event"),
        ("description: x\nevents: []", HANDLER, "HOOK.yaml line 2: `events` must list"),
        ("events: [agent:ende]", HANDLER, "HOOK.yaml line 1: there is no event 'agent:ende'; did you mean agent:end?"),
        ("events: [agent:end]\ntimeout: soon", HANDLER, "HOOK.yaml line 2: `timeout` must be a number of seconds"),
        ("events: [agent:end]\ntimeout: 0", HANDLER, "HOOK.yaml line 2: `timeout` must be"),
        (
            "events: [agent:end]\n\ntimeouts: 3",
            HANDLER,
            "HOOK.yaml line 3: unknown key 'timeouts'; did you mean 'timeout'?",
        ),
        ("name: other\nevents: [agent:end]", HANDLER, "HOOK.yaml line 1: must be the name of the folder, 'broken'"),
        ('events: [agent:end]\ncommand: "sh \'x"', "", "HOOK.yaml line 2: `command` must be a command line"),
        ("events: [agent:end]", "", "there is neither handler.py nor a `command:`"),
        ("events: [agent:end]", "x = 1", "handler.py: there is no function `handle(event_type, context)`"),
        ("events: [agent:end]", "a = 1\ndef handle(:\n", "handler.py line 2: invalid syntax"),
        (None, HANDLER, "there is no HOOK.yaml"),
        (b"events: [\xff]", HANDLER, "HOOK.yaml: is not text in UTF-8"),
    ],
)
def test_a_broken_hook_says_where_and_what(
    tmp_path: Path, yaml: str | bytes | None, handler: str, problem: str
) -> None:
    folder = tmp_path / "hooks" / "broken"
    folder.mkdir(parents=True)
    if yaml is not None:
        (folder / "HOOK.yaml").write_bytes(yaml if isinstance(yaml, bytes) else yaml.encode())
    if handler:
        (folder / "handler.py").write_text(handler)
    write_hook(tmp_path / "hooks" / "sound", HANDLER)
    hook = load_hook(folder)
    assert problem in hook.problem
    assert str(folder) in hook.problem
    assert not hook.is_usable
    assert [one.name for one in find_hooks(tmp_path, ("audit_log",), only_usable=True)] == ["sound"]


def test_a_sound_hook_is_read_whole(tmp_path: Path) -> None:
    hook = write_hook(tmp_path / "tell", command="sh -c 'cat > x'", events="command:*", timeout=2.5)
    assert (hook.name, hook.events, hook.timeout_seconds, hook.command) == (
        "tell",
        ("command:*",),
        2.5,
        ("sh", "-c", "cat > x"),
    )


def test_what_is_switched_off_is_listed_and_not_used(tmp_path: Path) -> None:
    write_hook(tmp_path / "hooks" / "tell", HANDLER)
    listed = {hook.name: hook.enabled for hook in find_hooks(tmp_path, ("tell",))}
    assert listed == {"tell": False, "audit_log": True, "boot": True}
    assert [hook.name for hook in find_hooks(tmp_path, ("tell",), only_usable=True)] == ["audit_log"]
    (tmp_path / "BOOT.md").write_text("hello")
    assert [hook.name for hook in find_hooks(tmp_path, ("tell",), only_usable=True)] == ["audit_log", "boot"]


def test_a_hook_of_the_user_with_a_bundled_name_comes_first(tmp_path: Path) -> None:
    own = write_hook(tmp_path / "hooks" / "boot", HANDLER)
    found = find_hooks(tmp_path, ())
    assert found[0] == own
    assert [hook.problem for hook in found if hook.name == "boot (second)"] == [
        f"{BUILTIN / 'boot'}: {own.folder} has the same name; rename one of them"
    ]


def test_without_hooks_nothing_is_read(tmp_path: Path) -> None:
    assert find_hooks(tmp_path, ("audit_log",), only_usable=True) == []


@pytest.mark.parametrize("name", ["", "HOOK.yaml", "handler.py"])
def test_what_everyone_can_change_is_refused(tmp_path: Path, name: str) -> None:
    hook = write_hook(tmp_path / "tell", HANDLER)
    path = hook.folder / name
    path.chmod(path.stat().st_mode | 0o002)
    assert load_hook(hook.folder).problem == f"everybody can write to {path}. Close it: chmod o-w {path}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "HOOK.yaml", "handler.py"])
def test_what_belongs_to_another_user_is_refused(tmp_path: Path, name: str) -> None:
    hook = write_hook(tmp_path / "tell", HANDLER)
    os.chown(hook.folder / name, 12345, -1)
    assert "belongs to another user" in load_hook(hook.folder).problem


@pytest.mark.parametrize(
    ("pattern", "known"), [("agent:end", True), ("agent:*", True), ("*", True), ("command:new", True), ("agent", False)]
)
def test_patterns_of_events(pattern: str, known: bool) -> None:
    assert is_event(pattern) is known
    if known:
        event, context = make_example(pattern)
        assert matches(pattern, event)
        assert context


def test_every_event_has_an_example_and_is_documented() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
    for event, (_, fields) in EVENTS.items():
        assert f"| `{event}` |" in docs
        assert set(make_example(event)[1]) == set(fields)
        assert all(f"`{name}`" in docs for name in fields)


def test_texts_are_cut() -> None:
    assert cut("a" * 500) == "a" * 500
    assert cut("a" * 501) == "a" * 499 + "…"
