"""Discord: the gateway in, REST out."""

import warnings

with warnings.catch_warnings():
    # For voice, which we do not use, discord.py imports `audioop`; Python 3.11 and 3.12 complain about that.
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord as discord
