"""A strict Discord on loopback: REST and gateway."""
