"""`hermes` that calls a line to Discord dead after two seconds of silence, for a server whose heart beats faster."""

from gateway.platforms.discord import transport
from hermes_cli.main import main

if __name__ == "__main__":
    transport._SILENT_SECONDS, transport._RESUME_SECONDS, transport._CLOSE_SECONDS = 2.0, 20.0, 0.2
    main()
