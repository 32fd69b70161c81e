"""Read a home of hermes-agent: .env, config.yaml, pairing/<platform>-approved.json, SOUL.md, memories/, cron/."""

from functools import partial
from pathlib import Path
from typing import Any

from hermes_cli.imports.peer import PeerHome, PeerModel, PeerUser, dig, read_env, read_tree, resolve
from hermes_config import secrets
from hermes_config.keys import variables as our_variables
from hermes_config.platforms import PLATFORMS
from hermes_config.sources import read_text

_ALLOWED = {"GATEWAY_ALLOWED_USERS": ""} | {
    f"{name.upper()}_ALLOWED_USERS": name for name, config in PLATFORMS.items() if not config.is_local
}
_SHIPPED = "2765a846e1bb371d78d3b93b403dfb0f8d1ba1a9895edb5f608367abfe81194d"


def read_home(root: Path) -> PeerHome:
    home, tree, variables = PeerHome(), dict[str, Any](), dict[str, str]()

    def read_settings() -> None:
        tree.update(read_tree(root / "config.yaml"))
        # It passes names in capitals at the top of its settings on as variables.
        variables.update({name: str(value) for name, value in tree.items() if str(name).isupper() and value})

    def read_shipped() -> None:
        listed = (read_text(root / "skills" / ".bundled_manifest") or "").splitlines()
        home.shipped_skills = frozenset(filter(None, (line.partition(":")[0].strip() for line in listed)))

    home.read_part("settings", read_settings)
    home.read_part("tokens and allowlists", lambda: variables.update(read_env(root / ".env")))
    _take_variables(home, variables)
    _read_model(home, tree.get("model"), variables)
    # It uses the newer place only while the older one is empty. Reading both could let in somebody revoked since.
    older = root / "pairing"
    folder = older if older.is_dir() and any(older.iterdir()) else root / "platforms" / "pairing"
    for file in sorted(folder.glob("*-approved.json")):
        home.read_part(f"people in {file.name}", partial(_read_people, home, file))
    home.personality, home.shipped_personality = root / "SOUL.md", _SHIPPED
    home.memories = (root / "memories" / "USER.md", root / "memories" / "MEMORY.md")
    home.jobs = root / "cron" / "jobs.json"
    home.skills = root / "skills"
    home.read_part("skills that come with it", read_shipped)
    home.leave_folders(root, {"sessions": "conversations"})
    return home


def _take_variables(home: PeerHome, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        if secret := secrets.find(name):
            home.secrets[secret.env] = value
        elif name in _ALLOWED:
            home.allowed[_ALLOWED[name]] = [entry.strip() for entry in value.split(",") if entry.strip()]
        elif name == "HERMES_MODEL":
            pass  # read with the model
        elif name in our_variables():
            home.left[name] = f"decide it here: hermes config set {our_variables()[name]} …"
        else:
            home.left[name] = "Hermes does not know this variable"


def _read_model(home: PeerHome, section: object, variables: dict[str, str]) -> None:
    if isinstance(section, str):
        section = {"default": section}
    name = dig(section, "default") or dig(section, "model") or variables.get("HERMES_MODEL")
    if not name:
        return
    provider = str(dig(section, "provider") or "")
    address = resolve(dig(section, "base_url"), variables)
    home.model = PeerModel(name=str(name), provider="" if provider == "auto" else provider, base_url=address)
    if address and (key := resolve(dig(section, "api_key"), variables)):
        home.secrets["OPENAI_API_KEY"] = key


def _read_people(home: PeerHome, file: Path) -> None:
    platform = file.name.removesuffix("-approved.json")
    for user_id, known in read_tree(file).items():
        name = str(dig(known, "user_name") or "")
        home.paired.append(PeerUser(platform=platform, user_id=str(user_id), name=name))
