"""The page's own Markdown, in the browser that will show it."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.programs import needs
from tests.web.browser import Browser, Page
from tests.web.conftest import Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs("chromium")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(site: Site, browser: Browser) -> AsyncIterator[Page]:
    """One tab for all: these tests only call functions in it."""
    opened = await browser.new_page()
    await opened.go(site.address)
    yield opened
    assert opened.problems == []


CASES = {
    "*em* **strong** ***both*** ~~gone~~ `code`": (
        "<p><em>em</em> <strong>strong</strong> <em><strong>both</strong></em> <del>gone</del> <code>code</code></p>"
    ),
    "snake_case_word and 2 * 3 * 4 and \\*not\\*": "<p>snake_case_word and 2 * 3 * 4 and *not*</p>",
    "one\ntwo": "<p>one<br>two</p>",
    "# One\n### Three ###": '<h2 class="h1">One</h2><h4 class="h3">Three</h4>',
    "Title\n===": '<h2 class="h1">Title</h2>',
    "a\n\n---\n\nb": "<p>a</p><hr><p>b</p>",
    "1. one\n2. two\n   - deep\n     - deeper\n3. three": (
        "<ol><li>one</li><li>two<ul><li>deep<ul><li>deeper</li></ul></li></ul></li><li>three</li></ol>"
    ),
    "1. one\n  - two spaces\n2. two": "<ol><li>one<ul><li>two spaces</li></ul></li><li>two</li></ol>",
    "3. three\n4. four": '<ol start="3"><li>three</li><li>four</li></ol>',
    "- a\n\n- b": "<ul><li><p>a</p></li><li><p>b</p></li></ul>",
    "- a\n\n  more of a\n- b": "<ul><li><p>a</p><p>more of a</p></li><li><p>b</p></li></ul>",
    "Your list:\n1. milk\n2. bread": "<p>Your list:</p><ol><li>milk</li><li>bread</li></ol>",
    "In 1815.\n1816. was cold": "<p>In 1815.<br>1816. was cold</p>",
    "> quoted\n> > twice\nlazy": "<blockquote><p>quoted</p><blockquote><p>twice<br>lazy</p></blockquote></blockquote>",
    "[a](https://example.org/x_(y)) <https://example.org> see https://example.org/z.": (
        "<p>{a:https://example.org/x_(y)|a} {a:https://example.org/|https://example.org}"
        " see {a:https://example.org/z|https://example.org/z}.</p>"
    ),
    "[mail](mailto:a@example.org) [no](javascript:x)": "<p>{a:mailto:a@example.org|mail} no (javascript:x)</p>",
    "[**bold** `x`](https://example.org/)": "<p>{a:https://example.org/|<strong>bold</strong> <code>x</code>}</p>",
    "![alt](https://example.org/i.png)": "<p>{a:https://example.org/i.png|alt}</p>",
    "a [b] (c) [d": "<p>a [b] (c) [d</p>",
    "a &amp; b &lt;i&gt; <i>c</i><br>d": "<p>a &amp; b &lt;i&gt; &lt;i&gt;c&lt;/i&gt;<br>d</p>",
    "`` a ` b `` and `unclosed": "<p><code>a ` b</code> and `unclosed</p>",
    "**unclosed and *more": "<p>**unclosed and *more</p>",
}


@pytest.mark.parametrize("source", CASES, ids=lambda source: repr(source[:30]))
async def test_markdown_becomes_what_people_mean(page: Page, source: str) -> None:
    assert await draw(page, source) == with_links(CASES[source])


async def test_code_keeps_every_character_and_names_its_language(page: Page) -> None:
    code = "if a < b:\n\tprint('**x**')\n\n    # ok"
    await draw(page, f"```python title\n{code}\n```\nafter")
    assert await page.run("drawn.querySelector('code').textContent") == code
    assert await page.run("drawn.querySelector('.language').textContent") == "python"
    assert await page.run("drawn.lastChild.outerHTML") == "<p>after</p>"


async def test_code_inside_a_list_item_belongs_to_it(page: Page) -> None:
    await draw(page, "1. run\n   ```sh\n   ls\n   ```\n2. look")
    assert await page.run("drawn.querySelectorAll('ol > li').length") == 2
    assert await page.run("drawn.querySelector('li code').textContent") == "ls"


async def test_a_table_has_columns_and_alignment(page: Page) -> None:
    await draw(page, "| a | b \\| c |\n|:-:|--:|\n| **1** | 2 |\n| only |\n\nafter")
    cells = await page.run("[...drawn.querySelectorAll('th, td')].map((one) => one.textContent + '/' + one.className)")
    assert cells == ["a/center", "b | c/end", "1/center", "2/end", "only/center", "/end"]


async def test_a_task_list_shows_boxes(page: Page) -> None:
    await draw(page, "- [x] done\n- [ ] open")
    assert await page.run("[...drawn.querySelectorAll('input')].map((one) => one.checked)") == [True, False]


async def test_text_that_arrives_letter_by_letter_ends_up_the_same(page: Page) -> None:
    source = "\n\n".join(
        [*CASES, "```js\nlet a = `x`\n\n```", "| a | b |\n|--|--|\n| 1 | 2 |", "- x\n\n  ```\n  y\n  ```"]
    )
    grown = await page.run(
        f"""(async () => {{
          const {{ MarkdownView, markdown }} = await import('/static/markdown.js');
          const source = {json.dumps(source)};
          const view = new MarkdownView(document.createElement('div'));
          for (let end = 1; end <= source.length; end++) view.show(source.slice(0, end), true);
          view.show(source, false);
          return [view.element.innerHTML, markdown(source).innerHTML];
        }})()"""
    )
    assert grown[0] == grown[1]


@pytest.mark.parametrize(
    ("half", "shown"),
    [
        ("so **bol", "<p>so <strong>bol</strong></p>"),
        ("so **bold*", "<p>so <strong>bold</strong></p>"),
        ("so **", "<p>so </p>"),
        ("a `co", "<p>a <code>co</code></p>"),
        ("see [the docs](https://exam", "<p>see the docs</p>"),
    ],
)
async def test_what_is_half_written_is_shown_as_it_will_be(page: Page, half: str, shown: str) -> None:
    assert await draw(page, half, half=True) == shown


async def test_finished_blocks_are_not_drawn_again(page: Page) -> None:
    kept = await page.run(
        """(async () => {
          const { MarkdownView } = await import('/static/markdown.js');
          const view = new MarkdownView(document.createElement('div'));
          view.show('first\\n\\n```\\ncode', true);
          const [first, code] = view.element.children;
          view.show('first\\n\\n```\\ncode and more\\nlines', true);
          view.show('first\\n\\n```\\ncode and more\\nlines\\n```\\n\\nlast', true);
          return [view.element.children[0] === first, view.element.querySelector('code').textContent];
        })()"""
    )
    assert kept == [True, "code and more\nlines"]


@pytest.mark.parametrize(
    "piece", ["*a ", "[", "`", "``a`", "> ", "- ", "![](", "|", "_*", "<", "](", "1. ", "\\", "# ", "~~"]
)
async def test_a_hostile_flood_of_marks_stays_quick(page: Page, piece: str) -> None:
    """Not a measurement: what is not linear takes minutes here."""
    for source in (piece * (60_000 // len(piece)), f"{piece}\n" * 5_000):
        await draw(page, source)


async def draw(page: Page, source: str, *, half: bool = False) -> Any:
    return await page.run(
        f"""(async () => {{
          const {{ MarkdownView }} = await import('/static/markdown.js');
          window.drawn = document.createElement('div');
          new MarkdownView(drawn).show({json.dumps(source)}, {json.dumps(half)});
          return drawn.innerHTML.length < 1e6 ? drawn.innerHTML : '';
        }})()"""
    )


def with_links(expected: str) -> str:
    link = r'<a href="\1" target="_blank" rel="noopener noreferrer">\2</a>'
    return re.sub(r"\{a:([^|]*)\|([^}]*)\}", link, expected)
