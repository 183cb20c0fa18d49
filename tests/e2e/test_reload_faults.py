"""Multi-model mode over a model server that blocks as the real one does: prevention and recovery."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import requests
from google.protobuf import text_format

from lightbox.features.multi_model.state import LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model_runtime.wire.messages import model_management_pb2
from lightbox.model_runtime.wire.stubs import model_service_pb2_grpc
from lightbox.supervisor.starting.model_server_config import model_config
from support.loading import invoke, load, unload
from support.models import export_constant
from support.patience import PATIENCE, poll
from support.real_binary import real_binary
from support.stack import Stack, running

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for name in ("kept", "other", "gone"):
        export_constant(root / name, 1, 1.0)
    return root


@pytest.fixture(scope="module")
def blocking_stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    # A load may take 60 s then. The test waits as long to detect a longer one.
    environ = {"SAGEMAKER_MULTI_MODEL": "true", "LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "30"}
    run = tmp_path_factory.mktemp("run")
    with running(root, run, **environ, **real_binary(tmp_path_factory.mktemp("program"))) as blocking_stack:
        yield blocking_stack


@pytest.fixture(autouse=True)
def two_loaded(blocking_stack: Stack, root: Path) -> Iterator[None]:
    """Load the models ``kept`` and ``gone``. Each test removes the second."""
    if not (root / "gone").exists():
        export_constant(root / "gone", 1, 1.0)
    for name in ("kept", "gone"):
        must_load(blocking_stack, name)
    yield
    for name in ("kept", "gone", "other"):
        unload(blocking_stack, name)


def must_load(blocking_stack: Stack, name: str) -> None:
    answers = []
    for _ in poll():
        answers.append(load(blocking_stack, name, name))
        if answers[-1].status_code == 200:
            return
    raise AssertionError([answer.text for answer in answers] + [blocking_stack.log])


def listed(blocking_stack: Stack) -> list[str]:
    models = requests.get(f"{blocking_stack.url}/models", timeout=PATIENCE).json()["models"]
    return [entry["modelName"] for entry in models]


def test_a_loaded_models_folder_is_removed(blocking_stack: Stack, root: Path) -> None:
    shutil.rmtree(root / "gone")
    assert invoke(blocking_stack, "gone").status_code == 200
    assert load(blocking_stack, "other", "other").status_code == 200
    assert (listed(blocking_stack), invoke(blocking_stack, "gone").status_code) == (["kept", "other"], 404)
    assert unload(blocking_stack, "other").status_code == 200
    assert invoke(blocking_stack, "kept").status_code == 200
    assert "the model 'gone' is unloaded: its folder was removed" in blocking_stack.log


def test_a_loaded_models_folder_is_removed_and_the_model_server_ends(blocking_stack: Stack, root: Path) -> None:
    shutil.rmtree(root / "gone")
    (server,) = blocking_stack.processes("tensorflow_model_server")
    server.kill()
    blocking_stack.wait_for_ping(503)
    blocking_stack.wait_for_ping(200)
    assert (listed(blocking_stack), invoke(blocking_stack, "kept").status_code) == (["kept"], 200)
    assert unload(blocking_stack, "gone").status_code == 200
    assert load(blocking_stack, "other", "other").status_code == 200


def test_a_model_server_that_takes_no_loads_is_started_again(blocking_stack: Stack, tmp_path: Path) -> None:
    block(blocking_stack, tmp_path / "missing")
    late = load(blocking_stack, "other", "other")
    assert (late.status_code, late.json()["code"]) == (408, "deadline_exceeded"), late.text
    must_load(blocking_stack, "other")
    assert listed(blocking_stack) == ["gone", "kept", "other"]
    assert {invoke(blocking_stack, name).status_code for name in listed(blocking_stack)} == {200}
    said = r"model server 0 has not done the \w+ of the model 'other' in \d+ s and accepts no other: it is restarted"
    assert len(re.findall(said, blocking_stack.log)) == 1
    page = requests.get(f"{blocking_stack.url}/metrics", timeout=PATIENCE).text
    assert 'lightbox_hangs_total{process="model_server"} 1.0' in page


def block(stack: Stack, missing: Path) -> None:
    """Send the model server a missing folder along with its current models, then cancel."""
    (run_dir,) = stack.tmp.glob("lightbox-*")
    request = model_management_pb2.ReloadConfigRequest()
    loaded = [entry.model for entry in LoadedModels(run_dir).all().values()]
    lost = PlannedModel(name="lost", base_path=missing, options=ModelOptions())
    text_format.Parse(model_config([*loaded, lost]), request.config)
    with grpc.insecure_channel(f"unix:{run_dir}/model_server_0.sock") as channel:
        reload = model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest.future(request)
        stack.wait_until(lambda: f"Could not find base path {missing} for servable lost" in stack.log)
        reload.cancel()
