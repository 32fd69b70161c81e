"""How to install an extra: packages for one feature, which most users do not need."""

import sys
from pathlib import Path

_PACKAGE = "hermes-gateway"


def install_line(extra: str, prefix: Path = Path(sys.prefix)) -> str:
    """Return the command that installs an extra into the environment in which Hermes runs.

    It asks for the installed package itself, so pip adds only what the extra needs.
    """
    wanted = f"'{_PACKAGE}[{extra}]'"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx runpip {_PACKAGE} install {wanted}"
    python = prefix / "bin" / "python"
    if (prefix / "uv-receipt.toml").exists():  # an environment without pip
        return f"uv pip install --python {python} {wanted}"
    return f"{python} -m pip install {wanted}"
