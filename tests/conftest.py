"""Fixtures that several test modules share: models and a running stack, made once a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from model_zoo import digits, efficientdet_d1
from model_zoo.image_model import ImageModel
from model_zoo.saved_model import export, quiet_tensorflow
from sample_models import main as make_sample_models
from support.stack import REPOSITORY, Stack, running

# How long an example takes says how busy the machine is; what must be quick is measured in turns.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of ``make models``: mobilenet_v2 and digits. Kept in build/ from one run to the next."""
    folder = REPOSITORY / "build" / "sample_models"
    assert make_sample_models([str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def trained_digits() -> Any:
    """The digits net as a Keras model, trained apart from the samples."""
    quiet_tensorflow()
    return digits.trained_model()


@pytest.fixture(scope="session")
def seeded_detector() -> ImageModel:
    """efficientdet_d1, not exported yet."""
    quiet_tensorflow()
    return efficientdet_d1.image_model()


@pytest.fixture(scope="session")
def detector(seeded_detector: ImageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """efficientdet_d1's folder, input uint8; the only one in its parent."""
    root = tmp_path_factory.mktemp("detection") / "efficientdet_d1"
    export(seeded_detector, "uint8", root)
    return root


@pytest.fixture(scope="session")
def stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The sample models, served as ``make serve`` does. Tests that harm it start their own."""
    tmp = tmp_path_factory.mktemp("stack")
    with running(sample_models, tmp, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="mobilenet_v2") as running_stack:
        yield running_stack
