"""Which files matter."""

import pytest

from tools.shell_guard import paths


@pytest.mark.parametrize("pattern", sorted({*paths._SECRETS, *paths._BY_ITSELF}))
def test_the_quick_look_misses_no_pattern(pattern: str) -> None:
    """It stands before the comparison with all of them, so what it misses is never found."""
    patterns = paths._SECRETS if pattern in paths._SECRETS else paths._BY_ITSELF
    for front in ("~/", "/srv/x/", "\x00/"):
        path = pattern.replace("**/", front).replace("*", "x")
        assert paths._fits(path, patterns)
        assert paths._fits(f"{path}/below", patterns)
