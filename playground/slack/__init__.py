"""A strict Slack on loopback: Web API and Socket Mode."""
