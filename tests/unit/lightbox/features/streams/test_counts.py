"""The counts of streams, for a reader in another process."""

from __future__ import annotations

from pathlib import Path

from lightbox.features.streams.counts import StreamCounts, read


def test_a_restart_forgets_streams_and_keeps_dropped_frames(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    assert read(path) == (0, 0)
    counts = StreamCounts(path)
    assert read(path) == (0, 0)
    for _ in range(3):
        counts.opened()
        counts.dropped()
    counts.closed()
    assert read(path) == (2, 3)
    StreamCounts(path).opened()
    assert read(path) == (1, 3)


def test_counts_need_no_callback() -> None:
    counts = StreamCounts()
    counts.opened()
    counts.dropped()
    counts.closed()
