"""All cores resize the image of a request that is alone; while a worker has others, each image keeps to one core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from lightbox.core.errors import LightboxError
from lightbox.core.pipeline import Pipeline
from lightbox.core.request import Body, Call, Tensors
from lightbox.core.request_context import RequestContext
from lightbox.images.resize import Resizer
from lightbox.model.spec import Array
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, mean_model, png
from support.grpc_front import make_pipeline
from support.patience import PATIENCE

BODY = png(np.zeros((9, 9, 3)))
Ask = Callable[[Pipeline], object]


def by_body(pipeline: Pipeline) -> object:
    return pipeline.run(Call(Body(pipeline.codecs, BODY, "application/x-image")), RequestContext(PATIENCE))


def by_tensor(pipeline: Pipeline) -> object:
    inputs = {"image": np.array([BODY], object)}
    return pipeline.run(Call(Tensors(pipeline.codecs, inputs)), RequestContext(PATIENCE))


@pytest.fixture
def by_all_cores(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each image was resized by, in turn."""
    seen: list[bool] = []
    fill = Resizer.fill

    def noted(self: Resizer, *args: object, by_all_cores: bool) -> None:
        seen.append(by_all_cores)
        fill(self, *args, by_all_cores=by_all_cores)  # type: ignore[arg-type]

    monkeypatch.setattr(Resizer, "fill", noted)
    return seen


@pytest.mark.parametrize("ask", [by_body, by_tensor])
@pytest.mark.parametrize("other", [by_body, by_tensor])
def test_who_is_alone_has_all_cores(ask: Ask, other: Ask, by_all_cores: list[bool]) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def predict(inputs: Mapping[str, Array]) -> dict[str, Array]:
        if threading.current_thread() is first:
            asked.set()
            assert go_on.wait(PATIENCE)
        return channel_means(inputs)

    transport = FakeTransport()
    transport.serve(mean_model(), predict)
    pipeline = make_pipeline(transport, ["mean"])
    first = threading.Thread(target=other, args=(pipeline,))
    first.start()
    assert asked.wait(PATIENCE)
    ask(pipeline)
    go_on.set()
    first.join(PATIENCE)
    ask(pipeline)
    assert by_all_cores == [True, False, True]


@pytest.mark.parametrize("ask", [by_body, by_tensor])
def test_who_failed_is_not_there_any_more(ask: Ask, by_all_cores: list[bool]) -> None:
    def fail(inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise LightboxError("no")

    transport = FakeTransport()
    transport.serve(mean_model(), fail)
    pipeline = make_pipeline(transport, ["mean"])
    for _ in range(3):
        with pytest.raises(LightboxError, match="no"):
            ask(pipeline)
    assert by_all_cores == [True, True, True]


def test_the_images_of_one_request_do_not_count_as_several(by_all_cores: list[bool]) -> None:
    transport = FakeTransport()
    transport.serve(mean_model(), channel_means)
    pipeline = make_pipeline(transport, ["mean"])
    pipeline.run(Call(Tensors(pipeline.codecs, {"image": np.array([BODY, BODY], object)})), RequestContext(PATIENCE))
    assert by_all_cores == [True, True]
