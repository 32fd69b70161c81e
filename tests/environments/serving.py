"""A policy on loopback that solves the worked tasks every other time, in both phases, and a tokenizer for it."""

import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from playground.model_script import ModelAnswer, ScriptedCall
from playground.model_server import ModelServer

COUNT = 'cd logs; for f in *.log; do echo "${f%.log} $(grep -c ERROR $f)"; done > ../report.txt; sleep 1000 & exit 0'
START = {"command": "sleep 1000", "background": True}
TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
Reply = tuple[str, list[tuple[str, dict[str, Any]]]]
Messages = Sequence[Mapping[str, Any]]


def write_tokenizer(folder: Path) -> Path:
    """Write a tokenizer with one token for each byte, as `from_pretrained` reads it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


class Solver:
    """Answers by what was said so far. Of two rollouts that begin, the second one gives up."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, messages: Messages) -> Reply:
        texts = [str(message["content"]) for message in messages]
        asked = next(message["content"] for message in messages if message["role"] == "user")
        if messages[-1]["role"] == "user":
            self.begun += 1
            if asked == "hi" or self.begun % 2 == 0:
                return "I do not know.", []
            if customer := re.search(r"Which order of (\w+)", asked):
                search = {"pattern": f",{customer[1]},", "path": "orders"}
                return "I look.", [("file_search", search)]
            return "", [("terminal", START), ("terminal", {"command": COUNT})]
        found = re.findall(r"(A\d+),\w+,(\d+)", texts[-1])
        best = max(found, key=lambda row: int(row[1]), default=("none", 0))[0]
        return (f"I compared {len(found)} of them.\nAnswer: {best}" if found else "Done."), []


def in_markup(reply: Reply) -> str:
    text, calls = reply
    regions = [
        "<tool_call>\n" + json.dumps({"name": name, "arguments": given}) + "\n</tool_call>" for name, given in calls
    ]
    return "\n".join(["<think>\nI think.\n</think>", *filter(None, [text]), *regions])


@asynccontextmanager
async def serving_chat() -> AsyncGenerator[ModelServer]:
    """Phase 1: the strict OpenAI-compatible server."""
    solve = Solver()

    def answer(body: Mapping[str, Any]) -> ModelAnswer:
        text, calls = solve(body["messages"])
        scripted = tuple(
            ScriptedCall(name=name, arguments=json.dumps(given), id=f"call_{number}")
            for number, (name, given) in enumerate(calls)
        )
        return ModelAnswer(text=(text,) if text else (), calls=scripted)

    async with ModelServer(otherwise=answer) as server:
        server.open_to_all = True
        yield server


@asynccontextmanager
async def serving_tokens(folder: Path) -> AsyncGenerator[tuple[str, list[dict[str, Any]]]]:
    """Phase 2: vLLM's generate interface. Yields the address, and what was asked and sampled."""
    from tokenizers import Tokenizer

    tokenizer, solve = Tokenizer.from_file(str(folder / "tokenizer.json")), Solver()
    log: list[dict[str, Any]] = []

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        prompt: list[int] = body["prompt"]["prompt_token_ids"]
        text = tokenizer.decode(prompt, skip_special_tokens=False)
        turns = re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", text, re.S)
        messages = [{"role": role, "content": content} for role, content in turns]
        reply = in_markup(solve(messages)) if messages else "hi"
        sampled = [*tokenizer.encode(reply, add_special_tokens=False).ids, tokenizer.token_to_id("<|im_end|>")]
        log.append({"prompt": prompt, "sampled": sampled})
        logprobs = [[{str(token): -0.25 * (place % 4)}] for place, token in enumerate(sampled)]
        return web.json_response({"logprobs": [logprobs], "finish_reasons": ["stop"], "text": [reply]})

    app = web.Application(client_max_size=64_000_000)
    app.router.add_post("/generate", generate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", log
    finally:
        await runner.cleanup()


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", f"environments.{module}", *arguments]


def offline() -> dict[str, str]:
    """Return the environment in which nothing is looked up."""
    return dict(os.environ) | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "WANDB_MODE": "disabled"}


def options(url: str, tokenizer: Path, **more: object) -> list[str]:
    given = {"env.tokenizer_name": tokenizer, "openai.base_url": url, "openai.model_name": "playground"} | more
    return [part for name, value in given.items() for part in (f"--{name}", str(value))]
