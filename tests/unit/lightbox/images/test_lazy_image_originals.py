"""Original images for user code have the limits of the built-in decoding: memory, turns and time."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL.Image import Image

from lightbox.base.errors import DeadlineExceeded, ImageUndecodable, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.codecs import image as image_codec
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.image import ImageCodec
from lightbox.images import decode as originals
from lightbox.images.decode import OriginalImages, decode_rgb
from lightbox.images.limits import ImageLimits
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.fakes import png
from support.patience import PATIENCE

RED = png(np.full((5, 3, 3), (200, 0, 0)))
GREEN = png(np.full((2, 7, 3), (0, 100, 0)))
READ: list[Callable[[OriginalImages], object]] = [lambda found: found.images, lambda found: found.sizes]


def of(*bodies: bytes, seconds: float = PATIENCE, codec: ImageCodec | None = None) -> OriginalImages:
    codec = codec or ImageCodec(codec_options(load_settings({})))
    return codec.originals(lambda: bodies, RequestContext(seconds))


def test_sizes_hold_no_two_images_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Image]] = []

    def decode(*args: Any, **options: Any) -> Image:
        assert not [image for image in made if image() is not None]
        image = decode_rgb(*args, **options)
        made.append(weakref.ref(image))
        return image

    monkeypatch.setattr(originals, "decode_rgb", decode)
    assert of(RED, GREEN, RED).sizes == [(3, 5), (7, 2), (3, 5)]
    assert len(made) == 3


def test_images_together_are_kept_to_the_pixels_of_one_before_any_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = ImageCodec(codec_options(load_settings({"LIGHTBOX_MAX_IMAGE_PIXELS": "29"})))
    assert [image.size for image in of(RED, GREEN, codec=codec).images] == [(3, 5), (7, 2)]
    assert of(RED, GREEN, RED, codec=codec).sizes == [(3, 5), (7, 2), (3, 5)]
    monkeypatch.delattr(originals, "decode_rgb")
    with pytest.raises(TooLarge, match=r"3 images are 44 pixels together; at most 29 .*LIGHTBOX_MAX_IMAGE_PIXELS"):
        _ = of(RED, GREEN, RED, codec=codec).images


def test_sizes_are_read_for_no_more_pixels_than_a_request_may_have() -> None:
    codec = ImageCodec(CodecOptions(ImageLimits(max_request_pixels=44)))
    assert of(RED, GREEN, RED, codec=codec).sizes == [(3, 5), (7, 2), (3, 5)]
    for read in READ:
        with pytest.raises(TooLarge, match=r"image 4: .* 59 pixels; at most 44 .*, 10 times LIGHTBOX_MAX_IMAGE_PIXELS"):
            read(of(RED, GREEN, RED, RED, codec=codec))


def test_sizes_come_from_images_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(RED, GREEN)
    assert found.images is found.images
    monkeypatch.delattr(originals, "decode_rgb")
    assert found.sizes == [(3, 5), (7, 2)]


@pytest.mark.parametrize("read", READ)
def test_each_is_decoded_in_turn(monkeypatch: pytest.MonkeyPatch, read: Callable[[OriginalImages], object]) -> None:
    monkeypatch.setattr(image_codec, "decoding_at_once", lambda cores, workers: 1)
    codec, refused = ImageCodec(codec_options(load_settings({}))), []

    def decode(*args: Any, **options: Any) -> Image:
        with pytest.raises(DeadlineExceeded, match="before its image could be decoded") as error:
            read(of(GREEN, seconds=0.01, codec=codec))
        refused.append(error)
        return decode_rgb(*args, **options)

    monkeypatch.setattr(originals, "decode_rgb", decode)
    read(of(RED, RED, codec=codec))
    assert len(refused) == 2


@pytest.mark.parametrize("read", READ)
def test_they_end_with_the_requests_time(read: Callable[[OriginalImages], object]) -> None:
    with pytest.raises(DeadlineExceeded, match="after 1 of 2 images"):
        read(of(RED, GREEN, seconds=-1))


@pytest.mark.parametrize("read", READ)
def test_the_broken_one_is_named(read: Callable[[OriginalImages], object]) -> None:
    with pytest.raises(ImageUndecodable, match="image 2: "):
        read(of(RED, GREEN[:-30]))
