"""Python processes that find other packages than those of the tests' environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PACKAGES = Path(__file__).with_name("packages")
BOTH = ("tensorflow", "tensorflow_serving")
"""The packages that have TensorFlow Serving's messages."""


def other_packages(reports: Path, *hidden: str) -> Mapping[str, str]:
    """Return variables for processes without the ``hidden`` packages, in which OpenVINO's reports go to a file.

    ``reports`` is written when such a process loads the package that OpenVINO reports its use with.
    """
    return {"PYTHONPATH": str(PACKAGES), "HIDDEN_PACKAGES": " ".join(hidden), "REPORTS": str(reports)}
