"""The registry of tools. A tool registers itself when its module is imported:

    @tool(toolset="dice")
    async def roll(sides: Annotated[int, Field(description="How many sides", ge=2)] = 6) -> str:
        \"\"\"Roll a die.\"\"\"
        return str(random.randint(1, sides))

The schema is made from the parameters, the description from the docstring. A parameter annotated `ToolContext` is
filled in by us and not shown to the model. With `asks="it changes the production board"` an owner is asked before
every call; `about` decides that call by call.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Required, TypedDict, TypeVar, Unpack

import structlog

from tools.approval.wrapper import About, asks_first, needs_approval
from tools.arguments import checked_by_schema, from_signature
from tools.base import Tool, ToolContext, ToolOutput

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

Function = TypeVar("Function", bound=Callable[..., Awaitable[ToolOutput]])
Handler = Callable[[dict[str, Any], ToolContext], Awaitable[ToolOutput]]


class ToolOptions(TypedDict, total=False):
    """Fields of `Tool` that its function does not tell."""

    toolset: Required[str]
    unavailable: Callable[[], str]
    requires_env: tuple[str, ...]
    needs_workplace: bool
    for_guests: bool
    only_waits: Callable[[str], bool]
    continues: bool
    brings: str


class DuplicateTool(ValueError):
    """Two modules register a tool of the same name."""


class Registry:
    """The tools that exist, by name."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._modules: dict[str, str] = {}

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools by name, so that a prompt built from them does not change from one start to the next."""
        return iter([self._tools[name] for name in sorted(self._tools)])

    def tool(
        self, *, name: str = "", asks: str = "", about: About | None = None, **options: Unpack[ToolOptions]
    ) -> Callable[[Function], Function]:
        """Register the decorated function, which stays callable as it is."""

        def register(function: Function) -> Function:
            built = build_tool(function, name=name, asks=asks, about=about, **options)
            self.add(built, module=function.__module__)
            return function

        return register

    def register(
        self,
        name: str,
        toolset: str,
        schema: Mapping[str, Any],
        handler: Handler,
        check_fn: Callable[[], bool] | None = None,
        requires_env: tuple[str, ...] = (),
        *,
        description: str = "",
        asks: str = "",
    ) -> Tool:
        """Register a tool by a JSON Schema of its parameters, which the handler takes as a dict.

        Names are checked, types are left to the handler. `asks` is the reason why an owner is asked before every call.
        """

        def unavailable() -> str:
            return "" if check_fn is None or check_fn() else "its own check failed"

        made = Tool(
            name=name,
            toolset=toolset,
            description=description or str(schema.get("description", "")) or (handler.__doc__ or "").strip(),
            schema=schema,
            run=checked_by_schema(schema, handler),
            unavailable=unavailable,
            requires_env=requires_env,
        )
        asking = asks_first(made, asks) if asks else made
        self.add(asking, module=handler.__module__)
        return asking

    def add(self, tool: Tool, *, module: str) -> None:
        if tool.name in self._tools:
            first = self._modules[tool.name]
            raise DuplicateTool(f"Tool {tool.name!r} of {module} is not registered: {first} has a tool of that name.")
        self._tools[tool.name] = tool
        self._modules[tool.name] = module

    def snapshot(self) -> dict[str, Tool]:
        """Return the registered tools, for `restore` when a file turns out to be broken half way."""
        return dict(self._tools)

    def restore(self, tools: dict[str, Tool]) -> None:
        self._tools = dict(tools)


registry = Registry()
tool = registry.tool


def build_tool(
    function: Callable[..., Awaitable[ToolOutput]],
    *,
    name: str = "",
    asks: str = "",
    about: About | None = None,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Build a tool from an async function with typed parameters, without registering it."""
    name = name or function.__name__
    schema, run = from_signature(function, name=name)
    paragraphs = (function.__doc__ or "").strip().split("\n\n")
    described = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    tool = Tool(name=name, description=described, schema=schema, run=run, **options)
    asking = tool if about is None else needs_approval(tool, about)
    return asks_first(asking, asks) if asks else asking


def why_unavailable(tool: Tool) -> str:
    """Return why the tool cannot be used, for the operator; empty when it can."""
    from hermes_config import environment

    if missing := [variable for variable in tool.requires_env if not environment.lookup(variable)]:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
    try:
        return tool.unavailable()
    except Exception as error:
        # Contained: a broken check disables its own tool, not all of them.
        log.exception("tool_check_broke", tool=tool.name)
        return f"its own check raised {type(error).__name__}"
