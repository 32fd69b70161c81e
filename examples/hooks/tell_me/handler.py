"""An async handler: remembers which conversations used tools, and notes when they are answered."""

from pathlib import Path

_used_tools = set()


async def handle(event_type, context):
    session = context["session_id"]
    if event_type == "agent:step":
        _used_tools.add(session)
    elif session in _used_tools:
        _used_tools.discard(session)
        line = f"{context['session_key']}: {context['outcome']}: {context['message']}\n"
        with (Path(__file__).parent / "finished.txt").open("a") as file:
            file.write(line)
