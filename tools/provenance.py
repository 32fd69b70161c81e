"""What a conversation holds: what its people have said themselves, and what came from elsewhere.

What came from elsewhere is to be read, not to be obeyed: a web page, a file, a command's output, somebody else's words.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    origin: str  # in words: "a file", "the web", "what others said in the group"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    own_words: str = ""
    outside: tuple[Passage, ...] = ()
    written: tuple[str, ...] = ()  # files that its calls wrote to, by the paths that they named


_NOTHING = Provenance()


def nothing_heard() -> Provenance:
    """For calls without a conversation."""
    return _NOTHING
