"""Named classes end to end: code/lightbox.json with labels and top_k, without a handler."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, running

DIGIT = (REPOSITORY / "docs" / "samples" / "digit-7.png").read_bytes()
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
IMAGE = "application/x-image"
WIRES = ["grpc", "rest"]


def with_options(folder: Path, sample_models: Path, name: str, **options: Any) -> None:
    shutil.copytree(sample_models / "digits", folder / name)
    path = folder / name / "code" / "lightbox.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | options))


@pytest.fixture(scope="module")
def labelled(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run models with names from a list, from a file, and without; one also has a pair of AWS's handlers."""
    folder = tmp_path_factory.mktemp("labelled")
    with_options(folder, sample_models, "listed", labels=NAMES, top_k=3)
    with_options(folder, sample_models, "filed", labels="names.txt")
    (folder / "filed" / "code" / "names.txt").write_text("\n".join(NAMES))
    with_options(folder, sample_models, "numbered", top_k=1)
    with_options(folder, sample_models, "paired", labels=NAMES)
    (folder / "paired" / "code" / "inference.py").write_text(
        "import json\n\n"
        "def input_handler(data, context):\n"
        "    return data.read()\n\n"
        "def output_handler(response, context):\n"
        "    return json.dumps(list(response.json())), 'application/json'\n"
    )
    with running(folder, tmp_path_factory.mktemp("run"), SAGEMAKER_TFS_DEFAULT_MODEL_NAME="listed") as stack:
        yield stack


def ask(stack: Stack, model: str, wire: str = "grpc", body: bytes | str = DIGIT, **headers: str) -> requests.Response:
    attributes = f"tfs-model-name={model},tfs-transport={wire}"
    data = body.encode() if isinstance(body, str) else body
    answer = stack.invoke(data, X_Amzn_SageMaker_Custom_Attributes=attributes, **{"Content_Type": IMAGE, **headers})
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("wire", WIRES)
def test_the_best_classes_of_an_image(labelled: Stack, wire: str) -> None:
    (row,) = ask(labelled, "listed", wire).json()["predictions"]
    assert [list(item) for item in row] == [["label", "class", "score"]] * 3
    assert (row[0]["label"], row[0]["class"]) == ("seven", 7)
    assert row[0]["score"] > 0.9
    assert [item["score"] for item in row] == sorted((item["score"] for item in row), reverse=True)
    assert all(item["label"] == NAMES[item["class"]] for item in row)


def test_names_from_a_file_and_none(labelled: Stack) -> None:
    (row,) = ask(labelled, "filed").json()["predictions"]
    assert len(row) == 5
    assert row[0]["label"] == "seven"
    (row,) = ask(labelled, "numbered").json()["predictions"]
    assert [(list(item), item["class"]) for item in row] == [(["class", "score"], 7)]


def test_several_images(labelled: Stack) -> None:
    form = [("a", ("a.png", DIGIT, IMAGE)), ("b", ("b.png", DIGIT, IMAGE))]
    request = requests.Request("POST", "http://x", files=form).prepare()
    answer = ask(labelled, "listed", body=request.body or b"", Content_Type=request.headers["Content-Type"])
    assert [row[0]["label"] for row in answer.json()["predictions"]] == ["seven", "seven"]


def test_lines(labelled: Stack) -> None:
    lines = ask(labelled, "listed", Accept="application/jsonlines").text.splitlines()
    assert [json.loads(line)[0]["label"] for line in lines] == ["seven"]


@pytest.mark.parametrize("accept", ["application/x-npy", "text/csv"])
def test_other_types_have_all_scores(labelled: Stack, accept: str) -> None:
    body = ask(labelled, "listed", Accept=accept).content
    scores = np.load(io.BytesIO(body)) if accept.endswith("npy") else np.loadtxt(io.BytesIO(body), delimiter=",")
    assert scores.size == 10
    assert scores.argmax() == 7


def test_tensors_have_all_scores(labelled: Stack) -> None:
    """The Open Inference Protocol's responses match the model's metadata."""
    tensor = {"name": "input_tensor", "datatype": "FP32", "shape": [1, 8, 8, 3], "data": [0.5] * 192}
    answer = requests.post(
        f"http://127.0.0.1:{labelled.port}/v2/models/listed/infer", json={"inputs": [tensor]}, timeout=PATIENCE
    )
    assert answer.json()["outputs"][0]["shape"] == [1, 10]


def test_a_handler_gets_what_the_model_answers(labelled: Stack) -> None:
    body = json.dumps({"instances": np.zeros((1, 8, 8, 3)).tolist()}).encode()
    assert ask(labelled, "paired", body=body, Content_Type="application/json").json() == ["predictions"]
