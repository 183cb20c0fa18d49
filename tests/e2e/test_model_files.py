"""Models in formats other than SavedModel through the running stack, and a start that cannot serve them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from support import commands, photos
from support.isolation import own_environ
from support.model_files import FILES, dense, write_dense_as, write_means
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, running

X = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
PLATFORMS = {"model.onnx": "onnx", "model.xml": "openvino_ir", "model.tflite": "litert"}
PHOTO = photos.path_of("images", "china.jpg")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    copy_golden("half_plus_two", folder / "half_plus_two")
    for file in FILES:
        write_dense_as(folder / PLATFORMS[file] / "1" / file)
    write_means(folder / "means" / "1" / "model.xml", 40, 60)
    return folder


@pytest.fixture(scope="module")
def file_stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"LIGHTBOX_TFS_API": "true", "LIGHTBOX_SCALING": "none"}
    with running(models, tmp_path_factory.mktemp("run"), **settings) as found:
        yield found


def of(model: str) -> dict[str, str]:
    return {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={model}"}


def post(stack: Stack, path: str, model: str = "", **body: object) -> Any:
    answer = requests.post(f"{stack.url}{path}", json=body, headers=of(model) if model else {}, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("file", FILES)
def test_every_route_answers_every_format(file_stack: Stack, file: str) -> None:
    model, expected = PLATFORMS[file], dense(X)
    for path in ("/invocations", f"/v1/models/{model}:predict", f"/v1/models/{model}/versions/1:predict"):
        np.testing.assert_allclose(post(file_stack, path, model, instances=X)["predictions"], expected, rtol=1e-5)
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": X}
    (output,) = post(file_stack, f"/v2/models/{model}/infer", inputs=[tensor])["outputs"]
    np.testing.assert_allclose(np.reshape(output["data"], (2, 3)), expected, rtol=1e-5)


def test_saved_models_beside_them_are_answered_as_ever(file_stack: Stack) -> None:
    assert post(file_stack, "/v1/models/half_plus_two:predict", instances=[1.0]) == {"predictions": [3.5]}
    metadata = requests.get(f"{file_stack.url}/v2/models/half_plus_two", timeout=PATIENCE).json()
    assert metadata["platform"] == "tensorflow_savedmodel"


@pytest.mark.parametrize("file", FILES)
def test_format_engine_and_signature_are_shown(file_stack: Stack, file: str) -> None:
    metadata = requests.get(f"{file_stack.url}/v2/models/{PLATFORMS[file]}", timeout=PATIENCE).json()
    assert metadata["platform"] == PLATFORMS[file]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert metadata["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]
    assert metadata["parameters"]["engines"]["serving_default"]["engine"] in ("openvino", "onnxruntime")
    metadata = requests.get(f"{file_stack.url}/v1/models/{PLATFORMS[file]}/metadata", timeout=PATIENCE).json()
    (signature,) = metadata["metadata"]["signature_def"]["signature_def"].values()
    assert signature["method_name"] == "tensorflow/serving/predict"


def test_a_photo_reaches_a_model_with_its_channels_first(file_stack: Stack) -> None:
    answer = file_stack.invoke(PHOTO.read_bytes(), Content_Type="image/jpeg", **of("means"))
    assert answer.status_code == 200, answer.text
    assert answer.json()["predictions"] == [pytest.approx(photos.photo(PHOTO.name).mean((0, 1)), abs=2)]


@pytest.mark.extended
def test_a_new_version_of_another_format_takes_over(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write_dense_as(tmp_path / "m" / "1" / "model.tflite")
    with running(tmp_path / "m", tmp_path_factory.mktemp("run")) as stack:
        write_dense_as(tmp_path / "new" / "model.onnx")
        (tmp_path / "new").rename(tmp_path / "m" / "2")

        def metadata() -> dict[str, Any]:
            found: dict[str, Any] = requests.get(f"{stack.url}/v2/models/m", timeout=PATIENCE).json()
            return found

        stack.wait_until(lambda: metadata()["versions"] == ["2"])
        assert metadata()["platform"] == "onnx"
        np.testing.assert_allclose(post(stack, "/invocations", instances=X)["predictions"], dense(X), rtol=1e-5)
        (tmp_path / "m" / "3").mkdir()
        (tmp_path / "m" / "3" / "model.onnx").write_bytes(b"garbage")
        stack.wait_until(lambda: "version 3 of m" in stack.log or "m/3" in stack.log)
        assert metadata()["versions"] == ["2"]


@pytest.mark.extended
def test_multi_model_mode_loads_them(models: Path, tmp_path: Path) -> None:
    with running(models, tmp_path, SAGEMAKER_MULTI_MODEL="true") as stack:
        for name in PLATFORMS.values():
            made = requests.post(f"{stack.url}/models", json={"model_name": name, "url": name}, timeout=PATIENCE)
            assert made.status_code == 200, made.text
            answer = post(stack, f"/models/{name}/invoke", instances=X)
            np.testing.assert_allclose(answer["predictions"], dense(X), rtol=1e-5)
            assert requests.get(f"{stack.url}/v2/models/{name}", timeout=PATIENCE).json()["platform"] == name
            assert requests.delete(f"{stack.url}/models/{name}", timeout=PATIENCE).status_code == 200


@pytest.mark.extended
def test_a_cut_file_is_a_sentence_before_anything_is_served(tmp_path: Path) -> None:
    """The last bytes are weights. Other files and places: tests/unit/lightbox/model_runtime/formats/test_formats.py."""
    own = tmp_path / "m" / "1" / "model.onnx"
    write_dense_as(own)
    own.write_bytes(own.read_bytes()[:-9])
    environ = own_environ() | {"LIGHTBOX_MODEL_DIR": str(tmp_path), "LIGHTBOX_MODEL_SERVER": "embedded"}
    done = commands.run([REPOSITORY / "serve.sh", "serve"], env=environ)
    assert done.returncode == 1
    assert str(own.parent) in done.stderr
    assert "cannot be read" in done.stderr or "no engine reads the model" in done.stderr
