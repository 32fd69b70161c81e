"""What a session asked to hear."""

GUILDS = 1 << 0
MEMBERS = 1 << 1
PRESENCES = 1 << 8
GUILD_MESSAGES = 1 << 9
GUILD_REACTIONS = 1 << 10
GUILD_TYPING = 1 << 11
DMS = 1 << 12
DM_REACTIONS = 1 << 13
DM_TYPING = 1 << 14
CONTENT = 1 << 15

PRIVILEGED = MEMBERS | PRESENCES | CONTENT
KNOWN = (1 << 26) - 1


def application_flags(privileged: int) -> int:
    """The flags of an application for which these privileged intents are switched on (in few servers)."""
    flags = {PRESENCES: 1 << 13, MEMBERS: 1 << 15, CONTENT: 1 << 19}
    return sum(flag for intent, flag in flags.items() if privileged & intent)
