"""atroposlib's own commands run the worked environments, in both phases, and say in a sentence what is wrong."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.environments.serving import command, offline, options, serving_chat, serving_tokens, write_tokenizer
from tests.programs import needs

pytestmark = needs("research")

SMALL = {"env.total_steps": 2, "env.group_size": 2, "env.held_out_items": 2, "env.terminal_backend": "local"}
BOXED = SMALL | {"env.total_steps": 1, "env.terminal_backend": "sandbox"}
UNTRAINED = -100
EVERY_CLI = """
import contextlib, io, json, sys
from environments.terminal_task import TerminalTaskEnv
for arguments in json.loads(sys.stdin.read()):
    sys.argv, said, shown = ["terminal_task", *arguments], io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
        try:
            TerminalTaskEnv.cli()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, said.getvalue(), "toolsets are not restricted" in shown.getvalue()]))
    TerminalTaskEnv.toolsets = ()
"""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    return write_tokenizer(tmp_path / "tokenizer")


async def run(arguments: list[str], cwd: Path, stdin: bytes = b"") -> tuple[int | None, str, str]:
    started = await asyncio.create_subprocess_exec(
        *arguments, cwd=cwd, env=offline(), stdin=-1, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await started.communicate(stdin)
    return started.returncode, out.decode(), err.decode()


def read_groups(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@needs("bubblewrap")
async def test_process_writes_scored_groups_from_a_chat_endpoint(tmp_path: Path, tokenizer: Path) -> None:
    async with serving_chat() as server:
        wanted = options(server.url, tokenizer, **BOXED)
        code, _, err = await run(command("terminal_task", "process", *wanted), tmp_path)
    assert code == 0, err
    assert server.refusals == []
    [group] = read_groups(tmp_path / "data/terminal-task.jsonl")
    assert sorted(group["scores"]) == [0.0, 1.0]
    assert "inference_logprobs" not in group
    for tokens, mask, chat in zip(group["tokens"], group["masks"], group["messages"], strict=True):
        trained = [one for one in mask if one != UNTRAINED]
        replies = [message["content"] for message in chat if message["role"] == "assistant"]
        assert len(tokens) == len(mask)
        assert len(trained) == sum(len(reply.encode()) + 2 for reply in replies)  # and each one's end of turn
    assert not list(tmp_path.glob("**/wandb"))


async def test_process_keeps_what_was_sampled_from_a_token_endpoint(tmp_path: Path, tokenizer: Path) -> None:
    async with serving_tokens(tokenizer) as (url, log):
        wanted = options(url, tokenizer, **SMALL, **{"openai.server_type": "vllm"})
        code, _, err = await run(command("tool_use_task", "process", *wanted), tmp_path)
    assert code == 0, err
    assert "vLLM" not in err
    groups = read_groups(tmp_path / "data/tool-use-task.jsonl")
    assert [sorted(group["scores"]) for group in groups] == [[0.0, 1.0]] * 2
    asked = {tuple(one["prompt"] + one["sampled"]): one for one in log}
    for group in groups:
        for tokens, mask, logprobs in zip(group["tokens"], group["masks"], group["inference_logprobs"], strict=True):
            last = asked[tuple(tokens)]  # to the token what the endpoint was given and has sampled
            earlier = [one for whole, one in asked.items() if tokens[: len(whole)] == list(whole) and one is not last]
            sampled = [token for one in (*earlier, last) for token in one["sampled"]]
            assert [one for one in mask if one != UNTRAINED] == sampled
            assert [one for one in logprobs if one != 1.0] == [
                -0.25 * (place % 4) for one in (*earlier, last) for place in range(len(one["sampled"]))
            ]
    assert sum(len(group["tokens"]) for group in groups) == 4


async def test_evaluate_writes_metrics_and_samples(tmp_path: Path, tokenizer: Path) -> None:
    async with serving_chat() as server:
        wanted = options(server.url, tokenizer, **SMALL)
        code, _, err = await run(command("tool_use_task", "evaluate", *wanted), tmp_path)
    assert {body.get("temperature") for body in server.bodies[1:]} == {0.0}
    assert code == 0, err
    metrics = json.loads((tmp_path / "data/tool-use-task-eval/metrics.json").read_text())["results"]["all"]
    assert (metrics["eval/mean_score"], metrics["eval/finished"]) == (0.5, 1.0)
    samples = read_groups(tmp_path / "data/tool-use-task-eval/samples.jsonl")
    assert sorted(sample["score"] for sample in samples) == [0.0, 1.0]


async def test_bad_input_is_a_sentence_and_exit_code_2(tmp_path: Path, tokenizer: Path) -> None:
    async with serving_chat() as server:
        pass  # nobody listens there now
    down, missing = server.url, str(tmp_path / "missing")
    cases = {
        "No tokenizer is given. Name the policy's own: --env.tokenizer_name FOLDER.\n": ["--openai.base_url", down],
        f"There is no tokenizer folder {missing}. Correct --env.tokenizer_name.\n": options(down, Path(missing)),
        "No endpoint is given. Name it: --openai.base_url URL --openai.model_name NAME.\n": [
            *("--env.tokenizer_name", str(tokenizer))
        ],
        "There is no toolset named 'terminl'. Did you mean 'terminal'?": options(
            down, tokenizer, **{"env.enabled_toolsets": "todo,terminl"}
        ),
        f"The openai endpoint {down} did not serve 'playground' (APIConnectionError: Connection error.). Start it, or "
        "correct --openai.base_url, --openai.model_name or --openai.server_type.\n": options(down, tokenizer),
    }
    asked = json.dumps([["process", "--env.terminal_backend", "local", *arguments] for arguments in cases.values()])
    code, out, err = await run([sys.executable, "-W", "ignore", "-c", EVERY_CLI], tmp_path, asked.encode())
    assert code == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    for (ended, said, _), sentence in zip(answers, cases, strict=True):
        assert ended == 2
        assert said.startswith(sentence)
        assert said.count("\n") == 1
    assert [is_warned for *_, is_warned in answers] == [False, False, False, False, True]  # the last one chose none
