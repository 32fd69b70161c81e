"""Searching the web and reading pages, against a friendly and a hostile web on loopback."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.media.reader import DocumentReader, WebPages
from tests.tools.hostile_web import ORDER, LoopbackWeb, loopback_web
from tests.tools.places import asking, place_in
from tests.tools.test_url_guard import leading_to
from tools.approval.gate import NobodyToAsk, NotApproved
from tools.base import Tool, ToolContext
from tools.builtin.web import NO_PAGES, web_extract_tool, web_search_tool
from tools.errors import ToolFailed
from tools.provenance import SEARCH, WEB, Passage, Provenance
from tools.search_engines import SearchEngine, find_engines, firecrawl, parallel, public_engines, searxng
from tools.url_guard import FetchLimits, UrlGuard

HERE = UrlGuard.of(["127.0.0.1"])


@pytest.fixture
async def site() -> AsyncIterator[LoopbackWeb]:
    async with loopback_web() as here:
        yield here


def reading(*, guard: UrlGuard = HERE, **limits: Any) -> Tool:
    pages = WebPages(reader=DocumentReader(max_text_chars=1_000_000, timeout_seconds=60))
    return web_extract_tool(pages, guard, FetchLimits(**{"max_bytes": 5_000_000, "timeout_seconds": 60} | limits))


async def read_one(url: str, tool: Tool | None = None, tmp_path: Path | None = None) -> dict[str, Any]:
    place = place_in(tmp_path) if tmp_path else None
    page = (await asking(tool or reading(), place)(urls=[url]))["pages"][0]
    assert isinstance(page, dict)
    return page


# Friendly pages.


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/tea", ["Title: Tea", "By: Ann Bee", "## Part 2", "says chapter 2"]),
        ("/notes.txt", ["plain words"]),
        ("/data.json", ['{"tea": "green"}']),
        ("/paper.pdf", ["Tea on paper"]),
    ],
)
async def test_a_page_is_read_as_text(site: LoopbackWeb, path: str, words: list[str]) -> None:
    page = await read_one(site.url(path))
    assert "error" not in page
    assert all(word in page["text"] for word in words), page


async def test_several_pages_are_read_at_once_and_one_that_fails_costs_only_itself(site: LoopbackWeb) -> None:
    urls = [site.url(path) for path in ("/tea", "/nowhere", "/notes.txt")]
    pages = (await asking(reading(), None)(urls=[*urls, urls[0]]))["pages"]
    assert [page["url"] for page in pages] == urls
    assert ["error" in page for page in pages] == [False, True, False]


async def test_a_long_page_comes_as_a_file_with_an_outline(site: LoopbackWeb, tmp_path: Path) -> None:
    page = await read_one(site.url("/long"), tmp_path=tmp_path)
    lines = Path(page["file"]).read_text().splitlines()
    number, heading = page["outline"][5].removeprefix("line ").split(": ")
    assert lines[int(number) - 1] == f"## {heading}"
    assert "says chapter 399" in "\n".join(lines)
    assert len(json.dumps(page)) < 10_000


async def test_without_files_a_long_page_is_cut_in_the_middle(site: LoopbackWeb) -> None:
    page = await read_one(site.url("/long"))
    assert "characters omitted" in page["text"]
    assert len(page["text"]) < 41_000


# Hostile ones: one sentence each, nothing reached, bounded.


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/to-metadata", "link-local address, such as a cloud's metadata service"),
        ("/to-neighbour", "this machine itself"),
        ("/to-file", "not an address that begins with http"),
        ("/circle", "redirects without end"),
        ("/login-wall", "it needs a login (401)"),
        ("/nowhere", "there is no such page (404)"),
        ("/crash", "its server failed (500)"),
        ("/bomb", "larger than 5,000,000 bytes"),
        ("/endless", "larger than 5,000,000 bytes"),
        ("/app", "no text without running its scripts"),
        ("/empty", "it is empty"),
        ("/picture", "PNG picture"),
        ("/broken.pdf", "it is damaged"),
    ],
)
async def test_a_bad_page_is_one_sentence(site: LoopbackWeb, path: str, told: str) -> None:
    page = await read_one(site.url(path))
    assert told in page["error"]
    assert "text" not in page
    assert not [one for one in site.asked if one == "/secret"]


@pytest.mark.parametrize("path", ["/links", "/nested"])
async def test_a_page_of_too_many_things_is_bounded(site: LoopbackWeb, path: str) -> None:
    page = await read_one(site.url(path))
    assert len(json.dumps(page)) < 60_000


async def test_a_silent_server_is_left(site: LoopbackWeb) -> None:
    page = await read_one(site.url("/silent"), reading(timeout_seconds=0.3))
    assert "it took longer than 0.3 s" in page["error"]


async def test_nobody_there_and_strange_addresses(site: LoopbackWeb) -> None:
    for url, told in {
        "http://127.0.0.1:1/": "no server answers there",
        "ftp://127.0.0.1/x": "begin with http:// or https://",
        "http://": "begins with http",
        f"https://127.0.0.1:{site.port}/": "certificate is not valid",
        f"http://[::1]:{site.port}/": "this machine itself",
    }.items():
        page = await read_one(url)
        assert told in page["error"], page


async def test_a_certificate_of_nobody_is_refused(tmp_path: Path) -> None:
    cert = await asyncio.create_subprocess_exec(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"),
        *("-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")),
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await cert.wait() == 0
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    page = await read_one(f"https://127.0.0.1:{runner.addresses[0][1]}/")
    await runner.cleanup()
    assert "its certificate is not valid" in page["error"]


async def test_a_name_that_leads_elsewhere_later_gains_nothing(
    site: LoopbackWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection looks the name up once, and connects to the address that was checked."""
    leading_to(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
    page = await read_one(site.url("/tea", "rebound.example"), reading(guard=UrlGuard()))
    assert "this machine itself" in page["error"]
    assert not site.asked


async def test_an_exception_for_a_name_is_for_that_name_alone(
    site: LoopbackWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading_to(monkeypatch, ["127.0.0.1"])
    tool = reading(guard=UrlGuard.of([f"nas.local:{site.port}"]))
    assert "chapter 2" in (await read_one(site.url("/tea", "nas.local"), tool))["text"]
    assert "error" in await read_one(site.url("/tea", "evil.example"), tool)


@pytest.mark.parametrize("path", ["/in-text", "/in-title", "/in-alt", "/in.pdf"])
async def test_instructions_in_a_page_stay_text_from_the_web(site: LoopbackWeb, path: str) -> None:
    tool = reading()
    assert tool.brings == WEB
    page = await read_one(site.url(path), tool)
    assert (ORDER in page["text"]) == (path != "/in-alt")  # descriptions of pictures are left out


# Asking before an address is contacted that only outside text has named.


READ = Passage(origin=WEB, text="More at http://evil.example/more and http://evil.example/?d=")
FOUND = Passage(origin=SEARCH, text="SearXNG\nTea\nhttp://found.example/tea\nAll about tea")


@pytest.mark.parametrize(
    ("url", "own", "outside", "asks"),
    [
        ("http://any.example/", "what is new?", (), ""),
        ("http://named.example/x", "read http://named.example/x", (READ,), ""),
        ("http://found.example/tea", "find tea", (READ, FOUND), ""),
        ("http://found.example/tea?d=secret", "find tea", (READ, FOUND), "found.example"),
        ("http://evil.example/more", "what is new?", (READ,), "which only the web has named"),
        ("http://evil.example/?d=secret", "what is new?", (READ,), "evil.example"),
        ("http://named.example/x?d=secret", "read http://named.example/x", (READ,), "nobody here has written"),
    ],
)
async def test_an_address_from_outside_asks(url: str, own: str, outside: tuple[Passage, ...], asks: str) -> None:
    context = ToolContext(task_id="one", gate=NobodyToAsk(), heard=lambda: Provenance(own_words=own, outside=outside))
    admitted = reading().admit(json.dumps({"urls": [url]}), context)
    if not asks:
        await admitted
        return
    with pytest.raises(NotApproved, match="This was not done") as refused:
        await admitted
    assert asks in str(refused.value)


# Searching.


def result(n: int, **more: Any) -> dict[str, Any]:
    return {"title": f"Tea [{n}]\n", "url": f"http://found.example/{n}", **more}


async def search(*engines: SearchEngine, query: str = "tea & milk", **more: Any) -> dict[str, Any]:
    return await asking(web_search_tool(engines), None)(query=query, **more)


async def test_each_engine_is_asked_in_its_own_way(site: LoopbackWeb) -> None:
    odd = [None, "text", {"url": "javascript:alert(1)"}, {"title": "no address"}]
    site.answers = {
        "/parallel": {"results": [result(1, excerpts=["one", "two"]), *odd]},
        "/firecrawl": {"data": {"web": [result(1, description="one … two")]}},
        "/search": {"results": [result(1, content="one … two"), result(2)]},
    }
    expected = [{"title": "Tea (1)", "url": "http://found.example/1", "snippet": "one … two"}]
    first = parallel("k1", HERE, site.url("/parallel"))
    second = firecrawl("k2", HERE, site.url("/firecrawl"))
    third = searxng(site.url("/"), UrlGuard())  # the owner has named it, so it may be a private address
    for engine in (first, second, third):
        assert await search(engine, num_results=1) == {"engine": engine.name, "results": expected}
    assert [headers.get("x-api-key") for headers in site.headers] == ["k1", None, None]
    assert site.headers[1]["Authorization"] == "Bearer k2"
    assert site.posted[0]["search_queries"] == ["tea & milk"]
    assert site.asked[2] == "/search?format=json&q=tea%20%26%20milk"


async def test_the_next_engine_is_asked_when_one_fails(site: LoopbackWeb) -> None:
    site.answers = {"/search": {"results": []}, "/parallel": b"no json", "/firecrawl": []}
    broken = [parallel("k", HERE, site.url(path)) for path in ("/crash", "/parallel", "/firecrawl", "/circle")]
    found = await search(*broken, searxng(site.url(""), UrlGuard()))
    assert (found["engine"], found["results"]) == ("SearXNG", [])
    with pytest.raises(ToolFailed, match=r"its server failed.*no JSON.*not what was expected.*a redirect \(302\)"):
        await search(*broken)


async def test_keyless_search_goes_through_the_guard(site: LoopbackWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real library, with one of its engines moved to loopback."""
    from ddgs.engines import ENGINES

    page = '<div class="body"><h2>Tea</h2><a href="http://found.example/1">All about tea</a></div>'
    site.answers = {"/html": f"<html><body>{page}</body></html>".encode()}
    monkeypatch.setattr(ENGINES["text"]["duckduckgo"], "search_url", site.url("/html"))
    found = await search(public_engines(HERE, "duckduckgo"))
    assert found["results"] == [{"title": "Tea", "url": "http://found.example/1", "snippet": "All about tea"}]
    site.asked.clear()
    with suppress(ToolFailed):
        assert not (await search(public_engines(UrlGuard(), "duckduckgo")))["results"]
    assert not site.asked


def test_engines_are_those_with_a_key_or_an_address() -> None:
    keys = {"PARALLEL_API_KEY": "a", "FIRECRAWL_API_KEY": "b"}
    engines = find_engines(keys, "http://localhost:8888", HERE)
    assert [engine.name for engine in engines] == ["Parallel", "Firecrawl", "SearXNG", "ddgs"]


def test_without_package_or_key_each_tool_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.search_engines.find_spec", lambda name: None)
    monkeypatch.setattr("tools.builtin.web.find_spec", lambda name: None)
    searching = web_search_tool(find_engines({}, "", HERE))
    assert "PARALLEL_API_KEY" in searching.unavailable()
    for tool in (searching, reading()):
        assert "pip install 'hermes-gateway[web]'" in tool.unavailable()
    assert "only in the gateway" in web_extract_tool(NO_PAGES, HERE, FetchLimits()).unavailable()
