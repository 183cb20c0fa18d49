"""SavedModels on which engines tend to differ from TensorFlow, with calls and TensorFlow's results."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

from support.made_models import made
from support.tempting_models import arrays, effects, first, floats, images, integers, rare, shapes
from support.tempting_models.cases import EXPECTED, Answer, Case, Model
from support.tempting_models.differences import difference

__all__ = ["MODELS", "Answer", "Case", "Model", "config", "difference", "expected", "tempting_models"]

MODELS: Mapping[str, Model] = {
    model.name: model
    for part in (integers, floats, arrays, shapes, images, effects, first, rare)
    for model in part.MODELS
}


def tempting_models() -> Path:
    """Return the folder of all models, one folder each."""
    return made("tempting_models", _make, ("tests/support/tempting_models", "requirements/dev.lock"))


def _make(folder: Path) -> None:
    from lightbox.tools.model_zoo.export import quiet_tensorflow

    quiet_tensorflow()
    import tensorflow as tf

    for model in MODELS.values():
        model.save(tf, folder / model.name)


def expected(folder: Path) -> Mapping[tuple[str, int], Answer]:
    """Return eager TensorFlow's answers for a model's folder, by signature and number of the call."""
    answers: Mapping[tuple[str, int], Answer] = pickle.loads((folder / EXPECTED).read_bytes())
    return answers


def config(folder: Path) -> str:
    """Return a ModelServerConfig with all models."""
    entries = "\n".join(
        f'config {{ name: "{name}" base_path: "{folder / name}" model_platform: "tensorflow" }}' for name in MODELS
    )
    return f"model_config_list {{ {entries} }}"
