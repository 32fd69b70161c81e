"""Find what a summary must not lose: paths, addresses, ids, ports, amounts, and instructions. Pure.

Patterns, not understanding: a fact too many costs a few tokens, a lost one costs the user's trust.
"""

import re
from collections.abc import Iterable, Iterator

_CONTEXT_CHARS = 60  # words before a fact that say what it is: "the staging port is 8443"
_MAX_FACT_CHARS = 200
_MAX_SENTENCE_CHARS = 400

# Each repetition has a limit: without one, a hundred kilobytes of a file without spaces take half a minute.
_FACT = re.compile(
    r"""
      https?://[^\s<>"'`)\]}]+                                  # address of a page
    | (?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}  # mail
    | (?<![\w/])(?:~|\.{1,2})?/[\w@+~-][\w.@+~/-]*               # path
    | \b[A-Za-z]:\\[\w\\.-]+                                     # path on Windows
    | (?<!\w)(?<!\w-)\w[\w.@+/-]{0,200}/[\w@+-]{1,200}\.\w{1,8}\b  # relative path
    | (?<!\w)(?<!\w-)\w[\w-]{0,200}(?:\.[\w-]{1,64}){0,8}\.[a-z][a-z0-9]{1,5}\b  # file, host
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b                   # IP address
    | [$€£¥]\s?\d[\d.,]{0,30}\d?(?:\s?[kKmM]\b)?                 # amount of money
    | \b\d[\d.,]{0,30}\s?(?:%|(?:[A-Z]{3}|[kKMGT]i?B|ms|kg|km|€|EUR|hours?|days?|minutes?|seconds?)\b)  # amount
    | \#\d+\b                                                    # number of an issue
    | \b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d)?\b                      # date
    | \b(?=[\w-]{0,63}\d)(?=[\w-]{0,63}[A-Za-z])\w[\w-]{3,63}\b  # id of letters and digits
    | (?<=:)\d{2,5}\b                                            # port
    | \b\d[\d.,]{0,30}\d\d\b                                     # any longer number
    """,
    re.VERBOSE,
)
_FIRM_FACT = re.compile(r"[/@#\\:]|\.\w|(?=.*\d)(?=.*[A-Za-z])")  # not a bare number
_SENTENCE = re.compile(r"[^\n.!?。！？]+(?:[.!?。！？](?!\s|$)[^\n.!?。！？]*)*[.!?。！？]*")
# Sentences that are rules whoever says them, and those that often are: when there is no room, rules stay.
_RULE = re.compile(
    r"\b(?:always|never|must(?:n't)?|shall|you should|should(?:n't| not)|you (?:may|can|need to|have to) (?:not|only)"
    r"|from now on|remember|make sure|at most|no more than|before you|(?:ask|tell|check with|confirm with) me|unless"
    r"|every ?time|whenever|my (?:name is|ok|okay|approval|permission)|call me|answer in|forbidden"
    r"|not allowed|off.limits|hands off|immer|nie(?:mals)?|darf(?:st)?|sollst|ab jetzt|merk|höchstens|bevor du"
    r"|toujours|jamais|ne pas|tu dois|il faut|désormais|siempre|nunca|debes|recuerda|a partir de ahora)\b"
    r"|^(?:(?:please|so|and|but|also|ok(?:ay)?)[\s,]+)*(?:do not|don't|no)\b"
    r"|不要|必须|总是|永远|只能|别|记住|しないで|必ず|常に",
    re.I,
)
_WISH = re.compile(
    r"\b(?:do not|don't|not|cannot|can't|only|prefer|avoid|instead of|rather than|without|keep|stop|please|need|want"
    r"|have to|i'd like|let's|at least|nicht|kein[emnrs]*|muss|nur|bevor|mindestens|bitte|seulement|doit|solo|no|non)\b"
    r"|^(?:use|write|sign|skip|leave|ignore|ask|confirm|wait|tell|send|put|treat|speak|reply|respond|format|name"
    r"|if|when|after|before|until|once)\b",
    re.I,
)


def find_facts(text: str) -> list[str]:
    """Return the facts of a text in order, each once."""
    return list(dict.fromkeys(fact for match in _FACT.finditer(text) if (fact := _trim(match[0]))))


def find_firm_facts(text: str) -> list[str]:
    """Return the facts that mean something by themselves, without bare numbers, of which outputs of tools are full."""
    return [fact for fact in find_facts(text) if _FIRM_FACT.search(fact)]


def find_facts_in_context(text: str) -> dict[str, str]:
    """Return the facts of a text with the words that lead to them."""
    found: dict[str, str] = {}
    for sentence in split_sentences(text):
        for match in _FACT.finditer(sentence):
            if fact := _trim(match[0]):
                begin = max(0, match.start() - _CONTEXT_CHARS)
                lead = sentence[begin : match.start()]
                lead = lead.partition(" ")[2] if begin else lead  # not half a word
                found.setdefault(fact, f"{lead}{fact}".strip())
    return found


def find_instructions(text: str) -> list[str]:
    """Return the sentences that say how something must or must not be done, word for word."""
    return [
        sentence if len(sentence) <= _MAX_SENTENCE_CHARS else f"{sentence[:_MAX_SENTENCE_CHARS]}…"
        for sentence in split_sentences(text)
        if is_rule(sentence) or (_WISH.search(_plain(sentence)) and not sentence.endswith("?"))
    ]


def is_rule(sentence: str) -> bool:
    """Return whether a sentence is an instruction in any context, not only in most."""
    return bool(_RULE.search(_plain(sentence)))


def _plain(sentence: str) -> str:
    return sentence.replace("’", "'")  # as telephones write it


def split_sentences(text: str) -> Iterator[str]:
    return (sentence for match in _SENTENCE.finditer(text) if (sentence := match[0].strip()))


def missing_from(text: str, facts: Iterable[str]) -> list[str]:
    return [fact for fact in facts if fact not in text]


def _trim(fact: str) -> str:
    fact = fact.rstrip(".,;:-")
    return fact if 2 <= len(fact) <= _MAX_FACT_CHARS else ""
