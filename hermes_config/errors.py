"""What goes wrong with settings and places, worded for the person who must mend it.

ConfigError
└── ForeignHome    the directory belongs to another program
"""


class ConfigError(Exception):
    """Its text is the whole message: one problem a line, and never a secret."""


class ForeignHome(ConfigError):
    """Raised before anything in the directory was read deeper, changed or moved."""
