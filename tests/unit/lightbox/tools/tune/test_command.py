"""The environment in which ``lightbox tune`` starts its stacks."""

from __future__ import annotations

from pathlib import Path

from lightbox.model_files.layout import ModelOnDisk
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.models_on_disk import plan_models
from lightbox.tools.tune.command import environ_of_one_model
from support.model_files import write_dense_as
from support.models import copy_golden


def served(models: Path, name: str) -> ModelOnDisk:
    """Return the model that a start finds when it serves only this model."""
    settings = load_settings({"LIGHTBOX_MODEL_DIR": str(models)})
    found, default = plan_models(load_settings(environ_of_one_model(plan_models(settings)[0][name], settings)))
    assert list(found) == [default] == [name]
    return found[name]


def test_one_model_is_served_alone(tmp_path: Path) -> None:
    copy_golden("half_plus_two", tmp_path / "half")
    write_dense_as(tmp_path / "dense" / "1" / "model.onnx")
    for name in ("half", "dense"):
        assert served(tmp_path, name).base_path == tmp_path / name


def test_a_model_file_is_served_as_it_is(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "net.tflite")
    assert served(tmp_path / "net.tflite", "net").base_path == tmp_path / "net.tflite"
