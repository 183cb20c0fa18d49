"""Each call of the tempting models, answered by the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tempting_models import MODELS, expected, tempting_models
from support.tempting_models.serving import Served, differences, serving


@pytest.fixture(scope="module")
def models() -> Path:
    return tempting_models()


@pytest.fixture(scope="module")
def served(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(models, tmp_path_factory.mktemp("corpus"), "--engine=tensorflow") as found:
        yield found


@pytest.mark.parametrize("model", MODELS)
def test_tensorflow_answers_as_eager_tensorflow_does(models: Path, served: Served, model: str) -> None:
    assert differences(model, expected(models / model), served.answers(model)) == {}
