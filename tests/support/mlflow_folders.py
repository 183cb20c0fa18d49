"""Models in MLflow 3.17.2's layout: its files, with models made by other support modules."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx

from support.models import GOLDEN
from support.onnx_models import write_dense

_WEIGHTS = "e3ea89f4-e953-11f1-9767-02fc00000001.data"
"""MLflow calls them so: they are in no file whose name begins as the model's."""
_PYTHON_FUNCTION = """flavors:
{before}  python_function:
{data}    env:
      conda: conda.yaml
      virtualenv: python_env.yaml
    loader_module: mlflow.{flavor}
    python_version: 3.11.7
{after}mlflow_version: 3.17.2
model_id: null
model_size_bytes: 8686
model_uuid: 1c9e31a364734ee5925108208e436e28
prompts: null
utc_time_created: '2026-11-26 04:41:20.772036'
"""
_ONNX = """  onnx:
    code: null
    data: model.onnx
    onnx_session_options: null
    onnx_version: 1.23.2
    providers:
    - CUDAExecutionProvider
    - CPUExecutionProvider
"""
_TENSORFLOW = """  tensorflow:
    code: null
    model_type: tf2-module
    saved_model_dir: tf2model
"""


def _described(folder: Path, flavor: str, before: str = "", data: str = "", after: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MLmodel").write_text(_PYTHON_FUNCTION.format(flavor=flavor, before=before, data=data, after=after))
    for name in ("conda.yaml", "python_env.yaml", "requirements.txt"):
        (folder / name).write_text(f"# {flavor}\n")
    return folder


def save_onnx(folder: Path) -> None:
    """Write the model of ``write_dense`` as ``mlflow.onnx.save_model`` does: with its weights in a separate file."""
    _described(folder, "onnx", before=_ONNX, data="    data: model.onnx\n")
    write_dense(folder / "model.onnx")
    model = onnx.load(folder / "model.onnx")
    (folder / "model.onnx").unlink()
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location=_WEIGHTS, size_threshold=0)


def save_tensorflow(folder: Path, golden: str, inside: str = "tf2model") -> None:
    """Write a golden model as ``mlflow.tensorflow.save_model`` does, at the path of the flavor's version."""
    _described(folder, "tensorflow", after=_TENSORFLOW.replace("tf2model", inside))
    shutil.copytree(GOLDEN / golden / "1", folder / inside)


def save_other(folder: Path, flavor: str, file: str | None) -> None:
    """Write the layout of another flavor with an empty file; None for a flavor without a file."""
    _described(folder, flavor)
    if file is not None:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).touch()
