"""Read a home of nanobot: config.json, pairing.json, and SOUL.md, USER.md and memory/MEMORY.md of the workspace."""

from pathlib import Path
from typing import Any

from hermes_cli.imports import peer
from hermes_cli.imports.peer import PeerHome, PeerModel, PeerUser
from hermes_config.errors import ConfigError

_WORKSPACE = "~/.nanobot/workspace"
_SHIPPED = "0351091f89de5e7162f4883af295fe0af039c3f78f93cb1232e9aa7dcb49cf6f"


def read_home(root: Path) -> PeerHome:
    home, tree, variables = PeerHome(), dict[str, Any](), dict[str, str]()

    def read_settings() -> None:
        variables.update(peer.read_env(root / ".env"))
        tree.update(peer.read_tree(root / "config.json"))
        peer.take_channels(home, tree.get("channels"), variables)
        peer.take_keys(home, tree.get("providers"), variables)
        _read_model(home, tree, variables)

    home.read_part("tokens, allowlists and model", read_settings)
    home.read_part("people in pairing.json", lambda: _read_people(home, root / "pairing.json"))
    workspace = find_workspace(root, peer.dig(tree, "agents", "defaults", "workspace"), usual=_WORKSPACE)
    home.personality, home.shipped_personality = workspace / "SOUL.md", _SHIPPED
    home.memories = (workspace / "USER.md", workspace / "memory" / "MEMORY.md")
    inside = workspace / "cron" / "jobs.json"
    home.jobs = inside if inside.exists() else root / "cron" / "jobs.json"  # of an older version
    home.skills = workspace / "skills"
    home.leave_folders(workspace, {"sessions": "conversations"})
    return home


def find_workspace(root: Path, written: object, *, usual: str) -> Path:
    """Return the workspace; the usual one is inside the home, wherever that was moved to."""
    if not isinstance(written, str) or not written or written == usual:
        return root / "workspace"
    return Path(written).expanduser()


def _read_model(home: PeerHome, tree: dict[str, Any], variables: dict[str, str]) -> None:
    defaults = peer.dig(tree, "agents", "defaults")
    chosen = peer.dig(tree, "modelPresets", str(peer.dig(defaults, "modelPreset"))) or defaults
    name, provider = peer.dig(chosen, "model"), str(peer.dig(chosen, "provider") or "auto")
    if not name:
        return
    address = peer.resolve(peer.dig(tree, "providers", provider, "apiBase"), variables)
    provider = "" if provider == "auto" else provider.replace("lm_studio", "lmstudio")
    home.model = PeerModel(name=str(name), provider=provider, base_url=address)
    if address and provider not in peer.MODEL_KEYS:
        peer.take_server_key(home, provider, peer.dig(tree, "providers", provider, "apiKey"), variables)


def _read_people(home: PeerHome, file: Path) -> None:
    approved = peer.read_tree(file).get("approved") or {}
    if not isinstance(approved, dict):
        raise ConfigError(f"{file} is damaged: `approved` is not a list of people by platform")
    for platform, users in approved.items():
        for entry in users if isinstance(users, list) else ():
            user_id, _, name = str(entry).partition("|")
            home.paired.append(PeerUser(platform=platform, user_id=user_id, name=name))
