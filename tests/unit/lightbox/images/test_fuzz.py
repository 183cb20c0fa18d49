"""Any bytes decode to an image or raise a LightboxError."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightbox.base.errors import ImageUndecodable, TooLarge
from lightbox.images.decode import ImageLimits, decode_for_resize, open_image
from lightbox.images.resize import for_pillow

VALID = Path(__file__).parents[3] / "corpus" / "valid"
SEEDS = [path.read_bytes() for path in sorted(VALID.iterdir()) if path.suffix != ".json"]
MAGIC = [
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"RIFF\x20\0\0\0WEBPVP8L",
    b"RIFF\x20\0\0\0WEBPVP8X",
    b"BM" + bytes(12) + b"\x28\0\0\0",
    b"II*\0",
    b"MM\0*",
    b"II+\0\x08\0\0\0",
    b"P6 ",
    b"P5 ",
    b"P4 ",
]
EXTREMES = [b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"]
# Small limits keep each example fast. test_limits_bombs.py tests the real limits.
LIMITS = ImageLimits(max_pixels=2_000_000, max_memory_mb=60)

bounded = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def outcome_is_ours(body: bytes) -> None:
    try:
        open_image(body, LIMITS)
        image = for_pillow(decode_for_resize(body, LIMITS, resized=lambda size: (8, 8)).pixels)
    except (ImageUndecodable, TooLarge) as error:
        assert error.message
    else:
        assert image.mode == "RGB"
        assert len(image.tobytes()) == 3 * image.width * image.height


@bounded
@given(st.sampled_from(MAGIC), st.binary(max_size=300))
def test_arbitrary_bytes_behind_a_magic_number(magic: bytes, body: bytes) -> None:
    outcome_is_ours(magic + body)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Generate a valid file with some bytes replaced, inserted, removed or repeated."""
    body = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(body)))
        length = draw(st.integers(0, 12))
        piece = draw(st.one_of(st.binary(max_size=12), st.sampled_from(EXTREMES)))
        body[at : at + length] = piece if draw(st.booleans()) else body[at : at + length] * 2
    return bytes(body)


@pytest.mark.extended
@bounded
@given(mutated())
def test_mutated_images(body: bytes) -> None:
    outcome_is_ours(body)
