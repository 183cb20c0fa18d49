"""Links to versions whose folders go away, while a model server starts again."""

from __future__ import annotations

import asyncio
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
