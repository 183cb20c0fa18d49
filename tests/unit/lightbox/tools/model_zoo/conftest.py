"""Models exported once for all tests, because TensorFlow needs seconds for each export."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lightbox.tools.model_zoo import digits, mobilenet_v2, weights
from lightbox.tools.model_zoo.export import export, quiet_tensorflow
from lightbox.tools.model_zoo.image_model import ImageModel, InputForm
from lightbox.tools.model_zoo.weights import unreachable
from support import photos
from support.made_models import made
from support.patience import PATIENCE

quiet_tensorflow()

FORMS: tuple[InputForm, ...] = ("uint8", "bytes")
Predict = Callable[[Path, Any], dict[str, NDArray[np.float32]]]


@pytest.fixture(scope="session")
def signature() -> Callable[[Path], Any]:
    """Load version 1 of a model's folder once and return its signature."""
    import tensorflow as tf

    @cache
    def load(root: Path) -> Any:
        return tf.saved_model.load(str(root / "1")).signatures["serving_default"]

    return load


@pytest.fixture(scope="session")
def predict(signature: Callable[[Path], Any]) -> Predict:
    """Call version 1 of a model's folder with its only input; return the outputs by name."""
    import tensorflow as tf

    def call(root: Path, image: Any) -> dict[str, NDArray[np.float32]]:
        (name,) = signature(root).structured_input_signature[1]
        outputs = signature(root)(**{name: tf.constant(image)})
        return {name: value.numpy() for name, value in outputs.items()}

    return call


@pytest.fixture(scope="session")
def seeded_mobilenet_v2() -> Any:
    """Return the Keras model of the sample models."""
    return mobilenet_v2.seeded_model()


@pytest.fixture(scope="session")
def digits_forms(sample_models: Path, trained_digits: Any) -> dict[str, Path]:
    """Map each input form to its folder of the digits model."""
    return {"float32": sample_models / "digits"} | other_forms("digits", lambda: digits.image_model(trained_digits))


def other_forms(name: str, model: Callable[[], ImageModel]) -> dict[str, Path]:
    def make(folder: Path) -> None:
        built = model()
        for form in FORMS:
            export(built, form, folder / form)

    return {form: made(f"forms_of_{name}", make) / form for form in FORMS}


@pytest.fixture(scope="session")
def photo() -> bytes:
    """A real JPEG, 640x427."""
    return photos.path_of("images", "china.jpg").read_bytes()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limits for slow machines, unless a test sets its own."""
    monkeypatch.setattr(unreachable, "__defaults__", (PATIENCE,))
    monkeypatch.setattr(weights, "STALL_SECONDS", PATIENCE)


@pytest.fixture
def out(sample_models: Path, tmp_path: Path) -> Path:
    """Return a writable copy of the digits model, with version 1."""
    return Path(shutil.copytree(sample_models / "digits", tmp_path / "digits"))
