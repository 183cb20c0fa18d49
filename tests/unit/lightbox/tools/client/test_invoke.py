"""Server-Timing, as lightbox invoke shows it."""

from __future__ import annotations

from lightbox.tools.client.invoke import read_server_timing


def test_server_timing_is_read() -> None:
    assert read_server_timing('decode;dur=1.25, cache;desc="hit", total;desc=all;dur=3') == {"decode": 1.25, "total": 3}
    assert read_server_timing("") == {}
