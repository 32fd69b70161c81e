"""`hermes tools`: list the agent's tools."""

import json

import click


@click.group(invoke_without_command=True)
@click.pass_context
def tools(ctx: click.Context) -> None:
    """List the agent's tools and why some are off."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tools)


@tools.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tools(as_json: bool = False) -> None:
    """List every tool with its toolset, and why it is off."""
    from hermes_cli.opening import open_home
    from tools.loading import load_builtin, load_folder
    from tools.toolsets import ToolsetError, why_not

    opened = open_home(make=False)  # a question changes nothing
    agent = opened.settings.agent
    registry = load_builtin()
    broken = load_folder(opened.home.root / "tools")
    try:
        reasons = why_not(registry, agent.enabled_toolsets, agent.disabled_toolsets, has_workplace=True)
    except ToolsetError as error:
        raise click.ClickException(str(error)) from error
    rows = [{"name": tool.name, "toolset": tool.toolset, "off_because": reasons[tool.name]} for tool in registry]
    if as_json:
        click.echo(json.dumps({"tools": rows, "broken_files": broken}, ensure_ascii=False, indent=2))
        return
    for row in rows:
        off = row["off_because"]
        click.echo(f"{'off' if off else 'on '}  {row['name']:<16} {row['toolset']:<10} {off}".rstrip())
    for file, problem in broken.items():
        click.echo(f"bad  tools/{file}: {problem}")
