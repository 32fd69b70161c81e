"""A transaction to run commands in, and a clock that can be moved."""

from tests.gateway.store.conftest import clock, path, tx

__all__ = ["clock", "path", "tx"]
