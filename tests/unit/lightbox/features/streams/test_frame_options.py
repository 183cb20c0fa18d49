"""The options of a stream's frames."""

from __future__ import annotations

import pytest

from lightbox.base.errors import BadRequest
from lightbox.features.streams.frame_options import Choice, from_query, from_text
from support.parameters import each


@each(
    ("query", "sentence"),
    [
        ("latest=1", "latest: expected true or false, got '1'"),
        ("a=%0d%0ab", "expected a name and a value of plain ASCII"),
        ("a=b,c", "no commas"),
        ("a=%C3%A9", "plain ASCII"),
        (f"a={'b' * 2000}", "expected 1024 characters in all at most, got 2003"),
        ("&".join(f"a{number}=b" for number in range(60)), "expected 50 pairs at most"),
    ],
)
def test_what_fits_no_header_is_refused(query: str, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        from_query(query)


@each("text", ["", "a", "=b", "a=b,", "a=b,c"])
def test_a_text_frame_that_is_no_pairs_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="expected"):
        from_text(text, Choice())
