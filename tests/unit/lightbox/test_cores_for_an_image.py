"""All cores resize the image of a worker's only request. With several requests, each image uses one core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from flask import Flask

from lightbox.base.errors import LightboxError
from lightbox.images.resize import Resizer
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport, Function
from support.fakes import channel_means, fake_app, mean_model, png
from support.infer_requests import images, infer, prefixed
from support.patience import PATIENCE

IMAGE = png(np.zeros((9, 9, 3)))
Ask = Callable[[Flask], int]


def by_body(app: Flask) -> int:
    return app.test_client().post("/invocations", data=IMAGE, content_type="application/x-image").status_code


def by_tensor(app: Flask) -> int:
    element = prefixed(IMAGE)
    response = infer(app.test_client(), "mean", images([1], binary_data_size=len(element)), element)
    return int(response.status_code)


def serving(predict: Function) -> Flask:
    transport = FakeTransport()
    transport.serve(mean_model(), predict)
    return fake_app(transport, {"mean": ModelOptions()})


@pytest.fixture
def by_all_cores(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each resized image, in order: whether all cores resized it."""
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

    app = serving(predict)
    first = threading.Thread(target=other, args=(app,))
    first.start()
    assert asked.wait(PATIENCE)
    assert ask(app) == 200
    go_on.set()
    first.join(PATIENCE)
    assert ask(app) == 200
    assert by_all_cores == [True, False, True]


@pytest.mark.parametrize("ask", [by_body, by_tensor])
def test_who_failed_is_not_there_any_more(ask: Ask, by_all_cores: list[bool]) -> None:
    def fail(inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise LightboxError("no")

    app = serving(fail)
    assert [ask(app) for _ in range(3)] == [500] * 3
    assert by_all_cores == [True, True, True]
