"""``lightbox optimize``: its refusals, and a run without NNCF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lightbox
from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.setting import IN_MODEL
from lightbox.tools.optimize import calibration
from lightbox.tools.optimize.command import command
from lightbox.tools.optimize.trial import Subject
from support.parameters import each


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("LIGHTBOX_MODEL_DIR", "LIGHTBOX_ENGINE", "LIGHTBOX_OPTIONS"):
        monkeypatch.setenv(name, "")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(map(str, arguments)), standalone_mode=False)
    return result.return_value if result.exception is None else -1, result.output


def test_too_few_pictures_are_refused(subject: Subject, photos: Path) -> None:
    code, said = run(subject.path, photos)
    assert code == 1
    assert "--budget: 0.500% takes at least 600 different pictures, got 60; 60 can show 5.00%\n" in said


def test_something_else_must_not_decide(subject: Subject, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = Path(subject.path, "code", "lightbox.json")
    code.parent.mkdir()
    code.write_text(json.dumps({"precision": "bf16"}))
    assert "the options set the precision, which is to be found" in run(subject.path, photos, "--budget", "5%")[1]
    code.unlink()
    monkeypatch.setenv("LIGHTBOX_ENGINE", "openvino")
    assert "LIGHTBOX_ENGINE: expected auto" in run(subject.path, photos, "--budget", "5%")[1]


@each("name", ["m/1/model.onnx", "m.tar.gz", "nothing"])
def test_a_folder_is_needed(subject: Subject, photos: Path, name: str) -> None:
    (photos.parent / "m.tar.gz").touch()
    code, said = run(photos.parent / name, photos, "--budget", "5%")
    assert code in (1, -1), said


@pytest.mark.extended
def test_auto_and_load_take_what_it_finds(subject: Subject, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "find_spec", lambda name: None)
    code, said = run(subject.path, photos, "--budget", "5%")
    assert code == 0, said
    assert "| openvino f32 " in said
    content = disk_cache.read(subject.folder / IN_MODEL)
    assert content is not None
    report = content["optimized"]["report"]
    assert report["budget"] == pytest.approx(0.05)
    assert report["pictures"]["compared"] == 60
    assert {item["engine"] for item in report["tried"]} >= {"openvino", "onnxruntime"}
    model = lightbox.load(subject.path)
    assert model.engine in ("openvino", "onnxruntime")
    assert len(model.predict(next(photos.rglob("*.png")))) == 3
