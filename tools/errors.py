"""The failures that a model is told about.

ToolFailed             foreseen by the tool; its text goes to the model
  BadArguments         the tool did nothing
  BackendFailed        a command could not be run at all (tools/backends/base.py)
  FileRefused          a file was not read or written (tools/backends/base.py)
"""


class ToolFailed(Exception):
    """A failure to tell the model about: what was wrong and what it can do instead."""


class BadArguments(ToolFailed):
    """The arguments do not fit the parameters: the tool did nothing."""
