"""Hermes against software of others that speaks its platforms."""
