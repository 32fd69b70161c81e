"""Patterns of keys and tokens that are hidden wherever they turn up; those of a platform are in its own file.

Each takes time in proportion to the text, whatever the text is: possessive quantifiers, bounded repetitions.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]

LONGEST_KEY_CHARS = 20_000
_EXAMPLE = re.compile(r"\$\{?\w+\}?|\{+[\w.]*\}+|%\w*%?|[A-Z_]+|[*.…xX]+|(?i:your)[\w.-]*|\[hidden\]")
_CREDENTIAL = r"[A-Za-z0-9._~+/-]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretShape:
    """A pattern whose first group is hidden.

    It is tried where one of the openings occurs, or everywhere if there are none. `is_real` tells secrets from
    placeholders and names. `beginning` matches the start of a secret without an opening at the end of a text.
    """

    pattern: re.Pattern[str]
    openings: tuple[str, ...] = ()
    is_real: Callable[[str], bool] = bool
    beginning: str = ""

    def find(self, text: str) -> Iterator[Span]:
        if not self.openings:
            yield from (match.span(1) for match in self.pattern.finditer(text))
        for opening in self.openings:
            at = text.find(opening)
            while at >= 0:
                match = self.pattern.match(text, at)
                if match and self.is_real(match[1]):
                    yield match.span(1)
                at = text.find(opening, match.end() if match else at + len(opening))


def is_varied(text: str) -> bool:
    """Rule out placeholders such as `xxxxxxxx`."""
    return len(set(text)) >= 8


def is_varied_with_digit(text: str) -> bool:
    return is_varied(text) and any(map(str.isdigit, text))


def _has_random_part(text: str) -> bool:
    """Rule out names in kebab case, with or without numbers between the words."""
    return is_varied(text) and any(map(_is_random, re.split("[-_.]", text)))


def _is_random(part: str) -> bool:
    has_digit, *has_letter = (any(map(kind, part)) for kind in (str.isdigit, str.isupper, str.islower))
    return has_digit and ((any(has_letter) and len(part) >= 16) or (all(has_letter) and len(part) >= 8))


def _is_no_example(text: str) -> bool:
    return not _EXAMPLE.fullmatch(text)


def _has_key_line(text: str) -> bool:
    """Rule out text about keys: a real one has lines of base64."""
    return re.search("[A-Za-z0-9+/]{16}", text) is not None


PRIVATE_KEY = SecretShape(
    openings=("-----BEGIN ",),
    # Up to its end mark; without one, as far as it looks like base64. Not possessive there: before 3.11.5, Python
    # matches a repeated choice that is possessive wrongly.
    pattern=re.compile(
        r"(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:"
        rf"(?:[^-]|-(?!----)){{0,{LONGEST_KEY_CHARS}}}-----END [A-Z0-9 ]{{0,40}}-----"
        r"|(?:(?:[\s\"',+]|\\[nr])*+[A-Za-z0-9+/]{16,}+=*+)*+(?:(?:[\s\"',+]|\\[nr])*+[A-Za-z0-9+/]++(?:=++|\Z))?+))"
    ),
    is_real=_has_key_line,
)
GENERAL_SHAPES = (
    SecretShape(
        openings=("sk-",),  # OpenAI, Anthropic, OpenRouter and many after them
        pattern=re.compile(r"(?<![A-Za-z0-9])(sk-[A-Za-z0-9_-]{16,}+)"),
        is_real=_has_random_part,
    ),
    SecretShape(
        openings=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_", "sk_live_", "rk_live_", "hf_"),
        pattern=re.compile(r"(?<![A-Za-z0-9_-])((?:gh[pousr]|npm|[sr]k_live|hf)_[A-Za-z0-9]{20,}+)"),
        is_real=_has_random_part,
    ),
    SecretShape(
        openings=("github_pat_", "glpat-"),
        pattern=re.compile(r"(?<![A-Za-z0-9])((?:github_pat_|glpat-)[A-Za-z0-9_-]{20,}+)"),
        is_real=_has_random_part,
    ),
    SecretShape(
        openings=("AKIA", "ASIA"),
        pattern=re.compile(r"(?<![A-Za-z0-9+/])((?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9+/=])"),
        is_real=is_varied,
    ),
    SecretShape(
        openings=("AIza",),
        pattern=re.compile(r"(?<![A-Za-z0-9_+/-])(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_+/=-])"),
        is_real=is_varied,
    ),
    SecretShape(
        openings=("eyJ",),
        pattern=re.compile(r"(?<![A-Za-z0-9_-])(eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{16,}+(?:\.[\w-]++)*+)", re.ASCII),
        is_real=is_varied,
    ),
    SecretShape(
        openings=("uthorization", "UTHORIZATION"),
        pattern=re.compile(
            rf"""(?i:uthorization)\\?["']?\s{{0,3}}[:=]\s{{0,3}}\\?["']?(?:(?i:bearer|basic|token)\s{{1,3}})"""
            rf"({_CREDENTIAL}{{8,}}+={{0,2}})"
        ),
        is_real=_is_no_example,
    ),
    SecretShape(
        openings=("Bearer", "bearer", "BEARER"),
        pattern=re.compile(rf"(?<![A-Za-z0-9])(?i:bearer)\s{{1,3}}({_CREDENTIAL}{{16,}}+={{0,2}})"),
        is_real=_has_random_part,
    ),
    SecretShape(
        openings=("://",),
        pattern=re.compile(r"""://[^\s/:@?#"'<>\\]{0,100}+:([^\s/@?#"'<>\\]{1,300}+)@"""),
        is_real=_is_no_example,
    ),
    PRIVATE_KEY,
)
