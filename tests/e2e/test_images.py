"""Photos and digits through nginx, gunicorn and the model server, over both transports."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lightbox.model.spec import Array
from lightbox.tools.model_zoo import digits, mobilenet_v2
from support import photos
from support.fakes import png
from support.log_lines import without_times
from support.stack import Stack

WIRES = ["local", "grpc", "rest"]
TOLERANCE = 1e-5
"""Allows for another order of additions in another process."""


def attributes(wire: str = "local", model: str = "mobilenet_v2") -> str:
    return f"tfs-transport={wire}, tfs-model-name={model}"


@pytest.fixture(scope="module")
def photo() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(photos.photo("china.jpg")).save(buffer, "jpeg", quality=90)
    return buffer.getvalue()


@pytest.mark.extended
def test_a_photo_gives_what_keras_gives(stack: Stack, photo: bytes) -> None:
    """Compare with the AWS sample's preprocessing and Keras's prediction, computed in this process."""
    import keras

    answer = stack.invoke(photo, Content_Type="application/x-image", X_Amzn_SageMaker_Custom_Attributes=attributes())
    assert answer.status_code == 200, answer.text
    predictions = np.array(answer.json()["predictions"])
    assert predictions.shape == (1, 1000)
    resized = Image.open(io.BytesIO(photo)).convert("RGB").resize((224, 224))
    pixels = keras.applications.mobilenet_v2.preprocess_input(np.asarray(resized, "f4")[None])
    expected = np.asarray(mobilenet_v2.seeded_model()(pixels, training=False))
    np.testing.assert_allclose(predictions, expected, rtol=TOLERANCE, atol=1e-8)


@pytest.mark.extended
def test_held_out_digits_get_their_labels(stack: Stack, trained_digits: Any) -> None:
    data = digits.split()
    expected = np.asarray(trained_digits(digits.as_tensor(data.held_out_images), training=False)).argmax(axis=1)

    def label(pixels: Array) -> int:
        named = attributes(model="digits")
        answer = stack.invoke(png(pixels), Content_Type="image/png", X_Amzn_SageMaker_Custom_Attributes=named)
        return int(np.argmax(answer.json()["predictions"][0]))

    with ThreadPoolExecutor(4) as pool:
        labels = np.array(list(pool.map(label, data.held_out_images)))
    assert len(labels) == 360
    assert (labels == expected).all()
    assert (labels == data.held_out_labels).mean() >= 0.97


def test_the_transports_agree(stack: Stack, photo: bytes) -> None:
    local, grpc, rest = [
        np.array(stack.invoke(photo, X_Amzn_SageMaker_Custom_Attributes=attributes(wire)).json()["predictions"])
        for wire in WIRES
    ]
    assert (local == grpc).all()
    np.testing.assert_allclose(grpc, rest, rtol=1e-5)


STAGES = ["receive", "decode", "preprocess", "encode", "predict", "decode_response", "postprocess", "other", "total"]


@pytest.mark.parametrize("wire", WIRES)
def test_every_stage_has_a_time(stack: Stack, photo: bytes, wire: str) -> None:
    answer = stack.invoke(photo, X_Amzn_SageMaker_Custom_Attributes=attributes(wire))
    *timed, last = answer.headers["Server-Timing"].split(", ")
    assert last == f'wire;desc="{wire}"'
    entries = [entry.split(";dur=") for entry in timed]
    # On a busy machine a request may wait, and signatures are looked up occasionally.
    seen = [name for name, _ in entries if name not in ("queue", "wait", "signature")]
    assert seen == STAGES
    times = {name: float(duration) for name, duration in entries}
    total = times.pop("total")
    assert sum(times.values()) == pytest.approx(total, abs=0.0005 * (len(times) + 1))


def test_a_start_is_reported_in_at_most_twelve_lines(stack: Stack) -> None:
    lines = without_times(stack.log).splitlines()
    (ready,) = (number for number, line in enumerate(lines) if line.startswith("[lightbox] ready after "))
    assert ready < 12, stack.log
    assert lines[ready].endswith(f"s: http://localhost:{stack.port}/invocations")


def test_a_start_logs_the_scaling_of_each_model(stack: Stack) -> None:
    lines = [line for line in without_times(stack.log).splitlines() if line.startswith("[lightbox] scaling of ")]
    assert [line.split(",")[0] for line in lines] == [
        "[lightbox] scaling of digits: unit",
        "[lightbox] scaling of mobilenet_v2: tf",
    ]
