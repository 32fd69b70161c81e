"""Load the settings: defaults, then config.yaml, .env, the environment and flags; the last one wins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_config import environment
from hermes_config.config_file import read_config_file
from hermes_config.errors import ConfigError
from hermes_config.keys import WrongValue, catalogue, explain_unknown
from hermes_config.places import Home
from hermes_config.settings import Settings
from hermes_config.sources import Findings, Given, read_env_file, read_environment

SHORTEST_SCRUBBED_CHARS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings, and where each key that is not at its default came from, such as "config.yaml line 7"."""

    settings: Settings
    warnings: tuple[str, ...]
    sources: dict[str, str]


def load(home: Home, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Raise ConfigError with every problem at once; a flag of None was not given."""
    findings = Findings()
    given: list[Given] = []
    for read, file in ((read_config_file, home.config_file), (read_env_file, home.env_file)):
        try:
            given += read(file, findings)
        except ConfigError as error:
            findings.errors.append(str(error))
    given += read_environment(environment.everything(), findings)
    given += _read_flags(flags or {}, findings)
    settings, sources = _merge(given, findings)
    secrets = [str(one.value) for one in given if one.key.startswith("secrets.") and one.value]
    if findings.errors:
        raise ConfigError("\n".join(_scrub(findings.errors, secrets)))
    return Loaded(settings=settings, warnings=tuple(_scrub(findings.warnings, secrets)), sources=sources)


def _read_flags(flags: Mapping[str, Any], findings: Findings) -> list[Given]:
    for key in flags.keys() - catalogue().keys():
        findings.errors.append(f"flag: {explain_unknown(key)}")
    return [
        Given(key=key, value=value, source="flag", where=f"flag for {key}", fix="give another value")
        for key, value in flags.items()
        if value is not None and key in catalogue()
    ]


def _merge(given: list[Given], findings: Findings) -> tuple[Settings, dict[str, str]]:
    winners = {one.key: one for one in given}
    tree: dict[str, Any] = {}
    for one in given:
        winner = winners[one.key]
        try:
            value = None if one.value is None else catalogue()[one.key].check(one.value, strict=one.typed)
        except WrongValue as wrong:
            for line in (f"{one.where}: {one.key} {reason}; {one.fix}." for reason in wrong.reasons):
                if one is winner:
                    findings.errors.append(line)
                else:
                    findings.warnings.append(f"{line} It has no effect now: {winner.source} overrides it.")
        else:
            if one is winner and value is not None:
                *path, leaf = one.key.split(".")
                section = tree
                for name in path:
                    section = section.setdefault(name, {})
                section[leaf] = value
    return Settings(**tree), {key: one.source for key, one in winners.items()}


def _scrub(lines: Iterable[str], secrets: list[str]) -> Iterable[str]:
    """Remove secrets from messages: a token may have been pasted into the wrong variable."""
    for line in lines:
        for secret in secrets:
            if len(secret) >= SHORTEST_SCRUBBED_CHARS:
                line = line.replace(secret, "…")
        yield line
