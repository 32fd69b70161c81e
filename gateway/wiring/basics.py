"""Build from settings what every command needs. Imports little, so that `hermes status` is quick."""

from pathlib import Path

from gateway.store.db.backup import BackupPolicy
from hermes_config.accounts import account_tokens, webhook_secrets
from hermes_config.mcp import read_servers
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import Settings
from skills.library import SkillLibrary
from tools.mcp.logins import Logins


def build_backup_policy(settings: Settings, backups: Path) -> BackupPolicy:
    return BackupPolicy(
        backups=backups,
        backups_kept=settings.store.backups_kept,
        upgrade_backups_kept=settings.store.upgrade_backups_kept,
        full_check_max_mb=settings.store.full_check_max_mb,
        busy_timeout_seconds=settings.store.busy_timeout_seconds,
    )


def build_redactor(settings: Settings) -> Redactor:
    """Build the redactor for everything that leaves: messages, drafts, exports. Never used for input to a model."""
    return Redactor(secret_values(settings))


def build_library(settings: Settings, home: Home) -> SkillLibrary:
    return SkillLibrary(root=home.skills, disabled=settings.skills.disabled)


def secret_values(settings: Settings) -> list[str]:
    named = [value.get_secret_value() for _, value in settings.secrets if value is not None]
    tokens = (*account_tokens(settings).values(), *webhook_secrets(settings).values())
    servers = [value for server in read_servers(settings.mcp.servers).values() for value in server.secrets()]
    logins = Logins(Home.locate().mcp_logins).secrets()
    return [*named, *(token for token in tokens if token), *servers, *logins]
