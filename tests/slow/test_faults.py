"""A short `make faults`, and a checker that finds what a proxy between callers and stack does wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import cast

import pytest

from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE
from faults.checker import check
from faults.fault import Target
from faults.history import lines
from faults.wall_clock import HOUR_SECONDS, wall_clock
from support import commands
from support.environments import environment
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)
SCENARIOS = {
    "fixed models": "SIGKILL|is full|packet|gone|(nginx worker|gunicorn worker|model server): (no|frozen for)",
    "changing models": "SIGKILL|(master|model server): no",
    "container": "",
    "clock": "",
    "stand-in": "",
}
"""Regular expressions of faults: each process is killed in both modes, and those with most to do lack something, or are
frozen. tests/e2e/test_hangs.py and test_output_readers.py freeze the others."""
OF_OTHERS = "listens: frozen for"
"""One fault for each server shows that all of them start, answer and are judged."""
LASTING = 0.4
"""Four seconds, for hundreds of requests."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_is_lost(scenario: str, sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "faults", "run", f"--scenarios={scenario}", "--seconds=1", f"--folder={tmp_path}"]
    command += [f"--models={sample_models}", "--patience=6", f"--only={SCENARIOS[scenario]}", f"--lasting={LASTING}"]
    done = commands.run(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (history,) = tmp_path.glob("*.jsonl")
    verdict = check(lines(history))
    assert verdict.counts["200"] > 100, done.stdout
    assert verdict.faults or verdict.forbidden, done.stdout


NOW = """
import threading, time
while True:
    input()
    began = time.monotonic()
    threading.Event().wait(0.01)
    time.sleep(0.01)
    print(time.time(), time.monotonic() - began, flush=True)
"""


def test_a_program_sees_the_clock_that_is_set() -> None:
    with wall_clock() as (within, faults):
        assert [fault.forbidden for fault in faults] == ["", ""]
        with subprocess.Popen([*within, sys.executable, "-c", NOW], stdin=PIPE, stdout=PIPE, text=True) as program:
            assert program.stdin
            assert program.stdout
            answers, found = program.stdout, []

            def ask(_: float = 0) -> None:
                print(file=program.stdin, flush=True)
                now, waited = map(float, answers.readline().split())
                found.append(round((now - time.time()) / HOUR_SECONDS))
                assert waited < HOUR_SECONDS / 2

            ask()
            for fault in faults:
                fault.do(cast("Target", SimpleNamespace(last=ask)))
                ask()
            program.kill()
    assert found == [0, 1, 0, -1, 0]


def test_other_servers_have_a_ledger(sample_models: Path, tmp_path: Path) -> None:
    environment(".venv-bench")
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "faults", "others", "--seconds=1", f"--folder={tmp_path}", f"--only={OF_OTHERS}"]
    done = commands.run([*command, f"--models={sample_models}"], own_environ() | {"PYTHONPATH": paths}, patience=None)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    table = [line.strip("| ").split("|") for line in done.stdout.splitlines()[-4:]]
    assert [cells[0].strip() for cells in table] == [AUTO, LITSERVE, BENTOML, FASTAPI]
    lightbox, *_ = table
    assert {cell.strip() for cell in lightbox[3:-1]} == {"0"}, done.stdout
