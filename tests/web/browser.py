"""A real browser for tests: Chromium without a window, driven through its DevTools protocol.

async with open_browser(tmp_path) as browser:
    page = await browser.new_page()
    await page.go("http://127.0.0.1:8080/")
    await page.wait_for("document.title === 'Hermes'")
"""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.programs import find

Reply = dict[str, Any]

CHROMIUM = find("chromium")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_START_SECONDS = 30.0
_WAIT_SECONDS = 60.0
_KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38}
_MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class PageError(AssertionError):
    """The page threw an error, or never reached the expected state."""


@asynccontextmanager
async def open_browser(folder: Path) -> AsyncIterator["Browser"]:
    """Start a browser with its own profile below `folder`, and end it with everything it started."""
    assert CHROMIUM, 'no Chromium: mark the test with needs("chromium")'
    profile = folder / "chromium"
    with (folder / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank", stdout=log, stderr=log
        )
    try:
        address = await _debugging_address(profile, process)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=0) as socket,
        ):
            browser = Browser(socket)
            reading = asyncio.create_task(browser.read())  # not in a group, which would wrap what a test raises
            try:
                yield browser
                await browser.call("Browser.close")
            finally:
                reading.cancel()
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(5):
            if process.returncode is None:
                process.terminate()  # ends its children in order; a second asking does no harm
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _debugging_address(profile: Path, process: asyncio.subprocess.Process) -> str:
    told = profile / "DevToolsActivePort"
    async with asyncio.timeout(_START_SECONDS):
        while not told.exists() or told.read_text().count("\n") < 1:
            if process.returncode is not None:
                raise PageError(f"Chromium ended with {process.returncode}; see chromium.log beside its profile")
            await asyncio.sleep(0.02)  # it tells in a file and in no other way
    port, path = told.read_text().splitlines()
    return f"ws://127.0.0.1:{port}{path}"


class Browser:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._pages: dict[str, Page] = {}

    async def read(self) -> None:
        async for message in self._socket:
            told: Reply = json.loads(message.data)
            if "id" in told:
                waiting = self._waiting.pop(told["id"], None)
                if waiting and not waiting.done():
                    waiting.set_result(told)
            elif page := self._pages.get(told.get("sessionId", "")):
                page.handle(told["method"], told["params"])

    async def call(self, method: str, session: str = "", **parameters: Any) -> Reply:
        number = next(self._ids)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        order: Reply = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json({**order, "sessionId": session} if session else order)
        async with asyncio.timeout(_START_SECONDS):
            told = await reply
        if "error" in told:
            raise PageError(f"{method}: {told['error']['message']}")
        result: Reply = told["result"]
        return result

    async def new_page(self, *, apart: bool = False) -> "Page":
        """Open a tab. `apart` gives it its own cookies and storage."""
        about: Reply = {"url": "about:blank"}
        if apart:
            about |= await self.call("Target.createBrowserContext")
        target = (await self.call("Target.createTarget", **about))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"], target)
        self._pages[page.session] = page
        for domain in ("Page", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        await page.set_viewport(1280, 800)
        return page


@dataclass(slots=True)
class Page:
    browser: Browser
    session: str
    target: str
    problems: list[str] = field(default_factory=list)
    """Errors on the console: uncaught exceptions, refusals by the content policy, failed requests."""
    dialogs: list[str] = field(default_factory=list)
    """Texts of `alert` and the like: proof that a script ran."""
    _tasks: set[asyncio.Task[Reply]] = field(default_factory=set)

    def handle(self, method: str, about: Reply) -> None:
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.problems.append(" ".join(str(one.get("value", one.get("description"))) for one in about["args"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(about["message"])
            task = asyncio.ensure_future(self.call("Page.handleJavaScriptDialog", accept=True))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def call(self, method: str, **parameters: Any) -> Reply:
        return await self.browser.call(method, self.session, **parameters)

    async def go(self, address: str) -> None:
        await self.call("Page.navigate", url=address)
        await self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def reload(self) -> None:
        await self.run("window.beforeTheReload = true")
        await self.call("Page.reload")
        await self.wait_for("!window.beforeTheReload && document.readyState === 'complete'")

    async def close(self) -> None:
        await self.browser.call("Target.closeTarget", targetId=self.target)

    async def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        told = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if details := told.get("exceptionDetails"):
            raise PageError(details.get("exception", {}).get("description") or details["text"])
        return told["result"].get("value")

    async def wait_for(self, expression: str, *, seconds: float = _WAIT_SECONDS) -> None:
        """Wait until the expression is true."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if await self._is_true(expression):
                        return
                    await asyncio.sleep(0.03)
        except TimeoutError:
            seen = await self.run("document.body.innerText.slice(0, 1500)")
            raise PageError(f"never came true: {expression}\nThe page shows:\n{seen}\n{self.problems}") from None

    async def _is_true(self, expression: str) -> bool:
        try:
            return bool(await self.run(f"Boolean({expression})"))
        except PageError as error:
            if "context" in str(error) or "navigat" in str(error):
                return False  # the page is just being replaced, and there is no place to evaluate anything in
            raise

    async def text(self, selector: str) -> str:
        """Return the visible text of the first match, or an empty string."""
        return str(await self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    async def count(self, selector: str) -> int:
        return int(await self.run(f"document.querySelectorAll({json.dumps(selector)}).length"))

    async def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element; whatever covers it gets the click."""
        quoted = json.dumps(selector)
        await self.wait_for(f"document.querySelector({quoted})?.checkVisibility()")
        box = await self.run(
            f"(() => {{ const one = document.querySelector({quoted}); one.scrollIntoView({{block: 'nearest'}});"
            "const {x, y, width, height} = one.getBoundingClientRect(); return [x + width / 2, y + height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", buttons=1, clickCount=1
            )

    async def type(self, text: str, into: str = "") -> None:
        """Type into the focused element, or into the given one."""
        if into:
            await self.run(f"document.querySelector({json.dumps(into)}).focus()")
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *modifiers: str) -> None:
        bits = sum(_MODIFIERS[name] for name in modifiers)
        code = _KEYS.get(key, ord(key[0].upper()))
        about: Reply = {"key": key, "windowsVirtualKeyCode": code, "modifiers": bits}
        typed = "\r" if key == "Enter" else key if len(key) == 1 and not bits & ~8 else ""
        await self.call("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": typed} if typed else {}))
        await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def choose_files(self, selector: str, *paths: Path) -> None:
        """Choose files as in the dialog of an `<input type=file>`."""
        found = await self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        await self.call(
            "DOM.setFileInputFiles", files=[str(path) for path in paths], objectId=found["result"]["objectId"]
        )

    async def drag_files(self, kind: str, *paths: Path) -> None:
        """Drag files over the middle of the page; `kind` is `dragEnter`, `dragOver` or `drop`."""
        data: Reply = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        await self.call("Input.dispatchDragEvent", type=kind, x=640, y=400, data=data)

    async def compose(self, text: str) -> None:
        """Enter text as an input method does before a word is chosen."""
        await self.call("Input.imeSetComposition", text=text, selectionStart=len(text), selectionEnd=len(text))

    async def set_viewport(self, width: int, height: int, *, phone: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        await self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    async def set_colours(self, scheme: str) -> None:
        """Emulate the system's colour scheme, `light` or `dark`."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, path: Path) -> None:
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
