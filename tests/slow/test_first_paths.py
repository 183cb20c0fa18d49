"""The first paths of README.md and docs/README.md, typed in a new clone with a new Python; only the port is changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from lightbox.base.settings_types import ScalingName
from lightbox.model.options import ModelOptions
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.server_process import ServerProcess
from support import commands, photos
from support.environments import python_of
from support.isolation import own_environ
from support.onnx_models import write_yolo
from support.patience import PATIENCE
from support.stack import REPOSITORY

OLDEST, NEWEST = 11, 13
"""Of Python 3. ``test_wheel`` has the one between them."""
README = (REPOSITORY / "README.md").read_text()
TUTORIAL = (REPOSITORY / "docs" / "tutorial.md").read_text()
STEPS = {
    int(number): re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for number, text in re.findall(r"^## (\d)\. .*?\n(.*?)(?=^## )", TUTORIAL, re.MULTILINE | re.DOTALL)
}

pytestmark = pytest.mark.timeout(3600)


def block(blocks: Sequence[tuple[str, str]], language: str, containing: str = "") -> str:
    """Return the first block in a language that contains a text."""
    return next(text for kind, text in blocks if kind == language and containing in text)


@dataclass(frozen=True)
class Reader:
    """Types lines in a clone, in terminals where its environment is active once it is there."""

    clone: Path
    environ: dict[str, str]

    @property
    def address(self) -> str:
        return f"localhost:{self.environ['SAGEMAKER_BIND_TO_PORT']}"

    def types(self, lines: str) -> str:
        return commands.output(self._shell(lines), self.environ, self.clone, patience=None)

    def predictions(self, curl: str) -> Any:
        return json.loads(self.types(curl))["predictions"]

    @contextmanager
    def serving(self, line: str) -> Iterator[None]:
        with ServerProcess(self._shell(line), self.environ, self.clone) as server:
            port = int(self.environ["SAGEMAKER_BIND_TO_PORT"])
            server.wait_until(lambda: status_of(port, "/ping") == 200, PATIENCE)
            yield

    def _shell(self, lines: str) -> list[str]:
        return ["bash", "-ec", lines.replace("localhost:8080", self.address)]


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("first")
    (clone := folder / "lightbox").mkdir()
    subprocess.run(f"git ls-files -z | xargs -0 cp --parents -t {clone}", shell=True, cwd=REPOSITORY, check=True)
    (python := folder / "python3").write_text(f'#!/bin/sh\nexec {python_of(request.param)} "$@"\n')
    python.chmod(0o755)
    path = f"{clone}/.venv/bin:{folder}:{os.environ['PATH']}"
    # pip's word for --no-compile: Python compiles the modules that it imports.
    return Reader(
        clone, own_environ() | {"PATH": path, "HOME": str(folder), "PIP_NO_CACHE_DIR": "1", "PIP_NO_COMPILE": "no"}
    )


@pytest.mark.parametrize("reader", [OLDEST], indirect=True)
def test_the_readme_leads_to_answers_of_its_model_and_of_a_file(reader: Reader) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
    *install, serve = block(blocks, "bash").splitlines()
    (shown,) = json.loads(block(blocks, "json"))["predictions"]
    reader.types("\n".join(install))
    shutil.copy(photos.path_of("images", "flower.jpg"), reader.clone / "photo.jpg")
    (photo := reader.clone / "photos").mkdir()
    shutil.copy(photos.path_of("images", "china.jpg"), photo)
    invoke, predict = re.findall(r"`(lightbox (?:invoke|predict) [^`]+)`", README)
    with reader.serving(serve):
        (found,) = reader.predictions(block(blocks, "bash", "curl"))
        assert found == [{**one, "score": pytest.approx(one["score"], abs=0.01)} for one in shown]
        assert "predictions" in reader.types(f"{invoke} --url http://{reader.address}")
    reader.types(predict)
    (line,) = (reader.clone / predict.split()[-1]).read_text().splitlines()
    assert "label" in line

    serve = block(blocks, "bash", "yolo11n.onnx").splitlines()[0]
    write_yolo(Path(reader.environ["HOME"]) / "yolo11n.onnx")
    street = np.full((600, 800, 3), 128, np.uint8)
    street[150:350, 100:300] = 220, 0, 0
    Image.fromarray(street).save(reader.clone / "photo.jpg", quality=95, subsampling=0)
    with reader.serving(serve):
        (found,) = reader.predictions(f"curl -s --data-binary @photo.jpg {reader.address}/invocations")
    assert [one["label"] for one in found] == ["stop sign"]


@pytest.mark.parametrize("reader", [NEWEST], indirect=True)
def test_the_tutorial_leads_to_answers_with_class_names(reader: Reader) -> None:
    assert list(STEPS) == [1, 2, 3, 4, 5, 6]
    install, train = (text for kind, text in STEPS[1] if kind == "bash")
    reader.types(install)
    (reader.clone / "train.py").write_text(block(STEPS[1], "python"))
    reader.types(train)
    names = re.findall(r"^[ │]*[├└]── ([\w.-]+)", block(STEPS[1], ""), re.MULTILINE)
    assert sorted(names) == sorted(path.name for path in (reader.clone / "my_models").rglob("*"))

    said, shown = (
        re.sub(r"(its engine for \w+): .*", r"\1", text)  # which one is faster depends on the machine
        for text in (
            reader.types(block(STEPS[2], "bash")),
            block(STEPS[2], "").replace("/home/you/lightbox", str(reader.clone)),
        )
    )
    assert said.strip().endswith(shown.strip())

    serve = block(STEPS[3], "bash")
    with reader.serving(serve):
        (shown_row,) = json.loads(block(STEPS[4], "json"))["predictions"]
        (row,) = reader.predictions(block(STEPS[4], "bash"))
        assert row == pytest.approx(shown_row, abs=0.01)
        assert "none" in reader.types(block(STEPS[5], "bash"))

    reader.types(block(STEPS[6], "bash", "labels"))
    with reader.serving(serve):
        (shown_row,) = json.loads(block(STEPS[6], "json"))["predictions"]
        (row,) = reader.predictions(block(STEPS[6], "bash", "curl"))
    assert row[0] == shown_row[0] | {"score": pytest.approx(shown_row[0]["score"], abs=0.01)}
    assert [list(entry) for entry in row] == [list(entry) for entry in shown_row]


def test_the_tutorials_table_has_every_scaling() -> None:
    rows = re.findall(r"^\| .* \| `(\{.*\})` \|$", TUTORIAL, re.MULTILINE)
    assert {ModelOptions.model_validate_json(row).scaling for row in rows} | {"none"} == set(get_args(ScalingName))
