"""The home, the settings in it, and the tokens that enabled platforms and models need."""

from collections.abc import Iterator
from pathlib import Path

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from agent_core.prompt import Layers, build_prompt, measure_fixed_cost
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from gateway.policies.budgets import how_to_price, no_price
from gateway.skills.engine import write_index
from gateway.turns.prompts import read_text
from gateway.wiring.basics import build_library
from gateway.wiring.policies import unpriced_models
from hermes_config.accounts import bots, missing_tokens
from hermes_config.secrets import SECRETS
from tools.loading import load_builtin
from tools.toolsets import TOOLSET_SETTINGS, ToolsetError, choose_tools

_CHECK = "hermes config check"
MAX_FIXED_TOKENS = 4_000


def check_home(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    if facts.home_problem:
        yield bad(facts.home_problem, "HERMES_HOME=~/.hermes-gateway hermes doctor")
    elif not root.exists():
        yield ok(f"{root} does not exist yet; the first start creates it")
    else:
        yield ok(f"The home is {root}")


def check_files(facts: Facts) -> Iterator[Finding]:
    yield from (bad(line, _CHECK) for line in facts.config_problem.splitlines())
    if facts.loaded is None:
        return
    yield from (warn(warning, _CHECK) for warning in facts.loaded.warnings)
    if not facts.loaded.warnings:
        found = [file.name for file in (facts.home.config_file, facts.home.env_file) if file.exists()]
        yield ok(f"{' and '.join(found)} can be read" if found else "No config.yaml and no .env: all defaults")


def check_model(facts: Facts) -> Iterator[Finding]:
    if facts.settings.model.name == "demo":
        yield warn(
            "The demo model is in use; it only knows a few phrases",
            "hermes setup model, or: hermes config set model.name …",
        )
        return
    for name, endpoint in endpoints(facts.settings).items():
        if isinstance(endpoint, NoEndpoint):
            yield bad(str(endpoint), _CHECK)
        else:
            yield ok(f"Model {name} from {endpoint.provider}")


def check_prices(facts: Facts) -> Iterator[Finding]:
    yield from (warn(no_price(name).rstrip("."), how_to_price(name)) for name in unpriced_models(facts.settings))


def check_tokens(facts: Facts) -> Iterator[Finding]:
    yield from (bad(line, _CHECK) for line in missing_tokens(facts.settings))
    for platform, section in facts.settings.platforms:
        needed = [secret for secret in SECRETS if secret.per_account and platform in secret.enables]
        if not needed or not section.enabled:
            continue
        missing = [secret for secret in needed if getattr(facts.settings.secrets, secret.field) is None]
        if missing and len(missing) < len(needed):
            text = f"{platform} also needs {missing[0].env}; get it from {missing[0].where_to_get}"
            yield bad(text, f"hermes config set {missing[0].env}")
        complete = (account for account, given in bots(facts.settings, platform).items() if all(given))
        yield from (ok(f"{account} has its token") for account in complete)


def check_fixed_cost(facts: Facts) -> Iterator[Finding]:
    """Tell what every request costs before anybody has said a word."""
    try:
        tools = choose_tools(load_builtin(), facts.settings.agent).select("cli")
    except ToolsetError:
        return  # another check explains it
    layers = Layers(
        personality=read_text(facts.home.root / "SOUL.md"),
        tools=tuple(tool.name for tool in tools),
        user_name=facts.settings.user.name,
        user_timezone=facts.settings.user.timezone,
        skills=write_index(build_library(facts.settings, facts.home))
        if any(tool.name == "skill_view" for tool in tools)
        else "",
        project=read_text(Path(facts.settings.terminal.cwd).expanduser() / "AGENTS.md")
        if facts.settings.terminal.works_here
        else "",
    )
    cost = measure_fixed_cost(build_prompt(layers), tools)
    text = (
        f"Each request begins with about {cost.total:,} tokens: {cost.prompt:,} for the prompt, "
        f"{cost.tools:,} for {len(tools)} tools"
    )
    if cost.total <= MAX_FIXED_TOKENS:
        yield ok(text)
    else:
        yield warn(f"{text}, more than {MAX_FIXED_TOKENS:,}", "shorten SOUL.md or AGENTS.md, or disable toolsets")


def check_toolsets(facts: Facts) -> Iterator[Finding]:
    if any((facts.home.root / "tools").glob("*.py")):
        return  # these may define toolsets of their own; finding out would run them, as `hermes tools` does
    try:
        choose_tools(load_builtin(), facts.settings.agent).check()
    except ToolsetError as error:
        yield bad(f"The gateway cannot start. {TOOLSET_SETTINGS}: {error}", "hermes tools")
