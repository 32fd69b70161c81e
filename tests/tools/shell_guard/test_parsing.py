"""What would run is what bash would run, there too where the grammar reads it otherwise."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.shell_guard.guard import judge
from tools.shell_guard.parsing import UnparsableCommand, parse

# Each runs `show` with words; what it prints is compared with what was resolved.
_SHOWN = [
    "show a 'b c' \"d e\" f\\ g",
    "show a'b'\"c\"\\d",
    'show "-"\\r "a"\\b',
    "show 'x'\\y'z'",
    "show $'a\\x62\\143\\u0064\\'e'",
    'show $"a" x$"b"c -$""d',
    "show a$ b$",
    "sh\\\now a\\\nb",
    "show a \\\n  b",
    "show a\\\\\nshow b\\\\\\\nc",
    "show a#b #c",
    "show {a,b}c x{1,{2,3}} {} {a} '{a,b}'",
    "x='a b'; show $x \"$x\" ${x}c",
    'x=a; show "$x ${x}b"',
    "x=sho; ${x}w a",
    "show${IFS}a${IFS}b",
    "show a > /dev/null b; show c",
    "2>/dev/null show a",
    "A=1 B=2 show a",
    "# comment \\\nshow a",
    "show a | cat; show b && show c",
    "if true; then show a; fi; { show b; }; (show c)",
    "cat <<E > /dev/null -\nx\nE\nshow a",
    "bash <<'E'\nshow 'a b'\nE",
    "bash -c 'show \"a b\"' x; eval show a\\ b",
    "bash <<< 'show b'",
    "f() { show a; }; f",
    "env A=1 =2 show a; command show b",
    "! show a",
    "case a in a) show b;; esac",
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `show`, which prints its words one a line, and the few others that are needed."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "show").write_text('#!/bin/bash\nprintf "%s\\n" show "$@" >> "$SHOWN"\n')
    (folder / "show").chmod(0o755)
    for name in ("bash", "cat", "env", "xargs"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


@pytest.mark.parametrize("command", _SHOWN)
def test_the_words_are_those_that_bash_makes(command: str, programs: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    environment = {"PATH": str(programs), "HOME": str(tmp_path), "SHOWN": str(shown)}
    subprocess.run(["bash", "-c", command], env=environment, cwd=tmp_path, timeout=20, check=False)
    resolved = [argv for argv in judge(command, cwd=str(tmp_path), home=str(tmp_path)).argv if argv[0] == "show"]
    assert [word for words in resolved for word in words] == shown.read_text().split("\n")[:-1]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "echo 'a",
            'echo "a',
            "echo $(ls",
            "if true",
            "ls )",
            "a\\\n#b",
            "a=(1)b ls",
            "cat <<'E'x\nls\nE",
            "ls\n\\s\\h a",
        ),
        *("cat <<E\n`ls`\nE", "ls \x00", "ls \x1b[0m", "ls\r"),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(command: str) -> None:
    with pytest.raises(UnparsableCommand):
        parse(command)


def test_no_letter_behind_a_brace_ends_the_process() -> None:
    """The grammar's scanner reads beyond its table there, so it is tried where it can do no harm."""
    commands = ["echo {\U0010fffd", "echo a{\U000e0061}", "echo {1..\U0010fffd", "echo x{中}"]
    code = (
        f"from tools.shell_guard.guard import judge\nassert [judge(one).verdict for one in {commands!r}] == ['ask'] * 4"
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", code], check=True)
