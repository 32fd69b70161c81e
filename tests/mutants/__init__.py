"""Small faults put into a module, one at a time: does a test notice? `make mutants ARGS=gateway.policies.access`."""
