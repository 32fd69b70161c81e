"""The `cronjob` tool: make and manage scheduled jobs. Whose they are is decided by its store."""

import json
from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from tools.approval.gate import Question
from tools.approval.taint import doubt_about_passing_on
from tools.arguments import Arguments
from tools.base import Tool, ToolContext, ToolFailed, absent
from tools.provenance import PROJECT
from tools.registry import build_tool, registry

NAME = "cronjob"
CronAction = Literal["create", "list", "edit", "pause", "resume", "run", "remove", "history"]


class CronRequest(Arguments):
    action: Annotated[
        CronAction,
        Field(
            description="create: needs schedule and prompt. list: all jobs of the user. edit: change what is given "
            "of the job `name`. pause, resume, run (now), remove, history: of the job `name`."
        ),
    ]
    name: Annotated[str | None, Field(description="Name or id of the job. For create: a short name; optional.")] = None
    schedule: Annotated[
        str | None,
        Field(
            description="When: 'every 30m', 'every day at 09:00', 'every monday at 09:00', 'in 2h', 'at 09:00' "
            "(once), an ISO time such as '2027-05-03 09:00' (once), or a cron expression of five fields such as "
            "'0 9 * * 1-5'."
        ),
    ] = None
    prompt: Annotated[
        str | None,
        Field(
            description="What to do at that time, written so that it can be understood without this conversation. "
            "For a reminder: 'Remind me to call Ada.'"
        ),
    ] = None
    deliver: Annotated[
        str | None,
        Field(
            description="Where the answer goes: 'origin' (this chat; the default), 'home', a platform name for its "
            "home channel, or 'platform:chat'."
        ),
    ] = None
    timezone: Annotated[str | None, Field(description="IANA time zone. Default: the user's own.")] = None
    model: Annotated[str | None, Field(description="Model for this job. Default: the usual one.")] = None
    skills: Annotated[str | None, Field(description="Names of skills that each run is given, separated by commas.")] = (
        None
    )
    repeat: Annotated[str | None, Field(description="How many times it runs: a number or 'forever'.")] = None


class JobStore(Protocol):
    async def act(self, task_id: str, request: CronRequest) -> dict[str, Any]:
        """Carry out a request for whoever speaks in this task; raises ToolFailed."""


NO_JOBS: JobStore = absent("Jobs can be scheduled only from a chat of the gateway, with /cron or with `hermes cron`.")


def cronjob_tool(store: JobStore) -> Tool:
    """Build the tool over a store of jobs."""

    async def cronjob(context: ToolContext, request: CronRequest) -> dict[str, Any]:
        """Schedule a prompt to run later or again and again, and manage such jobs. Use it for reminders and recurring
        tasks. Each run is a new conversation with the same tools; its last answer is sent to the user. Tell the user
        the next times that create returns."""
        if request.action not in ("create", "list", "history") and not (request.name or "").strip():
            raise ToolFailed(f"`name` is required for {request.action}.")
        return await store.act(context.task_id, request)

    async def about(arguments: dict[str, object], context: ToolContext) -> Question | None:
        """Ask before text from outside can become a prompt that runs later with the user's rights."""
        if arguments.get("action") not in ("create", "edit") or not arguments.get("prompt"):
            return None
        heard = context.heard()
        heard = replace(heard, outside=tuple(one for one in heard.outside if one.origin != PROJECT))
        doubt = doubt_about_passing_on(
            [str(arguments["prompt"])], "a job that runs when nobody watches", heard, besides=""
        )
        shown = json.dumps(arguments, ensure_ascii=False, indent=2)
        return doubt.question(NAME, f"schedule a job:\n{shown}", NAME, arguments)

    return build_tool(cronjob, toolset="cron", brings="", for_guests=False, about=about)


registry.add(cronjob_tool(NO_JOBS), module=__name__)
