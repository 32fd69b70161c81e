"""Start Chromium so that it reaches nothing but what our filtering proxy lets through.

Requests are not intercepted, because that would miss redirects, websockets and workers: the proxy is the only way out,
names are resolved nowhere else, and what does not go through proxies (QUIC, WebRTC) is switched off.
"""

import asyncio
import fcntl
import json
import os
import shlex
import shutil
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hermes_config.extras import install_line
from hermes_config.settings import BrowserSettings
from tools.backends.environment import child_environment
from tools.backends.proxy import Proxy
from tools.errors import ToolFailed
from tools.shell_guard.programs import names
from tools.url_guard import AddressRefused, ApiRequest, FetchLimits, UrlGuard, fetch

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Playwright

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_MAX_PROBLEMS = 100
_MAX_PROCESS_MB = 1_500  # a page that wants more crashes alone
_SANDBOX_PROBLEMS = ("No usable sandbox", "SUID sandbox", "Failed to move to new namespace")
_OWN_SERVICES = names(  # of its makers, which it calls by itself; no page needs them
    "clients1.google.com clients2.google.com connectivitycheck.gstatic.com content-autofill.googleapis.com off.invalid "
    "safebrowsing.googleapis.com update.googleapis.com"
)
_FLAGS = (
    "--proxy-bypass-list=<-loopback>",  # or this machine would be reached without the proxy
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--deny-permission-prompts",
    "--gaia-url=https://off.invalid",  # where it would ask for itself who is signed in
    "--renderer-process-limit=4",
    "--js-flags=--max-old-space-size=512",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Browserbase:
    """A service that runs browsers elsewhere."""

    key: str = field(repr=False)
    project: str
    guard: UrlGuard
    base_url: str = "https://api.browserbase.com"

    async def open(self, driver: "Playwright") -> "OpenedBrowser":
        """Start a browser there. Raises ToolFailed."""
        from playwright.async_api import Error

        request = ApiRequest(headers={"X-BB-API-Key": self.key}, json={"projectId": self.project})
        answer = await fetch(f"{self.base_url}/v1/sessions", self.guard, FetchLimits(), request)
        try:
            address = str(json.loads(answer.content)["connectUrl"])
            browser = await driver.chromium.connect_over_cdp(address, timeout=_START_SECONDS * 1_000)
        except (ValueError, KeyError, TypeError) as error:
            raise ToolFailed("Browserbase answered without a browser. Tell the user to check its keys.") from error
        except Error as error:
            raise ToolFailed("The remote browser could not be reached. Try again later.") from error
        context = browser.contexts[0] if browser.contexts else await browser.new_context()
        note = "The browser runs elsewhere: logins are not kept."
        return OpenedBrowser(context=context, problems={}, downloads="", note=note, close=browser.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGuard(UrlGuard):
    """A guard that remembers why a host was not reached: Chromium only says that its proxy failed."""

    problems: dict[str, str] = field(default_factory=dict)

    async def connect(self, host: str, port: int, lookups: Executor | None = None) -> socket.socket:
        self.problems.pop(host, None)
        if host in _OWN_SERVICES or host.endswith("-pa.googleapis.com"):  # it would even ask about passwords
            raise ConnectionRefusedError("Chromium reports nothing to its makers")
        try:
            return await UrlGuard.connect(self, host, port, lookups)
        except (AddressRefused, OSError, UnicodeError) as error:
            if len(self.problems) >= _MAX_PROBLEMS:
                self.problems.clear()
            self.problems[host] = _describe_failure(error)
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBrowser:
    context: "BrowserContext"
    problems: dict[str, str]  # by host, why it was not reached
    downloads: str  # the folder of unfinished downloads; empty where those are elsewhere
    note: str  # what is different from usual, for the model
    close: Callable[[], Awaitable[None]]


def find_problem(options: BrowserSettings) -> str:
    """Return why no browser can be started here, for the operator; empty when one can."""
    if find_spec("playwright") is None:
        return f"playwright is not installed: {install_line('browser')}"
    if _find_executable(options):
        return ""
    if options.executable:
        return f"browser.executable is {options.executable}, and there is no such program"
    return "there is no Chromium: apt install chromium, or set browser.executable"


def _find_executable(options: BrowserSettings) -> str:
    wanted = [str(Path(options.executable).expanduser())] if options.executable else _PROGRAMS
    return next(filter(None, map(shutil.which, wanted)), "")


async def start_driver() -> "Playwright":
    """Start Playwright's own process, which ends with ours."""
    import playwright._impl.transport
    from playwright.async_api import async_playwright

    # Otherwise it would get all of our variables, keys among them.
    chosen = {**child_environment(), "PW_LANG_NAME": "python"}
    setattr(playwright._impl.transport, "get_driver_env", lambda: chosen)  # noqa: B010
    return await async_playwright().start()


async def open_chromium(
    driver: "Playwright", options: BrowserSettings, guard: UrlGuard, profile: Path | None
) -> OpenedBrowser:
    """Start Chromium with this profile, or with one that is forgotten. Raises ToolFailed."""
    from playwright.async_api import Error

    async with AsyncExitStack() as stack:
        watched = WatchedGuard(allowed=guard.allowed)
        proxy = Proxy(watched)
        port = await proxy.open_port()
        stack.callback(proxy.close)
        scratch = stack.enter_context(TemporaryDirectory(prefix="hermes-browser-", ignore_cleanup_errors=True))
        downloads = str(Path(scratch, "downloads"))
        folder = str(profile) if profile is not None and _take(profile, stack) else str(Path(scratch, "profile"))
        is_kept = folder == str(profile)
        note = "" if is_kept or profile is None else "The user's browser is in use elsewhere: no logins are known here."
        try:
            context = await driver.chromium.launch_persistent_context(
                folder,
                executable_path=_write_starter(_find_executable(options), Path(scratch, "start")),
                args=[f"--proxy-server=socks5://127.0.0.1:{port}", *_FLAGS],
                ignore_default_args=["--disable-popup-blocking"],
                chromium_sandbox=os.geteuid() != 0,  # for root it cannot
                env={**child_environment(), "HOME": folder},
                downloads_path=downloads,
                viewport={"width": 1280, "height": 800},
                timeout=_START_SECONDS * 1_000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            raise ToolFailed(_describe_start(str(error))) from error
        stack.push_async_callback(_end, context)
        held = stack.pop_all()
        return OpenedBrowser(
            context=context, problems=watched.problems, downloads=downloads, note=note, close=held.aclose
        )


def _write_starter(program: str, file: Path) -> Path:
    """Write a script that starts Chromium with a limit for each of its processes."""
    file.write_text(f'#!/bin/sh\nulimit -d {_MAX_PROCESS_MB * 1_000}\nexec {shlex.quote(program)} "$@"\n')
    file.chmod(0o700)
    return file


async def _end(context: "BrowserContext") -> None:
    from playwright.async_api import Error

    with suppress(Error, TimeoutError):  # what does not end goes with the driver
        async with asyncio.timeout(_END_SECONDS):
            await context.close()


def _take(profile: Path, stack: AsyncExitStack) -> bool:
    """Lock a profile for us; return whether no other process of ours has it open."""
    profile.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(profile / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):  # left by one that was killed
        (profile / name).unlink(missing_ok=True)
    return True


def _describe_failure(error: Exception) -> str:
    match error:
        case AddressRefused():
            return f"it is not opened, because {error.reason}"
        case socket.gaierror() | UnicodeError():
            return "there is no host of that name"
    return "no server answers there"


def _describe_start(problem: str) -> str:
    if any(words in problem for words in _SANDBOX_PROBLEMS):
        return (
            "Chromium could not be started, because this machine does not let it sandbox pages. Tell the user to allow "
            "unprivileged user namespaces; `hermes doctor` says how."
        )
    return "Chromium could not be started. Tell the user to run `hermes doctor`, and go on without a browser."
