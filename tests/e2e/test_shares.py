"""Two models, one with a handler that waits: the other one is answered meanwhile, on all protocols."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton

from support.held import Door
from support.keys import key_line
from support.models import copy_golden
from support.patience import PATIENCE, poll
from support.stack import Stack, free_port, running

GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
WAITING = 4
PLACES = 8 + WAITING
"""Of one model: one worker's threads and its queue."""
RATE = "infer rate=2/h"
BODY = b'{"instances": [2.0]}'


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with Door(tmp_path / "door") as made:
        yield made


@pytest.fixture
def shared(tmp_path: Path, door: Door) -> Iterator[Stack]:
    """Start a worker with a quick model and one whose handler waits at the door."""
    for name in ("quick", "slow"):
        copy_golden("half_plus_two", tmp_path / "models" / name)
    code = tmp_path / "models" / "slow" / "code"
    code.mkdir()
    source = f"def postprocess(outputs, request):\n    exec({door.code!r})\n    return 'waited'\n"
    (code / "inference.py").write_text(source)
    keys = tmp_path / "keys"
    keys.write_text(key_line("ci", "any") + key_line("one", "one", "infer at_once=1") + key_line("two", "two", RATE))
    environ = {
        "LIGHTBOX_API_KEYS": str(keys),
        "SAGEMAKER_GUNICORN_WORKERS": "1",
        "LIGHTBOX_MAX_WAITING": str(WAITING),
        GRPC_PORT: str(free_port()),
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "quick",
    }
    with running(tmp_path / "models", tmp_path / "run", **environ) as stack:
        yield stack


def ask(stack: Stack, model: str, key: str = "any") -> int:
    attributes = f"tfs-model-name={model}"
    return stack.invoke(BODY, X_API_Key=key, X_Amzn_SageMaker_Custom_Attributes=attributes).status_code


@pytest.mark.extended
def test_a_handler_that_waits_leaves_the_other_model_its_share(shared: Stack, door: Door) -> None:
    with ThreadPoolExecutor(2 * PLACES) as pool:
        slow = [pool.submit(ask, shared, "slow") for _ in range(2 * PLACES)]
        for _ in poll():
            if sum(future.done() for future in slow) == PLACES:
                break
        assert [future.result() for future in slow if future.done()] == [503] * PLACES
        # It has all places that it may have, and all threads that may run its handler.
        assert ask(shared, "quick") == 200
        path = "/v2/models/quick/infer"
        tensor = b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [2]}]}'
        assert shared.invoke(tensor, path, X_API_Key="any").status_code == 200
        address = f"127.0.0.1:{shared.environ[GRPC_PORT]}"
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(PATIENCE)
        x = triton.InferInput("x", [1], "FP32")
        x.set_data_from_numpy(np.array([2.0], "f4"))
        with triton.InferenceServerClient(address) as client:
            client.infer("quick", [x], headers={"x-api-key": "any"})
            with pytest.raises(triton.InferenceServerException, match="requests of this model"):
                client.infer("slow", [x], headers={"x-api-key": "any"})
        assert door.came == 8
        door.open()
        assert sorted(future.result() for future in slow) == [200] * PLACES + [503] * PLACES


@pytest.mark.extended
def test_a_key_has_a_rate_and_so_many_requests_at_once(shared: Stack, door: Door) -> None:
    address = f"127.0.0.1:{shared.environ[GRPC_PORT]}"
    x = triton.InferInput("x", [1], "FP32")
    x.set_data_from_numpy(np.array([2.0], "f4"))
    with ThreadPoolExecutor(1) as pool, triton.InferenceServerClient(address) as client:
        first = pool.submit(ask, shared, "slow", "one")
        door.wait_for(1)
        assert ask(shared, "quick", "one") == 429
        with pytest.raises(triton.InferenceServerException, match="RESOURCE_EXHAUSTED"):
            client.infer("quick", [x], headers={"x-api-key": "one"})
        assert ask(shared, "quick") == 200
        door.open()
        assert first.result() == 200
        assert ask(shared, "quick", "one") == 200
        answer = shared.invoke(BODY, X_API_Key="two")
        assert (answer.status_code, answer.headers["RateLimit"]) == (200, '"two";r=1;t=1800')
        client.infer("quick", [x], headers={"x-api-key": "two"})
        refused = shared.invoke(BODY, X_API_Key="two")
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert 1700 < int(refused.headers["Retry-After"]) <= 1800
        assert refused.headers["RateLimit-Policy"] == '"two";q=2;w=3600'
        with pytest.raises(triton.InferenceServerException, match="RESOURCE_EXHAUSTED"):
            client.infer("quick", [x], headers={"x-api-key": "two"})
