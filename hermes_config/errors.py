"""Errors about settings and the home, worded for the person who can fix them.

ConfigError
└── ForeignHome    the directory belongs to another program
"""


class ConfigError(Exception):
    """A problem for the user. Its text is the whole message: one problem per line, never a secret."""


class ForeignHome(ConfigError):
    """The home belongs to another program. Raised before anything in it is opened or changed."""
