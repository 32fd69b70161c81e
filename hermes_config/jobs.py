"""Entries of `cron:` in the settings. Each is kept as JSON text, like the entries of other lists."""

import json
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

JOB_KEYS = ("name", "schedule", "prompt", "skills", "deliver", "model", "repeat", "timezone", "toolsets", "budget")
_REQUIRED = ("name", "schedule", "prompt")
_EXAMPLE = '{name: Daily, schedule: "0 9 * * *", prompt: "Summarise the news"}'


def write_as_text(value: object) -> object:
    """Turn mappings into JSON text; text may be one such mapping or a list of them."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    return tuple(json.dumps(one, ensure_ascii=False, default=str) if isinstance(one, dict) else one for one in value)


def _check_entry(entry: str) -> str:
    try:
        job = json.loads(entry)
    except ValueError:
        job = None
    if not isinstance(job, dict):
        raise ValueError(f"{entry[:60]!r} is not a job; write {_EXAMPLE}")
    name = str(job.get("name") or "without a name")[:60]
    for key in job:
        if key not in JOB_KEYS:
            raise ValueError(f"the job {name!r} has an unknown key {key!r}; there are {', '.join(JOB_KEYS)}")
    for key in _REQUIRED:
        if not isinstance(job.get(key), str) or not job[key].strip():
            raise ValueError(f"the job {name!r} needs {key} as text; write {_EXAMPLE}")
    return entry


def _reject_duplicates(entries: tuple[str, ...]) -> tuple[str, ...]:
    names = [json.loads(entry)["name"].strip().lower() for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"has the job {name!r} twice; give one of them another name")
    return entries


CronEntries = Annotated[
    tuple[Annotated[str, AfterValidator(_check_entry)], ...],
    BeforeValidator(write_as_text),
    AfterValidator(_reject_duplicates),
]
