"""Where a bot's token is looked for."""


def token_variable(account: str, stem: str) -> str:
    """The variable to name when a token is wrong: TELEGRAM_BOT_TOKEN_WORK for `telegram@work`."""
    name = account.partition("@")[2]
    return f"{stem}_{name.upper()}" if name else stem
