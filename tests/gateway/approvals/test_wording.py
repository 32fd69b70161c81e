"""What a question says, and what people answer."""

from dataclasses import replace

import pytest

from gateway.approvals.wording import (
    WROTE_INSTEAD,
    Verdict,
    escape_invisible,
    list_choices,
    parse_verdict,
    read_verdict,
    render_outcome,
    render_question,
)
from gateway.messages import Address
from gateway.store.approvals import Approval, State
from gateway.wording import shorten
from tests.gateway.store.test_approvals import ASKER, QUESTION

APPROVAL = Approval(
    id="abc234",
    call_id="c1",
    asker=ASKER,
    question=replace(QUESTION, reasons=("it deletes ~/proj", "it is late"), rules=("rule a", "rule b")),
    asked_at=Address(account="telegram", chat="42"),
    outbox_id=None,
    state="waiting",
    scope="",
    decided_by="",
    asked_ms=0,
    expires_ms=0,
)
ONCE_ONLY = replace(APPROVAL, question=replace(APPROVAL.question, rules=()))


def test_a_question_says_all_that_would_be_done_where_and_why() -> None:
    assert render_question(APPROVAL, 3_600_000).splitlines() == [
        "⚠️ May I do this?",
        "```",
        "rm -r ~/proj",
        "```",
        "Where: on this machine, in ~",
        "Reason: it deletes ~/proj.",
        "Reason: it is late.",
        "Session and Always also allow: `rule a`, `rule b`",
        "No answer within 1 h means no. You can also send /approve abc234 or /deny abc234.",
    ]


def test_what_there_is_nothing_to_say_about_is_left_out() -> None:
    bare = replace(ONCE_ONLY, question=replace(ONCE_ONLY.question, where=""))
    said = render_question(bare, 60_000, for_whom="Ann\u202e")
    assert said.startswith("⚠️ May I do this for Ann\\u202e?\n")
    assert "Where:" not in said
    assert "Session" not in said
    assert "1 min" in said


@pytest.mark.parametrize("action", ["a", "`a`", "```\nb\n```", "````", "x" * 9_000])
def test_a_command_cannot_break_out_of_its_fence(action: str) -> None:
    lines = render_question(replace(APPROVAL, question=replace(QUESTION, action=action)), 1).splitlines()
    fence = lines[1]
    assert len(fence) >= 3
    assert set(fence) == {"`"}
    end = lines.index(fence, 2)
    assert "\n".join(lines[2:end]) == action
    assert fence not in action


def test_the_fence_is_one_longer_than_what_it_holds() -> None:
    fences = [
        render_question(replace(APPROVAL, question=replace(QUESTION, action=action)), 1).splitlines()[1]
        for action in ("", "``", "```", "```` `")
    ]
    assert fences == ["```", "```", "````", "`````"]


@pytest.mark.parametrize(
    ("approval", "labels"), [(APPROVAL, ["Once", "Session", "Always", "Deny"]), (ONCE_ONLY, ["Once", "Deny"])]
)
def test_the_buttons_are_those_that_can_be_pressed(approval: Approval, labels: list[str]) -> None:
    offered = list_choices(approval)
    assert [choice.label for choice in offered] == labels
    assert [choice.action for choice in offered] == [f"approval:abc234:{label.lower()}" for label in labels]
    assert all(len(choice.action.encode()) <= 64 for choice in offered)


@pytest.mark.parametrize(
    ("state", "scope", "decided_by", "said"),
    [
        ("waiting", "", "", "Waiting for an answer: `rm -r ~/proj`"),
        ("approved", "once", "x", "✅ Allowed once by Olga: `rm -r ~/proj`"),
        ("used", "once", "x", "✅ Allowed once by Olga: `rm -r ~/proj`"),
        (
            "used",
            "session",
            "x",
            "✅ Allowed for this conversation by Olga: `rm -r ~/proj` (also allows `rule a`, `rule b`)",
        ),
        ("approved", "always", "x", "✅ Always allowed by Olga: `rm -r ~/proj` (also allows `rule a`, `rule b`)"),
        ("denied", "", "x", "⛔ Denied by Olga: `rm -r ~/proj`"),
        ("denied", "", WROTE_INSTEAD, "↩️ Not done, because you wrote something else: `rm -r ~/proj`"),
        ("expired", "", "", "⌛ No answer in time, so it was not done: `rm -r ~/proj`"),
        ("withdrawn", "", "", "↩️ No longer needed: `rm -r ~/proj`"),
    ],
)
def test_its_last_words_say_what_became_of_it(state: State, scope: str, decided_by: str, said: str) -> None:
    decided = replace(APPROVAL, state=state, scope=scope, decided_by=decided_by)
    assert render_outcome(decided, by="Olga") == said
    assert render_outcome(decided) == said.replace(" by Olga", "")


def test_last_words_are_one_line_without_marks_of_their_own() -> None:
    hostile = replace(APPROVAL, state="denied", question=replace(QUESTION, action="a\n\n`b`\t\u202ec"))
    assert render_outcome(hostile, by="Eve\u200b") == "⛔ Denied by Eve\\u200b: `a 'b' \\u202ec`"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("yes", "once"),
        ("Yes!", "once"),
        (" YES. ", "once"),
        ("y", "once"),
        ("ok", "once"),
        ("go ahead", "once"),
        ("do it", "once"),
        ("yes, please", "once"),
        ("👍", "once"),
        ("once", "once"),
        ("yes once", "once"),
        ("session", "session"),
        ("yes session", "session"),
        ("ok, session!", "session"),
        ("always", "always"),
        ("Yes, always.", "always"),
        ("no", "deny"),
        ("No!", "deny"),
        ("don’t", "deny"),
        ("don't", "deny"),
        ("not now", "deny"),
        ("never", "deny"),
        ("👎", "deny"),
        ("", None),
        ("yes but make a copy first", None),
        ("yes?", None),
        ("yes or no", None),
        ("no always", None),
        ("not always", None),
        ("never always", None),
        ("yessession", None),
        ("maybe always", None),
        ("yes always always", None),
        ("yes always please", None),
        ("is that ok", None),
        ("deny session", None),
        ("allowed", None),
        ("/approve", None),
    ],
)
def test_only_what_is_nothing_but_an_answer_is_one(said: str, verdict: Verdict | None) -> None:
    assert read_verdict(said) == verdict


@pytest.mark.parametrize("word", ["once", "session", "always", "deny"])
def test_the_words_of_buttons_are_verdicts(word: str) -> None:
    assert parse_verdict(word) == word


@pytest.mark.parametrize("word", ["", "yes", "Once", "once ", "approve", None, 0, True])
def test_no_other_word_is(word: object) -> None:
    assert parse_verdict(word) is None


def test_a_long_line_is_cut_and_says_so() -> None:
    assert shorten("a\n b\t c ", 300) == "a b c"
    assert shorten("x" * 300, 300) == "x" * 300
    assert shorten("x" * 301, 300) == "x" * 299 + "…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünï 中 👍", "plain ünï 中 👍"),
        ("a\nb\tc", "a\nb\tc"),
        ("a\rb", "a\\u000db"),
        ("\x1b[2J", "\\u001b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u2028b", "a\\u2028b"),
        ("a\u2029b", "a\\u2029b"),
        ("a\ue000b", "a\\ue000b"),
        ("a\u0378b", "a\\u0378b"),
        ("a\ud800b", "a\\ud800b"),
        ("a\x00b", "a\\u0000b"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown
