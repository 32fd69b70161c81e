"""Scan text that will instruct the agent for what instructions should not do: named rules with a reason each.

Shared by whatever takes such text from elsewhere. A finding proves nothing: it is shown to the owner, who decides.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

MAX_FINDINGS_PER_RULE = 5
_EXCERPT_CHARS = 120
_PIECE_CHARS, _LONGEST_MATCH = 20_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRule:
    name: str
    reason: str  # a clause: "it tells the agent to ignore its instructions"
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFinding:
    rule: str
    reason: str
    excerpt: str  # one line, with invisible characters written as escapes


def _rule(name: str, reason: str, pattern: str) -> ScanRule:
    return ScanRule(name=name, reason=reason, pattern=re.compile(pattern, re.IGNORECASE))


# No pattern has an unbounded repetition next to another: a hostile text must not make the scan slow.
_SECRETS = (
    r"(?:\.env\b|\bid_(?:rsa|ed25519|ecdsa)\b|\.ssh\b|\.aws/|\.netrc\b|\.pgpass\b|/etc/shadow|\bapprovals\.key\b"
    r"|\bprintenv\b|\$\{?\w{0,30}(?:TOKEN|API_?KEY|SECRET|PASSWORD)\w{0,30})"
)
_SENDS = r"(?:\bcurl\b|\bwget\b|\bnc\b|\bncat\b|\bscp\b|\brsync\b|requests\.post|\bInvoke-WebRequest\b|\bhttpie?\b)"
RULES = (
    _rule(
        "ignore-instructions",
        "it tells the agent to ignore its instructions",
        r"\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+|of\s+|my\s+){0,4}"
        r"(?:previous|prior|above|earlier|system|existing)\s+(?:instructions?|prompts?|rules|messages|directions)"
        r"|\b(?:ignore|disregard|forget|override)\s+(?:all\s+(?:of\s+)?)?your\s+(?:\w{1,20}\s+)?"
        r"(?:instructions?|prompts?|rules|guidelines|directions)\b"
        r"|\b(?:ignore|disregard|forget)\s+(?:everything|anything|all|what)\s+(?:above|you (?:were|have been) told)\b",
    ),
    _rule(
        "new-identity",
        "it gives the agent another identity without its rules",
        r"\byou are (?:now|no longer)\s[^\n]{0,60}\b(?:unrestricted|jailbroken|DAN|without (?:any )?(?:rules|limits|"
        r"restrictions)|bound by)|\bdeveloper mode\s+(?:is\s+)?(?:on|enabled)"
        r"|\bact as (?:DAN|an unrestricted)\b|\byou have no (?:rules|limits|restrictions)\b",
    ),
    _rule(
        "fake-role",
        "it imitates the marks by which a model tells its speakers apart",
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[/?INST\]|<</?SYS>>|</?system>"
        r"|(?m:^)\s{0,10}system\s{0,3}:\s{0,5}(?:you|ignore|from now)\b",
    ),
    _rule(
        "hide-from-user",
        "it asks the agent to hide something from the user",
        r"\b(?:do not|don['’]t|never|without)\s+(?:tell|inform|alert)(?:ing)?\s[^\n]{0,30}\b"
        r"(?:users?|owners?|humans?|operators?)\b"
        r"|\b(?:do not|don['’]t|never|without)\s+(?:mention|show|reveal)(?:ing)?\s[^\n]{0,40}\bto\s+"
        r"(?:(?:the|your|any)\s+)?(?:users?|owners?|humans?|operators?)\b"
        r"|\b(?:do not|don['’]t|never)\s+let\s[^\n]{0,20}\b(?:users?|owners?|anyone|anybody)\s+(?:know|see|notice)\b"
        r"|\b(?:do not|don['’]t|never)\s+mention (?:this|it) to\s+(?:anyone|anybody)\b"
        r"|\bkeep (?:this|it) (?:a\s+)?(?:secret|hidden) from\s+(?:(?:the|your)\s+)?(?:users?|owners?|humans?)\b",
    ),
    _rule(
        "skip-approval",
        "it asks the agent to avoid approvals or the sandbox",
        r"\b(?:bypass|skip|disable|circumvent|avoid|turn off)\s+(?:the\s+|any\s+|all\s+){0,2}"
        r"(?:approvals?|approval requests?|confirmations?|sandbox|guards?|safety)\b"
        r"|approvals\.mode\b[^\n]{0,20}\boff\b"
        r"|\b(?:run|execute|approve|allow)\s(?:\w{1,20}\s){0,3}(?:commands?|tools?|calls?|scripts?)\s[^\n]{0,20}"
        r"\bwithout (?:asking|approval|confirmation|permission)\b"
        r"|\b(?:do not|don['’]t|never)\s+ask\s+(?:the\s+)?(?:users?|owners?)\s+for\s+"
        r"(?:approval|confirmation|permission)\b",
    ),
    _rule(
        "read-prompt",
        "it asks for the system prompt",
        r"\b(?:print|reveal|repeat|output|send|show)\s[^\n]{0,30}\b(?:system prompt|hidden instructions)\b",
    ),
    _rule(
        "send-secrets",
        "it sends secrets or credentials over the network",
        rf"{_SENDS}[^\n]{{0,200}}{_SECRETS}|{_SECRETS}[^\n]{{0,200}}{_SENDS}"
        rf"|\b(?:send|post|upload|forward)\s[^\n]{{0,80}}{_SECRETS}[^\n]{{0,40}}\bto\s+(?:https?://|\S{{1,60}}@)",
    ),
    _rule(
        "post-file",
        "it uploads a file",
        r"\bcurl\b[^\n]{0,200}(?:\s-T\s|--upload-file|(?:\s-d|\s-F|--data(?:-binary|-raw)?|--form)[ =]?\S{0,60}@)",
    ),
    _rule(
        "collecting-address",
        "it names an address at which such data is usually collected",
        r"\b(?:webhook\.site|requestbin\.\w{2,10}|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|burpcollaborator\.net"
        r"|interact\.sh|oast\.\w{2,6}|transfer\.sh|pastebin\.com)\b",
    ),
    _rule(
        "image-leak",
        "it puts data into the address of a picture, which is fetched when the answer is shown",
        r"!\[[^\]\n]{0,100}\]\(https?://[^)\n]{0,200}[?&][\w-]{1,40}=[{<$]",
    ),
    _rule(
        "read-secrets",
        "it reads credentials",
        r"\b(?:cat|less|head|tail|base64|xxd|cp|open|read)\b[^\n]{0,60}(?:\.hermes/\.env|/\.env\b|\bid_rsa\b"
        r"|\bid_ed25519\b|\.aws/credentials|\.netrc\b|/etc/shadow|approvals\.key)",
    ),
    _rule(
        "pipe-to-shell",
        "it runs a script from the network that nobody has read",
        r"\b(?:curl|wget)\b[^\n|]{0,300}\|\s{0,5}(?:sudo\s+)?(?:ba|z|da)?sh\b"
        r"|\b(?:(?:ba|z|da)?sh|python3?|perl|eval)\s+(?:-[ce]\s+)?[\"']?[<$]\(\s{0,5}(?:curl|wget)\b"
        r"|\b(?:curl|wget|iwr)\b[^\n|]{0,300}\|\s{0,5}(?:python|perl|iex\b)",
    ),
    _rule(
        "hidden-code",
        "it runs code that is encoded so that nobody reads it",
        r"\bbase64\s+(?:-d|-D|--decode)\b[^\n]{0,80}\|\s{0,5}(?:sudo\s+)?\w{0,10}(?:sh|python3?|perl)\b"
        r"|\b(?:eval|exec)\s{0,3}\([^\n]{0,60}(?:b64decode|fromhex|atob|decompress|unhexlify|urlopen)\b|[A-Za-z0-9+/]{400}",
    ),
    _rule(
        "delete-everything",
        "it deletes files of the whole machine or home",
        r"\brm\s+(?:-{1,2}[\w-]{1,20}\s+){1,4}[\"']?(?:/|~/?|\$\{?HOME\}?/?|/\*|~/\*|/(?:etc|usr|var|home|boot)/?)[\"']?"
        r"(?=[\s;&|)`*]|$)|\bfind\s+(?:/|~|\$HOME)\s[^\n]{0,100}-delete\b|shutil\.rmtree\(\s{0,3}[\"'](?:/|~)[\"']",
    ),
    _rule(
        "wipe-disk",
        "it overwrites a disk",
        r"\bmkfs(?:\.\w{2,6})?\s|\bdd\b[^\n]{0,100}\bof=/dev/(?:sd|nvme|vd|mmcblk)|>\s{0,3}/dev/(?:sd|nvme|vd)\w"
        r"|\bwipefs\b|\bshred\b[^\n]{0,60}/dev/",
    ),
    _rule("fork-bomb", "it starts processes without end", r":\(\)\s{0,3}\{\s{0,3}:\|:"),
    _rule(
        "open-backdoor",
        "it opens a way in for others",
        r"/dev/tcp/|\bnc\b[^\n]{0,40}\s-e\s|>>\s{0,3}\S{0,60}authorized_keys|\bchmod\s+(?:-R\s+)?(?:0?777|a\+rwx)\s+/",
    ),
    _rule(
        "persist",
        "it makes something run later without being asked",
        r"\bcrontab\s+-(?!l)|>>\s{0,3}\S{0,40}\.(?:bashrc|profile|zshrc|bash_profile)\b",
    ),
    _rule(
        "rewrite-history",
        "it overwrites the history of a shared repository",
        r"\bgit\s+push\b[^\n]{0,60}(?:--force(?!-with-lease)|\s-f\b)[^\n]{0,60}\b(?:main|master)\b",
    ),
)
_HIDDEN = "hidden-unicode"
_HIDDEN_REASON = "it has characters that people cannot see and models can read"
_JOINERS = "\u200c\u200d"  # part of emoji and of Indic and Persian spelling


def scan(text: str) -> list[ScanFinding]:
    """Return the findings in the order of the rules, at most a few of each. Invisible characters cannot break words."""
    hidden = [mark for mark in text if _is_hidden(mark)]
    plain = text if not hidden else "".join(mark for mark in text if not _is_hidden(mark))
    plain = unicodedata.normalize("NFKC", plain)
    return [*_find_hidden(text), *(one for rule in RULES for one in _apply(rule, plain))]


def _apply(rule: ScanRule, text: str) -> Iterator[ScanFinding]:
    for found in islice(_find_matches(rule.pattern, text), MAX_FINDINGS_PER_RULE):
        yield ScanFinding(rule=rule.name, reason=rule.reason, excerpt=_excerpt(text, found.start(), found.end()))


def _find_matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches. In pieces: during one search of a long text no other thread would run."""
    for start in range(0, len(text), _PIECE_CHARS):
        found = pattern.finditer(text, start, start + _PIECE_CHARS + _LONGEST_MATCH)
        yield from (one for one in found if one.start() < start + _PIECE_CHARS)


def _find_hidden(text: str) -> Iterator[ScanFinding]:
    places = [
        at for at, mark in enumerate(text) if _is_hidden(mark) or (mark in _JOINERS and at and text[at - 1].isascii())
    ]
    for at in places[:1]:
        more = f" ({len(places)} in all)" if len(places) > 1 else ""
        yield ScanFinding(rule=_HIDDEN, reason=f"{_HIDDEN_REASON}{more}", excerpt=_excerpt(text, at, at + 1))


def _is_hidden(mark: str) -> bool:
    if mark.isascii():
        return (mark < " " and mark not in "\t\n\r\f") or mark == "\x7f"
    return mark not in _JOINERS and mark != "\ufeff" and unicodedata.category(mark) in ("Cf", "Co", "Cc")


def _excerpt(text: str, start: int, end: int) -> str:
    first = max(text.rfind("\n", 0, start) + 1, start - 30)
    line = text[first : max(end, start + 1) + 30].partition("\n")[0][:_EXCERPT_CHARS]
    shown = "".join(f"\\u{ord(mark):04x}" if _is_hidden(mark) or mark in _JOINERS else mark for mark in line)
    return " ".join(shown.split())
