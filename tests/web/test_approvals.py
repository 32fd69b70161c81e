"""Approval requests in a real browser: buttons in the chat, and the list of requests in other chats."""

from pathlib import Path

import pytest

from tests.journeys.stage import until
from tests.programs import needs
from tests.web.browser import Browser, Page
from tests.web.conftest import Site
from tests.web.test_page import ask, send

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs("chromium")]

LABELS = "[...document.querySelectorAll('%s button')].map((one) => one.innerText)"
STANDS = "document.querySelector('.asking .choices')"


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "file").touch()
    return folder


async def ask_to_delete(page: Page, folder: Path) -> None:
    await send(page, f"run rm -r {folder}")
    await page.wait_for(STANDS)


async def choose(page: Page, row: str, label: str) -> None:
    number = (await page.run(LABELS % row)).index(label) + 1
    await page.click(f"{row} button:nth-child({number})")


async def test_a_button_answers_the_request_and_all_buttons_disappear(page: Page, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "old")
    await ask_to_delete(page, folder)
    assert await page.run(LABELS % ".asking .choices") == ["Once", "Session", "Always", "Deny"]
    question = await page.text(".asking")
    assert f"rm -r {folder}" in question
    assert "on this machine" in question
    assert "Reason:" in question
    assert await page.run("document.querySelector('#waiting').hidden")  # it stands here already
    await page.wait_for("getComputedStyle(document.querySelector('.draft')).display === 'none'")  # it writes nothing
    await page.screenshot(tmp_path / "question.png")
    await choose(page, ".asking .choices", "Once")
    await page.wait_for("document.querySelector('.notice')?.innerText.includes('Allowed once')")
    await page.wait_for("document.querySelector('.answer:not(.draft)')")
    assert await page.count(".choices") == 0
    assert not folder.exists()
    await page.reload()
    await page.wait_for("document.querySelector('.notice')?.innerText.includes('Allowed once')")
    assert await page.count(".choices") == 0
    assert await page.count(".notice") == 1
    assert await page.count(".entry.user") == 1  # a press is nothing that was said


async def test_a_typed_answer_decides_the_request_and_nothing_stays_queued(page: Page, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "old")
    await ask_to_delete(page, folder)
    await page.reload()
    await page.wait_for(STANDS)  # found again, with its buttons
    await send(page, "no")
    await page.wait_for("document.querySelector('.notice')?.innerText.includes('Denied')")
    await page.wait_for("document.querySelector('.answer:not(.draft)')")
    await page.wait_for("document.querySelector('#stop').hidden")
    assert "Queued" not in await page.text("#timeline")
    assert folder.exists()


async def test_requests_of_other_chats_are_listed_and_can_be_answered_there(
    page: Page, site: Site, browser: Browser, tmp_path: Path
) -> None:
    first, second = make_folder(tmp_path / "one"), make_folder(tmp_path / "two")
    other = await browser.new_page()
    await other.go(site.address + "#00000000000000aa")
    await other.wait_for("document.querySelector('#about').textContent")
    await ask_to_delete(other, first)
    row = ".question .choices"
    await page.wait_for("!document.querySelector('#waiting').hidden")
    assert "Waiting for you" in await page.text("#waiting")
    assert f"rm -r {first}" in await page.text("#waiting pre")
    assert await page.run(LABELS % row) == ["Once", "Session", "Always", "Deny"]
    await page.screenshot(tmp_path / "waiting.png")
    assert (await page.text("#waiting .asked-in")).startswith("Asked in run rm -r /")
    assert await page.run("document.querySelector('.asked-in a').hash") == "#00000000000000aa"
    assert await other.run("document.querySelector('#waiting').hidden")
    assert "391" in await ask(page, "what is 17 * 23?")  # which it does not keep from talking
    await choose(page, row, "Deny")
    await page.wait_for("document.querySelector('#waiting').hidden")
    await other.wait_for("document.querySelector('.notice')?.innerText.includes('Denied')")
    await other.wait_for("!document.querySelector('.choices')")
    await other.wait_for("document.querySelector('.answer:not(.draft)')")
    assert first.exists()
    await send(other, f"run rm -r {second}")
    await page.wait_for(f"document.querySelector('#waiting pre')?.innerText.includes('{second}')")
    await choose(page, row, "Once")
    await until(lambda: not second.exists())
    await page.wait_for("document.querySelector('#waiting').hidden")
    await other.close()


async def test_the_chat_of_a_request_is_one_click_away(
    page: Page, site: Site, browser: Browser, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "old")
    other = await browser.new_page()
    await other.go(site.address + "#00000000000000cc")
    await other.wait_for("document.querySelector('#about').textContent")
    await ask_to_delete(other, folder)
    await page.wait_for("document.querySelector('.chat[href=\"#00000000000000cc\"]')?.innerText.includes('run rm -r')")
    await page.click(".asked-in a")
    await page.wait_for("location.hash === '#00000000000000cc' && document.querySelector('.asking .choices')")
    await choose(page, ".asking .choices", "Deny")
    await page.wait_for("document.querySelector('.answer:not(.draft)')")
    await other.close()


async def test_markup_in_a_request_is_only_text(page: Page, site: Site, browser: Browser, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "<img src=x onerror=alert(1)>")
    other = await browser.new_page()
    await other.go(site.address + "#00000000000000bb")
    await other.wait_for("document.querySelector('#about').textContent")
    await send(other, f"run rm -r '{folder}'")
    await page.wait_for("!document.querySelector('#waiting').hidden")
    assert "<img src=x onerror=alert(1)>" in await page.text("#waiting pre")
    assert await page.count("#waiting img") == 0
    await choose(page, ".question .choices", "Deny")
    await other.wait_for("document.querySelector('.notice')?.innerText.includes('Denied')")
    assert other.dialogs == []
    await other.close()
