"""What a conversation is called in lists: the beginning of what was said first."""

_LONGEST_CHARS = 60


def title_of(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_CHARS else words[: _LONGEST_CHARS - 1] + "…"
