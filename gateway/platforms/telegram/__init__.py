"""Telegram, through python-telegram-bot: nothing else of ours knows that package."""

from gateway.platforms.telegram.spec import TELEGRAM as TELEGRAM
