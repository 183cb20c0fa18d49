"""The time to read a request grows linearly with its size, for every reader.

The tests compare two sizes in processor time of this thread. The runs alternate, and the shortest counts. Eight times
the size takes eight times as long if the time is linear, and 64 times if it is quadratic.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.features.open_inference.dataplane import DataPlane, once
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc.servicer import InferenceService
from support.costly import BODIES, GRPC, HEADERS, MEDIA_TYPES, MODELS, costly_app, post
from support.fake_transport import FakeTransport
from support.fakes import signature
from support.grpc_front import make_pipeline
from support.parameters import each
from support.patience import PATIENCE

pytestmark = pytest.mark.extended

TIMES = 8
BETWEEN_LINEAR_AND_QUADRATIC = 24
BODY, HEADER = 1 << 15, 1 << 13
BASE_SECONDS = 0.001
"""Added to the smaller size: what every request takes, and the timer's own grain."""


@pytest.fixture(scope="module")
def app() -> Flask:
    return costly_app({})


@pytest.fixture(autouse=True)
def without_collections() -> Iterator[None]:
    """Disable garbage collection: it scans all objects of the process, whatever the request."""
    gc.disable()
    yield
    gc.enable()


def seconds(run: Callable[[], object]) -> float:
    started = time.thread_time()
    run()
    return time.thread_time() - started


def check_growth(run: Callable[[int], Callable[[], object]], size: int) -> None:
    small, large = run(size), run(TIMES * size)
    small()
    turns = [(seconds(small), seconds(large), seconds(small)) for _ in range(3)]
    grown = min(turn[1] for turn in turns) / (min(min(turn[0], turn[2]) for turn in turns) + BASE_SECONDS)
    assert grown < BETWEEN_LINEAR_AND_QUADRATIC, f"{TIMES} times the size took {grown:.0f} times as long"


@each("name", BODIES)
def test_bodies(name: str, app: Flask) -> None:
    def run(size: int) -> Callable[[], object]:
        sent = BODIES[name](size)
        return lambda: post(app, sent)

    check_growth(run, BODY)


@each("name", HEADERS)
def test_headers(name: str, app: Flask) -> None:
    def run(size: int) -> Callable[[], object]:
        sent = HEADERS[name](size)
        return lambda: post(app, sent)

    check_growth(run, HEADER)


@each("name", GRPC)
def test_grpc_messages(name: str) -> None:
    fake = FakeTransport()
    for model, tensor in MODELS.items():
        fake.serve(signature(model, {"x": tensor}, {"y": tensor}), lambda inputs: {"y": inputs["x"]})
    pipeline = make_pipeline(fake, list(MODELS))
    service = InferenceService(DataPlane(pipeline, Path("/nowhere")))
    work = service.work(grpc_messages.method(grpc_messages.INFERENCE_SERVICE, "ModelInfer"))

    def run(size: int) -> Callable[[], object]:
        data = GRPC[name](size)

        def answer() -> None:
            try:
                work(data, lambda header: None, RequestContext(PATIENCE))
            except LightboxError as error:
                assert error.status in (400, 413), error

        return answer

    check_growth(run, BODY)


def test_looking_for_names_that_come_twice() -> None:
    def run(size: int) -> Callable[[], object]:
        names = [str(index) for index in range(size)]
        return lambda: once(names, "inputs")

    check_growth(run, 1000)


def test_every_reader_is_here() -> None:
    readers = {name.split()[0] for name in (*BODIES, *HEADERS)}
    assert {"v2", "gzip", "accept", "content", "attributes", *MEDIA_TYPES} <= readers
