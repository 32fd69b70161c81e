"""Logins to a real MCP server with a real authorization server: got, kept, renewed, refused and lost."""

import asyncio
import gzip
import re
import stat
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from aiohttp import web
from mcp.server.auth.provider import AccessToken

from hermes_cli.editor.servers import EditorServer
from hermes_config.mcp import McpServer
from tests.tools.mcp.locked_server import Desk, locked
from tests.tools.mcp.test_hub import call, rough, until
from tools.errors import ToolFailed
from tools.mcp import transports
from tools.mcp.base import McpProblem
from tools.mcp.hub import McpHub
from tools.mcp.logins import Logins
from tools.mcp.oauth import Fits, TokenAuth, make_client
from tools.mcp.sdk import connect

pytestmark = pytest.mark.timeout(120)

NEEDS_LOGIN = "it needs a login: hermes mcp login vault"


@pytest.fixture
def logins(tmp_path: Path) -> Logins:
    return Logins(tmp_path / "mcp_logins")


def vault(url: str, **more: Any) -> McpServer:
    return McpServer(name="vault", url=url, **more)


class Browser:
    """A person who logs in at the address that they are shown."""

    def __init__(self) -> None:
        self.shown = ""
        self.ended = ""

    async def __call__(self, url: str, fits: Fits) -> str:
        self.shown = url
        async with httpx2.AsyncClient(trust_env=False) as client:
            self.ended = (await client.get(url)).headers["location"]
        assert fits(self.ended)
        assert not fits(self.ended.replace("state=", "state=other"))
        assert not fits("http://127.0.0.1/callback?code=stolen")
        return self.ended


async def log_in(server: McpServer, logins: Logins, **more: Any) -> Browser:
    browser = Browser()
    async with connect(server, lambda: None, auth=TokenAuth(server, logins, ask=browser, **more)) as session:
        assert [tool.name for tool in await session.list_tools()] == ["meet", "whisper"]
    return browser


@asynccontextmanager
async def start(desk: Desk, logins: Logins, *others: McpServer) -> AsyncIterator[McpHub]:
    servers = {"vault": vault(desk.url), **{one.name: one for one in others}}
    async with McpHub(servers, wait_seconds=60, logins=logins).running() as hub:
        await hub.settle()
        yield hub


async def test_a_login_is_proved_kept_for_its_owner_alone_and_used(tmp_path: Path, logins: Logins) -> None:
    async with locked() as desk:
        async with start(desk, logins) as hub:
            assert (hub.state()["vault"]["state"], hub.state()["vault"]["problem"]) == ("needs login", NEEDS_LOGIN)
            assert hub.describe() == [f"vault: not available, {NEEDS_LOGIN}"]
            assert not desk.asked  # nothing is registered before somebody logs in
        browser = await log_in(vault(desk.url), logins)
        asked = {name: value for name, [value] in parse_qs(urlsplit(browser.shown).query).items()}
        assert asked["code_challenge_method"] == "S256"
        assert (len(asked["code_challenge"]), asked["resource"]) == (43, desk.url)
        file = tmp_path / "mcp_logins" / "vault.json"
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
        assert {*desk.access, *desk.refresh} <= set(logins.secrets())
        assert "access-" not in repr(logins.load(vault(desk.url)))
        async with start(desk, logins) as hub:
            assert hub.state()["vault"]["state"] == "ready"
            said = await call(hub, "mcp_vault_whisper", text="my tokens")
            assert said == "my tokens: ['[hidden]', '[hidden]']"
            with pytest.raises(ToolFailed, match=re.escape("fail: ('(hidden)', '(hidden)')")):
                await call(hub, "mcp_vault_whisper", text="fail")
        assert desk.asked == {"register": 1, "code": 1}


@pytest.mark.parametrize("why", ["expired", "forgotten by the server", "forgotten, and nobody told how long it lasts"])
async def test_a_token_that_is_over_is_renewed_by_itself(logins: Logins, why: str) -> None:
    async with locked(is_told="nobody" not in why) as desk:
        await log_in(vault(desk.url), logins)
        before = logins.load(vault(desk.url))
        assert before is not None
        assert (before.expires_at is None) == ("nobody" in why)
        if why == "expired":
            logins.save("vault", replace(before, expires_at=1.0))
        else:
            desk.access.clear()
        async with start(desk, logins) as hub:  # knows only what is in the file
            assert hub.state()["vault"]["state"] == "ready"
            assert (await call(hub, "mcp_vault_whisper", text="again")).startswith("again: ")
        after = logins.load(vault(desk.url))
        assert after is not None
        assert after.tokens["refresh_token"] != before.tokens["refresh_token"]
        assert desk.asked == {"register": 1, "code": 1, "refresh": 1, "refreshed": 1}


async def test_calls_do_not_wait_for_each_other(logins: Logins) -> None:
    async with locked() as desk:
        await log_in(vault(desk.url), logins)
        async with start(desk, logins) as hub:
            for _ in range(2):
                async with asyncio.timeout(30):
                    assert await asyncio.gather(*(call(hub, "mcp_vault_meet") for _ in range(2))) == ["met", "met"]
                desk.access.clear()  # both are told so, and one renewal does for both
        assert desk.asked["refreshed"] == desk.asked["refresh"] == 1


async def test_a_token_that_two_processes_share_is_renewed_once(logins: Logins) -> None:
    async with locked() as desk:
        await log_in(vault(desk.url), logins)
        async with start(desk, logins) as one, start(desk, logins) as other:
            desk.access.clear()
            for hub in (one, other):
                assert (await call(hub, "mcp_vault_whisper", text="x")).startswith("x: ")
            assert desk.asked["refreshed"] == desk.asked["refresh"] == 1  # each refresh token is good for one use
            desk.access.clear()
            await asyncio.gather(*(call(hub, "mcp_vault_whisper", text="x") for hub in (one, other)))  # at once
            assert desk.asked["refreshed"] == desk.asked["refresh"] == 2


@pytest.mark.parametrize("scope", ["", ', error="insufficient_scope"'])
async def test_a_refused_call_is_made_once_whatever_the_tokens_are_good_for(logins: Logins, scope: str) -> None:
    calls: Counter[str] = Counter()

    def forbid(request: web.Request) -> web.Response:
        calls[request["body"]] += 1
        return web.Response(status=403, headers={"WWW-Authenticate": f"Bearer realm=x{scope}"})

    async with locked() as desk, answering(mcp=forbid) as address:
        await log_in(vault(desk.url), logins)
        login = logins.load(vault(desk.url))
        assert login is not None
        logins.save("vault", replace(login, url=f"{address}/mcp"))
        async with McpHub({"vault": vault(f"{address}/mcp")}, logins=logins).running() as hub:
            await hub.settle()
            assert (hub.state()["vault"]["state"] == "needs login") == bool(scope)
        assert max(calls.values()) == (2 if scope else 1)  # the SDK looks at the refusal of its own request alone


async def test_a_revoked_login_is_named_harms_nobody_else_and_is_replaced_without_a_restart(logins: Logins) -> None:
    async with locked() as desk:
        await log_in(vault(desk.url), logins)
        async with start(desk, logins, rough("r")) as hub:
            desk.revoke_all()
            with pytest.raises(ToolFailed) as refused:
                await call(hub, "mcp_vault_whisper", text="x")
            assert str(refused.value) == (
                f"whisper was not done: the MCP server vault refused it, {NEEDS_LOGIN}. Tell the user."
            )
            await until(lambda: hub.state()["vault"]["state"] == "needs login")
            with pytest.raises(ToolFailed, match="The MCP server vault is not available: it needs a login"):
                await call(hub, "mcp_vault_whisper", text="x")
            assert await call(hub, "mcp_r_echo", text="x") == "echo: x"
            assert desk.asked["register"] == 1
            await log_in(vault(desk.url), logins)
            await until(lambda: hub.state()["vault"]["state"] == "ready")
            logins.delete("vault")
            with pytest.raises(ToolFailed, match="it needs a login"):
                await call(hub, "mcp_vault_whisper", text="x")


async def test_tokens_go_to_their_address_alone_and_never_replace_a_header_of_the_settings(logins: Logins) -> None:
    async with locked() as desk, locked() as other:
        await log_in(vault(desk.url), logins)
        assert logins.load(vault(desk.url)) is not None
        assert logins.load(vault(desk.url, headers={"authorization": "Bearer x"})) is None
        async with start(other, logins) as hub:
            assert hub.state()["vault"]["problem"] == NEEDS_LOGIN
        assert not other.asked


async def test_nobody_is_sent_to_a_login_that_would_not_be_used(logins: Logins) -> None:
    problem = "it answers with status 401: it wants another Authorization in its headers"
    async with locked() as desk:
        ours = vault(desk.url, headers={"authorization": "Bearer old"})
        of_editor = EditorServer(name="theirs", url=desk.url)
        async with McpHub({"vault": ours, "theirs": of_editor}, logins=logins).running() as hub:
            await hub.settle()
            states = [(one["state"], one["problem"]) for one in hub.state().values()]
            assert states == [("failed", problem), ("failed", problem)]
        desk.access["good-for-now"] = AccessToken(token="good-for-now", client_id="x", scopes=[], resource=desk.url)
        async with start(desk, logins, vault(desk.url, headers={"authorization": "Bearer good-for-now"})) as hub:
            assert await call(hub, "mcp_vault_whisper", text="x")
            desk.revoke_all()
            with pytest.raises(ToolFailed, match=f"whisper was not done: the MCP server vault refused it, {problem}"):
                await call(hub, "mcp_vault_whisper", text="x")


async def test_a_damaged_file_is_no_login(tmp_path: Path, logins: Logins) -> None:
    async with locked() as desk:
        await log_in(vault(desk.url), logins)
        for text in (
            "{",
            "[]",
            '{"strange": 1}',
            '{"url": "", "tokens": {}, "client": {}}',
            '{"url": "", "tokens": 1, "client": 1}',
        ):
            (tmp_path / "mcp_logins" / "vault.json").write_text(text)
            assert logins.load(vault(desk.url)) is None
            assert list(logins.secrets()) == []


def test_nothing_but_a_login_is_deleted(tmp_path: Path, logins: Logins) -> None:
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "mcp_logins").mkdir()
    assert not any(map(logins.delete, ("../other", str(tmp_path / "other"), "", "never")))
    assert (tmp_path / "other.json").exists()


async def test_hermes_can_be_registered_by_hand(logins: Logins) -> None:
    uri = "http://127.0.0.1:7/callback"
    async with locked(registers=False) as desk:
        with pytest.raises(McpProblem, match="hermes mcp login vault --client-id ID --port PORT"):
            await log_in(vault(desk.url), logins)
        for client_id, secret in (("with-secret", "s3cret-of-hermes"), ("public", "")):
            desk.clients[client_id] = make_client(client_id, secret, uri)
            browser = await log_in(
                vault(desk.url), logins, redirect_uri=uri, client=make_client(client_id, secret, uri)
            )
            assert f"client_id={client_id}" in browser.shown
            assert browser.ended.startswith(uri)
        assert desk.asked == {"code": 2}
        desk.quotes = True
        with pytest.raises(McpProblem, match=r"the login did not work: .*\(hidden\) is wrong"):
            await log_in(
                vault(desk.url), logins, redirect_uri=uri, client=make_client("with-secret", "s3cret-of-hermes", uri)
            )


async def test_a_person_who_says_no_is_believed(logins: Logins) -> None:
    async with locked(says_no=True) as desk:
        with pytest.raises(McpProblem, match="the login was refused: access_denied: Ann said no"):
            await log_in(vault(desk.url), logins)
        assert logins.names() == []


@asynccontextmanager
async def answering(**answers: Callable[[web.Request], web.StreamResponse]) -> AsyncIterator[str]:
    """Yield the address of a hostile server, with an answer for each path."""
    app = web.Application()
    for path, answer in answers.items():

        async def handle(
            request: web.Request, answer: Callable[[web.Request], web.StreamResponse] = answer
        ) -> web.StreamResponse:
            request["body"] = await request.text()
            return answer(request)

        app.router.add_route("*", f"/{path}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def refuse(leads_to: str) -> web.Response:
    return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{leads_to}"'})


async def test_a_login_over_an_unencrypted_address_is_not_begun(logins: Logins) -> None:
    async with answering(mcp=lambda request: refuse("http://elsewhere.example/meta")) as address:
        with pytest.raises(McpProblem, match=r"its login leads to http://elsewhere.example/meta, which is not enc"):
            await log_in(vault(f"{address}/mcp"), logins)
    auth = TokenAuth(vault("https://127.0.0.1:9/mcp"), logins, ask=Browser())
    with pytest.raises(McpProblem, match=r"its login leads to http://elsewhere.example/page"):
        await auth._show("http://elsewhere.example/page?state=x")  # where somebody would type a password


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("huge", ["meta", "mcp"])
async def test_no_answer_on_the_way_to_a_login_fills_our_memory(
    logins: Logins, huge: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "MAX_MESSAGE_BYTES", 10_000)

    def answer(request: web.Request) -> web.Response:
        told = refuse(f"http://{request.host}/meta") if request.path == "/mcp" else web.Response()
        if request.path == f"/{huge}":
            told.content_type = "text/event-stream"  # of which one without end would be nothing special
            told.body = b"data: x\n\n" * 2_000
            if packed:
                told.content_type, told.body = "application/json", gzip.compress(told.body)
                told.headers["Content-Encoding"] = "gzip"
        return told

    async with answering(mcp=answer, meta=answer) as address:
        with pytest.raises(McpProblem, match="its answer is larger than 10,000 bytes"):
            await log_in(vault(f"{address}/mcp"), logins)
