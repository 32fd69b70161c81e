"""What a terminal would show of a text: without colours, cursor movements and what was written over. Pure."""

import re

# Those of ECMA-48: CSI, strings such as titles and links, character sets, single characters.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)?|\x1b[ -/]+[0-~]|\x1b[0-~]"
)
_LINE_ENDS = re.compile(r"(?<!\r)\r+\n")  # from the first CR on, or a flood of them would take for ever
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][ -~]{0,200})?)\Z")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def plain(text: str, *, from_terminal: bool = False) -> str:
    """Of a line that is written again and again (a progress bar) the last is left.

    What comes from a terminal ends its lines with CR and LF, which are made LF; elsewhere they are the text's own.
    """
    if from_terminal:
        text = _LINE_ENDS.sub("\n", text)
    text = _SEQUENCES.sub("", text)
    if "\r" in text:
        text = "\n".join(map(_last_written, text.split("\n")))
    if "\b" in text:
        text = _taken_back(text)
    return _CONTROLS.sub("", text)


def unfinished(text: str) -> str:
    """What it ends with that can only be understood with what comes next; plain ASCII."""
    found = _UNFINISHED.search(text)
    return found[0] if found else ""


def _last_written(line: str) -> str:
    written = line.rstrip("\r")
    return written.rpartition("\r")[2] + line[len(written) :]


def _taken_back(text: str) -> str:
    kept: list[str] = []
    for mark in text:
        if mark != "\b":
            kept.append(mark)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return "".join(kept)
