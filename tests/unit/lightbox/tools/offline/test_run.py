"""lightbox.tools.offline.run: stops, progress, and how often a source is listed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lightbox.tools.offline import run
from lightbox.tools.offline.run import Run, handled
from lightbox.tools.offline.sources import Source
from lightbox.tools.offline.targets import Target
from support.patience import poll
from support.picture_sources import write_folder

COUNT = 50


class Lengths:
    """A model that answers the length of each picture, once the source is counted."""

    name, version, engine, reads = "cats", 3, None, False

    def __init__(self, source: Source) -> None:
        self._source = source

    def responses(self, pictures: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for path, content in pictures:
            assert any(self._source.total for _ in poll())
            yield path, len(content)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(str(write_folder(tmp_path / "in", {f"{number:02}.jpg": b"x" for number in range(COUNT)})))


def test_a_stop_ends_a_run_that_passes_over_finished_pictures(source: Source, tmp_path: Path) -> None:
    stopping, looked = threading.Event(), list[object]()

    class Finished(set[str]):
        def __contains__(self, path: object) -> bool:
            looked.append(path)
            if len(looked) == 3:
                stopping.set()
            return True

    with Target(f"{tmp_path}/out.csv", Lengths(source)) as target:
        target.done = Finished()
        assert Run(source, target, Lengths(source), stopping).run() == 130
    assert len(looked) == 3


class Interrupted(threading.Event):
    """A second signal comes while the first one sets it."""

    def set(self) -> None:
        if not self.is_set():
            super().set()
            signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_that_comes_with_the_first_ends_a_run(source: Source, tmp_path: Path) -> None:
    with Target(f"{tmp_path}/out.csv", Lengths(source)) as target:
        began = Run(source, target, Lengths(source), Interrupted())
        with handled(began.stop), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_source_is_listed_once_and_the_time_left_is_shown(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scandir, listed = os.scandir, list[str]()

    def scanning(folder: Any) -> Any:
        listed.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scanning)
    monkeypatch.setattr(run, "PROGRESS_SECONDS", 0)
    with Target(f"{tmp_path}/out.csv", Lengths(source)) as target:
        assert Run(source, target, Lengths(source), threading.Event()).run() == 0
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith(f"1 of {COUNT} pictures, ") and shown[0].endswith(" left")
    assert len(shown) == COUNT
    assert [folder for folder in listed if folder == f"{tmp_path}/in"] == [f"{tmp_path}/in"]
