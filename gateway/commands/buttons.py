"""The table of buttons: what a press does, in the same transaction that ends its inbox row.

A button carries `name:argument`. Whoever presses it has passed the same gate as a message.
"""

from collections.abc import Callable, Mapping

from gateway.commands.approvals import ask_again, decide_pressed
from gateway.commands.registry import CommandCall, CommandReply
from gateway.commands.session import continue_old
from gateway.store import outbox
from gateway.store.db.connection import Transaction

Press = Callable[[Transaction, CommandCall], CommandReply]


def press(tx: Transaction, call: CommandCall) -> CommandReply:
    action = BUTTONS.get(call.name)
    if action is None:  # not in place: nobody can say whose message it stands below
        return CommandReply(text="This button is from an older version and no longer works.")
    return action(tx, call)


def send_again(tx: Transaction, call: CommandCall) -> CommandReply:
    """For an answer of which nobody can know whether it arrived."""
    account, chat = call.key.account_name, call.key.chat
    if outbox.send_again(tx, call.arguments, account=account, chat=chat):
        return CommandReply(text="Sent again:", in_place=True)
    if outbox.is_known(tx, call.arguments, account=account, chat=chat):
        return CommandReply(text="That answer was already sent again.", in_place=True)
    return CommandReply(text="That answer is no longer stored.")


BUTTONS: Mapping[str, Press] = {
    "resend": send_again,
    "continue": continue_old,
    "approval": decide_pressed,
    "askagain": ask_again,
}
