"""Decide what may be remembered: no secrets, no instructions to the agent, nothing empty or huge. Notice answers that
claim to have saved something although nothing was saved in their turn."""

import re
from collections.abc import Sequence

from agent_core.conversation import Message
from gateway.store.memories import MAX_KEY_CHARS, normalise_key
from gateway.store.search_words import STOP_WORDS
from hermes_config.redaction import Redactor
from tools.scanner import scan

MAX_VALUE_CHARS = 2_000

_NAMED_SECRET = re.compile(
    r"\b(?:password|passphrase|passwort|api[ _-]?key|secret key|access token|pin code)\b\s*(?:is|:|=|->)\s*\S{4,}", re.I
)
# Rules of the scanner that find orders; a command or an address, which others find, may be a fact about somebody.
_ORDERS = frozenset(
    {
        "fake-role",
        "hidden-unicode",
        "hide-from-user",
        "ignore-instructions",
        "image-leak",
        "new-identity",
        "read-prompt",
        "skip-approval",
    }
)
_STRICTER = (  # than what the scanner lets pass: a fact about somebody says none of this
    (
        "it tells the agent to ignore its instructions",
        re.compile(
            r"\b(?:ignore|disregard|forget|override)\b.{0,30}"
            r"\b(?:previous|prior|above|earlier|system|your|all)\b.{0,20}\b(?:instructions?|prompts?|rules?)\b",
            re.I | re.S,
        ),
    ),
    ("it imitates a system message", re.compile(r"<\|?/?(?:system|im_start|assistant)\b|^\s*system\s*:", re.I | re.M)),
    (
        "it gives the agent another role",
        re.compile(r"\byou are (?:now|no longer)\b|\bact as (?:root|admin)\b", re.I),
    ),
    (
        "it tells the agent to act without asking or in secret",
        re.compile(
            r"\b(?:never|without|do not|don['’]t) (?:ask|asking|tell|telling|mention|mentioning|inform)\b.{0,30}"
            r"\b(?:user|owner|approval|permission|anyone|them)\b",
            re.I | re.S,
        ),
    ),
    (
        "it tells the agent to send data away",
        re.compile(
            r"\b(?:send|post|upload|forward|exfiltrate|curl)\b.{0,60}(?:https?://|\bto\s+\S+@\S+\.\w)", re.I | re.S
        ),
    ),
)
_WORD = re.compile(r"[^\W_]+")


def explain_refusal(key: str, value: str, redactor: Redactor) -> str:
    """Return why a memory is not stored; empty when it may be."""
    if not normalise_key(key):
        return (
            f"The key {key[:80]!r} cannot be used: take up to {MAX_KEY_CHARS} letters, digits, '_', '-' or '.', "
            "such as favourite_tea."
        )
    if not value.strip():
        return "The value is empty. Say what to remember, or delete the key."
    if len(value) > MAX_VALUE_CHARS:
        return f"The value has {len(value):,} characters; the limit is {MAX_VALUE_CHARS:,}. Shorten it or split it."
    text = f"{key}: {value}"
    if redactor.find(text) or _NAMED_SECRET.search(text):
        return "It looks like a secret. Secrets are not remembered; put them into .env instead."
    found = [one.reason for one in scan(value) if one.rule in _ORDERS]
    found += [why for why, pattern in _STRICTER if pattern.search(value)]
    if found:
        return f"It was not saved because {found[0]}. Memories are facts, not instructions."
    return ""


def is_grounded(statement: str, said: str, *, share: float) -> bool:
    """Return whether at least this share of the statement's significant words occurs in what somebody said."""
    words = {word for word in map(str.lower, _WORD.findall(statement)) if word not in STOP_WORDS}
    spoken = {_stem(word) for word in map(str.lower, _WORD.findall(said))}
    found = sum(_stem(word) in spoken for word in words)
    return bool(words) and found >= share * len(words)


def _stem(word: str) -> str:
    return word[: max(4, len(word) - 3)]


_CLAIM = re.compile(
    r"""\bI(?:['’]ll|\ will)\s+(?:now\s+|also\s+|always\s+)?remember\b
      |\bI(?:['’]ve|\ have)?\s+(?:now\s+|just\s+|also\s+)?
        (?:remembered\ (?:that|this|it)\b|(?:saved|stored|noted|added|updated)\b.{0,40}\b(?:memory|memories)\b)
      |\b(?:saved|stored|noted|added)\ (?:(?:that|this|it)\ )?(?:to|in)\ (?:my|your)\ memor(?:y|ies)\b
      |\bI(?:['’]ve|\ have)\ (?:saved|stored|noted)\ (?:that|this|it)\b(?!\ (?:file|as|to|in)\b)""",
    re.I | re.X,
)
_CHANGES = re.compile(r'"action"\s*:\s*"(?:set|delete)"')
_OBJECTION = (
    "(Note from Hermes: your answer says that something was saved, but you did not call the memory tool, so nothing "
    "was. Call memory with action set now, or answer again without saying so.)"
)


def find_false_claim(messages: Sequence[Message], answer: Message) -> str:
    """Return an objection to an answer that claims a memory which was not written; empty when there is none."""
    if not _CLAIM.search(answer.text):
        return ""
    tried = {
        call.id
        for message in messages
        for call in message.tool_calls
        if call.name == "memory" and _CHANGES.search(call.arguments)
    }
    saved = any(message.tool_call_id in tried and not message.is_error for message in messages)
    return "" if saved else _OBJECTION
