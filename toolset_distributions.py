"""Distributions over toolsets for scripts; run it to list them, as `hermes batch --list-distributions` does."""

from hermes_cli.batch import batch
from tools.distributions import DISTRIBUTIONS, Distribution, find_distribution

__all__ = ["DISTRIBUTIONS", "Distribution", "find_distribution"]

if __name__ == "__main__":
    batch(["--list-distributions"])
