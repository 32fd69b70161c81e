"""Ask before a host is reached: where the owner wants that, and where only text from outside has named it."""

from collections.abc import Callable, Sequence

from tools.approval.gate import NotApproved, Question, bound_to
from tools.approval.taint import doubt_about_fetching, is_new_address
from tools.backends.base import AskHost
from tools.base import ToolContext


def ask_about_hosts(context: ToolContext) -> AskHost:
    """Return a function that asks in the name of a running call, and returns whether the answer was yes."""

    async def ask(host: str) -> bool:
        question = Question(
            tool="terminal",
            action=f"connect to {host}",
            where="from the sandbox",
            reasons=(f"a command in the sandbox connects to {host}, which nobody has allowed yet",),
            rules=(f"connect-host {host}",),
            binding=bound_to("connect-host", host),
        )
        call_id = f"{context.call_id}/{host}"
        try:
            await context.gate.ask(question, call_id)
            await context.gate.use(question, call_id)
        except NotApproved:
            return False
        return True

    return ask


def find_new_hosts(context: ToolContext, command: str) -> Callable[[str], bool]:
    """Return a function that tells whether a connection of this command to a host asks, as the conversation is then."""
    return lambda host: is_new_address(host, context.heard(), command)


def ask_about_addresses(tool: str, urls: Sequence[str], context: ToolContext) -> Question | None:
    """Return the question about fetching these; None when nobody needs to be asked."""
    action = "\n".join(("read from the web:", *urls))
    return doubt_about_fetching(urls, context.heard()).question(tool, action, tool, *urls)
