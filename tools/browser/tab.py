"""The pages that one conversation has open: the one opened last is the current one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from hermes_config.settings import BrowserSettings
from tools.backends.base import Workplace
from tools.browser.chromium import OpenedBrowser
from tools.browser.downloads import save_download
from tools.browser.outline import REFERENCE, cut, find_new, outline
from tools.content import one_line
from tools.errors import ToolFailed
from tools.url_guard import STATUSES

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, FileChooser, FloatRect, Locator, Page, Request, Response

_MAX_PAGES = 8
_MAX_NOTES = 10
_MAX_SIDE_PIXELS = 8_000  # of a picture: some models refuse larger ones
_LOOKS = 30
_LOOK_SECONDS = 0.1
_ACTION_SECONDS = 10.0
_AWAITED = ("document", "fetch", "script", "stylesheet", "xhr")
_SCHEMES = ("http", "https", "about", "blob", "data")
NO_PAGE = "No page is open. Call browser_navigate with an address first."
_ENDED = "The browser has ended. Call browser_navigate to open the page again."
_OF_TARGET = """element => {
    const link = element.closest("a[href]"), form = element.form || element.closest("form");
    const sends = form && (element.type === "submit" || element.type === "image" || !element.closest("a,button"));
    return {label: (element.innerText || element.value || element.name || "").slice(0, 80), link: link ? link.href : "",
            form: sends ? form.action : "", posts: Boolean(sends) && form.method === "post",
            page: element.ownerDocument.defaultView.location.href};
}"""
_FAILURES = (
    ("ERR_CERT_", "its certificate is not valid, so nobody knows who answers"),
    ("ERR_SSL_", "it does not speak HTTPS properly"),
    ("ERR_TOO_MANY_REDIRECTS", "it redirects without end"),
    ("ERR_UNSAFE_REDIRECT", "it redirects to something that is no web page"),
    ("ERR_UNSAFE_PORT", "browsers do not open that port"),
    ("ERR_HTTP_RESPONSE_CODE", "its server answers with an error: it may need a login, or there is no such page"),
    ("ERR_EMPTY_RESPONSE", "its server closed the connection without an answer"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedElement:
    """The facts about an element that decide whether a human is asked before it is used."""

    label: str = ""
    link: str = ""  # where it leads
    form: str = ""  # where it sends a form
    posts: bool = False
    page: str = ""  # the address of its page or frame


@dataclass(kw_only=True)
class Tab:
    browser: OpenedBrowser
    options: BrowserSettings
    place: Workplace  # of the latest call: downloads go there
    used: float = 0.0
    pages: "list[Page]" = field(default_factory=list)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _notes: list[str] = field(default_factory=list)
    _shown: list[str] = field(default_factory=list)
    _requests: "set[Request]" = field(default_factory=set)
    _saving: set[asyncio.Task[None]] = field(default_factory=set)
    _accept: bool = False
    _answer: str = ""
    _chooser: "FileChooser | None" = None
    _failed: str = ""  # the last address that was not opened: that of a redirect, not of the call

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    @asynccontextmanager
    async def using(self) -> "AsyncIterator[Page]":
        """Lock the current page, so that the calls of a conversation run one at a time. Raises ToolFailed."""
        from playwright.async_api import Error

        async with self._lock:
            if not self.pages:
                raise ToolFailed(NO_PAGE)
            try:
                yield self.pages[-1]
            except Error as error:
                raise ToolFailed(_describe_error(str(error))) from error

    async def open(self, url: str) -> str:
        """Open an address; return what is there."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TooSlow

        if not self.pages:
            try:
                self.adopt(await self.browser.context.new_page())
            except Error as error:  # it was killed a moment ago
                raise ToolFailed(_describe_error(str(error))) from error
            self._note(self.browser.note)
        async with self.using() as page:
            self._failed, answer = url, None
            try:
                answer = await page.goto(url, wait_until="load", timeout=self.options.timeout_seconds * 1_000)
            except TooSlow as error:
                await self._give_up(page, "It took too long", error)
            except Error as error:
                await self._settle()  # of a download
                if not self._notes:
                    raise ToolFailed(self._describe_failure(str(error))) from error
            return await self._report(answer=answer)

    async def read(self, start: int, find: str) -> str:
        async with self.using():
            await self._settle()
            return await self._report(start=start, find=find)

    async def look_up(self, reference: str) -> UsedElement:
        """Return what a reference means now. Raises ToolFailed."""
        async with self.using() as page:
            return UsedElement(**await (await self._find(page, reference)).evaluate(_OF_TARGET))

    async def act(
        self, do: "Callable[[Page], Coroutine[Any, Any, None]]", *, accept: bool = False, answer: str = ""
    ) -> str:
        """Do something on the current page; return what it has changed."""
        async with self.using() as page:
            self._accept, self._answer, self._failed = accept or bool(answer), answer, ""
            address, before = page.url, self._shown
            try:
                await do(page)
                await self._settle()
            finally:
                self._accept, self._answer, self._chooser = False, "", None
            if self._failed:
                raise ToolFailed(f"{self._describe_failure('')} browser_back leads back.")
            is_same = self.pages and self.pages[-1] is page and page.url == address
            return await self._report(before=before if is_same else None)

    async def click(self, reference: str, upload: tuple[str, bytes] | None = None, **dialog: Any) -> str:
        async def do(page: "Page") -> None:
            self._chooser = None
            await (await self._find(page, reference)).click(timeout=_ACTION_SECONDS * 1_000)
            await self._settle()
            if upload is None and self._chooser is not None:
                self._note("The page asks for a file: call browser_click again and name it as `file`.")
            elif upload is not None and self._chooser is None:
                raise ToolFailed("Nothing was uploaded: this element does not ask for a file.")
            elif upload is not None and self._chooser is not None:
                name, content = upload
                kind = "application/octet-stream"
                await self._chooser.set_files({"name": name, "mimeType": kind, "buffer": content})
                self._note(f"The file {name} was chosen.")

        return await self.act(do, **dialog)

    async def type(self, reference: str, text: str, *, submit: bool) -> str:
        async def do(page: "Page") -> None:
            field = await self._find(page, reference)
            limit = _ACTION_SECONDS * 1_000
            if await field.evaluate("element => element.tagName") == "SELECT":
                await field.select_option(label=text, timeout=limit)
            else:
                await field.fill(text, timeout=limit)
            if submit:
                await field.press("Enter", timeout=limit)

        return await self.act(do)

    async def scroll(self, direction: str, reference: str) -> str:
        async def do(page: "Page") -> None:
            if reference:
                await (await self._find(page, reference)).hover(timeout=_ACTION_SECONDS * 1_000)
            far = 1_000_000 if direction in ("top", "bottom") else 700
            await page.mouse.wheel(0, -far if direction in ("up", "top") else far)

        return await self.act(do)

    async def go_back(self) -> str:
        async def do(page: "Page") -> None:
            if await page.go_back(timeout=self.options.timeout_seconds * 1_000) is not None:
                return
            if len(self.pages) == 1:
                raise ToolFailed("There is no earlier page.")
            await page.close()
            self._note("The tab was closed; this is the one before it.")

        return await self.act(do)

    async def picture(self, *, whole: bool) -> bytes:
        async with self.using() as page:
            await self._settle()
            limit = self.options.timeout_seconds * 1_000
            largest: FloatRect = {"x": 0, "y": 0, "width": _MAX_SIDE_PIXELS, "height": _MAX_SIDE_PIXELS}
            part = largest if whole else None  # Playwright cuts it down to the size of the page
            return await page.screenshot(full_page=whole, clip=part, scale="css", timeout=limit)

    async def close(self) -> None:
        from playwright.async_api import Error

        for saving in self._saving:
            saving.cancel()
        for page in [*self.pages]:
            with suppress(Error):
                await page.close()
        self.pages.clear()

    def adopt(self, page: "Page") -> None:
        """Make a page the current one."""
        if len(self.pages) >= _MAX_PAGES:
            self._note(f"A tab was closed again: {_MAX_PAGES} are open already.")
            self._in_background(_close(page))
            return
        self.pages.append(page)
        page.on("close", lambda _: self._forget(page))
        page.on("crash", lambda _: self._in_background(_close(page)))
        page.on("popup", self._follow)
        page.on("dialog", self._reply)
        page.on("download", lambda download: self._in_background(self._save(download)))
        page.on("filechooser", partial(setattr, self, "_chooser"))
        page.on("request", lambda request: self._requests.add(request))
        page.on("requestfinished", lambda request: self._requests.discard(request))
        page.on("requestfailed", self._forget_request)

    def _follow(self, page: "Page") -> None:
        self._note("A new tab has opened; browser_back closes it.")
        self.adopt(page)

    def _forget(self, page: "Page") -> None:
        if page in self.pages:
            self.pages.remove(page)
        self._requests.clear()

    def _forget_request(self, request: "Request") -> None:
        self._requests.discard(request)
        is_download = request.failure == "net::ERR_ABORTED"
        if request.is_navigation_request() and request.frame.parent_frame is None and not is_download:
            self._failed = request.url

    async def _give_up(self, page: "Page", problem: str, error: Exception) -> NoReturn:
        """Close a page that does not answer any more: it may be using all the memory that it gets."""
        if page in self.pages:
            self.pages.remove(page)
        self._in_background(_close(page))
        raise ToolFailed(f"{problem}, so the page was closed. Try another address.") from error

    async def _reply(self, dialog: "Dialog") -> None:
        """Answer at once: a page waits for its dialogs, and so would every call."""
        from playwright.async_api import Error

        said = one_line(dialog.message)
        with suppress(Error):
            if dialog.type in ("alert", "beforeunload"):
                await dialog.accept()
                self._note(f"The page said: {said}" if dialog.type == "alert" else "")
            elif self._accept:
                await dialog.accept(self._answer)
                self._note(f"The page asked: {said}. The answer was {self._answer or 'OK'}.")
            else:
                await dialog.dismiss()
                self._note(
                    f"The page asked: {said}. That was cancelled; to say yes, do it again with `accept`, or with the "
                    "text as `answer`."
                )

    async def _save(self, download: "Download") -> None:
        limit = self.options.max_download_bytes
        self._note(await save_download(download, self.place, self.browser.downloads, limit))

    async def _find(self, page: "Page", reference: str) -> "Locator":
        if not REFERENCE.fullmatch(reference):
            raise ToolFailed(f"{one_line(reference)!r} is no reference: those of browser_snapshot look like e12.")
        found = page.locator(f"aria-ref={reference}")
        if await found.count() != 1:
            raise ToolFailed(f"{reference} is no longer on the page. Call browser_snapshot for new references.")
        return found

    async def _settle(self) -> None:
        """Wait a moment for what the page loads now, and for downloads that have begun."""
        quiet = 0
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_SECONDS)
            is_quiet = not any(request.resource_type in _AWAITED for request in self._requests)
            quiet = quiet + 1 if is_quiet else 0
            if quiet > 1:
                break
        if self._saving:
            await asyncio.wait(self._saving, timeout=self.options.timeout_seconds)
        if self._saving:
            self._note("A download goes on; the next call says how it ended.")

    async def _report(
        self, *, answer: "Response | None" = None, before: list[str] | None = None, start: int = 1, find: str = ""
    ) -> str:
        """Describe the current page: all of it, what is new since `before`, or the lines with a word."""
        from playwright.async_api import TimeoutError as TooSlow

        if not self.pages:
            raise ToolFailed(f"The page has closed itself. {NO_PAGE}")
        page = self.pages[-1]
        scheme = urlsplit(page.url).scheme
        if scheme not in _SCHEMES:
            raise ToolFailed(f"{self._describe_failure('')} browser_back leads back.")
        try:
            tree = await page.aria_snapshot(mode="ai", timeout=self.options.timeout_seconds * 1_000)
        except TooSlow as error:
            await self._give_up(page, "It is too large or too busy to be read", error)
        self._shown = lines = outline(tree)
        if answer is not None and answer.status >= 400:
            problem = STATUSES.get(answer.status) or "the server failed, or refuses the request"
            self._note(f"The server answers {answer.status}: {problem}.")
        if before is None and await page.locator("input[type=password]").count():
            self._note("The page asks for a password. Use one only if the user has given it to you for this page.")
        head = [f"Page: {one_line(await page.title())}", f"Address: {one_line(page.url, 500)}", *self._take_notes()]
        if find:
            shown = [line for line in outline(tree, with_addresses=True) if find.casefold() in line.casefold()]
            text, last = cut([line.strip() for line in shown])
            return "\n".join([*head, f"{len(shown)} lines have {find!r}, {last} are shown:", "", text])
        if before is not None:
            text, last = cut(find_new(lines, before))
            return "\n".join([*head, "New on the page:" if text else "Nothing new is on the page.", text]).rstrip()
        text, last = cut(lines, start)
        if last < len(lines):
            more = f"browser_snapshot with start={last + 1} shows more, with find=… the lines that have a word."
            head.append(f"Lines {start} to {last} of {len(lines)}; {more}")
        return "\n".join([*head, "", text or "The page shows nothing here."])

    def _describe_failure(self, problem: str) -> str:
        known = (words for code, words in _FAILURES if code in problem)
        found = self.browser.problems.get(urlsplit(self._failed).hostname or "") or next(known, "it cannot be reached")
        return f"{one_line(self._failed)} could not be opened: {found}. Try another address."

    def _note(self, text: str) -> None:
        if text and len(self._notes) < _MAX_NOTES and text not in self._notes:
            self._notes.append(text)

    def _take_notes(self) -> list[str]:
        notes, self._notes[:] = [f"Note: {note}" for note in self._notes], []
        return notes

    def _in_background(self, work: "Coroutine[Any, Any, None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)


async def _close(page: "Page") -> None:
    from playwright.async_api import Error

    with suppress(Error):
        await page.close()


_MISTAKES = (
    ("crashed", "The page has crashed, perhaps for want of memory, and was closed. Try another."),
    ("has been closed", _ENDED),
    ("Connection closed", _ENDED),
    ("intercepts pointer events", "Something covers that element: close it, or scroll, and try again."),
    ("not an <input>", "That element cannot be typed into: choose another."),
    ("not enabled", "That element is switched off: something else on the page must be done first."),
    ("did not find some options", "There is no such choice: browser_snapshot shows those there are."),
    ("not visible", "That element cannot be seen now: scroll, or open what it is in."),
    ("Timeout", "The page did not react in time. Call browser_snapshot to see what is there."),
)


def _describe_error(problem: str) -> str:
    known = (words for mark, words in _MISTAKES if mark in problem)
    return next(known, f"The browser could not do that ({one_line(problem)}). Call browser_snapshot and try again.")
