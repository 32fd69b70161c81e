"""Which entity a link in marked-up text becomes: a link, a mention of a user, or nothing."""

import re
from urllib.parse import parse_qs, urlsplit

from playground.telegram.rules import Refused, Wire

_USER = re.compile(r"tg:(?://)?user/?\?id=(\d+)", re.IGNORECASE)
_LINK = re.compile(r"(?:(?P<scheme>https?|ton|tg|tonsite)://)?(?P<host>[^\s/?#]+)(?P<rest>\S*)", re.IGNORECASE)


def link_entity(url: str) -> Wire | None:
    """None for what is no address: the server then drops the link and keeps the words."""
    if match := _USER.fullmatch(url):
        return {"type": "text_mention", "user_id": int(match[1])}
    checked = checked_link(url)
    return {"type": "text_link", "url": checked} if checked else None


def checked_link(url: str) -> str:
    match = _LINK.fullmatch(url)
    if not match:
        return ""
    scheme, host, rest = (match["scheme"] or "http").lower(), match["host"], match["rest"]
    if scheme == "tg":
        return f"tg://{host}{rest}"
    name = host.rsplit("@")[-1].split(":")[0]
    if not re.fullmatch(r"(?:[\w-]+\.)+[\w-]{2,}|localhost|\d+(?:\.\d+){3}", name):
        return ""
    if not rest.startswith("/"):
        rest = "/" + rest
    return f"{scheme}://{host.lower()}{rest}"


def custom_emoji_id(url: str) -> str:
    """The emoji a tg://emoji link names. Raises `Refused` in the words of the server."""
    parts = urlsplit(url.lower())
    if parts.scheme != "tg":
        raise Refused(400, "Custom emoji URL must have scheme tg")
    if (parts.netloc or parts.path).strip("/") != "emoji":
        raise Refused(400, 'Custom emoji URL must have host "emoji"')
    given = parse_qs(parts.query).get("id", [""])[0]
    if not given:
        raise Refused(400, "Custom emoji URL must have an emoji identifier")
    if not re.fullmatch(r"-?[1-9]\d*", given):
        raise Refused(400, "Invalid custom emoji identifier specified")
    return given
