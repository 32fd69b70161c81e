"""A strict Discord on loopback, REST and gateway, which an SDK cannot tell from the real one."""
