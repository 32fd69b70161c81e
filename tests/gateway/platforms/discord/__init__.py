"""Tests of Discord; imported through the adapter first, which keeps quiet what discord.py's import warns of."""

import gateway.platforms.discord  # noqa: F401
