"""The home, the settings in it, and the keys for what is switched on."""

from collections.abc import Iterator

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from gateway.policies.budgets import how_to_price, no_price
from gateway.wiring.policies import unpriced_models
from hermes_config.accounts import bots, missing_tokens
from hermes_config.secrets import SECRETS
from tools.loading import load_builtin
from tools.toolsets import ToolsetError, select

PART = "settings"


def home(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    if facts.home_problem:
        yield bad(PART, facts.home_problem, "HERMES_HOME=~/.hermes-gateway hermes doctor")
    elif not root.exists():
        yield ok(PART, f"There is no home yet; the first start makes {root}")
    else:
        yield ok(PART, f"The home is {root}")


def files(facts: Facts) -> Iterator[Finding]:
    for line in facts.config_problem.splitlines():
        yield bad(PART, line, "hermes config check")
    if facts.loaded is None:
        return
    for warning in facts.loaded.warnings:
        yield warn(PART, warning, "hermes config check")
    there = [file.name for file in (facts.home.config_file, facts.home.env_file) if file.exists()]
    if not facts.loaded.warnings:
        yield ok(
            PART,
            f"{' and '.join(there)} can be read" if there else "There is no config.yaml and no .env, which is fine",
        )


def model(facts: Facts) -> Iterator[Finding]:
    chosen = facts.settings.model
    if chosen.name == "demo":
        yield warn(PART, "The demo model answers, which knows next to nothing", "hermes config set model.name …")
        return
    for name, found in endpoints(facts.settings).items():
        if isinstance(found, NoEndpoint):
            yield bad(PART, str(found), "hermes config check")
        else:
            yield ok(PART, f"The model {name} is asked at {found.provider}")


def prices(facts: Facts) -> Iterator[Finding]:
    for name in unpriced_models(facts.settings):
        yield warn(PART, no_price(name).rstrip("."), how_to_price(name))


def tokens(facts: Facts) -> Iterator[Finding]:
    for line in missing_tokens(facts.settings):
        yield bad(PART, line, "hermes config check")
    for platform, section in facts.settings.platforms:
        needed = [one for one in SECRETS if one.per_account and platform in one.enables]
        if not needed or not section.enabled:
            continue
        missing = [one for one in needed if getattr(facts.settings.secrets, one.field) is None]
        if missing and len(missing) < len(needed):
            text = f"{platform} needs {missing[0].env} as well, from {missing[0].where_to_get}"
            yield bad(PART, text, f"hermes config set {missing[0].env}")
        for account, given in bots(facts.settings, platform).items():
            if all(given):
                yield ok(PART, f"{account} has its token")


def toolsets(facts: Facts) -> Iterator[Finding]:
    if any((facts.home.root / "tools").glob("*.py")):
        return  # may bring toolsets of their own, and looking would run them: `hermes tools` does
    agent = facts.settings.agent
    try:
        select(load_builtin(), agent.enabled_toolsets, agent.disabled_toolsets)
    except ToolsetError as error:
        text = f"agent.enabled_toolsets or agent.disabled_toolsets: {error} The gateway does not start like this."
        yield bad(PART, text, "hermes tools")
