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

POINTS = (*(f"{when}:{event}" for event in EVENTS for when in ("before", "after")), *STEPS)

# On Telegram.
TELEGRAM_EVENTS = (
    *EVENTS,
    "piece_sent",  # after it: between one piece of a long answer and the next
    "in_doubt",
    "notice_sending",
    "notice_sent",
    "button_accepted",  # after it: pressed, and not handled
    "button_answered",
    "asked_again",
)
PAIRED = "pairing approved"  # after it: let in, and not told

TAKEN = "page:taken-not-confirmed"  # the updates are ours, and Telegram does not know yet
NOTICE_NOT_RECORDED = "notice:sent-not-recorded"
TELEGRAM_STEPS = (TAKEN, NOT_RECORDED, NOTICE_NOT_RECORDED, TOOL_BEGUN, TOOL_DONE)

TELEGRAM_POINTS = (
    *(f"{when}:{event}" for event in TELEGRAM_EVENTS for when in ("before", "after")),
    *TELEGRAM_STEPS,
)
