"""Images as base64 in JSON: any sizes, one batch."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lightbox.base.errors import ImageUndecodable, MalformedBody
from lightbox.model.spec import Layout
from support.decoding import PIXELS, TEXTS, b64, decode
from support.fakes import Tensor, png
from support.parameters import each

RED = png(np.full((5, 3, 3), (200, 0, 0)))
GREEN = png(np.full((2, 7, 3), (0, 100, 0)))
BATCH = np.stack([np.full((2, 2, 3), (200, 0, 0)), np.full((2, 2, 3), (0, 100, 0))])
ENCODED: dict[str, Tensor] = {"image_bytes": ("string", (None,))}


@each(
    "body",
    [
        [b64(RED), b64(GREEN)],
        [{"b64": b64(RED)}, {"b64": b64(GREEN)}],
        [{"image": b64(RED)}, {"image": {"b64": b64(GREEN)}}],
        {"instances": [b64(RED), {"b64": b64(GREEN)}]},
        {"instances": [{"image": {"b64": b64(RED)}}, {"image": {"b64": b64(GREEN)}}]},
        {"inputs": [b64(RED), b64(GREEN)]},
        {"inputs": {"image": [{"b64": b64(RED)}, {"b64": b64(GREEN)}]}},
        [f"data:image/png;base64,{b64(RED)}", f"data:image/png;charset=x;base64,{b64(GREEN)}"],
    ],
)
def test_a_model_of_pixels_gets_images_of_any_sizes_as_one_batch(body: object) -> None:
    request = decode(json.dumps(body), inputs=PIXELS)
    np.testing.assert_array_equal(request.inputs["image"], BATCH)
    assert request.images == (RED, GREEN)
    assert request.layout is (Layout.COLUMNS if "inputs" in body else Layout.INSTANCES)  # type: ignore[operator]


@each("body", [{"b64": b64(RED)}, b64(RED), {"image": b64(RED)}, {"inputs": {"b64": b64(RED)}}])
def test_a_single_image_is_a_batch_of_one(body: object) -> None:
    np.testing.assert_array_equal(decode(json.dumps(body), inputs=PIXELS).inputs["image"], BATCH[:1])


def test_images_one_after_another() -> None:
    lines = "\n".join(json.dumps({"b64": b64(image)}) for image in (RED, GREEN))
    np.testing.assert_array_equal(decode(lines, "application/jsonlines", PIXELS).inputs["image"], BATCH)


def test_pixels_in_lists_are_the_tensor_as_it_is() -> None:
    request = decode(json.dumps({"instances": BATCH.tolist()}), inputs=PIXELS)
    np.testing.assert_array_equal(request.inputs["image"], BATCH)
    assert request.images == ()


@pytest.mark.parametrize(
    "body", [[b64(RED), b64(GREEN)], [{"b64": b64(RED)}, {"b64": b64(GREEN)}], {"inputs": [{"b64": b64(RED)}]}]
)
def test_a_model_of_encoded_images_gets_the_bytes(body: object) -> None:
    found = decode(json.dumps(body), inputs=ENCODED).inputs["image_bytes"].tolist()
    assert found == [RED, GREEN][: len(found)]


def test_text_for_a_string_model_stays_text() -> None:
    texts = [b64(b"no image"), b64(RED), "plain"]
    assert decode(json.dumps(texts), inputs=TEXTS).inputs["text"].tolist() == [text.encode() for text in texts]
    tfs = {"instances": [b64(RED)]}
    assert decode(json.dumps(tfs), inputs=TEXTS).inputs["text"].tolist() == [b64(RED).encode()]


def test_a_list_that_only_begins_with_images_names_the_place() -> None:
    with pytest.raises(MalformedBody, match="image 2: expected base64"):
        decode(json.dumps([b64(RED), 5]), inputs=PIXELS)
    with pytest.raises(MalformedBody, match="image 2: the text is not valid base64"):
        decode(json.dumps([b64(RED), "???"]), inputs=PIXELS)
    with pytest.raises(ImageUndecodable, match="image 2"):
        decode(json.dumps([b64(RED), b64(b"no image")]), inputs=PIXELS)
