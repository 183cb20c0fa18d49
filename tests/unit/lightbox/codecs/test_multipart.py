"""Images in a multipart form, and the limits of a batch of images."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL.PngImagePlugin import PngImageFile

from lightbox.base.errors import (
    DeadlineExceeded,
    ImageUndecodable,
    LightboxError,
    MalformedBody,
    TooLarge,
    UnsupportedMediaType,
)
from lightbox.base.request_context import RequestContext
from lightbox.codecs.image import ImageCodec
from lightbox.images.limits import ImageLimits
from lightbox.model.options import ModelOptions
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.decoding import PIXELS, TEXTS, b64, decode
from support.fakes import Tensor, png, signature
from support.parameters import each

RED = png(np.full((5, 3, 3), (200, 0, 0)))
GREEN = png(np.full((2, 7, 3), (0, 100, 0)))
FORM = "multipart/form-data; boundary=cut"


def form(*parts: bytes, names: str = 'name="file"; filename="a.png"', end: bytes = b"--cut--\r\n") -> bytes:
    heads = (f"--cut\r\nContent-Disposition: form-data; {names}\r\n\r\n".encode() for _ in parts)
    return b"".join(head + part + b"\r\n" for head, part in zip(heads, parts, strict=True)) + end


@each("names", ['name="file"; filename="a.png"', 'name="image"', 'name=""', "filename=x"])
def test_the_parts_of_a_form_are_a_batch_in_their_order(names: str) -> None:
    request = decode(form(RED, GREEN, names=names), FORM, PIXELS)
    assert request.inputs["image"].shape == (2, 2, 2, 3)
    assert request.inputs["image"][:, 0, 0].tolist() == [[200, 0, 0], [0, 100, 0]]
    assert request.images == (RED, GREEN)


def test_a_file_field_without_a_file_is_left_out() -> None:
    empty = form(b"", names='name="file"; filename=""', end=b"")
    assert decode(empty + form(RED), FORM, PIXELS).images == (RED,)


def test_a_boundary_may_be_quoted_and_an_image_may_hold_line_ends() -> None:
    pixels = np.frombuffer(bytes([13, 10, 45, 45]) * 3, np.uint8).reshape(2, 2, 3)
    bitmap = b"P6 2 2 255\n" + pixels.tobytes()
    body = form(bitmap, GREEN).replace(b"--cut", b"--c u't")
    found = decode(body, 'multipart/form-data; boundary="c u\'t"', PIXELS).inputs["image"]
    np.testing.assert_array_equal(found[0], pixels)


@each(
    ("body", "content_type"),
    [
        (form(RED), "multipart/form-data"),
        (form(RED), "multipart/form-data; boundary=other"),
        (bytes(1 << 20), FORM),
        (form(RED, end=b""), FORM),
        (form(), FORM),
        (b"", FORM),
        (b"--cut\r\n\r\nx\r\n--cut--", FORM),
        (b"--cut\r\nContent-Disposition: form-data\xff\r\n\r\nx\r\n--cut--", FORM),
    ],
)
def test_a_broken_form_is_malformed(body: bytes, content_type: str) -> None:
    with pytest.raises(MalformedBody):
        decode(body, content_type, PIXELS)


@pytest.mark.parametrize(
    ("shape", "advice"),
    [
        ((None,) * 4, "send application/json, or set layout in code/lightbox.json$"),
        ((None, 2), "send application/json$"),
    ],
)
def test_a_model_whose_signature_shows_no_image(shape: tuple[int | None, ...], advice: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=f"none of these accepts an image; {advice}"):
        decode(form(RED), FORM, {"x": ("float32", shape)})


def test_a_part_that_is_no_image_is_named() -> None:
    with pytest.raises(ImageUndecodable, match=r"^field 'file', image 2: Expected an image .* got the text 'hello'\.$"):
        decode(form(RED, b"hello"), FORM, PIXELS)


def test_the_only_part_of_a_form_is_named_by_its_field() -> None:
    with pytest.raises(ImageUndecodable, match=r"^field 'url': Expected an image .* got the text 'https://a.b/c.jpg'"):
        decode(form(b"https://a.b/c.jpg", names='name="url"'), FORM, PIXELS)


def test_a_form_of_very_many_parts_is_too_large() -> None:
    with pytest.raises(TooLarge, match="1000 parts"):
        decode(form(*[b"x"] * 1001), FORM, PIXELS)


def test_headers_that_never_end_are_too_large() -> None:
    with pytest.raises(TooLarge, match="256 kB"):
        decode(b"--cut\r\n" + b"a:\r\n" * 1_000_000, FORM, PIXELS)


def test_a_large_part_comes_in_pieces() -> None:
    bitmap = b"P6 400 400 255\n" + np.arange(480_000, dtype=np.uint32).astype(np.uint8).tobytes()
    assert decode(form(bitmap, RED, bitmap), FORM, PIXELS).images == (bitmap, RED, bitmap)


@pytest.mark.extended
@given(st.binary(), st.binary(max_size=3))
def test_any_form_gives_images_or_an_error_of_ours(body: bytes, boundary: bytes) -> None:
    try:
        decode(b"--" + boundary + body, f'multipart/form-data; boundary="{boundary.decode("latin-1")}"', PIXELS)
    except LightboxError as error:
        assert error.status < 500


def test_small_images_do_not_make_a_large_batch() -> None:
    environ = {"LIGHTBOX_MAX_IMAGE_PIXELS": "36"}
    assert decode(form(*[RED] * 9), FORM, PIXELS, environ=environ).inputs["image"].shape[0] == 9
    with pytest.raises(TooLarge, match=r"10 images of 2x2 are 40 pixels.*LIGHTBOX_MAX_IMAGE_PIXELS"):
        decode(form(*[RED] * 10), FORM, PIXELS, environ=environ)


@pytest.mark.parametrize("inputs", [PIXELS, TEXTS], ids=["pixels", "encoded"])
@pytest.mark.parametrize("as_json", [False, True], ids=["form", "json"])
def test_the_pixels_of_a_requests_images_are_bounded_together(
    inputs: Mapping[str, Tensor], as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*images: bytes) -> int:
        body = {"instances": [{"b64": b64(image)} for image in images]}
        found = decode(json.dumps(body), inputs=inputs) if as_json else decode(form(*images), FORM, inputs)
        return len(next(iter(found.inputs.values())))

    monkeypatch.setattr(ImageLimits, "of", lambda pixels: ImageLimits(max_request_pixels=44))
    assert read(RED, GREEN, RED) == 3
    with pytest.raises(
        TooLarge, match=r"image 4: .* up to this one have 58 pixels; .*, 10 times LIGHTBOX_MAX_IMAGE_PIXELS"
    ):
        read(RED, GREEN, RED, GREEN)


def test_texts_that_begin_as_images_do_not_hide_images_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"instances": [{"b64": b64(RED[:20])}, *[{"b64": b64(RED)}] * 3]}
    assert len(decode(json.dumps(texts), inputs=TEXTS).inputs["text"]) == 4
    monkeypatch.setattr(ImageLimits, "of", lambda pixels: ImageLimits(max_request_pixels=44))
    with pytest.raises(TooLarge, match="10 times LIGHTBOX_MAX_IMAGE_PIXELS"):
        decode(json.dumps(texts), inputs=TEXTS)


def test_nothing_is_decoded_of_images_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(count: int) -> int:
        found: list[int] = []
        prepare = PngImageFile.load_prepare

        def counted(image: PngImageFile) -> None:
            found.append(image.width * image.height)
            prepare(image)

        with monkeypatch.context() as patched, pytest.raises(TooLarge, match="10 times LIGHTBOX_MAX_IMAGE_PIXELS"):
            patched.setattr(PngImageFile, "load_prepare", counted)
            decode(form(*[image] * count), FORM, PIXELS, environ={"LIGHTBOX_MAX_IMAGE_PIXELS": "10000"})
        return sum(found)

    image = png(np.zeros((100, 100), np.uint8))
    assert decoded(200) == decoded(11) == 0
    assert len(decode(form(*[image] * 10), FORM, PIXELS).inputs["image"]) == 10


def test_a_batch_ends_with_its_time() -> None:
    codec, spec = ImageCodec(codec_options(load_settings({}))), signature("net", PIXELS, {})
    with pytest.raises(DeadlineExceeded, match="after 1 of 2 images"):
        codec.decode([RED, GREEN], spec, ModelOptions(), RequestContext(-1))
