"""The machine, the database, the running gateway with its servers, and its systemd unit."""

import asyncio
import os
import platform
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from gateway.clock import for_people, roughly
from gateway.doctor.facts import SYSTEM_UNITS, UNIT, Facts, Finding, bad, ok, warn
from gateway.platforms.all import PLATFORMS
from gateway.wording import count
from hermes_config.accounts import bots
from hermes_config.mcp import McpServer, read_servers
from hermes_config.secrets import SECRETS
from hooks.loader import find_hooks
from tools.backends.base import BackendFailed
from tools.backends.remote.places import check_backend, kinds_in_use
from tools.content import in_bytes
from tools.loading import load_builtin
from tools.mcp.base import McpProblem, prepare
from tools.mcp.logins import Logins
from tools.toolsets import choose_tools

_OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 1_000_000_000, 100_000_000
_BEFORE_HERMES_MS = 1_735_689_600_000  # 2025 began
_CLOCK_SLACK_MS = 300_000
_SILENT_MS = 15_000  # the gateway writes its state every second
_BACKUP_GRACE_MS = 86_400_000  # only a running gateway makes backups, and it need not run all the time
_NOTICE_AGE_MS = 7 * 86_400_000


def check_versions(facts: Facts) -> Iterator[Finding]:
    found = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as connection:
        [has_search] = connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        needed = ".".join(map(str, _OLDEST_SQLITE))
        yield bad(f"{found}: Hermes needs SQLite {needed} or newer", "use a Python with a newer SQLite")
    elif not has_search:
        yield bad(f"{found}: this SQLite was built without FTS5", "use a Python whose SQLite has FTS5")
    else:
        yield ok(found)


def check_disk(facts: Facts) -> Iterator[Finding]:
    if facts.free_bytes is None:
        return
    database_bytes = facts.store.size_bytes if facts.store else 0
    text = f"{in_bytes(facts.free_bytes)} free on the disk of {facts.home.root}"
    fix = "free some disk space"
    if facts.free_bytes < _TOO_LITTLE_BYTES:
        yield bad(f"{text}: when it is full, messages are refused", fix)
    elif facts.free_bytes < max(_LITTLE_BYTES, 2 * database_bytes):
        yield warn(f"{text}: a backup may not fit", fix)
    else:
        yield ok(text)


def check_clock(facts: Facts) -> Iterator[Finding]:
    ahead_ms = max(facts.backup_ms, default=0) - facts.now_ms
    if facts.now_ms < _BEFORE_HERMES_MS:
        yield bad("The clock of this machine is years behind", "timedatectl set-ntp true")
    elif ahead_ms > _CLOCK_SLACK_MS:
        text = f"The newest backup is dated {roughly(ahead_ms)} in the future: the clock was changed"
        yield warn(text, "timedatectl status")
    else:
        yield ok("The clock looks right")


def check_packages(facts: Facts) -> Iterator[Finding]:
    needed = {spec.sdk: spec.name for spec in PLATFORMS if spec.sdk and bots(facts.settings, spec.name)}
    if facts.settings.platforms.web.enabled:
        needed["aiohttp"] = "the web page"
    if facts.settings.model.name != "demo":
        needed["openai"] = f"the model {facts.settings.model.name}"
    for module, user in needed.items():
        if find_spec(module) is None:
            yield bad(f"The Python package {module} is missing; {user} needs it", "install Hermes again")


def check_sandbox(facts: Facts) -> Iterator[Finding]:
    terminal = facts.settings.terminal
    if "sandbox" not in (terminal.backend, terminal.members_backend) and terminal.backend != "auto":
        return
    if not facts.sandbox_problem:
        # Only a running gateway knows: its use of control groups depends on how it was started.
        limits = facts.gateway.get("sandbox_limits") if facts.gateway else ""
        limited = f"commands are limited {limits}" if limits else "run this while the gateway runs to see its limits"
        yield ok(f"The sandbox works (bubblewrap); {limited}")
    elif facts.loaded and terminal.backend == "sandbox":
        yield bad(f"terminal.backend is sandbox. {facts.sandbox_problem}", facts.sandbox_fix)
    else:
        owners = "The owner's commands run on this machine, and nobody" if terminal.works_here else "Nobody"
        text = f"{owners} else gets tools that need a sandbox"
        yield warn(f"{text}. {facts.sandbox_problem}", facts.sandbox_fix)


def check_backends(facts: Facts) -> Iterator[Finding]:
    """Run a command in each remote backend that is chosen."""
    terminal = facts.settings.terminal
    for kind in kinds_in_use(terminal):
        try:
            asyncio.run(check_backend(terminal, kind, facts.home))
        except BackendFailed as error:
            yield bad(f"terminal backend {kind}: {error}", getattr(error, "fix", ""))
        else:
            yield ok(f"The {kind} backend works: a command was run in it")


def check_ripgrep(facts: Facts) -> Iterator[Finding]:
    if facts.has_ripgrep:
        yield ok("ripgrep is installed, so file searches are fast")
    else:
        yield warn(
            "ripgrep is not installed, so file searches are slow and do not honour .gitignore",
            "apt install ripgrep",
        )


def check_browser(facts: Facts) -> Iterator[Finding]:
    agent = facts.settings.agent
    if "browser" not in choose_tools(load_builtin(), agent).leaves(agent.enabled_toolsets):
        return
    if facts.browser_problem:
        missing, _, fix = facts.browser_problem.partition(": ")
        yield warn(f"The agent has no browser: {missing}", fix.removeprefix("install it with: ").partition(",")[0])
    elif facts.user_id == 0 and "BROWSERBASE_API_KEY" not in facts.secrets:
        text = "Chromium runs without its own sandbox, because Hermes runs as root: a page that breaks it is root too"
        yield warn(text, "run Hermes as an ordinary user")
    else:
        yield ok("The browser can be started")


def check_database(facts: Facts) -> Iterator[Finding]:
    if facts.store_problem:
        yield bad(facts.store_problem)  # which says what to do
    elif facts.store is None:
        if not facts.home_problem:
            yield ok("There is no database yet; the first start creates it")
    elif facts.store.access is None:
        yield warn("state.db was written by an older version; the next start backs it up and upgrades it")
    else:
        yield ok(f"state.db is intact ({in_bytes(facts.store.size_bytes)})")


def check_backups(facts: Facts) -> Iterator[Finding]:
    if facts.store is None:
        return
    fix = "hermes gateway run"
    if not facts.backup_ms:
        yield warn("There is no backup of state.db yet. A running gateway makes them by itself", fix)
        return
    age_ms = facts.now_ms - facts.backup_ms[0]
    if age_ms > facts.settings.store.backup_every_hours * 3_600_000 + _BACKUP_GRACE_MS:
        yield warn(f"The newest backup is {roughly(age_ms)} old; only a running gateway makes backups", fix)
    else:
        yield ok(f"{count(len(facts.backup_ms), 'backup')}, the newest {roughly(age_ms)} old")


def list_notices(facts: Facts) -> Iterator[Finding]:
    for notice in facts.store.notices if facts.store else ():
        if facts.now_ms - notice.at_ms < _NOTICE_AGE_MS:
            yield warn(f"{for_people(notice.at_ms)}: {notice.text}")


def check_jobs(facts: Facts) -> Iterator[Finding]:
    for job in facts.store.failing_jobs if facts.store else ():
        state = "is paused" if job.status == "paused" else "goes on"
        text = f"The job {job.name!r} failed {count(job.failures, 'time')} in a row and {state}"
        yield warn(text, f"hermes cron history {job.id}")


def check_gateway(facts: Facts) -> Iterator[Finding]:
    state = facts.gateway
    if state is None:
        command = "hermes gateway run"
        if facts.units:
            command = f"systemctl {_user_flag(facts.units[0])}start {facts.units[0].stem}"
        yield warn("The gateway is not running", command)
        return
    silent_ms = facts.now_ms - int(state.get("told_ms", facts.now_ms))
    pid = state.get("pid", "unknown")
    if silent_ms > _SILENT_MS:
        text = f"The gateway (pid {pid}) has not reported for {roughly(silent_ms)}: it, or its disk, hangs"
        yield bad(text, "stop it, then start it again: hermes gateway run")
    elif problem := state.get("store"):
        yield bad(f"The gateway (pid {pid}) accepts no messages: {problem}", "hermes status")
    else:
        yield ok(f"The gateway is {state.get('state', 'running')}, pid {pid}")


def check_platforms(facts: Facts) -> Iterator[Finding]:
    if facts.gateway is None:
        return
    connections = dict(facts.gateway.get("platforms", {}))
    for account, connection in connections.items():
        yield _check_connection(facts, account, connection)
    names = (name for name, _ in facts.settings.platforms if any(name in one.enables for one in SECRETS))
    for account in (account for name in names for account in bots(facts.settings, name)):
        if account not in connections:
            yield warn(f"{account} was configured after the gateway started", "restart the gateway")


def check_model(facts: Facts) -> Iterator[Finding]:
    model = dict((facts.gateway or {}).get("model", {}))
    if problem := model.get("problem"):
        yield bad(f"The last call to the model {model.get('name', '')} failed: {problem}", "hermes config check")
    elif answered_ms := model.get("answered_ms"):
        yield ok(f"The model {model.get('name', '')} answered {roughly(facts.now_ms - answered_ms)} ago")


def check_hooks(facts: Facts) -> Iterator[Finding]:
    """Find hooks that are broken, or that the running gateway has switched off."""
    if not (facts.home.root / "hooks").is_dir():
        return
    found = find_hooks(facts.home.root, facts.settings.hooks.disabled)
    running = dict((facts.gateway or {}).get("hooks", {}))
    for hook in found:
        if hook.enabled and hook.problem:
            yield warn(f"The hook {hook.name} is not used: {hook.problem}", f"hermes hooks test {hook.name}")
        elif running.get(hook.name, {}).get("off"):
            problem = running[hook.name]["problem"]
            yield warn(f"The hook {hook.name} was switched off after failures: {problem}", "hermes hooks list")
    used = [hook.name for hook in found if hook.is_usable and not hook.bundled]
    if used:
        yield ok(f"{count(len(used), 'hook is', 'hooks are')} in use: {', '.join(used)}")


def check_mcp_servers(facts: Facts) -> Iterator[Finding]:
    """Find servers that cannot be started, or that fail in the running gateway."""
    running = dict((facts.gateway or {}).get("mcp", {}))
    sound = 0
    for name, server in read_servers(facts.settings.mcp.servers).items():
        problem = str(running.get(name, {}).get("problem", ""))
        try:
            prepare(server)
        except McpProblem as error:
            problem = str(error)
        if problem:
            command = "login" if running.get(name, {}).get("state") == "needs login" else "test"
            yield warn(f"The MCP server {name} does not work: {problem}", f"hermes mcp {command} {name}")
        sound += not problem
        yield from (warn(f"The MCP server {name}: {note}") for note in running.get(name, {}).get("renamed", ()))
    known = {McpServer.model_validate_json(entry).name for entry in facts.settings.mcp.servers}
    for name in set(Logins(facts.home.mcp_logins).names()) - known:
        yield warn(f"There are tokens of {name}, which is no MCP server in the settings", f"hermes mcp logout {name}")
    if sound:
        yield ok(f"{count(sound, 'MCP server')} configured without a known problem")


def check_units(facts: Facts) -> Iterator[Finding]:
    for unit in facts.units:
        program = _read_program(unit)
        if program and not os.access(program, os.X_OK):
            which = "" if _user_flag(unit) else " --system"
            yield bad(f"{unit} starts {program}, which does not exist", f"hermes gateway install{which}")
        elif not any(unit.parent.glob(f"*.wants/{UNIT}")):
            yield warn(f"{unit} is not enabled", f"systemctl {_user_flag(unit)}enable --now {unit.stem}")
        else:
            yield ok(f"{unit} is enabled")
    if any(map(_user_flag, facts.units)) and not facts.lingers:
        yield warn("The service stops when you log out", "loginctl enable-linger")


def _check_connection(facts: Facts, account: str, connection: dict[str, object]) -> Finding:
    state, problem = connection.get("state"), connection.get("problem")
    last_ms = connection.get("last_heard_ms")
    seen = f", last contact {roughly(facts.now_ms - last_ms)} ago" if isinstance(last_ms, int) and last_ms else ""
    if state == "connected":
        return ok(f"{account} is connected{seen}")
    text = f"{account} is not connected{seen}: {problem or state}"
    if state != "needs operator":
        return warn(f"{text}; retrying", "hermes status")
    name, _, bot = account.partition("@")
    token = next((one for one in SECRETS if one.per_account and name in one.enables), None)
    env = token.env_of(bot) if token and bot else token.env if token else ""
    return bad(text, f"hermes config set {env}, then restart the gateway" if env else "hermes status")


def _user_flag(unit: Path) -> str:
    return "" if unit.parent == SYSTEM_UNITS else "--user "


def _read_program(unit: Path) -> str:
    """Return the program that a unit starts; empty where the file alone does not tell."""
    found = re.search(r"^ExecStart=[-@:+!]*(\S+)", unit.read_text(errors="replace"), re.M)
    program = found[1].replace("%h", str(Path.home())) if found else ""
    return program if program.startswith("/") and "%" not in program else ""
