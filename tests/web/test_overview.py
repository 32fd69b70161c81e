"""The operator's page in a real browser."""

import pytest

from tests.programs import needs
from tests.web.browser import Page
from tests.web.conftest import Site

pytestmark = [needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

SECTIONS = ("status", "people", "messages", "conversations", "processes", "jobs", "usage", "logs", "doctor")


async def test_every_section_is_shown_without_an_error(site: Site, page: Page) -> None:
    await page.go(f"{site.address}overview")
    await page.wait_for("document.querySelectorAll('#tabs a').length === 10")
    for section in SECTIONS:
        await page.run(f"location.hash = '{section}'")
        await page.wait_for(
            f"document.querySelector('#tabs [aria-current]').hash === '#{section}' && "
            "document.querySelector('#panel h2, #panel table, #panel p:not(:has(.spinner))') !== null"
        )
        assert await page.run("document.getElementById('problem').hidden")
    assert "gateway" in (await page.text("#panel")).lower()


async def test_the_doctor_leaves_the_locks_of_the_database_alone(site: Site, page: Page) -> None:
    await page.go(f"{site.address}overview#doctor")
    await page.wait_for("document.querySelector('#panel table, #panel h2') !== null")
    assert await page.run("fetch('/api/overview/doctor').then((answer) => answer.status)") == 200
    # A command that leaves the database deletes its log unless somebody else has it open; the link would be lost.
    visitor = await page.browser.new_page(apart=True)
    await visitor.go(await site.new_link())
    await visitor.wait_for("document.querySelector('#about')?.textContent")
    await visitor.close()
