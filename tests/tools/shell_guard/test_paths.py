"""Which files matter."""

import pytest

from tools.shell_guard import paths
from tools.shell_guard.programs import listed


@pytest.mark.parametrize("section", ["secrets", "run-by-themselves"])
def test_the_quick_look_misses_no_pattern(section: str) -> None:
    """It stands before the comparison with all of them, so what it misses is never found."""
    for pattern in listed(section):
        for front in ("~/", "/srv/x/", "\x00/"):
            path = pattern.replace("**/", front).replace("*", "x")
            assert paths._fits(path, section), pattern
            assert paths._fits(f"{path}/below", section), pattern
