"""Which tests belong to a module, or to all modules of a package; they run until one fails, the quickest first."""

_STORE = "tests/gateway/store"

TESTS: dict[str, tuple[str, ...]] = {
    "gateway.access": ("tests/gateway/test_access.py",),
    "gateway.pairing": ("tests/gateway/test_pairing.py", "tests/gateway/commands/test_access.py"),
    "gateway.sender_limits": ("tests/gateway/test_sender_limits.py",),
    "gateway.store.members": (f"{_STORE}/test_members.py", f"{_STORE}/test_pairing.py", f"{_STORE}/test_processes.py"),
    "gateway.store.pairing": (f"{_STORE}/test_pairing.py", f"{_STORE}/test_invites.py", f"{_STORE}/test_guessing.py"),
    "gateway.store.people": (f"{_STORE}/test_people.py", f"{_STORE}/test_members.py"),
    "tests.mutants.toy": ("tests/mutants/toy_cases.py",),
    "tools.command_guard": ("tests/tools/guard",),
    "tools.guard": ("tests/tools/guard",),
}


def tests_of(module: str) -> tuple[str, ...]:
    """Of the longest name that it lies within; KeyError when there is none."""
    within = [name for name in TESTS if f"{module}.".startswith(f"{name}.")]
    return TESTS[max(within, key=len, default=module)]
