"""Fixtures of the loader's tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.model_loader import Listener
from support.models import GOLDEN


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "half_plus_two", tmp_path / "models" / "half")
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def server() -> Listener:
    return Listener()
