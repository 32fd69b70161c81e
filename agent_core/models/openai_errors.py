"""Translate a provider's refusal into one of our errors, with sentences for the chat.

Every provider words the same few facts its own way, so status, code and text are read together.
"""

import re
from collections.abc import Mapping
from typing import Any

from agent_core.model import (
    BrokenAnswer,
    ContextTooLong,
    Filtered,
    KeyRefused,
    ModelUnknown,
    NoCredit,
    Overloaded,
    ProviderError,
    RequestRefused,
    Unreachable,
)
from agent_core.models.providers import Endpoint
from tools.content import encodable

MAX_QUOTED_CHARS = 300

_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|context_length_exceeded|exceed_context_size|prompt is too long"
    r"|(input|prompt)[^.]{0,40}(too long|exceeds?)|input token count|longer than the maximum model length"
    r"|reduce the length of|too many (input |total )?tokens|maximum number of tokens",
    re.I,
)
_WINDOW = re.compile(
    r"(?:maximum|max|limit|context|window|length|size)[^\d]{0,40}?(\d{4,8})(?![.\d])|> (\d{4,8}) maximum", re.I
)
_NO_CREDIT = re.compile(
    r"insufficient[ _](quota|credits?|balance|funds)|credit balance is too low|(out of|more|no) credits?\b"
    r"|exceeded your current quota|billing (hard )?limit|key limit exceeded|payment required",
    re.I,
)
_NOT_ABOUT_MONEY = re.compile(r"resource[ _]?exhausted|per[ _-](second|minute|day)", re.I)  # Gemini calls both “quota”
_LACKS_SOMETHING = re.compile(r"support|endpoints? found", re.I)
_UNKNOWN_MODEL = re.compile(
    r"model_not_found|not a valid model|model[^.]{0,80}(does not exist|not found|is not supported|not available)"
    r"|no such model|unknown model|invalid model",
    re.I,
)
_FILTERED = re.compile(r"content_filter|content[ _]policy|moderation|flagged|safety (system|filter)|blocked by", re.I)
_WRONG_KEY = re.compile(
    r"(incorrect|invalid|missing|no|expired|revoked)[ _](auth|api|access|bearer)[ _-]?(credentials|key|token)"
    r"|api[ _-]?key[^.]{0,20}(not valid|invalid|expired|revoked|disabled|not found|leaked)|unregistered callers",
    re.I,
)
_BUSY = re.compile(
    r"overloaded|rate[ _-]?limit|too many requests|resource[ _]?exhausted|at capacity|try again later", re.I
)


def refusal(
    endpoint: Endpoint, *, status: int, body: object = None, retry_after_seconds: float | None = None
) -> ProviderError:
    """Return the error for a failed status, or for an error inside a stream (its code as the status)."""
    code, words = _read(body)
    said = f"{code} {words}"
    if status == 401 or (status == 403 and (not endpoint.key or _WRONG_KEY.search(said))):
        return wrong_key(endpoint)
    if status == 429 and _NOT_ABOUT_MONEY.search(said):
        return overloaded(endpoint, status, retry_after_seconds)
    if status == 402 or _NO_CREDIT.search(said):
        return NoCredit(
            f"The account at {endpoint.provider} has no credit left. Top it up or choose another model.",
            retry_after_seconds=retry_after_seconds,
        )
    if status == 429:
        return overloaded(endpoint, status, retry_after_seconds)
    if status == 413 or _TOO_LONG.search(said):
        return ContextTooLong(
            f"This conversation has grown too long for {endpoint.model}. "
            "Start a new one with /new, or choose a model with a larger window.",
            window_tokens=_read_window(said),
        )
    if status >= 500:
        return overloaded(endpoint, status, retry_after_seconds)
    if status == 408:
        return too_slow(endpoint)
    return _request_refusal(endpoint, status, said, words, retry_after_seconds)


def _request_refusal(
    endpoint: Endpoint, status: int, said: str, words: str, retry_after_seconds: float | None
) -> ProviderError:
    if _WRONG_KEY.search(said):
        return wrong_key(endpoint)
    if status == 403 and not _FILTERED.search(said):
        # The key is right, but the country or the plan is not.
        return ModelUnknown(
            f"{_subject(endpoint.provider)} does not let this account use {endpoint.model} (403)"
            f"{_quoted(words, endpoint)} Request access there, or choose another model."
        )
    if _UNKNOWN_MODEL.search(said) or (status == 404 and not _LACKS_SOMETHING.search(said)):
        return ModelUnknown(
            f"{_subject(_at_address(endpoint))} does not know the model “{endpoint.model}”. "
            "Set another with `hermes config set model.name …`, or correct the address."
        )
    if _FILTERED.search(said):
        return filtered(endpoint)
    if _BUSY.search(said):
        return overloaded(endpoint, status, retry_after_seconds)
    return RequestRefused(f"{_subject(endpoint.provider)} refused the request ({status}){_quoted(words, endpoint)}")


def wrong_key(endpoint: Endpoint) -> KeyRefused:
    if not endpoint.key_env and endpoint.key:
        return KeyRefused(f"{_subject(_at_address(endpoint))} does not accept the key that was given.")
    if not endpoint.key_env:
        return KeyRefused(f"{_subject(_at_address(endpoint))} wants a key, but none is sent. Start it without one.")
    if not endpoint.key:
        return KeyRefused(
            f"{_subject(endpoint.provider)} wants a key and none is set. Put {endpoint.key_env} into .env."
        )
    return KeyRefused(f"{_subject(endpoint.provider)} does not accept the key. Check {endpoint.key_env} in .env.")


def overloaded(endpoint: Endpoint, status: int, retry_after_seconds: float | None = None) -> Overloaded:
    what = "limits the rate of requests" if status == 429 else "is overloaded or has a fault"
    return Overloaded(
        f"{_subject(endpoint.provider)} {what} right now ({status}). Please try again {_in(retry_after_seconds)}.",
        retry_after_seconds=retry_after_seconds,
    )


def filtered(endpoint: Endpoint) -> Filtered:
    return Filtered(
        f"{_subject(endpoint.provider)} withheld this answer because of its content rules. Try to rephrase it."
    )


def unreachable(endpoint: Endpoint) -> Unreachable:
    advice = "Is it running?" if endpoint.is_local else "Check the network, or try again in a minute."
    return Unreachable(f"The connection to {_at_address(endpoint)} failed. {advice}")


def too_slow(endpoint: Endpoint) -> Unreachable:
    return Unreachable(f"{_subject(endpoint.provider)} took too long to answer. Please try again in a minute.")


def cut_off(endpoint: Endpoint) -> Unreachable:
    return Unreachable(f"The connection to {endpoint.provider} broke in the middle of the answer. Please try again.")


def broken(endpoint: Endpoint, what: str) -> BrokenAnswer:
    return BrokenAnswer(f"{_subject(endpoint.provider)} {what}. Please try again, or choose another model.")


def not_a_model_server(endpoint: Endpoint) -> BrokenAnswer:
    return BrokenAnswer(f"The server at {endpoint.base_url} is not a model server. Check `model.base_url`.")


def quote(words: str, endpoint: Endpoint) -> str:
    """Return the provider's words on one line, bounded and without our key."""
    line = " ".join(encodable(words).split())
    line = line.replace(endpoint.key, "…") if endpoint.key else line
    return line if len(line) <= MAX_QUOTED_CHARS else line[:MAX_QUOTED_CHARS] + "…"


def _quoted(words: str, endpoint: Endpoint) -> str:
    return f": {quote(words, endpoint)}" if words else "."


def _read_window(said: str) -> int:
    """Return the window that the refusal names, such as "maximum context length is 32768 tokens"; 0 when none."""
    found = _WINDOW.search(said.replace(",", ""))
    return int(found[1] or found[2]) if found else 0


def _in(seconds: float | None) -> str:
    if seconds is None:
        return "in a minute"
    if seconds < 90:
        return f"in {seconds:.0f} seconds" if seconds > 1 else "in a moment"
    return f"in {seconds / 60:.0f} minutes" if seconds < 5400 else f"in {seconds / 3600:.0f} hours"


def _read(body: object) -> tuple[str, str]:
    """Return code and words of `{"error": {...}}`, of its inside, of a list of one (Gemini) or of plain text."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if isinstance(body, Mapping):
        error: Mapping[str, Any] = body
        code = " ".join(str(error[key]) for key in ("code", "type", "status") if error.get(key))
        inner = error.get("metadata")
        raw = inner.get("raw", "") if isinstance(inner, Mapping) else ""  # OpenRouter: what its provider said
        return code, f"{error.get('message') or error.get('detail') or ''} {raw}".strip()
    text = body if isinstance(body, str) else ""
    return "", "" if text.lstrip().startswith("<") else text


def _at_address(endpoint: Endpoint) -> str:
    """Name a server with its whole address; one without a name of its own is named by a part of it already."""
    name = "the server" if endpoint.provider.startswith("the server at ") else endpoint.provider
    return f"{name} at {endpoint.base_url}"


def _subject(name: str) -> str:
    """Begin a sentence with a name, some of which are written small (vLLM)."""
    return f"The{name[3:]}" if name.startswith("the ") else name
