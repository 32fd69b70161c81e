"""How large a picture is, by its header alone."""

import math
import random

import pytest

from gateway.media.kinds import detect_format, find_picture_problem, measure_picture
from tests.gateway.media import samples

MADE = {"png": samples.png, "jpeg": samples.jpeg, "gif": samples.gif, "webp": samples.webp}


@pytest.mark.parametrize("kind", MADE)
def test_the_size_is_read_from_the_header(kind: str) -> None:
    content = MADE[kind](640, 480)
    assert measure_picture(detect_format(content).mime, content) == (640, 480)


@pytest.mark.parametrize("kind", MADE)
def test_a_header_cut_anywhere_is_no_picture_or_its_size(kind: str) -> None:
    whole = MADE[kind](640, 480)
    for length in range(13, len(whole)):
        assert measure_picture(detect_format(whole).mime, whole[:length]) in ((0, 0), (640, 480))


@pytest.mark.parametrize(
    ("mime", "content"),
    [
        ("image/png", samples.png(50_000, 50_000)),
        ("image/jpeg", samples.jpeg(50_000, 50_000)),
        ("image/gif", samples.gif(50_000, 50_000)),
        ("image/webp", samples.webp(16_000, 16_000)),
        ("image/webp", samples.webp(1, 1, canvas=(50_000, 50_000))),
    ],
    ids=["png", "jpeg", "gif", "webp", "webp with a larger canvas"],
)
def test_what_would_be_huge_is_known_without_unpacking_it(mime: str, content: bytes) -> None:
    assert len(content) < 200_000
    assert math.prod(measure_picture(mime, content)) > 200_000_000


@pytest.mark.parametrize(
    ("mime", "content"),
    [
        ("image/png", samples.png(0, 5)),
        ("image/jpeg", b"\xff\xd8" + b"\xff" * 1_000_000),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x00" * 1000),
        ("image/gif", b"GIF89a"),
        ("image/webp", b"RIFF\0\0\0\0WEBP" + b"JUNK\0\0\0\0" * 5000),
    ],
)
def test_a_header_that_makes_no_sense_gives_no_size(mime: str, content: bytes) -> None:
    assert math.prod(measure_picture(mime, content)) == 0


@pytest.mark.parametrize("kind", MADE)
def test_no_change_of_a_header_breaks_the_look_at_it(kind: str) -> None:
    dice = random.Random(kind)
    for _ in range(2_000):
        content = bytearray(MADE[kind](640, 480))
        for _ in range(dice.randint(1, 6)):
            content[dice.randrange(len(content))] = dice.randrange(256)
        form = detect_format(bytes(content))
        if form.kind == "image" and not form.problem:
            assert min(measure_picture(form.mime, bytes(content))) >= 0


@pytest.mark.parametrize(
    ("width", "height", "problem"),
    [
        (8_000, 4_000, ""),
        (8_001, 10, "is wider or taller than 8,000 pixels"),
        (10, 8_001, "is wider or taller than 8,000 pixels"),
        (8_000, 8_000, "has 64 million pixels"),
    ],
)
def test_no_model_is_shown_what_its_provider_may_refuse(width: int, height: int, problem: str) -> None:
    content = samples.jpeg(width, height)
    assert problem in find_picture_problem(detect_format(content), content, 50_000_000)
    assert bool(find_picture_problem(detect_format(content), content, 50_000_000)) == bool(problem)
