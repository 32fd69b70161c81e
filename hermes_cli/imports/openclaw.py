"""Read a home of openclaw: openclaw.json (JSON5), .env, credentials/<platform>-allowFrom.json, and SOUL.md, USER.md
and MEMORY.md of the workspace."""

from functools import partial
from pathlib import Path
from typing import Any

from hermes_cli.imports import peer
from hermes_cli.imports.nanobot import find_workspace
from hermes_cli.imports.peer import PeerHome, PeerModel, PeerUser

_WORKSPACE = "~/.openclaw/workspace"


def read_home(root: Path) -> PeerHome:
    home, tree = PeerHome(), dict[str, Any]()

    def read_settings() -> None:
        variables = peer.read_env(root / ".env")
        wanted = set(peer.MODEL_KEYS.values()).union(*peer.PLATFORM_TOKENS.values())
        home.secrets.update((name, value) for name, value in variables.items() if name in wanted)
        tree.update(peer.read_tree(root / "openclaw.json"))
        peer.take_channels(home, tree.get("channels"), variables)
        peer.take_keys(home, peer.dig(tree, "models", "providers"), variables)
        _read_model(home, tree, variables)

    home.read_part("tokens, allowlists and model", read_settings)
    for file in sorted((root / "credentials").glob("*-allowFrom.json")):
        home.read_part(f"people in {file.name}", partial(_read_people, home, file))
    if (root / "state" / "openclaw.sqlite").exists():
        home.left["people paired in its database"] = (
            "Hermes does not read that database; invite them: hermes pairing invite PLATFORM"
        )
    if peer.dig(tree, "commands", "ownerAllowFrom"):
        home.left["owners"] = "an owner may do everything; name yourself: hermes setup owner"
    workspace = find_workspace(root, peer.dig(tree, "agents", "defaults", "workspace"), usual=_WORKSPACE)
    home.personality = workspace / "SOUL.md"
    home.memories = (workspace / "USER.md", workspace / "MEMORY.md")
    home.skills = workspace / "skills"
    home.leave_folders(workspace, {"memory": "daily notes"})
    home.jobs = root / "cron" / "jobs.json"
    return home


def _read_model(home: PeerHome, tree: dict[str, Any], variables: dict[str, str]) -> None:
    model = peer.dig(tree, "agents", "defaults", "model")
    name = model if isinstance(model, str) else peer.dig(model, "primary")
    if not name:
        return
    provider, _, rest = str(name).partition("/")
    section = peer.dig(tree, "models", "providers", provider)
    address = peer.resolve(peer.dig(section, "baseUrl"), variables)
    home.model = PeerModel(
        name=rest or str(name),
        provider=provider if rest else "",
        base_url=address if provider not in peer.MODEL_KEYS else "",
    )
    if home.model.base_url:
        peer.take_server_key(home, provider, peer.dig(section, "apiKey"), variables)


def _read_people(home: PeerHome, file: Path) -> None:
    platform, _, account = file.name.removesuffix("-allowFrom.json").partition("-")
    if account not in ("", "default"):
        home.left[f"people in {file.name}"] = "only the default bot is imported"
        return
    entries = peer.read_tree(file).get("allowFrom")
    for entry in entries if isinstance(entries, list) else ():
        home.paired.append(PeerUser(platform=platform, user_id=str(entry)))
