"""Bring an older config.yaml up to date: its version, and settings under names that are only still understood."""

from datetime import datetime
from pathlib import Path

from hermes_config.accounts import account_tokens
from hermes_config.config_file import VERSION_KEY, check_version, parse, remove_from_text, set_in_text
from hermes_config.edit import check_config, replace_config, replace_file
from hermes_config.keys import catalogue, flat_names
from hermes_config.places import Home
from hermes_config.secrets import find_tokens
from hermes_config.settings import CONFIG_VERSION, Settings
from hermes_config.sources import read_text


def preview_migration(home: Home) -> tuple[str, str]:
    """Return the text of config.yaml as it is and as it would be; raise ConfigError for one that cannot be migrated."""
    old = read_text(home.config_file) or ""
    document = parse(old, home.config_file)
    check_version(document, home.config_file)
    if not document:
        return old, old
    new = old
    for name, dotted in flat_names().items():
        given: object = document
        for part in name.split("."):
            given = given.get(part) if isinstance(given, dict) else None
        if name != dotted and given is not None and dotted in catalogue():
            new = remove_from_text(new, home.config_file, name)
            value = catalogue()[dotted].check(given, strict=False)
            new = set_in_text(new, home.config_file, dotted, value)
    if VERSION_KEY not in document:
        new = f"{VERSION_KEY}: {CONFIG_VERSION}\n{new}"
    check_config(home, new)
    return old, new


def migrate_config(home: Home, old: str, new: str) -> Path | None:
    """Write the new text and return the backup of the old one; None when there is nothing to do."""
    if old == new:
        return None
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    backup = home.config_file.with_name(f"{home.config_file.name}.{stamp}.bak")
    replace_file(backup, old)
    replace_config(home, old, new)
    return backup


def find_missing(settings: Settings) -> list[str]:
    """Return the variables of tokens that a bot lacks although it is named, or has another of its tokens."""
    missing = [variable for variable, token in account_tokens(settings).items() if not token]
    for platform, section in settings.platforms:
        tokens = find_tokens(platform)
        unset = [token.env for token in tokens if getattr(settings.secrets, token.field) is None]
        if section.enabled and unset and len(unset) < len(tokens):
            missing += unset
    return missing
