"""`hermes mcp login` and `logout`, with a browser on this machine and on another one."""

import asyncio
import json
import os
import re
import sys
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from hermes_cli import mcp_login
from tests.hermes_cli.running import ROOT, hermes
from tests.tools.mcp.locked_server import locked

# Each command is a process of its own; the login must not be one of the warm ones, which cannot be typed to.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE_SECONDS = 100


@pytest.fixture(autouse=True)
def _in_home(home: Path, made: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))


class Terminal:
    """A person at `hermes mcp login`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._printed = ""

    @classmethod
    async def open(cls, *arguments: str) -> "Terminal":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "hermes_cli", "mcp", "login", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
            env=os.environ,
        )
        return cls(process)

    async def sees(self, pattern: str) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := re.search(pattern, self._printed, re.M)):
                line = await self._process.stdout.readline()
                assert line, self._printed
                self._printed += line.decode()
        return found[0]

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def end(self) -> tuple[int | None, str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            rest, _ = await self._process.communicate()
        return self._process.returncode, self._printed + rest.decode()


async def run(*arguments: str, code: int = 0) -> str:
    ran = await asyncio.to_thread(hermes, *arguments)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


async def test_a_login_with_a_browser_on_this_machine(home: Path) -> None:
    async with locked() as desk:
        await run("mcp", "add", "vault", "--url", desk.url)
        assert "it needs a login: hermes mcp login vault" in await run("mcp", "test", "vault", code=1)
        terminal = await Terminal.open("vault")
        address = await terminal.sees(r"^http://\S+/authorize\?\S+$")
        async with httpx2.AsyncClient(trust_env=False) as browser:
            ended = (await browser.get(address)).headers["location"]
            assert ended.startswith("http://127.0.0.1:")
            for wrong in (re.sub("state=[^&]*", "state=guessed", ended), ended.partition("?")[0] + "/favicon.ico"):
                assert (await browser.get(wrong)).status_code == 404
            page = await browser.get(ended)
            assert (page.status_code, page.text) == (200, "Done. You can close this page.")
        code, printed = await terminal.end()
        assert code == 0, printed
        assert "You are logged in. A running gateway notices it soon. vault offers 2 tools." in printed
        assert not any(token in printed for token in (*desk.access, *desk.refresh))
        assert "vault works and offers 2 tools." in await run("mcp", "test", "vault")
        assert "Other users" not in (checked := (await asyncio.to_thread(hermes, "doctor", "--security")).stdout)
        assert "mcp_logins" not in checked
        (home / "mcp_logins" / "vault.json").chmod(0o644)
        assert (
            "Other users of this machine can open 1 file: mcp_logins/vault.json"
            in (await asyncio.to_thread(hermes, "doctor", "--security")).stdout
        )
        archive = home.parent / "backup.tar.gz"
        await run("backup", str(archive), "--without-secrets")
        with tarfile.open(archive) as opened:
            names = opened.getnames()
        assert "config.yaml" in names
        assert not any("mcp_logins" in name for name in names)
        assert "The tokens of vault are deleted" in await run("mcp", "logout", "vault")
        assert "There is no login to vault." in await run("mcp", "logout", "vault", code=1)
        assert "it needs a login" in await run("mcp", "test", "vault", code=1)


async def test_a_login_with_a_browser_on_another_machine(home: Path) -> None:
    async with locked() as desk:
        await run("mcp", "add", "vault", "--url", desk.url)
        terminal = await Terminal.open("vault")
        address = await terminal.sees(r"^http://\S+/authorize\?\S+$")
        async with httpx2.AsyncClient(trust_env=False) as browser:
            ended = (await browser.get(address)).headers["location"]
        terminal.type(re.sub("state=[^&]*", "state=guessed", ended))
        await terminal.sees("That is not the address at which this login ended")
        assert not (home / "mcp_logins").exists()
        terminal.type(ended)
        code, printed = await terminal.end()
        assert (code, "You are logged in" in printed) == (0, True), printed
        await run("mcp", "remove", "vault")
        assert list((home / "mcp_logins").iterdir()) == []


async def test_a_login_that_cannot_be_is_refused_with_the_reason(home: Path) -> None:
    async with locked(says_no=True) as desk:
        await run("mcp", "add", "vault", "--url", desk.url)
        await run("mcp", "add", "fixed", "--url", desk.url, "--header", "authorization=Bearer x")
        await run("mcp", "add", "program", "sh")
        terminal = await Terminal.open("vault")
        address = await terminal.sees(r"^http://\S+/authorize\?\S+$")
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
            await browser.get(address)
        code, printed = await terminal.end()
        assert code == 1
        assert "vault cannot be used: the login was refused: access_denied: Ann said no." in printed
        assert "which is used. Remove it first" in await run("mcp", "login", "fixed", code=2)
        assert "such servers have no login" in await run("mcp", "login", "program", code=2)
        (home / "mcp_logins").mkdir()
        (home / "mcp_logins" / "gone.json").write_text(json.dumps({"url": "", "tokens": {}, "client": {}}))
        told = (await asyncio.to_thread(hermes, "doctor")).stdout
        assert "There are tokens of gone, which is no MCP server in the settings" in told
        assert "hermes mcp logout gone" in told


async def test_a_browser_that_connects_and_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_login, "_READ_SECONDS", 10_000.0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with mcp_login._receive_redirect(0) as redirect:
            port = urlsplit(redirect.uri).port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            async with httpx2.AsyncClient(trust_env=False) as browser:  # which is answered, so the first is known
                assert (await browser.get(redirect.uri)).status_code == 404
        assert await reader.read() == b""
        writer.close()
