"""The user's inference.py through the whole stack: its environment, its requirements, failures that stop a start."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from lightbox.tools.model_zoo import digits
from support.fakes import png
from support.models import GOLDEN
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, running
from support.wheels import write_wheel

BODY = b'{"instances": [2.0, 4.0]}'


def model_dir(root: Path, source: str, place: str = "code/inference.py") -> Path:
    """Lay out the model half_plus_two with a user's code."""
    shutil.copytree(GOLDEN / "half_plus_two", root / "half_plus_two", dirs_exist_ok=True)
    file = root / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(source))
    return root


EVERYTHING = (
    f"SECONDS = {PATIENCE}"
    + """
import json
import logging
import os
import sys

import grpc
import requests
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from tensorflow.core.framework import tensor_pb2

assert "tensorflow" not in sys.modules, "the messages come without TensorFlow"

import in_lib
import in_requirements
import in_both
import lightbox


def ask(channel, tensor, name):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.inputs["x"].CopyFrom(tensor)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return list(stub.Predict(request, SECONDS).outputs["y"].float_val)


def handler(data, context):
    body = data.read()
    command = context.custom_attributes
    if command == "exit":
        sys.exit(3)
    if command == "log":
        logging.info("logged by %s", "the handler")
        print("printed by the handler")
    if command == "refuse":
        raise lightbox.BadRequest("not today", status=422)
    if command == "fail":
        raise TypeError("odd " * 5000)
    if command == "tensorflow":
        import tensorflow as tf
        answer = ask(context.channel, tf.make_tensor_proto([3.0], shape=[1]), context.model_name)
        return json.dumps(answer), "application/json"
    three = tensor_pb2.TensorProto(dtype=1, tensor_shape={"dim": [{"size": 1}]}, float_val=[3])
    with grpc.insecure_channel("localhost:" + context.grpc_port) as own:
        answer = {
            "rest": requests.post(context.rest_uri, data=body, timeout=SECONDS).json()["predictions"],
            "shared": ask(context.channel, three, context.model_name),
            "own": ask(own, three, context.model_name),
            "from": [in_lib.AT, in_requirements.AT, in_both.AT],
            "type": context.request_content_type,
            "worker": os.getpid(),
        }
    return json.dumps(answer), "application/json"
"""
)


@pytest.fixture(scope="module")
def handled(tmp_path_factory: pytest.TempPathFactory, closed_port: int) -> Iterator[Stack]:
    """Run a handler that uses every documented feature, with lib/ and requirements.txt, and a proxy that is closed."""
    tmp = tmp_path_factory.mktemp("handled")
    root = model_dir(tmp / "models", EVERYTHING)
    wheels = root / "code" / "wheels"
    write_wheel(wheels, "needed", {"in_requirements": "AT = 'requirements'"}, requires=("numpy",))
    write_wheel(wheels, "doubled", {"in_both": "AT = 'requirements'"})
    (root / "code" / "requirements.txt").write_text("--no-index\n--find-links wheels\nneeded\n./wheels/" + DOUBLED)
    (root / "code" / "lib").mkdir()
    (root / "code" / "lib" / "in_lib.py").write_text("AT = 'lib'")
    (root / "code" / "lib" / "in_both.py").write_text("AT = 'lib'")
    environ = {"http_proxy": f"http://127.0.0.1:{closed_port}", "SAGEMAKER_GUNICORN_WORKERS": "2"}
    with running(root, tmp, **environ, SAGEMAKER_GUNICORN_LOGLEVEL="debug") as stack:
        yield stack


DOUBLED = "doubled-1.0-py3-none-any.whl\n"


def test_a_handler_reaches_all_that_it_is_promised_in_every_worker(handled: Stack) -> None:
    assert any(handled.log.count("[gunicorn] DEBUG:lightbox:loaded") == 2 for _ in poll())
    workers = set()
    for _ in poll():
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: handled.invoke(BODY, Accept="application/odd"), range(32)))
        for answer in answers:
            assert answer.status_code == 200, answer.text
            found = answer.json()
            workers.add(found.pop("worker"))
            assert found == {
                "rest": [4.0, 5.0],
                "shared": [4.5],
                "own": [4.5],
                "from": ["lib", "requirements", "lib"],
                "type": "application/json",
            }
        if len(workers) == 2:
            break
    else:
        raise AssertionError("only one worker has answered")
    line, *_ = handled.lines_with(" status=200 ")
    assert "model=half_plus_two status=" in line, "the handler has asked by itself: no transport of ours took part"


@pytest.mark.extended
def test_a_handler_may_import_tensorflow(handled: Stack) -> None:
    answer = handled.invoke(BODY, X_Amzn_SageMaker_Custom_Attributes="tensorflow")
    assert answer.json() == [4.5], answer.text


def test_what_a_handler_raises_ends_no_worker(handled: Stack) -> None:
    before = {process.pid for process in handled.processes("gunicorn")}
    for command, status, said in (
        ("exit", 500, "handler failed: SystemExit: 3"),
        ("refuse", 422, "not today"),
        ("fail", 500, "handler failed: TypeError: odd"),
    ):
        for _ in range(4):
            answer = handled.invoke(BODY, X_Amzn_SageMaker_Custom_Attributes=command)
            assert answer.status_code == status
            assert said in answer.json()["error"]
            assert len(answer.content) < 2000
    assert {process.pid for process in handled.processes("gunicorn")} == before
    client = handled.boto3()
    with pytest.raises(client.exceptions.ModelError) as caught:
        client.invoke_endpoint(EndpointName="any", Body=BODY, CustomAttributes="refuse")
    assert caught.value.response["OriginalStatusCode"] == 422


def test_the_log_shows_what_was_installed_and_loaded(handled: Stack) -> None:
    code = Path(handled.environ["LIGHTBOX_MODEL_DIR"]) / "code"
    assert f"[lightbox] installed {code}/requirements.txt" in handled.log
    assert "[requirements] Successfully installed doubled-1.0 needed-1.0" in handled.log
    assert "Requirement already satisfied: numpy" in handled.log
    assert f"[inference] loaded {code}/inference.py: handler" in handled.log


def test_what_a_handler_logs_and_prints_is_in_the_log(handled: Stack) -> None:
    assert handled.invoke(BODY, X_Amzn_SageMaker_Custom_Attributes="log").status_code == 200
    for said in ("logged by the handler", "printed by the handler"):
        assert any(said in handled.log for _ in poll()), handled.log


@pytest.mark.extended
def test_the_example_names_the_digits(sample_models: Path, tmp_path: Path) -> None:
    root = tmp_path / "models"
    shutil.copytree(sample_models / "digits", root / "digits")
    shutil.copytree(REPOSITORY / "code", root / "code", ignore=shutil.ignore_patterns("__pycache__"))
    options = root / "digits" / "code" / "lightbox.json"
    own = json.loads(options.read_text()) if options.exists() else {}
    options.parent.mkdir(exist_ok=True)
    options.write_text(json.dumps(own | {"labels": "labels/digits.txt", "top_k": 3}))
    data = digits.split()
    with running(root, tmp_path) as stack:
        for pixels, label in zip(data.held_out_images[:20], data.held_out_labels, strict=False):
            (best,) = stack.invoke(png(pixels), Content_Type="image/png").json()["predictions"]
            assert len(best) == 3
            assert best[0]["score"] >= best[1]["score"] >= best[2]["score"]
            assert best[0]["label"] == str(best[0]["class"])
            assert str(label) in [entry["label"] for entry in best]


@pytest.mark.extended
def test_a_failing_import_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    root = model_dir(tmp_path / "models", "def load():\n    return 1 / 0\nload()\n")
    with Stack(root, tmp_path) as stack:
        assert stack.wait() == 1
        assert 'inference.py", line 2, in load' in stack.log
        sentence = f"{root}/code/inference.py cannot be imported: ZeroDivisionError: division by zero"
        assert sentence in "\n".join(stack.log.splitlines()[-4:]), "the sentence comes last"


@pytest.mark.extended
def test_a_stop_during_the_import_is_a_stop(tmp_path: Path) -> None:
    root = model_dir(tmp_path / "models", "print('importing', flush=True)\nimport threading; threading.Event().wait()")
    with Stack(root, tmp_path) as stack:
        assert any("[inference] importing" in stack.log for _ in poll())
        assert stack.stop() == 0
        assert not list(tmp_path.glob("lightbox-*")), "the run directory is removed"
