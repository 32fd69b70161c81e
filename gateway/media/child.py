"""The child process that reads one file from standard input and writes its text to standard output.

Started by `reader` with an empty environment. It sets its own limits before it reads the first byte.
"""

import json
import os
import resource
import signal
import sys
import time
from typing import BinaryIO

from gateway.media.reading import Reading, UnreadableFile, WordCollector, decode, read_text

_OPEN_FILES = 32  # modules are still to be loaded
_MAX_FIELD_CHARS = 300
_TIME_SHARE = 0.7  # of the time limit: text read by then is returned


def main() -> None:
    way, max_chars, seconds, memory_bytes = sys.argv[1], *map(int, sys.argv[2:5])
    began = time.monotonic()
    limit_self(seconds, memory_bytes)
    with os.fdopen(0, "rb") as file:
        found = _read(file, way, WordCollector(max_chars=max_chars, until=began + seconds * _TIME_SHARE))
    # One line about the text, then the text.
    about = {"title": found.title, "problem": found.problem, "partial": found.partial}
    answer = json.dumps(about).encode() + b"\n" + found.text.encode("utf-8", "replace")
    while answer:
        answer = answer[os.write(1, answer) :]
    os._exit(0)  # freeing the objects of a hostile file may take longer than reading it


def limit_self(seconds: int, memory_bytes: int) -> None:
    """Limit what this process may use, for good."""
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,  # nothing is started from here; does not limit root
        resource.RLIMIT_NOFILE: _OPEN_FILES,
    }
    for kind, wanted in limits.items():
        _, most = resource.getrlimit(kind)
        value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(kind, (value, value))
    signal.alarm(seconds + 1)  # in case the gateway was killed and nobody waits for us


def _read(file: BinaryIO, way: str, words: WordCollector) -> Reading:
    try:
        match way:
            case "pdf":
                from gateway.media.pdf import read_pdf  # imported late: it is slow to load

                return read_pdf(file, words)
            case "zip":
                from gateway.media.office import read_zip

                return read_zip(file, words)
            case "html":
                return _read_html(file, words)
            case _:
                return read_text(file, words.max_chars)
    except UnreadableFile as error:
        return Reading(problem=str(error))
    except MemoryError:
        return Reading(problem="reading it takes too much memory")
    except RecursionError:
        return Reading(problem="it is nested too deeply to be read")
    except Exception:  # noqa: BLE001 a file made to break its reader must still get an answer
        return Reading(problem="it is damaged")


def _read_html(file: BinaryIO, words: WordCollector) -> Reading:
    """Extract the metadata and the main content of a web page as Markdown.

    The first line of the input is the address of the page, from which its links are completed.
    """
    import trafilatura

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
    found = trafilatura.extract_metadata(content, default_url=url)
    facts = {"Title": found.title, "By": found.author, "Site": found.sitename, "Date": found.date}
    lines = [f"{name}: {' '.join(value.split())[:_MAX_FIELD_CHARS]}" for name, value in facts.items() if value]
    text = "\n".join((*lines, "", text))
    return Reading(text=text[: words.max_chars], partial=len(text) > words.max_chars)


if __name__ == "__main__":
    main()
