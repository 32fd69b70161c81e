"""Ask each server whether it accepts our token. The only check that uses the network."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from gateway.platforms.all import PLATFORMS
from hermes_config.accounts import bots
from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings

_SECONDS = 10.0
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One request. Its address and its key are never shown: Telegram's address holds the token."""

    whom: str
    fix: str
    url: str = field(repr=False)
    key: str = field(default="", repr=False)  # the header Authorization
    method: str = "POST"
    find_name: Callable[[Mapping[str, Any]], str] = lambda answer: ""
    refused_by: tuple[int, ...] = (401, 403, 404)  # Telegram answers 404 to what does not even look like a token


def check_tokens(facts: Facts) -> Iterator[Finding]:
    yield from asyncio.run(_ask_all(list(list_probes(facts.settings))))


def list_probes(settings: Settings) -> Iterator[Probe]:
    for spec in PLATFORMS:
        variables = [one.env for one in SECRETS if one.per_account and spec.name in one.enables]
        for account, tokens in bots(settings, spec.name).items() if spec.token_checks else ():
            api_url = getattr(settings.platforms, spec.name).api_url.rstrip("/")
            bot = account.partition("@")[2]
            for variable, token, check in zip(variables, tokens, spec.token_checks, strict=True):
                if token:  # else another check says that it is missing
                    yield Probe(
                        whom=f"{account} ({check.label})" if check.label else account,
                        fix=f"hermes config set {variable}_{bot.upper()}" if bot else f"hermes config set {variable}",
                        url=api_url + check.path.format(token=token),
                        key=check.authorization.format(token=token),
                        method=check.method,
                        find_name=check.find_bot_name,
                    )
    for name, endpoint in endpoints(settings).items():
        if not isinstance(endpoint, NoEndpoint):
            yield Probe(
                whom=f"The model server of {name}",
                fix=f"hermes config set {endpoint.key_env or 'model.base_url'}",
                url=f"{endpoint.base_url.rstrip('/')}/models",
                key=f"Bearer {endpoint.key}" if endpoint.key else "",
                method="GET",
                refused_by=(401, 403),  # not every server lists its models
            )


async def _ask_all(probes: Sequence[Probe]) -> list[Finding]:
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=limit, trust_env=False) as session:
        return await asyncio.gather(*(_ask(session, probe) for probe in probes))


async def _ask(session: aiohttp.ClientSession, probe: Probe) -> Finding:
    headers = {"Authorization": probe.key} if probe.key else {}
    try:
        # A redirect is not followed: it would take the token to another server.
        async with session.request(probe.method, probe.url, headers=headers, allow_redirects=False) as response:
            return _judge(probe, response.status, await response.content.read(_MAX_BYTES))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return warn(f"{probe.whom} cannot be reached: {type(error).__name__}", "check the network connection")


def _judge(probe: Probe, status: int, content: bytes) -> Finding:
    body = _as_object(content)
    if status in probe.refused_by or (status == 200 and body.get("ok") is False):
        return bad(f"{probe.whom} rejects our token (status {status})", probe.fix)
    if status != 200:
        return warn(f"{probe.whom} answers with status {status}", "try again later")
    name = probe.find_name(body)
    return ok(f"{probe.whom} accepts our token" + (f"; the bot's name is {name}" if name else ""))


def _as_object(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
