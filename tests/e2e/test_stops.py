"""Every kind of stop: exit code 0 in time, nothing left behind, and the last log lines of failed processes."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from support import commands
from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image, held_call
from support.isolation import own_environ
from support.models import export_constant, write_warm_up
from support.patience import PATIENCE, poll
from support.stack import SERVE, Stack, running

pytestmark = pytest.mark.extended


def red(value: int) -> bytes:
    return png(np.full((8, 8, 3), (value, 0, 0)))


@pytest.fixture(scope="module")
def models(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models")
    export_constant(folder / "constant", 1, 0.5)
    export_held_image(folder / "held", module_door)
    return folder


def nothing_is_left(stack: Stack) -> bool:
    """Wait until no process with the stack's environment exists, orphans included.

    Orphans get SIGKILL last, and may take a moment to exit.
    """
    mark = str(stack.tmp)

    def left() -> list[psutil.Process]:
        found = psutil.process_iter(["environ", "status"])
        running = [process for process in found if process.info["status"] != psutil.STATUS_ZOMBIE]
        return [process for process in running if (process.info["environ"] or {}).get("TMPDIR") == mark]

    return any(not left() for _ in poll())


def minds_signals(stack: Stack) -> bool:
    """Return whether the process handles signals: for a few milliseconds after its program is loaded, it does not."""
    status = Path(f"/proc/{stack.process.pid}/status").read_text()
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    minded = int(masks["SigBlk"], 16) | int(masks["SigCgt"], 16)
    return all(minded >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGINT))


MOMENTS: dict[str, Callable[[Stack], bool]] = {
    "at once": minds_signals,
    "with a plan": lambda stack: any(stack.tmp.glob("lightbox-*/plan.json")),
    "with gunicorn": lambda stack: bool(stack.processes("gunicorn")),
    "ready": lambda stack: "ready after" in stack.log,
}


# One handler serves both signals (supervisor/supervisor.py). Before the supervisor runs, __main__.py's handler does.
@pytest.mark.parametrize(
    ("moment", "number"),
    [*((moment, signal.SIGTERM) for moment in [*MOMENTS][:-1]), ("at once", signal.SIGINT), ("ready", signal.SIGINT)],
)
def test_a_stop_at_any_moment_of_the_start(models: Path, tmp_path: Path, moment: str, number: signal.Signals) -> None:
    with Stack(models, tmp_path, {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "constant"}) as stack:
        assert any(MOMENTS[moment](stack) for _ in poll(pause=0.001))
        assert stack.stop(number) == 0, stack.log
        assert nothing_is_left(stack)
        assert [path.name for path in tmp_path.iterdir()] == ["serve.log"]
        assert "Traceback" not in stack.log


def test_signals_without_end_change_nothing(models: Path, tmp_path: Path) -> None:
    with running(models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="constant") as stack:
        for _ in poll(pause=0.001):
            if stack.process.poll() is not None:
                break
            stack.process.send_signal(signal.SIGTERM)
        assert stack.process.returncode == 0, stack.log
        assert nothing_is_left(stack)
        assert [path.name for path in tmp_path.iterdir()] == ["serve.log"]


def test_a_stop_ends_in_time_however_long_a_request_takes(models: Path, door: Door, tmp_path: Path) -> None:
    settings = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "held", "LIGHTBOX_DRAIN_SECONDS": "2"}
    with running(models, tmp_path, **settings) as stack, ThreadPoolExecutor(1) as pool:
        cut = pool.submit(stack.invoke, red(255))
        door.wait_for()
        assert stack.stop() == 0, stack.log
        assert nothing_is_left(stack)
        with pytest.raises(requests.RequestException):
            cut.result()


def test_a_reload_of_nginx_waits_longer_than_a_stop(models: Path, door: Door, tmp_path: Path) -> None:
    drain = 1
    settings = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "held", "LIGHTBOX_DRAIN_SECONDS": str(drain)}
    with running(models, tmp_path, **settings) as stack, ThreadPoolExecutor(1) as pool:
        held = pool.submit(stack.invoke, red(255))
        door.wait_for()
        (master,) = (process for process in stack.processes("nginx") if "master" in " ".join(process.cmdline()))
        master.send_signal(signal.SIGHUP)  # as after a worker's death, and for a new certificate
        assert not wait([held], 2 * drain).done
        door.open()
        assert held.result().status_code == 200


def test_a_stop_waits_for_no_handler_whose_request_was_answered(models: Path, tmp_path: Path) -> None:
    code = tmp_path / "model" / "code"
    shutil.copytree(models / "constant", tmp_path / "model" / "constant")
    code.mkdir()
    limits = {"LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "1", "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "2"}
    folder = tmp_path / "tmp"
    folder.mkdir()
    door = Door(tmp_path / "door")
    (code / "inference.py").write_text(f"def preprocess(request):\n    {door.code}  # heeds no deadline\n")
    with running(tmp_path / "model", folder, **limits) as stack, door:
        assert stack.invoke(red(255)).status_code == 504
        assert any("still in progress" in stack.log for _ in poll()), stack.log
        assert stack.stop() == 0, stack.log  # LIGHTBOX_DRAIN_SECONDS is longer
        assert "SIGKILL" not in stack.log
        assert "did not stop in time" not in stack.log
        assert "stopping with 1 requests that were answered" in stack.log
        assert nothing_is_left(stack)


def test_half_a_body_does_not_hold_a_stop_for_long(models: Path, tmp_path: Path) -> None:
    with (
        running(models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="constant") as stack,
        socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE) as connection,
    ):
        connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n12345")
        assert stack.ping() == 200  # nginx has read the bytes above
        assert stack.stop() == 0  # LIGHTBOX_DRAIN_SECONDS is longer
        assert "did not stop in time" not in stack.log


def test_a_killed_supervisor_takes_all_along_and_the_next_start_cleans_up(models: Path, tmp_path: Path) -> None:
    with running(models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="constant") as stack:
        stack.process.kill()
        stack.process.wait()
        assert nothing_is_left(stack)
        (left,) = tmp_path.glob("lightbox-*")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", stack.port))
    with running(models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="constant") as again:
        assert again.invoke(red(0)).status_code == 200
        assert not left.exists()
        assert again.stop() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["serve.log"]


def test_a_child_that_cannot_stay_up_ends_all_with_its_last_words(models: Path, tmp_path: Path) -> None:
    with running(models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="constant") as stack:
        (conf,) = tmp_path.glob("lightbox-*/nginx.conf")
        conf.write_text("no_such_directive;")
        stack.processes("nginx: master")[0].kill()
        assert stack.wait() == 1
        *_, first, last = [line for line in stack.log.splitlines() if " [lightbox] " in line][-3:]
        assert "nginx cannot stay up" in stack.log
        assert 'unknown directive "no_such_directive"' in first + last
        assert nothing_is_left(stack)


@pytest.fixture(scope="module")
def holding(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack whose model server also waits at the door on each start, in its warm-up."""
    folder = tmp_path_factory.mktemp("held")
    export_held_image(folder / "held", module_door)
    write_warm_up(folder / "held" / "1", held_call())
    with running(folder, tmp_path_factory.mktemp("holding"), SAGEMAKER_GUNICORN_WORKERS="2", **MANY_HELD) as stack:
        yield stack


HOLDS_ITS_REQUESTS = """
import os, pathlib, time
import numpy as np

HELD = pathlib.Path(__file__).parent / "held"

def preprocess(request):
    pixels = np.array([np.asarray(image) for image in request.images])
    mine = HELD / str(pixels[0, 0, 0, 0])
    mine.with_suffix(".partial").write_text(str(os.getpid()))
    mine.with_suffix(".partial").rename(mine)
    while mine.exists():
        time.sleep(0.02)
    return {"image": pixels}

def postprocess(outputs, request):
    return {"worker": os.getpid()}
"""


def test_a_worker_that_dies_takes_only_its_own_requests_along(tmp_path: Path) -> None:
    export_constant(tmp_path / "models" / "constant", 1, 0.5)
    held = tmp_path / "models" / "constant" / "code" / "held"
    held.mkdir(parents=True)
    (held.parent / "inference.py").write_text(HOLDS_ITS_REQUESTS)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "2", "SAGEMAKER_GUNICORN_THREADS": "16"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as stack, ThreadPoolExecutor(16) as pool:
        stack.wait_until(lambda: len(stack.processes("gunicorn")) == 3)  # one of two workers is enough for /ping
        gunicorns = {process.pid: process for process in stack.processes("gunicorn")}
        victim, other = (process for process in gunicorns.values() if process.ppid() in gunicorns)
        answers: list[Future[requests.Response]] = []
        workers: list[int] = []
        while not all(workers.count(worker.pid) >= 4 for worker in (victim, other)):
            full = max(victim, other, key=lambda worker: workers.count(worker.pid))
            full.suspend()  # the other takes new requests, unless another process resumes this one
            mine = held / str(len(answers))
            answers.append(pool.submit(stack.invoke, red(len(answers))))
            assert any(mine.exists() for _ in poll()), stack.log
            full.resume()
            workers.append(int(mine.read_text()))
        victim.kill()
        for file in held.iterdir():
            file.unlink()
        for worker, answer in zip(workers, (answer.result() for answer in answers), strict=True):
            if worker == other.pid:
                assert (answer.status_code, answer.json()) == (200, {"worker": other.pid})
            else:
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
                assert answer.json()["code"] == "worker_lost"
        assert stack.ping() == 200


@pytest.mark.parametrize(("wire", "number"), [("grpc", signal.SIGKILL), ("rest", signal.SIGABRT)])
def test_requests_in_flight_when_the_model_server_dies(
    holding: Stack, door: Door, wire: str, number: signal.Signals
) -> None:
    with ThreadPoolExecutor(4) as pool:
        header = {"X_Amzn_SageMaker_Custom_Attributes": f"tfs-transport={wire}"}
        answers = [pool.submit(holding.invoke, red(100), **header) for _ in range(4)]
        door.wait_for(4)
        holding.lose("-m lightbox.model_runtime.server", number)
        door.wait_for(5)  # the next model server's warm-up
        assert holding.ping() == 503
        for answer in answers:
            assert (answer.result().status_code, answer.result().headers["Retry-After"]) == (503, "1")
            assert answer.result().json()["code"] == "unavailable"
        door.open()
        holding.wait_for_ping(200)
        assert holding.invoke(red(0), **header).status_code == 200


def test_a_user_who_may_not_run_python_gets_an_error(tmp_path: Path) -> None:
    shutil.copy(SERVE, tmp_path / "serve.sh")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to("/nowhere/python")
    done = commands.run([tmp_path / "serve.sh", "serve"], env=own_environ())
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"{tmp_path}/.venv/bin/python cannot be run by the user" in line


def test_a_python_without_the_packages_says_what_to_do(tmp_path: Path) -> None:
    shutil.copy(SERVE, tmp_path / "serve.sh")
    (tmp_path / "container").symlink_to(SERVE.parent / "container")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], timeout=PATIENCE, check=True)
    environ = own_environ() | {"PATH": f"{tmp_path}/bare/bin:/usr/bin:/bin"}
    done = commands.run([tmp_path / "serve.sh", "check"], env=environ)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "has no module" in line
    assert "make setup" in line
