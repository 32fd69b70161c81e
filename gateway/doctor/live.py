"""Asks each server whether it takes the token that we have for it. The only check that leaves this machine."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from hermes_config.accounts import bots
from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings

PART = "live"

_SECONDS = 10.0
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One request. Its address and its key are never shown: Telegram's address holds the token."""

    whom: str
    fix: str
    url: str = field(repr=False)
    key: str = field(default="", repr=False)  # the header Authorization
    method: str = "POST"
    refused_by: tuple[int, ...] = (401, 403, 404)  # Telegram answers 404 to what does not even look like a token


def ask(facts: Facts) -> Iterator[Finding]:
    yield from asyncio.run(_ask_all(list(questions(facts.settings))))


def questions(settings: Settings) -> Iterator[Probe]:
    for platform, section in settings.platforms:
        variables = [one.env for one in SECRETS if one.per_account and platform in one.enables]
        for account, tokens in bots(settings, platform).items() if variables else ():
            api_url = section.api_url.rstrip("/")
            bot = account.partition("@")[2]
            for variable, token in zip(variables, tokens, strict=True):
                fix = f"hermes config set {variable}_{bot.upper()}" if bot else f"hermes config set {variable}"
                if token:  # else another check says that it is missing
                    yield _about_a_bot(account, variable, api_url, token, fix)
    for name, endpoint in endpoints(settings).items():
        if not isinstance(endpoint, NoEndpoint):
            yield Probe(
                whom=f"The server of {name}",
                fix=f"hermes config set {endpoint.key_env or 'model.base_url'}",
                url=f"{endpoint.base_url.rstrip('/')}/models",
                key=f"Bearer {endpoint.key}" if endpoint.key else "",
                method="GET",
                refused_by=(401, 403),  # not every server lists its models
            )


def _about_a_bot(account: str, variable: str, api_url: str, token: str, fix: str) -> Probe:
    match variable:
        case "TELEGRAM_BOT_TOKEN":
            return Probe(whom=account, fix=fix, url=f"{api_url}/bot{token}/getMe")
        case "DISCORD_BOT_TOKEN":
            return Probe(whom=account, fix=fix, url=f"{api_url}/users/@me", key=f"Bot {token}", method="GET")
        case "SLACK_APP_TOKEN":
            return Probe(
                whom=f"{account} (socket)", fix=fix, url=f"{api_url}/apps.connections.open", key=f"Bearer {token}"
            )
        case _:
            return Probe(whom=account, fix=fix, url=f"{api_url}/auth.test", key=f"Bearer {token}")


async def _ask_all(asked: Sequence[Probe]) -> list[Finding]:
    limit = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=limit, trust_env=False) as session:
        return await asyncio.gather(*(_ask(session, question) for question in asked))


async def _ask(session: aiohttp.ClientSession, question: Probe) -> Finding:
    headers = {"Authorization": question.key} if question.key else {}
    try:
        # A redirect is not followed: it would take the token to another server.
        async with session.request(question.method, question.url, headers=headers, allow_redirects=False) as response:
            return _verdict(question, response.status, await response.content.read(_MOST_BYTES))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return warn(PART, f"{question.whom} cannot be asked: {type(error).__name__}", "look at the network")


def _verdict(question: Probe, status: int, content: bytes) -> Finding:
    body = _object(content)
    if status in question.refused_by or (status == 200 and body.get("ok") is False):
        return bad(PART, f"{question.whom} refuses the token we have (status {status})", question.fix)
    if status != 200:
        return warn(PART, f"{question.whom} answers with status {status}", "try again later")
    name = _object(body.get("result")).get("username") or body.get("username") or body.get("user")
    return ok(PART, f"{question.whom} answers" + (f" and knows us as {name}" if isinstance(name, str) else ""))


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
