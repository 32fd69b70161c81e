"""Parse the arguments that a model wrote for a tool, with errors that a model can act on."""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from tools.base import BadArguments, ToolContext, ToolOutput

Run = Callable[[str, ToolContext], Awaitable[ToolOutput]]

# Keeps parameters apart from the methods of pydantic's BaseModel (`schema`, `copy`, `json`).
_PREFIX = "argument_"


def parse_object(arguments: str) -> dict[str, Any]:
    """Parse a JSON object; an empty text counts as an empty one. Raises BadArguments."""
    try:
        parsed = json.loads(arguments) if arguments.strip() else {}
    except json.JSONDecodeError as error:
        raise BadArguments(
            f"The arguments are not valid JSON: {error.msg} at character {error.pos}. Send one JSON object."
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadArguments("The arguments cannot be parsed as JSON. Send one plain JSON object.") from error
    if not isinstance(parsed, dict):
        raise BadArguments("The arguments must be one JSON object with the parameters by name.")
    return parsed


class Arguments(BaseModel):
    """All parameters of a tool as one value, for a tool that hands them on as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def from_signature(function: Callable[..., Awaitable[ToolOutput]], *, name: str) -> tuple[dict[str, Any], Run]:
    """Return the JSON Schema of the function's parameters, and the function behind a check of them.

    Besides the context it takes either the parameters themselves, or one `Arguments` with all of them.
    """
    hints = get_type_hints(function, include_extras=True)
    context_name = whole_name = ""
    model: type[BaseModel] | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints:
            raise TypeError(f"Tool {name!r}: parameter {parameter.name!r} needs a type.")
        hint = hints[parameter.name]
        if hint is ToolContext:
            context_name = parameter.name
        elif isinstance(hint, type) and issubclass(hint, Arguments):
            whole_name, model = parameter.name, hint
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[_PREFIX + parameter.name] = (hint, Field(default, alias=parameter.name))
    model = model or create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    built = model.model_json_schema()
    built.pop("description", None)  # of the class; models read the docstring of the function
    schema = _remove_titles(_inline(built, built.pop("$defs", {})))

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        given = parse_object(arguments)
        try:
            checked = model.model_validate(given)
        except ValidationError as error:
            raise BadArguments(_describe_errors(error, schema.get("properties", {}))) from error
        values: dict[str, Any] = {field.removeprefix(_PREFIX): getattr(checked, field) for field in fields}
        if whole_name:
            values[whole_name] = checked
        if context_name:
            values[context_name] = context
        return await function(**values)

    return schema, run


def checked_by_schema(
    schema: Mapping[str, Any], handler: Callable[[dict[str, Any], ToolContext], Awaitable[ToolOutput]]
) -> Run:
    """Return the handler behind a check that no argument is missing or unknown."""
    known: Mapping[str, Any] = schema.get("properties", {})
    open_ended = schema.get("additionalProperties", False) is not False

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        given = parse_object(arguments)
        problems = [_missing(name) for name in schema.get("required", ()) if name not in given]
        problems += [_unknown(name, known) for name in given if name not in known and not open_ended]
        if problems:
            raise BadArguments(_sentence(problems))
        return await handler(given, context)

    return run


def _describe_errors(error: ValidationError, known: Iterable[str]) -> str:
    problems: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        path = _format_path(detail["loc"])
        match detail["type"]:
            case "missing":
                problems[_missing(path)] = []
            case "extra_forbidden":
                problems[_unknown(path, known)] = []
            case _:
                # A union has one error for each of its members.
                words = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
                problems.setdefault(f"{path!r} ", []).append(words)
    return _sentence(label + " or ".join(dict.fromkeys(words)) for label, words in problems.items())


def _format_path(location: tuple[int | str, ...]) -> str:
    """Return the place of an error. Without an index, the steps after the name are only members of a union."""
    if not any(isinstance(step, int) for step in location):
        location = location[:1]
    return ".".join(map(str, location))


def _missing(name: str) -> str:
    return f"{name!r} is missing"


def _unknown(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name, list(known), n=1)
    return f"{name!r} is not a parameter" + (f" (did you mean {nearest[0]!r}?)" if nearest else "")


def _sentence(problems: Iterable[str]) -> str:
    return "Invalid arguments: " + "; ".join(problems) + "."


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Put definitions where they are referred to: some providers know no references."""
    if isinstance(node, dict):
        if "$ref" in node:
            node = definitions[node["$ref"].rpartition("/")[2]] | {k: v for k, v in node.items() if k != "$ref"}
        return {key: _inline(value, definitions) for key, value in node.items()}
    return [_inline(item, definitions) for item in node] if isinstance(node, list) else node


def _remove_titles(node: Any) -> Any:
    """Remove titles, which repeat the names and cost tokens in every request. A property called title is a dict."""
    if isinstance(node, dict):
        return {
            key: _remove_titles(value) for key, value in node.items() if key != "title" or not isinstance(value, str)
        }
    return [_remove_titles(item) for item in node] if isinstance(node, list) else node
