"""Hooks: programs of the user that are told what happens, and may object to a tool call."""
