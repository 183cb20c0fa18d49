"""No file takes more than 5 s of processor time or 500 MB, however little it weighs."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

import pytest

from corpus import bombs
from harness.memory import PeakGrowth
from lightbox.errors import LightboxError
from lightbox.images.decode import ImageLimits, decode_rgb
from lightbox.images.transform import resize

IMPATIENT = ImageLimits(header_cpu_seconds=0.1, cpu_seconds=0.2)


def outcome(body: bytes, limits: ImageLimits) -> str | None:
    try:
        resize(decode_rgb(body, limits), (224, 224))
    except LightboxError as error:
        return error.code
    return None


@pytest.mark.parametrize("make", bombs.BOMBS.values(), ids=bombs.BOMBS.keys())
def test_bomb(make: Callable[[], bombs.Bomb]) -> None:
    body, expected = make()
    slow = expected == bombs.SLOW
    growth, started = PeakGrowth(), thread_time()
    code = outcome(body, IMPATIENT if slow else ImageLimits())
    took, grew = thread_time() - started, growth.mb()
    assert code == (bombs.UNDECODABLE if slow else expected)
    assert took < (1 if slow else 5)
    assert grew < 500
