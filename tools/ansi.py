"""Reduce a text to what a terminal would show: no colours, cursor movements or overwritten text. Pure."""

import re

# Sequences of ECMA-48: CSI, strings such as titles and links, character sets, single characters.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)?|\x1b[ -/]+[0-~]|\x1b[0-~]"
)
_LINE_ENDS = re.compile(r"(?<!\r)\r+\n")  # anchored at the first CR, or a long run of them would take for ever
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][ -~]{0,200})?)\Z")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain(text: str, *, from_terminal: bool = False) -> str:
    """Return the visible text. Of a line that is rewritten, such as a progress bar, the last version is left.

    With `from_terminal`, CR LF at the end of a line becomes LF; elsewhere it belongs to the text.
    """
    if from_terminal:
        text = _LINE_ENDS.sub("\n", text)
    text = _SEQUENCES.sub("", text)
    if "\r" in text:
        text = "\n".join(map(_keep_last_version, text.split("\n")))
    if "\b" in text:
        text = _apply_backspaces(text)
    return _CONTROLS.sub("", text)


def unfinished(text: str) -> str:
    """Return the end of the text that is incomplete without what follows; plain ASCII."""
    found = _UNFINISHED.search(text)
    return found[0] if found else ""


def _keep_last_version(line: str) -> str:
    written = line.rstrip("\r")
    return written.rpartition("\r")[2] + line[len(written) :]


def _apply_backspaces(text: str) -> str:
    kept: list[str] = []
    for mark in text:
        if mark != "\b":
            kept.append(mark)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return "".join(kept)
