"""Extract the text of a web page: metadata, then the main content as Markdown. Runs in the child process.

The first line of the input is the address of the page, from which its links are completed.
"""

from typing import BinaryIO

import trafilatura

from gateway.media.reading import Reading, UnreadableFile, WordCollector, decode

_MAX_FIELD_CHARS = 300


def read_html(file: BinaryIO, words: WordCollector) -> Reading:
    url = file.readline().decode("utf-8", "replace").strip()
    content = file.read()
    text = trafilatura.extract(
        content,
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_images=False,
        include_comments=False,
    )
    # A list of links, or a page of a few words: nothing in it looks like an article.
    text = (text or trafilatura.html2txt(decode(content)) or "").strip()
    if not text:
        raise UnreadableFile("it shows no text without running its scripts")
    text = "\n".join((*_describe(content, url), text))
    return Reading(text=text[: words.max_chars], partial=len(text) > words.max_chars)


def _describe(content: bytes, url: str) -> list[str]:
    found = trafilatura.extract_metadata(content, default_url=url)
    facts = {"Title": found.title, "By": found.author, "Site": found.sitename, "Date": found.date}
    lines = [f"{name}: {' '.join(value.split())[:_MAX_FIELD_CHARS]}" for name, value in facts.items() if value]
    return [*lines, ""]
