"""`python -m tests.bench` is `make bench`."""

from tests.bench.runner import main

main()
