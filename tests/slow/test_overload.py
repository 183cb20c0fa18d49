"""Overload: refusals are complete, fast and cheap; the model server's own limit never takes effect."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from support import commands
from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image
from support.isolation import own_environ
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, running

HELD, QUICK = (png(np.full((8, 8, 3), (red, 0, 0))) for red in (1, 0))


def test_what_is_too_much_is_refused_whole_and_counted(door: Door, tmp_path: Path) -> None:
    export_held_image(tmp_path / "models" / "held", door)
    large = bytes(1 << 20)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "0"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(1) as pool:
        first = pool.submit(stack.invoke, HELD)
        # An earlier request would take the only place.
        door.wait_for()
        assert stack.invoke(b"", Content_Type="image/png").status_code == 503
        refused = [stack.invoke(large, Content_Type="image/png") for _ in range(10)]
        assert not first.done()
        assert {answer.status_code for answer in refused} == {503}
        assert all("in progress and waiting" in answer.json()["error"] for answer in refused), refused[0].text
        assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
        door.open()
        assert first.result().status_code == 200
        stack.wait_until(lambda: refusals(stack) >= 11)
        assert "no live upstreams" not in stack.log
        assert "reset by peer" not in stack.log and "Broken pipe" not in stack.log, stack.log


def refusals(stack: Stack) -> float:
    page = requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text
    counted = [line for line in page.splitlines() if line.startswith('lightbox_rejected_total{reason="queue_full"}')]
    return sum(float(line.split()[-1]) for line in counted)


def test_as_many_as_are_allowed_are_taken_however_they_are_spread(door: Door, tmp_path: Path) -> None:
    export_held_image(tmp_path / "models" / "held", door)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "3", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "2"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(12) as pool:
        for _ in range(4):
            door.shut()
            answers = [pool.submit(stack.invoke, HELD) for _ in range(12)]
            # Three are refused while the others run or wait.
            stack.wait_until(lambda: sum(answer.done() for answer in answers) == 3)  # noqa: B023
            door.open()
            assert Counter(answer.result().status_code for answer in answers) == {200: 9, 503: 3}, stack.log
        # nginx refuses the rest at a tenth of a worker's CPU time: each has one log line without a route.
        refused = " method=POST route=unmatched path=/invocations status=503 "
        stack.wait_until(lambda: stack.log.count(refused) >= 12)
        assert stack.log.count(refused) == stack.log.count("error=queue_full") == 12


def test_a_dead_nginx_worker_takes_no_places_with_it(door: Door, tmp_path: Path) -> None:
    export_held_image(tmp_path / "models" / "held", door)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "4", "LIGHTBOX_MAX_WAITING": "2"}
    settings |= MANY_HELD
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            door.shut()
            cut = [pool.submit(stack.invoke, HELD) for _ in range(4)]
            door.wait_for(4)
            for worker in stack.processes("nginx: worker process"):
                with suppress(psutil.NoSuchProcess):  # a replaced worker without remaining work
                    worker.kill()
            for request in cut:
                assert isinstance(request.exception(), requests.ConnectionError)
            door.open()
            answers = []
            for _ in poll(pause=0.2):
                try:
                    answers.append(stack.invoke(QUICK).status_code)
                except requests.ConnectionError:
                    continue
                if answers[-3:] == [200] * 3:
                    break
            assert answers[-3:] == [200] * 3, stack.log


def test_hung_up_is_not_served(door: Door, tmp_path: Path) -> None:
    export_held_image(tmp_path / "models" / "held", door)
    large = bytes(200_000)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1"}
    with running(tmp_path / "models", tmp_path / "r", **settings) as stack, ThreadPoolExecutor(1) as pool:
        first = pool.submit(stack.invoke, HELD)
        door.wait_for()
        open_then = open_files(stack)
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", stack.port)) as caller:
                head = f"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: {len(large)}\r\n\r\n"
                caller.sendall(head.encode() + large)
        stack.wait_until(lambda: stack.present() == 6)
        stack.wait_until(lambda: open_files(stack) == open_then)  # nginx has also closed its connections
        assert not first.done()
        door.open()
        assert first.result().status_code == 200
        stack.wait_until(lambda: stack.log.count("error=hung_up") == 5)


def open_files(stack: Stack) -> int:
    """Return the number of open files and connections of the nginx workers."""
    return sum(worker.num_fds() for worker in stack.processes("nginx: worker process"))


@pytest.mark.timeout(3600)
def test_more_load_than_can_be_served(sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [
        sys.executable,
        "-m",
        "faults",
        "overload",
        "--seconds=4",
        "--peak-seconds=2",
        f"--models={sample_models}",
    ]
    command += [f"--folder={tmp_path}", f"--deadline={PATIENCE:.0f}"]
    done = commands.run(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    report = done.stdout
    assert report, done.stderr
    rows = {cells[0]: cells for line in report.splitlines() if len(cells := line.strip("| ").split("|")) == 4}
    kept = {name.strip(): cells[3].strip() for name, cells in rows.items()}
    # The others depend on the load of the machine.
    ends = ("errors that are no 503", ": p99", "the model server's own limit shown")
    always = [name for name in kept if name.endswith(ends)]
    assert len(always) == 7 and {kept[name] for name in always} == {"yes"}, report
