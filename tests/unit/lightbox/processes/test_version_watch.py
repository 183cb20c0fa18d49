"""Versions whose folders go away and come back on a real disk."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from lightbox.model.options import ModelOptions
from lightbox.plan import PlannedModel
from lightbox.processes.version_watch import VersionWatch


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for version in ("1", "2"):
        (tmp_path / "source" / version).mkdir(parents=True)
        (tmp_path / "shown" / version).parent.mkdir(exist_ok=True)
        (tmp_path / "shown" / version).symlink_to(tmp_path / "source" / version)
    return tmp_path / "source"


def test_a_version_without_its_folder_is_hidden_until_that_is_back(source: Path) -> None:
    shown = source.parent / "shown"
    model = PlannedModel(name="m", base_path=shown, options=ModelOptions(), versions_dir=source)
    watch = VersionWatch({"m": model}, source.parent, [], "", 1.0)
    (source / "1").rename(source / "away")
    watch.server_ended()
    assert [path.name for path in shown.iterdir()] == ["2"]
    (around,) = watch._around
    assert asyncio.run(around.found()).keys() == {2}
    assert [path.name for path in shown.iterdir()] == ["2"]
    (source / "away").rename(source / "1")
    assert asyncio.run(around.found()).keys() == {1, 2}
    assert sorted(path.name for path in shown.iterdir()) == ["1", "2"]
    assert (shown / "1").resolve() == source / "1"
    watch.server_ended()
    assert sorted(path.name for path in shown.iterdir()) == ["1", "2"]


def test_what_was_hidden_is_shown_before_versions_are_followed(source: Path) -> None:
    shown = source.parent / "shown"
    model = PlannedModel(name="m", base_path=shown, options=ModelOptions(), versions_dir=source)
    watch = VersionWatch({"m": model}, source.parent, [], "", 1.0)
    source.rename(source.parent / "away")
    watch.server_ended()
    asyncio.run(watch.show_again())
    assert list(shown.iterdir()) == []
    (source.parent / "away").rename(source)
    asyncio.run(watch.show_again())
    assert sorted(path.name for path in shown.iterdir()) == ["1", "2"]


def test_a_folder_that_is_removed_and_made_again_at_once_is_another_one(source: Path) -> None:
    model = PlannedModel(name="m", base_path=source.parent / "shown", options=ModelOptions(), versions_dir=source)
    (around,) = VersionWatch({"m": model}, source.parent, [], "", 1.0)._around
    before = around.files()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        shutil.rmtree(source / "2")
        (source / "2").mkdir()
        after = around.files()
        assert after[2].folder != before[2].folder
        assert after[1] == before[1]
        before = after
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
