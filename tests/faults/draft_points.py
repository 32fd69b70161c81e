"""Where a gateway process can be made to kill itself in the life of a draft, in the order in which they come."""

from tests.faults.points import NOT_RECORDED

NOT_BEGUN = "draft:not-begun"  # due, and nothing written down
BEGUN = "draft:begun-not-sent"
SENT = "draft:sent-not-recorded"  # it stands in the chat, and nobody knows its id
RECORDED = "draft:recorded"
EDITING = "draft:before-edit"
EDITED = "draft:edited"
TAKING = "draft:before-take-away"
TAKEN_AWAY = "draft:taken-away-not-recorded"
ANSWERING = "answer:before-send"
LOOKED_FOR = "draft:looked-for"  # after a crash, and not written down what was found

SHOWING = (NOT_BEGUN, BEGUN, SENT, RECORDED, EDITING, EDITED)
COMMITTING = ("before:answered", "after:answered", "before:sending", "after:sending")
REPLACING = (TAKING, TAKEN_AWAY)
DELIVERING = (ANSWERING, NOT_RECORDED, "before:sent", "after:sent")
