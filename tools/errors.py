"""Failures whose text goes to the model.

ToolFailed             expected by the tool
  BadArguments         the tool did nothing
  BackendFailed        a command could not be run at all (tools/backends/base.py)
  FileRefused          a file was not read or written (tools/backends/base.py)
"""


class ToolFailed(Exception):
    """An expected failure. The text tells the model what was wrong and what it can do instead."""


class BadArguments(ToolFailed):
    """The arguments are invalid, and the tool did nothing."""
