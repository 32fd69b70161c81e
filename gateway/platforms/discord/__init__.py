"""Discord: the gateway in, REST out."""

import warnings

from gateway.platforms.discord.spec import DISCORD as DISCORD

# discord.py imports `audioop` for voice, which we do not use; Python 3.11 and 3.12 warn about that.
warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
