"""The `clock` tool."""

import asyncio
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from tools.base import ToolContext, ToolFailed
from tools.registry import tool


@tool(toolset="clock", brings="")
async def clock(
    context: ToolContext,
    timezone: Annotated[
        str | None, Field(description="IANA time zone, for example Europe/Berlin. Default: the user's own.")
    ] = None,
) -> dict[str, str]:
    """Get the current date, time and weekday. Use it whenever an answer depends on today's date or the time."""
    name = (timezone or context.timezone).strip()
    now = _utc_now().astimezone(await _zone(name) if name else None)
    offset = now.strftime("%z")
    return {
        "now": now.isoformat(timespec="seconds"),
        "date": now.date().isoformat(),
        "time": now.strftime("%H:%M"),
        "weekday": now.strftime("%A"),
        "timezone": name or now.tzname() or "",
        "utc_offset": f"{offset[:3]}:{offset[3:5]}",
    }


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        nearest = await asyncio.to_thread(_nearest_zones, name)
        hint = f"Did you mean {' or '.join(nearest)}?" if nearest else "Use an IANA name such as Europe/Berlin or UTC."
        raise ToolFailed(f"There is no time zone named {name[:60]!r}. {hint}") from error


def _nearest_zones(name: str) -> list[str]:
    zones: dict[str, str] = {}  # by their whole names and their cities
    for zone in sorted(available_timezones()):
        zones.setdefault(zone.casefold(), zone)
        zones[zone.casefold().rpartition("/")[2]] = zone
    near = get_close_matches(name[:60].casefold().replace(" ", "_"), zones, n=3, cutoff=0.75)
    return list(dict.fromkeys(zones[one] for one in near))
