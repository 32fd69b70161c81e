"""`python batch_runner.py …` is `hermes batch …`; scripts import `BatchRunner` from here."""

from agent_core.batch.runner import BatchRunner
from hermes_cli.batch import batch

__all__ = ["BatchRunner", "batch"]

if __name__ == "__main__":
    batch()
