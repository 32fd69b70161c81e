"""Stands in for `hermes`: what it was called with is written down, and a gateway only waits to be ended."""

import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    home = Path(os.environ["HERMES_HOME"])
    with (home / "logs" / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ)}) + "\n")
    if sys.argv[1:] != ["gateway", "run"]:
        print("hermes", *sys.argv[1:])
        return
    print("about to serve", flush=True)
    if (home / "logs" / "die").exists():
        sys.exit("there is no room for me")
    signal.sigwait([signal.SIGTERM])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    main()
