"""Updates for an open page: its phones, the gateway, the rows. Without a page nothing is watched."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress

from aiohttp import web

from playground.page.gateway_child import GatewayChild
from playground.page.phone import QUIET, Phone
from playground.page.rows import Rows
from playground.wire import Wire

LOOKS_A_SECOND = 5
_TOGETHER_SECONDS = 0.02  # draw events together that come together


class LivePage:
    """One open page with its own choice of person and chat, so that two pages can be two people."""

    def __init__(self, socket: web.WebSocketResponse, phones: Mapping[str, Phone], gateway: GatewayChild) -> None:
        self._socket = socket
        self._phones = phones
        self._gateway = gateway
        self._rows = Rows(gateway.home.database)
        self._looks: dict[str, tuple[str, str]] = dict.fromkeys(phones, ("", "dm"))
        self._last_sent: dict[str, str] = {}

    async def run(self) -> None:
        """Serve the page until it is closed."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._follow(phone)) for phone in self._phones.values()]
            tasks.append(group.create_task(self._watch_gateway()))
            try:
                async for message in self._socket:
                    with suppress(ValueError):  # a page of ours sends JSON
                        await self._change_view(json.loads(message.data))
            finally:
                for task in tasks:
                    task.cancel()

    async def _change_view(self, told: object) -> None:
        """Change to another person or chat: `{"look": "telegram", "person": …, "place": …}`."""
        name = told.get("look") if isinstance(told, dict) else None
        if not isinstance(told, dict) or not isinstance(name, str) or name not in self._phones:
            return
        self._looks[name] = (str(told.get("person", "")), str(told.get("place", "dm")))
        await self._show(self._phones[name])

    async def _follow(self, phone: Phone) -> None:
        log = phone.stage.events
        while True:
            await self._show(phone)
            seen = log.last
            await log.wait_for(lambda: any(one["kind"] not in QUIET for one in log.after(seen)), seconds=None)  # noqa: B023
            await asyncio.sleep(_TOGETHER_SECONDS)

    async def _show(self, phone: Phone) -> None:
        person, place = self._looks[phone.platform]
        view = phone.view(person, place)
        self._looks[phone.platform] = (view["person"], view["place"])
        await self._tell(f"phone {phone.platform}", {"type": "phone", **view})
        codes = [code for one in self._phones.values() for code in one.codes()]
        await self._tell("codes", {"type": "codes", "codes": codes})

    async def _watch_gateway(self) -> None:
        """Look at the gateway and its database a few times a second."""
        while True:
            facts = await asyncio.to_thread(self._gateway.look)
            await self._tell("gateway", {"type": "gateway", **facts})
            if rows := await asyncio.to_thread(self._rows.look):
                await self._tell("rows", {"type": "rows", **rows})
            await asyncio.sleep(1 / LOOKS_A_SECOND)

    async def _tell(self, what: str, news: Wire) -> None:
        """Send only what has changed."""
        text = json.dumps(news, ensure_ascii=False, separators=(",", ":"))
        if self._last_sent.get(what) == text or self._socket.closed:
            return
        self._last_sent[what] = text
        with suppress(ConnectionError):  # the page is gone; reading ends too
            await self._socket.send_str(text)
