"""A veto: the call is not made, and the model reads the reason."""

import json


def handle(event_type, context):
    if context["tool"] != "terminal":
        return None
    command = json.loads(context["arguments"]).get("command", "")
    if "rm " in command:
        return {"decision": "block", "reason": "Deleting is not allowed on this machine; move files to ~/trash."}
    return None
