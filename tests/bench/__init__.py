"""Measurements: `python -m tests.bench [names…]`. They print and never fail for being slow."""
