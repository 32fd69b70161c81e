"""The command that tells what was spent: in this conversation, by whoever asks, and by all for owners."""

from collections.abc import Sequence

from gateway.budgets import Amount, Budgets, against, dollars, how_to_price, no_price
from gateway.clock import now_ms
from gateway.commands.registry import CommandCall, CommandReply, CommandSpec
from gateway.store import people, sessions, spending
from gateway.store.connection import Transaction


def usage_command(budgets: Budgets, unpriced: Sequence[str] = ()) -> CommandSpec:
    """`unpriced`: models that a limit in money does not bind, which owners should know."""

    def usage(tx: Transaction, call: CommandCall) -> CommandReply:
        lines = [_conversation(tx, call), *_mine(tx, call, budgets), *_chat(tx, call, budgets)]
        if call.role == "owner" and call.key.kind in ("dm", ""):
            day = budgets.day(now_ms())
            lines.append(f"Everybody today: {against(spending.used(tx, day), budgets.limit('day'))}")
            lines += [f"{no_price(model)} {how_to_price(model)} says it." for model in unpriced]
        return CommandReply(text="\n".join(lines))

    return CommandSpec(
        name="usage", category="Session", description="Show tokens and cost, and what is left", run=usage
    )


def _conversation(tx: Transaction, call: CommandCall) -> str:
    session = sessions.find_current(tx, str(call.key))
    if session is None:
        return "This conversation: nothing yet"
    cost = f", {dollars(session.cost_micros)}" if session.cost_micros else ""
    return f"This conversation: {session.input_tokens:,} tokens in, {session.output_tokens:,} out{cost}"


def _mine(tx: Transaction, call: CommandCall, budgets: Budgets) -> list[str]:
    person = people.OWNER if call.place == "cli" else people.find(tx, call.key.account_name, call.sender_id)
    if person is None:
        return []
    now = now_ms()
    today = spending.used(tx, budgets.day(now), person_id=person)
    month = spending.used(tx, budgets.month(now), person_id=person)
    limit = spending.limit_of_person(tx, budgets, person)
    return [f"You today: {against(today, limit)}", f"You this month: {against(month, Amount())}"]


def _chat(tx: Transaction, call: CommandCall, budgets: Budgets) -> list[str]:
    """What others cost here is told where it is limited, or where they all are: in a group."""
    limit = budgets.limit("chat")
    if call.place == "cli" or (not limit and call.key.kind in ("dm", "")):
        return []
    chat = f"{call.key.account_name}:{call.key.chat}"
    return [f"This chat today: {against(spending.used(tx, budgets.day(now_ms()), chat=chat), limit)}"]
