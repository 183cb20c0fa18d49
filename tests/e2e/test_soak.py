"""`make soak`, shorter: every kind of process is killed once under good and hostile traffic, and nothing is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.stack import REPOSITORY


def test_nothing_is_lost_while_processes_are_killed(sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "soak", "--seconds=70", "--kill-pause=2", f"--models={sample_models}"]
    done = subprocess.run(
        [*command, f"--out={tmp_path / 'report.md'}"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    report = (tmp_path / "report.md").read_text() if done.returncode == 0 else done.stdout + done.stderr
    assert done.returncode == 0, report
    rows = dict(re.findall(r"^\| ([^|]+?) +\| +([\d,]+) +\|", report.partition("memory")[0], re.MULTILINE))
    assert rows["lost"] == rows["not connected"] == "0", report
    assert int(rows["200"].replace(",", "")) > 100, report
    kinds = ("model server", "gunicorn master", "gRPC front", "nginx master", "nginx worker")
    assert min(int(rows[kind]) for kind in kinds) >= 1, report
