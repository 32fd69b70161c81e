"""Which tests belong to a module, or to all modules of a package; they run until one fails, the quickest first."""

_STORE = "tests/gateway/store"

TESTS: dict[str, tuple[str, ...]] = {
    "gateway.policies.access": ("tests/gateway/policies/test_access.py",),
    "gateway.approvals.service": ("tests/gateway/approvals/test_service.py",),
    "gateway.commands.approvals": ("tests/gateway/commands/test_approvals.py",),
    "gateway.approvals.decisions": ("tests/gateway/approvals/test_decisions.py",),
    "gateway.approvals.terminal": ("tests/gateway/approvals/test_terminal.py",),
    "gateway.policies.pairing": ("tests/gateway/policies/test_pairing.py", "tests/gateway/commands/test_access.py"),
    "gateway.approvals.wording": (
        "tests/gateway/approvals/test_wording.py",
        "tests/gateway/approvals/test_decisions.py",
    ),
    "gateway.inbound.rate_limit": ("tests/gateway/inbound/test_rate_limit.py",),
    "gateway.store.approvals": (f"{_STORE}/test_approvals.py", "tests/gateway/approvals/test_decisions.py"),
    "gateway.store.members": (f"{_STORE}/test_members.py", f"{_STORE}/test_pairing.py", f"{_STORE}/test_processes.py"),
    "gateway.store.pairing": (f"{_STORE}/test_pairing.py", f"{_STORE}/test_invites.py", f"{_STORE}/test_guessing.py"),
    "gateway.store.people": (f"{_STORE}/test_people.py", f"{_STORE}/test_members.py"),
    "tests.mutants.toy": ("tests/mutants/toy_cases.py",),
    "tools.approval.allowlist": ("tests/tools/approval/test_allowlist.py",),
    "tools.approval.wrapper": ("tests/tools/approval/test_wrapper.py",),
    "tools.approval.command": ("tests/tools/approval/test_command.py",),
    "tools.approval.file_access": ("tests/tools/approval/test_file_access.py",),
    "tools.approval.typed_input": ("tests/tools/approval/test_typed_input.py",),
    "tools.approval.changed_files": ("tests/tools/approval/test_changed_files.py",),
    "tools.shell_guard.guard": ("tests/tools/shell_guard/test_guard.py", "tests/tools/shell_guard"),
    "tools.approval.gate": ("tests/tools/approval/test_wrapper.py",),
    "tools.shell_guard": (
        "tests/tools/shell_guard",
        *(f"tests/tools/test_{name}.py" for name in ("command_guard", "taint", "asking")),
    ),
    "tools.approval.taint": ("tests/tools/approval/test_taint.py",),
    "tools.typed": ("tests/tools/approval/test_typed_input.py",),
}


def tests_of(module: str) -> tuple[str, ...]:
    """Of the longest name that it lies within; KeyError when there is none."""
    within = [name for name in TESTS if f"{module}.".startswith(f"{name}.")]
    return TESTS[max(within, key=len, default=module)]
