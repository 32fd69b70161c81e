"""Hermes against software of others that speaks its platforms."""

import gateway.platforms.discord  # noqa: F401 before discord.py itself: it knows how to import it without a warning
