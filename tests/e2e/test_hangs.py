"""Processes that stop answering are replaced, and busy ones are left alone. SIGSTOP stands for a deadlock."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import requests
from websockets.exceptions import InvalidStatus

from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image, held_call
from support.models import write_warm_up
from support.patience import PATIENCE, poll
from support.stack import Stack, free_port, running
from support.streams import frame, opened, received
from support.tfs_calls import GRPC_PORT, WAYS, Reply, by_grpc, pixels

pytestmark = pytest.mark.extended

SERVER = "-m lightbox.model_runtime.server"
KILLED = "it is killed and started again (LIGHTBOX_HANG_SECONDS)"
KNOWN = "does not answer: requests get 503 until it does"
OF_BUSY = {"LIGHTBOX_HANG_SECONDS": "5"}
"""Much less than the time for which a process is busy."""
ALL = {"LIGHTBOX_STREAMS": "true", "LIGHTBOX_TFS_API": "true"}


@pytest.fixture(scope="module")
def models(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    export_held_image(folder / "held", module_door)
    return folder


@pytest.fixture(scope="module")
def stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"LIGHTBOX_HANG_SECONDS": "4", GRPC_PORT: str(free_port()), **ALL}
    with running(models, tmp_path_factory.mktemp("stack"), **environ) as stack:
        yield stack


def by_invocations(path: str, transport: str) -> Callable[[Stack, int], Reply]:
    def call(stack: Stack, red: int) -> Reply:
        named = f"tfs-model-name=held,tfs-transport={transport}"
        answer = stack.invoke(png(pixels(red)), path, X_Amzn_SageMaker_Custom_Attributes=named)
        status = answer.json()["OriginalStatusCode"] if answer.status_code == 424 else answer.status_code
        return Reply(status, answer.headers.get("Retry-After"), answer.text)

    return call


def by_kserve(stack: Stack, red: int) -> Reply:
    image = {"name": "image", "shape": [1, 8, 8, 3], "datatype": "UINT8", "data": pixels(red).ravel().tolist()}
    answer = requests.post(f"{stack.url}/v2/models/held/infer", json={"inputs": [image]}, timeout=PATIENCE)
    return Reply(answer.status_code, answer.headers.get("Retry-After"), answer.text)


ROUTES = {
    **WAYS,
    **{transport: by_invocations("/invocations", transport) for transport in ("local", "grpc", "rest")},
    "endpoint": by_invocations("/endpoints/any/invocations", "local"),
    "kserve": by_kserve,
}


def served_again(stack: Stack) -> bool:
    return all(call(stack, 0).served for call in ROUTES.values())


def streams_again(stack: Stack) -> bool:
    try:
        with opened(stack) as stream:
            stream.send(frame(0))
            return bool(received(stream)["status"] == 200)
    except InvalidStatus as refused:
        assert refused.response.status_code == 503
        return False


@pytest.fixture(scope="module")
def patient(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"LIGHTBOX_HANG_SECONDS": "60", GRPC_PORT: str(free_port()), **ALL}
    with running(models, tmp_path_factory.mktemp("patient"), **environ) as stack:
        yield stack


def test_requests_are_refused_at_once_while_the_model_server_does_not_answer(patient: Stack) -> None:
    assert served_again(patient)
    (server,) = patient.processes(SERVER)
    server.suspend()
    patient.lines_with(KNOWN)
    refused = {name: call(patient, 0) for name, call in ROUTES.items()}
    assert all(reply.again for reply in refused.values()), refused
    assert patient.ping() == 503
    assert KILLED not in patient.log  # so no reply had to wait for that
    server.resume()
    patient.wait_for_ping(200)
    assert any(served_again(patient) for _ in poll())
    assert patient.processes(SERVER) == [server]


def test_calls_are_refused_at_once_while_a_front_does_not_answer(patient: Stack) -> None:
    fronts = [process for name in ("grpc_front", "streams") for process in patient.processes(PROCESSES[name])]
    known = patient.log.count(KNOWN)
    for front in fronts:
        front.suspend()
    patient.lines_with(KNOWN, known + len(fronts))
    reply = by_grpc(patient, 0)
    assert reply.again, reply
    with pytest.raises(InvalidStatus) as refused, opened(patient):
        pass
    assert refused.value.response.status_code == 503
    assert int(refused.value.response.headers["Retry-After"]) >= 1
    assert by_kserve(patient, 0).served
    assert KILLED not in patient.log
    for front in fronts:
        front.resume()
    patient.wait_for_ping(200)
    assert any(by_grpc(patient, 0).served for _ in poll())
    with opened(patient) as stream:
        stream.send(frame(0))
        assert received(stream)["status"] == 200


PROCESSES = {
    "model_server": SERVER,
    "grpc_front": "open_inference.grpc.front",
    "streams": "features.streams.process",
    "nginx": "nginx: master",
    "nginx_worker": "nginx: worker",
    "gunicorn": "-m gunicorn",
    "gunicorn_worker": "-m gunicorn",
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_that_hangs_is_replaced(stack: Stack, name: str) -> None:
    found = stack.processes(PROCESSES[name])
    masters = [process for process in found if process.parent() not in found]
    hung = found[-1] if name == "gunicorn_worker" else masters[0]
    hung.suspend()
    said = f"{name} (process {hung.pid}) has not answered for "
    stack.wait_until(lambda: said in stack.log)
    psutil.wait_procs([hung], PATIENCE)
    assert not hung.is_running()
    stack.wait_for_ping(200)
    assert any(served_again(stack) and streams_again(stack) for _ in poll())
    page = requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text
    assert f'lightbox_hangs_total{{process="{name}"}} 1.0' in page


def test_requests_in_a_worker_that_hangs_get_503(stack: Stack, door: Door) -> None:
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(by_kserve, stack, 1)
        door.wait_for()
        workers = [process for process in stack.processes("-m gunicorn") if process.children() == []]
        for worker in workers:
            worker.suspend()
        reply = held.result()
        assert reply.again, reply
        door.open()
    stack.wait_for_ping(200)


@pytest.fixture(scope="module")
def busy_stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "8", **OF_BUSY, **MANY_HELD}
    with running(models, tmp_path_factory.mktemp("busy"), **environ) as stack:
        yield stack


def test_a_server_whose_every_thread_is_in_a_call_for_a_minute_is_left_alone(busy_stack: Stack, door: Door) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(by_kserve, busy_stack, 1) for _ in range(8)]
        door.wait_for(8)
        assert {busy_stack.ping() for _ in poll(60, 1)} == {200}
        door.open()
        assert all(call.result().served for call in calls)
    assert KILLED not in busy_stack.log


def test_processes_are_left_alone_while_others_take_all_cores(busy_stack: Stack) -> None:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8 * (os.cpu_count() or 1))]
    try:
        for _ in poll(8):
            by_kserve(busy_stack, 0)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    busy_stack.wait_for_ping(200)
    assert by_kserve(busy_stack, 0).served
    assert KILLED not in busy_stack.log


def test_a_server_that_loads_for_a_minute_is_left_alone(models: Path, door: Door, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "held"
    shutil.copytree(models / "held", folder)
    write_warm_up(folder / "1", held_call())
    with Stack(folder.parent, tmp_path / "run", {"LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "30"}) as stack:
        door.wait_for()
        for _ in poll(60, 1):
            assert stack.ping() == 503
        door.open()
        stack.wait_ready()
        assert KILLED not in stack.log
