"""Facts about a home in `tmp_path`, as the checks are told them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gateway.doctor.checks import Check
from gateway.doctor.facts import Facts, Finding, StoreSummary
from gateway.store.pairing import Overview
from hermes_config.load import Loaded
from hermes_config.places import Home
from hermes_config.settings import Settings

NOW_MS = 1_794_844_800_000
HOUR_MS = 3_600_000
NOBODY = Overview(pending=(), people=(), revoked=(), locks=(), invites=())


def facts_of(root: Path, settings: Mapping[str, Any] | None = None, **changed: Any) -> Facts:
    """Of a machine on which all is well, but for what is changed."""
    chosen = {"terminal": {"cwd": str(root)}, **(settings or {})}
    loaded = Loaded(settings=Settings.model_validate(chosen), warnings=(), sources={})
    return Facts(**{"home": Home(root), "now_ms": NOW_MS, "loaded": loaded, **changed})


def summary_of(**changed: Any) -> StoreSummary:
    return StoreSummary(**{"size_bytes": 1_000_000, "access": NOBODY, **changed})


def run_check(check: Check, facts: Facts) -> list[tuple[str, str]]:
    return [(finding.level, finding.text) for finding in check(facts)]


def levels(found: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in found]
