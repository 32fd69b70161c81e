"""Codes: how they are made, read and hashed, and what is said about them."""

import string

import pytest

from gateway import pairing


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
    ],
)
def test_what_is_kept_of_a_command_holds_no_code(command: str, kept: str) -> None:
    assert pairing.without_code(command) == kept


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (3_600_000, "1 hour"),
        (3_599_900, "1 hour"),
        (3_540_000, "59 minutes"),
        (5_400_000, "90 minutes"),
        (7_200_000, "2 hours"),
        (60_000, "1 minute"),
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
