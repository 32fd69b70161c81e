"""The page is for whoever has the link, on this machine, from the page itself."""

import aiohttp
import pytest

from tests.playground.page.scene import Scene


async def test_without_the_link_nothing_is_shown(on: Scene) -> None:
    async with aiohttp.ClientSession() as stranger:
        for path in ("", "static/app.js", "api/about", "live", "media/telegram/x"):
            async with stranger.get(on.address + path) as answer:
                assert answer.status == 401, path


async def test_a_wrong_token_opens_nothing(on: Scene) -> None:
    async with aiohttp.ClientSession() as stranger, stranger.get(on.address, params={"token": "guess"}) as answer:
        assert answer.status == 401
        assert not answer.cookies


async def test_the_link_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(on: Scene) -> None:
    async with (
        aiohttp.ClientSession() as stranger,
        stranger.get(on.on.link, allow_redirects=False) as answer,
    ):
        assert answer.status == 303
        assert answer.headers["Location"] == "/"
        cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


async def test_a_foreign_name_for_this_machine_is_refused(on: Scene) -> None:
    async with on.session.get(on.address, headers={"Host": "evil.example"}) as answer:
        assert answer.status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
async def test_another_sites_requests_are_refused(on: Scene, origin: str) -> None:
    async with on.session.post(f"{on.address}api/gateway/kill", json={}, headers={"Origin": origin}) as answer:
        assert answer.status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await on.session.ws_connect(f"{on.address}live", origin=origin)
    assert on.on.gateway.is_alive


async def test_what_changes_something_must_name_its_origin(on: Scene) -> None:
    async with on.session.post(f"{on.address}api/gateway/kill", json={}) as answer:
        assert answer.status == 403
    assert on.on.gateway.is_alive


async def test_no_script_or_style_but_our_own_files_may_run(on: Scene) -> None:
    async with on.session.get(on.address) as answer:
        policy, page = answer.headers["Content-Security-Policy"], await answer.text()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in page
    assert " style=" not in page


@pytest.mark.parametrize("name", ["..%2Fserver.py", "server.py", "nothing.js", "%2Fetc%2Fpasswd"])
async def test_only_files_of_the_page_are_served(on: Scene, name: str) -> None:
    async with on.session.get(f"{on.address}static/{name}") as answer:
        assert answer.status == 404
