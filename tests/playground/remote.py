"""A client of the control API, as another process would write it."""

from typing import Any

import aiohttp


class Remote:
    """Every answer must be the expected one."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.http = http

    async def get(self, path: str, **query: Any) -> Any:
        async with self.http.get(f"{self.url}/control{path}", params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def post(self, path: str, expected: int = 200, **body: Any) -> Any:
        async with self.http.post(f"{self.url}/control{path}", json=body) as answer:
            assert answer.status == expected, await answer.text()
            return await answer.json()

    async def do(self, action: str, **arguments: Any) -> Any:
        return (await self.post(f"/do/{action}", **arguments))["result"]
