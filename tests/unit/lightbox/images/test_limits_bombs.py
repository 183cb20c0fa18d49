"""Decoding any file takes at most 5 s of CPU time and 500 MB of memory, however small the file is.

Seconds are scaled to this machine: the reference machine decodes a plain photo in PLAIN_SECONDS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from time import thread_time

import pytest
from PIL import Image

from corpus import bombs
from lightbox.base.errors import LightboxError
from lightbox.images.decode import ImageLimits, decode_rgb
from support.memory_use import PeakGrowth

pytestmark = pytest.mark.extended

PLAIN_SECONDS = 0.05


@cache
def plain() -> bytes:
    file = BytesIO()
    Image.effect_noise((200, 100), 50).resize((2000, 1000)).convert("RGB").save(file, "PNG")
    return file.getvalue()


def measured_second() -> float:
    """Return the length of one reference second on this machine now."""
    photo, started = plain(), thread_time()
    assert outcome(photo, ImageLimits()) is None
    return (thread_time() - started) / PLAIN_SECONDS


def outcome(body: bytes, limits: ImageLimits) -> str | None:
    try:
        decode_rgb(body, limits).resize((224, 224))
    except LightboxError as error:
        return error.code
    return None


@pytest.mark.parametrize("make", bombs.BOMBS.values(), ids=bombs.BOMBS.keys())
def test_bomb(make: Callable[[], bombs.Bomb]) -> None:
    body, expected = make()
    slow = expected == bombs.SLOW
    usual, second = ImageLimits(), measured_second()
    header, whole = (0.1, 0.2) if slow else (usual.header_cpu_seconds, usual.cpu_seconds)
    limits = ImageLimits(header_cpu_seconds=header * second, cpu_seconds=whole * second)
    growth, started = PeakGrowth(), thread_time()
    code = outcome(body, limits)
    took, grew = thread_time() - started, growth.mb()
    assert code == (bombs.UNDECODABLE if slow else expected)
    assert took < (1 if slow else 5) * second
    assert grew < 500
