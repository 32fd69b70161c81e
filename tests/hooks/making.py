"""Write hooks into a folder."""

from pathlib import Path
from textwrap import dedent

from hooks.loader import Hook, load_hook


def write_hook(
    folder: Path, handler: str = "", *, events: str = "agent:end", timeout: float = 5, command: str = ""
) -> Hook:
    folder.mkdir(parents=True)
    settings = [f"name: {folder.name}", f'events: ["{events}"]', f"timeout: {timeout}"]
    if command:
        settings.append(f"command: {command}")
    else:
        (folder / "handler.py").write_text(dedent(handler))
    (folder / "HOOK.yaml").write_text("\n".join(settings))
    hook = load_hook(folder)
    assert not hook.problem, hook.problem
    return hook
