"""What developers do all day works in the owner's sandbox, in this order, without a question."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.programs import needs
from tests.tools.places import asking
from tools.backends.base import Workplace
from tools.builtin.processes import process_tools
from tools.process_book import ProcessesInMemory
from tools.workplaces import build_workplace

pytestmark = [needs("bubblewrap"), needs("git"), needs("curl"), needs("procps"), pytest.mark.slow]

WHEEL = """python3 - <<'END'
import pathlib, zipfile
folder = pathlib.Path("index/simple/greet")
folder.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(folder / "greet-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("greet.py", "def greet(): return 'hello'\\n")
    wheel.writestr("greet-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: greet\\nVersion: 1.0\\n")
    wheel.writestr("greet-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("greet-1.0.dist-info/RECORD", "")
END
"""
REGISTRY = """
mkdir -p greet registry && cd greet
printf '{"name": "greet", "version": "1.0.0", "main": "index.js"}' > package.json
echo "module.exports = () => 'hello'" > index.js && npm pack --silent && mv greet-1.0.0.tgz ../registry/
cd ../registry && printf '%s' '{"name": "greet", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
"name": "greet", "version": "1.0.0", "dist": {"tarball": "http://127.0.0.1:8898/greet-1.0.0.tgz"}}}}' > greet; cd ..
"""
WAIT = "for n in $(seq 100); do curl -sf http://127.0.0.1:{port}/ >/dev/null && break; sleep 0.1; done; true"

# Commands that must succeed; those with "&" at the end are started in the background.
EVERYDAY = [
    "pwd",
    "ls -la",
    "git init -q -b main .",
    "git status --short",
    "printf 'def add(a, b):\\n    return a + b\\n' > sums.py",
    "printf 'from sums import add\\n\\ndef test_add():\\n    assert add(1, 2) == 3\\n' > test_sums.py",
    "cat sums.py test_sums.py | wc -l",
    "git add -A && git commit -qm 'Add sums'",
    "git log --oneline | grep 'Add sums' && git log -1 --format=%ae | grep -x ada@example.org",
    "git checkout -q -b feature",
    "sed -i 's/a + b/b + a/' sums.py && git diff --stat",
    "git commit -qam 'Swap' && git checkout -q main && git merge -q feature",
    "git stash list; git tag v1; git branch -d feature",
    "git clone -q . /tmp/copy && ls /tmp/copy/sums.py",
    "git remote add origin /tmp/copy && git fetch -q origin",
    "git config user.name Somebody",
    "git worktree add -q /tmp/tree main~1 && git worktree list | wc -l",
    "git grep -n add",
    "python3 -c 'import sums; print(sums.add(1, 2))'",
    "python3 -m venv --without-pip .venv",  # pip itself takes a minute on a busy machine
    ". .venv/bin/activate && python -c 'import sys; assert sys.prefix != sys.base_prefix' && deactivate",
    WHEEL,
    "cd index && python3 -m http.server --bind 127.0.0.1 8899 &",
    WAIT.format(port=8899),
    "python3 -m pip install -q --disable-pip-version-check --index-url http://127.0.0.1:8899/simple -t lib greet",
    "PYTHONPATH=lib .venv/bin/python -c 'import greet; print(greet.greet())' | grep hello",
    "python3 -m pip list --path lib --disable-pip-version-check | grep greet",
    "python3 -m pytest -q || python3 -c 'import test_sums as t; t.test_add()'",
    "python3 -m py_compile sums.py && ls __pycache__",
    "printf 'all: out.txt\\nout.txt: sums.py\\n\\twc -l sums.py > out.txt\\n' > Makefile && make -s && cat out.txt",
    "make -s all -j4",
    "printf 'int main(void) { return 0; }\\n' > zero.c; if command -v gcc; then gcc -o zero zero.c && ./zero; fi",
    "export npm_config_update_notifier=false; npm init -y >/dev/null && head -3 package.json",
    REGISTRY,
    "cd registry && python3 -m http.server --bind 127.0.0.1 8898 &",
    WAIT.format(port=8898),
    "npm install --silent --no-audit --no-fund --registry http://127.0.0.1:8898 greet",
    "node -e \"console.log(require('greet')())\" | grep hello",
    "npm run 2>/dev/null; npx --no-install node --version",
    'node -e \'require("fs").writeFileSync("made.json", "{}")\' && cat made.json',
    "mkdir -p site && echo '<h1>page</h1>' > site/index.html",
    "cd site && exec python3 -m http.server 8000 &",
    WAIT.format(port=8000),
    "curl -s http://localhost:8000/ | grep page",
    "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8000/missing | grep 404",
    "pgrep -f '[h]ttp.server 8000'",
    "pkill -f '[h]ttp.server 8000'; sleep 0.3; ! curl -s http://127.0.0.1:8000/",
    "find . -name '*.py' -not -path './.venv/*' | sort | head",
    "grep -rn 'def ' --include=*.py . --exclude-dir=.venv | wc -l",
    "tar czf /tmp/all.tgz --exclude=.venv . && tar tzf /tmp/all.tgz | wc -l",
    "mktemp -d && df -h . | tail -1 && du -sh . | tail -1",
    "cp sums.py more.py && mv more.py less.py && rm less.py",
    "chmod +x sums.py && ln -s sums.py alias.py && ls -l alias.py && rm alias.py",
    "echo 'export COLOUR=blue' > env.sh && . ./env.sh && export COLOUR",
    'test "$COLOUR" = blue',
    "cd site && pwd",
    "pwd | grep site && cd ..",
    "sort sums.py | uniq | awk '{ print NF }' | xargs -n1 echo | tail -1",
    "date; hostname; id; uname -r; nproc; ps aux | wc -l",
    "(sleep 0.1; echo late) & wait",
    "timeout 5 bash -c 'for n in 1 2 3; do echo $n; done'",
    "grep ordinary ~/notes.txt",
    "python3 -c 'import tempfile, sqlite3; sqlite3.connect(tempfile.mktemp()).execute(\"create table t (a)\")'",
    "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'",
    "mkdir -p ~/.cache/tool && touch ~/.cache/tool/state",
]


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workplace]:
    user = tmp_path / "ada"
    (user / "project").mkdir(parents=True)
    (user / "notes.txt").write_text("ordinary\n")
    (user / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[credential]\n\thelper = store\n"
    )
    monkeypatch.setenv("HOME", str(user))
    home = Home(user / ".hermes")
    (home.root / "logs").mkdir(parents=True)
    made = build_workplace(
        TerminalSettings(), user / "project", home=home, private=home.private / "me", is_owner=True, holder="me"
    )
    yield made
    await made.backend.close()


@pytest.mark.timeout(600)
async def test_a_day_of_development_fails_nowhere_and_asks_nothing(place: Workplace) -> None:
    """The gate of this context refuses every question, so that a question would be a failure."""
    terminal, process = (asking(tool, place) for tool in process_tools(ProcessesInMemory()))
    failed: dict[str, str] = {}
    for command in EVERYDAY:
        if command.endswith(" &"):
            await terminal(command=command.removesuffix(" &"), background=True)
        elif (told := await terminal(command=command))["exit_code"]:
            failed[command] = json.dumps(told)
    assert failed == {}
    assert len(EVERYDAY) >= 60
    for running in (await process(action="list"))["processes"]:
        await process(action="kill", session_id=running["session_id"])


PREVENTED = [
    ("echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.'; exit 1", "Docker cannot be"),
    ("echo x > /usr/x", "can be written"),
    ("echo x >> ~/notes.txt", "can be written"),
    ("ls ~/.hermes/logs", "~/.hermes/logs is hidden"),
    ("echo 'sudo: The \"no new privileges\" flag is set'; exit 1", "more rights"),
    ("curl -sS --noproxy '*' https://example.org", "only by the proxy"),
    ("python3 -c 'import socket; socket.create_connection((\"example.org\", 80))'", "only by the proxy"),
]


async def test_what_the_sandbox_prevents_comes_with_the_way_out(place: Workplace) -> None:
    terminal = asking(process_tools(ProcessesInMemory())[0], place)
    for command, reason in PREVENTED:
        told = await terminal(command=command)
        assert told["exit_code"]
        assert reason in told["note"], (command, told)
        assert "outside=true" in told["note"]


async def test_a_failure_of_its_own_comes_without_it(place: Workplace) -> None:
    for command in ("false", "cat missing.txt", "ls /no/such/folder", "exit 3"):
        told = await asking(process_tools(ProcessesInMemory())[0], place)(command=command)
        assert told["exit_code"]
        assert "note" not in told
