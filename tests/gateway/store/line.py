"""The turns of a session, one after the other, as the lanes would take them."""

from gateway.store import inbox, turns
from gateway.store.db.connection import Transaction
from gateway.store.turns import Outcome, Turn


def begin(tx: Transaction) -> Turn:
    turn = turns.begin(tx)
    assert turn is not None
    return turn


def end(tx: Transaction, turn: Turn, outcome: Outcome = Outcome.ANSWERED) -> None:
    turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), outcome)


def answer_all(tx: Transaction) -> list[list[str]]:
    """What each of the turns to come has taken."""
    taken = []
    while turn := turns.begin(tx):
        taken.append([message.text for message in turn.messages])
        end(tx, turn)
    return taken
