"""A tool of your own: copy this into ~/.hermes/tools/, then `hermes config set agent.enabled_toolsets core,dice`."""

import secrets
from typing import Annotated

from pydantic import Field

from tools.registry import tool


@tool(toolset="dice")
async def roll(
    sides: Annotated[int, Field(ge=2, le=1000, description="Number of sides of the die.")] = 6,
) -> dict[str, int]:
    """Roll a die and return the number it shows. Use it when the user wants a random number."""
    return {"rolled": secrets.randbelow(sides) + 1}
