"""A strict Telegram Bot API server on loopback, which an SDK cannot tell from the real one."""
