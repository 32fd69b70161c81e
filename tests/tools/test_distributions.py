"""Distributions over toolsets."""

import subprocess
import sys

import pytest

from tools.distributions import DISTRIBUTIONS, find_absent, find_distribution
from tools.loading import load_builtin
from tools.toolsets import TOOLSETS, ToolsetError

DRAWS = 10_000


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_toolsets_are_drawn_as_often_as_their_chances_say(name: str) -> None:
    distribution = find_distribution(name)
    assert set(distribution.chances) <= set(TOOLSETS)
    samples = [distribution.sample(f"prompt {number}", seed=7) for number in range(DRAWS)]
    assert all(samples)
    never = 1.0
    for chance in distribution.chances.values():
        never *= 1 - chance
    for toolset, chance in distribution.chances.items():
        drawn = sum(toolset in sample for sample in samples) / DRAWS
        # Five standard deviations, and what the likeliest gains from draws that came to nothing.
        assert abs(drawn - chance) <= 5 * (chance * (1 - chance) / DRAWS) ** 0.5 + never


def test_the_same_seed_draws_the_same_in_another_process() -> None:
    script = (
        "from tools.distributions import find_distribution as f\n"
        "print([f('balanced').sample(str(n), seed=3) for n in range(50)])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    balanced = find_distribution("balanced")
    here = [balanced.sample(str(number), seed=3) for number in range(50)]
    assert told.strip() == str(here)
    assert here != [balanced.sample(str(number), seed=4) for number in range(50)]


def test_an_unknown_distribution_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(ToolsetError, match="Did you mean 'research'"):
        find_distribution("reserch")


def test_toolsets_that_have_no_tool_here_are_named() -> None:
    absent = find_absent(find_distribution("balanced"), load_builtin())
    assert "terminal" not in absent
    assert all(absent.values())
    assert find_absent(find_distribution("default"), []) == dict.fromkeys(
        ("terminal", "file", "todo"), "it has no tools"
    )
