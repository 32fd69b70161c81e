"""Who can reach us, and how what we send travels."""

import ipaddress
import stat
from collections.abc import Iterator
from urllib.parse import urlsplit

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from gateway.doctor.facts import Facts, Finding, bad, counted, ok, some, warn
from gateway.wiring.platforms import door_problem, is_loopback

PART = "exposure"

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def everybody(facts: Facts) -> Iterator[Finding]:
    if facts.settings.access.allow_all_users:
        text = "ANYBODY may talk to the bot, and you pay: access.allow_all_users is on"
        yield bad(PART, text, "hermes config set access.allow_all_users false")
    else:
        yield ok(PART, "Only people who were let in may talk to the bot")


def groups(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.access.allowed_chats
    if listed:
        text = f"Everybody in {counted(len(listed), 'group', 'groups')} of access.allowed_chats may talk to the bot: "
        yield warn(
            PART, text + some(listed), "take out what should be closed: hermes config set access.allowed_chats …"
        )
    opened = facts.look.open_chats if facts.look else ()
    if opened:
        text = f"Everybody in {counted(len(opened), 'group', 'groups')} that an owner opened may talk to the bot: "
        yield warn(PART, text + some(opened), "send /allow off in a group to close it")
    if not listed and not opened and facts.look:
        yield ok(PART, "No group is open to everybody in it")


def strangers(facts: Facts) -> Iterator[Finding]:
    access = facts.settings.access
    if not access.allow_all_users:  # else nobody is a stranger, and that was said
        pairs = "A stranger who writes is told a pairing code, and gets in when you approve it"
        yield ok(PART, pairs if access.unauthorized_dm_behavior == "pair" else "Strangers get no answer")
    if not access.messages_per_minute:
        text = "There is no limit to how much one sender may ask: access.messages_per_minute is 0"
        yield warn(PART, text, "hermes config set access.messages_per_minute 30")


def web_page(facts: Facts) -> Iterator[Finding]:
    web = facts.settings.platforms.web
    if not web.enabled:
        return
    if problem := door_problem(facts.settings):
        yield bad(PART, problem, "hermes config set platforms.web.host 127.0.0.1")
    elif not is_loopback(web.host):
        text = f"The web page listens on {web.host}, without encryption: others on the network can read along"
        yield warn(PART, f"{text}. Put a proxy with TLS in front", "hermes config set platforms.web.host 127.0.0.1")
    elif web.allowed_hosts:
        yield ok(PART, f"The web page is reached through a proxy as {some(web.allowed_hosts)}, which must speak TLS")
    else:
        yield ok(PART, "The web page listens on this machine alone")


def socket(facts: Facts) -> Iterator[Finding]:
    path = facts.home.socket
    if not path.is_socket():
        return
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield bad(PART, "Others on this machine can talk through hermes.sock as the owner", f"chmod 600 {path}")
    else:
        yield ok(PART, "hermes.sock is open to you alone")


def addresses(facts: Facts) -> Iterator[Finding]:
    """What is sent in the clear: a token and everything that is said with it."""
    servers = {
        f"platforms.{name}.api_url": section.api_url
        for name, section in facts.settings.platforms
        if getattr(section, "api_url", "") and section.enabled
    }
    for name, endpoint in endpoints(facts.settings).items():
        if not isinstance(endpoint, NoEndpoint):
            servers[f"The address of the model {name}"] = endpoint.base_url
    for what, address in servers.items():
        yield from _in_the_clear(what, address)


def proxies(facts: Facts) -> Iterator[Finding]:
    named = sorted(name for name in facts.variables if name.upper() in _PROXIES)
    if named:
        text = f"{' and '.join(named)} may lead what is sent through another machine"
        yield warn(PART, text, f"unset {' '.join(named)}")


def _in_the_clear(what: str, address: str) -> Iterator[Finding]:
    host = urlsplit(address).hostname or ""
    if urlsplit(address).scheme != "http" or is_loopback(host) or host.endswith(".localhost"):
        return
    text = f"{what} is http://{host}: keys and conversations go there unencrypted"
    if _is_private(host):
        yield warn(PART, f"{text}, if only within your own network", "use https://, or a server on this machine")
    else:
        yield bad(PART, text, "use https://, or a server on this machine")


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".internal"))
