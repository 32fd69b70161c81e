"""The policy behind atroposlib's servers, in two phases.

Phase 1, server type `openai`: any OpenAI-compatible endpoint, which parses the calls itself and tells no tokens. They
are computed from the conversation: for evaluation and data, not for training on what was sampled.
Phase 2, any other type (`vllm`): raw text is sampled through a ManagedServer, which keeps tokens and log-probabilities
exactly as they were, and we parse it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_core.conversation import Message, ToolCall, assistant
from agent_core.events import Emit
from agent_core.model import BrokenAnswer, Unreachable
from agent_core.openai_format import message_from_openai, message_to_openai, tool_to_openai
from tools.base import Tool

_THOUGHTS = re.compile(r"\A\s*(?:<think>)?(.*?)</think>", re.S)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.S)
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')
UNTRAINED = -100  # in a mask: a token that the policy has not written


class ChatPolicy:
    """Phase 1. `server` is atroposlib's ServerManager."""

    name = "policy"

    def __init__(self, server: Any, sampling: Mapping[str, Any]) -> None:
        self._server = server
        self._sampling = sampling

    @property
    def managed_state(self) -> dict[str, Any] | None:
        return None

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        answer = await self._ask(map(message_to_openai, messages), tools, "auto" if may_call else "none")
        try:
            return message_from_openai(answer.model_dump())
        except ValueError as error:
            raise BrokenAnswer(f"The policy's server sent no message: {error}") from error

    async def _ask(self, messages: Iterable[Mapping[str, Any]], tools: Sequence[Tool], tool_choice: str) -> Any:
        request = {"messages": list(messages), **self._sampling}
        if tools:
            request |= {"tools": list(map(tool_to_openai, tools)), "tool_choice": tool_choice}
        try:
            return (await self._server.chat_completion(**request)).choices[0].message
        except Exception as error:  # whatever their clients raise, wrapped in retries
            raise Unreachable(f"The policy's server failed several times ({describe(error)}).") from error


class TokenPolicy(ChatPolicy):
    """Phase 2. `server` is atroposlib's ManagedServer, of one rollout."""

    def __init__(self, server: Any, tokenizer: Any, sampling: Mapping[str, Any]) -> None:
        super().__init__(server, sampling)
        self._ends = tuple(filter(None, tokenizer.all_special_tokens))

    @property
    def managed_state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._server.get_state()
        return state

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        # "none" leaves the text as it is: atroposlib parses calls only where vLLM is installed beside it.
        answer = await self._ask(map(_restore_sampled, messages), tools, "none")
        raw: str = answer.content or ""
        while raw.endswith(self._ends):
            raw = raw.removesuffix(next(end for end in self._ends if raw.endswith(end)))  # the template adds it again
        return replace(read_reply(raw), provider_data=json.dumps({"raw": raw}))


def _restore_sampled(message: Message) -> dict[str, Any]:
    """Give a reply back as it was sampled, to the letter, so that the next prompt extends its tokens."""
    if message.role == "assistant" and message.provider_data:
        return {"role": "assistant", "content": json.loads(message.provider_data)["raw"]}
    return message_to_openai(message)


async def rl_test_inference(server: Any) -> None:
    """Ask one of atroposlib's servers for a token, in the way of the rollouts; raises Unreachable.

    Its own calls wait without end for a server that is down.
    """
    config = server.config
    try:
        if config.server_type == "openai":
            hello = [{"role": "user", "content": "hi"}]
            await server._chat_completion_wrapper(model=config.model_name, messages=hello, max_tokens=1)
        else:
            await server._tokens_and_logprobs_completion_wrapper(
                model=config.model_name, prompt="hi", max_tokens=1, n=1
            )
    except Exception as error:
        raise Unreachable(
            f"The {config.server_type} endpoint {config.base_url or '(none given)'} did not serve "
            f"{config.model_name!r} ({describe(error)}). Start it, or correct --openai.base_url, --openai.model_name "
            "or --openai.server_type."
        ) from error


def describe(error: BaseException) -> str:
    """Return the name and text of an error, or of the one behind its retries."""
    while attempt := getattr(error, "last_attempt", None):
        error = attempt.exception()
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(": ")


def read_reply(raw: str) -> Message:
    """Return the message. A call that is not valid JSON stays a call, so that the policy is told what is wrong."""
    thoughts = _THOUGHTS.match(raw)  # some chat templates open them in the prompt
    rest = raw[thoughts.end() :] if thoughts else raw
    calls = tuple(_read_call(number, region) for number, region in enumerate(_CALL.findall(rest), start=1))
    text = _CALL.sub("", rest).strip()
    return assistant(text, tool_calls=calls, reasoning=thoughts[1].strip() if thoughts else "")


def _read_call(number: int, region: str) -> ToolCall:
    name, arguments = "", region.strip()
    try:
        call = json.loads(region)
        name, given = str(call["name"]), call.get("arguments", {})
        arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        if found := _NAME.search(region):
            name = found[1]
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments)


def tokenize_chat(tokenizer: Any, chat: Sequence[Mapping[str, str]]) -> tuple[list[int], list[int]]:
    """Return the tokens of a conversation and their mask: the assistant's count, as far as the template keeps them.

    atroposlib's own helper returns something else with transformers 5, whose templates give a mapping.
    """

    def render(until: int, *, prompting: bool) -> str:
        text: str = tokenizer.apply_chat_template(chat[:until], tokenize=False, add_generation_prompt=prompting)
        return text

    seen, tokens, mask = "", list[int](), list[int]()
    for place, message in enumerate(chat):
        if message["role"] != "assistant":
            continue
        before, after = render(place, prompting=True), render(place + 1, prompting=False)
        if not before.startswith(seen):  # the template has rewritten earlier turns, so those are not trained
            seen, tokens, mask = "", [], []
        if not after.startswith(before):
            before = after
        prompt = tokenizer.encode(before[len(seen) :], add_special_tokens=False)
        answer = tokenizer.encode(after[len(before) :], add_special_tokens=False)
        tokens += [*prompt, *answer]
        mask += [*(UNTRAINED for _ in prompt), *answer]
        seen = after
    return tokens, mask
