"""Rollouts one step at a time, for trainers that speak Gymnasium."""
