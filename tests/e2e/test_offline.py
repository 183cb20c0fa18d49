"""A model that is loaded into a process answers each picture of the corpus as an endpoint does, engine by engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lightbox
from lightbox.core.errors import LightboxError
from lightbox.offline import Model
from support.stack import REPOSITORY, Stack

CORPUS = sorted(
    path
    for kind in ("valid", "invalid")
    for path in (REPOSITORY / "tests" / "corpus" / kind).iterdir()
    if path.suffix != ".json"
)
ENGINES = ("tensorflow", "openvino", "auto")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Stack]:
    environ = {"LIGHTBOX_ENGINE": engine, "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2"}
    with Stack(sample_models, tmp_path_factory.mktemp("stack"), environ) as running:
        running.wait_ready()
        yield running


@pytest.fixture(scope="module")
def model(sample_models: Path, engine: str) -> Model:
    found: Model = lightbox.load(sample_models / "mobilenet_v2", engine=engine)
    return found


def told(model: Model, image: Any) -> Any:
    try:
        return model.predict(image)
    except LightboxError as error:
        return {"error": error.message, "code": error.code}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_picture_is_answered_as_by_an_endpoint(stack: Stack, model: Model, path: Path) -> None:
    answer = stack.invoke(path.read_bytes(), Content_Type="application/x-image").json()
    expected = answer["predictions"][0] if "predictions" in answer else {key: answer[key] for key in ("error", "code")}
    assert told(model, path) == expected


def test_no_server_is_imported() -> None:
    program = (
        "import sys, lightbox.offline; "
        "print([name for name in ('flask', 'gunicorn', 'grpc', 'requests', 'lightbox.worker') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "[]\n"
