"""Settings of the tests that hypothesis runs, and the compiled library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import hypothesis
import pytest

from support.stack import REPOSITORY

# The time of an example depends on the machine's load. Tests of speed compare alternating runs.
# Each run draws other examples, so that a few of them do.
hypothesis.settings.register_profile(
    "patient", max_examples=50, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library; ``tests/slow/test_sanitized_library.py`` adds flags."""
    path = tmp_path_factory.mktemp("native") / "lightbox.so"
    subprocess.run(
        [REPOSITORY / "scripts/build_native.sh", path, *os.environ.get("NATIVE_FLAGS", "").split()], check=True
    )
    return path
