"""The benchmarks' model, which also does as it is told: a message that begins with RUN makes it use the terminal.

`python -m tests.bench.commanded_model` prints its address and serves until it is ended.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.relay_model import FRAMES, RelayModel, frame_of, serve

_WORD = "RUN "


def order(*commands: Mapping[str, Any], times: int = 1) -> str:
    """What to say, so that it calls the terminal with these arguments, each so many times, all in one reply."""
    return _WORD + json.dumps({"commands": commands, "times": times})


class CommandedModel(RelayModel):
    def _frames_for(self, body: Mapping[str, Any]) -> Sequence[bytes]:
        last = body["messages"][-1]
        _, word, told = last["content"].partition(_WORD)
        if not word or last["role"] != "user":
            return FRAMES
        wanted, _ = json.JSONDecoder().raw_decode(told)  # news of what has ended may stand behind it
        return _calls(**wanted)


def _calls(commands: Sequence[Mapping[str, Any]], times: int) -> Sequence[bytes]:
    deltas = [
        {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": "terminal", "arguments": json.dumps(arguments)},
        }
        for index, arguments in enumerate(times * list(commands))
    ]
    return (
        *(frame_of([{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}]) for delta in deltas),
        frame_of([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
        *FRAMES[-2:],
    )


if __name__ == "__main__":
    asyncio.run(serve(CommandedModel().app()))
