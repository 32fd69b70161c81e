"""Every table of the schema, declared once: the people in its rows, how they follow a chat, how long they stay.

Erasing a person, moving a chat to another id and deleting old rows read these declarations. A new table needs its
migration and its entry here; a test fails when a table, or a column that names somebody, is missing.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

Named = Literal[
    "person",  # an id of `people`
    "identity",  # account and user id
    "handle",  # a user as settings write them: `123`, `telegram:123`, `telegram@work:123`
    "session",  # an id of `sessions`
    "session_key",
    "chat",  # account and chat
    "place",  # account and chat in one column: `telegram:-100123`
    "turn",
    "inbox",
    "outbox",
]

# States as conditions: a query over open rows uses exactly this text, or SQLite does not choose the index over them.
TURN_OPEN = "state <> 'done'"  # `turns_one_per_session`
PROCESS_OPEN = "state <> 'ended'"  # `processes_open`
PROCESS_RUNNING = f"{PROCESS_OPEN} AND state = 'running'"
INBOX_OPEN = "state <> 'done'"  # `inbox_open`
INBOX_WAITING = f"{INBOX_OPEN} AND state = 'ready'"
OUTBOX_OPEN = "state IN ('ready', 'sending', 'unsure')"  # `outbox_open`
OUTBOX_WAITING = f"{OUTBOX_OPEN} AND state <> 'sending'"
APPROVAL_WAITING = "state = 'waiting'"
ASKING = "'message', 'wake', 'command', 'button'"  # kinds of messages that wait for an answer
PAIRING_PENDING = "state = 'pending' AND expires_ms > ?"


@dataclass(frozen=True, slots=True)
class Ref:
    """Columns (or an expression) by which a row is about somebody or something."""

    named: Named
    columns: tuple[str, ...]
    when: str = "TRUE"

    @property
    def condition(self) -> str:
        """Return SQL with one parameter, a JSON list: there may be more values than a statement may have parameters."""
        if len(self.columns) == 1:
            return f"{self.columns[0]} IN (SELECT value FROM json_each(?))"  # noqa: S608
        pairs = "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
        return f"({', '.join(self.columns)}) IN ({pairs})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The columns that follow a chat to another id."""

    chat: tuple[str, ...] = ()  # account and chat, or one column with both
    session_key: bool = False
    when: str = "TRUE"
    reset: str = ""  # assignments made along with the chat: ids of the old chat are useless in the new one
    rename: str = ""  # assignments made along with the session's key; ?1 is the new one, ?2 the old one
    delete: bool = False  # the rows of the chat do not follow


@dataclass(frozen=True, slots=True)
class Keep:
    """The time that rows are kept."""

    days: str  # a setting of `retention`
    time: str  # a column
    _: KW_ONLY
    when: str = "TRUE"  # false for rows that are needed longer
    in_timeline: bool = False  # rows of the page's account are its conversations, and stay as long as those


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    key: str = ""  # rows are erased in batches by it; without one, a person's few rows are erased in one transaction
    _: KW_ONLY
    personal_by: tuple[Ref, ...] = ()  # matching rows of an erased person are deleted
    blank_by: tuple[Ref, ...] = ()  # matching rows of an erased person stay; the last column, and `blanks`, are emptied
    blanks: str = ""
    moves_with: Move | None = None
    keep_days: Keep | None = None
    has_parts: bool = False  # and so may refer to files
    deletable: str = "TRUE"  # false while other rows refer to the row
    before_delete: tuple[str, ...] = ()  # statements with the key as their parameter
    exempt: dict[str, str] = field(default_factory=dict)  # columns that neither erase nor move covers, and why


def _ref(named: Named, *columns: str, when: str = "TRUE") -> Ref:
    return Ref(named, columns, when)


_PERSON = _ref("person", "person_id")
_SENDER_ID = _ref("identity", "account", "sender_id")
_SENDER = (_PERSON, _SENDER_ID)
_HOLDER = _ref("person", "holder")
_SESSION = _ref("session", "session_id")
_CHAT = _ref("chat", "account", "chat")
_SESSION_KEY = _ref("session_key", "session_key")
_TURN = _ref("turn", "turn_id")
_OF_SESSION = [
    "compactions",
    "stubs",
    "context_counts",
    "offered_tools",
    "memory_looks",
    "skill_proposals",
    "approval_rules",
    "participants",
]
_NOT_MOVED = "of a private chat, and those do not move"

# In the order in which a person's rows are deleted: rows that refer to others come first.
TABLES = (
    Table(
        "messages",
        "id",
        personal_by=(_SESSION,),
        keep_days=Keep(
            "messages_days",
            "created_ms",
            when="NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = messages.turn_id AND t.state <> 'done')",
        ),
        has_parts=True,
        exempt={"person_id": "words in shared sessions are blanked, so that the transcript stays whole"},
    ),
    Table("compactions", "id", personal_by=(_SESSION,), keep_days=Keep("messages_days", "created_ms")),
    Table("stubs", "message_id", personal_by=(_SESSION,), keep_days=Keep("messages_days", "created_ms")),
    Table("context_counts", "session_id", personal_by=(_SESSION,)),
    Table("offered_tools", "session_id", personal_by=(_SESSION,)),
    Table(
        "outbox",
        "id",
        personal_by=(_CHAT, _TURN),
        moves_with=Move(
            chat=("account", "chat"),
            when="state IN ('ready', 'sending', 'unsure', 'in_doubt')",
            reset="reply_to = '', edits = '', replaces = ''",
        ),
        keep_days=Keep("outbox_days", "created_ms", when=f"NOT ({OUTBOX_OPEN})", in_timeline=True),
        has_parts=True,
    ),
    Table(
        "trail",
        "id",
        personal_by=(
            _ref("inbox", "inbox_id"),
            _ref("outbox", "outbox_id"),
            _TURN,
            _ref("session_key", "json_extract(detail, '$.session')"),
            _ref(
                "handle",
                """COALESCE(json_extract(detail, '$.account'), json_extract(detail, '$.platform'))
                   || ':' || json_extract(detail, '$.sender')""",
            ),
            _ref("handle", "json_extract(detail, '$.by')"),
        ),
        keep_days=Keep("trail_days", "at_ms"),
    ),
    Table(
        "overheard",
        "id",
        personal_by=(_SENDER_ID, _SESSION_KEY),
        moves_with=Move(session_key=True),
        keep_days=Keep("overheard_days", "sent_ms"),
    ),
    Table(
        "inbox",
        "id",
        personal_by=(*_SENDER, _SESSION_KEY, _CHAT, _TURN),
        # The new chat numbers messages from the start: without a distinct `edited_ms`, old messages would be taken for
        # new ones, or for second copies of them.
        moves_with=Move(chat=("account", "chat"), session_key=True, when=INBOX_OPEN, reset="edited_ms = -id"),
        keep_days=Keep("inbox_days", "accepted_ms", when="state = 'done'", in_timeline=True),
        has_parts=True,
        # The transcript outlives the row and must still know the speaker.
        before_delete=(
            """UPDATE messages SET person_id = (SELECT person_id FROM inbox WHERE id = ?1), inbox_id = NULL
                WHERE inbox_id = ?1""",
        ),
        exempt={"user_id": "part of the session's key"},
    ),
    Table(
        "processes",
        "id",
        personal_by=(*_SENDER, _SESSION_KEY, _ref("session", "task_id"), _HOLDER),
        moves_with=Move(
            chat=("account", "chat"),
            session_key=True,
            reset="reply_to = ''",
            rename="""holder = CASE WHEN substr(holder, 1, length(?2) + 1) = ?2 || '/'
                                    THEN ?1 || substr(holder, length(?2) + 1) ELSE holder END""",
        ),
        exempt={"chat": "covered by the session's key", "user_id": "part of the session's key"},
    ),
    Table("drafts", "turn_id", personal_by=(_TURN, _CHAT), moves_with=Move(chat=_CHAT.columns, delete=True)),
    Table("tool_starts", personal_by=(_TURN,)),
    Table("undone", "id", personal_by=(_SESSION,), keep_days=Keep("messages_days", "undone_ms")),
    Table("direct_calls", "id", personal_by=(_ref("inbox", "id"),), keep_days=Keep("inbox_days", "created_ms")),
    Table(
        "approvals",
        "id",
        personal_by=(*_SENDER, _HOLDER, _SESSION_KEY, _SESSION, _TURN),
        blank_by=(_ref("handle", "decided_by"), _ref("chat", "asked_account", "asked_chat", when="state <> 'waiting'")),
        moves_with=Move(
            chat=("asked_account", "asked_chat"), session_key=True, when="state = 'waiting'", reset="outbox_id = NULL"
        ),
        keep_days=Keep("trail_days", "asked_ms", when="state <> 'waiting'"),
    ),
    Table(
        "turns",
        "id",
        personal_by=(_SESSION, _SESSION_KEY),
        moves_with=Move(session_key=True),
        deletable="state = 'done' AND NOT EXISTS (SELECT 1 FROM inbox WHERE turn_id = turns.id)",
    ),
    Table(
        "delegations",
        "turn_id",
        personal_by=(_SESSION, _ref("turn", "parent_turn")),
        keep_days=Keep("messages_days", "created_ms", when="result <> ''"),
    ),
    Table("todos", "task_id", personal_by=(_ref("session", "task_id"),)),
    Table("approval_rules", "id", personal_by=(_HOLDER, _SESSION), blank_by=(_ref("handle", "granted_by"),)),
    Table(
        "memories",
        "id",
        personal_by=(_PERSON,),
        # A fact noted in the new chat already is newer. The files are written anew, since their folder is another one.
        moves_with=Move(
            chat=("place",),
            when="""NOT EXISTS (SELECT 1 FROM memories newer WHERE newer.place = ?1 AND newer.key = memories.key)""",
            reset="in_file = 0",
        ),
        keep_days=Keep("memories_days", "superseded_ms", when="ended <> ''"),
        # The prompts of a group's conversations show its memories.
        before_delete=(
            """UPDATE sessions SET prompt = NULL WHERE prompt IS NOT NULL AND kind NOT IN ('dm', '')
                  AND CASE account WHEN '' THEN platform ELSE platform || '@' || account END || ':' || chat
                      = (SELECT place FROM memories WHERE id = ?1)""",
        ),
    ),
    Table(
        "cron_runs",
        "id",
        personal_by=(_PERSON, _CHAT, _ref("inbox", "inbox_id")),
        moves_with=Move(chat=("account", "chat"), when="state = 'queued'"),
        keep_days=Keep("outbox_days", "due_ms", when="state <> 'queued'"),
    ),
    Table("cron_jobs", "id", personal_by=(*_SENDER, _ref("place", "place")), moves_with=Move(chat=("place",))),
    Table("memory_looks", "session_id", personal_by=(_SESSION,)),
    Table(
        "skill_proposals",
        "id",
        personal_by=(_PERSON, _SESSION),
        blank_by=(_ref("handle", "decided_by"),),
        keep_days=Keep("trail_days", "created_ms", when="state <> 'waiting'"),
    ),
    Table("participants", personal_by=(_PERSON, _SESSION)),
    Table(
        "sessions",
        "id",
        personal_by=(_ref("session", "id"),),
        deletable="""NOT EXISTS (SELECT 1 FROM turns WHERE session_id = sessions.id)
                     AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id)""",
        before_delete=(
            *(f"DELETE FROM {name} WHERE session_id = ?" for name in _OF_SESSION),  # noqa: S608
            "DELETE FROM todos WHERE task_id = ?",
            "UPDATE sessions SET parent_id = NULL WHERE parent_id = ?",
        ),
        exempt={
            "chat": "found as the person's own; `chats.move` gives it the new id, and the key",
            "user_id": "found as the person's own",
        },
    ),
    Table(
        "pairing_requests",
        "id",
        personal_by=(_ref("identity", "account", "user_id"),),
        keep_days=Keep("pairing_days", "expires_ms"),
        exempt={"chat": _NOT_MOVED},
    ),
    Table(
        "pairing_invites", "id", personal_by=(_ref("handle", "used_by"),), keep_days=Keep("pairing_days", "expires_ms")
    ),
    Table("pairing_failures", "id", personal_by=(_ref("handle", "who"),), keep_days=Keep("pairing_days", "at_ms")),
    Table(
        "spending",
        "id",
        # The sums of the day stay the same.
        blank_by=(_PERSON, _ref("place", "chat")),
        blanks="session_id",
        moves_with=Move(chat=("chat",)),
        keep_days=Keep("spending_days", "at_ms", when="settled"),
    ),
    Table(
        "chats",
        personal_by=(_CHAT,),
        blank_by=(_ref("handle", "allowed_by"),),
        exempt={"chat": "`chats.move` merges it with what is known of the new id"},
    ),
    Table("api_keys", "id", personal_by=(_PERSON,)),
    Table("identities", personal_by=(_PERSON,), exempt={"user_id": "goes with the person"}),
    Table("people", personal_by=(_ref("person", "id"),)),
    # Not personal: counters and notices for the operator, files by their hash, keys of the page, and platform cursors
    # (without those, old messages would arrive again).
    *(Table(name) for name in ("meta", "notices", "media", "web_keys", "cursors")),
)
