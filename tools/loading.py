"""Load the built-in tools, and those in the folder of the user."""

import importlib.util
import sys
from importlib import import_module
from pathlib import Path

import structlog

from tools.registry import Registry, registry

MODULES = (
    "tools.builtin.clock",
    "tools.builtin.files",
    "tools.builtin.messaging",
    "tools.builtin.processes",
    "tools.builtin.todo",
)


def load_builtin() -> Registry:
    """Import the built-in tools, which registers them; a second call does nothing."""
    for module in MODULES:
        import_module(module)
    return registry


log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_PREFIX = "hermes_user_tools."


def load_folder(folder: Path) -> dict[str, str]:
    """Load the tools of a folder, each file once; return why files could not be loaded, by name."""
    problems: dict[str, str] = {}
    for file in sorted(folder.glob("*.py")):
        if problem := _load(file, registry):
            problems[file.name] = problem
    return problems


def _load(file: Path, into: Registry) -> str:
    name = f"{_PREFIX}{file.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file):
        return ""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before = into.snapshot()
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # contained: it is the user's file, which may do anything
        log.exception("tool file not loaded", file=file.name)
        del sys.modules[name]
        into.restore(before)
        return f"{type(error).__name__}: {error}"
    return ""
