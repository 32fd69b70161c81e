"""`/why` and `/usage`: what became of a message, and what a conversation has cost."""

from collections.abc import Sequence

from gateway.clock import now_ms
from gateway.commands.registry import CHAT_ONLY, CommandCall, CommandSpec
from gateway.policies.budgets import Amount, Budgets, against, dollars, how_to_price, no_price
from gateway.store import people, sessions, spending, trace
from gateway.store.db.connection import Transaction
from gateway.trace import NOT_LET_IN, UNADDRESSED, UNKNOWN, GatewayState, chat_lines, refused

_NOTHING_YET = "There is no message in this conversation yet."


def why(tx: Transaction, call: CommandCall) -> str:
    """The message that it replies to, or else the last one before it; never one of another chat."""
    account, chat = call.key.account_name, call.key.chat
    event = None
    # On Slack whatever is said in a thread replies to the message that opened it, and means none in particular.
    if call.about in ("", call.key.thread):
        event = trace.newest_message(tx, str(call.key))
    if event is None and call.about:
        event = trace.find_message(tx, account, chat, call.about)
    found = trace.read(tx, event) if event is not None else None
    if found is not None and found.user == call.key.user:
        return "\n".join(chat_lines(found, now_ms(), GatewayState()))
    return _untaken(tx, call) if call.about else _NOTHING_YET


def _untaken(tx: Transaction, call: CommandCall) -> str:
    place = call.key.account_name, call.key.chat, call.about
    if trace.was_overheard(tx, *place):
        return UNADDRESSED
    refusal = trace.refusal_of(tx, *place)
    if refusal is None:
        return UNKNOWN
    return refused(refusal) if call.role == "owner" else NOT_LET_IN  # why not is between them and the owner


def trace_commands(budgets: Budgets, unpriced: Sequence[str] = ()) -> tuple[CommandSpec, ...]:
    """`unpriced`: models that a limit in money does not bind, which owners should know."""

    def usage(tx: Transaction, call: CommandCall) -> str:
        lines = [_conversation(tx, call), *_mine(tx, call, budgets), *_chat(tx, call, budgets)]
        if call.is_owners_own:
            day = budgets.day(now_ms())
            lines.append(f"Everybody today: {against(spending.used(tx, day), budgets.limit('day'))}")
            lines += [f"{no_price(model)} {how_to_price(model)} says it." for model in unpriced]
        return "\n".join(lines)

    about = "Show what happened to the message you reply to, or to the last one"
    return (
        CommandSpec("usage", "Session", "Show tokens, cost and what is left of the budget", usage),
        CommandSpec("why", "Session", about, why, places=CHAT_ONLY),
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
    """Describe the spending of a chat, where it is limited or shared by a group."""
    limit = budgets.limit("chat")
    if call.place == "cli" or (not limit and call.key.is_private):
        return []
    chat = f"{call.key.account_name}:{call.key.chat}"
    return [f"This chat today: {against(spending.used(tx, budgets.day(now_ms()), chat=chat), limit)}"]
