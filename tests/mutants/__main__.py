"""`python -m tests.mutants` is `make mutants`."""

import sys

from tests.mutants.cli import main

sys.exit(main())
