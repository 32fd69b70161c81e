"""A folder for the files, and the engine."""

from pathlib import Path

import pytest

from gateway.memory.engine import MemoryEngine
from gateway.memory.files import MemoryFiles
from gateway.memory.nudge import Nudge
from gateway.store.db.database import Database
from hermes_config.redaction import Redactor


@pytest.fixture
def files(tmp_path: Path) -> MemoryFiles:
    return MemoryFiles(root=tmp_path / "memories", redactor=Redactor())


@pytest.fixture
def engine(db: Database, files: MemoryFiles) -> MemoryEngine:
    return MemoryEngine(db=db, files=files, nudge=Nudge(every_turns=10, redactor=Redactor()))
