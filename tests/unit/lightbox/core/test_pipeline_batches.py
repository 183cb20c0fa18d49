"""A model of a fixed number of images at a time answers any number of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping

import numpy as np
import pytest

from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import fake_app, png, signature

IMAGES = [png(np.full((4, 4, 3), level)) for level in (10, 20, 30)]
MEANS = [[10.0], [20.0], [30.0]]


def mean(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"mean": inputs["image"].astype(np.float32).mean(axis=(1, 2, 3))[:, None]}


@pytest.mark.parametrize(("size", "calls"), [(1, 3), (2, 2), (3, 1), (4, 1), (None, 1)])
@pytest.mark.parametrize("as_form", [True, False])
def test_the_last_call_has_copies_of_an_image(size: int | None, calls: int, as_form: bool) -> None:
    transport = FakeTransport()
    shapes = {"image": ("uint8", (size, 4, 4, 3))}, {"mean": ("float32", (size, 1))}
    transport.serve(signature("m", *shapes), mean)
    client = fake_app(transport, {"m": ModelOptions()}).test_client()
    if as_form:
        files = {f"image{number}": (io.BytesIO(image), f"{number}.png") for number, image in enumerate(IMAGES)}
        answer = client.post("/invocations", data=files, headers={"Accept": "application/json"})
    else:
        instances = [{"b64": base64.b64encode(image).decode()} for image in IMAGES]
        answer = client.post("/invocations", json={"instances": instances})
    assert answer.get_json() == {"predictions": MEANS}
    assert [len(call.inputs["image"]) for call in transport.calls] == [size or 3] * calls


def test_outputs_of_another_number_of_rows_are_no_answer_to_several_images() -> None:
    transport = FakeTransport()
    transport.serve(signature("m", {"image": ("uint8", (2, 4, 4, 3))}, {"mean": ("float32", (1, 1))}), mean)
    client = fake_app(transport, {"m": ModelOptions()}).test_client()
    answer = client.post("/invocations", data=IMAGES[0], content_type="image/png")
    assert answer.status_code == 400
    assert "expected 2 images in a request: the model gives mean (float32 [1,1]); got 1" in answer.get_json()["error"]
