"""What people do on web pages, with real Chromium on real pages on loopback."""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent_core.tokens import estimate_text
from gateway.media.kinds import MAX_SIDE_PIXELS, detect_format, measure_picture
from hermes_config.extras import install_line
from hermes_config.settings import BrowserSettings
from tests.programs import needs
from tests.tools.browser.site import Site, open_site
from tests.tools.browser.user import User, open_user, processes_with
from tests.web.browser import open_browser
from tools.browser.browsers import Browsers
from tools.browser.chromium import Browserbase
from tools.browser.tab import Tab
from tools.builtin.browser import browser_tools
from tools.errors import ToolFailed
from tools.pictures import NoPictures
from tools.registry import why_unavailable
from tools.url_guard import UrlGuard

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs("chromium")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory, site: Site) -> AsyncIterator[User]:
    async with open_user(tmp_path_factory.mktemp("browser")) as user:
        await user.open(site.url("/form"))  # so that it stays open
        yield user


@pytest_asyncio.fixture(loop_scope="module")
async def user(shared: User, request: pytest.FixtureRequest) -> AsyncIterator[User]:
    """A conversation of its own in the one browser."""
    alone = shared.in_conversation(request.node.name)
    yield alone
    await alone.do("close")


async def test_log_in_and_stay_logged_in(site: Site, user: User) -> None:
    assert "The page asks for a password" in await user.open(site.url("/login"))
    await user.type('textbox "Name"', "ann")
    await user.type('textbox "Password"', "open sesame", submit=True)
    assert "/account" in await user.see("Hello ann")
    assert "Hello ann" in await user.in_conversation("another").open(site.url("/account"))
    await user.in_conversation("another").do("close")


async def test_fill_in_a_form(site: Site, user: User) -> None:
    await user.open(site.url("/form"))
    await user.type('textbox "Dish"', "soup")
    await user.type("combobox", "large")
    await user.type('textbox "Notes"', "no salt\nplease")
    await user.click('checkbox "Spicy"')
    assert "Thanks" in await user.click('button "Order"')
    assert site.posted[-1] == {"dish": "soup", "size": "large", "spicy": "on", "notes": "no salt\r\nplease"}
    assert "Page: Order" in await user.do("back")


async def test_upload_a_file_of_the_workspace_and_no_other(site: Site, user: User) -> None:
    await user.open(site.url("/uploads"))
    (Path(user.context.workplace.workspace) / "paper.txt").write_text("my words")  # type: ignore[union-attr]
    assert "name it as `file`" in await user.click('button "Choose a paper"')
    assert "paper.txt was chosen" in await user.click('button "Choose a paper"', file="paper.txt")
    assert "Thanks" in await user.click('button "Hand in"')
    assert site.posted[-1] == {"paper": "paper.txt: my words"}
    await user.open(site.url("/uploads"))
    closed = user.folder / "home" / ".env"
    closed.parent.mkdir(exist_ok=True)
    closed.write_text("KEY=1")
    with pytest.raises(ToolFailed, match="\\.env"):
        await user.click('button "Choose a paper"', file=str(closed))
    with pytest.raises(ToolFailed, match="does not ask for a file"):
        await user.click('button "Hand in"', file="paper.txt")


async def test_downloads_go_into_the_workspace_and_are_bounded(site: Site, user: User) -> None:
    await user.open(site.url("/files"))
    folder = Path(user.context.workplace.workspace) / "downloads"  # type: ignore[union-attr]
    assert f"Downloaded {folder}/a.pdf (15 bytes)" in await user.click('link "Report"')
    assert f"Downloaded {folder}/a-2.pdf" in await user.open(site.url("/report"))
    assert (folder / "a.pdf").read_bytes() == b"%PDF-1.4 report"
    told = await user.click('link "Endless"')
    assert "endless.bin failed: it is larger than 1.0 MB" in told
    assert sorted(path.name for path in folder.iterdir()) == ["a-2.pdf", "a.pdf"]


async def test_a_new_tab_is_followed_and_closed_by_going_back(site: Site, user: User) -> None:
    await user.open(site.url("/tabs"))
    assert "A new tab has opened" in await user.click('link "New tab"')
    await user.see("Page: Order")
    assert "Page: First" in await user.do("back")
    with pytest.raises(ToolFailed, match="no earlier page"):
        await user.do("back")


async def test_dialogs_are_answered(site: Site, user: User) -> None:
    await user.open(site.url("/dialogs"))
    assert "The page said: Hello" in await user.click('button "Alert"')
    assert "greeted" in await user.see("greeted")
    told = await user.click('button "Confirm"')
    assert "Delete all?. That was cancelled" in told
    assert "kept" in told
    assert "deleted" in await user.click('button "Confirm"', accept=True)
    assert "Hi Bob" in await user.click('button "Prompt"', answer="Bob")


async def test_frames_and_shadow_trees_are_part_of_the_page(site: Site, user: User) -> None:
    await user.open(site.url("/frames"))
    await user.type('textbox "Dish"', "cake")
    assert 'textbox "Dish" [f' in await user.see("cake")
    await user.open(site.url("/shadow"))
    await user.type('textbox "Secret place"', "found")
    assert "Page: found" in await user.click('button "Inside"')


async def test_an_app_of_a_single_page_shows_what_has_changed(site: Site, user: User) -> None:
    await user.open(site.url("/app"))
    await user.see("Thing 1")
    told = await user.click('button "Next thing"')
    assert "/things/2" in told
    await user.see("Thing 2")


async def test_a_page_of_two_thousand_elements_is_read_in_parts(site: Site, user: User) -> None:
    parts = [await user.open(site.url("/many"))]
    assert "Page: Many" in parts[0]
    while "shows more" in parts[-1]:
        start = int(parts[-1].split("start=")[1].split()[0])
        parts.append(await user.do("snapshot", start=start))
    assert all(estimate_text(part) <= 4_000 for part in parts)
    assert max(map(len, parts)) < 11_000  # few characters for each token
    assert 'button "Do 499"' in parts[-1]
    found = await user.do("snapshot", find="link 321")
    assert "1 lines have" in found
    assert "-> /n/321" in found


async def test_a_picture_shows_the_page(site: Site, user: User) -> None:
    await user.open(site.url("/form"))
    assert "It goes to the chat" in await user.do("screenshot", send=True)
    form = detect_format(user.album.content)
    assert (form.kind, form.problem) == ("image", "")
    await user.open(site.url("/many"))
    assert "to_chat=False" in await user.do("screenshot", whole=True)
    assert measure_picture(form.mime, user.album.content) == (1_280, MAX_SIDE_PIXELS)


async def test_mistakes_are_one_sentence_that_says_what_to_do(site: Site, user: User) -> None:
    with pytest.raises(ToolFailed, match="Call browser_navigate"):
        await user.do("snapshot")
    await user.open(site.url("/covered"))
    button = await user.ref('button "Below"')
    for told, name, arguments in (
        ("begin with http:// or https://", "navigate", {"url": "file:///etc/passwd"}),
        ("begin with http:// or https://", "navigate", {"url": "chrome://version"}),
        ("no reference: those of browser_snapshot", "click", {"ref": "the button"}),
        ("no longer on the page", "click", {"ref": "e9999"}),
        ("Something covers that element", "click", {"ref": button}),
        ("cannot be typed into", "type", {"ref": button, "text": "x"}),
        ("no server answers there", "navigate", {"url": "http://127.0.0.1:4/"}),
        ("does not speak HTTPS", "navigate", {"url": site.url("/").replace("http:", "https:")}),
        ("this machine itself", "navigate", {"url": "http://127.0.0.9/"}),
        ("may need a login", "navigate", {"url": site.url("/bare-error")}),
    ):
        with pytest.raises(ToolFailed, match=told):
            await user.do(name, **arguments)
    assert "404: there is no such page" in await user.open(site.url("/nowhere"))
    assert "401: it needs a login" in await user.open(site.url("/wall"))


async def test_a_profile_belongs_to_one_person_and_outlives_the_browser(site: Site, tmp_path: Path) -> None:
    async with open_user(tmp_path / "ann") as ann:
        await ann.open(site.url("/login"))
        await ann.type('textbox "Name"', "ann")
        await ann.type('textbox "Password"', "open sesame", submit=True)
        await ann.see("Hello ann")
        bob = User(browsers=ann.browsers, folder=tmp_path / "bob")
        bob.folder.mkdir()
        guest = User(browsers=ann.browsers, folder=tmp_path / "bob", keeps=False)
        for other in (bob, guest):
            assert "401" in await other.open(site.url("/account"))
        assert stat.S_IMODE((tmp_path / "ann" / "profile").stat().st_mode) == 0o700
        async with open_user(tmp_path / "ann") as elsewhere:
            told = await elsewhere.open(site.url("/account"))
            assert "in use elsewhere" in told
            assert "401" in told
    assert processes_with(str(tmp_path)) == []
    async with open_user(tmp_path / "ann") as again:
        assert "Hello ann" in await again.open(site.url("/account"))


async def test_browsers_are_few_and_closed_when_idle(site: Site, tmp_path: Path) -> None:
    async with open_user(tmp_path / "ann", max_browsers=1, idle_minutes=1e-9) as ann:
        await ann.open(site.url("/form"))
        bob = User(browsers=ann.browsers, folder=tmp_path / "ann", keeps=False)
        with pytest.raises(ToolFailed, match="1 browsers are in use"):
            await bob.open(site.url("/form"))
        await ann.browsers.close_idle()
        assert processes_with(str(tmp_path)) == []
        assert "Page: Order" in await bob.open(site.url("/form"))


async def test_a_conversation_may_end_while_idle_ones_are_closed(site: Site, tmp_path: Path) -> None:
    async with open_user(tmp_path / "ann", idle_minutes=1e-9) as ann:
        await ann.open(site.url("/form"))
        other = ann.in_conversation("other")
        await other.open(site.url("/form"))
        await asyncio.gather(ann.browsers.close_idle(), ann.browsers.close(other.context))
        assert processes_with(str(tmp_path)) == []


async def test_a_tab_that_closes_slowly_does_not_end_the_next_browser(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, may_close, close = asyncio.Event(), asyncio.Event(), Tab.close

    async def close_slowly(tab: Tab) -> None:
        closing.set()
        await may_close.wait()
        await close(tab)

    async with open_user(tmp_path / "ann") as ann:
        await ann.open(site.url("/form"))
        monkeypatch.setattr(Tab, "close", close_slowly)
        ending = asyncio.create_task(ann.browsers.close(ann.context))
        await closing.wait()
        await ann.browsers._end(*ann.browsers._people)  # as to make room for somebody else
        await ann.open(site.url("/form"))
        may_close.set()
        await ending
        assert "Page: Order" in await ann.do("snapshot")


async def test_browsers_that_cannot_be_started_do_not_keep_the_others_from_ending(site: Site, tmp_path: Path) -> None:
    """Both fail while all are being ended."""
    async with open_user(tmp_path / "ann", executable="/bin/false") as ann:
        bob = User(browsers=ann.browsers, folder=tmp_path / "ann", keeps=False)
        opening = [asyncio.create_task(one.open(site.url("/form"))) for one in (ann, bob)]
        while len(ann.browsers._people) < 2:
            await asyncio.sleep(0)
        await ann.browsers.aclose()
        ended = await asyncio.gather(*opening, return_exceptions=True)
        assert ["Tell the user to run `hermes doctor`" in str(one) for one in ended] == [True, True]


async def test_what_was_killed_is_opened_again(site: Site, tmp_path: Path) -> None:
    async with open_user(tmp_path / "ann") as ann:
        for _ in range(2):
            await ann.open(site.url("/form"))
            for process in processes_with(str(tmp_path)):
                os.kill(process, signal.SIGKILL)
            with pytest.raises(ToolFailed, match="Call browser_navigate"):
                await ann.in_conversation("another").open(site.url("/form"))
            with pytest.raises(ToolFailed, match="Call browser_navigate"):
                await ann.do("snapshot")
        assert "Page: Order" in await ann.open(site.url("/form"))


async def test_no_key_of_ours_reaches_the_browser(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-browsers")
    async with open_user(tmp_path / "ann") as ann:
        await ann.open(site.url("/form"))
        started = [*processes_with(str(tmp_path)), *processes_with("run-driver")]
        assert len(started) > 3
        for process in started:
            assert b"not-for-browsers" not in Path(f"/proc/{process}/environ").read_bytes()


async def test_with_keys_the_browser_runs_elsewhere(site: Site, tmp_path: Path) -> None:
    """A browser that is driven by its debugging address, as the service gives it."""
    asked: list[dict[str, str]] = []

    async def give_address(request: web.Request) -> web.Response:
        asked.append({"key": request.headers["X-BB-API-Key"], **await request.json()})
        port, path = (tmp_path / "chromium" / "DevToolsActivePort").read_text().splitlines()
        return web.json_response({"connectUrl": f"ws://127.0.0.1:{port}{path}"})

    app = web.Application()
    app.router.add_post("/v1/sessions", give_address)
    async with open_browser(tmp_path), TestServer(app) as service, open_user(tmp_path / "ann") as ann:
        ann.browsers.service = Browserbase(
            key="bb-key", project="mine", guard=ann.browsers.guard, base_url=str(service.make_url("")).rstrip("/")
        )
        assert "runs elsewhere" in await ann.open(site.url("/form"))
        await ann.type('textbox "Dish"', "soup")
        assert "Thanks" in await ann.click('button "Order"')
        assert site.posted[-1]["dish"] == "soup"
    assert asked == [{"key": "bb-key", "projectId": "mine"}]


async def test_what_is_missing_is_said_and_the_tools_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offered(browsers: Browsers) -> set[str]:
        tools = browser_tools(browsers, NoPictures(), in_chat=True)
        reasons = {why_unavailable(tool) for tool in tools}
        assert len(tools) == 8
        return reasons

    assert offered(Browsers()) == {""}
    wrong = Browsers(options=BrowserSettings(executable=str(tmp_path / "chrome")))
    assert "there is no such program" in offered(wrong).pop()
    monkeypatch.setattr("tools.browser.chromium.find_spec", lambda name: None)
    assert offered(Browsers()) == {f"playwright is not installed: {install_line('browser')}"}
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install chromium" in offered(Browsers()).pop()
    service = Browserbase(key="k", project="p", guard=UrlGuard())
    assert offered(Browsers(service=service)) == {""}
