"""Files in messages: detect their type, extract their text, and explain to people what cannot be read."""
