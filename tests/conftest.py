"""Fixtures that several test modules share: models and a running stack, made once a run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from harness import ports
from model_zoo import digits, efficientdet_d1
from model_zoo.image_model import ImageModel
from model_zoo.saved_model import export, quiet_tensorflow
from sample_models import main as make_sample_models
from support.made_models import made
from support.stack import Stack, running

# How long an example takes says how busy the machine is; what must be quick is measured in turns.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


PORTS_EACH = 2_000
_BASETEMP = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let tests run side by side: each process of them has ports of its own, and all of them short temporary paths.

    A unix socket's path may have 108 bytes.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    low = ports.PORTS.start + PORTS_EACH * (int(worker.removeprefix("gw")) if worker else 0)
    ports.PORTS = range(low, low + PORTS_EACH)
    if worker is None and config.option.basetemp is None:
        config.stash[_BASETEMP] = folder = Path(tempfile.mkdtemp(prefix="t-"))
        config.option.basetemp = str(folder / "t")


def pytest_unconfigure(config: pytest.Config) -> None:
    if (folder := config.stash.get(_BASETEMP, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of ``make models``: mobilenet_v2 and digits."""
    return made("samples", lambda folder: make_sample_models([str(folder)]))


@pytest.fixture(scope="session")
def trained_digits() -> Any:
    """The digits net as a Keras model, trained apart from the samples."""
    quiet_tensorflow()
    import keras

    folder = made("trained_digits", lambda folder: digits.trained_model().save(folder / "digits.keras"))
    return keras.saving.load_model(folder / "digits.keras")


@pytest.fixture(scope="session")
def seeded_detector() -> ImageModel:
    """efficientdet_d1, not exported yet."""
    quiet_tensorflow()
    return efficientdet_d1.image_model()


@pytest.fixture(scope="session")
def detector() -> Path:
    """efficientdet_d1's folder, input uint8; the only one in its parent."""

    def make(folder: Path) -> None:
        quiet_tensorflow()
        export(efficientdet_d1.image_model(), "uint8", folder / "efficientdet_d1")

    return made("detector", make) / "efficientdet_d1"


@pytest.fixture(scope="session")
def stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The sample models, served as ``make serve`` does. Tests that harm it start their own."""
    tmp = tmp_path_factory.mktemp("stack")
    with running(sample_models, tmp, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="mobilenet_v2") as running_stack:
        yield running_stack
