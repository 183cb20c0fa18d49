"""Replaces OpenVINO's telemetry package: records would-be reports in the file REPORTS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

with Path(os.environ["REPORTS"]).open("a") as _reports:
    print(os.getpid(), *sys.orig_argv, file=_reports)


class Telemetry:
    """Accepts any arguments."""

    def __init__(self, **_: object) -> None:
        pass

    def send_event(self, *event: str) -> None:
        """Send nothing."""
