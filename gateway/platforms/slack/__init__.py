"""Slack: Socket Mode in, the Web API out."""
