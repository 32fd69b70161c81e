"""A strict Telegram Bot API on loopback."""
