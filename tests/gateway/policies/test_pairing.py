"""Codes: how they are made, read and hashed, and what is said about them."""

import string

import pytest

from gateway.policies import pairing


def test_the_alphabet_has_32_letters_that_nobody_confuses() -> None:
    assert len(set(pairing.ALPHABET)) == len(pairing.ALPHABET) == 32
    assert set(string.ascii_uppercase + string.digits) - set(pairing.ALPHABET) == set("01IO")


def test_codes_use_the_whole_alphabet_and_do_not_repeat() -> None:
    codes = [pairing.new_code() for _ in range(2000)]
    assert {len(code) for code in codes} == {8}
    assert set("".join(codes)) == set(pairing.ALPHABET)
    assert len(set(codes)) == 2000


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("ABCD2345", "ABCD2345"),
        ("abcd2345", "ABCD2345"),
        (" ABCD-2345\n", "ABCD2345"),
        ("ab cd 23 45", "ABCD2345"),
        ("ABCD–2345", "ABCD2345"),  # a phone made the dash long
        ("`ABCD2345`", "ABCD2345"),
        ("ABCD234", None),
        ("ABCD23456", None),
        ("ABCD234O", None),
        ("ABCD2340", None),
        ("ABCD2341", None),
        ("IBCD2345", None),
        ("ABCD234ß", None),
        ("ABCDEFß", None),  # two letters in upper case
        ("ABCD234ſ", None),  # an S in upper case
        ("ABCD.2345", None),
        ("", None),
    ],
)
def test_a_code_is_read_however_it_is_typed(typed: str, code: str | None) -> None:
    assert pairing.read_code(typed) == code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("abcd-2345", "ABCD2345"),
        ("/start ABCD2345", "ABCD2345"),
        ("/start@hermes_bot abcd2345", "ABCD2345"),
        ("/START  ABCD2345", "ABCD2345"),
        ("/start", None),
        ("/stop ABCD2345", None),
        ("my code is ABCD2345", None),
        ("ABCD2345 please", None),
    ],
)
def test_a_message_is_a_code_only_if_it_is_nothing_else(said: str, code: str | None) -> None:
    assert pairing.code_in(said) == code


def test_the_hash_depends_on_code_and_salt_and_shows_neither() -> None:
    one = pairing.fingerprint("ABCD2345", b"a" * 16)
    assert one == pairing.fingerprint("ABCD2345", b"a" * 16)
    assert pairing.is_same(one, bytes(one))
    others = [pairing.fingerprint("ABCD2345", b"b" * 16), pairing.fingerprint("ABCD2346", b"a" * 16)]
    assert not any(pairing.is_same(one, other) for other in others)
    assert b"ABCD2345" not in one


def test_the_hash_stays_as_slow_as_it_was() -> None:
    """Of any other cost or length this would be another one."""
    found = pairing.fingerprint("ABCD2345", b"a" * 16).hex()
    assert found == "baae6fb0e144294d57929f72dbedbaff4d67fb610f45ebe3b8fb9c646b0a1c6a"


@pytest.mark.parametrize(
    ("name", "account", "covered"),
    [
        ("telegram", "telegram", True),
        ("telegram", "telegram@work", True),
        ("telegram@work", "telegram@work", True),
        ("telegram@work", "telegram", False),
        ("telegram@work", "telegram@home", False),
        ("tele", "telegram", False),
    ],
)
def test_a_platform_means_all_its_accounts(name: str, account: str, covered: bool) -> None:
    assert pairing.covers(name, account) is covered


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("/pairing approve ABCD2345", "/pairing approve [not kept]"),
        ("/pairing@bot Approve telegram abcd 2345 owner", "/pairing@bot Approve [not kept]"),
        ("/pairing\napprove\nABCD2345", "/pairing approve [not kept]"),
        ("/pairing ABCD2345", "/pairing [not kept]"),
        ("/pairing aprove ABCD2345", "/pairing [not kept]"),
        ("/pairing revoke 123", "/pairing revoke 123"),
        ("/pairing", "/pairing"),
        ("/pairing list", "/pairing list"),
        ("/pairing clear telegram", "/pairing clear telegram"),
        ("/pairing invite telegram", "/pairing invite telegram"),
        ("/help ABCD2345", "/help ABCD2345"),
        ("", ""),
    ],
)
def test_what_is_kept_of_a_command_holds_no_code(command: str, kept: str) -> None:
    assert pairing.without_code(command) == kept
    assert pairing.holds_code(command) is (kept != command)


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        *(("42", True), ("9" * 32, True), ("U02ABC3", True), ("W012", True)),
        *(("", False), ("9" * 33, False), ("-42", False), ("Ada", False), ("@ada", False), ("USER", False)),
    ],
)
def test_an_id_is_told_from_a_name(text: str, is_id: bool) -> None:
    assert pairing.looks_like_id(text) is is_id


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (3_600_000, "1 hour"),
        (3_599_900, "1 hour"),
        (3_540_000, "59 minutes"),
        (5_400_000, "90 minutes"),
        (7_200_000, "2 hours"),
        (60_000, "1 minute"),
        (216_000_000, "60 hours"),
        (149_999, "2 minutes"),
        (90_001, "2 minutes"),
        (29_999, "29 seconds"),
        (29_000, "29 seconds"),
        (1_000, "1 second"),
        (0, "1 second"),
    ],
)
def test_lengths_of_time(ms: int, said: str) -> None:
    assert pairing.in_words(ms) == said


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("\x1b[2J\x07Ada\r\n", "2J Ada"),
        ("Ada\u202egnp.exe", "Ada gnp.exe"),
        ("[click](https://example.org)", "click (https://example.org)"),
        ("a" * 1000, "a" * 64),
        ("", "42"),
        ("\u200b", "42"),
    ],
)
def test_a_strangers_name_is_shown_without_its_tricks(name: str, shown: str) -> None:
    assert pairing.plain_name(name, "42") == shown


def test_the_link_opens_the_bot_with_the_code() -> None:
    assert pairing.deep_link("@hermes_bot", "ABCD2345") == "https://t.me/hermes_bot?start=ABCD2345"


def test_an_unknown_platform_is_answered_with_the_nearest() -> None:
    assert pairing.nearest("Telegramm", ["telegram", "discord"]).endswith("Did you mean telegram?")
    assert pairing.nearest("fax", ["telegram", "discord"]).endswith("Known here: discord, telegram.")
    assert pairing.nearest("fax", []).endswith("Known here: none.")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (pairing.approved("Ada", "telegram:42", "guest"), "To undo this: hermes pairing revoke telegram 42"),
        (pairing.approved("Ada", "telegram:42", "guest", in_chat=True), "To undo this: /pairing revoke telegram 42"),
        (
            pairing.revoked("Ada", "42", "telegram", is_listed=False),
            "Ada (42) may no longer talk to me. `hermes pairing invite telegram` lets them in again.",
        ),
        (
            pairing.revoked("42", "42", "telegram", is_listed=False, in_chat=True),
            "42 may no longer talk to me. "
            "To let them in again, create an invite on the machine itself: hermes pairing invite telegram",
        ),
        (pairing.revoked("Ada", "42", "telegram", is_listed=True), "so that no outdated entry remains."),
        (pairing.cleared(0, 0), "Nobody was waiting to be let in, and no invite was open."),
        (
            pairing.cleared(1, 0),
            "1 request is forgotten and its code is void. Anyone who still wants in can ask again.",
        ),
        (pairing.cleared(0, 1), "1 invite is forgotten and its code is void."),
        (
            pairing.cleared(2, 1),
            "2 requests and 1 invite are forgotten and their codes are void. Anyone who still wants in can ask again.",
        ),
        (
            pairing.wrong_code("telegram@work", well_formed=True, tries_left=1),
            "Nobody on telegram@work is waiting with that code; it may be mistyped, used or expired. "
            "Ask them for the code again; the next wrong one locks approval on telegram.",
        ),
        (
            pairing.wrong_code("telegram", well_formed=False, tries_left=2),
            "That is not a pairing code: a code has 8 letters and digits, without 0, O, 1 and I. "
            "Ask them for the code again; 2 more wrong ones lock approval on telegram.",
        ),
    ],
)
def test_what_is_said_fits_what_happened(said: str, words: str) -> None:
    assert said.endswith(words)
