"""Fixtures that several test modules share: the sample models and a running stack, made once a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_models import main as make_sample_models
from support.stack import REPOSITORY, Stack, running


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of ``make models``: mobilenet_v2 and digits. Kept in build/ from one run to the next."""
    folder = REPOSITORY / "build" / "sample_models"
    assert make_sample_models([str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The sample models, served as ``make serve`` does. Tests that harm it start their own."""
    tmp = tmp_path_factory.mktemp("stack")
    with running(sample_models, tmp, SAGEMAKER_TFS_DEFAULT_MODEL_NAME="mobilenet_v2") as running_stack:
        yield running_stack
