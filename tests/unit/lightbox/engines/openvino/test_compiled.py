"""What OpenVINO compiles, kept in a folder that several processes share."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from threading import Thread

import pytest

from lightbox.engines.hardware import Hardware
from lightbox.engines.openvino.compiled import Compiled
from lightbox.engines.openvino.graph import read_meta_graph
from support.models import GOLDEN

MODEL = str(GOLDEN / "half_plus_two" / "1")


def compile_(cache_folder: str) -> None:
    hardware = Hardware(threads=1, streams=1, cache_folder=cache_folder)
    Compiled(MODEL, read_meta_graph(MODEL, ("serve",)), "serving_default", hardware)


def test_one_at_a_time_uses_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "deep" / "cache"
    cache.mkdir(parents=True)
    second = Thread(target=compile_, args=[str(cache)])
    descriptor = os.open(cache, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        second.start()
        for _ in range(5):
            compile_("")  # as long as the second would take
        assert second.is_alive()
        assert not list(cache.iterdir())
    finally:
        os.close(descriptor)
    second.join()
    assert list(cache.glob("*.blob"))


def test_a_cache_that_is_not_there_is_made(tmp_path: Path) -> None:
    compile_(str(tmp_path / "deep" / "cache"))
    assert list((tmp_path / "deep" / "cache").glob("*.blob"))


def test_a_cache_that_cannot_be_made_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    for place, why in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "cache", "Not a directory")):
        compile_(str(place))
        assert caplog.messages[-1] == f"compiled models are not kept: {place}: {why}"
