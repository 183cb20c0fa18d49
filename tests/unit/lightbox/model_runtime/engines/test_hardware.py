"""The kind of processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lightbox.model_runtime.engines import hardware
from support.parameters import each


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    for cached in (hardware.processor, hardware.has_bf16):
        cached.cache_clear()
    yield
    for cached in (hardware.processor, hardware.has_bf16):
        cached.cache_clear()


def test_bf16_is_an_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_PROCESSORS", tmp_path / "cpuinfo")
    kinds = set()
    for words, has in (("flags : avx2 avx512f", False), ("flags : avx512_bf16", True), ("Features : asimd bf16", True)):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\n{words}\n\nprocessor : 1\n")
        assert hardware.has_bf16() == has
        kinds.add(hardware.processor())
        hardware.has_bf16.cache_clear()
        hardware.processor.cache_clear()
    assert len(kinds) == 3


@each(("cores", "threads", "streams"), [(4, 1, 4), (4, 3, 1), (2, 4, 1)])
def test_cores_are_shared_by_calls(cores: int, threads: int, streams: int) -> None:
    assert hardware.Hardware.shared(cores, threads, "").streams == streams
