"""`hermes` that calls a line to Discord dead after two seconds of silence, for a server whose heart beats faster."""

from gateway.platforms.discord import line
from hermes_cli.main import main

if __name__ == "__main__":
    line._SILENT_SECONDS, line._RESUME_SECONDS, line._CLOSE_SECONDS = 2.0, 20.0, 0.2
    main()
