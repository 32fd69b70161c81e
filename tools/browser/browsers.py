"""The browsers that are open: one for each person, with the tabs of each of their conversations."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hermes_config.settings import BrowserSettings
from tools.backends.base import Workplace
from tools.base import ToolContext, ToolFailed, workplace_of
from tools.browser.chromium import (
    Browserbase,
    OpenedBrowser,
    find_problem,
    open_chromium,
    start_driver,
)
from tools.browser.tab import NO_PAGE, Tab
from tools.url_guard import UrlGuard

if TYPE_CHECKING:
    from playwright.async_api import Playwright

_BUSY_SECONDS = 60.0
_LOOK_SECONDS = 30.0


@dataclass(kw_only=True)
class _Person:
    opened: OpenedBrowser
    tabs: dict[str, Tab] = field(default_factory=dict)  # by conversation

    @property
    def used(self) -> float:
        return max((tab.used for tab in self.tabs.values()), default=0.0)


@dataclass(kw_only=True)
class Browsers:
    options: BrowserSettings = field(default_factory=BrowserSettings)
    guard: UrlGuard = field(default_factory=UrlGuard)
    service: Browserbase | None = None
    closed_because: str = ""  # where nobody would end them
    _driver: "asyncio.Task[Playwright] | None" = None
    _people: "dict[str, asyncio.Task[_Person]]" = field(default_factory=dict)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def problem(self) -> str:
        """Return why no browser can be started, for the operator; empty when one can."""
        found = self.closed_because or find_problem(self.options)
        return "" if self.service is not None and "playwright" not in found else found

    async def tab(self, context: ToolContext, *, make: bool = False) -> Tab:
        """Return the tab of a conversation; `make` opens it, and the person's browser. Raises ToolFailed."""
        place = workplace_of(context)
        key = str(place.profile or f"{place.holder} {context.task_id}")
        if key not in self._people:
            if not make:
                raise ToolFailed(NO_PAGE)
            leaving = self._find_least_used() if len(self._people) >= self.options.max_browsers else ""
            # A task of its own: a call that is stopped meanwhile must not leave a browser that nobody knows.
            self._people[key] = asyncio.create_task(self._start(key, place, leaving))
        person = await asyncio.shield(self._people[key])
        if context.task_id not in person.tabs and not make:
            raise ToolFailed(NO_PAGE)
        fresh = Tab(browser=person.opened, options=self.options, place=place)
        tab = person.tabs.setdefault(context.task_id, fresh)
        tab.place, tab.used = place, asyncio.get_running_loop().time()
        return tab

    async def close(self, context: ToolContext) -> None:
        """Close the tabs of a conversation, and the browser once it has none."""
        for key, person in self._list_open():
            if (tab := person.tabs.get(context.task_id)) and tab.place.holder == workplace_of(context).holder:
                await self._close_tab(key, person, context.task_id)

    async def run(self) -> None:
        """Close what nobody has used for a while, until cancelled."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self.options.idle_minutes * 60))
            await self.close_idle()

    async def close_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        for key, person in self._list_open():
            for task_id, tab in [*person.tabs.items()]:
                if now - tab.used >= self.options.idle_minutes * 60 and not tab.is_busy:
                    await self._close_tab(key, person, task_id)

    async def aclose(self) -> None:
        """End all browsers."""
        await asyncio.gather(*self._people.values(), return_exceptions=True)
        for key in [*self._people]:
            await self._end(key)
        await asyncio.gather(*self._ending)
        await self._stop_driver()

    async def _start(self, key: str, place: Workplace, leaving: str) -> _Person:
        try:
            await self._end(leaving)
            if self._driver is None:
                self._driver = asyncio.create_task(start_driver())
            driver = await self._driver
            if self.service is not None:
                opened = await self.service.open(driver)
            else:
                opened = await open_chromium(driver, self.options, self.guard, place.profile)
        except BaseException:
            del self._people[key]
            await self._stop_driver()
            raise
        opened.context.on("close", partial(self._forget, key, opened))
        return _Person(opened=opened)

    def _find_least_used(self) -> str:
        """Return the person who has not used their browser for longest. Raises ToolFailed when all are in use."""
        now = asyncio.get_running_loop().time()
        people = [(person.used, key) for key, person in self._list_open()]
        used, key = min(people, default=(now, ""))
        if now - used < _BUSY_SECONDS:
            raise ToolFailed(f"{len(self._people)} browsers are in use by others. Try again in a minute.")
        return key

    def _list_open(self) -> list[tuple[str, _Person]]:
        done = ((key, task) for key, task in self._people.items() if task.done() and not task.cancelled())
        return [(key, task.result()) for key, task in done if task.exception() is None]

    async def _close_tab(self, key: str, person: _Person, task_id: str) -> None:
        if (tab := person.tabs.pop(task_id, None)) is not None:  # its conversation may have ended meanwhile
            await tab.close()
        if not person.tabs and dict(self._list_open()).get(key) is person:  # it may have got another browser meanwhile
            await self._end(key)

    async def _end(self, key: str) -> None:
        person = dict(self._list_open()).get(key)
        if person is not None:
            del self._people[key]
            await person.opened.close()
            await self._stop_driver()

    async def _stop_driver(self) -> None:
        """End Playwright's process, and all that it has started, when nobody has a browser."""
        if self._people or self._driver is None:
            return
        driver, self._driver = self._driver, None
        await (await driver).stop()

    def _forget(self, key: str, opened: OpenedBrowser, *_: object) -> None:
        """Clear up after a browser that has ended, perhaps by itself."""
        if (person := dict(self._list_open()).get(key)) is not None and person.opened is opened:
            task = asyncio.create_task(self._end(key))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
