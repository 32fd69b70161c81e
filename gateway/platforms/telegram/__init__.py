"""Telegram, through python-telegram-bot: nothing else of ours knows that package."""
