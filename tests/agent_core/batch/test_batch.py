"""Batches are killed, resumed, refused and paid for."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_core.batch.runner import BatchRunner, check_options
from agent_core.batch.worker import BatchOptions, contains_expected
from agent_core.trajectory import FAILED, InputRefused
from hermes_config.settings import Settings
from playground.model_script import ModelRefusal, ScriptedCall
from tests.agent_core.batch.running import BatchModel, BatchRun, children, refuse, serving
from tests.programs import needs

pytestmark = pytest.mark.timeout(600)


async def test_killed_twice_and_resumed_each_prompt_is_there_once(tmp_path: Path) -> None:
    model = BatchModel(delay_seconds=0.01)
    async with serving(model) as server:
        run = BatchRun(tmp_path, server)
        process = await run.start()
        for _ in range(2):
            await model.reach(10)
            await run.kill(process)
            process = await run.start("--resume")
        code, told = await run.finish(process)
        assert code == 0, told
        run.assert_each_prompt_once()
        assert model.asked < 2 * 39, "what was done is not done again"
        with (run.root / "batch_00000.jsonl").open("a") as file:
            file.write('{"prompt_sha256": "torn')
        asked = model.asked
        assert (await run.run("--resume"))[0] == 0
        assert model.asked == asked
        run.assert_each_prompt_once()


async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    model = BatchModel(delay_seconds=0.02)
    async with serving(model) as server:
        run = BatchRun(tmp_path, server)
        process = await run.start()
        await model.reach(8)
        os.kill(children(process.pid, b"process_worker")[0], signal.SIGKILL)
        code, told = await run.finish(process)
        assert code == 0, told
        assert "batch worker lost" in (Path(os.environ["HERMES_HOME"]) / "logs" / "hermes.log").read_text()
        run.assert_each_prompt_once()


@needs("research")
@pytest.mark.slow  # starts a cluster
async def test_on_ray_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    model = BatchModel(delay_seconds=0.02)
    async with serving(model) as server:
        run = BatchRun(tmp_path, server, arguments=("--engine=ray",))
        process = await run.start()
        await model.reach(8)
        os.kill(children(process.pid, b"ray::BatchWorker")[0], signal.SIGKILL)
        code, told = await run.finish(process)
        assert code == 0, told
        run.assert_each_prompt_once()
        assert not children(os.getpid(), b"raylet")


@needs("research")
async def test_the_files_load_as_a_dataset(tmp_path: Path) -> None:
    async with serving(BatchModel()) as server:
        run = BatchRun(tmp_path, server, workers=1)
        assert (await run.run())[0] == 0
    script = (
        "import sys, datasets\n"
        "rows = datasets.load_dataset('json', data_files=sys.argv[1], cache_dir=sys.argv[2], split='train')\n"
        "print(len(rows), rows[0]['conversations'][1]['from'], rows[0]['model'])"
    )
    command = [sys.executable, "-c", script, str(run.root / "trajectories.jsonl"), str(tmp_path / "cache")]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=offline, timeout=100)
    assert told.stdout.split() == ["30", "human", "playground"], told.stderr


async def test_a_model_that_cannot_be_asked_fails_prompts_and_resuming_tries_them_again(tmp_path: Path) -> None:
    model = BatchModel(refuse=refuse(401))
    async with serving(model) as server:
        run = BatchRun(tmp_path, server, prompts=6, workers=1)
        code, told = await run.run()
        assert code == 1
        assert "6 prompts are left or have failed: --resume tries them again." in told
        rows = run.rows(FAILED)
        assert len(rows) == 6
        assert all(row["error"] and not row["success"] and row["attempts"] == 1 for row in rows)
        model.refuse = lambda number: None
        assert (await run.run("--resume"))[0] == 0
        run.assert_each_prompt_once()


async def test_a_busy_model_is_asked_again(tmp_path: Path) -> None:
    busy = dict.fromkeys(range(2), 5)  # more than the client tries by itself

    def refuse_some(number: int) -> ModelRefusal | None:
        busy[number] -= 1
        return ModelRefusal(status=503, headers={"Retry-After": "0"}) if busy[number] >= 0 else None

    async with serving(BatchModel(refuse=refuse_some)) as server:
        run = BatchRun(tmp_path, server, prompts=2, workers=1)
        assert (await run.run("--attempts=2"))[0] == 0
        assert [row["attempts"] for row in run.rows()] == [2, 2]


async def test_a_budget_ends_a_run_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    async with serving(BatchModel()) as server:
        run = BatchRun(tmp_path, server)
        code, told = await run.run("--max-total-tokens=100")
        assert code == 1
        assert "The budget is spent" in told
        assert 0 < len(run.rows()) < 30
        code, told = await run.run("--max-total-tokens=100", "--resume")
        assert code == 2
        assert "spent its budget already" in told
        assert (await run.run("--resume"))[0] == 0
        run.assert_each_prompt_once()


async def test_each_prompt_has_a_workspace_that_is_empty_and_goes_away(tmp_path: Path) -> None:
    command = json.dumps({"command": "ls; touch trace; pwd"})
    async with serving(BatchModel(tool=ScriptedCall(name="terminal", arguments=command))) as server:
        run = BatchRun(tmp_path, server, prompts=3, workers=1)
        assert (await run.run())[0] == 0
        outputs = [turn["value"] for row in run.rows() for turn in row["conversations"] if turn["from"] == "tool"]
        assert len(outputs) == 3
        assert not any("trace" in output for output in outputs)
        assert not (run.root / ".work").exists()


BAD_INPUT = {
    "dataset that is not there": (("--dataset_file=none.jsonl",), "There is no dataset at none.jsonl."),
    "dataset without prompts": (("--dataset_file=empty.jsonl",), "No line of empty.jsonl is a JSON object"),
    "unknown distribution": (("--toolsets=", "--distribution=reserch"), "Did you mean 'research'"),
    "unknown toolset": (("--toolsets=terminl",), "Did you mean 'terminal'?"),
    "run that exists": (("--run_name=old",), "The run 'old' exists already in data. Add --resume"),
    "run that does not": (("--resume",), "There is no run 'r' in data to resume."),
    "folder of something else": (("--run_name=other",), "is not the folder of a run"),
    "name that is a path": (("--run_name=../x",), "cannot name a run"),
}


@pytest.mark.parametrize(("arguments", "told"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_refused_in_a_sentence(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from hermes_cli.main import hermes

    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "hi"}\n')
    (tmp_path / "empty.jsonl").write_text('{"text": "hi"}\n[]\n')
    for name, file in (("old", "run.json"), ("other", "thesis.txt")):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / file).write_text("{}")
    before = sorted((tmp_path / "data").rglob("*"))
    given = ["batch", "--dataset-file=prompts.jsonl", "--run-name=r", *arguments]
    result = CliRunner().invoke(hermes, given)
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.output.split())
    assert sorted((tmp_path / "data").rglob("*")) == before


@pytest.mark.parametrize(
    ("kind", "told"), [("ssh", "apart from each other"), ("daytona", "no key for Daytona"), ("docker", "/none/docker")]
)
def test_a_place_where_no_prompt_could_work_is_refused(kind: str, told: str) -> None:
    terminal = {"backend": kind, "docker": {"binary": "/none/docker"}}
    with pytest.raises(InputRefused, match=told):
        check_options(Settings.model_validate({"terminal": terminal}), BatchOptions())


def test_lines_without_a_prompt_are_counted_and_the_rest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ['{"prompt": "what is 2 * 3?"}', "not JSON", '{"question": "?"}', "", '{"prompt": "what is 2 * 3?"}']
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "batch_runner", "--dataset_file", "prompts.jsonl", "--run_name", "r"]
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'tests' / 'guard'}"}
    told = subprocess.run(
        [*command, "--num_workers", "1"], capture_output=True, text=True, timeout=100, env=environment, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "2 lines are left out: no JSON object with a `prompt` (line 2, 3)" in told.stderr
    rows = [json.loads(line) for line in (tmp_path / "data" / "r" / "trajectories.jsonl").read_text().splitlines()]
    assert {row["sample"] for row in rows} == {0, 1}  # the same prompt twice is wanted twice
    assert not {"what is 2 * 3?"} & set(rows[0])


def test_tasks_of_a_script_give_results_in_their_order(tmp_path: Path) -> None:
    runner = BatchRunner(num_workers=2, toolsets=["todo"])
    results = runner.run_tasks(
        [
            {"id": "a", "prompt": "what is 17 * 23?", "expected_output": "391"},
            {"id": "b", "prompt": "what is 2 + 2?", "expected_output": "5"},
            {"id": "c", "prompt": "add milk to my todo list"},
        ]
    )
    assert [(one["task_id"], one["success"]) for one in results] == [("a", True), ("b", False), ("c", True)]
    assert [turn["from"] for turn in results[2]["trajectory"]] == ["system", "human", "gpt", "tool", "gpt"]
    assert results[2]["metrics"]["tool_stats"] == [{"tool": "todo", "calls": 1, "failures": 0}]
    assert results[0]["metrics"]["completed"]
    runner.save_results(results, tmp_path / "results.jsonl")
    assert [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()] == results
    with pytest.raises(InputRefused, match="exists already"):
        runner.save_results(results, tmp_path / "results.jsonl")
    with pytest.raises(InputRefused, match="Task 1 has no `prompt`"):
        runner.run_tasks([{"id": "x"}])


def test_an_expected_output_is_found_whatever_its_case_and_spaces() -> None:
    assert contains_expected("The answer\nis  FORTY two.", "answer is forty two")
    assert contains_expected("anything", "")
    assert not contains_expected("41", "42")
