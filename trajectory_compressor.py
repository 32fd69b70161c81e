"""`python trajectory_compressor.py …` is `hermes trajectories compress …`."""

from agent_core.trajectory_compressor import Limits, compress_file
from hermes_cli.trajectories import compress

__all__ = ["Limits", "compress", "compress_file"]

if __name__ == "__main__":
    compress()
