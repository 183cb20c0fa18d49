"""Compressed request bodies, and the limits on their decompressed size."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightbox.base.errors import MalformedBody, TooLarge, UnsupportedMediaType
from lightbox.base.request_context import RequestContext
from lightbox.codecs.media_type import decoded_body
from support.parameters import each
from support.patience import PATIENCE

BODY = b'{"instances": [1, 2, 3]}' * 1000


@each(
    ("packed", "coding"),
    [
        (BODY, ""),
        (BODY, "identity"),
        (gzip.compress(BODY), "gzip"),
        (gzip.compress(BODY), " X-GZIP "),
        (zlib.compress(BODY), "deflate"),
        (gzip.compress(BODY[:9]) + gzip.compress(BODY[9:]), "gzip"),
        (gzip.compress(BODY) + bytes(40000), "gzip"),
    ],
)
def test_a_body_is_read_as_it_was(packed: bytes, coding: str) -> None:
    assert decoded_body(packed, coding, 1, RequestContext(PATIENCE)) == BODY


def test_a_body_without_a_byte_is_none() -> None:
    assert decoded_body(b"", "gzip", 1, RequestContext(PATIENCE)) == b""
    assert decoded_body(gzip.compress(b""), "gzip", 1, RequestContext(PATIENCE)) == b""


@each("packed", [gzip.compress(BODY)[:-9], b"x", gzip.compress(BODY) + b"x", zlib.compress(BODY)])
def test_a_broken_body_is_malformed(packed: bytes) -> None:
    with pytest.raises(MalformedBody):
        decoded_body(packed, "gzip", 1, RequestContext(PATIENCE))


def test_a_body_may_unfold_to_the_limit_and_not_beyond() -> None:
    limit = 1 << 20
    assert len(decoded_body(gzip.compress(bytes(limit)), "gzip", 1, RequestContext(PATIENCE))) == limit
    with pytest.raises(TooLarge, match="LIGHTBOX_MAX_BODY_MB=1"):
        decoded_body(gzip.compress(bytes(limit + 1)), "gzip", 1, RequestContext(PATIENCE))


def test_a_bomb_of_many_small_members_is_refused() -> None:
    with pytest.raises(TooLarge):
        decoded_body(gzip.compress(b"") * 20_000, "gzip", 1, RequestContext(PATIENCE))


def test_an_unknown_coding_names_the_known_ones() -> None:
    with pytest.raises(UnsupportedMediaType, match="gzip, deflate or identity; got 'br'"):
        decoded_body(b"x", "br", 1, RequestContext(PATIENCE))


@given(st.lists(st.binary(), min_size=1, max_size=5))
def test_any_members_come_back(members: list[bytes]) -> None:
    assert decoded_body(b"".join(map(gzip.compress, members)), "gzip", 1, RequestContext(PATIENCE)) == b"".join(members)
