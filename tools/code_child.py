"""Run a script of the agent inside a backend. It is passed to Python as text, so it uses the standard library alone,
and nothing newer than Python 3.9. Calls of other tools travel as files in a folder of our own: `N.call` from here,
`N.result` from the gateway.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import types

TYPE_CHECKING = False  # as type checkers know it: importing `typing` takes its time at the lowest priority
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

TIMED_OUT = 128 + signal.SIGALRM
_LOOK_SECONDS, _SLOWEST_LOOK_SECONDS = 0.01, 0.25


class _ToolFailed(Exception):
    """A tool has failed; the text says why. Scripts know it as ToolFailed."""


class Tools:
    """Calls tools, one at a time. While one works, or a human is asked, the clock of the script stands still."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._calls = 0

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
            answer = self._ask({"name": name, "arguments": json.dumps(arguments)})
            signal.setitimer(signal.ITIMER_REAL, left)
        try:
            found = json.loads(answer["text"])
        except ValueError:
            found = answer["text"]
        if answer["failed"]:
            raise _ToolFailed(found["error"] if isinstance(found, dict) and "error" in found else str(found))
        return found

    def _ask(self, wanted: dict[str, str]) -> Any:
        self._calls += 1
        path = os.path.join(self._folder, str(self._calls))
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(wanted, file)
        os.rename(path + ".new", path + ".call")
        pause = _LOOK_SECONDS
        while not os.path.exists(path + ".result"):
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_LOOK_SECONDS)
        with open(path + ".result", encoding="utf-8") as file:
            return json.load(file)

    def function(self, name: str, parameters: Sequence[str]) -> Callable[..., Any]:
        def function(*values: Any, **named: Any) -> Any:
            if len(values) > len(parameters):
                raise TypeError(f"{name} takes at most {len(parameters)} arguments")
            return self.call(name, dict(zip(parameters, values), **named))  # noqa: B905  # `strict` is too new

        function.__name__ = name
        return function


def delete(folder: str) -> None:
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:  # the script has done it, or put something of its own there
        pass


def main() -> None:
    folder, seconds = sys.argv[1], float(sys.argv[2])
    order = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    os.mkdir(folder, 0o700)
    tools = Tools(folder)
    offered: dict[str, Any] = {name: tools.function(name, names) for name, names in order["tools"].items()}
    offered["ToolFailed"] = _ToolFailed
    module = types.ModuleType("hermes_tools")
    module.__dict__.update(offered)
    sys.modules["hermes_tools"], sys.argv = module, ["script.py"]
    signal.setitimer(signal.ITIMER_REAL, seconds)  # ends the process, whatever the script does then
    try:
        exec(compile(order["code"], "script.py", "exec"), dict(offered, __name__="__main__"))  # noqa: S102
    finally:
        delete(folder)


if __name__ == "__main__":
    main()
