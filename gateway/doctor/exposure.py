"""Who can reach the bot, and what is sent unencrypted."""

import ipaddress
import stat
from collections.abc import Iterator
from shlex import quote
from urllib.parse import urlsplit

from agent_core.model import NoEndpoint
from agent_core.models.providers import endpoints
from gateway.doctor.facts import Facts, Finding, bad, ok, warn
from gateway.wiring.platforms import find_exposure_problem, is_loopback
from gateway.wording import count, list_some

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def check_allow_all(facts: Facts) -> Iterator[Finding]:
    if facts.settings.access.allow_all_users:
        text = "ANYBODY can talk to the bot at your expense: access.allow_all_users is on"
        yield bad(text, "hermes config set access.allow_all_users false")
    else:
        yield ok("Only approved people can talk to the bot")


def check_groups(facts: Facts) -> Iterator[Finding]:
    listed = facts.settings.access.allowed_chats
    opened = facts.store.open_chats if facts.store else ()
    if listed:
        text = f"Everyone in {count(len(listed), 'group')} can talk to the bot (access.allowed_chats): "
        yield warn(text + list_some(listed), "to close one: hermes config set access.allowed_chats …")
    if opened:
        text = f"Everyone in {count(len(opened), 'group')} can talk to the bot (opened by an owner): "
        yield warn(text + list_some(opened), "to close one: send /allow off in the group")
    if not listed and not opened and facts.store:
        yield ok("No group is open to everyone in it")


def check_strangers(facts: Facts) -> Iterator[Finding]:
    access = facts.settings.access
    if not access.allow_all_users:  # then nobody is a stranger
        pairs = "Strangers get a pairing code; they can talk to the bot only after you approve it"
        yield ok(pairs if access.unauthorized_dm_behavior == "pair" else "Strangers get no answer")
    if not access.messages_per_minute:
        text = "Senders have no message limit: access.messages_per_minute is 0"
        yield warn(text, "hermes config set access.messages_per_minute 30")


def check_web_page(facts: Facts) -> Iterator[Finding]:
    web = facts.settings.platforms.web
    if not web.enabled:
        return
    fix = "hermes config set platforms.web.host 127.0.0.1"
    if problem := find_exposure_problem(facts.settings):
        yield bad(problem, fix)
    elif not is_loopback(web.host):
        text = f"The web page listens on {web.host} without encryption: others on the network can read it"
        yield warn(f"{text}. Put a TLS proxy in front of it, or close it", fix)
    elif web.allowed_hosts:
        yield ok(f"The web page is served through a proxy as {list_some(web.allowed_hosts)}; the proxy must use TLS")
    else:
        yield ok("The web page is reachable from this machine only")


def check_socket(facts: Facts) -> Iterator[Finding]:
    path = facts.home.socket
    if not path.is_socket():
        return
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield bad(
            "Other users of this machine can talk to the bot as its owner through hermes.sock",
            f"chmod 600 {quote(str(path))}",
        )
    else:
        yield ok("Only you can use hermes.sock")


def check_encryption(facts: Facts) -> Iterator[Finding]:
    """Find servers that get a token, and everything said with it, over plain http."""
    servers = {
        f"platforms.{name}.api_url": section.api_url
        for name, section in facts.settings.platforms
        if getattr(section, "api_url", "") and section.enabled
    }
    for name, endpoint in endpoints(facts.settings).items():
        if not isinstance(endpoint, NoEndpoint):
            servers[f"The address of the model {name}"] = endpoint.base_url
    for name, address in servers.items():
        host = urlsplit(address).hostname or ""
        if urlsplit(address).scheme != "http" or is_loopback(host) or host.endswith(".localhost"):
            continue
        text, fix = f"{name} is http://{host}: keys and conversations are sent unencrypted", "use an https:// address"
        yield warn(f"{text}, though only on your own network", fix) if _is_private(host) else bad(text, fix)


def check_proxies(facts: Facts) -> Iterator[Finding]:
    if named := sorted(name for name in facts.variables if name.upper() in _PROXIES):
        text = f"{' and '.join(named)} can route everything that is sent through another machine"
        yield warn(text, f"unset {' '.join(named)}")


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".internal"))
