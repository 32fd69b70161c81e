"""Search engines: Parallel and Firecrawl with a key, a SearXNG server by its address, or ddgs without anything."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from tools.backends.proxy import Proxy
from tools.content import one_line
from tools.errors import ToolFailed
from tools.url_guard import ApiRequest, FetchLimits, UrlGuard, fetch

_MAX_SNIPPET_CHARS = 500
_MAX_TITLE_CHARS = 200
_MAX_URL_CHARS = 2_000
_LIMITS = FetchLimits(max_bytes=2_000_000, timeout_seconds=30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEngine:
    name: str
    search: Callable[[str, int], Awaitable[list[SearchResult]]]
    """Takes a query and how many results are wanted; returns the best. Raises ToolFailed."""


def parallel(key: str, guard: UrlGuard, url: str = "https://api.parallel.ai/v1beta/search") -> SearchEngine:
    async def search(query: str, limit: int) -> list[SearchResult]:
        wanted = {"objective": query, "search_queries": [query[:200]], "max_results": limit}
        headers = {"x-api-key": key, "parallel-beta": "search-extract-2025-10-10"}
        found = await _ask(url, guard, ApiRequest(headers=headers, json=wanted))
        return _read_results(found.get("results"), "excerpts", limit)

    return SearchEngine(name="Parallel", search=search)


def firecrawl(key: str, guard: UrlGuard, url: str = "https://api.firecrawl.dev/v2/search") -> SearchEngine:
    async def search(query: str, limit: int) -> list[SearchResult]:
        headers = {"Authorization": f"Bearer {key}"}
        found = await _ask(url, guard, ApiRequest(headers=headers, json={"query": query, "limit": limit}))
        data = found.get("data")
        return _read_results(data.get("web") if isinstance(data, dict) else data, "description", limit)

    return SearchEngine(name="Firecrawl", search=search)


def searxng(url: str, guard: UrlGuard) -> SearchEngine:
    async def search(query: str, limit: int) -> list[SearchResult]:
        address = f"{url.rstrip('/')}/search?format=json&q={quote(query)}"
        found = await _ask(address, guard.allowing(url), ApiRequest())
        return _read_results(found.get("results"), "content", limit)

    return SearchEngine(name="SearXNG", search=search)


def public_engines(guard: UrlGuard, backend: str = "auto") -> SearchEngine:
    """Return the search by ddgs, a library that connects by itself, so it is sent through our filtering proxy."""

    def ask(proxy: str, query: str, limit: int) -> list[dict[str, Any]]:
        from ddgs import DDGS  # slow to load
        from ddgs.exceptions import DDGSException

        try:
            return DDGS(proxy=proxy, timeout=20).text(query, max_results=limit, backend=backend)
        except DDGSException as error:
            if "No results" in str(error):
                return []
            raise ToolFailed(f"the public search engines did not answer ({type(error).__name__})") from error

    async def search(query: str, limit: int) -> list[SearchResult]:
        proxy = Proxy(guard)
        port = await proxy.open_port()
        try:
            found = await asyncio.to_thread(ask, f"http://127.0.0.1:{port}", query, limit)
        finally:
            proxy.close()
        return _read_results(found, "body", limit)

    return SearchEngine(name="ddgs", search=search)


def find_engines(keys: Mapping[str, str], searxng_url: str, guard: UrlGuard) -> tuple[SearchEngine, ...]:
    """Return the engines that can be used, best first."""
    engines: list[SearchEngine] = []
    if key := keys.get("PARALLEL_API_KEY"):
        engines.append(parallel(key, guard))
    if key := keys.get("FIRECRAWL_API_KEY"):
        engines.append(firecrawl(key, guard))
    if searxng_url:
        engines.append(searxng(searxng_url, guard))
    if find_spec("ddgs") is not None:
        engines.append(public_engines(guard))
    return tuple(engines)


async def search_first(engines: Sequence[SearchEngine], query: str, limit: int) -> tuple[str, list[SearchResult]]:
    """Return the name and results of the first engine that answers; raises ToolFailed when none does."""
    problems = []
    for engine in engines:
        try:
            return engine.name, await engine.search(query, limit)
        except ToolFailed as error:
            problems.append(f"{engine.name}: {str(error).rstrip('.')}")
    raise ToolFailed(
        f"No search engine answered. {'; '.join(problems)}. Try again later, or read a page whose address you know."
    )


async def _ask(url: str, guard: UrlGuard, request: ApiRequest) -> dict[str, Any]:
    answer = await fetch(url, guard, _LIMITS, request)
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError) as error:
        raise ToolFailed("the answer is no JSON") from error
    if not isinstance(found, dict):
        raise ToolFailed("the answer is not what was expected")
    return found


def _read_results(found: Any, snippet: str, limit: int) -> list[SearchResult]:
    """Return the results in an answer, trusting nothing about their types. Each value becomes one line."""
    results = []
    for one in found if isinstance(found, list) else []:
        if not isinstance(one, dict):
            continue
        url = one.get("url") or one.get("href")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > _MAX_URL_CHARS:
            continue
        words = one.get(snippet) or ""
        joined = " … ".join(map(str, words)) if isinstance(words, list) else str(words)
        results.append(
            SearchResult(
                title=one_line(str(one.get("title") or ""), _MAX_TITLE_CHARS),
                url="".join(url.split()),
                snippet=one_line(joined, _MAX_SNIPPET_CHARS),
            )
        )
    return results[:limit]
