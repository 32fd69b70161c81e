"""Load the tools that come with Hermes, and those that a user has dropped into a folder."""

import importlib.util
import pkgutil
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import structlog

from hermes_config.ownership import find_stranger
from tools import builtin
from tools.registry import Registry, registry

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_PREFIX = "hermes_user_tools."


@cache
def load_builtin() -> Registry:
    """Import every module of `tools.builtin`, by which its tools join the registry; a second time does nothing."""
    for module in pkgutil.iter_modules(builtin.__path__):
        import_module(f"{builtin.__name__}.{module.name}")
    return registry


def load_folder(folder: Path) -> dict[str, str]:
    """Load each file of the folder once; return why files were left out, by their names."""
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
    if not file.is_file():  # a pipe would be waited for without end
        return "it is no file"
    if problem := find_stranger(file.parent) or find_stranger(file):
        return problem
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before = into.snapshot()
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # contained: a user's file may do anything
        log.exception("tool file not loaded", file=file.name)
        del sys.modules[name]
        into.restore(before)
        return f"{type(error).__name__}: {error}"
    return ""
