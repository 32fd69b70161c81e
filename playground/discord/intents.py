"""Gateway intents: the kinds of events that a session asks for."""

GUILDS = 1 << 0
MEMBERS = 1 << 1
PRESENCES = 1 << 8
GUILD_MESSAGES = 1 << 9
GUILD_REACTIONS = 1 << 10
DMS = 1 << 12
DM_REACTIONS = 1 << 13
CONTENT = 1 << 15

PRIVILEGED = MEMBERS | PRESENCES | CONTENT
KNOWN = (1 << 26) - 1


def application_flags(privileged: int) -> int:
    """Return the flags of an application that has these privileged intents switched on, in few servers."""
    flags = {PRESENCES: 1 << 13, MEMBERS: 1 << 15, CONTENT: 1 << 19}
    return sum(flag for intent, flag in flags.items() if privileged & intent)
