"""Each call of the tempting models, answered by the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from support.model_server import ModelServer
from support.predicting import predict
from support.tempting_models import MODELS, Answer, config, difference, expected, tempting_models

Answers = dict[tuple[str, int], Answer]


@pytest.fixture(scope="module")
def models() -> Path:
    return tempting_models()


def served(models: Path, folder: Path, *flags: str) -> Iterator[grpc.Channel]:
    """Run a server with all models."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.config").write_text(config(models))
    with ModelServer(folder, f"--model_config_file={folder / 'models.config'}", *flags) as server:
        server.wait_ready()
        with grpc.insecure_channel(server.grpc_address) as channel:
            yield channel


@pytest.fixture(scope="module")
def by_tensorflow(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    yield from served(models, tmp_path_factory.mktemp("tensorflow"), "--engine=tensorflow")


def answers(channel: grpc.Channel, model: str) -> Answers:
    """Send each call of a model once, in order; return the answers by signature and number."""
    return {
        (case.name, index): predict(channel, model, case.name, case.feeds(index))
        for case in MODELS[model].cases
        for index in range(len(case.calls))
    }


def differences(model: str, wanted: Answers, got: Answers) -> list[str]:
    """Return a line for each call that is answered otherwise."""
    cases = {case.name: case for case in MODELS[model].cases}
    found = ((key, difference(cases[key[0]], answer, got[key])) for key, answer in wanted.items())
    return [f"{model}.{name}, call {index}: {why}" for (name, index), why in found if why]


@pytest.mark.parametrize("model", MODELS)
def test_tensorflow_answers_as_eager_tensorflow_does(models: Path, by_tensorflow: grpc.Channel, model: str) -> None:
    assert differences(model, dict(expected(models / model)), answers(by_tensorflow, model)) == []
