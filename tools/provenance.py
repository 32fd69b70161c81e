"""Mark where text comes from: the user, or another source whose text must not be followed as instructions.

An origin is a short code, `kind` or `kind:detail`, written into a part when the part is made. Without one a text is by
the speaker of its message. Any code but `HERMES` and `SKILL` marks text from outside, unknown ones too.
"""

from dataclasses import dataclass

HERMES = "hermes"  # written by our own code: neither the user's words nor from outside
CHAT = "chat"
EVENT = "event"
FILE = "file"
MCP = "mcp"  # of several servers; `mcp:name` is one of them
PICTURE = "picture"
PROJECT = "project"
SKILL = (
    "skill"  # of the owner's own or bundled skills: like HERMES; `skill:name` is one that was installed from elsewhere
)
SEARCH = "search"  # of the web: its addresses may be read without asking
STDIN = "stdin"
SUMMARY = "summary"
WEB = "web"
UNKNOWN_TOOL = "tool"  # for tools that do not say what they bring; results name the tool, as `tool:weather`

_KINDS = {
    CHAT: "what others said in the chat",
    EVENT: "a background process or an earlier request",
    FILE: "a file",
    MCP: "an MCP server",
    PICTURE: "a picture",
    PROJECT: "the project's AGENTS.md",
    STDIN: "standard input",
    SUMMARY: "the summary of earlier messages",
    SEARCH: "search results",
    WEB: "the web",
    "quote": "a quoted message",
    "forward": "a forwarded message",
    "location": "a shared location",
}
_DETAILED = {
    "attachment": "the attachment {}",
    "description": "the description of the tool {}",
    "mcp": "the MCP server {}",
    "skill": "the skill {}",
    "tool": "the output of {}",
    "webhook": "the webhook {}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text from outside."""

    origin: str
    text: str

    @property
    def source(self) -> str:
        """Return the origin in words for people; a code without words of its own is shown as it is."""
        kind, _, detail = self.origin.partition(":")
        return _DETAILED[kind].format(detail) if detail and kind in _DETAILED else _KINDS.get(self.origin, self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The texts of a conversation, by who wrote them."""

    own_words: str = ""  # of the people in it
    outside: tuple[Passage, ...] = ()
    written: tuple[str, ...] = ()  # files that its calls wrote to, by the paths that they named
    ran: tuple[str, ...] = ()  # commands of its calls, and what they typed

    def plus(self, other: "Provenance") -> "Provenance":
        return Provenance(
            own_words="\n".join(filter(None, (self.own_words, other.own_words))),
            outside=(*self.outside, *other.outside),
            written=(*self.written, *other.written),
        )


_NOTHING = Provenance()


def nothing_heard() -> Provenance:
    """Return an empty provenance, for calls without a conversation."""
    return _NOTHING
