"""`hermes chat`, and plain `hermes`: a conversation at the terminal, line by line, or one answer for a pipe."""

import asyncio
import io
import sys

import click


@click.command()
@click.argument("words", nargs=-1, metavar="[QUESTION]")
@click.option("-q", "--query", help="The same as QUESTION.")
@click.option("-m", "--model", help="Use this model instead of the configured one.")
@click.option("-c", "--continue", "continues", is_flag=True, help="Go on with the last conversation.")
@click.option("-r", "--resume", metavar="NAME", help="Go on with an older one, by its id or words of its title.")
@click.option("--save-trajectory", is_flag=True, help="At the end, add the conversation to trajectories/ in the home.")
def chat(
    words: tuple[str, ...] = (),
    query: str | None = None,
    model: str | None = None,
    continues: bool = False,
    resume: str | None = None,
    save_trajectory: bool = False,
) -> None:
    """Talk to the agent here. With QUESTION, print one answer and exit.

    Text on standard input is added to the question: git diff | hermes chat "review this". Inside a shell loop that
    reads a file, add </dev/null, or the rest of the file is read as the question's text.
    """
    from hermes_cli.opening import open_home

    if words and query is not None:
        raise click.UsageError("Give the question as an argument or with -q, not both. Does it need quotes?")
    question = " ".join(words) if words else query
    if question is not None and not question.strip():
        raise click.UsageError('Ask something: hermes chat "what is 17 * 23?"')
    if continues and resume is None:
        resume = ""
    opened = open_home({"model.name": model})
    from hermes_cli.conversation import ask_once, converse

    lines = sys.stdin or io.StringIO()  # none when it was closed
    try:
        if question is not None:
            asyncio.run(ask_once(opened, question, lines, resume=resume, saves=save_trajectory))
        else:
            asyncio.run(converse(opened, lines, resume=resume, saves=save_trajectory))
    except KeyboardInterrupt:
        raise SystemExit(130 if question is not None else 0) from None  # leaving a conversation is no failure
