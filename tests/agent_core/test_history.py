from hypothesis import given
from hypothesis import strategies as st

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from agent_core.history import (
    arrange,
    interrupted_by_restart,
    iterations_used,
    never_finished,
    open_calls,
    stopped_by_user,
    with_unique_ids,
)

A, B = (ToolCall(id=name, name=f"tool_{name}", arguments="{}") for name in "ab")

ids = st.sampled_from(["", "a", "b", "c", "d"])
tool_calls = st.builds(ToolCall, id=ids, name=st.sampled_from(["look", "todo"]), arguments=st.just("{}"))
assistants = st.builds(assistant, st.text(max_size=3), tool_calls=st.lists(tool_calls, max_size=3).map(tuple))
results = st.builds(tool_result, tool_calls, st.text(max_size=3))
conversations = st.lists(st.one_of(st.builds(user, st.text(max_size=3)), assistants, results), max_size=12)


@given(conversations)
def test_each_call_is_followed_by_its_one_result_and_there_are_no_others(messages: list[Message]) -> None:
    arranged = arrange(messages)
    expected: list[str] = []
    for message in arranged:
        if message.role == "tool":
            assert message.tool_call_id == expected.pop(0)
        else:
            assert not expected
            expected = [call.id for call in message.tool_calls]
    assert not expected


@given(conversations)
def test_what_people_and_models_said_keeps_its_order(messages: list[Message]) -> None:
    said = [message for message in messages if message.role != "tool"]
    assert [message for message in arrange(messages) if message.role != "tool"] == said


@given(conversations)
def test_arranging_twice_changes_nothing(messages: list[Message]) -> None:
    assert arrange(arrange(messages)) == arrange(messages)


@given(conversations)
def test_nothing_is_open_once_arranged(messages: list[Message]) -> None:
    assert open_calls(arrange(messages)) == []


def test_real_results_are_kept_and_put_in_call_order() -> None:
    asking = assistant(tool_calls=(A, B))
    late, early = tool_result(A, "late"), tool_result(B, "early")
    assert arrange([asking, early, user("and?"), late]) == [asking, late, early, user("and?")]


def test_a_call_in_the_past_without_a_result_is_told_as_interrupted() -> None:
    asking = assistant(tool_calls=(A,))
    assert arrange([asking, user("and?")]) == [asking, never_finished(A), user("and?")]


def test_a_result_that_belongs_to_no_call_is_dropped() -> None:
    assert arrange([tool_result(A, "early"), user("hi"), tool_result(B, "stray")]) == [user("hi")]


def test_an_id_used_again_in_a_later_message_keeps_both_results() -> None:
    asking = assistant(tool_calls=(A,))
    conversation = [asking, tool_result(A, "1"), user("again"), asking, tool_result(A, "2")]
    assert arrange(conversation) == conversation


def test_open_calls_are_those_of_the_last_assistant_message_only() -> None:
    assert open_calls([]) == []
    assert open_calls([assistant(tool_calls=(A, B)), tool_result(A, "1"), user("?")]) == [B]
    assert open_calls([assistant(tool_calls=(A,)), assistant("done")]) == []


@given(assistants, conversations)
def test_new_calls_never_share_an_id_and_keep_the_rest(reply: Message, messages: list[Message]) -> None:
    unique = with_unique_ids(reply, messages)
    new = [call.id for call in unique.tool_calls]
    old = {call.id for message in messages for call in message.tool_calls}
    assert len(set(new)) == len(new)
    assert not set(new) & (old | {""})
    assert [call.name for call in unique.tool_calls] == [call.name for call in reply.tool_calls]
    assert unique.text == reply.text


def test_iterations_count_from_the_last_user_message() -> None:
    asking = assistant(tool_calls=(A,))
    assert iterations_used([user("1"), asking, tool_result(A, ""), user("2")]) == 0
    assert iterations_used([user("2"), asking, tool_result(A, ""), asking]) == 2


def test_the_texts_say_what_is_known_and_name_the_tool() -> None:
    for message, words in (
        (interrupted_by_restart(A), "interrupted by a restart"),
        (stopped_by_user(A), "user stopped"),
        (never_finished(A), "interrupted"),
    ):
        assert words in message.text
        assert "tool_a" in message.text
        assert message.is_error
        assert (message.tool_call_id, message.tool_name) == ("a", "tool_a")
