"""Tracing that is off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lightbox

CONTAINER = Path(lightbox.__file__).parents[1]


@pytest.mark.extended
def test_nothing_is_imported_without_an_endpoint() -> None:
    code = "import sys, lightbox.cli, lightbox.serving.worker\n"
    code += "assert not [name for name in sys.modules if 'opentelemetry' in name]"
    subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(CONTAINER)}, check=True
    )  # fmt: skip
