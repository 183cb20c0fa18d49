"""What all of Lightbox's unit tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_path() -> Iterator[None]:
    """Take away what loading a user's code leaves in this process."""
    path, modules, inherited = list(sys.path), set(sys.modules), os.environ.get("PYTHONPATH")
    yield
    sys.path[:] = path
    os.environ.pop("PYTHONPATH", None)
    if inherited is not None:
        os.environ["PYTHONPATH"] = inherited
    for name in [name for name in sys.modules if name.startswith("inference_") and name not in modules]:
        del sys.modules[name]
