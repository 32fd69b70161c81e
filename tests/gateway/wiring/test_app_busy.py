"""The setting `gateway.busy_mode` reaches those who act on it."""

from pathlib import Path

import pytest

from gateway.store.db.database import Database
from gateway.store.inbox import BusyMode
from gateway.turns.responder import Responder
from gateway.wiring.app import build_gateway
from hermes_config.places import Home
from hermes_config.settings import Settings


@pytest.mark.parametrize("mode", ["steer", "interrupt", "queue", "collect"])
async def test_the_door_and_the_responder_have_the_same_mode(db: Database, tmp_path: Path, mode: BusyMode) -> None:
    settings = Settings.model_validate({"gateway": {"busy_mode": mode}, "platforms": {"web": {"enabled": False}}})
    gateway = build_gateway(settings, Home(tmp_path / "home"), db)
    assert gateway.intake.policy.busy_mode == mode
    worker = gateway.lanes._worker
    assert isinstance(worker, Responder)
    assert worker.runner.settings.gateway.busy_mode == mode


def test_steering_is_what_happens_unless_somebody_says_otherwise() -> None:
    assert Settings().gateway.busy_mode == "steer"
