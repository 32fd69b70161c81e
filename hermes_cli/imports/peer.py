"""Another program's home, as far as Hermes can use it, and helpers for reading its files. Nothing here writes."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from hermes_config.errors import ConfigError
from hermes_config.sources import parse_env, read_text

# Our variables, by the name of a token in the JSON files of peers.
PLATFORM_TOKENS: dict[str, dict[str, tuple[str, ...]]] = {
    "telegram": {"TELEGRAM_BOT_TOKEN": ("botToken", "token")},
    "discord": {"DISCORD_BOT_TOKEN": ("token",)},
    "slack": {"SLACK_BOT_TOKEN": ("botToken",), "SLACK_APP_TOKEN": ("appToken",)},
}
MODEL_KEYS = {
    "openrouter": "OPENROUTER_API_KEY",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "google": "GEMINI_API_KEY",
    "nous": "NOUS_API_KEY",
}
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# Text in quotes is kept; comments and tabs between them go. What remains of JSON5 is YAML.
_JSON5 = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|/\*.*?\*/|\t""", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUser:
    """Somebody who was paired there."""

    platform: str
    user_id: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerModel:
    """The model used there. Without a provider or an address, the name decides who serves it."""

    name: str
    provider: str = ""
    base_url: str = ""


@dataclass(slots=True, kw_only=True)
class PeerHome:
    """Everything found in the home of a peer."""

    secrets: dict[str, str] = field(default_factory=dict, repr=False)  # by our variable
    allowed: dict[str, list[str]] = field(default_factory=dict)  # ids and names, by platform (empty: on all)
    paired: list[PeerUser] = field(default_factory=list)
    model: PeerModel | None = None
    personality: Path | None = None
    shipped_personality: str = ""  # the SHA-256 of the one that comes with the peer
    memories: tuple[Path, ...] = ()  # files with facts
    jobs: Path | None = None  # the file with scheduled jobs
    skills: Path | None = None  # a folder of skills
    shipped_skills: frozenset[str] = frozenset()  # names of those that come with the peer
    left: dict[str, str] = field(default_factory=dict)  # what it has and Hermes does not take, with the reason

    def read_part(self, what: str, read: Callable[[], None]) -> None:
        """Run one reader; a file that cannot be understood leaves that part out and nothing else."""
        try:
            read()
        except ConfigError as error:
            self.left[what] = str(error)

    def leave_folders(self, root: Path, folders: Mapping[str, str]) -> None:
        """Mention folders with content that are not taken."""
        for name, what in folders.items():
            folder = root / name
            if folder.is_dir() and any(folder.iterdir()):
                self.left[what] = f"{folder} is not imported by this version"


def read_env(file: Path) -> dict[str, str]:
    """Return the variables of a .env file; empty when there is none."""
    return {line.name: line.value.strip() for line in parse_env(read_text(file) or "") if line.name and line.value}


def read_tree(file: Path) -> dict[str, Any]:
    """Return a file of YAML, JSON or JSON5 as a mapping, empty without one; raise ConfigError if it is broken."""
    text = read_text(file)
    if text is None or not text.strip():
        return {}
    try:
        tree = _load_json(text) if file.suffix == ".json" else YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigError(f"{file} is damaged{where}: it is not {file.suffix.removeprefix('.').upper()}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{file} is damaged: it holds no settings")
    return tree


def _load_json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return YAML(typ="safe", pure=True).load(_JSON5.sub(lambda found: found[1] or " ", text))


def as_mapping(value: object) -> dict[str, Any]:
    """Return a mapping, empty for anything else."""
    return value if isinstance(value, dict) else {}


def dig(tree: object, *path: str) -> Any:
    """Return the value at a path, None when anything on the way is missing or no mapping."""
    for name in path:
        tree = as_mapping(tree).get(name)
    return tree


def resolve(value: object, variables: Mapping[str, str]) -> str:
    """Return text with `${NAME}` filled in and references to variables followed; empty when one is unknown."""
    if isinstance(value, dict):
        return variables.get(str(value.get("id")), "") if value.get("source") == "env" else ""
    if not isinstance(value, str):
        return ""
    names = _REFERENCE.findall(value)
    if any(name not in variables for name in names):
        return ""
    return _REFERENCE.sub(lambda found: variables[found[1]], value).strip()


def take_channels(home: PeerHome, channels: object, variables: Mapping[str, str]) -> None:
    """Read tokens and allowlists of the platforms that Hermes has too, from a section `channels`."""
    for platform, value in as_mapping(channels).items():
        section, tokens = as_mapping(value), PLATFORM_TOKENS.get(platform)
        if tokens is None:
            if section.get("enabled"):
                home.left[platform] = "Hermes has no such platform"
        elif section.get("enabled") is not False:
            _take_channel(home, platform, section, variables)
        elif any(section.get(name) for names in tokens.values() for name in names):
            home.left[platform] = "it is switched off there"


def _take_channel(home: PeerHome, platform: str, section: dict[str, Any], variables: Mapping[str, str]) -> None:
    for variable, names in PLATFORM_TOKENS[platform].items():
        given = next((section[name] for name in names if section.get(name)), "")
        if token := resolve(given, variables):
            home.secrets[variable] = token
        elif given:
            home.left[variable] = "it is kept outside of the files that can be read"
    listed = [section.get("allowFrom"), dig(section, "dm", "allowFrom")]
    if entries := [str(entry) for one in listed if isinstance(one, list) for entry in one]:
        home.allowed[platform] = list(dict.fromkeys(entries))
    if section.get("accounts"):
        home.left[f"further bots on {platform}"] = "only the default bot is imported"


def take_keys(home: PeerHome, providers: object, variables: Mapping[str, str]) -> None:
    """Read the keys of model providers, from a section of providers by name."""
    for name, section in as_mapping(providers).items():
        if not isinstance(section, dict) or not section.get("apiKey"):
            continue
        variable, key = MODEL_KEYS.get(name), resolve(section["apiKey"], variables)
        if variable and key:
            home.secrets[variable] = key
        else:
            reason = "it is kept outside of the files that can be read" if variable else "Hermes has no such provider"
            home.left[f"key of {name}"] = reason


def take_server_key(home: PeerHome, provider: str, given: object, variables: Mapping[str, str]) -> None:
    """Take the key of a server of one's own, as which it is not one of the providers' keys."""
    if key := resolve(given, variables):
        home.secrets["OPENAI_API_KEY"] = key
        home.left.pop(f"key of {provider}", None)
