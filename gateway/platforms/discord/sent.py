"""Whether one of our messages is already in a channel's history. Pure.

Discord keeps nonces for some minutes only, so later it is known by what it says, where it stands and what it quotes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.platforms.discord.letter import DOCUMENT_NAME, Document, Letter

Wire = Mapping[str, Any]


def found_in(history: Iterable[Wire], letter: Letter, me: int, others: Mapping[int, str]) -> int | None:
    """Its id. `others` are messages whose nonce we know: an answer of the same words is not this one."""
    for message in history:
        number = int(message["id"])
        if str(message["author"]["id"]) != str(me) or others.get(number, letter.nonce) != letter.nonce:
            continue
        if message.get("nonce") is not None:
            if str(message["nonce"]) == letter.nonce:
                return number
            continue
        if _quotes_as(message, letter) and _says(message, letter):
            return number
    return None


def _quotes_as(message: Wire, letter: Letter) -> bool:
    """One that quotes nothing may be ours as well: what it quoted was gone when it was sent."""
    quoted = (message.get("message_reference") or {}).get("message_id")
    return quoted is None or (letter.quotes is not None and str(quoted) == str(letter.quotes))


def _says(message: Wire, letter: Letter) -> bool:
    if isinstance(letter.page, Document):
        size = len(letter.page.content)
        return any(file["filename"] == DOCUMENT_NAME and file["size"] == size for file in message["attachments"])
    return str(message["content"]).strip() == letter.page.text.strip() and not message["attachments"]
