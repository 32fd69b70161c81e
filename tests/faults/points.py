"""Where a gateway process can be made to kill itself, by name.

Every step on the path of a message writes a trail event in the unit that does the work. So `before:<event>`
is the moment when that unit has run and its COMMIT has not, `after:<event>` the one when the COMMIT is done
and nobody has been told; both take any event of the trail. A `command_` in front means that of a command.
Steps that end in no commit have a name of their own.
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
