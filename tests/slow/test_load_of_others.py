"""Third-party load generators: MLPerf's LoadGen in scripts/loadgen.py; hey and h2load as in the benchmark."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark import other_clients
from benchmark.servers import Address, Running
from support.environments import environment
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
    command: list[str | Path] = [
        python,
        "scripts/loadgen.py",
        url,
        PHOTO,
        "--header",
        ATTRIBUTES,
        "--seconds",
        "3",
        *options,
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("scenario", ["Server", "Offline"])
def test_loadgen_gives_its_verdict(python: Path, stack: Stack, scenario: str) -> None:
    code, figures = loadgen(python, stack, "--scenario", scenario, "--rate", "200", "--milliseconds", "60000")
    assert figures["failed"] == 0
    assert figures["images"] >= 459  # the minimum for a verdict about 99 of 100
    assert 0 < figures["p50"] <= figures["p99"]
    if scenario == "Server":
        assert (code, figures["valid"]) == (0, True)


def test_answers_that_come_late_are_not_valid(python: Path, stack: Stack) -> None:
    code, figures = loadgen(python, stack, "--rate", "50", "--milliseconds", "0.001")
    assert (code, figures["valid"], figures["failed"]) == (1, False, 0)


def test_errors_are_not_valid(python: Path, stack: Stack) -> None:
    code, figures = loadgen(python, stack, "--rate", "50", "--milliseconds", "60000", "--content-type", "text/plain")
    assert (code, figures["valid"]) == (1, False)
    assert figures["failed"] == figures["images"]


@pytest.mark.parametrize("tool", [other_clients.hey, other_clients.h2load])
def test_other_clients_are_read(stack: Stack, tmp_path: Path, tool: other_clients.Tool) -> None:
    package = {"hey": "hey", "h2load": "nghttp2-client"}[tool.__name__]
    subprocess.run(["scripts/ensure_debian.sh", tool.__name__, package], cwd=REPOSITORY, check=True)
    served = Running(stack, Address(stack.port))
    sample = tool(other_clients.Target(served, PHOTO, ATTRIBUTES, tmp_path), 24, 4)
    assert (sample.answers, sample.errors) == (24, 0)
    assert 0 < max(sample.latencies) <= sample.seconds
    assert sample.cpu_seconds > 0
