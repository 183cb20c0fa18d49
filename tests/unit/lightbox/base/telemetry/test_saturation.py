"""One number for all processes: 0 when idle, 1 when requests wait."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lightbox.base.request_context import Requests
from lightbox.base.telemetry import saturation
from lightbox.base.telemetry.metrics import count_requests
from lightbox.base.telemetry.saturation import SMOOTHING_SECONDS, Saturation
from lightbox.core.edge import RECEIVED_HEADER, Edge
from lightbox.core.shares import Shares
from support.patience import PATIENCE, poll

CONTAINER = Path(saturation.__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from lightbox.base.telemetry.metrics import count_requests
count_requests(Path(sys.argv[1]))(int(sys.argv[2]), 1)
print("held", flush=True)
sys.stdin.read()
"""
LONG = 1000.0
"""Seconds after which nothing is left of what was before."""


def worker(run_dir: Path, requests: int) -> subprocess.Popen[str]:
    """Start a process with this many requests in progress."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, run_dir, str(requests)],
        env=os.environ | {"PYTHONPATH": str(CONTAINER)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def settled(watch: Saturation, at: float) -> float:
    watch.sample(at)
    return watch.value


def test_it_is_the_share_of_the_slots_that_all_processes_have_taken(tmp_path: Path) -> None:
    watch, now = Saturation(tmp_path, slots=16), time.monotonic()
    assert settled(watch, now + LONG) == 0
    tell = count_requests(tmp_path)
    tell(1, 1)
    tell(2, 1)
    with worker(tmp_path, 3) as other:
        assert settled(watch, now + 2 * LONG) == pytest.approx(5 / 16, abs=0.001)
        assert watch.in_progress == 2
        tell(1, 1)
        assert settled(watch, now + 3 * LONG) == pytest.approx(4 / 16, abs=0.001)
        tell(41, 0)
        assert settled(watch, now + 4 * LONG) == 1
        other.kill()
    tell(0, 0)
    assert settled(watch, now + 5 * LONG) == 0


def test_what_a_killed_process_had_is_over_and_its_successor_begins_at_none(tmp_path: Path) -> None:
    watch, now = Saturation(tmp_path, slots=4), time.monotonic()
    with worker(tmp_path, 2) as killed:
        assert settled(watch, now + LONG) == 0.5
        killed.send_signal(signal.SIGKILL)
    assert settled(watch, now + 2 * LONG) == watch.in_progress == 0
    with worker(tmp_path, 1) as successor:
        assert settled(watch, now + 3 * LONG) == 0.25
        assert watch.in_progress == 1
        successor.kill()


def test_it_is_smoothed_and_does_not_remember_how_far_beyond_full_it_was(tmp_path: Path) -> None:
    watch, now = Saturation(tmp_path, slots=4), time.monotonic()
    watch.sample(now)
    tell = count_requests(tmp_path)
    tell(400, 0)
    assert settled(watch, now + SMOOTHING_SECONDS) == pytest.approx(1 - 1 / math.e, abs=0.01)
    assert settled(watch, now + LONG) == 1
    tell(0, 0)
    assert settled(watch, now + LONG + SMOOTHING_SECONDS) == pytest.approx(1 / math.e, abs=0.01)


def test_the_fullest_share_counts(tmp_path: Path) -> None:
    own: list[tuple[int, int]] = []
    watch, now = Saturation(tmp_path, 4, lambda: own), time.monotonic()
    count_requests(tmp_path)(31, 0)
    own += [(30, 40), (0, 300)]
    assert settled(watch, now + LONG) == 0.75
    own[:] = [(28, 40), (0, 300)]
    assert settled(watch, now + 2 * LONG) == 0.75
    own[:] = [(10, 300), (21, 20)]
    assert settled(watch, now + 3 * LONG) == 1


def test_short_requests_count_by_the_time_they_take(tmp_path: Path) -> None:
    watch, now = Saturation(tmp_path, slots=1), time.monotonic()
    tell = count_requests(tmp_path)
    for tick in range(600):  # busy in one tick of three
        tell(int(tick % 3 == 0), 0)
        watch.sample(now + tick * saturation.SAMPLE_SECONDS)
    assert watch.value == pytest.approx(1 / 3, abs=0.02)


def test_the_edge_counts_those_who_wait_as_those_who_work(tmp_path: Path) -> None:
    watch, now, opened = Saturation(tmp_path, slots=4), time.monotonic(), threading.Event()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        opened.wait(PATIENCE)
        start_response("200 OK", [])
        return []

    def ask(**environ: str) -> None:
        edge({"REQUEST_METHOD": "GET", "PATH_INFO": "/"} | environ, lambda *response: None)

    requests = Requests(on_change=count_requests(tmp_path))
    edge = Edge(app, Shares(1), deadline_seconds=PATIENCE, requests=requests)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask) for _ in range(3)]
        times = itertools.count(1)
        assert any(settled(watch, now + LONG * next(times)) == 0.75 for _ in poll())
        assert any(watch.in_progress == 1 for _ in poll())  # the first may have entered just now
        opened.set()
        for request in asked:
            request.result()
    ask(**{RECEIVED_HEADER: str(time.time() - 2 * PATIENCE)})  # refused: its deadline has passed
    assert settled(watch, now + LONG * next(times)) == 0
