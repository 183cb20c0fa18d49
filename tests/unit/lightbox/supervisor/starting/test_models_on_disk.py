"""Options for all models, of each model that is planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.planning import make_plan
from support.onnx_models import YOLO_NAMES, write_classifier, write_yolo


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "models").mkdir()
    folders = {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models"), "LIGHTBOX_CODE_DIR": str(tmp_path / "code")}
    return folders | {"SAGEMAKER_MULTI_MODEL": "true"}


def test_names_for_all_models_are_left_out_where_they_do_not_fit(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, classes in (("colors", 3), ("more", 4)):
        write_classifier(tmp_path / name / "1" / "model.onnx", range(3), classes)
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("run")))
    environ = {"LIGHTBOX_MODEL_DIR": str(tmp_path), "LIGHTBOX_OPTIONS": '{"labels": ["a", "b", "c"]}'}
    settings = load_settings(environ | {"LIGHTBOX_MODEL_SERVER": "embedded"})
    with RunDir() as run_dir:
        models = make_plan(settings, run_dir).models
    assert models["colors"].options.labels == ("a", "b", "c")
    assert models["more"].options.labels is None


def test_each_option_for_all_models_is_left_out_where_it_does_not_fit(tmp_path: Path, environ: dict[str, str]) -> None:
    """With one of them left out, the others must fit by themselves."""
    write_classifier(tmp_path / "models" / "colors" / "1" / "model.onnx")
    write_yolo(tmp_path / "models" / "yolo" / "1" / "model.onnx")
    fixed = environ | {"SAGEMAKER_MULTI_MODEL": "false", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "yolo"}
    for labels, of_colors, of_yolo in (
        (YOLO_NAMES, (None, None, 2), ("ultralytics", YOLO_NAMES, 2)),
        (("cat", "dog", "cow"), (None, ("cat", "dog", "cow"), 2), (None, None, None)),
    ):
        text = json.dumps({"detections": "ultralytics", "labels": labels, "top_k": 2})
        with RunDir() as run_dir:
            models = make_plan(load_settings(fixed | {"LIGHTBOX_OPTIONS": text}), run_dir).models
        for name, expected in (("colors", of_colors), ("yolo", of_yolo)):
            options = models[name].options
            assert (options.detections, options.labels, options.top_k) == expected
