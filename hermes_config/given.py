"""One value as somebody gave it, and what was found wrong on the way."""

from dataclasses import dataclass, field
from pathlib import Path

from hermes_config.errors import ConfigError

MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """`value` None puts the default back; `typed` says that the source knows numbers from text."""

    key: str
    value: object
    source: str
    where: str
    mend: str
    typed: bool = False


@dataclass(slots=True)
class Findings:
    """Collected so that a person mends everything in one go."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_text(path: Path) -> str | None:
    """The file's text, None when there is no such file; ConfigError when it cannot be read as text."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory, but must be a file; move it away.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path} cannot be read: {reason}; mend its owner and mode (chmod 600 {path}).") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes, which no settings are; is it the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: not UTF-8 text; save the file as UTF-8.") from None
