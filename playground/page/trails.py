"""The trail of each message, put together from all rows that tell of it, up to the platform's receipt."""

import json
import sqlite3

from playground.wire import Wire

_TRAILS_SHOWN = 14
_MAX_EXCERPT_CHARS = 60
# Each step with the messages it belongs to: by itself, by its turn, or by what was sent because of it.
_STEPS = """
    SELECT t.*, i.id AS message, i.account, i.sender_name, i.parts, i.kind AS message_kind,
        o.account AS sent_by, o.chat AS sent_to, CASE o.kind WHEN 'notice' THEN o.topic END AS notice,
        t.event = 'answered' AND t.outbox_id IS NULL AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn_id = t.turn_id)
            AS is_last
    FROM (SELECT * FROM trail ORDER BY id DESC LIMIT 600) t
    LEFT JOIN outbox o ON o.id = t.outbox_id
    LEFT JOIN inbox i ON CASE
        WHEN t.inbox_id IS NOT NULL THEN i.id = t.inbox_id
        WHEN t.turn_id IS NOT NULL THEN i.turn_id = t.turn_id
        ELSE i.id IN (SELECT inbox_id FROM trail WHERE outbox_id = o.id AND inbox_id IS NOT NULL)
            OR (i.account = o.account AND i.chat = o.chat
                AND i.message_id IN (SELECT value FROM json_each(o.answers))) END
    ORDER BY t.id
"""


def read(db: sqlite3.Connection) -> list[Wire]:
    """Return the newest first. A request to be let in has a trail, too: no message was accepted yet."""
    names = {(row["account"], row["user_id"]): row["user_name"] for row in db.execute("SELECT * FROM pairing_requests")}
    trails: dict[str, Wire] = {}
    requests: dict[tuple[str, str], Wire] = {}  # by chat
    for row in db.execute(_STEPS):
        detail = json.loads(row["detail"])
        if row["message"] is not None:
            about = {"account": row["account"], "who": row["sender_name"], "text": _excerpt(row)}
            trail = trails.setdefault(f"message {row['message']}", about)
        elif "sender" in detail:
            account, sender = str(detail.get("account") or detail.get("platform", "")), str(detail["sender"])
            about = {"account": account, "who": names.get((account, sender), sender), "text": "(no access)"}
            trail = trails.setdefault(f"request {account} {sender}", about)
            requests[account, str(detail.get("chat", ""))] = trail
        elif (row["sent_by"], row["sent_to"]) in requests:
            trail = requests[row["sent_by"], row["sent_to"]]
        else:
            continue
        # A question to a human must not look like the answer; and after a decision nothing is sent.
        detail |= {"about": row["notice"]} if row["notice"] else {"is_last": True} if row["is_last"] else {}
        trail.setdefault("steps", []).append({"event": row["event"], "at_ms": row["at_ms"], "detail": detail})
    newest = sorted(trails.items(), key=lambda one: one[1]["steps"][-1]["at_ms"], reverse=True)
    return [{"key": key, **trail} for key, trail in newest[:_TRAILS_SHOWN]]


def _excerpt(message: sqlite3.Row) -> str:
    said = [part.get("text") or part.get("name") or part.get("kind") or "" for part in json.loads(message["parts"])]
    text = " ".join(" ".join(map(str, said)).split())
    if message["message_kind"] not in ("message", "command"):
        text = f"{message['message_kind']} {text}".strip()
    return text if len(text) <= _MAX_EXCERPT_CHARS else text[:_MAX_EXCERPT_CHARS] + "…"
