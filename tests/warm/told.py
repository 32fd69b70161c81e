"""Tells what kind of process it is, and waits to be ended if it is told to."""

import json
import os
import sys
import time
import warnings

if __name__ == "__main__":
    told = {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "session": os.getsid(0),
        "files": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "typed": sys.stdin.read(),
        "warnings": warnings.filters[0][0],
    }
    print(json.dumps(told), flush=True)
    if sys.argv[1:] == ["wait"]:
        time.sleep(1000)
    sys.exit(sys.argv[1] if sys.argv[1:] else 0)
