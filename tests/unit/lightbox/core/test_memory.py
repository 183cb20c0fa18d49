"""Memory limits of requests: for each byte sent, and for all requests together."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.base.errors import TooLarge, Unavailable
from lightbox.base.request_context import SMALL, MemoryBudget, Share
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import fake_app, signature
from support.patience import PATIENCE

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}


def test_a_share_grows_and_shrinks_and_comes_back() -> None:
    budget = MemoryBudget(100)
    with budget.share() as share:
        share.hold(60)
        share.hold(40)
        assert budget.held == 40
    assert budget.held == 0


def test_a_byte_may_take_twelve_and_a_small_request_what_it_needs() -> None:
    share = Share()
    share.hold(SMALL)
    share.weigh(SMALL)
    share.hold(12 * SMALL)
    with pytest.raises(TooLarge, match="more than 12 bytes for each"):
        share.hold(12 * SMALL + 1)


def test_shares_of_many_threads_add_up() -> None:
    budget = MemoryBudget(1 << 40)

    def work() -> None:
        for size in range(2000):
            with budget.share() as share:
                share.hold(size)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.held == 0


@pytest.fixture
def entered() -> Iterator[tuple[threading.Event, threading.Event]]:
    yield threading.Event(), threading.Event()


@pytest.fixture
def client(entered: tuple[threading.Event, threading.Event]) -> FlaskClient:
    """An app with 16 MiB for requests, whose model "slow" answers once ``entered[1]`` is set."""

    def at_once(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": np.zeros(1, np.float32)}

    def wait(inputs: Mapping[str, Array]) -> dict[str, Array]:
        entered[0].set()
        assert entered[1].wait(PATIENCE)
        return at_once(inputs)

    fake = FakeTransport()
    for name in ("float32", "slow"):
        answer = wait if name == "slow" else at_once
        fake.serve(signature(name, {"x": ("float32", None)}, {"y": ("float32", (None,))}), answer)
    environ = {
        "LIGHTBOX_REQUEST_MEMORY_MB": "16",
        "SAGEMAKER_GUNICORN_WORKERS": "1",
    }
    return fake_app(fake, {"float32": ModelOptions(), "slow": ModelOptions()}, environ).test_client()


def test_a_body_that_never_fits_is_refused_before_it_is_read(client: FlaskClient) -> None:
    answer = client.post("/invocations", data=bytes(9 * MIB), headers={"Content-Type": "application/x-npy"})
    assert answer.status_code == 413
    assert "18 MiB of memory" in answer.get_json()["error"]


def test_gzip_is_refused_before_it_is_unfolded(client: FlaskClient) -> None:
    packed = gzip.compress(bytes(50 * MIB))
    answer = client.post("/invocations", data=packed, headers={**JSON, "Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert "the gzip body: it takes" in answer.get_json()["error"]


def test_memory_that_others_hold_is_503_and_comes_back(
    client: FlaskClient, entered: tuple[threading.Event, threading.Event]
) -> None:
    slow = {**JSON, "X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=slow"}
    body = b"[" + b"0.125," * 500_000 + b"1]"
    first: list[int] = []
    holder = threading.Thread(
        target=lambda: first.append(
            client.application.test_client().post("/invocations", data=body, headers=slow).status_code
        )
    )
    holder.start()
    assert entered[0].wait(PATIENCE)
    refused = client.post("/invocations", data=bytes(6 * MIB), headers={"Content-Type": "application/x-npy"})
    entered[1].set()
    holder.join()
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert "other requests hold" in refused.get_json()["error"]
    assert first == [200]
    assert client.post("/invocations", data=body, headers=JSON).status_code == 200


def test_requests_of_a_model_leave_memory_for_others() -> None:
    budget = MemoryBudget(100 << 20)
    with budget.share("a") as first, budget.share("a") as second, budget.share("b") as other:
        first.hold(30 << 20)
        with pytest.raises(Unavailable):
            second.hold(30 << 20)
        second.hold(10 << 20)
        other.hold(32 << 20)
        second.hold(0)
        first.hold(20 << 20)
    assert budget.held == 0
    with budget.share("a") as alone:
        alone.weigh(100 << 20)
        alone.hold(100 << 20)
