"""More than can be served: refusals are whole, soon and cheap; the model server's own limit never shows."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import requests

from support.fakes import png
from support.models import export_slow_image
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, running


def test_what_is_too_much_is_refused_whole_and_counted(tmp_path: Path) -> None:
    export_slow_image(tmp_path / "models" / "slow")
    slow, large = png(np.full((8, 8, 3), (150, 0, 0))), bytes(1 << 20)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "0"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(1) as pool:
        first = pool.submit(stack.invoke, slow)
        # Another request before that one is in would take the only place.
        stack.wait_until_computing()
        assert stack.invoke(b"", Content_Type="image/png").status_code == 503
        refused = [stack.invoke(large, Content_Type="image/png") for _ in range(10)]
        assert not first.done()
        assert {answer.status_code for answer in refused} == {503}
        assert all("in progress and waiting" in answer.json()["error"] for answer in refused), refused[0].text
        assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
        assert first.result().status_code == 200
        page = requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text
        (counted,) = [
            line for line in page.splitlines() if line.startswith('lightbox_rejected_total{reason="queue_full"}')
        ]
        assert float(counted.split()[-1]) >= 11
        assert "no live upstreams" not in stack.log
        assert "reset by peer" not in stack.log and "Broken pipe" not in stack.log, stack.log


def test_as_many_as_are_allowed_are_taken_however_they_are_spread(tmp_path: Path) -> None:
    export_slow_image(tmp_path / "models" / "slow")
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "3", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "2"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(12) as pool:
        slow = png(np.full((8, 8, 3), (10, 0, 0)))
        for _ in range(3):
            assert list(pool.map(lambda _: stack.invoke(slow).status_code, range(9))) == [200] * 9, stack.log
        statuses = list(pool.map(lambda _: stack.invoke(slow).status_code, range(12)))
        assert set(statuses) == {200, 503}
        # Those beyond are nginx's to refuse, it costs a worker ten times as much: each has one line, and no route.
        refused = " method=POST route=unmatched path=/invocations status=503 "
        assert any(stack.log.count(refused) >= statuses.count(503) for _ in poll())
        assert stack.log.count(refused) == stack.log.count("error=queue_full") == statuses.count(503)


def test_a_dead_nginx_worker_takes_no_places_with_it(tmp_path: Path) -> None:
    export_slow_image(tmp_path / "models" / "slow")
    slow, quick = (png(np.full((8, 8, 3), (red, 0, 0))) for red in (30, 0))
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "4", "LIGHTBOX_MAX_WAITING": "2"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            cut = [pool.submit(stack.invoke, slow) for _ in range(4)]
            assert any(stack.in_progress() == 4 for _ in poll())
            for worker in stack.processes("nginx: worker process"):
                worker.kill()
            for request in cut:
                assert isinstance(request.exception(), requests.ConnectionError)
            answers = []
            for _ in poll(pause=0.2):
                try:
                    answers.append(stack.invoke(quick).status_code)
                except requests.ConnectionError:
                    continue
                if answers[-3:] == [200] * 3:
                    break
            assert answers[-3:] == [200] * 3, stack.log


def test_hung_up_is_not_served(tmp_path: Path) -> None:
    export_slow_image(tmp_path / "models" / "slow")
    slow, large = png(np.full((8, 8, 3), (60, 0, 0))), bytes(200_000)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1"}
    with running(tmp_path / "models", tmp_path / "r", **settings) as stack, ThreadPoolExecutor(1) as pool:
        assert "too long for a unix socket" not in stack.log  # over TCP nobody sees that a caller has hung up
        first = pool.submit(stack.invoke, slow)
        stack.wait_until_computing()
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", stack.port)) as caller:
                head = f"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: {len(large)}\r\n\r\n"
                caller.sendall(head.encode() + large)
        assert not first.done()
        assert first.result().status_code == 200
        for _ in poll():
            if stack.log.count("error=hung_up") == 5:
                break
        else:
            raise AssertionError(stack.log)


def test_twice_the_load_that_can_be_served(sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "overload", "--seconds=6", "--peak-seconds=1", f"--models={sample_models}"]
    done = subprocess.run(
        [*command, f"--out={tmp_path / 'report.md'}"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (tmp_path / "report.md").is_file(), done.stderr
    report = (tmp_path / "report.md").read_text()
    rows = {cells[0]: cells for line in report.splitlines() if len(cells := line.strip("| ").split("|")) == 4}
    kept = {name.strip(): cells[3].strip() for name, cells in rows.items()}
    # The others depend on how busy the machine is.
    for name in ("p99 of accepted requests", "errors that are no 503", "the model server's own limit shown"):
        assert kept[name] == "yes", report
