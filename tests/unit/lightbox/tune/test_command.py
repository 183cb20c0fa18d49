"""What ``serve.sh tune`` starts its stacks with."""

from __future__ import annotations

from pathlib import Path

from lightbox.model.layout import ModelOnDisk, find_models
from lightbox.processes.models_on_disk import plan_models
from lightbox.settings_loading import load_settings
from lightbox.tune.command import only
from support.model_files import write_dense_as
from support.models import copy_golden


def served(models: Path, folder: Path, name: str) -> list[ModelOnDisk]:
    """Return what a start would find that serves one of the models alone."""
    settings = load_settings({"LIGHTBOX_MODEL_DIR": str(models)})
    folder.mkdir()
    environ = only(plan_models(settings)[0][name], settings, folder)
    assert environ["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"] == name
    return find_models(Path(environ["LIGHTBOX_MODEL_DIR"]))


def test_one_model_is_served_alone(tmp_path: Path) -> None:
    copy_golden("half_plus_two", tmp_path / "models" / "half")
    write_dense_as(tmp_path / "models" / "dense" / "1" / "model.onnx")
    for name in ("half", "dense"):
        (model,) = served(tmp_path / "models", tmp_path / f"links_of_{name}", name)
        assert (model.name, model.base_path.resolve()) == (name, tmp_path / "models" / name)


def test_a_model_file_is_served_as_it_is(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "net.tflite")
    (model,) = served(tmp_path / "net.tflite", tmp_path / "links", "net")
    assert model.base_path == tmp_path / "net.tflite"
