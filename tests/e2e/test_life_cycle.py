"""Start, readiness, deadlines, crashes and stops of the whole stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from support.error_shape import assert_error
from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image
from support.models import copy_golden, export_constant, export_failing_image, export_without_variables
from support.patience import PATIENCE, poll
from support.stack import Stack, lives, running

WIRES = ["grpc", "rest"]


def red(value: int) -> bytes:
    return png(np.full((8, 8, 3), (value, 0, 0)))


def attributes(wire: str, model: str) -> str:
    return f"tfs-transport={wire}, tfs-model-name={model}"


@pytest.fixture(scope="module")
def odd_models(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd_models")
    export_held_image(folder / "held", module_door)
    export_failing_image(folder / "failing")
    return folder


@pytest.fixture(scope="module")
def impatient(odd_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    tmp = tmp_path_factory.mktemp("impatient")
    with running(odd_models, tmp, LIGHTBOX_REQUEST_TIMEOUT_SECONDS="1.5", **MANY_HELD) as stack:
        yield stack


@pytest.mark.extended
@pytest.mark.parametrize("wire", WIRES)
def test_a_late_answer_is_a_504_and_the_worker_survives(impatient: Stack, door: Door, wire: str) -> None:
    workers, held = {process.pid for process in impatient.processes("gunicorn")}, attributes(wire, "held")
    for path in ("/invocations", "/endpoints/any/invocations"):
        answer = impatient.invoke(red(255), path, X_Amzn_SageMaker_Custom_Attributes=held, X_Request_Id="late")
        assert_error(answer.status_code, answer.headers, answer.content, path, "deadline_exceeded", "late")
    for _ in poll():  # a busy machine may miss this deadline as well
        if (answer := impatient.invoke(red(0), X_Amzn_SageMaker_Custom_Attributes=held)).status_code != 504:
            break
    assert answer.status_code == 200
    assert {process.pid for process in impatient.processes("gunicorn")} == workers


@pytest.mark.extended
def test_a_model_that_cannot_answer_is_not_ready(tmp_path: Path) -> None:
    export_without_variables(tmp_path / "empty")
    not_ready = "not ready: the model 'empty' does not answer: version 1 of the model 'empty' failed: Could not find "
    with Stack(tmp_path / "empty", tmp_path) as stack:
        stack.wait_until(lambda: not_ready in stack.log)
        answer = requests.get(f"{stack.url}/ping", timeout=PATIENCE)
        assert answer.status_code == 503
        assert not_ready in answer.json()["error"]
        assert stack.invoke(b'{"instances": [1.0]}', Content_Type="application/json").status_code == 502
        assert stack.ping() == 503
        assert "ready after" not in stack.log


@pytest.mark.extended
@pytest.mark.parametrize("wire", WIRES)
def test_a_model_that_fails_is_a_502_with_the_servers_words(often_killed: Stack, wire: str) -> None:
    answer = often_killed.invoke(red(9), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "failing"))
    assert (answer.status_code, answer.json()["code"]) == (502, "model_failed")
    assert "assert" in answer.json()["error"].lower()
    assert often_killed.invoke(red(0), X_Amzn_SageMaker_Custom_Attributes=attributes(wire, "failing")).ok


WAITS_WITHOUT_A_MODEL = """
import numpy as np

def preprocess(request):
    pixels = np.array([np.asarray(image) for image in request.images])
    if pixels[0, 0, 0, 0] == 1:
        {first}
    elif pixels[0, 0, 0, 0] == 2:
        {others}
    return {{"image": pixels}}
"""


# Over gRPC and REST: tests/unit/lightbox/transports/test_grpc_local_and_rest_retries.py.
@pytest.mark.extended
def test_the_model_server_dies_and_comes_back(tmp_path: Path) -> None:
    models, first, others = tmp_path / "models", Door(tmp_path / "first"), Door(tmp_path / "others")
    export_constant(models / "net", 1, 1.0)
    (models / "net" / "code").mkdir()
    code = WAITS_WITHOUT_A_MODEL.format(first=first.code, others=others.code)
    (models / "net" / "code" / "inference.py").write_text(code)
    settings = {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "1", "LIGHTBOX_MAX_WAITING": "32"}
    with (
        running(models, tmp_path / "run", **settings) as stack,
        ThreadPoolExecutor(24) as callers,
        first,
        others,
    ):
        assert stack.invoke(red(0)).status_code == 200
        (models / "net").rename(models / "away")  # the next server waits for its model, its ports closed
        (server,) = stack.processes("-m lightbox.model_runtime.server")
        server.kill()
        stack.wait_for_ping(503)
        refused = stack.invoke(red(0))
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        assert "Traceback" not in stack.log
        ping = requests.get(f"{stack.url}/ping", headers={"X-Amzn-RequestId": "asked-1"}, timeout=PATIENCE)
        assert_error(ping.status_code, ping.headers, ping.content, "/ping", "starting", "asked-1")
        (models / "away").rename(models / "net")
        stack.wait_for_ping(200)
        # The first is answered. The others still wait, and a probe too: /ping must not wait for it.
        calls = [callers.submit(stack.invoke, red(1))]
        first.wait_for()
        calls += [callers.submit(stack.invoke, red(2)) for _ in range(23)]
        stack.wait_until(lambda: stack.present() == 24)
        stack.lose("-m lightbox.model_runtime.server")
        stack.wait_until(lambda: stack.present() == 25)  # with a probe
        assert stack.ping() == 503
        first.open()
        assert calls[0].result().status_code == 200, calls[0].result().text
        stack.wait_for_ping(200)
        assert not any(call.done() for call in calls[1:])
        others.open()
        assert Counter(call.result().status_code for call in calls) == {200: 24}
        answers = [stack.invoke(red(0)) for _ in range(10)]
        assert {answer.status_code for answer in answers} == {200}, answers[0].text
        assert {answer.headers["Server-Timing"].rpartition(", ")[2] for answer in answers} == {'wire;desc="local"'}


@pytest.fixture(scope="module")
def often_killed(odd_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack whose processes tests kill, each less often than the limit. It stops normally."""
    tmp = tmp_path_factory.mktemp("often_killed")
    with running(odd_models, tmp, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="failing") as stack:
        yield stack
        assert stack.stop() == 0
        assert stack.ping() is None
        # Orphans get SIGKILL last, and may take a moment to exit.
        own = ([p for p in psutil.process_iter(["environ"]) if str(tmp) in str(p.info["environ"])] for _ in poll())
        assert any(not left for left in own)


@pytest.mark.extended
@pytest.mark.parametrize("part", ["nginx: master", "-m gunicorn"])
def test_while_nginx_or_gunicorn_is_started_again_requests_wait(often_killed: Stack, part: str) -> None:
    for _ in range(3):
        # A worker has the master's command line until it sets its own.
        master = min(often_killed.processes(part), key=psutil.Process.create_time)
        master.kill()
        assert [often_killed.invoke(red(0)).status_code for _ in range(5)] == [200] * 5, often_killed.log
        for _ in poll():
            if (again := often_killed.processes(part)) and master not in again and often_killed.ping() == 200:
                break


def test_a_stop_lets_accepted_requests_finish(odd_models: Path, door: Door, tmp_path: Path) -> None:
    with running(odd_models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="held") as stack, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stack.invoke, red(50))
        door.wait_for()
        children = psutil.Process(stack.process.pid).children(recursive=True)
        stack.begin_stop()
        assert not answer.done()
        door.open()
        assert stack.wait() == 0
        assert answer.result().status_code == 200, answer.result().text
        assert any(not any(map(lives, children)) for _ in poll())
        assert [path.name for path in tmp_path.iterdir()] == ["serve.log"]


@pytest.mark.extended
def test_a_second_signal_does_not_wait(odd_models: Path, door: Door, tmp_path: Path) -> None:
    with running(odd_models, tmp_path, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="held") as stack, ThreadPoolExecutor(1) as pool:
        cut = pool.submit(stack.invoke, red(255))
        door.wait_for()
        stack.begin_stop()
        stack.stop()
        with pytest.raises(requests.RequestException):
            cut.result()


@pytest.mark.extended
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


# Other layouts give the model server the same folders: tests/unit/lightbox/model_files/test_layout.py.
@pytest.mark.extended
def test_a_model_as_sagemaker_lays_it_out(tmp_path: Path) -> None:
    export_constant(tmp_path / "model" / "export" / "Servo", 7, 5.0)
    with running(tmp_path / "model", tmp_path / "run") as stack:
        assert stack.invoke(red(0)).json() == {"predictions": [5.0]}
