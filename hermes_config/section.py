"""What every section of the settings is made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)


def env_named(name: str) -> dict[str, Any]:
    """For `json_schema_extra`: the variable that sets this key as well."""
    return {"env": name}
