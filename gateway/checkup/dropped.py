"""Files that people drop into the home and that are run, or told to the model. Read here, never run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.checkup.walk import end_of, files_below
from gateway.checkup.words import plain_reason, some

PART = "code"
FOLDERS = ("tools", "hooks", "skills")

_COMPILED = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_NETWORK = re.compile(r"\b(?:requests|httpx|aiohttp|urllib|urlopen|http\.client|socket|curl|wget|nc|netcat)\b")
_ENVIRONMENT = re.compile(
    r"os\.environ(?!b?\s*(?:\[|\.get\b|\.setdefault\b))|/proc/(?:self|\d+)/environ|\bprintenv\b|\benv\s*\||\$\(\s*env\s*\)"
)
_OUR_SECRETS = re.compile(r"\.hermes/(?:\.env|state\.db)|HERMES_HOME[^\n]{0,40}(?:\.env|state\.db)")
_BLIND = re.compile(
    r"\b(?:curl|wget)\b[^\n|]{0,500}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|base64\s+(?:-d|--decode)[^\n|]{0,500}\|\s*(?:ba|z)?sh\b"
    r"|\b(?:exec|eval)\s*\(\s*(?:\w+\.)*(?:b64decode|decompress|unhexlify|urlopen)"
)


def in_our_process(facts: Facts) -> Iterator[Finding]:
    names = sorted(file.name for file in (facts.home.root / "tools").glob("*.py"))
    if names:
        yield ok(PART, f"Runs inside of Hermes, with all its rights and secrets: {some([f'tools/{n}' for n in names])}")
    else:
        yield ok(PART, "No code but our own runs inside of Hermes")


def risky(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    for file in files_below(root / folder for folder in FOLDERS):
        if "__pycache__" not in file.parts:
            yield from _risks(file, str(file.relative_to(root)), root)


def _risks(file: Path, name: str, root: Path) -> Iterator[Finding]:
    look = f"read it before you trust it: less {file}"
    if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        yield warn(PART, f"{name} is a link that leads out of the home, to what others may change", f"ls -l {file}")
    try:
        content = end_of(file)
    except OSError as error:
        yield warn(PART, f"{name} could not be read: {plain_reason(error)}")
        return
    if content.startswith(_COMPILED) or (b"\0" in content and file.suffix in (".py", ".sh", ".pyc", ".so", ".md")):
        yield warn(PART, f"{name} is compiled: nobody can read what it does", f"rm {file}")
        return
    text = content.decode("utf-8", "replace")
    if _NETWORK.search(text) and _ENVIRONMENT.search(text):
        yield bad(PART, f"{name} takes the whole environment and uses the network: it may send your secrets away", look)
    elif _OUR_SECRETS.search(text):
        yield bad(PART, f"{name} reaches for the secrets or the database of Hermes", look)
    if _BLIND.search(text):
        yield warn(PART, f"{name} runs what it fetches or hides, unseen", look)
