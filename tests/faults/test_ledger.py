"""The ledger would notice: each promise broken on purpose, by hand, is in the verdict."""

from collections import Counter

from tests.faults.ledger import Arrival, Ledger, Sent, Verdict


def test_all_is_well() -> None:
    ledger = Ledger()
    first, second = accepted(ledger, "hello"), accepted(ledger, 'use side_effect {"id": "$id"}')
    answer(ledger, "k1", first)
    answer(ledger, "k2", second, text=f"side_effect returned: did {second.id}.")
    verdict = judged(ledger, {second.id: 1})
    assert not verdict.offences
    assert (verdict.accepted, verdict.answered, verdict.explained) == (2, 2, 0)


def test_an_accepted_message_without_an_answer_is_lost() -> None:
    ledger = Ledger()
    accepted(ledger, "hello")
    assert judged(ledger).offences == {"lost": ["m1 in a (hello); the database says: nothing"]}


def test_a_message_that_was_stopped_is_lost_unless_the_chat_was_told() -> None:
    ledger = Ledger()
    accepted(ledger, "hello")
    stop = accepted(ledger, "/stop")
    answer(ledger, "k1", stop, text="Nothing is running.")
    assert ledger.judge(effects=Counter(), outcomes={"m1": "stopped"}).count("lost") == 1
    answer(ledger, "k2", accepted(ledger, "/stop"), text="Stopped.")
    assert ledger.judge(effects=Counter(), outcomes={"m1": "stopped"}).explained == 1


def test_the_same_key_again_is_a_copy_and_another_key_is_a_second_answer() -> None:
    ledger = Ledger()
    message = accepted(ledger, "hello")
    answer(ledger, "k1", message)
    answer(ledger, "k1", message)
    assert (judged(ledger).copies, judged(ledger).offences) == (1, {})
    answer(ledger, "k2", message)
    assert judged(ledger).count("answered twice") == 1


def test_answers_in_another_order_than_the_messages_are_noticed() -> None:
    ledger = Ledger()
    first, command, second = accepted(ledger, "one"), accepted(ledger, "/status"), accepted(ledger, "two")
    answer(ledger, "k1", command)  # may overtake
    answer(ledger, "k2", second, first)
    verdict = judged(ledger)
    assert verdict.offences == {"out of order": ["m1 in a (one) was answered after m3 in a (two)"]}


def test_a_message_put_off_by_the_gateway_has_a_new_place() -> None:
    ledger = Ledger()
    first, second = accepted(ledger, "one"), accepted(ledger, "two")
    ledger.put_off(first.id)
    answer(ledger, "k1", second, first)
    assert not judged(ledger).offences


def test_what_the_network_brought_late_has_no_place_in_the_order() -> None:
    ledger = Ledger()
    first, second, third = (accepted(ledger, text) for text in ("one", "two", "three"))
    answer(ledger, "k1", second, first)
    answer(ledger, "k2", third)
    assert judged(ledger).count("out of order") == 1
    first.was_late = True
    assert not judged(ledger).offences


def test_what_may_fail_is_lost_only_when_it_was_taken() -> None:
    ledger = Ledger()
    command = ledger.sent("a", "/status")
    assert judged(ledger).count("never accepted") == 1
    command.may_fail = True
    assert (judged(ledger).failed, judged(ledger).offences) == (1, {})
    ledger.acked(command.id)
    assert judged(ledger).count("lost") == 1


def test_a_tool_that_ran_twice_or_never_is_noticed() -> None:
    ledger = Ledger()
    message = accepted(ledger, 'use side_effect {"id": "$id"}')
    answer(ledger, "k1", message, text=f"did {message.id}.")
    assert set(judged(ledger, {message.id: 2}).offences) == {"effect claimed", "tool ran twice"}
    assert set(judged(ledger, {}).offences) == {"effect claimed"}


def test_an_interrupted_call_is_explained_whether_it_ran_or_not() -> None:
    ledger = Ledger()
    message = accepted(ledger, 'use side_effect {"id": "$id"}')
    answer(ledger, "k1", message, text="This call was interrupted by a restart and has not been run again.")
    for runs in (0, 1):
        verdict = judged(ledger, {message.id: runs})
        assert (verdict.explained, verdict.offences) == (1, {})
    assert set(judged(ledger, {message.id: 2}).offences) == {"tool ran twice"}


def accepted(ledger: Ledger, text: str) -> Sent:
    message = ledger.sent("a", text)
    ledger.acked(message.id)
    return message


def answer(ledger: Ledger, key: str, *messages: Sent, text: str = "") -> None:
    ids = tuple(message.id for message in messages)
    ledger.arrived(Arrival(key=key, chat="a", text=text, answers=ids, reply_to=ids[-1]))


def judged(ledger: Ledger, effects: dict[str, int] | None = None) -> Verdict:
    return ledger.judge(effects=Counter(effects or {}), outcomes={})
