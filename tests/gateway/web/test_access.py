"""Nobody gets in without our cookie, from another page, or under another name."""

import asyncio

import aiohttp
import pytest

from gateway.wiring.app import build_gateway
from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.places import Home
from tests.gateway.web.conftest import CHAT, Site

PATHS = {
    "/static/{name}": "/static/app.js",
    "/api/chats/{chat}": f"/api/chats/{CHAT}",
    "/api/chats/{chat}/export": f"/api/chats/{CHAT}/export",
    "/media/{sha256}": f"/media/{'0' * 64}",
}


def _routes(site: Site) -> list[tuple[str, str]]:
    """Return every route of the server, so that a new one cannot be forgotten."""
    routes = site.server._app().router.routes()
    return [(route.method, route.resource.canonical) for route in routes if route.resource is not None]


async def test_every_route_without_a_cookie_is_401(site: Site) -> None:
    routes = _routes(site)
    assert len(routes) >= 10
    for method, path in routes:
        if path in ("/health", "/ready", "/metrics"):
            continue
        async with site.client.request(method, site.url + PATHS.get(path, path)) as response:
            assert response.status == 401, (method, path)
            assert method == "HEAD" or "hermes web" in await response.text()


async def test_a_wrong_cookie_or_token_is_401(site: Site) -> None:
    async with site.client.get(f"{site.url}/?token=nonsense", allow_redirects=False) as response:
        assert response.status == 401
        assert "Set-Cookie" not in response.headers
    for headers in ({"Cookie": f"{site.server.access.cookie_name}=nonsense"}, {"Authorization": "Bearer nonsense"}):
        async with site.client.get(f"{site.url}/api/about", headers=headers) as response:
            assert response.status == 401


async def test_a_local_monitor_needs_no_token_and_sees_only_the_status(site: Site) -> None:
    async with site.client.get(f"{site.url}/health") as response:
        assert (response.status, await response.json()) == (200, {"status": "ok"})
    async with site.client.get(f"{site.url}/ready") as response:
        assert (response.status, await response.json()) == (200, {"ready": True})
    site.gateway.intake.closed = True
    async with site.client.get(f"{site.url}/ready") as response:
        assert (response.status, await response.json()) == (503, {"ready": False})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "hermes.example"}, 401),  # a proxy's name
        ({"X-Forwarded-For": "192.0.2.7"}, 401),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_nobody_else_is_told_the_status(site: Site, headers: dict[str, str], status: int) -> None:
    site.server.access.allowed_hosts = ("hermes.example",)
    for path in ("/health", "/ready", "/metrics"):
        async with site.client.get(site.url + path, headers=headers) as response:
            assert response.status == status


async def test_a_link_works_once_and_becomes_a_cookie_that_scripts_cannot_read(site: Site) -> None:
    link = await site.server.link()
    async with site.client.get(link, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
    async with site.client.get(f"{site.url}/api/about") as response:
        assert response.status == 200
    async with aiohttp.ClientSession() as stranger, stranger.get(link) as response:
        assert response.status == 401
        assert "used already" in await response.text()


async def test_the_database_holds_no_token(site: Site) -> None:
    link = await site.server.link()
    token = link.partition("token=")[2]
    rows = await site.gateway.db.read(lambda tx: [tuple(row) for row in tx.all("SELECT * FROM web_keys")])
    assert rows
    assert token not in str(rows)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"]
)
async def test_a_name_that_is_not_ours_is_refused_even_with_the_cookie(site: Site, host: str) -> None:
    await site.log_in()
    async with site.client.get(f"{site.url}/api/chats", headers={"Host": host}) as response:
        assert response.status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:1", "file://"])
async def test_a_foreign_page_is_refused_even_with_the_cookie(site: Site, origin: str) -> None:
    await site.log_in()
    for method, path in (("GET", "/api/chats"), ("POST", "/api/files"), ("GET", "/ws")):
        async with site.client.request(method, site.url + path, headers={"Origin": origin}) as response:
            assert response.status == 403, (method, path)
    async with site.client.get(f"{site.url}/api/chats", headers={"Sec-Fetch-Site": "cross-site"}) as response:
        assert response.status == 403


async def test_a_socket_needs_cookie_and_origin(site: Site) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await site.client.ws_connect(f"{site.url}/ws")
    assert refused.value.status == 401
    await site.log_in()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await site.client.ws_connect(f"{site.url}/ws", headers={"Origin": "http://evil.example"})
    assert refused.value.status == 403
    async with site.client.ws_connect(f"{site.url}/ws", headers={"Origin": site.url}) as socket:
        assert not socket.closed


async def test_every_answer_forbids_foreign_script_and_framing(site: Site) -> None:
    async with site.client.get(f"{site.url}/") as response:
        refused = response.headers
    await site.log_in()
    async with site.client.get(f"{site.url}/") as response:
        for headers in (refused, response.headers):
            assert "script-src 'self'" in headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer \udcff"},
        {"Cookie": "hermes_{port}=\udcff"},
        {"Origin": "http://[::1"},
        {"Host": "["},
        {"Authorization": ""},
    ],
)
async def test_headers_that_are_not_utf8_are_refused_without_a_server_error(
    site: Site, headers: dict[str, str]
) -> None:
    site.server.access.token = "correct horse battery staple"
    port = site.server.access.port
    lines = [f"{name}: {value.format(port=port)}" for name, value in ({"Host": f"127.0.0.1:{port}"} | headers).items()]
    request = "\r\n".join(["GET /api/about HTTP/1.1", *lines, "Connection: close", "", ""])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode("utf-8", "surrogateescape"))
    status = (await reader.readline()).split()[1]
    writer.close()
    assert status in (b"400", b"401", b"403", b"421")


async def test_a_link_on_another_site_leads_to_the_advice(site: Site) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    async with site.client.get(f"{site.url}/", headers=headers) as response:
        assert response.status == 401
        assert "<code>hermes web</code>" in await response.text()


async def test_a_token_that_can_be_guessed_is_refused(site: Site, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_WEB_TOKEN", "abcd")
    with pytest.raises(ConfigError, match="too short"):
        build_gateway(load(home).settings, home, site.gateway.db)


async def test_the_operators_token_opens_all_of_health_for_scripts(site: Site) -> None:
    site.server.access.token = "correct horse battery staple"
    headers = {"Authorization": "Bearer correct horse battery staple"}
    async with site.client.get(f"{site.url}/health", headers=headers) as response:
        health = await response.json()
        assert (health["status"], health["state"]) == ("ok", "serving")
    async with site.client.get(f"{site.url}/ready", headers=headers) as response:
        assert await response.json() == {"ready": True}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
async def test_listening_beyond_loopback_without_a_token_is_refused(site: Site, host: str, home: Home) -> None:
    settings = load(home, {"platforms.web.host": host}).settings
    with pytest.raises(ConfigError, match="HERMES_WEB_TOKEN"):
        build_gateway(settings, home, site.gateway.db)


@pytest.fixture
def home(site: Site) -> Home:
    return Home(site.gateway.db.path.parent)
