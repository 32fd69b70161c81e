"""`python -m hermes_cli` is `hermes`."""

from hermes_cli.main import main

main()
