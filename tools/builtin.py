"""The tools that come with Hermes."""

from importlib import import_module

from tools.registry import Registry, registry

MODULES = ("tools.clock", "tools.files", "tools.messaging", "tools.processes", "tools.todo")


def load_builtin() -> Registry:
    """Imports them, by which they join the registry; a second time does nothing."""
    for module in MODULES:
        import_module(module)
    return registry
