"""`hermes help COMMAND`: the same as `hermes COMMAND --help`."""

import click


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def show_help(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show help for a command: hermes help pairing invite"""
    assert ctx.parent is not None
    at = ctx.parent
    for name in names:
        if not isinstance(at.command, click.Group):
            raise click.UsageError(f"`{at.command_path}` has no subcommands.", at)
        _, command, _ = at.command.resolve_command(at, [name])
        assert command is not None  # else it has raised
        at = click.Context(command, info_name=name, parent=at)
    click.echo(at.get_help())
