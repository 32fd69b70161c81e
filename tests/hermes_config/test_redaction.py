"""Secrets are hidden, what only looks like one is not, and no text takes long."""

import base64
import json
import random
import re
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_config.redaction import HIDDEN, NOTE, Redactor, Stream

KEY = "hermes-Canary/4711+geheim=Wort"
PHRASE = 'correct "horse"\nbättery staple'
KNOWN = Redactor([KEY, PHRASE])
TELEGRAM = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw_"
DISCORD = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq\n" * 9 + "x9w==\n-----END RSA PRIVATE KEY-----"

SHAPES = {
    "OpenAI": "sk-proj-Ab3dE6gH9jK2mN5pQ8sT1vW4",
    "OpenAI, old": "sk-abcdefghijklmnopqrst0123456789ABCDEFGHIJKLMNOPQR",
    "Anthropic": "sk-ant-api03-Xy9_Zw8-Vu7tSr6qPo5nMl4kJi3hGf2eDc1bAa0",
    "OpenRouter": "sk-or-v1-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "GitHub": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "GitHub, OAuth": "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "GitHub, fine-grained": "github_pat_11AAAAAAA0abcdefGHIJKL_mnopqrstuvwxyz0123456789ABCDEFGHIJ",
    "GitLab": "glpat-aB3dE6gH9jK2mN5pQ8sT",
    "Slack, bot": "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "Slack, user": "xoxp-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "Slack, app": "xapp-1-A012ABCDEFG-1234567890123-abcdef0123456789",
    "Telegram": TELEGRAM,
    "Discord": DISCORD,
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "Google": "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "JWT": JWT,
    "private key": PEM,
    "private key in JSON": json.dumps(PEM)[1:-1],
    "Hugging Face": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
}
AROUND = {  # what is hidden, and what stays around it
    "Authorization: Bearer abcdefghijkl": "Authorization: Bearer [hidden]",
    '{"authorization": "bearer s3cr3t-t0ken"}': '{"authorization": "bearer [hidden]"}',
    "curl -H 'Authorization: Basic dXNlcjpwYXNz' x": "curl -H 'Authorization: Basic [hidden]' x",
    "use Bearer AbCdEf0123456789xyz now": "use Bearer [hidden] now",
    "postgres://ann:hunter2@db/prod": "postgres://ann:[hidden]@db/prod",
    "redis://:p%40ss!@cache:6379/0": "redis://:[hidden]@cache:6379/0",
    "https://hooks.slack.com/services/T00000000/B00000000/AbCdEfGhIjKlMnOp": "https://hooks.slack.com/services/[hidden]",
    f"https://api.telegram.org/bot{TELEGRAM}/getMe": "https://api.telegram.org/bot[hidden]/getMe",
    f"{PEM}\nand so on": "[hidden]\nand so on",
    f"{PEM[:120]}": "[hidden]",  # cut off
}
HARMLESS = [
    "use sk-learn, or task-list-with-a-very-long-name-2024-final",
    "sk-learn-tutorial-for-beginners-2024-part-1-of-12",
    "disk-0123456789abcdef0123456789abcdef",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "550e8400-e29b-41d4-a716-446655440000",
    "commit 97c1feeed904259a87e6befddf8bf9d688eb61c2",
    "20261116_014702_9f31c2aa  2026-11-16 01:47 UTC  cli:4965e064  user",
    "telegram:dm:123456789, message 1700000000:42",
    "12345678:da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "data:image/png;base64," + base64.b64encode(random.Random(1).randbytes(3000)).decode(),
    base64.urlsafe_b64encode(random.Random(2).randbytes(3000)).decode(),
    "eyJhbGciOiJIUzI1NiJ9 is how it begins",
    base64.b64encode(b'{"a": "' + b"x" * 300 + b'"}').decode(),
    "Bearer of bad news, and the Bearer authentication",
    "Authorization: Bearer $OPENAI_API_KEY",
    "Authorization: Bearer YOUR_API_KEY and Authorization: Bearer your-token-here",
    "Authorization: Bearer <token>",
    "https://example.com:8080/a@b and http://localhost:8766/?token=x@y",
    "https://example.com/path?mail=ann@example.com:x",
    "postgres://$USER:$PASS@db/ or postgres://{user}:{password}@db/",
    "ssh://git@github.com:22/x.git",
    "mailto:ann@example.com",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, xoxb-your-token-here, sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "it begins with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + "MIIEpAIBAAKCAQEA7bq\n" * 5 + "-----END CERTIFICATE-----",
    "com.example.Modules.Nested.SomeVeryLongClassNameThatGoesOnAndOn",
    "ABCD2345 is the code",
    "AKIA is how keys begin",
    HIDDEN,
]
SLOW = {  # what a careless pattern would choke on
    "prose": "The quick brown fox: see https://example.com/a?b=c. ",
    "one word": "a",
    "digits": "1",
    "colons": ":",
    "dots": ".aaaaaa.",
    "dashes": "-----BEGIN ",
    "keys without end": "-----BEGIN PRIVATE KEY-----\n" + "A" * 30 + "\n",
    "ends": "-----BEGIN PRIVATE KEY----------END ",
    "tokens": "eyJ",
    "tokens and dots": "eyJaaaaaaaa.",
    "openings": "sk-",
    "openings apart": "ghp_ sk-a xoxb-1 ",
    "addresses": "://",
    "passwords": "://a:",
    "headers": "Authorization: Bearer ",
    "spaces": "Bearer   ",
    "known ones": f"{KEY} ",
    "their beginnings": KEY[:-1],
    "marks": HIDDEN,
    "lines": "\n",
    "indented lines": "\n      ",
    "spaces alone": " ",
    "stars": "*",
    "escapes": "%25",
    "zero width": "\u200b",
    "disguised beginnings": "*".join(KEY[:-1]),
}


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("around", ["{}", "key={} and on", "'{}'", '{{"key": "{}"}}', "see\n{}\n", "({})", "«{}»"])
def test_what_looks_like_a_secret_is_hidden(secret: str, around: str) -> None:
    assert Redactor().clean(around.format(secret)) == around.format(HIDDEN)


@pytest.mark.parametrize(("text", "cleaned"), AROUND.items())
def test_what_stands_around_it_stays(text: str, cleaned: str) -> None:
    assert Redactor().clean(text) == cleaned


@pytest.mark.parametrize("text", HARMLESS, ids=lambda text: text[:40])
def test_what_is_harmless_is_the_same_object(text: str) -> None:
    assert KNOWN.clean(text) is text
    assert whole(KNOWN, text, 1) == text


@pytest.mark.parametrize("secret", [KEY, PHRASE])
@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda value: f"x{value}x",
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: json.dumps(json.dumps(value)),
        quote,
        lambda value: quote(value, safe=""),
        lambda value: quote(value, safe="").lower() if value == PHRASE else quote(value, safe=""),
        quote_plus,
        *(
            lambda value, before=before: base64.b64encode(before + value.encode() + b" and more").decode()
            for before in (b"", b"1", b"12", b"123")
        ),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    ],
)
def test_a_known_value_is_hidden_however_it_is_spelled(secret: str, spell: object) -> None:
    assert callable(spell)
    spelled = spell(secret)
    cleaned = KNOWN.clean(f"it is {spelled}, isn't it")
    assert cleaned.startswith("it is ")
    assert cleaned.endswith(", isn't it")
    assert HIDDEN in cleaned
    assert len(cleaned.replace(HIDDEN, "")) < 40  # what is left of base64 are the ends that hang on their neighbours


def _split(text: str, mark: str, at: int) -> str:
    return f"{text[:at]}{mark}{text[at:]}"


DISGUISES: dict[str, Callable[[str], str]] = {
    "bold": lambda value: f"{value[:9]}**{value[9:14]}**{value[14:]}",
    "code": lambda value: f"`{value[:9]}``{value[9:]}`",
    "struck": lambda value: _split(value, "~~", 12),
    "spoiler": lambda value: _split(value, "||", 12),
    "zero width": lambda value: "\u200b".join(value),
    "joiners": lambda value: _split(_split(value, "\u2060", 5), "\ufeff", 13),
    "soft hyphen": lambda value: _split(value, "\u00ad", 10),
    "needless escapes": lambda value: "".join(f"%{ord(one):02X}" for one in value),
    "small escapes": lambda value: value.replace("-", "%2d").replace("e", "%65"),
    "escaped twice": lambda value: value.replace("-", "%252D").replace("H", "%252548"),
    "new line": lambda value: _split(value, "\n", 11),
    "wrapped": lambda value: _split(_split(value, "\r\n", 8), "\n    ", 20),
    "quoted": lambda value: _split(value, "\n> ", 15),
    "shell": lambda value: _split(value, "\\\n", 15),
    "wrapped base64": lambda value: _split(base64.b64encode(value.encode()).decode(), "\n", 17),
    "two at once": lambda value: _split(_split(value, "**", 7), "\n\u200b", 16),
}


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
@pytest.mark.parametrize("secret", [KEY, SHAPES["OpenAI"], TELEGRAM, DISCORD])
def test_a_known_value_is_hidden_in_any_disguise(secret: str, disguise: Callable[[str], str]) -> None:
    redactor = Redactor([secret])
    text = f"it is {disguise(secret)} then"
    cleaned = redactor.clean(text)
    assert HIDDEN in cleaned
    assert (cleaned[:6], cleaned[-5:]) == ("it is ", " then")
    assert len(cleaned.replace(HIDDEN, "")) < 20
    assert redactor.clean(cleaned) is cleaned
    in_pieces = whole(redactor, text, 1)
    assert HIDDEN in in_pieces
    assert len(in_pieces.replace(HIDDEN, "")) < 24


@pytest.mark.parametrize("disguise", ["bold", "zero width", "needless escapes", "code"])
@pytest.mark.parametrize("secret", [SHAPES["OpenAI"], SHAPES["GitHub"], TELEGRAM])
def test_what_looks_like_a_secret_is_hidden_in_a_disguise_within_a_line(secret: str, disguise: str) -> None:
    cleaned = Redactor().clean(f"it is {DISGUISES[disguise](secret)} then")
    assert HIDDEN in cleaned
    assert len(cleaned.replace(HIDDEN, "")) < 20


@pytest.mark.parametrize("secret", [TELEGRAM, DISCORD, SHAPES["Slack, bot"]])
def test_the_secret_half_of_a_token_is_hidden_alone(secret: str) -> None:
    half = re.split("[:.]" if "xox" not in secret else "-", secret)[-1]
    assert Redactor([secret]).clean(f"it is {half}.") == f"it is {HIDDEN}."


def test_lines_that_only_look_joined_stay() -> None:
    text = "use `abcd` and\nefgh, 50%25 of **it**\n> or sk-\nlearn\n"
    assert Redactor(["abcd-efgh-1234", KEY]).clean(text) is text


def test_short_ones_are_hidden_as_words_and_shorter_ones_not_at_all() -> None:
    redactor = Redactor(["test", "abc", "", "p4$$"])
    assert redactor.clean("a test, the latest tests: abc, test_1, p4$$") == (
        "a [hidden], the latest tests: abc, test_1, [hidden]"
    )


def test_the_longest_wins_and_what_overlaps_is_hidden_as_one() -> None:
    redactor = Redactor(["abcdefgh", "abcdefghijkl", "ijklmnopqr"])
    assert redactor.clean("-abcdefghijkl-abcdefgh-") == "-[hidden]-[hidden]-"
    assert redactor.clean("abcdefghijklmnopqr") == HIDDEN


@pytest.mark.parametrize("value", ["hidden", "[hidden]", "secret", "Something"])
def test_what_is_clean_stays_whatever_a_password_is_called(value: str) -> None:
    redactor = Redactor([value])
    cleaned = redactor.clean(f"{HIDDEN} {NOTE} https://a:{HIDDEN}@b")
    assert redactor.clean(cleaned) is cleaned


def test_a_structure_is_cleaned_all_through() -> None:
    found = KNOWN.clean_all({KEY: [1, None, True, 1.5, (KEY, {"a": PHRASE})], "error": RuntimeError(KEY)})
    assert found == {HIDDEN: [1, None, True, 1.5, [HIDDEN, {"a": HIDDEN}]], "error": f"RuntimeError('{HIDDEN}')"}


def test_json_written_with_escapes_is_read_first() -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in KEY)
    assert json.loads(KNOWN.clean_json(f'{{"path": "{escaped}"}}')) == {"path": HIDDEN}
    assert KNOWN.clean_json(f'{{"broken": "\\n{KEY}') == f'{{"broken": "\\n{HIDDEN}'
    harmless = '{"text": "a\\u00e4\\n"}'
    assert KNOWN.clean_json(harmless) is harmless


def test_a_cut_excerpt_shows_no_piece_of_a_known_value() -> None:
    assert KNOWN.clean_excerpt(f"…{KEY[7:]} and {KEY[:9]}…") == f"…{HIDDEN} and {HIDDEN}…"
    assert KNOWN.clean_excerpt(f"{KEY[7:]} stays…") == f"{KEY[7:]} stays…"
    assert KNOWN.clean_excerpt(f"…{KEY}…") == f"…{HIDDEN}…"
    assert KNOWN.clean_excerpt("…nothing…") == "…nothing…"


# In pieces.


def whole(redactor: Redactor, text: str, size: int) -> str:
    stream = Stream(redactor)
    shown = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join([*shown, stream.rest()])


TOLD = "the {} of it, and on."


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("secret", [*SHAPES.values(), KEY, PHRASE])
def test_a_secret_that_comes_in_pieces_is_hidden(secret: str, size: int) -> None:
    told, alone = whole(KNOWN, TOLD.format(secret), size), whole(KNOWN, secret, size)
    if secret == DISCORD:  # it begins with the number of the bot, which is no secret
        told, alone = (re.sub(r"M\w{0,4}(?=\[)", "", text) for text in (told, alone))
    assert (told, alone) == (TOLD.format(HIDDEN), HIDDEN)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("text", AROUND)
def test_what_is_hidden_by_what_stands_before_it_is_hidden_in_pieces_too(text: str, size: int) -> None:
    assert whole(KNOWN, f"see {text} there", size) == KNOWN.clean(f"see {text} there")


@pytest.mark.parametrize("secret", [*SHAPES.values(), KEY, PHRASE])
def test_nothing_of_it_is_seen_on_the_way(secret: str) -> None:
    stream, seen = Stream(KNOWN), ""
    for character in f"it is {secret}":
        seen += stream.feed(character)
        assert seen in (f"it is {DISCORD}"[:11] if secret == DISCORD else "it is ")
    assert seen.startswith("it is ")


def test_in_the_middle_of_a_word_little_is_seen() -> None:
    assert len(whole(KNOWN, f"key{KEY}s", 1).replace(HIDDEN, "")) <= len("keys") + 3


def test_words_that_begin_nothing_are_shown_at_once() -> None:
    stream = Stream(KNOWN)
    pieces = ["It is late.", " Much later", " than you think", ": twelve o'clock"]
    assert [stream.feed(piece) for piece in pieces] == pieces


def test_a_stream_that_begins_again_has_forgotten() -> None:
    stream = Stream(KNOWN)
    stream.feed(KEY[:10])
    stream.forget()
    assert stream.feed("so.") == "so."
    assert stream.rest() == ""


PIECES = st.one_of(
    st.text(alphabet=string.ascii_letters + string.digits + " .:-_/@\n{}\"'äß…*`%\u200b", max_size=30),
    st.sampled_from([disguise(KEY) for disguise in DISGUISES.values()]),
    st.sampled_from([*SHAPES.values(), *AROUND, *HARMLESS[:9], KEY, PHRASE, KEY[:9], PHRASE[:12], HIDDEN, "%2", "**"]),
)


@given(st.lists(PIECES, max_size=6).map(" ".join))
@settings(max_examples=150)
def test_cleaning_twice_changes_nothing_and_no_known_value_is_left(text: str) -> None:
    cleaned = KNOWN.clean(text)
    assert KNOWN.clean(cleaned) is cleaned
    assert KEY not in cleaned
    assert PHRASE not in cleaned


@given(st.lists(PIECES, max_size=6).map(" ".join), st.integers(1, 12))
@settings(max_examples=150)
def test_in_pieces_nothing_is_lost_and_nothing_known_is_left(text: str, size: int) -> None:
    shown = whole(KNOWN, text, size)
    assert KEY not in shown
    assert PHRASE not in shown
    if KNOWN.clean(text) is text:
        assert shown == text


@pytest.mark.parametrize("words", SLOW.values(), ids=SLOW)
def test_no_text_takes_long(words: str) -> None:
    """A careless pattern would need minutes or hours for this; the limit of the test run is the watchdog."""
    text = (words * (1_000_000 // len(words) + 1))[:1_000_000]
    redactor = Redactor([KEY, PHRASE, "test", *(f"{number:032x}" for number in range(20))])
    redactor.clean(text)
    whole(redactor, text[:200_000], 1_000)
