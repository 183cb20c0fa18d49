"""Start, readiness, deadlines, deaths and stops of the whole stack."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from e2e.test_open_ports import listening, said
from support.error_shape import assert_error
from support.fakes import png
from support.models import copy_golden, export_constant, export_failing_image, export_slow_image
from support.patience import PATIENCE, poll
from support.stack import Stack, running

WIRES = ["grpc", "rest"]


def red(value: int) -> bytes:
    return png(np.full((8, 8, 3), (value, 0, 0)))


def attributes(wire: str, model: str) -> str:
    return f"tfs-transport={wire}, tfs-model-name={model}"


@pytest.fixture(scope="module")
def odd_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd_models")
    export_slow_image(folder / "slow")
    export_failing_image(folder / "failing")
    return folder


@pytest.fixture(scope="module")
def impatient(odd_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    tmp = tmp_path_factory.mktemp("impatient")
    with running(odd_models, tmp, LIGHTBOX_REQUEST_TIMEOUT_SECONDS="1.5") as stack:
        yield stack


@pytest.mark.parametrize("wire", WIRES)
def test_a_late_answer_is_a_504_and_the_worker_survives(impatient: Stack, wire: str) -> None:
    workers = {process.pid for process in impatient.processes("gunicorn")}
    answer = impatient.invoke(red(255), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "slow"))
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    assert impatient.invoke(red(0), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "slow")).status_code == 200
    assert {process.pid for process in impatient.processes("gunicorn")} == workers


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_that_fails_is_a_502_with_the_servers_words(impatient: Stack, wire: str) -> None:
    answer = impatient.invoke(red(9), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "failing"))
    assert (answer.status_code, answer.json()["code"]) == (502, "model_failed")
    assert "assert" in answer.json()["error"].lower()
    assert impatient.invoke(red(0), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "failing")).status_code == 200


def test_ping_answers_while_every_thread_is_busy(impatient: Stack) -> None:
    in_progress, enough = re.compile(r"^lightbox_requests_in_progress (\d+)", re.MULTILINE), threading.Event()

    def keep_asking(client: int) -> set[str]:
        codes = set()
        path = "/endpoints/any/invocations" if client % 2 else "/invocations"
        headers = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=slow", "X-Request-Id": f"client-{client}"}
        while not enough.is_set():
            asked = requests.post(impatient.url + path, red(255), headers=headers, timeout=PATIENCE)
            code = "deadline_exceeded" if "504" in asked.text[:60] or asked.status_code == 504 else "unavailable"
            assert_error(asked.status_code, asked.headers, asked.content, path, code, f"client-{client}")
            codes.add(code)
        return codes

    with ThreadPoolExecutor(40) as pool:
        busy = pool.map(keep_asking, range(40))
        try:
            metrics = (requests.get(f"{impatient.url}/metrics", timeout=PATIENCE).text for _ in poll())
            assert any((found := in_progress.search(page)) and int(found[1]) >= 16 for page in metrics)
            assert [impatient.ping() for _ in range(5)] == [200] * 5
        finally:
            enough.set()
        assert set().union(*busy) <= {"unavailable", "deadline_exceeded"}


def answered(stack: Stack, image: bytes) -> None:
    """Ask until the answer is 200."""
    assert any(stack.invoke(image).status_code == 200 for _ in poll(pause=0.25)), stack.log


@pytest.mark.parametrize(("wire", "local"), [("grpc", "true"), ("grpc", "false"), ("rest", "true")])
def test_the_model_server_dies_and_comes_back(tmp_path_factory: pytest.TempPathFactory, wire: str, local: str) -> None:
    folder = tmp_path_factory.mktemp("dies")  # short: there is no socket where its path would be too long
    models = folder / "models"
    export_slow_image(models / "net")
    with running(models, folder / "run", LIGHTBOX_TRANSPORT=wire, LIGHTBOX_LOCAL_WIRE=local) as stack:
        assert stack.invoke(red(0)).status_code == 200
        (models / "net").rename(models / "away")  # the next one waits for its model, its ports closed
        (server,) = stack.processes("-m model_server")
        server.kill()
        stack.wait_for_ping(503)
        refused = stack.invoke(red(0))
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        ping = requests.get(f"{stack.url}/ping", headers={"X-Amzn-RequestId": "asked-1"}, timeout=PATIENCE)
        assert_error(ping.status_code, ping.headers, ping.content, "/ping", "unavailable", "asked-1")
        (models / "away").rename(models / "net")
        with ThreadPoolExecutor(24) as callers:
            # The first is answered, others wait still: so does a probe, and /ping must not wait for that.
            for caller in as_completed([callers.submit(answered, stack, red(3)) for _ in range(24)]):
                caller.result()
                stack.wait_for_ping(200, 5)
        answers = [stack.invoke(red(0)) for _ in range(10)]
        assert {answer.status_code for answer in answers} == {200}, answers[0].text
        carrier = "local" if (wire, local) == ("grpc", "true") else wire
        assert {answer.headers["Server-Timing"].rpartition(", ")[2] for answer in answers} == {f'wire;desc="{carrier}"'}


@pytest.fixture(scope="module")
def often_killed(odd_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose processes tests kill, each fewer times than it takes to give up; it stops as any other does."""
    tmp = tmp_path_factory.mktemp("often_killed")
    with running(odd_models, tmp, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="failing") as stack:
        yield stack
        assert stack.stop() == 0
        assert stack.ping() is None
        assert not [p for p in psutil.process_iter(["environ"]) if str(tmp) in str(p.info["environ"])]


@pytest.mark.parametrize("part", ["nginx: master", "-m gunicorn"])
def test_nginx_or_gunicorn_killed_comes_back(often_killed: Stack, part: str) -> None:
    before = often_killed.processes(part)
    min(before, key=psutil.Process.create_time).kill()
    for _ in poll():
        # Workers of the dead master answer for a while, and have its command line until they give themselves one.
        again = [process for process in often_killed.processes(part) if process not in before]
        if again and often_killed.ping() == 200 and requests.post(f"{often_killed.url}/invocations", red(0)).ok:
            break
    else:
        pytest.fail(often_killed.log)


def test_while_nginx_is_started_again_connections_wait(often_killed: Stack) -> None:
    for _ in range(3):
        (master,) = often_killed.processes("nginx: master")
        master.kill()
        assert [often_killed.invoke(red(0)).status_code for _ in range(5)] == [200] * 5, often_killed.log
        for _ in poll():
            # A worker has the master's command line until it gives itself one.
            if [process.pid == master.pid for process in often_killed.processes("nginx: master")] == [False]:
                break


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_accepted_requests_finish(odd_models: Path, tmp_path: Path, number: signal.Signals) -> None:
    with running(odd_models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="slow") as stack, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stack.invoke, red(50))
        stack.wait_until_computing()
        children = psutil.Process(stack.process.pid).children(recursive=True)
        assert not answer.done()
        assert stack.stop(number) == 0
        assert answer.result().status_code == 200, answer.result().text
        assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
        assert [path.name for path in tmp_path.iterdir()] == ["serve.log"]


def test_a_stop_during_start_up(sample_models: Path, tmp_path: Path) -> None:
    with Stack(sample_models, tmp_path) as stack:
        for _ in poll():
            if "Starting gunicorn" in stack.log:
                break
        assert stack.stop(seconds=40) == 0
        assert "did not stop in time" not in stack.log
        assert [path.name for path in tmp_path.iterdir()] == ["serve.log"]


def test_a_second_signal_does_not_wait(odd_models: Path, tmp_path: Path) -> None:
    with running(odd_models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="slow") as stack, ThreadPoolExecutor(1) as pool:
        cut = pool.submit(stack.invoke, red(255))
        stack.wait_until_computing()
        stack.process.send_signal(signal.SIGTERM)
        for _ in poll():
            if "stopping" in stack.log:
                break
        stack.stop(seconds=15)
        with pytest.raises(requests.RequestException):
            cut.result()


def test_two_run_side_by_side(impatient: Stack, odd_models: Path, tmp_path: Path) -> None:
    with running(odd_models, tmp_path) as other:
        assert impatient.port != other.port
        assert impatient.invoke(red(0)).status_code == other.invoke(red(0)).status_code == 200
    assert impatient.invoke(red(0)).status_code == 200


def test_it_runs_from_any_folder(tmp_path: Path) -> None:
    folder = tmp_path / 'a "$folder" für alles'
    (folder / "tmp").mkdir(parents=True)
    for name in ("json.py", "numpy.py", "lightbox.py"):
        (folder / name).write_text("raise SystemExit('the wrong module')")
    copy_golden("half_plus_two", folder / "models" / "half_plus_two")
    with running(Path("models"), folder, TMPDIR="tmp") as stack:
        assert stack.invoke(b"[2.0]").json() == {"predictions": [4.0]}
        assert stack.stop() == 0
    assert not list((folder / "tmp").iterdir())


def test_only_loopback_and_the_one_port_listen(impatient: Stack) -> None:
    grpc, rest = impatient.ports[1:]
    assert listening(impatient) == {(False, impatient.port), (True, grpc), (True, rest)}
    assert "on loopback: REST of the model server; LIGHTBOX_TRANSPORT is not set" in said(impatient)
    answers = [
        impatient.invoke(red(0), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "failing")) for wire in WIRES
    ]
    assert [answer.json() for answer in answers] == [{"predictions": [[0.0, 0.0, 0.0]]}] * 2


def test_a_new_version_is_served_without_a_restart(tmp_path: Path) -> None:
    models = tmp_path / "models"
    export_constant(models / "net", 1, 1.0)
    with running(models, tmp_path / "run") as stack:
        assert stack.invoke(red(0)).json() == {"predictions": [1.0]}
        export_constant(models / "net", 2, 2.0, side=4)
        for _ in poll():
            answer = stack.invoke(red(0))
            assert answer.status_code == 200, answer.text
            if answer.json() == {"predictions": [2.0]}:
                break
        else:
            pytest.fail(stack.log)
        old = stack.invoke(red(0), X_Amzn_SageMaker_Custom_Attributes="tfs-model-version=1")
        assert old.json() == {"predictions": [1.0]}


# The model server gets the same folders for other layouts: tests/unit/lightbox/processes/test_startup.py.
@pytest.mark.parametrize("layout", ["export/Servo/7", "."])
def test_models_as_sagemaker_lays_them_out(tmp_path: Path, layout: str) -> None:
    export_constant(tmp_path / "made", 1, 5.0)
    target = tmp_path / "model" / layout
    target.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "made" / "1").rename(target)
    with running(tmp_path / "model", tmp_path / "run") as stack:
        assert stack.invoke(red(0)).json() == {"predictions": [5.0]}
