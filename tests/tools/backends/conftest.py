"""Whether a sandbox can be made here decides which tests there are: where it cannot, those that need one are not."""

import pytest

from tools.backends.sandbox import SandboxProblem, find_features


def _problem() -> str:
    try:
        find_features()
    except SandboxProblem as error:
        return str(error)
    return ""


PROBLEM = _problem()
collect_ignore = ["test_bubblewrap.py"] if PROBLEM else []


def pytest_report_header(config: pytest.Config) -> str:
    return f"sandbox: {PROBLEM or 'can be made here'}"
