"""Which tests belong to a module, or to all modules of a package; they run until one fails, the quickest first."""

_STORE = "tests/gateway/store"

TESTS: dict[str, tuple[str, ...]] = {
    "gateway.access": ("tests/gateway/test_access.py",),
    "gateway.approvals": ("tests/gateway/test_approvals.py",),
    "gateway.commands.approvals": ("tests/gateway/commands/test_approvals.py",),
    "gateway.decisions": ("tests/gateway/test_decisions.py",),
    "gateway.local_gate": ("tests/gateway/test_local_gate.py",),
    "gateway.pairing": ("tests/gateway/test_pairing.py", "tests/gateway/commands/test_access.py"),
    "gateway.question_words": ("tests/gateway/test_question_words.py", "tests/gateway/test_decisions.py"),
    "gateway.sender_limits": ("tests/gateway/test_sender_limits.py",),
    "gateway.store.approvals": (f"{_STORE}/test_approvals.py", "tests/gateway/test_decisions.py"),
    "gateway.store.members": (f"{_STORE}/test_members.py", f"{_STORE}/test_pairing.py", f"{_STORE}/test_processes.py"),
    "gateway.store.pairing": (f"{_STORE}/test_pairing.py", f"{_STORE}/test_invites.py", f"{_STORE}/test_guessing.py"),
    "gateway.store.people": (f"{_STORE}/test_people.py", f"{_STORE}/test_members.py"),
    "tests.mutants.toy": ("tests/mutants/toy_cases.py",),
    "tools.allowlist": ("tests/tools/test_allowlist.py",),
    "tools.approval": ("tests/tools/test_approval.py",),
    "tools.asking": ("tests/tools/test_asking.py",),
    "tools.asking_files": ("tests/tools/test_asking_files.py",),
    "tools.asking_typed": ("tests/tools/test_asking_typed.py",),
    "tools.changed_files": ("tests/tools/test_changed_files.py",),
    "tools.command_guard": ("tests/tools/test_command_guard.py", "tests/tools/guard"),
    "tools.gate": ("tests/tools/test_approval.py",),
    "tools.guard": (
        "tests/tools/guard",
        *(f"tests/tools/test_{name}.py" for name in ("command_guard", "taint", "asking")),
    ),
    "tools.taint": ("tests/tools/test_taint.py",),
    "tools.typed": ("tests/tools/test_asking_typed.py",),
}


def tests_of(module: str) -> tuple[str, ...]:
    """Of the longest name that it lies within; KeyError when there is none."""
    within = [name for name in TESTS if f"{module}.".startswith(f"{name}.")]
    return TESTS[max(within, key=len, default=module)]
