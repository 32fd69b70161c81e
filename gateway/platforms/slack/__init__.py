"""Slack: Socket Mode in, the Web API out."""

from gateway.platforms.slack.spec import SLACK as SLACK
