"""Ask each server whether it accepts our token. The only check that uses the network."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from gateway.platforms.all import PLATFORMS
from gateway.platforms.spec import PlatformSpec
from hermes_config.accounts import bots
from hermes_config.secrets import find_tokens
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
    find_next_step: Callable[[Mapping[str, Any]], str] = lambda answer: ""
    refused_by: tuple[int, ...] = (401, 403, 404)  # Telegram answers 404 to what does not even look like a token


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer:
    """The result of one request."""

    finding: Finding
    bot_name: str = ""
    next_step: str = ""  # a link for the person who set the token


def check_tokens(facts: Facts) -> Iterator[Finding]:
    yield from (answer.finding for answer in asyncio.run(ask_all(list_probes(facts.settings))))


async def ask_all(probes: Iterable[Probe]) -> list[TokenAnswer]:
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=limit, trust_env=False) as session:
        return await asyncio.gather(*(_ask(session, probe) for probe in probes))


def list_account_probes(settings: Settings, spec: PlatformSpec, account: str, tokens: Sequence[str]) -> Iterator[Probe]:
    api_url = getattr(settings.platforms, spec.name).api_url.rstrip("/")
    bot = account.partition("@")[2]
    for secret, token, check in zip(find_tokens(spec.name), tokens, spec.token_checks, strict=True):
        if token:  # else another check says that it is missing
            yield Probe(
                whom=f"{account} ({check.label})" if check.label else account,
                fix=f"hermes config set {secret.env_of(bot) if bot else secret.env}",
                url=api_url + check.path.format(token=token),
                key=check.authorization.format(token=token),
                method=check.method,
                find_name=check.find_bot_name,
                find_next_step=check.find_next_step,
            )


def list_probes(settings: Settings) -> Iterator[Probe]:
    for spec in PLATFORMS:
        for account, tokens in bots(settings, spec.name).items() if spec.token_checks else ():
            yield from list_account_probes(settings, spec, account, tokens)
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


async def _ask(session: aiohttp.ClientSession, probe: Probe) -> TokenAnswer:
    headers = {"Authorization": probe.key} if probe.key else {}
    try:
        # A redirect is not followed: it would take the token to another server.
        async with session.request(probe.method, probe.url, headers=headers, allow_redirects=False) as response:
            return _judge(probe, response.status, await response.content.read(_MAX_BYTES))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        problem = f"{probe.whom} cannot be reached: {type(error).__name__}"
        return TokenAnswer(finding=warn(problem, "check the network connection"))


def _judge(probe: Probe, status: int, content: bytes) -> TokenAnswer:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    body = answer if isinstance(answer, dict) else {}
    if status in probe.refused_by or (status == 200 and body.get("ok") is False):
        return TokenAnswer(finding=bad(f"{probe.whom} rejects our token (status {status})", probe.fix))
    if status != 200:
        return TokenAnswer(finding=warn(f"{probe.whom} answers with status {status}", "try again later"))
    name = probe.find_name(body)
    accepted = ok(f"{probe.whom} accepts our token" + (f"; the bot's name is {name}" if name else ""))
    return TokenAnswer(finding=accepted, bot_name=name, next_step=probe.find_next_step(body))
