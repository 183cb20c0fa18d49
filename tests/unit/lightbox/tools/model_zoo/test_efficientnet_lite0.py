"""EfficientNet-Lite0: the names of its classes."""

from pathlib import Path

import pytest

import sample_models
from lightbox.tools.model_zoo import folder as layout


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """A folder that looks like the result of a finished run."""
    for name in sample_models.SAMPLES:
        layout.write_settings(tmp_path / name, {"scaling": "unit"})
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "saved_model.pb").touch()
    return tmp_path


@pytest.mark.extended
def test_lost_settings_are_written_again_and_the_version_stays(complete: Path) -> None:
    model = complete / "efficientnet_lite0"
    (model / layout.SETTINGS).unlink()
    assert sample_models.main([str(complete)]) == 0
    assert layout.read_settings(model) == {"scaling": "none", "labels": "labels.txt"}
    assert len((model / layout.LABELS).read_text().splitlines()) == 1000
    assert (model / "1" / "saved_model.pb").stat().st_size == 0
