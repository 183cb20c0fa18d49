"""MLPerf's LoadGen, in scripts/loadgen.py, and beside another server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark import highest
from lightbox.tools.model_zoo import efficientnet_lite0
from support import commands
from support.environments import environment
from support.isolation import own_environ
from support.stack import REPOSITORY, Stack, running

PHOTO = REPOSITORY / "docs" / "samples" / "digit-7.png"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes: tfs-model-name=digits"

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(sample_models, tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture(scope="module")
def python() -> Path:
    return environment(".venv-bench") / "bin" / "python"


def loadgen(python: Path, stack: Stack, *options: str) -> tuple[int, dict[str, float]]:
    """Run the script for the minimum duration; return its exit code and figures."""
    url = f"http://127.0.0.1:{stack.port}/invocations"
    command = [str(python), "scripts/loadgen.py", url, str(PHOTO), "--header", ATTRIBUTES, "--seconds=3", *options]
    done = commands.run(command, cwd=REPOSITORY, patience=None)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_the_highest_valid_rate_is_found(python: Path, stack: Stack) -> None:
    code, figures = loadgen(python, stack, "--highest", "--milliseconds", "60000")
    assert (code, figures["valid"], figures["failed"]) == (0, True, 0)
    assert figures["images"] >= 459  # the minimum for a verdict about 99 of 100
    assert 0 < figures["p50"] <= figures["p99"]
    assert figures["rate"] > 0


def test_answers_that_come_late_are_not_valid(python: Path, stack: Stack) -> None:
    code, figures = loadgen(python, stack, "--rate", "50", "--milliseconds", "0.001")
    assert (code, figures["valid"], figures["failed"]) == (1, False, 0)


def test_errors_are_not_valid(python: Path, stack: Stack) -> None:
    code, figures = loadgen(python, stack, "--rate", "50", "--milliseconds", "60000", "--content-type", "text/plain")
    assert (code, figures["valid"]) == (1, False)
    assert figures["failed"] == figures["images"]


def test_servers_are_measured_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(".venv-bench")
    for name, value in own_environ().items():
        monkeypatch.setenv(name, value)
    (folder := tmp_path / highest.MODEL / "1").mkdir(parents=True)
    efficientnet_lite0.save_onnx("uint8", folder)
    found = highest.variants(tmp_path)[:2]
    figures = highest.measured(found, milliseconds=60000, rounds=1, seconds=3)
    assert [*figures] == ["LitServe + ONNX Runtime", "Lightbox, openvino f32"]
    assert [(one["valid"], one["failed"]) for (one,) in figures.values()] == [(True, 0)] * 2
