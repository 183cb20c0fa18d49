"""Python processes with other packages than the tests' environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PACKAGES = Path(__file__).with_name("packages")
BOTH = ("tensorflow", "tensorflow_serving")
"""The packages that have TensorFlow Serving's messages."""


def other_packages(reports: Path, *hidden: str) -> Mapping[str, str]:
    """Return variables for processes without the ``hidden`` packages, in which OpenVINO's reports go to a file.

    Such a process writes ``reports`` when it loads OpenVINO's telemetry package.
    """
    return {"PYTHONPATH": str(PACKAGES), "HIDDEN_PACKAGES": " ".join(hidden), "REPORTS": str(reports)}
