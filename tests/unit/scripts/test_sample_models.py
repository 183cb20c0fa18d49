import json
import os
import sys
from pathlib import Path

import pytest

import sample_models
from lightbox.tools.model_zoo import folder as layout
from support import commands

SCRIPT = sample_models.__file__


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """A folder that looks like the result of a finished run."""
    for name in sample_models.SAMPLES:
        layout.write_settings(tmp_path / name, {"scaling": "unit"})
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "saved_model.pb").touch()
    return tmp_path


def test_the_models_are_made_with_their_settings(request: pytest.FixtureRequest) -> None:
    samples: Path = request.getfixturevalue("sample_models")
    assert sorted(path.name for path in samples.iterdir()) == sorted(sample_models.SAMPLES)
    expected = {
        "digits": {"scaling": "unit"},
        "mobilenet_v2": {"scaling": "tf"},
        "efficientnet_lite0": {"scaling": "none", "labels": "labels.txt"},
    }
    for name, found in expected.items():
        assert (samples / name / "1" / "saved_model.pb").is_file()
        settings = json.loads((samples / name / "code" / "lightbox.json").read_text())
        assert settings == found


def test_with_all_there_nothing_heavy_is_imported_and_nothing_said(complete: Path) -> None:
    check = (
        "import sys, sample_models; code = sample_models.main(sys.argv[1:]);"
        "heavy = {'tensorflow', 'keras', 'numpy', 'sklearn'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(SCRIPT).parent)}
    ended = commands.run([sys.executable, "-c", check, str(complete)], env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_labels_of_ones_own_stay(tmp_path: Path) -> None:
    layout.write_settings(tmp_path, {"scaling": "none", "labels": ["one"]}, ("tench", "goldfish"))
    assert layout.read_settings(tmp_path)["labels"] == ["one"]
    assert not (tmp_path / layout.LABELS).exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert sample_models.main([str(tmp_path / "file")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sample_models.py: ")
    assert str(tmp_path / "file") in line
