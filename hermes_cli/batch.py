"""`hermes batch`: run a file of prompts at once, and collect trajectories."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from agent_core.batch.run_folder import RunFolder
from agent_core.batch.runner import BatchProgress, check_options, run_batch
from agent_core.batch.tasks import read_dataset
from agent_core.batch.worker import BatchOptions
from agent_core.services import list_tools
from agent_core.trajectory import FAILED, SUCCEEDED, InputRefused
from hermes_cli.opening import open_home
from hermes_config.settings import Settings
from tools.distributions import DISTRIBUTIONS, find_absent, find_distribution
from tools.toolsets import ToolsetError

_LINES = 10  # of progress, where no terminal shows a bar
_SHOWN_LINES = 10


def _list_distributions(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    tools = list_tools(open_home({}).settings)
    for name, distribution in DISTRIBUTIONS.items():
        absent = find_absent(distribution, tools)
        click.echo(f"{name}: {distribution.description}")
        for toolset, chance in distribution.chances.items():
            reason = f"  (not here: {absent[toolset]})" if toolset in absent else ""
            click.echo(f"    {chance:>4.0%}  {toolset}{reason}")
    ctx.exit()


def _split(ctx: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(filter(None, value.split(",")))


_CONTEXT = {"token_normalize_func": lambda name: name.replace("_", "-"), "show_default": True}
_LIST: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _list_distributions}
_PATH = click.Path(path_type=Path)
_UP_TO_1000, _ANY = click.IntRange(1, 1000), click.IntRange(0)


@click.command(context_settings=_CONTEXT)
@click.option("--list-distributions", **_LIST, help="Show the distributions over toolsets.")
@click.option("--dataset-file", required=True, type=_PATH, help="JSONL: a `prompt` in each line.")
@click.option("--run-name", required=True, help="Name of the run, and of its folder.")
@click.option("--output-dir", default="data", type=_PATH, help="Holds the runs.")
@click.option("--batch-size", default=20, type=_UP_TO_1000, help="Prompts a worker runs at once.")
@click.option("--num-workers", "workers", default=4, type=_UP_TO_1000, help="Worker processes.")
@click.option("--resume", is_flag=True, help="Continue a run; finished prompts are not run again.")
@click.option("--distribution", default="default", help="Draws the toolsets of each prompt.")
@click.option(
    "--toolsets", default="", show_default=False, callback=_split, help="Offer these to every prompt: core,web"
)
@click.option("--seed", default=0, help="The same seed draws the same toolsets.")
@click.option("--max-samples", default=0, type=_ANY, help="Run at most so many prompts; 0: all.")
@click.option("-m", "--model", help="Use this model instead of the configured one.")
@click.option("--base-url", help="Ask this server instead of the configured one.")
@click.option("--max-iterations", "--max-turns", type=_UP_TO_1000, help="Rounds of tool calls; default: as configured.")
@click.option(
    "--task-timeout", "timeout_seconds", default=1800.0, type=click.FloatRange(1), help="Seconds a prompt may take."
)
@click.option("--attempts", default=3, type=click.IntRange(1, 20), help="Tries when the model cannot be reached.")
@click.option("--max-cost", "max_cost_usd", default=0.0, type=click.FloatRange(0), help="Limit in US dollars; 0: none.")
@click.option("--max-total-tokens", "max_tokens", default=0, type=_ANY, help="Limit in tokens; 0: none.")
@click.option("--engine", default="processes", type=click.Choice(["processes", "ray"]), help="What runs the workers.")
@click.option("--address", default="", show_default=False, help="Ray cluster; by default one is started here.")
def batch(
    dataset_file: Path,
    run_name: str,
    output_dir: Path,
    resume: bool,
    max_samples: int,
    model: str | None,
    base_url: str | None,
    max_iterations: int | None,
    **given: Any,
) -> None:
    """Run every prompt of a file, many at once, and collect trajectories in data/RUN_NAME (docs/batch.md).

    Each prompt has a workspace of its own, which is deleted after it. Stopped at any moment, the run goes on with
    --resume. Exit code 1 when prompts are left or have failed.
    """
    opened = open_home({"model.name": model, "model.base_url": base_url})
    opened.configure_logs()
    settings = opened.settings
    options = BatchOptions(max_iterations=max_iterations or settings.agent.max_iterations, **given)
    facts = {"dataset": str(dataset_file), "model": settings.model.name} | asdict(options)
    try:
        tasks, bad_lines = read_dataset(dataset_file)
        check_options(settings, options)
        folder = RunFolder.open(output_dir, run_name, batch_size=options.batch_size, resume=resume, facts=facts)
        _warn(bad_lines, options, settings)
        with _display() as show:
            progress, statistics = run_batch(tasks[: max_samples or None], folder, settings, options, show=show)
    except (InputRefused, ToolsetError) as refused:
        raise click.UsageError(str(refused)) from refused
    except KeyboardInterrupt:
        click.echo("Stopped. Finished prompts are stored; continue with --resume.", err=True)
        raise SystemExit(130) from None
    _summarise(folder, progress, statistics)
    if progress.left or progress.failed:
        raise SystemExit(1)


def _warn(bad_lines: Sequence[int], options: BatchOptions, settings: Settings) -> None:
    if bad_lines:
        shown = ", ".join(map(str, bad_lines[:_SHOWN_LINES])) + (" …" if len(bad_lines) > _SHOWN_LINES else "")
        count = f"{len(bad_lines):,} lines are" if len(bad_lines) > 1 else "1 line is"
        click.echo(f"Warning: {count} left out: no JSON object with a `prompt` (line {shown})", err=True)
    if not options.toolsets:
        distribution = find_distribution(options.distribution)
        for toolset, reason in find_absent(distribution, list_tools(settings, distribution.chances)).items():
            click.echo(f"Warning: toolset {toolset} of {options.distribution} offers nothing here: {reason}", err=True)


def _summarise(folder: RunFolder, progress: BatchProgress, statistics: Mapping[str, Any]) -> None:
    prompts, succeeded = statistics.get("prompts", 0), statistics.get("success", 0)
    click.echo(f"{folder.root / SUCCEEDED}: {succeeded:,} trajectories")
    click.echo(f"{folder.root / FAILED}: {prompts - succeeded:,}, {statistics.get('errors', 0):,} of them errors")
    click.echo(
        f"{progress.done:,} prompts in {timedelta(seconds=round(progress.seconds))}, {progress.done_before:,} done "
        f"before; {progress.api_calls:,} model calls ({progress.calls_per_second:.1f} a second), {_spent(progress)}"
    )
    if progress.is_over_budget:
        click.echo(f"The budget is spent: {progress.left:,} prompts are left. Raise it and continue with --resume.")
    elif progress.left or progress.failed:
        click.echo(f"{progress.left + progress.failed:,} prompts are left or have failed: --resume tries them again.")


def _spent(progress: BatchProgress) -> str:
    cost = f", ${progress.cost_micros / 1_000_000:.2f}" if progress.cost_micros else ""
    return f"{progress.tokens:,} tokens{cost}"


@contextmanager
def _display() -> Iterator[Callable[[BatchProgress], None]]:
    """Show progress on stderr: a bar at a terminal, else a line for each tenth of the prompts."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        shown = bar.add_task("starting workers", total=None)
        tenths = 0

        def show(progress: BatchProgress) -> None:
            nonlocal tenths
            done = progress.total - progress.left
            text = f"{progress.calls_per_second:.1f} calls/s, {_spent(progress)}, {progress.failed:,} failed"
            bar.update(shown, description=text, total=progress.total, completed=done)
            if bar.disable and done * _LINES // progress.total > tenths:
                tenths = done * _LINES // progress.total
                seconds = progress.seconds / max(progress.done, 1) * progress.left
                left = f", {timedelta(seconds=round(seconds))} left" if seconds else ""
                click.echo(f"{done:,} of {progress.total:,} prompts, {text}{left}", err=True)

        yield show
