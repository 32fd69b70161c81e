"""The `mixture_of_agents` tool: ask several models the same question, and have one make the best answer of theirs."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from tools.base import Tool, ToolContext, ToolFailed
from tools.delegated import Ask
from tools.registry import build_tool, registry

NAME = "mixture_of_agents"
NOT_SET = "neither moa.models nor NOUS_API_KEY is set"
_MAX_CHARS = 100_000
_SECONDS = 600.0
_AGGREGATE = """\
Several models have answered the question below, independently of each other. Write the best answer that can be made of
theirs. Check them against each other: keep what is right, drop what is wrong, and say where they disagree about
something that matters and you cannot settle it. Do not mention that there were several answers otherwise.

# Question
{question}

{answers}"""


def moa_tool(problem: str = NOT_SET) -> Tool:
    """Build the tool; `problem` says why no models can be asked, and is empty when they can."""

    async def mixture_of_agents(
        context: ToolContext,
        question: Annotated[
            str, Field(description="The question with all that is needed to answer it: the models know nothing else.")
        ],
    ) -> dict[str, Any]:
        """Ask several models at once and get one answer made of theirs. Slow and expensive: use it for hard problems
        of reasoning, mathematics, code or judgement, where a single answer may well be wrong."""
        if context.panel is None:
            raise ToolFailed("No models can be asked together here. Answer it yourself.")
        if not question.strip():
            raise ToolFailed("`question` is required, with all that is needed to answer it.")
        if len(question) > _MAX_CHARS:
            raise ToolFailed(f"The question is longer than {_MAX_CHARS:,} characters. Shorten it.")
        names = list(context.panel.models)
        asked = await asyncio.gather(*(_try(ask, question) for ask in context.panel.models.values()))
        answers = {name: answer for name, (answer, _) in zip(names, asked, strict=True) if answer}
        failed = {name: problem for name, (_, problem) in zip(names, asked, strict=True) if problem}
        if not answers:
            reasons = "; ".join(f"{name}: {problem}" for name, problem in failed.items())
            raise ToolFailed(f"None of the models has answered. {reasons}")
        result: dict[str, Any] = {"models": list(answers)} | ({"failed": failed} if failed else {})
        merged, problem = await _try(
            context.panel.aggregator, _AGGREGATE.format(question=question, answers=_list(answers))
        )
        if merged:
            return {"answer": merged} | result
        return {"answers": answers, "note": f"The answers could not be merged, so decide yourself. {problem}"} | result

    return build_tool(mixture_of_agents, toolset="moa", unavailable=lambda: problem, brings=f"tool:{NAME}")


async def _try(ask: Ask, question: str) -> tuple[str, str]:
    """Return a model's answer, or why there is none."""
    try:
        async with asyncio.timeout(_SECONDS):
            answer = await ask(question)
    except TimeoutError:
        return "", f"no answer within {_SECONDS:g} seconds"
    except Exception as error:  # noqa: BLE001  # contained: the others may well answer
        return "", str(error)
    return (answer, "") if answer.strip() else ("", "an empty answer")


def _list(answers: Mapping[str, str]) -> str:
    return "\n\n".join(f"# Answer {number}\n{answer}" for number, answer in enumerate(answers.values(), 1))


registry.add(moa_tool(), module=__name__)
