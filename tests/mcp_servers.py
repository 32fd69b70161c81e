"""The public MCP servers that some tests use: their versions, how they are installed, and how they are started.

The TypeScript SDK of the Agent Client Protocol is installed with those for Node.
"""

import subprocess
import sys
from pathlib import Path

NAME = "mcp-servers"
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv" / NAME
PINNED = Path(__file__).with_suffix(".txt")  # from PyPI, in a venv of their own; made by `pip freeze`
NODE_VERSION = "2026.8.31"
NODE_SERVERS = ("everything", "filesystem", "memory")
ACP_SDK_VERSION = "2.4.0"
PYTHON_SERVERS = ("time", "git", "fetch")
_GUARD = ROOT / "tests" / "guard"
_PACKAGES = FOLDER / "node" / "node_modules"
_MODULES = _PACKAGES / "@modelcontextprotocol"
ACP_SDK = _PACKAGES / "@agentclientprotocol" / "sdk" / "dist" / "v1" / "stable" / "acp.js"


def node_server(name: str) -> Path:
    return _MODULES / f"server-{name}" / "dist" / "index.js"


def python_server(name: str) -> Path:
    return FOLDER / "python" / "bin" / f"mcp-server-{name}"


def is_installed() -> bool:
    return all(
        file.exists()
        for file in (*map(node_server, NODE_SERVERS), *map(python_server, PYTHON_SERVERS), ACP_SDK, FOLDER / "done")
    )


def install() -> None:
    """Install them below .venv; raises CalledProcessError."""
    python = str(FOLDER / "python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python], check=True)
    pip = (sys.executable, "-m", "pip", "--python", f"{python}/bin/python", "install", "--quiet")
    subprocess.run((*pip, "--disable-pip-version-check", "--no-deps", "--requirement", str(PINNED)), check=True)
    packages = [f"@agentclientprotocol/sdk@{ACP_SDK_VERSION}"]
    packages += [f"@modelcontextprotocol/server-{name}@{NODE_VERSION}" for name in NODE_SERVERS]
    npm = (
        "npm",
        "install",
        "--prefix",
        str(FOLDER / "node"),
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--silent",
    )
    subprocess.run((*npm, *packages), check=True)
    (FOLDER / "done").touch()


def settings(folder: Path) -> dict[str, dict[str, object]]:
    """Return what config.yaml says of them. None of them may reach beyond loopback."""
    options: dict[str, list[str]] = {"git": ["--repository", str(folder)], "fetch": ["--allow-private-ips"]}
    guarded = {"PYTHONPATH": str(_GUARD)}
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
    return {
        "everything": {"command": f"node {node_server('everything')} stdio"},
        "files": {"command": "node", "args": [str(node_server("filesystem")), str(folder)]},
        "memory": {"command": "node", "args": [str(node_server("memory"))], "env": memory},
        **{
            name: {"command": str(python_server(name)), "args": options.get(name, []), "env": guarded}
            for name in PYTHON_SERVERS
        },
    }
