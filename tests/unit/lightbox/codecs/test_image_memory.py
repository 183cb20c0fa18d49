"""Memory of pictures in decoding: it counts before pixels are decoded, and all processes of a run share it."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lightbox.base.errors import DeadlineExceeded, TooLarge, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.image import DecodeSlots, ImageCodec
from lightbox.codecs.image_memory import COUNTED, ImageMemory
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from support.fakes import signature
from support.parameters import each
from support.patience import PATIENCE, poll

SIZE = 10 * COUNTED


def test_what_never_fits_is_too_large_and_what_others_hold_is_unavailable(tmp_path: Path) -> None:
    one, other = ImageMemory(SIZE, tmp_path), ImageMemory(SIZE, tmp_path)
    with one.hold(6 * COUNTED, RequestContext(PATIENCE)), other.hold(COUNTED, RequestContext(PATIENCE)):
        with (
            pytest.raises(Unavailable, match="which other requests hold"),
            other.hold(5 * COUNTED, RequestContext(0.1)),
        ):
            pass
        with other.hold(3 * COUNTED, RequestContext(PATIENCE)):
            pass
        with (
            pytest.raises(TooLarge, match="LIGHTBOX_REQUEST_MEMORY_MB"),
            other.hold(SIZE + 1, RequestContext(PATIENCE)),
        ):
            pass
    with other.hold(SIZE, RequestContext(PATIENCE)):
        pass


def test_a_large_picture_waits_its_turn_and_small_ones_do_not_pass_it(tmp_path: Path) -> None:
    one, other = ImageMemory(SIZE, tmp_path), ImageMemory(SIZE, tmp_path)
    order: list[str] = []

    def work(memory: ImageMemory, name: str, size: int) -> None:
        with memory.hold(size, RequestContext(PATIENCE)):
            order.append(name)

    with ExitStack() as first:
        first.enter_context(one.hold(5 * COUNTED, RequestContext(PATIENCE)))
        threads = []
        for name, size in (("large", SIZE), ("small", 2 * COUNTED)):
            threads.append(threading.Thread(target=work, args=(other, name, size)))
            threads[-1].start()
            assert any(other.waiting == len(threads) for _ in poll())
        assert order == []
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["large", "small"]


def test_the_memory_of_processes_that_ended_is_their_successors(tmp_path: Path) -> None:
    ended = [ImageMemory(SIZE, tmp_path) for _ in range(2)]
    with ExitStack() as held:
        for one in ended:
            held.enter_context(one.hold(SIZE // 2, RequestContext(PATIENCE)))
        for one in ended:
            os.close(one._slot)  # as the kernel does
        with ImageMemory(SIZE, tmp_path).hold(SIZE, RequestContext(PATIENCE)):
            pass
        held.pop_all()


def test_requests_that_wait_for_a_slot_while_memory_is_short_are_told_to_try_again() -> None:
    slots = DecodeSlots(1, ImageMemory(SIZE))
    slots.memory.waiting = 1
    with (
        slots.take(RequestContext(PATIENCE)),
        pytest.raises(Unavailable, match="try again"),
        slots.take(RequestContext(0.1)),
    ):
        pass


def saved(size: tuple[int, int], kind: str = "JPEG", orientation: int = 1, **options: object) -> bytes:
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    small = np.random.default_rng(0).integers(0, 255, (12, 16, 3), np.uint8)
    Image.fromarray(small).resize(size).save(file, kind, exif=exif, **options)
    return file.getvalue()


def test_original_images_take_memory_within_their_slot() -> None:
    """Others that hold a slot wait for memory."""
    codec = ImageCodec(CodecOptions(image_memory=SIZE))
    bodies = [saved(MEGAPIXEL, "PNG")]
    with ExitStack() as slots:
        while codec._slots._turns.acquire(0):
            slots.callback(codec._slots._turns.release)
        for name in ("images", "sizes"):
            with pytest.raises(DeadlineExceeded):
                getattr(codec.originals(lambda: bodies, RequestContext(0.01)), name)
            assert sum(codec._slots.memory._held) == 0
    kept = RequestContext(PATIENCE)
    assert codec.originals(lambda: bodies, kept).sizes == [MEGAPIXEL]
    assert sum(codec._slots.memory._held) == 0
    _ = codec.originals(lambda: bodies, kept).images
    assert sum(codec._slots.memory._held) == 8 * MEGAPIXEL[0] * MEGAPIXEL[1]


PIXELS = signature("net", {"x": ("uint8", (None, 32, 32, 3))}, {})
OPEN = signature("net", {"x": ("uint8", (None, None, None, 3))}, {})
MEGAPIXEL = (1600, 1200)
"""It takes 7.7 MB, or 15 turned, progressive, or as PNG."""


def decoded(body: bytes, size: float, wanted: SignatureSpec = PIXELS, options: ModelOptions | None = None) -> Array:
    codec = ImageCodec(CodecOptions(image_memory=size))
    call = codec.decode([body], wanted, options or ModelOptions(), RequestContext(PATIENCE))
    return call.inputs["x"]


@each("orientation", [1, 6])
@each("progressive", [False, True])
def test_a_jpeg_that_does_not_fit_is_decoded_at_reduced_scale(orientation: int, progressive: bool) -> None:
    body = saved(MEGAPIXEL, orientation=orientation, progressive=progressive)
    whole = decoded(body, np.inf)
    np.testing.assert_array_equal(decoded(body, 20 << 20), whole)
    room = (14 if progressive else 5) << 20
    np.testing.assert_allclose(decoded(body, room).astype(int), whole.astype(int), atol=3)


@each(
    ("body", "wanted", "options"),
    [
        (lambda: saved(MEGAPIXEL), OPEN, ModelOptions()),
        (lambda: saved(MEGAPIXEL, "PNG"), PIXELS, ModelOptions()),
        (lambda: saved((1601, 1201)), PIXELS, ModelOptions()),
        (lambda: saved(MEGAPIXEL), PIXELS, ModelOptions(resize="nearest")),
    ],
)
def test_another_picture_that_does_not_fit_is_refused(
    body: Callable[[], bytes], wanted: SignatureSpec, options: ModelOptions
) -> None:
    with pytest.raises(TooLarge, match="decoding the image takes"):
        decoded(body(), 5 << 20, wanted, options)
