"""Who can reach us, and how what we send travels."""

import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.doctor import exposure
from tests.gateway.doctor.scene import facts_of, run_check, summary_of


def test_the_defaults_are_closed(root: Path) -> None:
    facts = facts_of(root, store=summary_of())
    checks = (exposure.check_allow_all, exposure.check_groups, exposure.check_strangers, exposure.check_web_page)
    assert [level for check in checks for level, _ in run_check(check, facts)] == ["ok"] * 4
    assert (
        run_check(exposure.check_socket, facts)
        + run_check(exposure.check_encryption, facts)
        + run_check(exposure.check_proxies, facts)
        == []
    )


def test_letting_everybody_in_is_bad(root: Path) -> None:
    [finding] = exposure.check_allow_all(facts_of(root, {"access": {"allow_all_users": True}}))
    assert (finding.level, finding.fix) == ("bad", "hermes config set access.allow_all_users false")


def test_where_everybody_is_let_in_nobody_is_said_to_be_kept_out(root: Path) -> None:
    assert run_check(exposure.check_strangers, facts_of(root, {"access": {"allow_all_users": True}})) == []


def test_open_groups_are_named_whoever_opened_them(root: Path) -> None:
    facts = facts_of(root, {"access": {"allowed_chats": "telegram:-1"}}, store=summary_of(open_chats=("slack:C1",)))
    listed, opened = run_check(exposure.check_groups, facts)
    assert (listed[0], "telegram:-1" in listed[1]) == ("warn", True)
    assert (opened[0], "slack:C1" in opened[1]) == ("warn", True)


def test_senders_without_a_limit(root: Path) -> None:
    facts = facts_of(root, {"access": {"messages_per_minute": 0, "unauthorized_dm_behavior": "ignore"}})
    assert [level for level, _ in run_check(exposure.check_strangers, facts)] == ["ok", "warn"]


@pytest.mark.parametrize(
    ("web", "token", "level"),
    [
        ({"host": "0.0.0.0"}, None, "bad"),
        ({"host": "0.0.0.0"}, "short", "bad"),
        ({"host": "0.0.0.0"}, "t" * 20, "warn"),
        ({"host": "::1"}, None, "ok"),
        ({"allowed_hosts": "hermes.example.org"}, "t" * 20, "ok"),
        ({"enabled": False, "host": "0.0.0.0"}, None, None),
    ],
)
def test_the_web_page(root: Path, web: dict[str, Any], token: str | None, level: str | None) -> None:
    facts = facts_of(root, {"platforms": {"web": web}, "secrets": {"hermes_web_token": token}})
    found = run_check(exposure.check_web_page, facts)
    assert [one for one, _ in found] == ([level] if level else [])
    assert not any("short" in text and "too short" not in text for _, text in found)


@pytest.mark.parametrize(("mode", "level"), [(0o600, "ok"), (0o666, "bad")])
def test_the_socket(root: Path, monkeypatch: pytest.MonkeyPatch, mode: int, level: str) -> None:
    monkeypatch.chdir(root)  # a long path is no name for a socket
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("hermes.sock")
        (root / "hermes.sock").chmod(mode)
        assert [found for found, _ in run_check(exposure.check_socket, facts_of(root))] == [level]


@pytest.mark.parametrize(
    ("address", "level"),
    [
        ("http://example.org/v1", "bad"),
        ("http://8.8.8.8/v1", "bad"),
        ("http://192.168.1.5:8000/v1", "warn"),
        ("http://models.lan/v1", "warn"),
        ("http://127.0.0.1:8000/v1", None),
        ("https://example.org/v1", None),
    ],
)
@pytest.mark.parametrize("of", ["model", "telegram"])
def test_what_goes_in_the_clear(root: Path, address: str, level: str | None, of: str) -> None:
    chosen: dict[str, Any] = {"model": {"name": "gpt-5", "base_url": address}, "secrets": {"openai_api_key": "k" * 20}}
    if of == "telegram":
        chosen = {"platforms": {"telegram": {"api_url": address}}}
    assert [found for found, _ in run_check(exposure.check_encryption, facts_of(root, chosen))] == (
        [level] if level else []
    )


def test_a_proxy_is_named_and_its_address_is_not(root: Path) -> None:
    [finding] = exposure.check_proxies(facts_of(root, variables=frozenset({"https_proxy", "HOME"})))
    assert (finding.level, finding.fix) == ("warn", "unset https_proxy")
