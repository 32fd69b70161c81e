"""Environments in which a policy model learns from rollouts of the agent's own loop (extra `[rl]`)."""
