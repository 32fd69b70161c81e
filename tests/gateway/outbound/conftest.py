"""No waiting between tries."""

import pytest

from gateway.outbound import delivery


@pytest.fixture(autouse=True)
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Keep after how many failures the next wait was asked for."""
    asked: list[int] = []

    def wait_not(failures: int) -> float:
        asked.append(failures)
        return 0.0

    monkeypatch.setattr(delivery, "backoff_seconds", wait_not)
    return asked
