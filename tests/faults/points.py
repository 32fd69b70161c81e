"""Where a gateway process can be made to kill itself, by name.

Every step on the path of a message writes a trail event in the unit that does the work. So `before:<event>`
is the moment when that unit has run and its COMMIT has not, `after:<event>` the one when the COMMIT is done
and nobody has been told; both take any event of the trail. A `command_`, `button_` or `notice_` in front means
that of such a one. Steps that end in no commit have a name of their own.
"""

EVENTS = (
    "accepted",
    "claimed",
    "opened",
    "model_replied",
    "tool_started",
    "tool_finished",
    "answered",
    "sending",
    "sent",
    "resumed",
    "command_accepted",
    "command_answered",
)

ACKED = "acked:to-platform"  # the sender has its ack, the lanes have not been woken
WRITTEN = "written:not-acked"  # the reply is on the wire, its ack is not back
NOT_RECORDED = "sent:not-recorded"  # the platform has taken the reply, the outbox does not know
TOOL_BEGUN = "tool:begun"  # marked as started, nothing done yet
TOOL_DONE = "tool:done-not-recorded"  # the effect is in the world, its result nowhere
STEPS = (ACKED, WRITTEN, NOT_RECORDED, TOOL_BEGUN, TOOL_DONE)

# What chat platforms add: long answers in pieces, notices, and failures of the network.
TAKEN = "page:taken-not-confirmed"  # the messages are ours, and the platform does not know yet
NOTICE_NOT_RECORDED = "notice:sent-not-recorded"
CHAT_EVENTS = (*EVENTS, "piece_sent")  # after it: between one piece of a long answer and the next

# On Telegram.
TELEGRAM_EVENTS = (
    *CHAT_EVENTS,
    "in_doubt",
    "notice_sending",
    "notice_sent",
    "button_accepted",  # after it: pressed, and not handled
    "button_answered",
    "asked_again",
)
PAIRED = "pairing approved"  # after it: let in, and not told
TELEGRAM_STEPS = (TAKEN, NOT_RECORDED, NOTICE_NOT_RECORDED, TOOL_BEGUN, TOOL_DONE)

# Where what was missed is read from the history, and what is in doubt is looked for in it.
HISTORY_READ = "history:read-not-taken"
LOOKED_UP = "doubt:looked-up-not-recorded"
LOOKUP_EVENTS = (*CHAT_EVENTS, "postponed")  # after it: the line broke while sending, and that is written down
DISCORD_STEPS = (HISTORY_READ, TAKEN, NOT_RECORDED, LOOKED_UP, TOOL_BEGUN, TOOL_DONE)
SLACK_STEPS = (HISTORY_READ, TAKEN, ACKED, NOT_RECORDED, LOOKED_UP, TOOL_BEGUN, TOOL_DONE)


def _points(events: tuple[str, ...], steps: tuple[str, ...]) -> tuple[str, ...]:
    return *(f"{when}:{event}" for event in events for when in ("before", "after")), *steps


POINTS = _points(EVENTS, STEPS)
JOINED_POINTS = _points(("joined",), ())  # reached when somebody speaks while a tool of theirs runs
TELEGRAM_POINTS = _points(TELEGRAM_EVENTS, TELEGRAM_STEPS)
DISCORD_POINTS = _points(LOOKUP_EVENTS, DISCORD_STEPS)
SLACK_POINTS = _points(LOOKUP_EVENTS, SLACK_STEPS)

EACH_ITS_OWN_TURN = {"HERMES_GATEWAY__BUSY_MODE": "queue"}
"""For stories in which what is said during a turn is answered after it."""
