"""A short `make soak`: kills processes under all kinds of traffic, loads and unloads models, and loses no request."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import commands
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)


def test_nothing_is_lost_while_processes_are_killed(sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "soak", "faults", "--seconds=1", "--kills=1", "--kill-pause=1"]
    command += [f"--models={sample_models}", f"--folder={tmp_path}"]
    done = commands.run(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    report = done.stdout
    assert done.returncode == 0, "\n".join([*done.stderr.splitlines()[-1:], report, done.stderr])
    fixed, changing = re.split(r"^changing models: .*$", report, flags=re.MULTILINE)
    rows = _rows(fixed)
    assert rows["lost"] == rows["not connected"] == 0, report
    assert rows["200"] > 100, report
    kinds = ("model server", "gunicorn master", "gRPC front", "stream worker", "nginx master", "nginx worker")
    assert min(rows[kind] for kind in kinds) >= 1, report
    rows = _rows(changing)
    assert rows["lost"] == rows["not connected"] == 0, report
    assert min(rows["200"], rows["4xx"]) > 20, report
    assert sum(rows[kind] for kind in kinds) >= 2, report
    assert rows["worker in a load"] >= 1, report


def _rows(report: str) -> Counter[str]:
    """Return the numbers of a report; what did not occur counts zero."""
    found = re.findall(r"^\| ([^|]+?) +\| +([\d,]+) +\|", report.partition("memory")[0], re.MULTILINE)
    return Counter({name: int(number.replace(",", "")) for name, number in found})
