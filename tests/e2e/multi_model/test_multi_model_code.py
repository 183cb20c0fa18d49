"""User code of models that are loaded and unloaded, through the whole stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
import psutil
import pytest
import requests
import tritonclient.grpc as triton

from lightbox.supervisor.starting.code_trial import IMPORT_SECONDS
from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image
from support.models import export_constant
from support.patience import PATIENCE, poll
from support.stack import Stack, free_port, running
from support.wheels import write_wheel

pytestmark = pytest.mark.extended

IMAGE = png(np.zeros((8, 8, 3)))
TRIAL = "lightbox.serving.code_trial"
Result = TypeVar("Result")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def code_stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(root, tmp_path_factory.mktemp("run"), SAGEMAKER_MULTI_MODEL="true") as code_stack:
        yield code_stack


def write_model(root: Path, name: str, source: str) -> Path:
    """Write a model with its own code. Return the code's folder."""
    export_constant(root / name, 1, 1.0)
    (root / name / "code").mkdir()
    (root / name / "code" / "inference.py").write_text(source)
    return root / name / "code"


def load(code_stack: Stack, name: str) -> requests.Response:
    return requests.post(f"{code_stack.url}/models", json={"model_name": name, "url": name}, timeout=PATIENCE)


def unload(code_stack: Stack, name: str) -> requests.Response:
    return requests.delete(f"{code_stack.url}/models/{name}", timeout=PATIENCE)


def answers(code_stack: Stack, name: str) -> set[str]:
    """Return the answers of all workers."""
    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(lambda _: code_stack.invoke(IMAGE, f"/models/{name}/invoke").text, range(32)))


def trial(code_stack: Stack) -> psutil.Process:
    """Return the process that tries the code."""
    for _ in poll():
        if found := code_stack.processes(TRIAL):
            return found[0]
    raise AssertionError("no code is tried in a process of its own")


def test_code_that_hangs_when_it_is_imported_holds_up_nobody(code_stack: Stack, root: Path) -> None:
    write_model(root, "hangs", "import time\ntime.sleep(600)\n")
    write_model(root, "fine", "def postprocess(outputs, request): return 'fine'\n")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(load, code_stack, "hangs")
        tried = trial(code_stack)
        assert load(code_stack, "fine").status_code == 200
        assert answers(code_stack, "fine") == {'"fine"'}
        assert unload(code_stack, "fine").status_code == 200
        with suppress(psutil.NoSuchProcess):
            tried.kill()
        refused = hanging.result()
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    ended = ("was ended by signal 9", f"did not end within {IMPORT_SECONDS:g} s")  # a slow machine times out first
    assert refused.json()["error"] in [f"url: hangs/code/inference.py: importing it {how}" for how in ended]
    assert requests.get(f"{code_stack.url}/models", timeout=PATIENCE).json() == {"models": []}


def test_changed_helpers_are_used_by_all_workers_after_unload_and_load(code_stack: Stack, root: Path) -> None:
    code = write_model(root, "helped", "import helper\ndef postprocess(outputs, request): return helper.WORD\n")
    for word in ("first", "the second one"):
        (code / "helper.py").write_text(f"WORD = {word!r}\n")
        assert load(code_stack, "helped").status_code == 200
        assert answers(code_stack, "helped") == {f'"{word}"'}
        assert unload(code_stack, "helped").status_code == 200


EVERYWHERE = """
import json, os, subprocess, sys
import in_lib, in_requirements

def handler(data, context):
    seen = subprocess.run([sys.executable, "-c", "import in_lib; print(in_lib.AT)"], capture_output=True, text=True)
    found = [os.environ[name] for name in ("TFS_DEFAULT_MODEL_NAME", "TFS_GRPC_PORTS", "TFS_REST_PORTS")]
    ports = [context.grpc_port, context.rest_uri.split(":")[2].split("/")[0]]
    return json.dumps([context.model_name, seen.stdout.strip(), in_requirements.AT, found[0], found[1:] == ports]), None
"""


def test_code_for_all_models_may_lie_in_sagemakers_folder(tmp_path: Path) -> None:
    name = "n" * 255
    code = tmp_path / "code"
    write_wheel(code, "needed", {"in_requirements": "AT = 'requirements'"})
    (code / "requirements.txt").write_text("./needed-1.0-py3-none-any.whl")
    (code / "lib").mkdir()
    (code / "lib" / "in_lib.py").write_text("AT = 'lib'")
    (code / "inference.py").write_text(EVERYWHERE)
    export_constant(tmp_path / "models" / name, 1, 1.0)
    write_model(tmp_path / "models", "own", "def handler(data, context): return 'own', None\n")
    (tmp_path / "models" / "code").mkdir()
    (tmp_path / "models" / "code" / "inference.py").write_text("def handler(data, context): return 'old', None\n")
    settings = {"SAGEMAKER_MULTI_MODEL": "true", "LIGHTBOX_CODE_DIR": str(code)}
    with running(tmp_path / "models", tmp_path / "run", **settings) as code_stack:
        assert load(code_stack, name).status_code == 200
        assert load(code_stack, "own").status_code == 200
        reply = code_stack.invoke(IMAGE, f"/models/{name}/invoke")
        assert reply.json() == [name, "lib", "requirements", "None", True], reply.text
        assert code_stack.invoke(IMAGE, "/models/own/invoke").text == "own"
        assert unload(code_stack, name).status_code == 200


def test_loading_may_take_longer_than_requests_may(tmp_path: Path) -> None:
    door, never = Door(tmp_path / "door"), Door(tmp_path / "never")
    write_model(tmp_path / "models", "slow", f"{door.code}\ndef postprocess(outputs, request): ...\n")
    export_held_image(tmp_path / "models" / "held", never)
    port = free_port()
    settings = {
        "SAGEMAKER_MULTI_MODEL": "true",
        "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "2",
        "SAGEMAKER_TFS_WAIT_TIME_SECONDS": f"{PATIENCE:.0f}",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(port),
    }
    with (
        running(tmp_path / "models", tmp_path / "run", **settings, **MANY_HELD) as code_stack,
        triton.InferenceServerClient(f"127.0.0.1:{port}") as client,
        ThreadPoolExecutor(1) as pool,
        door,
        never,
    ):

        def longer_than_a_request(load_it: Callable[..., Result], *given: object) -> Result:
            door.shut()
            loading = pool.submit(load_it, *given)
            door.wait_for()
            late = code_stack.invoke(png(np.full((8, 8, 3), 1)), "/models/held/invoke")
            assert (late.status_code, loading.done()) == (504, False), late.text
            door.open()
            return loading.result()

        def status_of_slow() -> int:
            answers = (requests.get(f"{code_stack.url}/models/slow", timeout=PATIENCE).status_code for _ in poll())
            return next(status for status in answers if status != 504)  # a busy machine may exceed 2 s

        assert load(code_stack, "held").status_code == 200
        loaded = longer_than_a_request(load, code_stack, "slow")
        assert loaded.status_code == 200, loaded.text
        assert unload(code_stack, "slow").status_code == 200
        loaded = longer_than_a_request(code_stack.invoke, b"", "/v2/repository/models/slow/load")
        assert loaded.status_code == 200, loaded.text
        assert status_of_slow() == 200
        client.unload_model("slow")
        longer_than_a_request(client.load_model, "slow")
        assert status_of_slow() == 200


def test_a_stop_leaves_nothing_of_code_that_is_tried(tmp_path: Path) -> None:
    write_model(tmp_path / "models", "hangs", "import time\ntime.sleep(600)\n")
    settings = {"SAGEMAKER_MULTI_MODEL": "true", "LIGHTBOX_DRAIN_SECONDS": "3"}
    with running(tmp_path / "models", tmp_path / "run", **settings) as code_stack, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(load, code_stack, "hangs")
        tried = trial(code_stack)
        assert code_stack.stop() == 0
        tried.wait(PATIENCE)
        assert asked.exception() is not None or asked.result().status_code >= 500
