"""The whole playground in a real browser, with a real gateway: what a newcomer does first."""

import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from playground.discord.server import DiscordServer
from playground.page.server import Playground, playground
from tests.playground.page.scene import ROOT
from tests.programs import needs
from tests.web.browser import Browser, Page, open_browser

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs("chromium")]

SECONDS = 30.0  # for anything; on an idle machine it takes milliseconds
ADA = {"telegram": "1002", "discord": "1200000000000000002", "slack": "U0ADA00001"}
PICTURE = (
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


@dataclass(kw_only=True)
class Table:
    """The page as somebody uses it: by eye, mouse and keys."""

    on: Playground
    page: Page

    async def speak_as(self, platform: str, person: str) -> None:
        chosen = f"document.querySelector('.{platform} .person')"
        await self.page.run(f"{chosen}.value = {json.dumps(person)}; {chosen}.dispatchEvent(new Event('change')); null")
        await self.page.wait_for(f"{chosen}.value === {json.dumps(person)}")

    async def say(self, platform: str, text: str) -> None:
        await self.page.type(text, into=f".slot.{platform} textarea")
        await self.page.press("Enter")

    async def hear(self, platform: str, words: str) -> None:
        """Until the bot has said so on this phone."""
        said = f"[...document.querySelectorAll('.{platform} .bot .words')].some((one) => one.innerText.includes("
        await self.page.wait_for(f"{said}{json.dumps(words)}))", seconds=SECONDS)

    async def count(self, platform: str, words: str) -> int:
        """How many of the bot's messages say so."""
        every = f"[...document.querySelectorAll('.{platform} .bot .words')]"
        return int(await self.page.run(f"{every}.filter((one) => one.innerText.includes({json.dumps(words)})).length"))

    async def ask(self, platform: str, text: str, words: str) -> None:
        await self.say(platform, text)
        await self.hear(platform, words)

    async def go(self, platform: str, title: str) -> None:
        """To another chat, by the list."""
        await self.page.click(f".slot.{platform} .back")
        places = f"[...document.querySelectorAll('.{platform} .place')]"
        await self.page.run(f"{places}.find((one) => one.innerText.includes({json.dumps(title)})).click(); null")
        await self.page.wait_for(
            f"document.querySelector('.{platform} .titles b').innerText.includes({json.dumps(title)})"
        )

    async def until_gateway(self, state: str) -> None:
        await self.page.wait_for(f"document.querySelector('#gateway').dataset.state === '{state}'", seconds=SECONDS)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running() -> AsyncIterator[Playground]:
    guarded = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "guard")}
    async with playground(command=(sys.executable, "-m", "hermes_cli"), environment=guarded, cwd=ROOT) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def table(running: Playground, browser: Browser) -> AsyncIterator[Table]:
    """A page on a running gateway. Nothing may have gone wrong on it by the end of the test."""
    for phone in running.phones.values():  # whatever the test before has left
        await phone.restore()
    if not running.gateway.is_alive:
        await running.gateway.start()
    page = await browser.new_page()
    await page.set_viewport(1440, 900)
    await page.go(running.link)
    made = Table(on=running, page=page)
    await made.until_gateway("running")
    discord = running.phones["discord"].stage
    assert isinstance(discord, DiscordServer)
    # Of a direct chat that is new to the bot, nothing is told that was said before.
    await discord.wait_for(lambda: discord.gateway.connected, seconds=SECONDS)
    yield made
    problems, dialogs = page.problems, page.dialogs
    await page.close()
    assert problems == []
    assert dialogs == []


@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
async def test_a_stranger_is_let_in_from_the_terminal_and_answered(table: Table, platform: str) -> None:
    await table.speak_as(platform, ADA[platform])
    await table.ask(platform, "hello", f"hermes pairing approve {platform}")
    await table.page.click("#commands .fresh .main-knob")
    await table.hear(platform, "You are in")
    await table.ask(platform, "what is 6 * 7?", "6 * 7 = 42")
    await table.page.wait_for("document.querySelector('#output').innerText.includes('is in as member')")
    await table.page.wait_for("!document.querySelector('#commands .fresh')")
    await table.page.wait_for(
        f"[...document.querySelectorAll('#trails .{platform}')].some((one) => one.innerText.includes('what is 6 * 7?')"
        " && one.innerText.includes('accepted') && one.innerText.includes('sent'))"
    )
    await table.page.wait_for("document.querySelector('.t-outbox').innerText.includes('6 * 7 = 42')")


async def test_what_is_said_right_after_the_phone_was_handed_over_is_said_by_the_new_one(table: Table) -> None:
    ben = "1003"
    await table.page.run(
        "(() => { const [who, box] = ['.person', 'textarea'].map((one) => document.querySelector(`.telegram ${one}`));"
        f"who.value = '{ben}'; who.dispatchEvent(new Event('change')); box.value = 'at once';"
        "box.dispatchEvent(new Event('input'));"
        "box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true })) })()"
    )
    mine = "[...document.querySelectorAll('.telegram .mine')].some((one) => one.innerText.includes('at once'))"
    await table.page.wait_for(f"document.querySelector('.telegram .person').value === '{ben}' && {mine}")


async def test_a_button_is_pressed(table: Table) -> None:
    await table.ask("telegram", "what is 20 + 3?", "= 23")
    await table.ask("telegram", "/new", "A new conversation begins")
    await table.ask("telegram", "what is 30 + 4?", "= 34")
    await table.ask("telegram", "/resume", "Conversations to go back to")
    await table.page.click(".slot.telegram .press")
    await table.hear("telegram", "You are back in")
    trail = "[...document.querySelectorAll('#trails .telegram')].find((one) => one.innerText.includes('button'))"
    await table.page.wait_for(f"{trail} && !{trail}.classList.contains('open')")
    assert await table.page.run(f"{trail}.querySelector('.step:last-child').innerText.includes('sent')")
    assert "…" not in await table.page.run(f"{trail}.querySelector('.total').innerText")


@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
async def test_a_question_waits_and_is_no_answer_until_it_is_decided(table: Table, platform: str) -> None:
    asked = f"run rm -rf {platform}-junk outside the sandbox"
    await table.speak_as(platform, table.on.phones[platform].owner)
    await table.ask(platform, asked, f"rm -rf {platform}-junk")
    line = f"[...document.querySelectorAll('#trails .{platform}')].find((one) => one.innerText.includes({asked!r}))"
    await table.page.wait_for(f"{line}?.innerText.includes('asked ✓')", seconds=SECONDS)
    told = str(await table.page.run(f"{line}.innerText"))
    assert "terminal waits for approval" in told
    assert "sent ✓" not in told
    assert await table.page.run(f"{line}.classList.contains('open')")
    await table.page.run(
        f"[...document.querySelectorAll('.{platform} .press')].findLast((one) => one.innerText === 'Deny').click()"
    )
    await table.page.wait_for(f"{line}.innerText.includes('sent ✓')", seconds=SECONDS)
    told = str(await table.page.run(f"{line}.innerText"))
    assert "denied" in told
    assert "terminal not run" in told


async def test_a_file_is_sent_and_a_picture_comes_back(table: Table, tmp_path: Path) -> None:
    notes, picture = tmp_path / "notes.txt", tmp_path / "dot.png"
    notes.write_text("roses need water")
    picture.write_bytes(bytes.fromhex(PICTURE))
    await table.page.choose_files(".slot.discord input[type=file]", notes)
    await table.hear("discord", "notes.txt")
    assert "notes.txt" in await table.page.text(".slot.discord .mine .file")
    await table.page.set_viewport(1280, 800)
    for kind in ("dragEnter", "dragOver", "drop"):
        await table.page.drag_files(kind, picture)  # over Slack, which is in the middle then
    await table.hear("slack", "dot.png")
    await table.page.wait_for("document.querySelector('.slack .mine .picture img').naturalWidth === 1")


async def test_a_voice_note_is_sent_from_the_menu(table: Table) -> None:
    await table.page.click(".slot.telegram .plus")
    await table.page.click(".slot.telegram .attach button:last-child")
    await table.page.wait_for("document.querySelector('.telegram .mine audio')?.duration > 2", seconds=SECONDS)
    await table.hear("telegram", "voice.ogg")


async def test_in_a_group_and_its_topic_the_bot_answers_when_mentioned(table: Table) -> None:
    await table.go("telegram", "Garden club")
    await table.say("telegram", "nobody is asked here")
    await table.page.click(".slot.telegram .at")
    await table.page.type("what is 5 * 5?")
    await table.page.press("Enter")
    await table.hear("telegram", "= 25")
    await table.go("telegram", "Roses")
    await table.ask("telegram", "@hermes_bot what is 5 * 6?", "= 30")
    assert await table.count("telegram", "= 25") == 0
    await table.go("slack", "general")
    await table.say("slack", "@hermes what is 7 * 7?")
    await table.page.click(".slot.slack .thread")  # comes with the answer
    await table.hear("slack", "= 49")


async def test_somebody_new_joins_and_is_not_served_until_the_owner_allows_it(table: Table) -> None:
    await table.page.run(
        "(() => { const who = document.querySelector('.discord .person'); who.value = 'new';"
        "who.dispatchEvent(new Event('change')) })()"
    )
    await table.page.wait_for("document.querySelector('#ask').open")
    await table.page.type("Dora")
    await table.page.press("Enter")
    await table.page.wait_for("document.querySelector('.discord .person').selectedOptions[0].text === 'Dora'")
    await table.go("discord", "roses")
    await table.page.click(".slot.discord .join .press")
    await table.page.wait_for("document.querySelector('.discord .composer').checkVisibility()")
    await table.say("discord", "@hermes what is 8 * 8?")
    await table.page.wait_for("document.querySelector('.discord .mine')?.innerText.includes('8 * 8')")
    await table.speak_as("discord", table.on.phones["discord"].owner)
    await table.go("discord", "roses")
    await table.ask("discord", "@hermes /allow here", "Everyone in this group")
    await table.ask("discord", "@hermes what is 9 * 9?", "= 81")
    assert await table.count("discord", "= 64") == 0


async def test_what_is_said_while_the_line_is_cut_is_answered_once_it_is_mended(table: Table) -> None:
    await table.page.click(".slot.slack [data-line=down]")
    await table.page.wait_for("document.querySelector('.slot.slack').dataset.line === 'down'")
    await table.until_gateway("troubled")
    await table.say("slack", "what is 11 * 11?")
    await table.page.wait_for("document.querySelector('.slack .messages').innerText.includes('11 * 11')")
    await table.page.click(".slot.slack [data-line=up]")
    await table.hear("slack", "= 121")
    await table.until_gateway("running")
    assert await table.count("slack", "= 121") == 1


async def test_killed_in_the_middle_of_an_answer_it_answers_once(table: Table) -> None:
    await table.say("discord", "what can you do?")
    await table.page.wait_for("document.querySelector('.slot.discord').classList.contains('typing')", seconds=SECONDS)
    await table.page.click("#gateway-kill")
    await table.until_gateway("killed")
    assert await table.count("discord", "I can do arithmetic") == 0
    await table.page.click("#gateway-start")
    await table.hear("discord", "I can do arithmetic")
    await table.page.wait_for("document.querySelector('#trails').innerText.includes('resumed after crash')")
    await table.until_gateway("running")
    # Whatever else would still be said has been said before the answer to the next question.
    await table.ask("discord", "what is 12 * 12?", "= 144")
    assert await table.count("discord", "I can do arithmetic") == 1


async def test_what_people_type_is_never_markup(table: Table) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script> [x](javascript:alert(3)) <javascript:alert(4)|y>"
    for platform in ("telegram", "discord", "slack"):
        phone = table.on.phones[platform]
        person = phone.add_person("<b onclick=alert(5)>Eve</b>")
        phone.say(person, "dm", hostile)
        phone.stage.events.note("page")
        await table.page.wait_for(
            f"[...document.querySelectorAll('.{platform} .person option')].some((one) => one.value === '{person}')"
        )
        await table.speak_as(platform, person)
        await table.page.wait_for(
            f"document.querySelector('.{platform} .mine .words')?.innerText.includes('<img src=x onerror=alert(1)>')"
        )
    await table.page.wait_for("document.querySelector('#trails').innerText.includes('<b onclick')")
    assert await table.page.count("main script, main [onerror], main [onclick], main a[href^=javascript]") == 0


async def test_it_can_be_used_with_the_keyboard_alone(table: Table) -> None:
    box = ".slot.telegram textarea"
    await table.page.type("/sta", into=box)
    await table.page.wait_for("!document.querySelector('.telegram .slash').hidden")
    await table.page.press("Tab")
    await table.page.wait_for(f"document.querySelector('{box}').value.startsWith('/sta')")
    await table.page.run(f"document.querySelector('{box}').value = ''; null")
    await table.say("telegram", "first words")
    mine = "[...document.querySelectorAll('.telegram .mine')].at(-1)"
    await table.page.wait_for(f"{mine}?.innerText.includes('first words')")
    await table.page.run(f"{mine}.querySelector('.more').focus(); null")
    await table.page.press("Enter")
    await table.page.wait_for("document.activeElement.closest('.menu')")
    await table.page.run(
        "[...document.querySelectorAll('.menu button')].find((one) => one.innerText === 'Edit').focus()"
    )
    await table.page.press("Enter")
    await table.page.run(f"document.querySelector('{box}').select(); null")
    await table.say("telegram", "other words")
    await table.page.wait_for(f"{mine}.innerText.includes('other words') && {mine}.innerText.includes('edited')")


async def test_each_phone_names_its_platform(table: Table) -> None:
    for platform, name in (("telegram", "Telegram"), ("discord", "Discord"), ("slack", "Slack")):
        badge = f"document.querySelector('.slot.{platform} h2')"
        assert await table.page.run(f"{badge}.innerText") == name
        assert await table.page.run(f"{badge}.clientWidth >= 30 && {badge}.scrollWidth <= {badge}.clientWidth"), name


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
async def test_lists_of_commands_end_with_a_whole_row(table: Table, size: tuple[int, int]) -> None:
    page = table.page
    await page.set_viewport(*size)
    await page.type("/", into=".slot.discord textarea")
    await page.wait_for("document.querySelectorAll('.discord .slash li').length > 5")
    for rows in ("#commands", ".discord .slash"):
        end = f"document.querySelector('{rows}').getBoundingClientRect().bottom"
        cut = f"[...document.querySelectorAll('{rows} > li')].map((one) => one.getBoundingClientRect())"
        assert await page.run(f"{cut}.filter((one) => one.top < {end} - 2 && one.bottom > {end} + 2).length") == 0, rows


async def test_everything_is_in_sight_and_on_a_small_screen_behind_tabs(table: Table) -> None:
    page = table.page
    fits = "document.documentElement.scrollHeight <= innerHeight && document.documentElement.scrollWidth <= innerWidth"
    assert await page.run(fits)
    for part in (".slot.telegram", ".slot.discord", ".slot.slack", ".terminal", ".trail", ".rows"):
        box = f"document.querySelector('{part}').getBoundingClientRect()"
        assert await page.run(f"{box}.bottom <= innerHeight && {box}.right <= innerWidth && {box}.height > 150"), part
    await page.set_viewport(420, 800)
    await page.wait_for("!document.querySelector('.slot.slack').checkVisibility()")
    await page.run("document.querySelector('#tabs [data-part=telegram]').focus(); null")
    for _ in range(3):
        await page.press("ArrowRight")
    assert await page.run("document.querySelector('#output').checkVisibility()")
    assert not await page.run("document.querySelector('.slot.telegram').checkVisibility()")
    assert await page.run("document.documentElement.scrollWidth <= innerWidth")
