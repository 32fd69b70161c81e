"""The chat page in a real browser, against a real gateway."""

import re
from pathlib import Path

import pytest

from tests.programs import needs
from tests.web.browser import Browser, Page
from tests.web.conftest import Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs("chromium")]


async def send(page: Page, text: str) -> None:
    await page.type(text, into="#message")
    await page.press("Enter")


async def ask(page: Page, text: str) -> str:
    """Send a message and return the visible text of its complete answer."""
    before = await page.count(".answer:not(.draft)")
    await send(page, text)
    await page.wait_for(f"document.querySelectorAll('.answer:not(.draft)').length > {before}")
    return str(await page.run("[...document.querySelectorAll('.answer:not(.draft) .prose')].at(-1).innerText"))


# Login


async def test_the_link_works_once_and_leaves_no_token_behind(site: Site, browser: Browser) -> None:
    link = await site.new_link()
    page = await browser.new_page(apart=True)
    await page.go(link)
    await page.wait_for("document.querySelector('#about')?.textContent")
    assert "token" not in await page.run("location.href + document.referrer")
    await page.close()
    stranger = await browser.new_page(apart=True)
    await stranger.go(link)
    assert "hermes web" in await stranger.text("body")
    assert await stranger.count("#composer") == 0
    await stranger.close()


async def test_a_page_with_a_lost_login_says_how_to_get_a_new_link(site: Site, browser: Browser) -> None:
    page = await browser.new_page(apart=True)
    await page.go(await site.new_link())
    await page.wait_for("document.querySelector('#about')?.textContent")
    await page.type("not lost", into="#message")
    await page.call("Network.clearBrowserCookies")
    await page.press("k", "Control")
    await page.type("anything")
    await page.wait_for("!document.querySelector('#locked').hidden")
    assert "hermes web" in await page.text("#locked")
    assert not await page.run("document.querySelector('#composer').checkVisibility()")
    # Looking at the locked page again does not open new connections.
    await page.run("window.Real = WebSocket; window.WebSocket = function () { window.connected = true }; null")
    await page.run("document.dispatchEvent(new Event('visibilitychange')); dispatchEvent(new Event('online')); null")
    assert not await page.run("window.connected")
    await page.run("window.WebSocket = window.Real; null")
    # Once a new link was opened in the same browser, it goes on where it was.
    await page.run(f"fetch('{await site.new_link()}').then(() => dispatchEvent(new Event('focus')))")
    await page.wait_for("document.querySelector('#locked').hidden")
    assert await page.run("document.querySelector('#message').value") == "not lost"
    await ask(page, ", any of it")
    assert await page.text(".bubble") == "not lost, any of it"
    await page.close()


# Talking


async def test_a_question_gets_its_answer_and_the_chat_its_name(page: Page) -> None:
    assert "391" in await ask(page, "what is 17 * 23?")
    await page.wait_for("document.title === 'what is 17 * 23? – Hermes'")
    await page.wait_for("document.querySelector('.chat[aria-current]')?.innerText.includes('what is 17 * 23?')")
    assert await page.run("document.querySelector('#message').value") == ""
    assert await page.run("document.activeElement.id") == "message"
    assert "391" in await page.run("document.querySelector('#spoken').textContent")


async def test_a_new_chat_is_listed_under_its_first_message_while_it_is_answered(page: Page, site: Site) -> None:
    site.go(False)
    await send(page, "hold A story that is not finished yet.")
    await page.wait_for("document.querySelector('.chat[aria-current]')?.innerText.includes('hold A story')")
    await page.wait_for("document.querySelector('#title').innerText === 'hold A story that is not finished yet.'")
    assert await page.count(".chat[aria-current] .working") == 1
    site.go()
    await page.wait_for("document.querySelector('.chat[aria-current] time')")


async def test_the_examples_of_an_empty_chat_work(page: Page) -> None:
    await page.click(".example:nth-child(2)")
    await page.wait_for("document.querySelector('.answer:not(.draft)')?.innerText.includes('water the plants')")
    assert await page.run("document.querySelector('#empty').hidden")


async def test_tool_activity_unfolds(page: Page) -> None:
    await ask(page, "what time is it in Asia/Tokyo?")
    assert await page.text(".answer .tool-name") == "clock"
    assert not await page.run("document.querySelector('.answer details').open")
    await page.click(".answer summary")
    await page.wait_for("document.querySelector('.tool-body')?.innerText.includes('\"timezone\": \"Asia/Tokyo\"')")
    assert await page.count(".tool-body section") == 2
    assert await page.count(".tool-state.done") == 1


async def test_the_output_of_a_command_is_shown_as_it_was_printed(page: Page) -> None:
    await ask(page, "run printf 'one\\n\\ttwo\\n'; exit 3")
    for _ in range(2):  # as it was told, and as it is found again
        await page.click(".answer summary")
        await page.wait_for("document.querySelector('.tool-body')")
        assert await page.run("document.querySelector('.tool-output pre').textContent") == "one\n\ttwo\n"
        assert "Exit code: 3" in await page.text(".tool-output")
        await page.reload()
        await page.wait_for("document.querySelector('.answer summary')")


async def test_long_output_is_shown_as_it_was_printed_after_a_reload(page: Page) -> None:
    await ask(page, "run seq 1 6000")
    await page.reload()
    await page.wait_for("document.querySelector('.answer summary')")
    await page.run("document.querySelector('.answer summary').click()")  # the mouse may miss it: the page scrolls
    await page.wait_for("document.querySelector('.tool-output pre')?.textContent.startsWith('1\\n2\\n3\\n')")
    assert "Exit code: 0" in await page.text(".tool-output")


async def test_an_answer_is_shown_while_it_is_written(page: Page, site: Site) -> None:
    site.go(False)
    await send(page, "hold The first half is here, **and bold. The second half** comes later.")
    # What is still open is shown as it will be.
    await page.wait_for("document.querySelector('.draft strong')?.innerText.includes('and bo')")
    assert "first half" in await page.text(".draft")
    assert "second half" not in await page.text(".draft")
    assert await page.run("document.querySelector('#stop').checkVisibility()")
    assert await page.run("document.querySelector('#spoken').textContent") == ""
    site.go()
    await page.wait_for("document.querySelector('.answer:not(.draft)')?.innerText.includes('comes later')")
    assert await page.count(".draft") == 0
    await page.wait_for("document.querySelector('#stop').hidden")


@pytest.mark.parametrize("how", ["button", "key"])
async def test_an_answer_can_be_stopped(page: Page, site: Site, how: str) -> None:
    site.go(False)
    await send(page, "hold This will never be finished, will it?")
    await page.wait_for("document.querySelector('.draft .streaming')?.innerText.includes('This will')")
    await (page.click("#stop") if how == "button" else page.press("Escape"))
    await page.wait_for("document.querySelector('#timeline').innerText.includes('Stopped')")
    await page.wait_for("document.querySelector('#stop').hidden && !document.querySelector('.draft')")
    assert "finished, will it" not in await page.text(".answer .prose")
    site.go()
    assert "391" in await ask(page, "what is 17 * 23?")


async def test_escape_while_a_word_is_composed_does_not_stop_the_answer(page: Page, site: Site) -> None:
    site.go(False)
    await send(page, "hold This goes on to its very end.")
    await page.wait_for("document.querySelector('.draft .streaming')?.innerText.includes('This goes')")
    await page.compose("にほん")
    await page.press("Escape")
    site.go()
    await page.wait_for("document.querySelector('.answer:not(.draft)')?.innerText.includes('very end')")
    assert await page.count(".entry.user") == 1  # no "/stop"


async def test_help_has_headings_and_a_list_of_commands(page: Page) -> None:
    await ask(page, "/help")
    headings = await page.run("[...document.querySelectorAll('.answer .prose strong')].map((one) => one.innerText)")
    assert headings == ["Session", "Agent", "Access", "Help"]
    items = await page.run("[...document.querySelectorAll('.answer .prose li')].map((one) => one.innerText)")
    assert "/new, /reset: Start a new conversation" in items
    assert "/help [COMMAND]: List the commands, or explain one" in items


OFFERED = "[...document.querySelectorAll('#commands:not([hidden]) b')].map((one) => one.innerText)"


async def test_a_slash_offers_the_commands(page: Page) -> None:
    await page.type("/", into="#message")
    assert {"/new", "/stop", "/help"} <= set(await page.run(OFFERED))
    await page.type("st")
    assert await page.run(OFFERED) == ["/stop", "/status"]
    await page.press("ArrowDown")
    assert "/status" in await page.text("#commands [aria-selected='true']")
    await page.press("ArrowDown")  # from the last to the first
    await page.press("Tab")
    assert await page.run("[document.querySelector('#message').value, document.activeElement.id]") == [
        "/stop ",
        "message",
    ]
    assert await page.run(OFFERED) == []
    await page.run("document.querySelector('#message').select()")
    await page.type("/stat")
    await page.press("Enter")  # completes it
    assert await page.run("document.querySelector('#message').value") == "/status"
    await page.press("Enter")  # sends it
    await page.wait_for("document.querySelector('.answer .prose')?.innerText.includes('Model: echo')")


async def test_the_command_menu_closes_with_escape_and_takes_a_click(page: Page, site: Site) -> None:
    site.go(False)
    await send(page, "hold This goes on to its very end.")
    await page.wait_for("document.querySelector('.draft .streaming')")
    await page.type("/he", into="#message")
    await page.press("Escape")
    assert await page.run(OFFERED) == []
    await page.run("document.querySelector('#message').select()")
    await page.type("what about / and /help inside")
    assert await page.run(OFFERED) == []
    await page.run("document.querySelector('#message').select()")
    await page.type("/he")
    await page.click("#commands li")
    assert await page.run("document.querySelector('#message').value") == "/help "  # a name may follow
    site.go()
    await page.wait_for("document.querySelector('.answer:not(.draft)')?.innerText.includes('very end')")
    assert await page.count(".entry.user") == 1  # Escape closed the menu, and stopped nothing


@pytest.mark.parametrize("reloaded", [False, True])
async def test_a_failed_turn_can_be_tried_again(page: Page, site: Site, tmp_path: Path, reloaded: bool) -> None:
    site.go(False)
    (tmp_path / "plán.txt").write_text("water the plants")
    await page.choose_files("#picker", tmp_path / "plán.txt")
    await page.wait_for("document.querySelector('.chip.ready')")
    await send(page, "try to answer this")
    await page.wait_for("document.querySelector('.answer.failed')?.innerText.includes('did not answer')")
    if reloaded:
        await page.reload()
    site.go()
    await page.click(".answer.failed .try-again")
    await page.wait_for("document.querySelector('.answer:not(.failed, .draft)')?.innerText.includes('to answer this')")
    bubbles = await page.run("[...document.querySelectorAll('.bubble')].map((one) => one.innerText)")
    assert bubbles == ["try to answer this"] * 2
    names = await page.run("[...document.querySelectorAll('.user .file-name')].map((one) => one.innerText)")
    assert names == ["plán.txt"] * 2
    assert await page.count(".try-again") == 0  # the newer message is the one that counts


async def test_two_tabs_see_the_same(page: Page, site: Site, browser: Browser) -> None:
    site.go(False)
    other = await browser.new_page()
    await other.go(site.address + await page.run("location.hash"))
    await send(page, "hold Both of us can read this.")
    await other.wait_for("document.querySelector('.draft .streaming')?.innerText.includes('Both of')")
    site.go()
    for tab in (page, other):
        await tab.wait_for("document.querySelector('.answer:not(.draft)')?.innerText.includes('read this')")
        assert await tab.count(".entry.user") == 1
    await ask(other, "what is 2 + 3?")
    await page.wait_for("document.querySelector('#timeline').innerText.includes('2 + 3 = 5')")
    assert other.problems == []
    await other.close()


# Persistence


async def test_a_reload_keeps_everything(page: Page) -> None:
    await ask(page, "what time is it in Asia/Tokyo?")
    await ask(page, "say **kept**, and `code`")
    await page.click("#theme")
    await page.type("half a thou", into="#message")
    await page.press("Enter", "Shift")
    await page.type("ght")
    before = await page.run("[...document.querySelectorAll('.entry')].map((one) => one.textContent)")
    await page.reload()
    await page.wait_for("document.querySelectorAll('.entry').length === 4")
    assert await page.run("[...document.querySelectorAll('.entry')].map((one) => one.textContent)") == before
    assert await page.run("document.querySelector('#message').value") == "half a thou\nght"
    assert await page.run("document.documentElement.dataset.theme") == "light"
    await page.click("#theme")
    await page.click("#theme")


async def test_chats_keep_their_own_drafts_and_back_returns_to_the_last(page: Page) -> None:
    await ask(page, "say This one is about herons.")
    first = await page.run("location.hash")
    await page.type("a draft here", into="#message")
    await page.press("O", "Control", "Shift")
    await page.wait_for(f"location.hash !== '{first}' && !document.querySelector('#empty').hidden")
    assert await page.run("document.querySelector('#message').value") == ""
    await page.run("history.back()")
    await page.wait_for("document.querySelector('.answer')?.innerText.includes('herons')")
    assert await page.run("document.querySelector('#message').value") == "a draft here"


TITLES = "[...document.querySelectorAll('.chat-title')].map((one) => one.innerText)"


async def open_chat_menu(page: Page) -> None:
    await page.wait_for("document.querySelector('.chat[aria-current]')")
    await page.run("document.querySelector('.chat[aria-current]').focus()")
    await page.click(".chat[aria-current] + .chat-more")
    await page.wait_for("document.querySelector('#chat-menu').matches(':popover-open')")


async def test_a_chat_is_renamed_in_the_list(page: Page) -> None:
    await ask(page, "say Something to rename.")
    await open_chat_menu(page)
    await page.click("#chat-rename")
    assert await page.run("document.querySelector('#rename-input').value") == "say Something to rename."
    await page.type("<b>A better name</b>")  # over what was selected
    await page.press("Enter")
    await page.wait_for("document.title === '<b>A better name</b> – Hermes'")
    assert "<b>A better name</b>" in await page.run(TITLES)


async def test_a_chat_is_exported_from_the_list(page: Page) -> None:
    await ask(page, "say Something to keep.")
    await open_chat_menu(page)
    exported = await page.run("fetch(document.querySelector('#chat-export').href).then((answer) => answer.text())")
    assert exported.startswith("# say Something to keep.\n")
    assert exported.endswith("\n\nSomething to keep.\n")
    assert await page.run("document.querySelector('#chat-export').download") == ""  # the gateway names the file


async def test_a_chat_is_deleted_after_a_confirmation(page: Page, site: Site, browser: Browser) -> None:
    await ask(page, "say Something to forget.")
    deleted = await page.run("location.hash")
    other = await browser.new_page()
    await other.go(site.address + deleted)
    await other.wait_for("document.querySelector('.answer')")
    await open_chat_menu(page)
    await page.click("#chat-delete")
    assert await page.text("#delete-name") == "say Something to forget."
    await page.press("Escape")  # never mind
    await open_chat_menu(page)
    await page.press("ArrowUp")
    await page.press("Enter")
    await page.click("#delete-confirm")
    for tab in (page, other):
        await tab.wait_for(f"location.hash !== '{deleted}' && !document.querySelector('#empty').hidden")
        await tab.wait_for(f"!{TITLES}.includes('say Something to forget.')")
    assert other.problems == []
    await other.close()


async def test_a_chat_at_work_is_not_deleted(page: Page, site: Site) -> None:
    site.go(False)
    await send(page, "hold This goes on to its very end.")
    await page.wait_for("document.querySelector('.draft .streaming')")
    await open_chat_menu(page)
    await page.press("Escape")  # closes the menu, and stops nothing
    await open_chat_menu(page)
    await page.click("#chat-delete")
    await page.click("#delete-confirm")
    await page.wait_for("document.querySelector('#toast').innerText.includes('Stop it first')")
    site.go()
    await page.wait_for("document.querySelector('.answer:not(.draft)')?.innerText.includes('very end')")
    assert await page.count(".entry.user") == 1
    page.problems[:] = [one for one in page.problems if "409" not in one]  # the refusal itself


async def test_search_finds_a_word_in_another_chat(page: Page) -> None:
    await ask(page, "say The password of the day is xylophone.")
    await page.click("#new")
    await page.wait_for("!document.querySelector('#empty').hidden")
    await page.press("k", "Control")
    await page.type("xylophone")
    await page.wait_for("document.querySelector('.chat .excerpt mark')?.textContent === 'xylophone'")
    await page.press("ArrowDown")
    await page.press("Enter")
    await page.wait_for("document.querySelector('.answer')?.innerText.includes('xylophone')")


async def test_kill_nine_mid_answer_and_the_answer_arrives_by_itself(page: Page, site: Site) -> None:
    site.go(False)
    await send(page, "hold The answer to this survives, whatever happens.")
    await page.wait_for("document.querySelector('.draft .streaming')?.innerText.includes('The answer')")
    await site.kill()
    await page.wait_for("!document.querySelector('#offline').hidden")
    await send(page, "what is 17 * 23?")  # nobody is there to take it
    await page.wait_for("document.querySelector('.unsent')?.innerText.includes('Waiting to be sent')")
    site.go()
    await site.start()
    await page.wait_for("document.querySelector('#timeline').innerText.includes('whatever happens.')", seconds=30)
    await page.wait_for("document.querySelector('#timeline').innerText.includes('17 * 23 = 391')", seconds=30)
    assert await page.run("document.querySelector('#offline').hidden")
    assert await page.count(".unsent") == 0
    shown = await page.run("[...document.querySelectorAll('.entry .bubble')].map((one) => one.innerText)")
    assert shown == ["hold The answer to this survives, whatever happens.", "what is 17 * 23?"]
    page.problems.clear()  # connections that were refused meanwhile


async def test_a_deferred_message_is_not_overtaken(page: Page, site: Site) -> None:
    site.refuse("first")
    await send(page, "say The first.")
    await page.wait_for("document.querySelector('.unsent')?.innerText.includes('Waiting: there is no room just now')")
    await send(page, "say The second.")
    await page.wait_for("document.querySelectorAll('.entry.user').length === 2")
    await ask_elsewhere(page)
    assert await page.count(".unsent") == 2
    site.refuse("")
    await page.wait_for("document.querySelector('#timeline').innerText.includes('The second.')")
    await page.wait_for("!document.querySelector('.unsent')")
    await page.reload()
    await page.wait_for("document.querySelectorAll('.bubble').length === 2")
    shown = await page.run("[...document.querySelectorAll('.bubble')].map((one) => one.innerText)")
    assert shown == ["say The first.", "say The second."]


async def begin_another(page: Page) -> None:
    """Open a new chat and wait until the old one is gone: its answers would be counted as the new one's."""
    await page.click("#new")
    await page.wait_for("!document.querySelector('#empty').hidden && !document.querySelector('.answer')")


async def ask_elsewhere(page: Page) -> None:
    """Send a message in another chat: once answered, the gateway has processed everything sent before it."""
    here = await page.run("location.hash")
    await begin_another(page)
    await ask(page, "say Elsewhere.")
    await page.run("history.back()")
    await page.wait_for(f"location.hash === '{here}' && document.querySelector('.unsent')")


HALF = "\\ud800"  # half a character, as JavaScript writes it: the gateway refuses it for good


async def test_a_refused_message_can_be_taken_back_and_blocks_no_other(page: Page, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    await page.choose_files("#picker", tmp_path / "notes.txt")
    await page.wait_for("document.querySelector('.chip.ready')")
    await page.run(f"document.querySelector('#message').value = 'say broken{HALF}'; null")
    await page.press("Enter")
    await page.wait_for("document.querySelector('.unsent.refused')?.innerText.includes('valid characters')")
    await page.click(".refused button:nth-of-type(1)")  # try again: no better
    await page.wait_for("document.querySelector('.unsent.refused')?.innerText.includes('valid characters')")
    await ask(page, "say Not held up.")
    many = [tmp_path / f"{number}.txt" for number in range(10)]
    for path in many:
        path.write_text(path.name)
    await page.choose_files("#picker", *many)
    await page.wait_for("document.querySelectorAll('.chip.ready').length === 10")
    await page.click(".refused button:nth-of-type(2)")  # take back: but where to?
    await page.wait_for("document.querySelector('#toast').innerText.includes('up to 10 files')")
    assert await page.count(".unsent.refused") == 1
    await page.click(".chip button")
    await page.type("written meanwhile", into="#message")
    await page.click(".refused button:nth-of-type(2)")
    await page.wait_for("!document.querySelector('.unsent') && document.querySelectorAll('.chip.ready').length === 10")
    await page.reload()
    await page.wait_for("document.querySelectorAll('.chip.ready').length === 10 && document.querySelector('.answer')")
    assert await page.run(f"document.querySelector('#message').value === 'written meanwhile\\nsay broken{HALF}'")
    await page.run("document.querySelector('#message').value = ''; null")
    await ask(page, "say mended")
    await page.wait_for(
        "document.querySelector('.entry.user:nth-last-child(2) .files')?.innerText.includes('notes.txt')"
    )


# Files


async def test_a_picture_travels_both_ways_and_enlarges(page: Page, tmp_path: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PNG)
    await page.choose_files("#picker", picture)
    await page.wait_for("document.querySelector('.chip.ready img')")
    await send(page, "say Nice picture.")
    await page.wait_for("document.querySelector('.user .picture img')?.naturalWidth === 1")
    await page.wait_for("document.querySelector('.answer:not(.draft)')")  # until then what is clicked on moves
    await page.click(".user .picture")
    await page.wait_for("document.querySelector('#viewer').open")
    await page.press("Escape")
    await page.wait_for("!document.querySelector('#viewer').open")


async def test_a_pasted_file_can_be_removed_and_an_empty_one_is_refused(page: Page) -> None:
    await page.run(
        "(() => { const files = new DataTransfer(); files.items.add(new File(['notes'], 'notes.txt'));"
        "files.items.add(new File([], 'nothing.txt'));"
        "document.querySelector('#message').dispatchEvent("
        "new ClipboardEvent('paste', {clipboardData: files, bubbles: true, cancelable: true})) })()"
    )
    await page.wait_for("document.querySelectorAll('.chip').length === 2 && document.querySelector('.chip.ready')")
    assert "empty" in await page.text(".chip.failed")
    await page.click(".chip.ready button")
    await page.click(".chip.failed button")
    await page.wait_for("document.querySelector('#tray').hidden")


CUT_OFF = """XMLHttpRequest.prototype.send = function () {
  XMLHttpRequest.prototype.send = window.realSend;
  window.cutOff = () => this.dispatchEvent(new Event('error'));
}; null"""
FAILED = "A file could not be uploaded. Try again or remove it."


async def test_nothing_is_sent_without_a_file_that_failed(page: Page, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    await page.run("window.realSend = XMLHttpRequest.prototype.send; null")
    await page.run(CUT_OFF)
    await page.choose_files("#picker", tmp_path / "notes.txt")
    await send(page, "say Read the notes.")
    await page.wait_for("document.querySelector('#hint').innerText === 'Will be sent when the files are uploaded.'")
    await page.run("window.cutOff()")
    await page.wait_for("document.querySelector('.chip.failed')")
    await page.press("Enter")
    await page.wait_for(f"document.querySelector('#hint').innerText === '{FAILED}'")
    assert await page.count(".entry") == 0
    assert await page.run("document.querySelector('#message').value") == "say Read the notes."
    # Tried again, it goes, and only when it is told to.
    await page.click(".chip.failed button")
    await page.wait_for("document.querySelector('.chip.ready')")
    assert await page.text("#hint") == ""
    assert await page.count(".entry") == 0
    await ask(page, " Please.")
    assert await page.text(".bubble") == "say Read the notes. Please."
    assert "notes.txt" in await page.text(".user .files")


async def test_one_failed_file_of_two_is_reported_at_once_and_can_be_removed(page: Page, tmp_path: Path) -> None:
    for name in ("empty.txt", "full.txt"):
        (tmp_path / name).write_text(name.removeprefix("empty.txt"))
    await page.choose_files("#picker", tmp_path / "empty.txt", tmp_path / "full.txt")
    await send(page, "say One is enough.")
    await page.wait_for(f"document.querySelector('#hint').innerText === '{FAILED}'")
    await page.wait_for("document.querySelector('.chip.ready')")
    assert await page.count(".entry") == 0
    await page.click(".chip.failed button")
    await page.wait_for("!document.querySelector('.chip.failed')")
    assert await page.text("#hint") == ""
    await page.press("Enter")
    await page.wait_for("document.querySelector('.user .files')?.innerText.includes('full.txt')")
    assert await page.count(".user .file") == 1


async def test_files_are_dropped_anywhere(page: Page, tmp_path: Path) -> None:
    (tmp_path / "dropped.txt").write_text("notes")
    await page.drag_files("dragEnter", tmp_path / "dropped.txt")
    await page.wait_for("document.querySelector('#main.dropping .drop')?.checkVisibility()")
    await page.drag_files("dragOver", tmp_path / "dropped.txt")
    await page.drag_files("drop", tmp_path / "dropped.txt")
    await page.wait_for("document.querySelector('.chip.ready')?.innerText.includes('dropped.txt')")
    assert await page.count("#main.dropping") == 0
    assert await page.run("document.activeElement.id") == "message"


# Markup


NASTY = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><iframe srcdoc='<script>alert(1)</script>'></iframe></svg>",
    "[click](javascript:alert(1)) [tab](java\tscript:alert(1)) [caps](JaVaScRiPt:alert(1))",
    "[html](data:text/html,<script>alert(1)</script>) [vb](vbscript:x) [blob](blob:null/1) [file](file:///etc/passwd)",
    '<javascript:alert(1)> <https://example.org/"onmouseover=alert(1)>',
    "![out](https://tracker.invalid/pixel.png) ![data](data:image/svg+xml,<svg/onload=alert(1)>)",
    "![up](/media/../api/about) ![own](/media/x.svg) [two](//example.org) [here](/api/chats)",
    '[a](https://example.org/"onclick="alert(1)) [b](<https://example.org/ onclick=alert(1)>)',
    "`<script>alert(1)</script>` **<b onclick=alert(1)>x</b>**",
    '```"><script>alert(1)</script>\n</code></pre><script>alert(1)</script>\n```',
    "| <img src=x onerror=alert(1)> | b |\n|--|--|\n| <script>alert(1)</script> | [x](javascript:alert(1)) |",
    "> # <details open ontoggle=alert(1)>\n> - <input autofocus onfocus=alert(1)>",
    "</li></ol></main><h1>out of the box</h1>",
]
SAFE = """(() => {
  const elements = [...document.querySelectorAll('#timeline *, #chats *, #title, #tray *')];
  return elements.flatMap((one) => [
    ...(/^(SCRIPT|IFRAME|OBJECT|EMBED|STYLE|LINK|FORM|BASE|META)$/.test(one.tagName) ? [one.tagName] : []),
    ...one.getAttributeNames().filter((name) => name.startsWith('on') || name === 'style' || name === 'srcdoc'),
    ...(one.tagName === 'A' && !/^(https?:|mailto:)/.test(one.href) ? [one.href] : []),
    ...(one.tagName === 'A' && one.target && !one.rel.includes('noopener') ? ['opener'] : []),
    ...(one.tagName === 'IMG' && !one.src.startsWith(`${location.origin}/media/`) && !one.src.startsWith('blob:')
      ? [one.src] : []),
  ])
})()"""


async def test_markup_in_messages_answers_and_titles_is_only_text(page: Page) -> None:
    for text in NASTY:
        await ask(page, f"say {text}")
        assert await page.run(SAFE) == [], text
    assert await page.count("main h1") == 1
    shown = await page.text("#timeline")
    assert shown.count("<script>alert(1)</script>") >= 6  # not swallowed either
    await begin_another(page)
    await ask(page, "<img src=x onerror=alert(1)>")
    await page.wait_for("document.querySelector('#title').textContent.includes('onerror')")
    await page.reload()
    await page.wait_for("document.querySelector('.answer')")
    assert await page.run(SAFE) == []


async def test_markup_in_a_file_name_is_only_text(page: Page, tmp_path: Path) -> None:
    for name in ("<img src=x onerror=alert(1)>.png", '"><script>alert(1)<script>.txt', "\u202egnp.exe"):
        (tmp_path / name).write_bytes(b"<script>alert(1)</script>")
        await page.choose_files("#picker", tmp_path / name)
    await page.wait_for("document.querySelectorAll('.chip.ready').length === 3")
    assert await page.run(SAFE) == []
    await send(page, "say thanks")
    await page.wait_for("document.querySelector('.answer:not(.draft)')")
    await page.wait_for("document.querySelectorAll('.user .file').length === 3")  # what is no picture becomes a card
    assert await page.run(SAFE) == []
    assert "onerror" in await page.text(".user .files")


async def test_markup_in_a_tool_result_is_only_text(page: Page) -> None:
    await ask(page, "todo: <img src=x onerror=alert(1)>")
    await page.click(".answer summary")
    await page.wait_for("document.querySelector('.tool-body')?.innerText.includes('onerror')")
    assert await page.run(SAFE) == []


# Layout and accessibility


LONG = "say " + "\n\n".join(
    [
        "x" * 400,
        "`" + "y" * 300 + "`",
        "```\n" + "z" * 300 + "\n```",
        "| " + " | ".join("abcdefgh") + " |\n" + "|--" * 8 + "|",
    ]
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_shows_everything_without_scrolling_sideways(page: Page, scheme: str) -> None:
    await page.set_viewport(390, 844, phone=True)
    await page.set_colours(scheme)
    await ask(page, LONG)
    await ask(page, "what time is it in Asia/Tokyo?")
    await page.click(".answer summary")
    assert await page.run("document.documentElement.scrollWidth") == 390
    assert await page.run("document.querySelector('#scroll').scrollWidth <= 390")
    assert await page.run("document.querySelector('#side').inert")
    await page.click("#menu")
    await page.wait_for("document.querySelector('#side').getBoundingClientRect().x === 0")
    await page.click(".chat[aria-current]")
    paper = await page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(paper) > 600) == (scheme == "light")


async def test_a_reader_further_up_is_not_scrolled_down(page: Page) -> None:
    await ask(page, "say " + "\n\n".join(f"Line {number}" for number in range(60)))
    await page.wait_for("document.querySelector('#scroll').scrollTop > 500 && document.querySelector('#jump').hidden")
    await page.run("document.querySelector('#scroll').scrollTo(0, 100)")
    await page.wait_for("!document.querySelector('#jump').hidden")
    await page.run("document.querySelector('.answer .prose').append('one more line')")
    assert await page.run("document.querySelector('#scroll').scrollTop") == 100
    await page.click("#jump")
    await page.wait_for("document.querySelector('#jump').hidden && document.querySelector('#scroll').scrollTop > 500")


async def test_content_that_grows_before_a_scroll_event_is_still_followed(page: Page) -> None:
    await ask(page, "say " + "\n\n".join(f"Line {number}" for number in range(60)))
    await page.wait_for("document.querySelector('#scroll').scrollTop > 500 && document.querySelector('#jump').hidden")
    grow = "(() => { const grown = document.createElement('pre'); grown.textContent = '\\n'.repeat(20);"
    await page.run(
        grow + "document.querySelector('.answer .prose').append(grown);"
        "document.querySelector('#scroll').dispatchEvent(new Event('scroll')) })()"
    )
    await page.wait_for(
        "(({scrollHeight, scrollTop, clientHeight}) => scrollHeight - scrollTop - clientHeight < 2)"
        "(document.querySelector('#scroll'))",
        seconds=5,
    )
    assert await page.run("document.querySelector('#jump').hidden")


async def test_everything_that_can_be_used_has_a_name(page: Page) -> None:
    await ask(page, "say ```python\nprint(1)\n```")
    await ask(page, "what time is it in Asia/Tokyo?")
    tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
    used = [node for node in tree if node.get("role", {}).get("value") in ("button", "link", "textbox", "searchbox")]
    assert len(used) > 8
    assert [node for node in used if not node.get("name", {}).get("value")] == []
    roles = {node.get("role", {}).get("value") for node in tree}
    assert {"main", "navigation", "banner", "search", "form"} & roles >= {"main", "navigation", "search", "form"}


async def test_a_question_mark_shows_the_shortcuts(page: Page) -> None:
    await page.run("document.querySelector('#scroll').focus()")
    await page.press("?", "Shift")
    await page.wait_for("document.querySelector('#help').open")
    await page.press("Escape")
    await page.wait_for("!document.querySelector('#help').open")


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)


async def test_no_file_of_the_page_names_another_machine() -> None:
    static = Path(__file__).parents[2] / "gateway" / "web" / "static"
    for file in static.iterdir():
        named = set(re.findall(r"https?://[\w.-]+", file.read_text()))
        assert named <= {"http://www.w3.org"}, file.name  # the name of SVG, which nobody asks
